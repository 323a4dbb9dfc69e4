// Which record is in which slot: a list for every block (for every addition, where a block grows), sealed by the client and named by its hash in the manifest.
// The store keeps it without being able to read it.

import { HersError } from '@hers/service';
import { concat, hex } from './bytes.ts';
import { VERSION_BYTES } from './records.ts';
import type { Sealer } from './sealing.ts';

export interface ListEntry {
  readonly id: string;
  /** Hexadecimal. */
  readonly version: string;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

const about = (collectionId: Uint8Array) => concat(encoder.encode('list'), collectionId);

export async function sealList(
  sealer: Sealer,
  collectionId: Uint8Array,
  entries: readonly ListEntry[],
): Promise<Uint8Array> {
  const names = entries.map((entry) => encoder.encode(entry.id));
  const plain = new Uint8Array(names.reduce((sum, name) => sum + 2 + VERSION_BYTES + name.length, 0));
  const view = new DataView(plain.buffer);
  let at = 0;
  entries.forEach((entry, i) => {
    view.setUint16(at, names[i].length, true);
    for (let k = 0; k < VERSION_BYTES; k++)
      plain[at + 2 + k] = Number.parseInt(entry.version.slice(2 * k, 2 * k + 2), 16);
    plain.set(names[i], at + 2 + VERSION_BYTES);
    at += 2 + VERSION_BYTES + names[i].length;
  });
  return sealer.seal(plain, about(collectionId));
}

export async function openList(sealer: Sealer, collectionId: Uint8Array, sealed: Uint8Array): Promise<ListEntry[]> {
  const plain = await sealer.open(sealed, about(collectionId));
  const view = new DataView(plain.buffer, plain.byteOffset, plain.length);
  const entries: ListEntry[] = [];
  for (let at = 0; at < plain.length; ) {
    const start = at + 2 + VERSION_BYTES;
    const end = start + view.getUint16(at, true);
    if (end > plain.length) throw new HersError('INTEGRITY', 'a sealed list ends in the middle of an entry');
    entries.push({ version: hex(plain.subarray(at + 2, start)), id: decoder.decode(plain.subarray(start, end)) });
    at = end;
  }
  return entries;
}
