// How a native addon is built: every file of its folder by a C++ compiler, with the headers of
// node-api-headers, into one shared object. By default by the compiler of the machine, for the
// machine; tools/prebuild.ts gives others. Files called `…_avx2.cc`, `…_avx512.cc` and
// `…_avx512ifma.cc` are for Linux on x64 alone and get the flags of their instruction set; the
// addon asks the CPU before it calls them.

import { execFile } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import headers from 'node-api-headers/package.json' with { type: 'json' };
import { part } from './parts.ts';
import { BuildError, type Target, Unavailable } from './target.ts';
import { Workspace } from './workspace.ts';

const include = join(dirname(fileURLToPath(import.meta.resolve('node-api-headers/package.json'))), 'include');

/** Headers that addons of several packages include. */
const lanes = new Workspace(resolve(import.meta.dirname, '..')).path('ring', 'lanes');

const common = ['-O3', '-std=c++17', '-fPIC', '-fvisibility=hidden', '-DNAPI_VERSION=8'];

const avx512 = ['-mavx512f', '-mavx512dq', '-mavx512bw', '-mavx512vl'];

/** Flags of files for instruction sets that not every machine has, by the end of their names. */
const instructionSets: Record<string, string[]> = {
  _avx2: ['-mavx2', '-mfma'],
  _avx512: avx512,
  _avx512ifma: [...avx512, '-mavx512ifma'],
};

/** A compiler, and the machine that it compiles for. */
export interface Toolchain {
  /** For the recipe: another name, another addon. */
  readonly name: string;
  /** Linux on x64. */
  readonly isX86: boolean;
  /** For the linker. */
  readonly shared: readonly string[];
  /** The command and its first arguments. Throws `Unavailable` where there is none. */
  compiler(): readonly [string, ...string[]];
}

const ownToolchain: Toolchain = {
  name: `c++ ${process.platform} ${process.arch}`,
  isX86: process.platform === 'linux' && process.arch === 'x64',
  shared: process.platform === 'darwin' ? ['-bundle', '-undefined', 'dynamic_lookup'] : ['-shared'],
  compiler() {
    const { path } = part('compiler', { PATH: process.env.PATH });
    if (!path) throw new Unavailable('there is no C++ compiler (g++ or c++), so the WASM kernel will serve');
    return [path];
  },
};

export interface AddonOptions {
  /** For the compiler and the linker, a sanitizer's for example. */
  readonly flags?: readonly string[];
  /** Files of other folders that are compiled along with it. */
  readonly also?: readonly string[];
  /** By default that of the machine, for the machine. */
  readonly toolchain?: Toolchain;
}

export function nativeAddon(
  folder: string,
  output: string,
  { flags: more = [], also = [], toolchain = ownToolchain }: AddonOptions = {},
): Target {
  const { isX86, shared } = toolchain;
  const flags = [...common, ...(isX86 ? ['-DHERS_X86'] : []), ...more];
  const sets = JSON.stringify(instructionSets);
  return {
    output,
    sources: folder,
    besides: [lanes, ...new Set(also.map((file) => dirname(file)))],
    // Without the compiler's version: asking for it would start the compiler every time, and any of
    // them makes the same results.
    recipe: `${toolchain.name} ${headers.version} ${flags.join(' ')} ${sets} ${shared.join(' ')}`,
    async make(stamp) {
      const [compiler, ...before] = toolchain.compiler();
      const objects = mkdtempSync(join(tmpdir(), 'hers-addon-'));
      try {
        const args = [...flags, `-I${include}`, `-DHERS_STAMP="${stamp}"`, '-c'];
        const sources = [...sourcesOf(folder, isX86), ...also.map((file) => ({ file, extra: [] }))];
        const object = (file: string) => join(objects, `${basename(file, '.cc')}.o`);
        await inTurns(sources, ({ file, extra }) =>
          run(compiler, [...before, ...args, ...extra, file, '-o', object(file)]),
        );
        const result = join(objects, 'addon.node');
        await run(compiler, [...before, ...shared, ...more, ...sources.map(({ file }) => object(file)), '-o', result]);
        return readFileSync(result);
      } finally {
        rmSync(objects, { recursive: true });
      }
    },
  };
}

/** The files that are compiled, each with its own flags. */
function sourcesOf(folder: string, isX86: boolean): { file: string; extra: string[] }[] {
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
