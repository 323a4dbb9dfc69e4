// The CUDA kernel without a GPU: the device's code compiled as C++ (cuda/emulation). Slow, so tests
// of it are small.

import { join, resolve } from 'node:path';
import { nativeAddon } from '../../../tools/addon.ts';
import { buildStale } from '../../../tools/build.ts';

const folder = resolve(import.meta.dirname, '../cuda');
const FLAGS = ['-ffp-contract=off', '-O1'];

/** Builds it where its sources have changed, and returns the path of the addon. */
export async function emulatedCuda(flags: readonly string[] = []): Promise<string> {
  const also = [join(folder, 'addon.cc'), resolve(folder, '../native/tables.cc')];
  const output = resolve(folder, '../build/hers_cuda_emulated.node');
  const messages: unknown[] = [];
  const target = nativeAddon(join(folder, 'emulation'), output, { flags: [...FLAGS, ...flags], also });
  if (!(await buildStale([target], (message) => messages.push(message)))) throw new Error(messages.join('\n'));
  return output;
}
