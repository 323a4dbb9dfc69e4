// The native addon. `npm run build` puts it where this looks for it, unless this is a published
// package, which has one for each of several platforms (tools/addons.ts).

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { addonName, thisMachine } from './machine.node.ts';
import type { NativeAddon } from './native.ts';

const build = join(import.meta.dirname, '../build');

export const ADDON_PATH: string = join(build, 'hers_ring.node');

const PATHS = [join(build, addonName('ring', thisMachine())), ADDON_PATH];

/** Nothing where there is none for this platform. Throws where none of them can be loaded. */
export function openAddon(paths: readonly string[] = PATHS): NativeAddon | undefined {
  const errors: unknown[] = [];
  for (const path of paths.filter((path) => existsSync(path))) {
    const module = { exports: {} };
    try {
      process.dlopen(module, path);
      return module.exports as NativeAddon;
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
  return undefined;
}

export function askedFor(): string | undefined {
  return process.env.HERS_RING;
}

export function warn(message: string): void {
  process.emitWarning(message, { type: 'HersWarning', code: 'HERS_RING' });
}
