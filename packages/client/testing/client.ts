// Shared by tests: vectors, a plaintext search, folders that vanish, and services that watch or
// cheat.

import { checksum } from '@hers/ring';
import { decodeQuery, decodeResponse, encodeResponse, type Metric, plan } from '@hers/scheme';
import { type MasterSeed, withCanaries } from '@hers/scheme/secret';
import { Renewable, type Service } from '@hers/service';
import { openDescriptor } from '../src/keys/keyring.ts';
import type { UpsertResult } from '../src/writing/upsert.ts';

/**
 * A needle in every encoding somebody might write it in; base64 wherever it begins among other
 * bytes.
 */
export function encodings(bytes: Uint8Array): Buffer[] {
  const buffer = Buffer.from(bytes);
  const inBase64 = [0, 1, 2].map((before) => {
    // Digits that depend on neighbours are left out.
    const text = Buffer.concat([Buffer.alloc(before), buffer]).toString('base64');
    return text.slice(Math.ceil((8 * before) / 6), Math.floor((8 * (before + buffer.length)) / 6));
  });
  return [
    buffer,
    Buffer.from(buffer).reverse(),
    Buffer.from(buffer.toString('hex')),
    Buffer.from(buffer.toString('hex').toUpperCase()),
    ...inBase64
      .flatMap((text) => [text, text.replaceAll('+', '-').replaceAll('/', '_')])
      .map((text) => Buffer.from(text)),
    Buffer.from([...bytes].join(',')),
  ];
}

/** Unit vectors that follow from a number. */
export function vectorOf(seed: number, dimension: number, length = 1): Float32Array {
  let state = (seed + 1) * 0x9e3779b9;
  const out = new Float32Array(dimension);
  for (let i = 0; i < dimension; i++) {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    out[i] = ((t ^ (t >>> 14)) >>> 0) / 2 ** 31 - 1;
  }
  const norm = Math.hypot(...out);
  return out.map((x) => (x * length) / norm);
}

/** What an upsert returns; what is not named is none. */
export function counts({
  inserted = 0,
  replaced = 0,
  unchanged = 0,
  repeated = 0,
  invalid = 0,
}: Partial<UpsertResult>): UpsertResult {
  return { written: inserted + replaced, inserted, replaced, unchanged, repeated, invalid };
}

export function scoreOf(metric: Metric, a: ArrayLike<number>, b: ArrayLike<number>): number {
  let dot = 0;
  let square = 0;
  for (let i = 0; i < a.length; i++) {
    dot += a[i] * b[i];
    square += (a[i] - b[i]) ** 2;
  }
  if (metric === 'euclidean') return Math.sqrt(square);
  return metric === 'dot' ? dot : dot / (Math.hypot(...Array.from(a)) * Math.hypot(...Array.from(b)));
}

export type Call = { readonly method: string; readonly args: readonly unknown[]; readonly out: Uint8Array[] };

/** Every Uint8Array inside a value. */
export function bytesIn(value: unknown): Uint8Array[] {
  if (value instanceof Uint8Array) return [value];
  if (Array.isArray(value)) return value.flatMap(bytesIn);
  if (value !== null && typeof value === 'object' && !(value instanceof AbortSignal))
    return Object.values(value).flatMap(bytesIn);
  return [];
}

/** A service that reports everything that crosses it, streams included. */
export function watched(service: Service, calls: Call[]): Service {
  const tap = async function* (pieces: AsyncIterable<unknown>, sink: unknown[]) {
    for await (const piece of pieces) {
      sink.push(...bytesIn(piece).map((bytes) => bytes.slice()));
      yield piece;
    }
  };
  const tapNow = function* (pieces: Iterable<unknown>, sink: unknown[]) {
    for (const piece of pieces) {
      sink.push(...bytesIn(piece).map((bytes) => bytes.slice()));
      yield piece;
    }
  };
  return new Proxy(service, {
    get(target, method: keyof Service) {
      const original = target[method] as (...args: unknown[]) => unknown;
      if (typeof original !== 'function') return original;
      return (...args: unknown[]) => {
        const call: Call = { method, args: [], out: [] };
        calls.push(call);
        const passed = args.map((arg) => {
          const streamed = arg !== null && typeof arg === 'object' && Symbol.asyncIterator in arg;
          if (streamed) return tap(arg as AsyncIterable<unknown>, call.args as unknown[]);
          const generated = arg !== null && typeof arg === 'object' && 'next' in arg && Symbol.iterator in arg;
          if (generated || arg instanceof Renewable) return tapNow(arg as Iterable<unknown>, call.args as unknown[]);
          (call.args as unknown[]).push(structuredClone(cloneable(arg)));
          return arg;
        });
        const result = original.apply(target, passed);
        if (result !== null && typeof result === 'object' && Symbol.asyncIterator in result)
          return tap(result as AsyncIterable<unknown>, call.out);
        return (result as Promise<unknown>).then((value) => {
          call.out.push(...bytesIn(value).map((bytes) => bytes.slice()));
          return value;
        });
      };
    },
  });
}

