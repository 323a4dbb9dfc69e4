// Which record is in which slot: a list for every block (for every addition, where a block grows),
// sealed by the client and named by its hash in the manifest. The store keeps it without being able
// to read it.
//
//   list      mark u16, edition u16, count u32, entries, parts (parts.ts)
//   entry     length of the id u16, version (16 bytes), id (UTF-8)
//   order     a part: for every entry its place in the order in which records were written, u16
//   sums      a part, under `exact`: what the scores of these slots add up to (`scoreSums` of
//             scheme/secret)
//
// Lists of edition 1 are entries alone. No id is as long as the mark says, so it tells them apart.

import { HersError } from '@hers/service';
import { concat, fromHex, hexText } from '../bytes.ts';
import { type Sealer, seal } from '../keys/sealing.ts';
import { decodeParts, encodePart } from './parts.ts';
import { VERSION_BYTES } from './records.ts';

export interface ListEntry {
  readonly id: string;
  /** Hexadecimal. */
  readonly version: string;
  /**
   * Its place among the entries of the list in the order in which records were written, where slots
   * have another.
   */
  readonly order?: number;
}

/** Entries with their slots, in the order in which records were written. */
export function inOrder(entries: readonly ListEntry[]): { readonly entry: ListEntry; readonly slot: number }[] {
  const slots = entries.map((entry, slot) => ({ entry, slot }));
  return entries[0]?.order === undefined ? slots : slots.sort((a, b) => a.entry.order! - b.entry.order!);
}

const MARK = 0xffff;
const EDITION = 2;
const HEAD_BYTES = 8;
const ORDER = 'order';
const SUMS = 'sums';
const KNOWN_PARTS: ReadonlySet<string> = new Set([ORDER, SUMS]);

export interface OpenedList {
  readonly entries: ListEntry[];
  readonly sums?: Uint8Array;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const associatedData = (collectionId: Uint8Array) => concat(encoder.encode('list'), collectionId);

export async function sealList(
  sealer: Sealer,
  collectionId: Uint8Array,
  entries: readonly ListEntry[],
  sums?: Uint8Array,
): Promise<Uint8Array> {
  // At most three bytes for each unit of an id.
  const most = entries.reduce((sum, { id }) => sum + 2 + VERSION_BYTES + 3 * id.length, HEAD_BYTES);
  const bytes = new Uint8Array(most);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, MARK, true);
  view.setUint16(2, EDITION, true);
  view.setUint32(4, entries.length, true);
  let at = HEAD_BYTES;
  for (const { id, version } of entries) {
    bytes.set(fromHex(version), at + 2);
    const { written } = encoder.encodeInto(id, bytes.subarray(at + 2 + VERSION_BYTES));
    view.setUint16(at, written, true);
    at += 2 + VERSION_BYTES + written;
  }
  const plain = bytes.subarray(0, at);
  const sumsPart = sums ? [encodePart({ name: SUMS, must: false, content: sums })] : [];
  return seal(sealer, concat(plain, ...orderPart(entries), ...sumsPart), associatedData(collectionId));
}

function orderPart(entries: readonly ListEntry[]): Uint8Array[] {
  if (entries[0]?.order === undefined) return [];
  const content = new Uint8Array(2 * entries.length);
  const view = new DataView(content.buffer);
  entries.forEach(({ order }, i) => {
    view.setUint16(2 * i, order!, true);
  });
  return [encodePart({ name: ORDER, must: false, content })];
}

export async function openList(sealer: Sealer, collectionId: Uint8Array, sealed: Uint8Array): Promise<OpenedList> {
  const plain = await sealer.open(sealed, associatedData(collectionId));
  const view = new DataView(plain.buffer, plain.byteOffset, plain.length);
  const ends: number[] = [];
  const ids = new Uint8Array(plain.length);
  const versions = new Uint8Array(plain.length);
  let idsEnd = 0;
  const { count, first } = headOf(plain, view);
  let at = first;
  while (at < plain.length && ends.length < count) {
    const start = at + 2 + VERSION_BYTES;
    const end = start <= plain.length ? start + view.getUint16(at, true) : start;
    if (end > plain.length) throw new HersError('INTEGRITY', 'a sealed list ends in the middle of an entry');
    versions.set(plain.subarray(at + 2, start), ends.length * VERSION_BYTES);
    ids.set(plain.subarray(start, end), idsEnd);
    ends.push((idsEnd += end - start));
    at = end;
  }
  let orders: DataView | undefined;
  let sums: Uint8Array | undefined;
  if (count !== Number.POSITIVE_INFINITY) {
    if (ends.length < count) throw new HersError('INTEGRITY', 'a sealed list has fewer entries than it says');
    const parts = decodeParts(plain.subarray(at), KNOWN_PARTS);
    const part = parts.get(ORDER);
    if (part?.length === 2 * count) orders = new DataView(part.buffer, part.byteOffset, part.length);
    sums = parts.get(SUMS)?.slice();
  }
  // All texts at once, and each cut out of the whole: a million small ones take a second more.
  const versionText = hexText(versions.subarray(0, ends.length * VERSION_BYTES));
  const text = decoder.decode(ids.subarray(0, idsEnd));
  const isAscii = text.length === idsEnd;
  const entries = ends.map((end, i) => {
    const start = i === 0 ? 0 : ends[i - 1];
    const version = versionText.slice(2 * VERSION_BYTES * i, 2 * VERSION_BYTES * (i + 1));
    const id = isAscii ? text.slice(start, end) : decoder.decode(ids.subarray(start, end));
    return orders ? { version, id, order: orders.getUint16(2 * i, true) } : { version, id };
  });
  return sums ? { entries, sums } : { entries };
}

/** How many entries there are, as far as the list says so, and where they begin. */
function headOf(plain: Uint8Array, view: DataView): { count: number; first: number } {
  if (plain.length < HEAD_BYTES || view.getUint16(0, true) !== MARK)
    return { count: Number.POSITIVE_INFINITY, first: 0 };
  if (view.getUint16(2, true) !== EDITION)
    throw new HersError('UNSUPPORTED_VERSION', 'this collection has lists of a newer version; use that');
  return { count: view.getUint32(4, true), first: HEAD_BYTES };
}
