// Which record is in which slot: a list for every block (for every addition, where a block grows), sealed by the client and named by its hash in the manifest.
// The store keeps it without being able to read it.

import { HersError } from '@hers/service';
import { concat, fromHex, hexText } from './bytes.ts';
import { VERSION_BYTES } from './records.ts';
import { type Sealer, seal } from './sealing.ts';

export interface ListEntry {
  readonly id: string;
  /** Hexadecimal. */
  readonly version: string;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const about = (collectionId: Uint8Array) => concat(encoder.encode('list'), collectionId);

export async function sealList(
  sealer: Sealer,
  collectionId: Uint8Array,
  entries: readonly ListEntry[],
): Promise<Uint8Array> {
  // At most three bytes for each unit of an id.
  const most = entries.reduce((sum, { id }) => sum + 2 + VERSION_BYTES + 3 * id.length, 0);
  const bytes = new Uint8Array(most);
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const { id, version } of entries) {
    bytes.set(fromHex(version), at + 2);
    const { written } = encoder.encodeInto(id, bytes.subarray(at + 2 + VERSION_BYTES));
    view.setUint16(at, written, true);
    at += 2 + VERSION_BYTES + written;
  }
  const plain = bytes.subarray(0, at);
  return seal(sealer, plain, about(collectionId));
}

export async function openList(sealer: Sealer, collectionId: Uint8Array, sealed: Uint8Array): Promise<ListEntry[]> {
  const plain = await sealer.open(sealed, about(collectionId));
  const view = new DataView(plain.buffer, plain.byteOffset, plain.length);
  const ends: number[] = [];
  const ids = new Uint8Array(plain.length);
  const versions = new Uint8Array(plain.length);
  let idsEnd = 0;
  for (let at = 0; at < plain.length; ) {
    const start = at + 2 + VERSION_BYTES;
    const end = start <= plain.length ? start + view.getUint16(at, true) : start;
    if (end > plain.length) throw new HersError('INTEGRITY', 'a sealed list ends in the middle of an entry');
    versions.set(plain.subarray(at + 2, start), ends.length * VERSION_BYTES);
    ids.set(plain.subarray(start, end), idsEnd);
    ends.push((idsEnd += end - start));
    at = end;
  }
  // All texts at once, and each cut out of the whole: a million small ones take a second more.
  const versionText = hexText(versions.subarray(0, ends.length * VERSION_BYTES));
  const text = decoder.decode(ids.subarray(0, idsEnd));
  const isAscii = text.length === idsEnd;
  return ends.map((end, i) => {
    const start = i === 0 ? 0 : ends[i - 1];
    const version = versionText.slice(2 * VERSION_BYTES * i, 2 * VERSION_BYTES * (i + 1));
    return { version, id: isAscii ? text.slice(start, end) : decoder.decode(ids.subarray(start, end)) };
  });
}
