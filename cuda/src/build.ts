// npm run build:cuda [-- --verbose]: builds the CUDA libraries that scan (cuda/scan) and that rank
// (cuda/ranking), their addons, and the program that checks the first, where there is a compiler
// for it. Never part of another build: nothing needs it but the kernel `cuda`.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const own = (path: string) => resolve(import.meta.dirname, '..', path);
const scanning = own('scan');
const ranking = own('ranking');
const output = own('build');
const native = join(dirname(fileURLToPath(import.meta.resolve('@hers/scan/accelerator'))), '../native');
/** A100, H100 and H200; newer devices compile the PTX of the last one. */
const ARCHITECTURES = ['arch=compute_80,code=sm_80', 'arch=compute_90,code=sm_90', 'arch=compute_90,code=compute_90'];

const { values } = parseArgs({ options: { verbose: { type: 'boolean', default: false } } });

function nvcc(): string | undefined {
  const folders = [process.env.CUDA_HOME, process.env.CUDA_PATH, '/usr/local/cuda'].flatMap((home) =>
    home ? [join(home, 'bin')] : [],
  );
  folders.push(...(process.env.PATH ?? '').split(':'));
  return folders.map((each) => join(each, 'nvcc')).find((path) => existsSync(path));
}

function run(command: string, args: readonly string[], what: string): void {
  const { status, error, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) {
    console.error(`${what} could not be built: ${error?.message ?? `${stdout}${stderr}`.trim()}`);
    process.exit(1);
  }
  if (values.verbose) console.log(`${stdout}${stderr}`.trim());
}

const compiler = nvcc();
if (!compiler) {
  console.error(
    'there is no nvcc on this machine: install the CUDA toolkit, version 12 or newer, and put nvcc on the PATH or set CUDA_HOME',
  );
  process.exit(1);
}
const device = ARCHITECTURES.flatMap((each) => ['-gencode', each]);
const report = values.verbose ? ['-Xptxas', '-v'] : [];
const cxx = process.env.CXX ?? 'c++';
const headers = join(dirname(fileURLToPath(import.meta.resolve('node-api-headers/package.json'))), 'include');
const addonFlags = ['-std=c++17', '-O2', '-fPIC', '-fvisibility=hidden', '-DNAPI_VERSION=8', `-I${headers}`, '-shared'];

/** How a program or an addon finds the library beside it. */
const beside = (library: string) => [library, '-Wl,-rpath,$ORIGIN', '-lpthread'];

/** A library and its addon. Written beside what is there, which may be in use. */
function build(sources: readonly string[], folder: string, library: string, addon: string): void {
  mkdirSync(dirname(library), { recursive: true });
  const host = ['-Xcompiler', '-fPIC,-fvisibility=hidden', '-shared', '-cudart', 'static'];
  const name = ['-Xlinker', `-soname=${basename(library)}`];
  const options = ['-std=c++17', '-O3', '--threads', '0', ...host, ...name, ...device, ...report];
  run(compiler!, [...options, '-o', `${library}.new`, ...sources], basename(library));
  renameSync(`${library}.new`, library);
  run(cxx, [...addonFlags, '-o', `${addon}.new`, join(folder, 'addon.cc'), ...beside(library)], basename(addon));
  renameSync(`${addon}.new`, addon);
}

const library = join(output, 'libhers_cuda.so');
const addon = join(output, 'hers_cuda.node');
build([join(scanning, 'library.cu'), join(native, 'tables.cc')], scanning, library, addon);
const decryptLibrary = join(output, 'libhers_decrypt.so');
const decryptAddon = join(output, 'hers_decrypt.node');
build([join(ranking, 'library.cu')], ranking, decryptLibrary, decryptAddon);
const program = join(output, 'hers_cuda_check');
const parts = ['variant_generic.cc', 'tables.cc'].map((name) => join(native, name));
run(
  cxx,
  ['-std=c++17', '-O2', '-o', program, join(scanning, 'check.cc'), ...parts, ...beside(library)],
  'the program that checks it',
);
console.log(`built ${[library, addon, decryptLibrary, decryptAddon, program].join(', ')}`);
