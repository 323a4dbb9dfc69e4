// The frame of every message (docs/formats.md): little-endian, a fixed head, and a checksum at the
// end.
//
//   0  'HERS'          4  kind, version       6  parameter set id
//   8  key id (16)    24  length of it all   28  zero
//  32  fields of the kind, body …             then XXH64 of all before

import { checksum, packThree, unpackThree } from '@hers/ring';
import { HersError, otherFormat } from './errors.ts';
import { CHECKSUM_BYTES, FIELD_BYTES, HEAD_BYTES, ID_BYTES, SEED_BYTES } from './layout.ts';

export { HEAD_BYTES, ID_BYTES, SEED_BYTES };

export const VERSION = 1;
export const KINDS = {
  key: 0x4b,
  block: 0x42,
  query: 0x51,
  response: 0x52,
  'short query': 0x4f,
  'public key': 0x50,
  'key for evaluation': 0x45,
  'packed response': 0x41,
} as const;
export type Kind = keyof typeof KINDS;

export const BLOCK_OVERHEAD: number = HEAD_BYTES + FIELD_BYTES.block + SEED_BYTES + CHECKSUM_BYTES;
export const QUERY_OVERHEAD: number = HEAD_BYTES + FIELD_BYTES.query + CHECKSUM_BYTES;
export const RESPONSE_OVERHEAD: number = HEAD_BYTES + FIELD_BYTES.response + CHECKSUM_BYTES;

const MAGIC = 0x53524548; // 'HERS'

export interface Head {
  readonly kind: Kind;
  readonly parameterSetId: number;
  readonly keyId: Uint8Array;
}

/**
 * A message under construction: write fields and body through `view` and `bytes`, then
 * `finishMessage`.
 */
export interface Draft {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/** `room` is the message's memory, where a part of its body lies already. */
export function startMessage(head: Head, bodyBytes: number, room?: ArrayBuffer): Draft {
  const length = HEAD_BYTES + FIELD_BYTES[head.kind] + bodyBytes + CHECKSUM_BYTES;
  const bytes = room ? new Uint8Array(room, 0, length) : new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint8(4, KINDS[head.kind]);
  view.setUint8(5, VERSION);
  view.setUint16(6, head.parameterSetId, true);
  bytes.set(head.keyId, 8);
  view.setUint32(24, length, true);
  return { bytes, view };
}

/** Words for the end of a message, and the memory of the message where they lie in it already. */
export interface Room {
  readonly words: Uint32Array;
  readonly memory?: ArrayBuffer;
}

/**
 * Room for the words that a message ends with, from byte `at` on: in the message, unless they are
 * carried in three bytes. That spares a copy, and memory that is touched for the first time.
 */
export function roomAt(at: number, count: number, wordBytes: 3 | 4): Room {
  if (wordBytes === 3) return { words: new Uint32Array(count) };
  const memory = new ArrayBuffer(at + 4 * count + CHECKSUM_BYTES);
  return { words: new Uint32Array(memory, at, count), memory };
}

export function finishMessage({ bytes, view }: Draft): Uint8Array {
  view.setBigUint64(bytes.length - CHECKSUM_BYTES, checksum(bytes.subarray(0, -CHECKSUM_BYTES)), true);
  return bytes;
}

/**
 * A message whose frame is sound: right kind and version, as long as it says, checksum good. `body`
 * starts after the fields.
 */
export interface Opened extends Head {
  readonly view: DataView;
  readonly bytes: Uint8Array;
  readonly bodyAt: number;
  readonly bodyBytes: number;
}

/** Whether bytes claim to be a message of this kind. */
export function isKind(bytes: Uint8Array, kind: Kind): boolean {
  const isMessage =
    bytes.length > HEAD_BYTES && bytes[0] === 0x48 && bytes[1] === 0x45 && bytes[2] === 0x52 && bytes[3] === 0x53;
  return isMessage && bytes[4] === KINDS[kind];
}

export function openMessage(input: Uint8Array, kind: Kind): Opened {
  if (!(input instanceof Uint8Array)) throw new HersError('MALFORMED', `a ${kind} must be given as bytes`);
  const bodyAt = HEAD_BYTES + FIELD_BYTES[kind];
  if (input.length < bodyAt + CHECKSUM_BYTES) throw new HersError('MALFORMED', `this is too short to be a ${kind}`);
  // A plain array, because slices of Node's Buffer share its memory.
  const bytes = new Uint8Array(input.buffer, input.byteOffset, input.length);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (view.getUint32(0, true) !== MAGIC || view.getUint8(4) !== KINDS[kind])
    throw new HersError('MALFORMED', `this is not a ${kind}`);
  if (view.getUint8(5) !== VERSION) throw otherFormat(`this ${kind}`);
  if (view.getUint32(24, true) !== bytes.length || view.getUint32(28, true) !== 0)
    throw new HersError('MALFORMED', `this ${kind} is truncated or has bytes added`);
  if (view.getBigUint64(bytes.length - CHECKSUM_BYTES, true) !== checksum(bytes.subarray(0, -CHECKSUM_BYTES))) {
    throw new HersError('DAMAGED', `this ${kind} is damaged: its checksum does not fit; send it again`);
  }
  return {
    kind,
    parameterSetId: view.getUint16(6, true),
    keyId: bytes.slice(8, 8 + ID_BYTES),
    view,
    bytes,
    bodyAt,
    bodyBytes: bytes.length - bodyAt - CHECKSUM_BYTES,
  };
}

/** The 32-bit words of a part of a message: a view where it is aligned, else a copy. */
export function wordsAt(bytes: Uint8Array, at: number, count: number): Uint32Array {
  const offset = bytes.byteOffset + at;
  if (offset % 4 === 0) return new Uint32Array(bytes.buffer, offset, count);
  // Not `slice`, which shares memory where the bytes are a Buffer.
  return new Uint32Array(new Uint8Array(bytes.subarray(at, at + 4 * count)).buffer);
}

/** Residues as a message carries them, three or four bytes each. */
export function putWords(bytes: Uint8Array, at: number, words: Uint32Array, wordBytes: 3 | 4): void {
  if (wordBytes === 4) {
    if (words.buffer !== bytes.buffer) wordsAt(bytes, at, words.length).set(words);
    return;
  }
  packThree(bytes.subarray(at, at + 3 * words.length), words);
}

/** The inverse: a view where words of four bytes are aligned, else a copy. */
export function getWords(bytes: Uint8Array, at: number, count: number, wordBytes: 3 | 4): Uint32Array {
  if (wordBytes === 4) return wordsAt(bytes, at, count);
  const out = new Uint32Array(count);
  unpackThree(out, bytes.subarray(at, at + 3 * count));
  return out;
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i++) difference |= a[i] ^ b[i];
  return difference === 0;
}
