// Records as the client knows them (id, vector, payload) and as the store does (a handle and sealed bytes).
//
// The handle is a keyed hash of the id. The version is a keyed hash of the whole content: writing the same record again gives the same version, so nothing has to be written;
// and a store that serves an older copy is caught, because lists and manifest name the version.

import { HersError } from '@hers/service';
import { concat, hex, u32 } from './bytes.ts';
import { type KeyedHash, makeKeyedHash, type Sealer } from './sealing.ts';

export const VERSION_BYTES = 16;
const HANDLE_BYTES = 16;
const MAX_ID_BYTES = 1024;
const MAX_PAYLOAD_BYTES = 2 ** 24;
const HEAD_BYTES = 4 + VERSION_BYTES;
const ABOUT = new TextEncoder().encode('record');

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
  /** Both hexadecimal, as keys of maps, and as bytes. */
  readonly handle: string;
  readonly version: string;
  readonly handleBytes: Uint8Array;
  readonly versionBytes: Uint8Array;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

export function checkId(id: unknown): Uint8Array {
  if (typeof id !== 'string' || id.length === 0)
    throw new HersError('INVALID_ARGUMENT', 'a record id is a string that is not empty');
  if (!id.isWellFormed()) throw new HersError('INVALID_ARGUMENT', 'a record id holds half a surrogate pair');
  const bytes = encoder.encode(id);
  if (bytes.length > MAX_ID_BYTES)
    throw new HersError('INVALID_ARGUMENT', `a record id has at most ${MAX_ID_BYTES} bytes`);
  return bytes;
}

function payloadBytes(payload: Payload | undefined, id: string): Uint8Array {
  if (payload === undefined) return new Uint8Array(0);
  let text: string | undefined;
  try {
    text = JSON.stringify(payload);
  } catch {
    text = undefined;
  }
  if (text === undefined)
    throw new HersError('INVALID_ARGUMENT', `the payload of ${JSON.stringify(id)} cannot be written as JSON`);
  const bytes = encoder.encode(text);
  if (bytes.length > MAX_PAYLOAD_BYTES)
    throw new HersError(
      'INVALID_ARGUMENT',
      `the payload of ${JSON.stringify(id)} is larger than ${MAX_PAYLOAD_BYTES} bytes`,
    );
  return bytes;
}

/** The keyed hashes of one collection. */
export class RecordKeys {
  readonly #collectionId: Uint8Array;
  readonly #handle: KeyedHash;
  readonly #version: KeyedHash;

  private constructor(collectionId: Uint8Array, handle: KeyedHash, version: KeyedHash) {
    this.#collectionId = collectionId;
    this.#handle = handle;
    this.#version = version;
  }

  static async make(collectionId: Uint8Array, handleKey: Uint8Array, versionKey: Uint8Array): Promise<RecordKeys> {
    return new RecordKeys(collectionId, await makeKeyedHash(handleKey), await makeKeyedHash(versionKey));
  }

  handleOf(id: string): Uint8Array {
    return this.#handle(checkId(id)).subarray(0, HANDLE_BYTES);
  }

  /** The checks of `plain` alone. */
  check({ id, payload }: VectorRecord): void {
    checkId(id);
    payloadBytes(payload, id);
  }

  /** Checks id and payload, and hashes the content. The vector has been checked already. */
  plain(record: VectorRecord, vector: Float32Array): PlainRecord {
    const { id } = record;
    const name = checkId(id);
    const payload = payloadBytes(record.payload, id);
    const floats = new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength);
    const lengths = new Uint8Array(Uint32Array.of(name.length, floats.length).buffer);
    const versionBytes = this.#version(lengths, name, floats, payload).subarray(0, VERSION_BYTES);
    const handleBytes = this.#handle(name).subarray(0, HANDLE_BYTES);
    return { id, vector, payload, handle: hex(handleBytes), version: hex(versionBytes), handleBytes, versionBytes };
  }

  /** Epoch, version, then the seal of id, vector and payload, bound to collection, handle, version and epoch. */
  async seal(sealer: Sealer, epoch: number, record: PlainRecord): Promise<Uint8Array> {
    const name = encoder.encode(record.id);
    const { vector, payload, handleBytes, versionBytes } = record;
    const plain = new Uint8Array(8 + name.length + vector.byteLength + payload.length);
    const view = new DataView(plain.buffer);
    view.setUint32(0, name.length, true);
    view.setUint32(4, vector.length, true);
    plain.set(name, 8);
    plain.set(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength), 8 + name.length);
    plain.set(payload, 8 + name.length + vector.byteLength);
    const head = concat(u32(epoch), versionBytes);
    const sealing = sealer.seal(plain, this.#about(handleBytes, head));
    return concat(head, sealing instanceof Uint8Array ? sealing : await sealing);
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
    const plain = await (await sealerOf(epoch)).open(bytes.subarray(HEAD_BYTES), this.#about(handle, head));
    const view = new DataView(plain.buffer, plain.byteOffset, plain.length);
    const nameLength = view.getUint32(0, true);
    const vectorAt = 8 + nameLength;
    const payloadAt = vectorAt + 4 * view.getUint32(4, true);
    if (payloadAt > plain.length) throw broken();
    const id = decoder.decode(plain.subarray(8, vectorAt));
    const vector = new Float32Array(plain.slice(vectorAt, payloadAt).buffer);
    const versionBytes = head.slice(4);
    const names = { handle: hex(handle), version: hex(versionBytes), handleBytes: handle, versionBytes };
    return { id, vector, payload: plain.slice(payloadAt), ...names };
  }

  #about(handle: Uint8Array, head: Uint8Array): Uint8Array {
    return concat(ABOUT, this.#collectionId, handle, head);
  }
}

function broken(): HersError {
  return new HersError('INTEGRITY', 'a sealed record is too short to be one');
}

export function payloadOf(record: PlainRecord): Payload | undefined {
  return record.payload.length === 0 ? undefined : JSON.parse(decoder.decode(record.payload));
}
