// Decryption on a GPU without one: the device's code compiled as C++
// (packages/scan/cuda/emulation).

import { join, resolve } from 'node:path';
import { nativeAddon } from '../../../tools/addon.ts';
import { buildStale } from '../../../tools/build.ts';

const folder = resolve(import.meta.dirname, '../cuda');

/** Builds it where its sources have changed, and returns the path of the addon. */
export async function emulatedDecrypt(): Promise<string> {
  const output = resolve(folder, '../build/hers_decrypt_emulated.node');
  const messages: unknown[] = [];
  const target = {
    ...nativeAddon(join(folder, 'emulation'), output, {
      flags: ['-ffp-contract=off', '-O1'],
      also: [join(folder, 'addon.cc')],
    }),
    besides: [folder, resolve(folder, '../../scan/cuda')],
  };
  if (!(await buildStale([target], (message) => messages.push(message)))) throw new Error(messages.join('\n'));
  return output;
}
