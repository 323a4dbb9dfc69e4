// How a native addon is built: every file of its folder by the C++ compiler of the machine, with
// the headers of node-api-headers, into one shared object. Files called `…_avx2.cc`, `…_avx512.cc`
// and `…_avx512ifma.cc` are for Linux on x64 alone and get the flags of their instruction set; the
// addon asks the CPU before it calls them.

import { execFile } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import headers from 'node-api-headers/package.json' with { type: 'json' };
import { part } from './parts.ts';
import { BuildError, type Target, Unavailable } from './target.ts';

const include = join(dirname(fileURLToPath(import.meta.resolve('node-api-headers/package.json'))), 'include');

const common = ['-O3', '-std=c++17', '-fPIC', '-fvisibility=hidden', '-DNAPI_VERSION=8'];

const avx512 = ['-mavx512f', '-mavx512dq', '-mavx512bw', '-mavx512vl'];

/** Flags of files for instruction sets that not every machine has, by the end of their names. */
const instructionSets: Record<string, string[]> = {
  _avx2: ['-mavx2', '-mfma'],
  _avx512: avx512,
  _avx512ifma: [...avx512, '-mavx512ifma'],
};

const isX86 = process.platform === 'linux' && process.arch === 'x64';
const shared = process.platform === 'darwin' ? ['-bundle', '-undefined', 'dynamic_lookup'] : ['-shared'];

export interface AddonOptions {
  /** For the compiler and the linker, a sanitizer's for example. */
  readonly flags?: readonly string[];
  /** Files of other folders that are compiled along with it. */
  readonly also?: readonly string[];
}

export function nativeAddon(
  folder: string,
  output: string,
  { flags: more = [], also = [] }: AddonOptions = {},
): Target {
  const flags = [...common, ...(isX86 ? ['-DHERS_X86'] : []), ...more];
  const sets = JSON.stringify(instructionSets);
  return {
    output,
    sources: folder,
    besides: [...new Set(also.map((file) => dirname(file)))],
    // Without the compiler's version: asking for it would start the compiler every time, and any of
    // them makes the same results.
    recipe: `c++ ${process.platform} ${process.arch} ${headers.version} ${flags.join(' ')} ${sets} ${shared.join(' ')}`,
    async make(stamp) {
      const { path: compiler } = part('compiler', { PATH: process.env.PATH });
      if (!compiler) throw new Unavailable('there is no C++ compiler (g++ or c++), so the WASM kernel will serve');
      const objects = mkdtempSync(join(tmpdir(), 'hers-addon-'));
      try {
        const args = [...flags, `-I${include}`, `-DHERS_STAMP="${stamp}"`, '-c'];
        const sources = [...sourcesOf(folder), ...also.map((file) => ({ file, extra: [] }))];
        const object = (file: string) => join(objects, `${basename(file, '.cc')}.o`);
        await inTurns(sources, ({ file, extra }) => run(compiler, [...args, ...extra, file, '-o', object(file)]));
        const result = join(objects, 'addon.node');
        await run(compiler, [...shared, ...more, ...sources.map(({ file }) => object(file)), '-o', result]);
        return readFileSync(result);
      } finally {
        rmSync(objects, { recursive: true });
      }
    },
  };
}

/** The files that are compiled on this machine, each with its own flags. */
function sourcesOf(folder: string): { file: string; extra: string[] }[] {
  const files = globSync('*.cc', { cwd: folder }).sort();
  return files.flatMap((name) => {
    const set = Object.keys(instructionSets).find((end) => name.endsWith(`${end}.cc`));
    if (set && !isX86) return [];
    return { file: join(folder, name), extra: set ? instructionSets[set]! : [] };
  });
}

/** As many at once as the machine has cores. */
async function inTurns<T>(items: readonly T[], action: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  const worker = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await action(item);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
}

function run(command: string, args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile(command, args, { maxBuffer: 2 ** 26 }, (error, _, stderr) => {
      if (error) reject(new BuildError(stderr.trim() || error.message));
      else resolve();
    });
  });
}
