// What is sealed for every block, and named by its hash in the manifest: a list that says which
// record is in which slot, and a column of the values of each field (fields/column-format.ts says
// what is in its seal, and how it is padded). The store keeps them without being able to read them.
//
//   list      format u32, count u32, entries, parts (records.ts)
//   entry     length of the id u16, version (16 bytes), id (UTF-8)
//   order     a part: for every entry its place in the order in which records were written, u16
//   sums      a part, under `exact`: what the scores of these slots add up to (`scoreSums` of
//             scheme/secret)
//
// In memory a list is columns: a million entries as objects would take three times the bytes.

import { HersError, otherFormat } from '@hers/service';
import { concat, hex, putHex, putText } from '../bytes.ts';
import type { Column, Interned } from '../fields/column.ts';
import { decodeColumn, encodeColumn } from '../fields/column-format.ts';
import { type FieldType, invalid, quoted } from '../fields/field.ts';
import { type Sealer, seal } from '../sealing/sealing.ts';
import { decodeParts, encodePart, VERSION_BYTES } from './records.ts';

export interface ListEntry {
  readonly id: string;
  /** Hexadecimal. */
  readonly version: string;
  /**
   * Its place in the order in which the records of the list were written, where slots have another.
   */
  readonly order?: number;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export class List implements Iterable<ListEntry> {
  /** In UTF-8, one after the other. */
  readonly ids: Uint8Array;
  readonly #ends: Uint32Array;
  readonly #versions: Uint8Array;
  readonly #order: Uint16Array | undefined;

  constructor(ids: Uint8Array, ends: Uint32Array, versions: Uint8Array, order?: Uint16Array) {
    this.ids = ids;
    this.#ends = ends;
    this.#versions = versions;
    this.#order = order;
  }

  static of(entries: readonly ListEntry[]): List {
    let units = 0;
    for (const { id } of entries) units += id.length;
    // A unit takes at most three bytes in UTF-8.
    const ids = new Uint8Array(3 * units);
    const ends = new Uint32Array(entries.length);
    const versions = new Uint8Array(entries.length * VERSION_BYTES);
    const order = entries[0]?.order === undefined ? undefined : new Uint16Array(entries.length);
    let end = 0;
    for (let slot = 0; slot < entries.length; slot++) {
      const entry = entries[slot];
      end += putText(entry.id, ids, end);
      ends[slot] = end;
      putHex(entry.version, versions, slot * VERSION_BYTES);
      if (order) order[slot] = entry.order!;
    }
    return new List(ids.slice(0, end), ends, versions, order);
  }

  get count(): number {
    return this.#ends.length;
  }

  get bytes(): number {
    return [this.ids, this.#ends, this.#versions, this.#order].reduce((sum, each) => sum + (each?.byteLength ?? 0), 0);
  }

  /** Where the id in this slot begins in `ids`, and ends. */
  startOf(slot: number): number {
    return slot === 0 ? 0 : this.#ends[slot - 1];
  }

  endOf(slot: number): number {
    return this.#ends[slot];
  }

  /** In UTF-8. */
  idBytes(slot: number): Uint8Array {
    return this.ids.subarray(this.startOf(slot), this.#ends[slot]);
  }

  id(slot: number): string {
    return decoder.decode(this.idBytes(slot));
  }

  hasId(slot: number, bytes: Uint8Array, length: number): boolean {
    const start = this.startOf(slot);
    if (this.#ends[slot] - start !== length) return false;
    for (let i = 0; i < length; i++) if (this.ids[start + i] !== bytes[i]) return false;
    return true;
  }

  versionBytes(slot: number): Uint8Array {
    return this.#versions.subarray(slot * VERSION_BYTES, (slot + 1) * VERSION_BYTES);
  }

  version(slot: number): string {
    return hex(this.versionBytes(slot));
  }

  entry(slot: number): ListEntry {
    const order = this.#order?.[slot];
    return { id: this.id(slot), version: this.version(slot), ...(order === undefined ? {} : { order }) };
  }

  *[Symbol.iterator](): Generator<ListEntry> {
    for (let slot = 0; slot < this.count; slot++) yield this.entry(slot);
  }

  /** The slots, in the order in which records were written. */
  inOrder(): Uint32Array {
    const slots = new Uint32Array(this.count);
    for (let slot = 0; slot < slots.length; slot++) slots[slot] = slot;
    const order = this.#order;
    return order ? slots.sort((a, b) => order[a] - order[b]) : slots;
  }

  /** As it is sealed, without its parts. */
  encoded(): Uint8Array {
    const bytes = new Uint8Array(HEAD_BYTES + this.count * (2 + VERSION_BYTES) + this.ids.length);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, FORMAT, true);
    view.setUint32(4, this.count, true);
    let at = HEAD_BYTES;
    for (let slot = 0; slot < this.count; slot++) {
      const id = this.idBytes(slot);
      view.setUint16(at, id.length, true);
      bytes.set(this.versionBytes(slot), at + 2);
      bytes.set(id, at + 2 + VERSION_BYTES);
      at += 2 + VERSION_BYTES + id.length;
    }
    return bytes;
  }

  get encodedOrder(): Uint8Array | undefined {
    if (!this.#order) return undefined;
    const content = new Uint8Array(2 * this.count);
    const view = new DataView(content.buffer);
    for (const [slot, order] of this.#order.entries()) view.setUint16(2 * slot, order, true);
    return content;
  }
}

const FORMAT = 1;
const HEAD_BYTES = 8;
/** Length of the id and version. */
const ENTRY_HEAD_BYTES: number = 2 + VERSION_BYTES;
const ORDER = 'order';
const SUMS = 'sums';
const KNOWN_PARTS: ReadonlySet<string> = new Set([ORDER, SUMS]);

export interface OpenedList {
  readonly list: List;
  readonly sums?: Uint8Array;
}

const associatedData = (collectionId: Uint8Array) => concat(encoder.encode('list'), collectionId);

export async function sealList(
  sealer: Sealer,
  collectionId: Uint8Array,
  list: List,
  sums?: Uint8Array,
): Promise<Uint8Array> {
  const part = (name: string, content?: Uint8Array) => (content ? [encodePart({ name, must: false, content })] : []);
  const parts = [...part(ORDER, list.encodedOrder), ...part(SUMS, sums)];
  return seal(sealer, concat(list.encoded(), ...parts), associatedData(collectionId));
}

export async function openList(sealer: Sealer, collectionId: Uint8Array, sealed: Uint8Array): Promise<OpenedList> {
  const plain = await sealer.open(sealed, associatedData(collectionId));
  const view = new DataView(plain.buffer, plain.byteOffset, plain.length);
  if (plain.length < HEAD_BYTES) throw broken();
  if (view.getUint32(0, true) !== FORMAT) throw otherFormat('this collection');
  const count = view.getUint32(4, true);
  let at = HEAD_BYTES;
  for (let entries = 0; entries < count; entries++) {
    const start = at + ENTRY_HEAD_BYTES;
    if (start > plain.length) throw broken();
    at = start + view.getUint16(at, true);
  }
  if (at > plain.length) throw broken();
  const parts = decodeParts(plain.subarray(at), KNOWN_PARTS);
  const order = parts.get(ORDER);
  const sums = parts.get(SUMS)?.slice();
  const list = columnsOf(plain, view, at, count, order?.length === 2 * count ? words(order) : undefined);
  return sums ? { list, sums } : { list };
}

const broken = () => new HersError('INTEGRITY', 'a sealed list ends in the middle of an entry');

/**
 * The entries before a place, which are whole. Byte by byte: a view of each would take longer than
 * the few bytes.
 */
function columnsOf(
  plain: Uint8Array,
  view: DataView,
  last: number,
  count: number,
  order: Uint16Array | undefined,
): List {
  const ids = new Uint8Array(last - HEAD_BYTES - count * ENTRY_HEAD_BYTES);
  const ends = new Uint32Array(count);
  const versions = new Uint8Array(count * VERSION_BYTES);
  let at = HEAD_BYTES;
  let idsEnd = 0;
  for (let slot = 0; slot < count; slot++) {
    const length = view.getUint16(at, true);
    at += 2;
    for (let i = slot * VERSION_BYTES; i < (slot + 1) * VERSION_BYTES; i++) versions[i] = plain[at++];
    for (let i = 0; i < length; i++) ids[idsEnd++] = plain[at++];
    ends[slot] = idsEnd;
  }
  return new List(ids, ends, versions, order);
}

function words(bytes: Uint8Array): Uint16Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const out = new Uint16Array(bytes.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = view.getUint16(2 * i, true);
  return out;
}

export type BlockColumns = ReadonlyMap<string, Column>;

/** Sealed, about. Whoever reads lists from a server takes no longer ones (transport/http.ts). */
const MAX_COLUMN_BYTES = 2 ** 25 - 2 ** 10;

/** The field's name is part of it, so that columns cannot take each other's places. */
const columnData = (collectionId: Uint8Array, field: string) =>
  concat(encoder.encode('column'), collectionId, encoder.encode(field));

/**
 * What is written is read first: a column that does not come out as it went in would keep everybody
 * from opening the collection.
 */
export async function sealColumn(
  sealer: Sealer,
  collectionId: Uint8Array,
  field: string,
  column: Column,
): Promise<Uint8Array> {
  const { type, count } = column;
  const encoded = encodeColumn(column);
  if (encoded.length > MAX_COLUMN_BYTES)
    throw invalid(`the values of ${count} records in the field ${quoted(field)} take more than 32 MiB; shorten them`);
  const read = decodeColumn(encoded, type, count);
  for (let slot = 0; slot < count; slot++)
    if (String(read.value(slot)) !== String(column.value(slot)))
      throw new HersError('INTEGRITY', `a bug: the field ${quoted(field)} cannot be written; nothing was changed`);
  return seal(sealer, encoded, columnData(collectionId, field));
}

/** INTEGRITY unless it is a column of this field, type and count. */
export async function openColumn(
  sealer: Sealer,
  collectionId: Uint8Array,
  { field, type, count }: { readonly field: string; readonly type: FieldType; readonly count: number },
  sealed: Uint8Array,
  interned: Interned,
): Promise<Column> {
  const plain = await sealer.open(sealed, columnData(collectionId, field));
  return decodeColumn(plain, type, count, interned);
}
