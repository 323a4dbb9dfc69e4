// CUDA without a GPU: the device's code compiled as C++ (scan/emulation). Slow, so tests of it are
// small.

import { join, resolve } from 'node:path';
import { nativeAddon } from '../../tools/addon.ts';
import { buildStale } from '../../tools/build.ts';
import { Workspace } from '../../tools/workspace.ts';

const root = resolve(import.meta.dirname, '../..');
const tables = new Workspace(root).path('scan', 'native/tables.cc');
const own = (path: string) => resolve(import.meta.dirname, '..', path);
const FLAGS = ['-ffp-contract=off', '-O1'];

/** Builds the addon that scans where its sources have changed, and returns its path. */
export async function emulatedCuda(flags: readonly string[] = []): Promise<string> {
  return build('scan', 'hers_cuda', { flags: [...FLAGS, ...flags], also: [own('scan/addon.cc'), tables] });
}

/** The same for the addon that decrypts and ranks. */
export async function emulatedDecrypt(): Promise<string> {
  return build('ranking', 'hers_decrypt', { flags: FLAGS, also: [own('ranking/addon.cc')] });
}

async function build(folder: string, name: string, options: { flags: string[]; also: string[] }): Promise<string> {
  const output = own(`build/${name}_emulated.node`);
  const messages: unknown[] = [];
  const target = nativeAddon(join(own(folder), 'emulation'), output, options);
  const besides = [...(target.besides ?? []), own('scan'), own('ranking')];
  if (!(await buildStale([{ ...target, besides }], (message) => messages.push(message))))
    throw new Error(messages.join('\n'));
  return output;
}
