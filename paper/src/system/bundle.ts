// What client and server exchange: a few numbers and any number of parts, each in SEAL's own
// format.
//
//   0  'HERSPPR1'   8 kind   12 encoding   16 dimension   20 first   24 count   28 parts   then the
//   length of each part (u32, all little-endian), then the parts

import { PaperError } from './errors.ts';

export const KINDS = ['keys', 'upload', 'query', 'candidates', 'response', 'indices', 'labels'] as const;
export type Kind = (typeof KINDS)[number];

export interface Bundle {
  readonly kind: Kind;
  /** Id of the encoding; 0 where it does not matter. */
  readonly encoding: number;
  readonly dimension: number;
  /** The templates it is about: their first index in the gallery, and how many. */
  readonly first: number;
  readonly count: number;
  readonly parts: readonly Uint8Array[];
}

const MAGIC = new TextEncoder().encode('HERSPPR1');
const HEADER_BYTES = 32;

export function encodeBundle({ kind, encoding, dimension, first, count, parts }: Bundle): Uint8Array {
  let length = HEADER_BYTES + 4 * parts.length;
  for (const part of parts) length += part.length;
  const bytes = new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  bytes.set(MAGIC);
  [KINDS.indexOf(kind), encoding, dimension, first, count, parts.length].forEach((value, i) => {
    view.setUint32(8 + 4 * i, value, true);
  });
  let at = HEADER_BYTES + 4 * parts.length;
  parts.forEach((part, i) => {
    view.setUint32(HEADER_BYTES + 4 * i, part.length, true);
    bytes.set(part, at);
    at += part.length;
  });
  return bytes;
}

/** The parts are views of `bytes`. */
export function decodeBundle(bytes: Uint8Array, expected: Kind): Bundle {
  const fail = (message: string): never => {
    throw new PaperError('MALFORMED', message);
  };
  if (bytes.length < HEADER_BYTES || MAGIC.some((byte, i) => bytes[i] !== byte))
    fail('this is not a message of this system');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const [kind, encoding, dimension, first, count, parts] = Array.from({ length: 6 }, (_, i) =>
    view.getUint32(8 + 4 * i, true),
  );
  if (KINDS[kind] !== expected) fail(`this message is ${KINDS[kind] ?? 'of an unknown kind'}, and not ${expected}`);
  let at = HEADER_BYTES + 4 * parts;
  if (at > bytes.length) fail('the message ends within its header');
  const views: Uint8Array[] = [];
  for (let i = 0; i < parts; i++) {
    const length = view.getUint32(HEADER_BYTES + 4 * i, true);
    if (length > bytes.length - at) fail(`the message ends within part ${i}`);
    views.push(bytes.subarray(at, at + length));
    at += length;
  }
  if (at !== bytes.length) fail('the message is longer than it says');
  return { kind: expected, encoding, dimension, first, count, parts: views };
}
