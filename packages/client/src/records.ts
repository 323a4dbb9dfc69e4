// Records as the client knows them (id, vector, payload) and as the store does (a handle and sealed bytes).
//
// The handle is a keyed hash of the id. The version is a keyed hash of the whole content: writing the same record again gives the same version, so nothing has to be written;
// and a store that serves an older copy is caught, because lists and manifest name the version.

import type { MasterSeed } from '@hers/scheme/secret';
import { HersError } from '@hers/service';
import type { BatchNames, PlainBatch, SealedBatch } from './batch.ts';
import { bytesOf, concat, fromHex, hex, hexText, u32 } from './bytes.ts';
import { type KeyedHash, makeKeyedHash, SEAL_OVERHEAD, type Sealer } from './sealing.ts';

export const VERSION_BYTES = 16;
const HANDLE_BYTES = 16;
const MAX_ID_BYTES = 1024;
const MAX_PAYLOAD_BYTES = 2 ** 24;
const HEAD_BYTES = 4 + VERSION_BYTES;
const ABOUT = new TextEncoder().encode('record');
/** Seals under way at a time where each is a promise. */
const IN_FLIGHT = 256;

/** What can be kept beside a vector: anything JSON can hold. */
export type Payload = null | boolean | number | string | readonly Payload[] | { readonly [key: string]: Payload };

export interface VectorRecord {
  readonly id: string;
  readonly vector: Float32Array | readonly number[];
  readonly payload?: Payload;
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
}

/** What is remembered of a record that waits for a block: not its payload, which may be large, and nothing of the batch it came with. */
export class WaitingRecord {
  readonly id: string;
  readonly vector: Float32Array;
  readonly handle: string;
  readonly version: string;

  private constructor({ id, vector, handle, version }: PlainRecord) {
    this.id = id;
    this.vector = vector.slice();
    this.handle = handle;
    this.version = version;
  }

