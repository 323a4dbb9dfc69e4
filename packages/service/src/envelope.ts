// An item that a device puts into the inbox of a collection: a question or an enrolment. The head
// and, in a question, the query are in the clear for the store; the device signs the head, which
// holds the hash of the rest, for the keeper. docs/formats.md has the bytes.

import { HersError } from '@hers/scheme';
import { sha256 } from '@noble/hashes/sha2.js';

const MAGIC = new TextEncoder().encode('HERSPOST');
const VERSION = 1;
const KINDS = ['question', 'enrolment'] as const;
const SIGNATURE_BYTES = 64;
const AT = { version: 8, kind: 10, zero: 11, device: 12, epoch: 16, reserved: 20, time: 24, collection: 32 } as const;
const NONCE_AT = 48;
const HASH_AT = 64;
const ENVELOPE_HEAD_BYTES = 96;
/** Of a whole envelope: an enrolment with a payload of almost a mebibyte. */
export const MAX_ENVELOPE_BYTES: number = 2 ** 20;
export const ENVELOPE_NONCE_BYTES = 16;

/** What an envelope says about itself. */
export interface EnvelopeHead {
  readonly kind: (typeof KINDS)[number];
  /** The number of the device. */
  readonly device: number;
  /** Of the key that it was made for. */
  readonly epoch: number;
  /** By the clock of the device: milliseconds since 1970. */
  readonly time: number;
  /** The id of the collection. */
  readonly collection: Uint8Array;
  /** Random; the keeper answers once for each. */
  readonly nonce: Uint8Array;
}

export interface Envelope extends EnvelopeHead {
  /** What is signed. */
  readonly head: Uint8Array;
  /** The query as it was encrypted, or the sealed enrolment. */
  readonly body: Uint8Array;
  readonly signature: Uint8Array;
}

/** The head of an envelope with this body, which its device signs. */
export function encodeEnvelopeHead(about: EnvelopeHead, body: Uint8Array): Uint8Array {
  const head = new Uint8Array(ENVELOPE_HEAD_BYTES);
  const view = new DataView(head.buffer);
  head.set(MAGIC);
  view.setUint16(AT.version, VERSION, true);
  view.setUint8(AT.kind, 1 + KINDS.indexOf(about.kind));
  view.setUint32(AT.device, about.device, true);
  view.setUint32(AT.epoch, about.epoch, true);
  view.setBigUint64(AT.time, BigInt(about.time), true);
  head.set(about.collection, AT.collection);
  head.set(about.nonce, NONCE_AT);
  head.set(sha256(body), HASH_AT);
  return head;
}

export function joinEnvelope(head: Uint8Array, body: Uint8Array, signature: Uint8Array): Uint8Array {
  const out = new Uint8Array(head.length + body.length + SIGNATURE_BYTES);
  out.set(head);
  out.set(body, head.length);
  out.set(signature, head.length + body.length);
  return out;
}

/**
 * Decodes an envelope; its parts are views. MALFORMED for anything else. Who made it is not
 * checked.
 */
export function decodeEnvelope(bytes: Uint8Array): Envelope {
  const malformed = (what: string) => new HersError('MALFORMED', `this is no envelope of a device: ${what}`);
  if (!(bytes instanceof Uint8Array)) throw new HersError('INVALID_ARGUMENT', 'an envelope is given as bytes');
  if (bytes.length > MAX_ENVELOPE_BYTES)
    throw new HersError('TOO_LARGE', `an envelope has ${MAX_ENVELOPE_BYTES} bytes at most, not ${bytes.length}`);
  if (bytes.length <= ENVELOPE_HEAD_BYTES + SIGNATURE_BYTES) throw malformed('it is too short');
  if (MAGIC.some((byte, i) => byte !== bytes[i])) throw malformed('it begins as something else');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (view.getUint16(AT.version, true) !== VERSION)
    throw new HersError('UNSUPPORTED_VERSION', 'this envelope of a device is in another format; update the device');
  const kind = KINDS[view.getUint8(AT.kind) - 1];
  const time = Number(view.getBigUint64(AT.time, true));
  if (!kind || view.getUint8(AT.zero) !== 0 || view.getUint32(AT.reserved, true) !== 0 || !Number.isSafeInteger(time))
    throw malformed('its fields contradict each other');
  const end = bytes.length - SIGNATURE_BYTES;
  const body = bytes.subarray(ENVELOPE_HEAD_BYTES, end);
  const hash = sha256(body);
  if (hash.some((byte, i) => byte !== bytes[HASH_AT + i])) throw malformed('its hash does not fit; was it altered?');
  return {
    kind,
    device: view.getUint32(AT.device, true),
    epoch: view.getUint32(AT.epoch, true),
    time,
    collection: bytes.subarray(AT.collection, NONCE_AT),
    nonce: bytes.subarray(NONCE_AT, HASH_AT),
    head: bytes.subarray(0, ENVELOPE_HEAD_BYTES),
    body,
    signature: bytes.subarray(end),
  };
}

/** The query of a question, by its number in an inbox; NOT_FOUND where there is none. */
export function questionIn(envelope: Uint8Array | undefined, number: number): Uint8Array {
  const decoded = envelope && decodeEnvelope(envelope);
  if (decoded?.kind !== 'question')
    throw new HersError('NOT_FOUND', `there is no question ${number} in the inbox of this collection`);
  return decoded.body;
}
