// Records in bulk, on their way into a collection: all ids in one array, all vectors in another,
// all payloads in a third. A worker gets these arrays, hashes and seals without making an object
// for each record, and sends arrays back.

import { Framed, HANDLE_BYTES, HersError, type SealedRecord } from '@hers/service';
import { putText } from '../bytes.ts';
import type { PlainRecord, Projection } from './records.ts';

/** Hexadecimal digits of a handle, and of a version. */
const NAME_DIGITS = 32;

/**
 * Parallel arrays: entry i of each belongs to record i. Id i is `ids[idEnds[i - 1] .. idEnds[i]]`.
 */
export interface PlainBatch {
  readonly count: number;
  /** UTF-8. */
  readonly ids: Uint8Array;
  readonly idEnds: Uint32Array;
  readonly vectors: Float32Array;
  /** JSON; empty for records without a payload. */
  readonly payloads: Uint8Array;
  readonly payloadEnds: Uint32Array;
  /** What was indexed of the vectors, if that is sealed too (records.ts). */
  readonly projections?: Float32Array | undefined;
}

export interface BatchNames {
  readonly handles: Uint8Array;
  /** Hexadecimal, all in one string: a million small ones would cost more to send than to make. */
  readonly handleText: string;
  readonly versionText: string;
}

/** The seals of a batch, under one epoch. */
export interface SealedBatch extends BatchNames {
  /**
   * Seal i ends at `ends[i]`. It comes after its handle, and that after the length of both: so it
   * is sent over HTTP (frames.ts of service), without another copy.
   */
  readonly sealed: Uint8Array;
  readonly ends: Uint32Array;
}

/** What comes before a seal in a batch. */
export const FRAME_BYTES: number = 4 + HANDLE_BYTES;

class ByteBuffer {
  bytes: Uint8Array;
  length = 0;

  constructor(capacity: number) {
    this.bytes = new Uint8Array(capacity);
  }

  reserve(more: number): void {
    if (this.length + more <= this.bytes.length) return;
    const grown = new Uint8Array(Math.max(2 * this.bytes.length, this.length + more));
    grown.set(this.bytes.subarray(0, this.length));
    this.bytes = grown;
  }

  /**
   * Appends a text as UTF-8, which takes at most three bytes for each of its units; returns how
   * many it took.
   */
  text(text: string): number {
    this.reserve(3 * text.length);
    const written = putText(text, this.bytes, this.length);
    this.length += written;
    return written;
  }

  append(bytes: Uint8Array): void {
    this.reserve(bytes.length);
    this.bytes.set(bytes, this.length);
    this.length += bytes.length;
  }

  /** The bytes, in memory of exactly their size. */
  take(): Uint8Array {
    return this.length === this.bytes.length ? this.bytes : this.bytes.slice(0, this.length);
  }
}

/** Initial capacity, in records. */
const INITIAL_ROOM = 64;

/**
 * Collects a batch of at most `limit` records. They have been checked, and are copied: the caller
 * may change them afterwards.
 */
export class Packing {
  readonly names: string[] = [];
  readonly #limit: number;
  readonly #dimension: number;
  readonly #ids: ByteBuffer;
  readonly #payloads = new ByteBuffer(0);
  #room: number;
  #idEnds: Uint32Array;
  #vectors: Float32Array;
  #payloadEnds: Uint32Array;

  /** With room for this many at first. */
  constructor(limit: number, dimension: number, room: number = INITIAL_ROOM) {
    this.#limit = limit;
    this.#dimension = dimension;
    this.#room = Math.min(limit, room);
    this.#ids = new ByteBuffer(16 * this.#room);
    this.#idEnds = new Uint32Array(this.#room);
    this.#vectors = new Float32Array(this.#room * dimension);
    this.#payloadEnds = new Uint32Array(this.#room);
  }

  get count(): number {
    return this.names.length;
  }

  get payloadBytes(): number {
    return this.#payloads.length;
  }

