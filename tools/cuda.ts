// npm run build:cuda [-- --verbose]: builds the CUDA library, its addon and the program that checks
// them (packages/scan/cuda), where there is a compiler for it. Never part of another build: nothing
// needs it but the kernel `cuda`.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const scan = resolve(import.meta.dirname, '../packages/scan');
const folder = join(scan, 'cuda');
const native = join(scan, 'native');
const output = join(scan, 'build');
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
mkdirSync(output, { recursive: true });
const library = join(output, 'libhers_cuda.so');
const sources = [join(folder, 'library.cu'), join(native, 'tables.cc')];
const device = ARCHITECTURES.flatMap((each) => ['-gencode', each]);
const host = [
  '-Xcompiler',
  '-fPIC,-fvisibility=hidden',
  '-shared',
  '-cudart',
  'static',
  '-Xlinker',
  '-soname=libhers_cuda.so',
];
const report = values.verbose ? ['-Xptxas', '-v'] : [];
run(
  compiler,
  ['-std=c++17', '-O3', '--threads', '0', ...host, ...device, ...report, '-o', `${library}.new`, ...sources],
  'the CUDA library',
);
renameSync(`${library}.new`, library);
const cxx = process.env.CXX ?? 'c++';
const beside = [library, '-Wl,-rpath,$ORIGIN', '-lpthread'];
const headers = join(dirname(fileURLToPath(import.meta.resolve('node-api-headers/package.json'))), 'include');
const addon = join(output, 'hers_cuda.node');
const addonFlags = ['-std=c++17', '-O2', '-fPIC', '-fvisibility=hidden', '-DNAPI_VERSION=8', `-I${headers}`, '-shared'];
run(cxx, [...addonFlags, '-o', `${addon}.new`, join(folder, 'addon.cc'), ...beside], 'the CUDA addon');
renameSync(`${addon}.new`, addon);
const program = join(output, 'hers_cuda_check');
const parts = ['variant_generic.cc', 'tables.cc', 'xxh64.cc'].map((name) => join(native, name));
run(
  cxx,
  ['-std=c++17', '-O2', '-o', program, join(folder, 'check.cc'), ...parts, ...beside],
  'the program that checks it',
);
console.log(`built ${[library, addon, program].join(', ')}`);
