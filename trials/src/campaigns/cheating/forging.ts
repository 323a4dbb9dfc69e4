// What a store can return instead of what was requested: other errors, bytes, lists, numbers and
// scores.

import { HersError } from '@hers/client';
import { checksum } from '@hers/ring';
import { decodeQuery, decodeResponse, type ErrorCode, encodeResponse } from '@hers/scheme';
import type { SealedRecord } from '@hers/service';
import type { Dice } from './dice.ts';
import type { World } from './truth.ts';

const CODES: readonly ErrorCode[] = [
  ...(['STALE', 'STALE', 'STALE', 'NOT_FOUND', 'NOT_FOUND', 'UNAVAILABLE', 'OVERLOADED', 'INTERNAL'] as const),
  ...(['ALREADY_EXISTS', 'TIMED_OUT', 'INTEGRITY', 'WRONG_KEY', 'DAMAGED', 'CLOSED', 'LOCKED', 'FORBIDDEN'] as const),
  ...(['INVALID_ARGUMENT', 'MALFORMED', 'UNSUPPORTED_VERSION', 'STORAGE', 'TOO_LARGE'] as const),
];

export function anyError(dice: Dice): { kind: string; error: Error } {
  if (dice.happens(0.1)) return { kind: 'Error', error: new Error('something broke') };
  if (dice.happens(0.1)) return { kind: 'TypeError', error: new TypeError('undefined is not a function') };
  if (dice.happens(0.05)) return { kind: 'AbortError', error: new DOMException('stopped', 'AbortError') };
  const code = dice.of(CODES);
  return { kind: code, error: new HersError(code, 'the store says so') };
}

export type Item = Uint8Array | SealedRecord;
export const bytesOf = (item: Item): Uint8Array<ArrayBufferLike> => (item instanceof Uint8Array ? item : item.sealed);
export const withBytes = <T extends Item>(item: T, bytes: Uint8Array): T =>
  (item instanceof Uint8Array ? bytes : { ...item, sealed: bytes }) as T;

export function flipped(bytes: Uint8Array, dice: Dice): Uint8Array {
  const copy = new Uint8Array(bytes);
  if (copy.length > 0) copy[dice.below(copy.length)] ^= 1 << dice.below(8);
  return copy;
}

/** A message with a valid checksum. */
export function sealed(message: Uint8Array): Uint8Array {
  if (message.length < 16) return message;
  const view = new DataView(message.buffer, message.byteOffset, message.length);
  view.setBigUint64(message.length - 8, checksum(message.subarray(0, -8)), true);
  return message;
}

export function patched(message: Uint8Array, at: number, bytes: Uint8Array): Uint8Array {
  const copy = new Uint8Array(message);
  if (at + bytes.length <= copy.length - 8) copy.set(bytes, at);
  return sealed(copy);
}

export function garbage(dice: Dice, length: number): Uint8Array {
  return Uint8Array.from({ length }, () => dice.below(256));
}

export const QUERY_AT = 32;
export const BLOCK_AT = 48;
export const idAt = (message: Uint8Array, at: number): Uint8Array<ArrayBuffer> => message.slice(at, at + 16);

/**
 * A response with scores of the store's choice: C1 = 0, and C0 the scores themselves, so no key is
 * needed.
 */
export function forged(world: World | undefined, query: Uint8Array, response: Uint8Array, dice: Dice): Uint8Array {
  const { bits0, bits1, parameters, keyId, queryId } = decodeQuery(query);
  const { n, primes } = parameters;
  const modulus = primes.reduce((product, prime) => product * prime, 1);
  const settings = world?.plan;
  const best = dice.below(n);
  const pack = (values: ArrayLike<number>, bits: number) => {
    const out = new Uint8Array((n * bits) / 8);
    for (let j = 0; j < n; j++)
      for (let b = 0; b < bits; b++) if ((values[j] >> b) & 1) out[(j * bits + b) >> 3] |= 1 << ((j * bits + b) & 7);
    return out;
  };
  const scores = Array.from({ length: n }, (_, j) => {
    const wished = j === best ? 0.45 : dice.next() * 0.3;
    // Under exact a value that is no integer would be noticed at once.
    const step = settings && settings.profile === 'exact' ? settings.unit / modulus : 2 ** -bits0;
    return Math.round(Math.round(wished / step) * step * 2 ** bits0);
  });
  const view = new DataView(response.buffer, response.byteOffset, response.length);
  return encodeResponse({
    parameters,
    keyId,
    queryId,
    blockId: idAt(response, BLOCK_AT),
    first: view.getUint32(64, true),
    count: view.getUint32(68, true),
    bits0,
    bits1,
    packed0: pack(scores, bits0),
    packed1: new Uint8Array((n * bits1) / 8),
  });
}