  add(id: string, vector: ArrayLike<number>, payload: Uint8Array | string): void {
    const at = this.names.length;
    if (at === this.#room) this.#resize(Math.min(2 * at, this.#limit));
    if (at === this.#room) throw new RangeError('this batch is full');
    this.#ids.text(id);
    this.#idEnds[at] = this.#ids.length;
    this.#vectors.set(vector, at * this.#dimension);
    if (typeof payload === 'string') this.#payloads.text(payload);
    else this.#payloads.append(payload);
    this.#payloadEnds[at] = this.#payloads.length;
    this.names.push(id);
  }

  #resize(room: number): void {
    const kept = Math.min(room, this.#room);
    const [idEnds, payloadEnds] = [new Uint32Array(room), new Uint32Array(room)];
    const vectors = new Float32Array(room * this.#dimension);
    idEnds.set(this.#idEnds.subarray(0, kept));
    payloadEnds.set(this.#payloadEnds.subarray(0, kept));
    vectors.set(this.#vectors.subarray(0, kept * this.#dimension));
    this.#idEnds = idEnds;
    this.#payloadEnds = payloadEnds;
    this.#vectors = vectors;
    this.#room = room;
  }

  /** The batch, in memory of exactly its size; nothing is added afterwards. */
  take(): PlainBatch {
    if (this.count < this.#room) this.#resize(this.count);
    return {
      count: this.count,
      ids: this.#ids.take(),
      idEnds: this.#idEnds,
      vectors: this.#vectors,
      payloads: this.#payloads.take(),
      payloadEnds: this.#payloadEnds,
    };
  }
}

/**
 * Existing records as batches of at most `size`, with their projections, one after the other, if
 * these are sealed too.
 */
export function* packed(
  records: readonly PlainRecord[],
  dimension: number,
  size: number,
  projections?: Float32Array,
): Generator<PlainBatch> {
  const width = projections ? projections.length / records.length : 0;
  for (let at = 0; at < records.length; at += size) {
    const part = records.slice(at, at + size);
    const packing = new Packing(part.length, dimension);
    for (const { id, vector, payload } of part) packing.add(id, vector, payload);
    const projected = projections?.slice(at * width, (at + part.length) * width);
    yield { ...packing.take(), ...(projected ? { projections: projected } : {}) };
  }
}

/**
 * One record of a batch. Vector and payload are looked up on demand: making a view of each would be
 * most of the work of enrolling.
 */
class BatchRecord implements PlainRecord {
  readonly id: string;
  readonly handle: string;
  readonly version: string;
  readonly epoch: number;
  readonly #batch: PlainBatch;
  readonly #index: number;

  constructor(id: string, batch: PlainBatch, index: number, names: BatchNames, epoch: number) {
    this.id = id;
    this.handle = names.handleText.slice(index * NAME_DIGITS, (index + 1) * NAME_DIGITS);
    this.version = names.versionText.slice(index * NAME_DIGITS, (index + 1) * NAME_DIGITS);
    this.#batch = batch;
    this.#index = index;
    this.epoch = epoch;
  }

  get vector(): Float32Array {
    const { vectors, count } = this.#batch;
    const dimension = vectors.length / count;
    return vectors.subarray(this.#index * dimension, (this.#index + 1) * dimension);
  }

  get payload(): Uint8Array {
    const { payloads, payloadEnds } = this.#batch;
    return payloads.subarray(this.#index === 0 ? 0 : payloadEnds[this.#index - 1], payloadEnds[this.#index]);
  }

  get projection(): Projection | undefined {
    const { projections, count } = this.#batch;
    if (!projections) return undefined;
    const dimension = projections.length / count;
    const values = projections.subarray(this.#index * dimension, (this.#index + 1) * dimension);
    return { epoch: this.epoch, values };
  }
}

/** The records of a batch one by one, sealed under this epoch. */
export function recordsOf(ids: readonly string[], batch: PlainBatch, names: BatchNames, epoch: number): PlainRecord[] {
  checkNames(batch.count, names);
  return ids.map((id, i) => new BatchRecord(id, batch, i, names, epoch));
}

export function sealAt({ sealed, ends }: SealedBatch, i: number): SealedRecord {
  const at = FRAME_BYTES + (i === 0 ? 0 : ends[i - 1]);
  return { handle: sealed.subarray(at - HANDLE_BYTES, at), sealed: sealed.subarray(at, ends[i]) };
}

export function sealsOf(batches: readonly SealedBatch[]): Framed<SealedRecord> {
  return new Framed(
    function* () {
      for (const batch of batches) for (let i = 0; i < batch.ends.length; i++) yield sealAt(batch, i);
    },
    () => batches.map(({ sealed }) => sealed),
  );
}

/** A worker that answers for another batch must not cause records under wrong names. */
function checkNames(count: number, { handles, handleText, versionText }: BatchNames): void {
  const fits = handles.length === count * HANDLE_BYTES;
  if (!fits || handleText.length !== count * NAME_DIGITS || versionText.length !== count * NAME_DIGITS)
    throw new HersError('INTEGRITY', 'a worker thread answered for another batch of records');
}
