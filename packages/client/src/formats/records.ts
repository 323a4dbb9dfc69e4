// Records as the client knows them (id, vector, payload) and as the store does (a handle and sealed
// bytes).
//
// The handle is a keyed hash of the id. The version is a keyed hash of the whole content: writing
// the same record again gives the same version, so nothing has to be written; and a store that
// serves an older copy is caught, because lists and manifest name the version.
//
//   sealed record   format u32, epoch u32, seal (sealing.ts)
//   in the seal     version (16 bytes), length of the id u32, coordinates u32, length of the
//                   payload u32, id (UTF-8), vector (f32), payload (JSON), parts
//   projection      a part: what a compressor that may round differently elsewhere made of the
//                   vector, as it was indexed (f32)
//
// Everything is little-endian.
//
// Named parts at the end of sealed records and lists are for what is added later, rather than a
// format with another number. Each says whether a reader that does not know it may ignore it: one
// marked `must understand` makes it refuse the whole thing with UNSUPPORTED_VERSION; one marked
// `may ignore` it skips, and does not carry along when the thing is written again.
//
//   part            flags u8, length of the name u8, length of the content u32, name (ASCII),
//                   content

import type { MasterSeed } from '@hers/scheme/secret';
import { freeBytes, HANDLE_BYTES, HersError, otherFormat } from '@hers/service';
import { bytesOf, concat, hex, hexText, u32 } from '../bytes.ts';
import { type Fields, type FieldValues, invalid, valuesOf } from '../fields/field.ts';
import { type KeyedHash, makeKeyedHash, SEAL_OVERHEAD, type Sealer } from '../sealing/sealing.ts';
import { type BatchNames, FRAME_BYTES, type PlainBatch, type SealedBatch } from './batch.ts';

export const VERSION_BYTES = 16;
const MAX_ID_BYTES = 1024;
const MAX_PAYLOAD_BYTES = 2 ** 24;
const FORMAT = 1;
const HEAD_BYTES = 8;
/** What comes before the id in a seal. */
const LENGTHS_BYTES = VERSION_BYTES + 12;
const PROJECTION = 'projection';
const KNOWN_PARTS: ReadonlySet<string> = new Set([PROJECTION]);
const ASSOCIATED_DATA = new TextEncoder().encode('record');
/** Seals under way at a time, on platforms where each is a promise. */
const IN_FLIGHT = 256;

/** What can be kept beside a vector: anything JSON can hold. */
export type Payload = null | boolean | number | string | readonly Payload[] | { readonly [key: string]: Payload };

/** A record to enrol. */
export interface VectorRecord {
  /** Names the record: a string of 1 to 1024 bytes in UTF-8. The store never sees it. */
  readonly id: string;
  /** As many coordinates as the collection has dimensions. */
  readonly vector: ArrayLike<number>;
  /** Kept with the record in the vault, encrypted, and returned on request. */
  readonly payload?: Payload;
}

/** A record as it was enrolled. */
export interface StoredRecord extends VectorRecord {
  /** The full vector as it was written, also if a compressor shortens what is indexed. */
  readonly vector: Float32Array;
}

/** What was indexed of a vector under an epoch. */
export interface Projection {
  readonly epoch: number;
  readonly values: Float32Array;
}

/** A record that has passed its checks, in the bytes that are hashed and sealed. */
export interface PlainRecord {
  readonly id: string;
  readonly vector: Float32Array;
  /** JSON, or empty. */
  readonly payload: Uint8Array;
  /** Both hexadecimal: they are keys of maps. */
  readonly handle: string;
  readonly version: string;
  /** The epoch it is sealed under. */
  readonly epoch: number;
  /** Sealed with the record if its compressor may round differently elsewhere. */
  readonly projection?: Projection | undefined;
}

/**
 * Remembers a pending record without its payload, which may be large, and the batch it came with.
 */