  static of(record: PlainRecord | WaitingRecord): WaitingRecord {
    return record instanceof WaitingRecord ? record : new WaitingRecord(record);
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export function checkId(id: unknown): asserts id is string {
  if (typeof id !== 'string' || id.length === 0)
    throw new HersError('INVALID_ARGUMENT', 'a record id is a string that is not empty');
  if (!id.isWellFormed()) throw new HersError('INVALID_ARGUMENT', 'a record id holds half a surrogate pair');
  if (isLonger(id, MAX_ID_BYTES))
    throw new HersError('INVALID_ARGUMENT', `a record id has at most ${MAX_ID_BYTES} bytes`);
}

/** In UTF-8; bytes are only counted where it could matter. */
function isLonger(text: string, bytes: number): boolean {
  return text.length > bytes / 3 && encoder.encode(text).length > bytes;
}

/** The payload as JSON; empty when there is none. */
export function checkPayload(payload: Payload | undefined, id: string): string {
  if (payload === undefined) return '';
  let text: string | undefined;
  try {
    text = JSON.stringify(payload);
  } catch {
    text = undefined;
  }
  if (text === undefined)
    throw new HersError('INVALID_ARGUMENT', `the payload of ${JSON.stringify(id)} cannot be written as JSON`);
  if (isLonger(text, MAX_PAYLOAD_BYTES))
    throw new HersError(
      'INVALID_ARGUMENT',
      `the payload of ${JSON.stringify(id)} is larger than ${MAX_PAYLOAD_BYTES} bytes`,
    );
  return text;
}

/** The key that seals records and lists of one epoch. */
export function sealingKey(seed: MasterSeed, collectionId: Uint8Array, epoch: number): Uint8Array {
  return seed.deriveKey('seals', concat(collectionId, u32(epoch)));
}

/** The keyed hashes of one collection. */
export class RecordKeys {
  /** What a seal is bound to: this, with handle and head in the room behind. */
  readonly #about: Uint8Array;
  readonly #handle: KeyedHash;
  readonly #version: KeyedHash;

  private constructor(collectionId: Uint8Array, handle: KeyedHash, version: KeyedHash) {
    this.#about = concat(ABOUT, collectionId, new Uint8Array(HANDLE_BYTES + HEAD_BYTES));
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

  /** Handle and version of every record of a batch. */
  name(batch: PlainBatch): BatchNames {
    const { count, ids, idEnds, payloads, payloadEnds } = batch;
    const floats = bytesOf(batch.vectors);
    const size = floats.length / count;
    const lengths = new Uint32Array(2);
    const lengthBytes = bytesOf(lengths);
    const handles = new Uint8Array(count * HANDLE_BYTES);
    const versions = new Uint8Array(count * VERSION_BYTES);
    for (let i = 0; i < count; i++) {
      const id = ids.subarray(i === 0 ? 0 : idEnds[i - 1], idEnds[i]);
      const payload = payloads.subarray(i === 0 ? 0 : payloadEnds[i - 1], payloadEnds[i]);
      lengths[0] = id.length;
      lengths[1] = size;
      const version = this.#version(lengthBytes, id, floats.subarray(i * size, (i + 1) * size), payload);
      versions.set(version.subarray(0, VERSION_BYTES), i * VERSION_BYTES);
      handles.set(this.#handle(id).subarray(0, HANDLE_BYTES), i * HANDLE_BYTES);
    }
    return { handles, handleText: hexText(handles), versionText: hexText(versions) };
  }

  /** Each record becomes epoch, version, then the seal of id, vector and payload, bound to collection, handle, version and epoch. */
  async seal(sealer: Sealer, epoch: number, batch: PlainBatch): Promise<SealedBatch> {
    const { count, ids, idEnds, payloads, payloadEnds } = batch;
    const names = this.name(batch);
    const floats = bytesOf(batch.vectors);
    const size = floats.length / count;
    const versions = fromHex(names.versionText);
    const contents = count * 8 + ids.length + floats.length + payloads.length;
    const sealed = new Uint8Array(contents + count * (HEAD_BYTES + SEAL_OVERHEAD));
    // One piece of memory for all: one for each record would take as long as the cipher.
    const plains = new Uint8Array(contents);
    const abouts = new Uint8Array(count * this.#about.length);
    const ends = new Uint32Array(count);
    const waiting: Promise<void>[] = [];
    const [sealedView, plainView] = [new DataView(sealed.buffer), new DataView(plains.buffer)];
    for (let i = 0, at = 0, plainAt = 0; i < count; i++) {
      const idAt = i === 0 ? 0 : idEnds[i - 1];
      const vectorAt = plainAt + 8 + idEnds[i] - idAt;
      const payloadAt = i === 0 ? 0 : payloadEnds[i - 1];
      const plainEnd = vectorAt + size + payloadEnds[i] - payloadAt;
      plainView.setUint32(plainAt, idEnds[i] - idAt, true);
      plainView.setUint32(plainAt + 4, size / 4, true);
      plains.set(ids.subarray(idAt, idEnds[i]), plainAt + 8);
      plains.set(floats.subarray(i * size, (i + 1) * size), vectorAt);
      plains.set(payloads.subarray(payloadAt, payloadEnds[i]), vectorAt + size);
      sealedView.setUint32(at, epoch, true);
      sealed.set(versions.subarray(i * VERSION_BYTES, (i + 1) * VERSION_BYTES), at + 4);
      const about = abouts.subarray(i * this.#about.length, (i + 1) * this.#about.length);
      this.#fillAbout(
        about,
        names.handles.subarray(i * HANDLE_BYTES, (i + 1) * HANDLE_BYTES),
        sealed.subarray(at, at + HEAD_BYTES),
      );
      const end = at + HEAD_BYTES + SEAL_OVERHEAD + plainEnd - plainAt;
      const sealing = sealer.sealInto(sealed.subarray(at + HEAD_BYTES, end), plains.subarray(plainAt, plainEnd), about);
      if (sealing) waiting.push(sealing);
      if (waiting.length === IN_FLIGHT) await Promise.all(waiting.splice(0));
      at = ends[i] = end;
      plainAt = plainEnd;
    }
    await Promise.all(waiting);
    return { ...names, sealed, ends };
  }

  /** Opens a record and checks that it is the one asked for. */
  async open(
    sealerOf: (epoch: number) => Sealer | Promise<Sealer>,
    handle: Uint8Array,
    bytes: Uint8Array,
  ): Promise<PlainRecord> {
    if (bytes.length < HEAD_BYTES) throw broken();
    const head = bytes.subarray(0, HEAD_BYTES);
    const epoch = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    const plain = await (await sealerOf(epoch)).open(bytes.subarray(HEAD_BYTES), this.#aboutOf(handle, head));
    const view = new DataView(plain.buffer, plain.byteOffset, plain.length);
    const nameLength = view.getUint32(0, true);
    const vectorAt = 8 + nameLength;
    const payloadAt = vectorAt + 4 * view.getUint32(4, true);
    if (payloadAt > plain.length) throw broken();
    const id = decoder.decode(plain.subarray(8, vectorAt));
    const vector = new Float32Array(plain.slice(vectorAt, payloadAt).buffer);
    return { id, vector, payload: plain.slice(payloadAt), handle: hex(handle), version: hex(head.subarray(4)) };
  }

  #aboutOf(handle: Uint8Array, head: Uint8Array): Uint8Array {
    const about = new Uint8Array(this.#about.length);
    this.#fillAbout(about, handle, head);
    return about;
  }

  #fillAbout(about: Uint8Array, handle: Uint8Array, head: Uint8Array): void {
    about.set(this.#about);
    about.set(handle, about.length - HEAD_BYTES - HANDLE_BYTES);
    about.set(head, about.length - HEAD_BYTES);
  }
}

function broken(): HersError {
  return new HersError('INTEGRITY', 'a sealed record is too short to be one');
}

export function payloadOf(record: PlainRecord): Payload | undefined {
  return record.payload.length === 0 ? undefined : JSON.parse(decoder.decode(record.payload));
}
