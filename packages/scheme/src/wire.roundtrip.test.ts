// Whatever a message can say, it says the same after a journey over the wire.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { decodeKeyInfo } from '../testing/key-info.ts';
import { type Block, decodeBlock, encodeBlock, peekBlock } from './block.ts';
import { PARAMETER_SETS, type ParameterSet, PROFILES, polyWords } from './parameters.ts';
import { METRICS } from './plan.ts';
import { decodeQuery, encodeQuery, peekQuery, type Query } from './query.ts';
import { decodeResponse, encodeResponse, peekResponse, type ScanResponse } from './response.ts';
import { encodeKeyInfo, type KeyInfo } from './secret/key.ts';
import { RESPONSE_OVERHEAD } from './wire.ts';

const allSets = Object.values(PARAMETER_SETS);

describe('round trips', () => {
  const id = fc.uint8Array({ minLength: 16, maxLength: 16 });
  const seed = fc.uint8Array({ minLength: 32, maxLength: 32 });
  const word = fc.nat(0xffffffff);
  const scale = fc.oneof(fc.integer({ min: 1, max: 1 << 30 }), fc.constantFrom(1, 2 ** 53 - 1));
  const smallSet = fc.constantFrom(...allSets.filter((set) => set.insecure));
  const slots = (n: number) =>
    fc
      .integer({ min: 0, max: n - 1 })
      .chain((first) => fc.record({ first: fc.constant(first), count: fc.integer({ min: 1, max: n - first }) }));
  const bits = fc
    .integer({ min: 1, max: 32 })
    .chain((bits1) => fc.record({ bits0: fc.integer({ min: 1, max: bits1 }), bits1: fc.constant(bits1) }));

  /** Rows of reduced residues, the extremes among them. */
  const rows = (set: ParameterSet, count: number) =>
    fc.integer().map((start) => {
      let state = start | 1;
      return new Uint32Array(count * polyWords(set)).map((_, i) => {
        const p = set.primes[Math.floor(i / set.n) % set.primes.length];
        state = (Math.imul(state, 1664525) + 1013904223) | 0;
        return i % 7 === 0 ? p - 1 : (state >>> 2) % p;
      });
    });

  const keyInfos: fc.Arbitrary<KeyInfo> = fc
    .record({
      parameters: fc.constantFrom(...allSets),
      keyId: id,
      collectionId: id,
      epoch: word,
      dimension: fc.integer({ min: 2, max: 4096 }),
      metric: fc.constantFrom(...METRICS),
      profile: fc.constantFrom(...PROFILES),
      galleryScale: scale,
    })
    .map((info) => ({ ...info, width: info.dimension + (info.metric === 'euclidean' ? 1 : 0) }));

  const blocks: fc.Arbitrary<Block> = fc.tuple(smallSet, fc.integer({ min: 1, max: 5 })).chain(([set, width]) =>
    fc
      .record({
        fixed: fc.constant({ parameters: set, width }),
        slots: slots(set.n),
        keyId: id,
        blockId: id,
        galleryScale: scale,
        seed,
        rows: rows(set, width),
      })
      .map(({ fixed, slots, ...rest }) => ({ ...fixed, ...slots, ...rest })),
  );

  const queries: fc.Arbitrary<Query> = fc.tuple(smallSet, fc.integer({ min: 1, max: 5 })).chain(([set, width]) =>
    fc
      .record({
        fixed: fc.constant({ parameters: set, width }),
        bits,
        keyId: id,
        queryId: id,
        galleryScale: scale,
        seed,
        rows: rows(set, width + set.digits),
      })
      .map(({ fixed, bits, ...rest }) => ({ ...fixed, ...bits, ...rest })),
  );

  const responses: fc.Arbitrary<ScanResponse> = fc
    .tuple(fc.constantFrom(...allSets), bits)
    .chain(([set, { bits0, bits1 }]) =>
      fc
        .record({ slots: slots(set.n), keyId: id, queryId: id, blockId: id, fill: fc.nat(255) })
        .map(({ slots, fill, ...rest }) => ({
          parameters: set,
          bits0,
          bits1,
          ...slots,
          ...rest,
          packed0: new Uint8Array((set.n * bits0) / 8).fill(fill),
          packed1: new Uint8Array((set.n * bits1) / 8).map((_, i) => i * fill),
        })),
    );

  const check = <T extends object>(
    objects: fc.Arbitrary<T>,
    encode: (object: T) => Uint8Array,
    decode: (bytes: Uint8Array) => T,
  ) =>
    fc.assert(
      fc.property(objects, (object) => assert.deepEqual(decode(encode(object)), object)),
      { numRuns: 200 },
    );

  it('a key info is what was encoded', () => check(keyInfos, encodeKeyInfo, decodeKeyInfo));
  it('a block is what was encoded', () => check(blocks, encodeBlock, decodeBlock));
  it('a block is told by its id without decoding it', () => {
    fc.assert(
      fc.property(blocks, (block) => assert.deepEqual(peekBlock(encodeBlock(block)), { blockId: block.blockId })),
      { numRuns: 50 },
    );
    assert.throws(() => peekBlock(new Uint8Array(64)), { code: 'MALFORMED' });
  });
  it('a query is what was encoded', () => check(queries, encodeQuery, decodeQuery));
  it('a query is told by its id without decoding it', () => {
    fc.assert(
      fc.property(queries, (query) => assert.deepEqual(peekQuery(encodeQuery(query)), { queryId: query.queryId })),
      { numRuns: 50 },
    );
    assert.throws(() => peekQuery(new Uint8Array(95)), { code: 'MALFORMED' });
  });
  it('a response is what was encoded', () => check(responses, encodeResponse, decodeResponse));
  it('a response is told by its ids and slots without decoding it', () => {
    fc.assert(
      fc.property(responses, (response) => {
        const { queryId, blockId, first, count } = response;
        assert.deepEqual(peekResponse(encodeResponse(response)), { queryId, blockId, first, count });
      }),
      { numRuns: 50 },
    );
    assert.throws(() => peekResponse(new Uint8Array(RESPONSE_OVERHEAD - 1)), { code: 'MALFORMED' });
  });
});
