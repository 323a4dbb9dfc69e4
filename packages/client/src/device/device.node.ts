// The addon that decrypts on a GPU (packages/client/cuda), where it was built. It is given secrets,
// so nothing but the client loads it.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DeviceAddon } from './device.ts';

/** Where `npm run build:cuda` puts it; the variable HERS_CUDA names another folder. */
const addonPath = () => join(process.env.HERS_CUDA || join(import.meta.dirname, '../../build'), 'hers_decrypt.node');

let loaded: DeviceAddon | undefined | 'none';

/** Undefined where there is none, or it does not load. With a path, that one from now on. */
export function deviceAddon(path?: string): DeviceAddon | undefined {
  if (path !== undefined) loaded = load(path) ?? 'none';
  loaded ??= (existsSync(addonPath()) && load(addonPath())) || 'none';
  return loaded === 'none' ? undefined : loaded;
}

function load(path: string): DeviceAddon | undefined {
  try {
    const module = { exports: {} };
    process.dlopen(module, path);
    return module.exports as DeviceAddon;
  } catch (error) {
    const { message } = error as Error;
    const reason = `responses are decrypted on the CPU, since the addon for the GPU does not load: ${message}`;
    process.emitWarning(reason, { type: 'HersWarning', code: 'HERS_DEVICE' });
    return undefined;
  }
}
