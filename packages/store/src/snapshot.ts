// A whole collection as one stream of frames (service's frames.ts), and what it must look like to be taken back.
//
//   header   'HERSSNAP', version, zero, collection id (16), version of the manifest (u64), records (u64), lists, blocks,
//            length of the descriptor (u32), zero, descriptor, manifest
//   then     1 + handle + sealed record · 2 + sealed list · 3 + piece of a block that goes on · 4 + last piece of a block
//   end      5 + SHA-256 of all frames before, lengths included

import { createHash } from 'node:crypto';
import { frame, HANDLE_BYTES, HersError, type Many } from '@hers/service';
import { handleKey, hex, sha256 } from './bytes.ts';
import type { Collection } from './collection.ts';
import { RECORD } from './entry.ts';
import { decodePlace, type Place } from './place.ts';
import { readStoredBlock } from './rebuild.ts';
import { eitherSignal } from './signals.ts';
import { damaged } from './storage-errors.ts';
import type { StoredBlock } from './stored-block.ts';
import type { VaultReader } from './vault.ts';

const MAGIC = 0x50414e5353524548n; // 'HERSSNAP'
export const SNAPSHOT_VERSION = 1;
const FIELDS_BYTES = 64;
const PIECE_BYTES = 2 ** 20;

const END_FRAME_BYTES = 4 + 1 + 32;

export const PART = { record: 1, list: 2, blockPiece: 3, blockEnd: 4, end: 5 } as const;

export interface SnapshotHeader {
  readonly id: Uint8Array;
  readonly version: number;
  readonly records: number;
  readonly lists: number;
  readonly blocks: number;
  readonly descriptor: Uint8Array;
  readonly manifest: Uint8Array;
}

function encodeHeader(header: SnapshotHeader): Uint8Array {
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
  const format = fields.readUInt32LE(8);
  if (format !== SNAPSHOT_VERSION)
    throw new HersError(
      'UNSUPPORTED_VERSION',
      `this snapshot has format version ${format}; this program reads version ${SNAPSHOT_VERSION}`,
    );
  const manifestAt = FIELDS_BYTES + fields.readUInt32LE(56);
  const version = Number(fields.readBigUInt64LE(32));
  if (manifestAt > bytes.length || fields.readUInt32LE(60) !== 0 || !Number.isSafeInteger(version))
    throw new HersError('MALFORMED', 'the header of this snapshot contradicts itself');
  return {
    id: new Uint8Array(bytes.subarray(16, 32)),
    version,
    records: Number(fields.readBigUInt64LE(40)),
    lists: fields.readUInt32LE(48),
    blocks: fields.readUInt32LE(52),
    descriptor: new Uint8Array(bytes.subarray(FIELDS_BYTES, manifestAt)),
    manifest: new Uint8Array(bytes.subarray(manifestAt)),
  };
}

/** Frames, gathered into pieces of a useful size. Each method returns a piece when one is full. */
class Frames {
  readonly #hash = createHash('sha256');
  #piece = Buffer.allocUnsafe(PIECE_BYTES);
  #filled = 0;

  put(kind: number | undefined, content: Uint8Array): Buffer | undefined {
    const head = kind === undefined ? 4 : 5;
    const length = head + content.length;
    const full = this.#filled + length > this.#piece.length ? this.#take(length) : undefined;
    this.#piece.writeUInt32LE(length - 4, this.#filled);
    if (kind !== undefined) this.#piece[this.#filled + 4] = kind;
    this.#piece.set(content, this.#filled + head);
    this.#filled += length;
    return full;
  }

  #take(next = 0): Buffer {
    const piece = this.#piece.subarray(0, this.#filled);
    this.#hash.update(piece);
    this.#piece = Buffer.allocUnsafe(Math.max(PIECE_BYTES, next));
    this.#filled = 0;
    return piece;
  }

  end(): Buffer {
    const last = this.#take();
    return Buffer.concat([last, frame(Buffer.concat([Uint8Array.of(PART.end), this.#hash.digest()]))]);
  }
}

/** Passes a stream on, and knows the hash of all but its last frame when it has ended. */
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

/** What a snapshot is of: all of one moment. Files that it needs stay until `release`. */
interface Moment {
  readonly header: SnapshotHeader;
  readonly lists: ReadonlyMap<string, Place>;
  readonly packs: readonly { readonly pack: number; readonly ends: number }[];
  readonly blocks: readonly StoredBlock[];
  release(): void;
}

function capture({ tables, blocks, id, descriptor }: Collection): Moment {
  const lists = new Map(tables.lists().map((row) => [hex(row.id), decodePlace(row.place)]));
  // Copies, because compaction moves blocks, while their files of this moment stay.
  const held = [...blocks.values()].map((block) => ({ ...block, release: block.source.hold() }));
  const { records } = tables.current();
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

export async function* snapshotCollection(collection: Collection, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const pause = async () => {
    await new Promise(setImmediate);
    signal.throwIfAborted();
  };
  // With nothing fresh, the B-tree is the collection as it is now; and it stays so until the snapshot ends, because merges wait.
  const { moment, copying } = await collection.upkeep.take(async () => {
    collection.checkUsable();
    while (collection.records.fresh > 0) {
      await collection.snapshotsEnd(signal);
      await collection.records.merge(pause);
      collection.checkUsable();
    }
    return { copying: collection.beginSnapshot(), moment: capture(collection) };
  });
  const either = eitherSignal(copying.signal, signal);
  const reader = collection.vault.reader();
  try {
    yield* piecesOf(collection, moment, reader, either.signal);
  } finally {
    either.done();
    moment.release();
    collection.endSnapshot(copying);
    reader.close();
  }
}

async function* piecesOf(
  { tables, key, folder }: Collection,
  { header, lists, packs, blocks }: Moment,
  reader: VaultReader,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const frames = new Frames();
  frames.put(undefined, encodeHeader(header));
  let missing = header.records + header.lists;
  for (const { pack, ends } of packs) {
    for await (const entries of reader.entries(pack, ends)) {
      signal.throwIfAborted();
      const handleOf = (content: Uint8Array) => content.subarray(0, HANDLE_BYTES);
      const stored = tables.places(
        entries.filter(({ entry }) => entry.kind === RECORD).map(({ entry }) => handleOf(entry.content)),
      );
      for (const { entry, place } of entries) {
        const isRecord = entry.kind === RECORD;
        const found = isRecord ? stored.get(handleKey(handleOf(entry.content))) : undefined;
        const named = isRecord ? found && decodePlace(found) : lists.get(hex(sha256(entry.content)));
        if (named?.pack !== place.pack || named.offset !== place.offset) continue;
        missing--;
        const piece = frames.put(isRecord ? PART.record : PART.list, entry.content);
        if (piece) yield piece;
      }
    }
  }
  if (missing !== 0) throw damaged(`vault/${key}-*.pack`, `${missing} records or lists are missing`);
  for (const block of blocks) {
    signal.throwIfAborted();
    const { encoded } = await readStoredBlock(folder.disk, block);
    for (let at = 0; at < encoded.length; at += PIECE_BYTES) {
      const last = at + PIECE_BYTES >= encoded.length;
      const piece = frames.put(last ? PART.blockEnd : PART.blockPiece, encoded.subarray(at, at + PIECE_BYTES));
      if (piece) yield piece;
    }
  }
  yield frames.end();
}
