// The addon that decrypts and ranks on a GPU (cuda/ranking). It is given secrets.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DeviceAddon } from './ranking.ts';

/** Where `npm run build:cuda` puts it; the variable HERS_CUDA names another folder. */
const addonPath = () => join(process.env.HERS_CUDA || join(import.meta.dirname, '../build'), 'hers_decrypt.node');

/** Returns undefined where there is none, or it does not load, which becomes a warning. */
export function openRankingAddon(path: string = addonPath()): DeviceAddon | undefined {
  if (!existsSync(path)) return undefined;
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
