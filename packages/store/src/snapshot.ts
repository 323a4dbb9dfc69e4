// A whole collection as one stream of frames (service's frames.ts), and the checks for restoring
// one.
//
//   header   'HERSSNAP', version, zero, collection id (16), version of the manifest (u64),
//            records (u64), lists, blocks, length of the descriptor (u32), zero, descriptor,
//            manifest
//   then     1 + handle + sealed record · 2 + sealed list · 3 + piece of a block that goes on ·
//            4 + last piece of a block
//   end      5 + SHA-256 of all frames before, lengths included

import { createHash } from 'node:crypto';
import { type Block, decodeBlock } from '@hers/scheme';
import { eitherSignal, frame, HANDLE_BYTES, HersError, type Many, otherFormat, unframe } from '@hers/service';
import { handleKey, hex, sameBytes, sha256 } from './base/bytes.ts';
import { Holding } from './base/holding.ts';
import { pausing } from './base/serial-queue.ts';
import { damaged } from './base/storage-errors.ts';
import { MAX_BLOCK_BYTES, READING_COST, readStoredBlock } from './blocks/rebuild.ts';
import type { StoredBlock } from './blocks/source.ts';
import type { Collection } from './collection.ts';
import { decodePlace, type Entry, MAX_CONTENT, type Place, RECORD } from './files/entry.ts';
import type { VaultReader } from './files/vault.ts';

const MAGIC = 0x50414e5353524548n; // 'HERSSNAP'
export const SNAPSHOT_VERSION = 1;
const FIELDS_BYTES = 64;
const PIECE_BYTES = 2 ** 18;
/** Read of a pack at a time: there may be many readers. */
const RUN_BYTES = 2 ** 16;

const END_FRAME_BYTES = 4 + 1 + 32;

/**
 * The longest frame is a header with a long manifest. A client reads no manifest, and no list of
 * collections, longer than these.
 */
export const MAX_FRAME_BYTES: number = 2 ** 28;
export const MAX_DESCRIPTOR_BYTES: number = 48 * 2 ** 10;
/** What is left of a frame beside the longest descriptor. */
export const MAX_MANIFEST_BYTES: number = MAX_FRAME_BYTES - MAX_DESCRIPTOR_BYTES - 2 ** 10;
/** Far more changes than there will ever be, with numbers to spare for later ones. */
const MAX_VERSION = 2 ** 48;

export const PART = { record: 1, list: 2, blockPiece: 3, blockEnd: 4, end: 5 } as const;
type Counted = 'records' | 'lists' | 'blocks';
/** By the kind of a part, the field of the header that counts it. */
const FIELD_OF: Readonly<Record<number, Counted | undefined>> = {
  [PART.record]: 'records',
  [PART.list]: 'lists',
  [PART.blockPiece]: 'blocks',
  [PART.blockEnd]: 'blocks',
};

export interface SnapshotHeader {
  readonly id: Uint8Array;
  readonly version: number;
  readonly records: number;
  readonly lists: number;
  readonly blocks: number;
  readonly descriptor: Uint8Array;
  readonly manifest: Uint8Array;
}

export function encodeSnapshotHeader(header: SnapshotHeader): Uint8Array {
  const fields = Buffer.alloc(FIELDS_BYTES);
  fields.writeBigUInt64LE(MAGIC, 0);
  fields.writeUInt32LE(SNAPSHOT_VERSION, 8);
  fields.set(header.id, 16);
  fields.writeBigUInt64LE(BigInt(header.version), 32);
  fields.writeBigUInt64LE(BigInt(header.records), 40);
  fields.writeUInt32LE(header.lists, 48);
  fields.writeUInt32LE(header.blocks, 52);
  fields.writeUInt32LE(header.descriptor.length, 56);
  return Buffer.concat([fields, header.descriptor, header.manifest]);
}