/** With another score in one slot: a store can add to it without knowing it. */
export function withOneScore(response: Uint8Array, dice: Dice): Uint8Array {
  const decoded = decodeResponse(response);
  const { bits0 } = decoded;
  const packed0 = decoded.packed0.slice();
  const at = dice.below(decoded.count) * bits0;
  // The second to fourth highest bits: from a sixteenth to a quarter of the modulus.
  const bit = at + bits0 - 2 - dice.below(3);
  packed0[bit >> 3] ^= 1 << (bit & 7);
  return encodeResponse({ ...decoded, packed0 });
}

/** Manipulations of any list. Leaves out those that would change nothing. */
export const LIST_CHEATS: readonly [
  string,
  (items: readonly Item[], dice: Dice, old: readonly Item[]) => Item[] | undefined,
][] = [
  ['leaves one out', (items, dice) => without(items, dice.below(items.length))],
  ['gives nothing', () => []],
  ['repeats one', (items, dice) => withOne(items, dice, (item) => item, true)],
  ['swaps two', (items, dice) => swapped(items, dice)],
  ['reverses the order', (items) => (items.length > 1 ? items.toReversed() : undefined)],
  ['gives one too many', (items, dice, old) => (old.length > 0 ? [...items, dice.of(old)] : undefined)],
  ['gives one of an earlier call', (items, dice, old) => withOne(items, dice, () => old.length > 0 && dice.of(old))],
  [
    'gives the bytes of an earlier call',
    (items, dice, old) =>
      withOne(items, dice, (item) => old.length > 0 && withBytes(item, bytesOf(dice.of(old)).slice())),
  ],
  ['gives one for another', (items, dice) => withOne(items, dice, (item) => withBytes(item, bytesOf(dice.of(items))))],
  ['flips a bit', (items, dice) => withOne(items, dice, (item) => withBytes(item, flipped(bytesOf(item), dice)))],
  [
    'flips a bit, and mends the checksum',
    (items, dice) => withOne(items, dice, (item) => withBytes(item, sealed(flipped(bytesOf(item), dice)))),
  ],
  [
    'cuts one off',
    (items, dice) =>
      withOne(items, dice, (item) => withBytes(item, bytesOf(item).slice(0, dice.below(bytesOf(item).length)))),
  ],
  ['gives an empty one', (items, dice) => withOne(items, dice, (item) => withBytes(item, new Uint8Array(0)))],
  [
    'gives garbage',
    (items, dice) => withOne(items, dice, (item) => withBytes(item, garbage(dice, 1 + dice.below(300)))),
  ],
  ['gives something huge', (items, dice) => withOne(items, dice, (item) => withBytes(item, new Uint8Array(2 ** 22)))],
];

export const without = <T>(items: readonly T[], at: number): T[] | undefined =>
  items.length > 0 ? items.toSpliced(at, 1) : undefined;

export function withOne(
  items: readonly Item[],
  dice: Dice,
  change: (item: Item) => Item | false,
  insert = false,
): Item[] | undefined {
  if (items.length === 0) return undefined;
  const at = dice.below(items.length);
  const changed = change(items[at]);
  return changed === false ? undefined : items.toSpliced(at, insert ? 0 : 1, changed);
}

function swapped(items: readonly Item[], dice: Dice): Item[] | undefined {
  if (items.length < 2) return undefined;
  const a = dice.below(items.length);
  const b = (a + 1 + dice.below(items.length - 1)) % items.length;
  return items.with(a, items[b]).with(b, items[a]);
}

export const NUMBERS: number[] = [Number.NaN, -1, 0, 0.5, 2 ** 31, 2 ** 53, Number.POSITIVE_INFINITY, Number.MAX_VALUE];