export class PendingRecord {
  readonly id: string;
  readonly vector: Float32Array;
  readonly handle: string;
  readonly version: string;
  readonly projection: Projection | undefined;
  /** Of the fields that the collection had when the record was read. */
  readonly values: FieldValues;

  private constructor(record: PlainRecord, projection: Projection | undefined, fields: Fields) {
    const { id, vector, handle, version } = record;
    this.id = id;
    this.vector = vector.slice();
    this.handle = handle;
    this.version = version;
    this.projection = projection && { epoch: projection.epoch, values: projection.values.slice() };
    this.values = valuesIn(record, fields);
  }

  /** With this projection, where it is not the record's own. */
  static of(
    record: PlainRecord | PendingRecord,
    fields: Fields,
    projection: Projection | undefined = record.projection,
  ): PendingRecord {
    return record instanceof PendingRecord ? record : new PendingRecord(record, projection, fields);
  }
}

const NO_VALUES: FieldValues = new Map();

export function valuesIn(record: PlainRecord | PendingRecord, fields: Fields): FieldValues {
  if (record instanceof PendingRecord) return record.values;
  const isNone = record.payload.length === 0 || Object.keys(fields).length === 0;
  return isNone ? NO_VALUES : valuesOf(payloadOf(record), fields, record.id);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Throws unless a record can have this id: a text of 1 to 1024 bytes in UTF-8. */
export function checkId(id: unknown): asserts id is string {
  if (typeof id !== 'string' || id.length === 0) throw invalid('a record id is a string that is not empty');
  if (!id.isWellFormed()) throw invalid('a record id holds half a surrogate pair');
  if (isLonger(id, MAX_ID_BYTES)) throw invalid(`a record id has at most ${MAX_ID_BYTES} bytes`);
}

/** In UTF-8; bytes are only counted where it could matter. */
function isLonger(text: string, bytes: number): boolean {
  return text.length > bytes / 3 && encoder.encode(text).length > bytes;
}

export function payloadText({ payload }: { readonly payload?: Payload | undefined }): string {
  return payload === undefined ? '' : JSON.stringify(payload);
}

/** Also for a payload that may be too large, or no JSON at all. */
export function checkPayload(payload: Payload | undefined, id: string): string {
  let text: string | undefined;
  try {
    text = payloadText({ payload });
  } catch {
    text = undefined;
  }
  if (text === undefined) throw invalid(`the payload of ${JSON.stringify(id)} cannot be written as JSON`);
  if (isLonger(text, MAX_PAYLOAD_BYTES))
    throw invalid(`the payload of ${JSON.stringify(id)} is larger than ${MAX_PAYLOAD_BYTES} bytes`);
  return text;
}

/** The key that seals records and lists of one epoch. */
export function sealingKey(seed: MasterSeed, collectionId: Uint8Array, epoch: number): Uint8Array {
  return seed.deriveKey('seals', concat(collectionId, u32(epoch)));
}

/** The contents of a batch as they are sealed, one after the other, but for the versions. */
interface LaidOut {
  readonly plains: Uint8Array;
  readonly ends: Uint32Array;
  /** Id, vector and payload of each: what its version is a hash of, after these two lengths. */
  readonly contentStarts: Uint32Array;
  readonly contentEnds: Uint32Array;
  /** Bytes of the id and of the vector. */
  readonly lengths: Uint32Array;
}

/** One piece of memory for all: one for each record would take as long as the cipher. */
function layOut({ count, ids, idEnds, vectors, payloads, payloadEnds, projections }: PlainBatch): LaidOut {
  const floats = bytesOf(vectors);
  const size = floats.length / count;
  const projected = projections && bytesOf(projections);
  const partSize = projected ? projected.length / count : 0;
  const partTotal = projected ? count * partBytes(PROJECTION, partSize) : 0;
  const plains = new Uint8Array(count * LENGTHS_BYTES + ids.length + floats.length + payloads.length + partTotal);
  const view = new DataView(plains.buffer);
  const [ends, contentStarts, contentEnds] = Array.from({ length: 3 }, () => new Uint32Array(count));
  const lengths = new Uint32Array(2 * count);
  for (let i = 0, at = 0; i < count; i++) {
    const idAt = i === 0 ? 0 : idEnds[i - 1];
    const payloadAt = i === 0 ? 0 : payloadEnds[i - 1];
    const [idBytes, payloadBytes] = [idEnds[i] - idAt, payloadEnds[i] - payloadAt];
    view.setUint32(at + VERSION_BYTES, idBytes, true);
    view.setUint32(at + VERSION_BYTES + 4, size / 4, true);
    view.setUint32(at + VERSION_BYTES + 8, payloadBytes, true);
    lengths[2 * i] = idBytes;
    lengths[2 * i + 1] = size;
    at = contentStarts[i] = at + LENGTHS_BYTES;
    // Byte by byte: a view of so few takes longer.
    for (let j = idAt; j < idEnds[i]; j++) plains[at++] = ids[j];
    plains.set(floats.subarray(i * size, (i + 1) * size), at);
    at += size;
    if (payloadBytes > 0) plains.set(payloads.subarray(payloadAt, payloadEnds[i]), at);
    at = contentEnds[i] = at + payloadBytes;
    if (projected) {
      const content = projected.subarray(i * partSize, (i + 1) * partSize);
      const part = encodePart({ name: PROJECTION, must: false, content });
      plains.set(part, at);
      at += part.length;
    }
    ends[i] = at;
  }
  return { plains, ends, contentStarts, contentEnds, lengths };
}

/** The hashes of many, at once where the platform can (`KeyedHash.many`). */
function hashAll(
  hash: KeyedHash,
  heads: Uint8Array,
  data: Uint8Array,
  starts: Uint32Array,
  ends: Uint32Array,
  out: Uint8Array,
): void {
  if (hash.many) {
    hash.many(heads, data, starts, ends, out);
    return;
  }
  const [head, each] = [heads.length / ends.length, out.length / ends.length];
  for (let i = 0; i < ends.length; i++) {
    const hashed = hash(heads.subarray(i * head, (i + 1) * head), data.subarray(starts[i], ends[i]));
    out.set(hashed.subarray(0, each), i * each);
  }
}

export class RecordKeys {
  /** What a seal is bound to: this, with handle and head in the room behind. */
  readonly #associatedData: Uint8Array;
  readonly #handle: KeyedHash;
  readonly #version: KeyedHash;

  private constructor(collectionId: Uint8Array, handle: KeyedHash, version: KeyedHash) {
    this.#associatedData = concat(ASSOCIATED_DATA, collectionId, new Uint8Array(HANDLE_BYTES + HEAD_BYTES));
    this.#handle = handle;
    this.#version = version;
  }

  static async of(seed: MasterSeed, collectionId: Uint8Array): Promise<RecordKeys> {
    const [handle, version] = await Promise.all(
      ['handles', 'record versions'].map((purpose) => makeKeyedHash(seed.deriveKey(purpose, collectionId))),
    );
    return new RecordKeys(collectionId, handle, version);
  }

  handleOf(id: string): Uint8Array {
    checkId(id);
    return this.#handle(encoder.encode(id)).subarray(0, HANDLE_BYTES);
  }

  wipe(): void {
    this.#handle.wipe();
    this.#version.wipe();
  }

  name(batch: PlainBatch): BatchNames {
    const { versions: _, ...names } = this.#names(batch, layOut(batch));
    return names;
  }

  #names(batch: PlainBatch, laid: LaidOut): BatchNames & { readonly versions: Uint8Array } {
    const { count, ids, idEnds } = batch;
    const handles = new Uint8Array(count * HANDLE_BYTES);
    const versions = new Uint8Array(count * VERSION_BYTES);
    const idStarts = new Uint32Array(count);
    idStarts.set(idEnds.subarray(0, -1), count > 0 ? 1 : 0);
    const heads = bytesOf(laid.lengths);
    hashAll(this.#handle, new Uint8Array(0), ids, idStarts, idEnds, handles);
    hashAll(this.#version, heads, laid.plains, laid.contentStarts, laid.contentEnds, versions);
    return { handles, versions, handleText: hexText(handles), versionText: hexText(versions) };
  }

  /** Seals every record of a batch, bound to collection, handle, format and epoch. */
  async seal(sealer: Sealer, epoch: number, batch: PlainBatch): Promise<SealedBatch> {
    const { count, projections } = batch;
    const laid = layOut(batch);
    const { plains, ends: plainEnds } = laid;
    const { versions, ...names } = this.#names(batch, laid);
    for (let i = 0; i < count; i++) {
      const at = i === 0 ? 0 : plainEnds[i - 1];
      for (let j = 0; j < VERSION_BYTES; j++) plains[at + j] = versions[i * VERSION_BYTES + j];
    }
    const associated = this.#bindings(epoch, names.handles);
    const stride = this.#associatedData.length;
    const before = FRAME_BYTES + HEAD_BYTES;
    const sealed = new Uint8Array(plains.length + count * (before + SEAL_OVERHEAD));
    const sealedView = new DataView(sealed.buffer);
    const ends = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
      const at = i === 0 ? 0 : ends[i - 1];
      ends[i] = plainEnds[i] + (i + 1) * (before + SEAL_OVERHEAD);
      sealedView.setUint32(at, ends[i] - at - 4, true);
      for (let j = 0; j < HANDLE_BYTES; j++) sealed[at + 4 + j] = names.handles[i * HANDLE_BYTES + j];
      sealedView.setUint32(at + FRAME_BYTES, FORMAT, true);
      sealedView.setUint32(at + FRAME_BYTES + 4, epoch, true);
    }
    // The version tells contents apart without hashing them again, except for what it does not
    // cover.
    if (sealer.sealMany && !projections && count > 0) {
      sealer.sealMany(sealed, before, { plains, ends: plainEnds, associated, hedges: versions });
      freeBytes(plains, associated);
      return { ...names, sealed, ends };
    }
    const underWay: Promise<void>[] = [];
    for (let i = 0; i < count; i++) {
      const hedge = projections ? undefined : versions.subarray(i * VERSION_BYTES, (i + 1) * VERSION_BYTES);
      const sealing = sealer.sealInto(
        sealed.subarray((i === 0 ? 0 : ends[i - 1]) + before, ends[i]),
        plains.subarray(i === 0 ? 0 : plainEnds[i - 1], plainEnds[i]),
        associated.subarray(i * stride, (i + 1) * stride),
        hedge,
      );
      if (sealing !== undefined) underWay.push(sealing);
      if (underWay.length === IN_FLIGHT) await Promise.all(underWay.splice(0));
    }
    await Promise.all(underWay);
    freeBytes(plains, associated);
    return { ...names, sealed, ends };
  }

  /** What each seal is bound to, one after the other. */
  #bindings(epoch: number, handles: Uint8Array): Uint8Array {
    const stride = this.#associatedData.length;
    const one = new Uint8Array(this.#associatedData);
    const head = new DataView(one.buffer, stride - HEAD_BYTES);
    head.setUint32(0, FORMAT, true);
    head.setUint32(4, epoch, true);
    const all = new Uint8Array((handles.length / HANDLE_BYTES) * stride);
    for (let i = 0, from = 0; i < all.length; i += stride) {
      all.set(one, i);
      for (let at = i + stride - HEAD_BYTES - HANDLE_BYTES; at < i + stride - HEAD_BYTES; at++)
        all[at] = handles[from++];
    }
    return all;
  }

  /**
   * Opens a record and checks that it is the one asked for. `sealerOf` refuses epochs that there
   * cannot be.
   */
  async open(
    sealerOf: (epoch: number) => Sealer | Promise<Sealer>,
    handle: Uint8Array,
    bytes: Uint8Array,
  ): Promise<PlainRecord> {
    if (bytes.length < HEAD_BYTES) throw broken();
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    if (view.getUint32(0, true) !== FORMAT) throw otherFormat('this collection');
    const epoch = view.getUint32(4, true);
    const bound = this.#associatedData.subarray(0, -(HANDLE_BYTES + HEAD_BYTES));
    const associatedData = concat(bound, handle, bytes.subarray(0, HEAD_BYTES));
    const plain = await (await sealerOf(epoch)).open(bytes.subarray(HEAD_BYTES), associatedData);
    const { id, vector, payload, version, parts } = contentOf(plain);
    const projected = parts.get(PROJECTION);
    const projection = projected && { epoch, values: floatsOf(projected) };
    return { id, vector, payload, handle: hex(handle), version, epoch, projection };
  }
}

interface Content extends Pick<PlainRecord, 'id' | 'vector' | 'payload' | 'version'> {
  readonly parts: ReadonlyMap<string, Uint8Array>;
}

function contentOf(plain: Uint8Array): Content {
  if (plain.length < LENGTHS_BYTES) throw broken();
  const view = new DataView(plain.buffer, plain.byteOffset, plain.length);
  const vectorAt = LENGTHS_BYTES + view.getUint32(VERSION_BYTES, true);
  const payloadAt = vectorAt + 4 * view.getUint32(VERSION_BYTES + 4, true);
  const partsAt = payloadAt + view.getUint32(VERSION_BYTES + 8, true);
  if (partsAt > plain.length) throw broken();
  return {
    version: hex(plain.subarray(0, VERSION_BYTES)),
    id: decoder.decode(plain.subarray(LENGTHS_BYTES, vectorAt)),
    vector: floatsOf(plain.subarray(vectorAt, payloadAt)),
    payload: plain.slice(payloadAt, partsAt),
    parts: decodeParts(plain.subarray(partsAt), KNOWN_PARTS),
  };
}

/** Copied, because floats must be aligned. */
function floatsOf(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

function broken(): HersError {
  return new HersError('INTEGRITY', 'a sealed record is too short to be one');
}

export function payloadOf(record: PlainRecord): Payload | undefined {
  return record.payload.length === 0 ? undefined : JSON.parse(decoder.decode(record.payload));
}

const MUST_UNDERSTAND = 1;
const PART_HEAD_BYTES = 6;
const nameDecoder = new TextDecoder();

export interface Part {
  readonly name: string;
  readonly must: boolean;
  readonly content: Uint8Array;
}

export function partBytes(name: string, contentBytes: number): number {
  return PART_HEAD_BYTES + name.length + contentBytes;
}

export function encodePart({ name, must, content }: Part): Uint8Array {
  const head = Uint8Array.of(must ? MUST_UNDERSTAND : 0, name.length);
  return concat(head, u32(content.length), encoder.encode(name), content);
}

/** The parts in these bytes; unknown ones are left out if they may be ignored. */
export function decodeParts(bytes: Uint8Array, known: ReadonlySet<string>): Map<string, Uint8Array> {
  const parts = new Map<string, Uint8Array>();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < bytes.length; ) {
    const nameAt = at + PART_HEAD_BYTES;
    const contentAt = nameAt <= bytes.length ? nameAt + bytes[at + 1] : nameAt;
    const end = contentAt <= bytes.length ? contentAt + view.getUint32(at + 2, true) : contentAt;
    if (end > bytes.length) throw new HersError('INTEGRITY', 'sealed data ends in the middle of a part');
    const name = nameDecoder.decode(bytes.subarray(nameAt, contentAt));
    if (known.has(name)) parts.set(name, bytes.subarray(contentAt, end));
    else if (bytes[at] & MUST_UNDERSTAND) throw otherFormat('this collection');
    at = end;
  }
  return parts;
}