export function decodeSnapshotHeader(bytes: Uint8Array): SnapshotHeader {
  const fields = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (fields.length < FIELDS_BYTES || fields.readBigUInt64LE(0) !== MAGIC)
    throw new HersError('MALFORMED', 'this is not a snapshot of a collection');
  if (fields.readUInt32LE(8) !== SNAPSHOT_VERSION) throw otherFormat('this snapshot');
  const descriptorBytes = fields.readUInt32LE(56);
  const manifestAt = FIELDS_BYTES + descriptorBytes;
  const version = Number(fields.readBigUInt64LE(32));
  const records = Number(fields.readBigUInt64LE(40));
  const isOdd = fields.readUInt32LE(12) !== 0 || fields.readUInt32LE(60) !== 0 || manifestAt > bytes.length;
  if (isOdd || version < 1 || !Number.isSafeInteger(records))
    throw new HersError('MALFORMED', 'the header of this snapshot contradicts itself');
  if (descriptorBytes > MAX_DESCRIPTOR_BYTES || version > MAX_VERSION)
    throw new HersError('MALFORMED', 'the header of this snapshot announces more than a collection can have');
  return {
    id: new Uint8Array(bytes.subarray(16, 32)),
    version,
    records,
    lists: fields.readUInt32LE(48),
    blocks: fields.readUInt32LE(52),
    descriptor: new Uint8Array(bytes.subarray(FIELDS_BYTES, manifestAt)),
    manifest: new Uint8Array(bytes.subarray(manifestAt)),
  };
}

/**
 * Collects frames into pieces of a useful size: each method returns the pieces that are full. A
 * frame larger than a piece is passed on as it is.
 */
export class Frames {
  readonly #hash = createHash('sha256');
  #piece = Buffer.allocUnsafe(PIECE_BYTES);
  #filled = 0;

  *put(kind: number | undefined, content: Uint8Array): Generator<Uint8Array> {
    const head = kind === undefined ? 4 : 5;
    const isLarge = content.length > PIECE_BYTES / 2;
    if (this.#filled + head + (isLarge ? 0 : content.length) > PIECE_BYTES) yield this.#take();
    this.#piece.writeUInt32LE(head - 4 + content.length, this.#filled);
    if (kind !== undefined) this.#piece[this.#filled + 4] = kind;
    this.#filled += head;
    if (isLarge) {
      yield this.#take();
      this.#hash.update(content);
      for (let at = 0; at < content.length; at += PIECE_BYTES) yield content.subarray(at, at + PIECE_BYTES);
    } else {
      this.#piece.set(content, this.#filled);
      this.#filled += content.length;
    }
  }

  #take(): Buffer {
    const piece = this.#piece.subarray(0, this.#filled);
    this.#hash.update(piece);
    this.#piece = Buffer.allocUnsafe(PIECE_BYTES);
    this.#filled = 0;
    return piece;
  }

  entry({ kind, content }: Entry): Generator<Uint8Array> {
    return this.put(kind === RECORD ? PART.record : PART.list, content);
  }

  *block(encoded: Uint8Array): Generator<Uint8Array> {
    for (let at = 0; at < encoded.length; at += PIECE_BYTES) {
      const last = at + PIECE_BYTES >= encoded.length;
      yield* this.put(last ? PART.blockEnd : PART.blockPiece, encoded.subarray(at, at + PIECE_BYTES));
    }
  }

