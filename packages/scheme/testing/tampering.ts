// What tests of bad input share: sound messages to start from, ways to alter them, and a judge of
// what comes out. Not exported by the package.

import { checksum } from '@hers/ring';
import { decodeBlock, encodeBlock } from '../src/block.ts';
import { HersError } from '../src/errors.ts';
import { type PlanRequest, plan } from '../src/plan.ts';
import { decodeQuery, encodeQuery } from '../src/query.ts';
import { decodeResponse, encodeResponse } from '../src/response.ts';
import { encryptQueryFrom } from '../src/secret/encrypt.ts';
import { encodeKeyInfo, MasterSeed } from '../src/secret/key.ts';
import { decryptBlock } from './decrypt-block.ts';
import { decodeKeyInfo } from './key-info.ts';
import answers from './known-answers.json' with { type: 'json' };
import { coordinate } from './known-answers.ts';

const fromHex = (text: string) => Uint8Array.from(text.match(/../g)!, (pair) => Number.parseInt(pair, 16));
const whole = (message: object) =>
  Uint8Array.from(atob((message as { base64: string }).base64), (c) => c.charCodeAt(0));

/** The small known answers, opened: their messages, and what decrypts them. */
export const cases = answers.cases
  .filter(({ request }) => 'allowInsecure' in request)
  .map(({ name, request, masterSeed, collectionId, epoch, ...rest }) => {
    const p = plan(request as PlanRequest);
    const key = MasterSeed.from(fromHex(masterSeed)).collectionKey(p, fromHex(collectionId), epoch);
    const { queryId, random } = rest.query;
    const entropy = { id: () => fromHex(queryId), seed: () => fromHex(random) };
    const vector = Array.from({ length: p.dimension }, (_, i) => coordinate(3, i));
    const { secret } = encryptQueryFrom(entropy, key, vector);
    return {
      name,
      plan: p,
      keyInfo: whole(rest.keyInfo),
      block: whole(rest.block.message),
      query: whole(rest.query.message),
      response: whole(rest.response.message),
      decrypt: (bytes: Uint8Array) => secret.decrypt(bytes),
      decryptBlock: (bytes: Uint8Array) => decryptBlock(key, bytes),
    };
  });

export interface Decoder {
  readonly name: string;
  /** Those of open queries are tried in src/open/wire.test.ts. */
  readonly kind: 'key' | 'block' | 'query' | 'response';
  readonly decode: (bytes: Uint8Array) => object;
  /** Absent where decoding is decrypting. */
  readonly encode?: (object: never) => Uint8Array;
  readonly messages: readonly Uint8Array[];
}

export const decoders: readonly Decoder[] = [
  {
    name: 'decodeKeyInfo',
    kind: 'key',
    decode: decodeKeyInfo,
    encode: encodeKeyInfo,
    messages: cases.map((c) => c.keyInfo),
  },
  {
    name: 'decodeBlock',
    kind: 'block',
    decode: decodeBlock,
    encode: encodeBlock,
    messages: cases.map((c) => c.block),
  },
  { name: 'decodeQuery', kind: 'query', decode: decodeQuery, encode: encodeQuery, messages: cases.map((c) => c.query) },
  {
    name: 'decodeResponse',
    kind: 'response',
    decode: decodeResponse,
    encode: encodeResponse,
    messages: cases.map((c) => c.response),
  },
  ...cases.slice(1, 3).flatMap((c): Decoder[] => [
    { name: `QuerySecret.decrypt, ${c.name}`, kind: 'response', decode: c.decrypt, messages: [c.response] },
    { name: `decryptBlock, ${c.name}`, kind: 'block', decode: c.decryptBlock, messages: [c.block] },
  ]),
];

/**
 * The code of the error, or what was decoded. Any error but a HersError goes on, and fails the
 * test.
 */
export function outcome(decode: (bytes: Uint8Array) => object, bytes: Uint8Array): string | object {
  try {
    return decode(bytes);
  } catch (error) {
    if (error instanceof HersError) return error.code;
    throw error;
  }
}

/** A copy with changes, and a checksum that fits them: what field checks alone must refuse. */
export function resealed(bytes: Uint8Array, change: (view: DataView, copy: Uint8Array) => void): Uint8Array {
  const copy = bytes.slice();
  const view = new DataView(copy.buffer);
  change(view, copy);
  view.setBigUint64(copy.length - 8, checksum(copy.subarray(0, -8)), true);
  return copy;
}

/** A message cut or lengthened to `length`, which says so and has a checksum that fits. */
export function ofLength(bytes: Uint8Array, length: number): Uint8Array {
  const copy = new Uint8Array(length);
  copy.set(bytes.subarray(0, length));
  return resealed(copy, (view) => view.setUint32(24, length, true));
}