function cloneable(arg: unknown): unknown {
  if (arg === null || typeof arg !== 'object' || arg instanceof Uint8Array || Array.isArray(arg)) return arg;
  return Object.fromEntries(Object.entries(arg).filter(([key]) => key !== 'signal' && key !== 'keep'));
}

/**
 * A response that nobody computed: slot j of the block has the score that takes up `share(j)` of
 * the modulus. Needs no key.
 */
export function forgedResponse(query: Uint8Array, blockId: Uint8Array, count: number, share: (slot: number) => number) {
  const { bits0, bits1, parameters, keyId, queryId } = decodeQuery(query);
  const { n } = parameters;
  const pack = (bits: number, value: (slot: number) => number) => {
    const out = new Uint8Array((n * bits) / 8);
    for (let j = 0; j < n; j++) {
      const word = value(j);
      for (let b = 0; b < bits; b++) {
        // Beyond 31 bits shifts would wrap around.
        if (Math.floor(word / 2 ** b) % 2 === 1) out[(j * bits + b) >> 3] |= 1 << ((j * bits + b) & 7);
      }
    }
    return out;
  };
  const packed0 = pack(bits0, (j) => Math.round((((share(j) % 1) + 1) % 1) * 2 ** bits0) % 2 ** bits0);
  return encodeResponse({
    ...{ parameters, keyId, queryId, blockId, first: 0, count, bits0, bits1, packed0 },
    packed1: pack(bits1, () => 0),
  });
}

/**
 * A response whose scores are moved within their block, as any store can: C0 and C1 times x^r. What
 * leaves at the end comes back with the other sign.
 */
export function movedResponse(response: Uint8Array, r: number): Uint8Array {
  const decoded = decodeResponse(response);
  const { bits0, bits1, packed0, packed1 } = decoded;
  const { n } = decoded.parameters;
  const moved = (packed: Uint8Array, bits: number): Uint8Array => {
    const out = new Uint8Array(packed.length);
    for (let j = 0; j < n; j++) {
      let word = 0;
      for (let b = 0; b < bits; b++) word += ((packed[(j * bits + b) >> 3] >> ((j * bits + b) & 7)) & 1) * 2 ** b;
      if (j + r >= n) word = (2 ** bits - word) % 2 ** bits;
      const to = ((j + r) % n) * bits;
      for (let b = 0; b < bits; b++) if (Math.floor(word / 2 ** b) % 2 === 1) out[(to + b) >> 3] |= 1 << ((to + b) & 7);
    }
    return out;
  };
  return encodeResponse({ ...decoded, packed0: moved(packed0, bits0), packed1: moved(packed1, bits1) });
}

/**
 * A response in which scores are changed, as any store can: `share` of the modulus is added to
 * coefficients of C0.
 */
export function shiftedResponse(response: Uint8Array, slots: readonly number[], share: number): Uint8Array {
  const decoded = decodeResponse(response);
  const { bits0: bits } = decoded;
  const packed0 = decoded.packed0.slice();
  for (const slot of slots) {
    const bitAt = (b: number) => [(slot * bits + b) >> 3, (slot * bits + b) & 7] as const;
    let word = 0;
    for (let b = 0; b < bits; b++) word += ((packed0[bitAt(b)[0]] >> bitAt(b)[1]) & 1) * 2 ** b;
    word = (word + Math.round(share * 2 ** bits) + 2 ** bits) % 2 ** bits;
    for (let b = 0; b < bits; b++) {
      const [at, bit] = bitAt(b);
      packed0[at] = (packed0[at] & ~(1 << bit)) | (((word >> b) & 1) << bit);
    }
  }
  return encodeResponse({ ...decoded, packed0 });
}

/**
 * Answers like a store that happens to change scores of records alone, and of no canary, by a share
 * of the modulus: those of the first `most` records of every full block.
 */
export async function luckySearch(
  service: Service,
  seed: MasterSeed,
  name: string,
  share: number,
  most: number = Number.POSITIVE_INFINITY,
): Promise<Service['search']> {
  const { id, descriptor } = await service.getCollection(name);
  const key = seed.collectionKey(plan(openDescriptor(seed, name, descriptor).request), id);
  const { dimension, capacity } = key.plan;
  const recordSlots = (blockId: Uint8Array) => {
    // Canaries are not zero.
    const all = withCanaries(key, new Float32Array(capacity * dimension), blockId);
    const slots = Array.from({ length: all.length / dimension }, (_, slot) => slot);
    const isRecord = (slot: number) => all.subarray(slot * dimension, (slot + 1) * dimension).every((x) => x === 0);
    return slots.filter(isRecord).slice(0, most);
  };
  return async function* (where, request, options) {
    for await (const response of service.search(where, request, { ...options, views: false })) {
      const { blockId, count } = decodeResponse(response);
      const isFull = count === key.plan.parameters.n;
      yield isFull ? shiftedResponse(response, recordSlots(blockId), share) : response;
    }
  };
}

/** A message of the scheme that was altered, with the checksum that it has then. */
export function withChecksum(message: Uint8Array): Uint8Array {
  const view = new DataView(message.buffer, message.byteOffset, message.length);
  view.setBigUint64(message.length - 8, checksum(message.subarray(0, -8)), true);
  return message;
}