  end(): Buffer {
    const last = this.#take();
    return Buffer.concat([last, frame(Buffer.concat([Uint8Array.of(PART.end), this.#hash.digest()]))]);
  }
}

/** Passes a stream on. At its end, it has the hash of all frames but the last. */
export class HashedStream {
  readonly #hash = createHash('sha256');

  async *pass(pieces: Many<Uint8Array>): AsyncGenerator<Uint8Array> {
    let tail: Uint8Array = new Uint8Array(0); // what may be the last frame
    for await (const piece of pieces) {
      yield piece;
      const known = Buffer.concat([tail, piece.subarray(-END_FRAME_BYTES)]);
      const early = Math.max(0, piece.length - END_FRAME_BYTES);
      if (early > 0) this.#hash.update(tail).update(piece.subarray(0, early));
      const held = early > 0 ? known.subarray(tail.length) : known;
      const over = Math.max(0, held.length - END_FRAME_BYTES);
      this.#hash.update(held.subarray(0, over));
      tail = new Uint8Array(held.subarray(over));
    }
  }

  digest(): Uint8Array {
    return this.#hash.digest();
  }
}

export const malformed = (what: string): HersError =>
  new HersError('MALFORMED', `this snapshot ${what}; nothing was restored`);

export type SnapshotPart =
  | { readonly kind: 'header'; readonly header: SnapshotHeader }
  /** Its handle, and its sealed bytes. */
  | { readonly kind: 'record'; readonly content: Uint8Array }
  | { readonly kind: 'list'; readonly content: Uint8Array }
  | { readonly kind: 'block'; readonly block: Block; readonly encoded: Uint8Array };

/** The parts of a snapshot, the header first. Only at its end is it known to be whole. */
export async function* readSnapshot(
  pieces: Many<Uint8Array>,
  hold?: (bytes: number) => void,
): AsyncGenerator<SnapshotPart> {
  using holding = new Holding(hold);
  const stream = new HashedStream();
  const joined = new BlockPieces();
  // The header itself is not kept: its manifest may be large.
  let left: Record<Counted, number> | undefined;
  let announced: Uint8Array | undefined;
  for await (const bytes of unframe(stream.pass(pieces), MAX_FRAME_BYTES, hold)) {
    if (announced) throw malformed('goes on behind its end');
    if (!left) {
      const header = decodeSnapshotHeader(bytes);
      const { records, lists, blocks } = header;
      left = { records, lists, blocks };
      yield { kind: 'header', header };
      continue;
    }
    const [kind] = bytes;
    const content = bytes.subarray(1);
    if (kind === PART.end) {
      announced = content;
      continue;
    }
    const field = FIELD_OF[kind];
    if (joined.begun && field !== 'blocks') throw malformed('breaks off a block');
    if (!field) throw malformed('holds something unknown');
    if (left[field] === 0) throw malformed(`holds more ${field} than it announces`);
    if (field === 'blocks') {
      holding.become(joined.holds(content.length));
      joined.add(content);
      if (kind === PART.blockPiece) continue;
      const encoded = joined.take();
      yield { kind: 'block', block: decodedBlock(encoded), encoded };
      holding.become(0);
    } else {
      if (kind === PART.record && content.length < HANDLE_BYTES) throw malformed('holds a record without a handle');
      if (content.length > MAX_CONTENT) throw malformed('holds a record or list that is too long');
      yield { kind: kind === PART.record ? 'record' : 'list', content };
    }
    left[field]--;
  }
  if (!left || !announced) throw malformed('is cut off');
  if (!sameBytes(announced, stream.digest())) throw malformed('was altered on the way');
  if (left.records + left.lists + left.blocks > 0) throw malformed('does not hold what its header announces');
}

/**
 * The pieces of a block, joined as they arrive: a list of many small ones would take far more
 * memory than their bytes.
 */
class BlockPieces {
  #bytes = new Uint8Array(0);
  #filled = 0;

  get begun(): boolean {
    return this.#filled > 0;
  }

  /**
   * Memory for these and one more piece of this many bytes. The last piece completes a block, which
   * is then decoded.
   */
  holds(more: number): number {
    return 3 * Math.max(this.#bytes.length, this.#filled + more);
  }

  add(piece: Uint8Array): void {
    if (piece.length === 0) throw malformed('holds an empty piece of a block');
    const end = this.#filled + piece.length;
    if (end > MAX_BLOCK_BYTES) throw malformed('holds something too long to be a block');
    if (end > this.#bytes.length) {
      const larger = new Uint8Array(Math.min(MAX_BLOCK_BYTES, Math.max(2 * this.#bytes.length, end)));
      larger.set(this.#bytes.subarray(0, this.#filled));
      this.#bytes = larger;
    }
    this.#bytes.set(piece, this.#filled);
    this.#filled = end;
  }

  take(): Uint8Array {
    const whole = this.#bytes.subarray(0, this.#filled);
    this.#bytes = new Uint8Array(0);
    this.#filled = 0;
    return whole;
  }
}

function decodedBlock(encoded: Uint8Array): Block {
  try {
    return decodeBlock(encoded);
  } catch (error) {
    if (!(error instanceof HersError)) throw error;
    const code = error.code === 'UNSUPPORTED_VERSION' ? error.code : 'MALFORMED';
    throw new HersError(code, `a block in this snapshot cannot be read (${error.message}); nothing was restored`);
  }
}

/** The state of one moment that a snapshot holds. Its files stay until `release`. */
export interface Moment {
  readonly header: SnapshotHeader;
  readonly lists: ReadonlyMap<string, Place>;
  readonly packs: readonly { readonly pack: number; readonly ends: number; readonly live: number }[];
  readonly blocks: readonly StoredBlock[];
  release(): void;
}

type Captured = Moment & { readonly reader: VaultReader; readonly signal: AbortSignal };

function capture(collection: Collection): Moment {
  const { tables, blocks, id, descriptor } = collection;
  const lists = new Map(tables.lists().map((row) => [hex(row.id), decodePlace(row.place)]));
  // Copies, because compaction moves blocks, while the files of this moment stay.
  const held = [...blocks.values()].map((block) => ({ ...block, release: block.source.hold() }));
  const records = isFrozen(collection) ? collection.records.count() : tables.current().records;
  return {
    header: { id, descriptor, ...tables.manifest(), records, lists: lists.size, blocks: held.length },
    lists,
    packs: tables.packs(),
    blocks: held,
    release() {
      for (const block of held) block.release();
    },
  };
}

/** Nothing is written to a damaged catalogue, or to that of another process. */
export function isFrozen({ folder }: Collection): boolean {
  return folder.catalogue.isReadOnly;
}

/** The result of `read` for a collection as of one moment, whatever changes in the meantime. */
export async function* atOneMoment<T>(
  collection: Collection,
  signal: AbortSignal,
  read: (moment: Captured) => AsyncIterable<T>,
): AsyncGenerator<T> {
  // With no fresh records, the B-tree is the current collection. It stays so until the reading
  // ends, because merges wait.
  const { moment, copying } = await collection.upkeepQueue.run(async () => {
    collection.checkUsable();
    // A damaged catalogue cannot be merged, but it cannot change either.
    while (collection.records.fresh > 0 && !isFrozen(collection)) {
      await collection.snapshotsEnd(signal);
      await collection.records.merge(pausing(signal));
      collection.checkUsable();
    }
    return { copying: collection.beginSnapshot(), moment: capture(collection) };
  });
  using either = eitherSignal(copying.signal, signal);
  using reader = collection.vault.reader();
  try {
    yield* read({ ...moment, reader, signal: either.signal });
  } finally {
    moment.release();
    collection.endSnapshot(copying);
  }
}

/**
 * Verifies every entry of a pack, dead ones included, and yields those that the catalogue names.
 */
async function* namedEntries(
  collection: Collection,
  { lists, reader, signal }: Captured,
  { pack, ends }: Moment['packs'][number],
): AsyncGenerator<Entry> {
  const handleOf = (content: Uint8Array) => content.subarray(0, HANDLE_BYTES);
  for await (const entries of reader.entries(pack, ends, RUN_BYTES)) {
    signal.throwIfAborted();
    const handles = entries.filter(({ entry }) => entry.kind === RECORD).map(({ entry }) => handleOf(entry.content));
    const places = recordPlaces(collection, handles);
    for (const { entry, place } of entries) {
      const named =
        entry.kind === RECORD ? places.get(handleKey(handleOf(entry.content))) : lists.get(hex(sha256(entry.content)));
      if (named?.pack === place.pack && named.offset === place.offset) yield entry;
    }
  }
}

/**
 * Where these records are at the moment of a snapshot: in the B-tree, unless it could not be
 * merged.
 */
export function recordPlaces(collection: Collection, handles: readonly Uint8Array[]): Map<string, Place | undefined> {
  if (!isFrozen(collection))
    return new Map([...collection.tables.places(handles)].map(([key, place]) => [key, decodePlace(place)]));
  const found = collection.records.findMany(handles);
  return new Map(handles.map((handle, i) => [handleKey(handle), found[i]]));
}

/** The error if the packs lack something that the catalogue names. */
export function entriesMissing(collectionNumber: number, missing: number): HersError {
  return damaged(`vault/${collectionNumber}-*.pack`, `${missing} records or lists are missing`);
}

export function snapshotCollection(
  collection: Collection,
  signal: AbortSignal,
  hold?: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  return atOneMoment(collection, signal, (moment) => piecesOf(collection, moment, hold));
}

async function* piecesOf(
  collection: Collection,
  moment: Captured,
  hold?: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  const { header, packs, blocks, signal } = moment;
  using holding = new Holding(hold);
  // A piece being filled, one on its way, and what is read of a pack at a time.
  const usual = 2 * PIECE_BYTES + RUN_BYTES;
  const headerBytes = header.manifest.length + header.descriptor.length;
  holding.become(usual + 2 * headerBytes);
  const frames = new Frames();
  yield* frames.put(undefined, encodeSnapshotHeader(header));
  let missing = header.records + header.lists;
  for (const pack of packs) {
    for await (const entry of namedEntries(collection, moment, pack)) {
      const { length } = entry.content;
      missing--;
      holding.become(usual + (length > RUN_BYTES ? length : 0));
      yield* frames.entry(entry);
    }
  }
  if (missing !== 0) throw entriesMissing(collection.number, missing);
  for (const block of blocks) {
    signal.throwIfAborted();
    holding.become(usual + READING_COST * block.bytes);
    const { encoded } = await readStoredBlock(collection.folder.disk, block);
    yield* frames.block(encoded);
  }
  yield frames.end();
}
