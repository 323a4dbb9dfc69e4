// Fields, residues and names that contradict each other under a good checksum: refused, and before
// memory is taken on their word.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { decodeKeyInfo } from '../testing/key-info.ts';
import { cases, decoders, outcome, resealed } from '../testing/tampering.ts';
import { decodeBlock, encodeBlock } from './block.ts';
import { PARAMETER_SETS, type ParameterSet, polyWords } from './parameters.ts';
import { decodeQuery, encodeQuery } from './query.ts';
import { decodeResponse, encodeResponse } from './response.ts';
import { encodeKeyInfo } from './secret/key.ts';

const allSets = Object.values(PARAMETER_SETS);

type Field = readonly [
  name: string,
  at: number,
  write: 'Uint8' | 'Uint16' | 'Uint32' | 'Float64',
  values: readonly number[],
];

const NOT_SCALES = [
  0,
  -0,
  -1,
  0.5,
  1.5,
  2 ** 53,
  2 ** 60,
  1e308,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
];
const HUGE = [2 ** 16, 2 ** 22, 2 ** 24, 2 ** 30, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];

/** Values of each field that contradict the rest of the message (n = 64, width 4 or 5). */
const contradictions: Record<(typeof decoders)[number]['kind'], readonly Field[]> = {
  key: [
    ['dimension', 52, 'Uint32', [0, 1, 3, 5, 4097, ...HUGE]],
    ['metric', 56, 'Uint8', [3, 4, 0x80, 0xff]],
    ['profile', 57, 'Uint8', [4, 5, 0x80, 0xff]],
    ['reserved', 58, 'Uint8', [1, 0xff]],
    ['reserved', 59, 'Uint8', [1, 0xff]],
    ['width', 60, 'Uint32', [0, 1, 3, 6, ...HUGE]],
    ['scale', 64, 'Float64', NOT_SCALES],
    ['reserved', 72, 'Uint32', [1, 0xffffffff]],
    ['reserved', 76, 'Uint32', [1, 0xffffffff]],
  ],
  block: [
    ['width', 48, 'Uint32', [0, 1, 3, 6, ...HUGE]],
    ['first', 52, 'Uint32', [64, 65, ...HUGE]],
    ['count', 56, 'Uint32', [65, ...HUGE]],
    ['reserved', 60, 'Uint32', [1, 0xffffffff]],
    ['scale', 64, 'Float64', NOT_SCALES],
    ['reserved', 72, 'Uint32', [1, 0xffffffff]],
    ['reserved', 76, 'Uint32', [1, 0xffffffff]],
  ],
  query: [
    ['width', 48, 'Uint32', [0, 1, 3, 6, ...HUGE, 2 ** 32 - 2, 2 ** 32 - 3]],
    ['bits of C0', 53, 'Uint8', [0, 33, 0xff]],
    ['bits of C1', 54, 'Uint8', [0, 1, 33, 0xff]],
    ['reserved', 55, 'Uint8', [1, 0xff]],
    ['scale', 56, 'Float64', NOT_SCALES],
  ],
  response: [
    ['first', 64, 'Uint32', [64, 65, ...HUGE]],
    ['count', 68, 'Uint32', [65, ...HUGE]],
    ['bits of C0', 72, 'Uint8', [0, 1, 33, 0xff]],
    ['bits of C1', 73, 'Uint8', [0, 1, 32, 33, 0xff]],
    ['reserved', 74, 'Uint16', [1, 0x8000]],
    ['reserved', 76, 'Uint32', [1, 2 ** 31]],
  ],
};

describe('fields that contradict each other under a good checksum', () => {
  for (const { name, kind, decode, messages } of decoders) {
    it(`${name}: MALFORMED, before memory is taken`, () => {
      const sample = () => process.memoryUsage().arrayBuffers;
      for (const bytes of messages) {
        for (const [field, at, write, values] of contradictions[kind]) {
          for (const value of values) {
            const altered = resealed(bytes, (view) => view[`set${write}`](at, value, true));
            const before = sample();
            assert.equal(outcome(decode, altered), 'MALFORMED', `${field} = ${value}`);
            const taken = sample() - before;
            assert.ok(taken < 65536, `${field} = ${value} took ${taken} bytes for a message of ${bytes.length}`);
          }
        }
      }
    });
  }
  it('slots that only fit when the sum wraps around 2^32', () => {
    const { block, response } = cases[0];
    const wrap = (bytes: Uint8Array, at: number) =>
      resealed(bytes, (view) => {
        view.setUint32(at, 2 ** 32 - 1, true);
        view.setUint32(at + 4, 2, true);
      });
    assert.equal(outcome(decodeBlock, wrap(block, 52)), 'MALFORMED');
    assert.equal(outcome(decodeResponse, wrap(response, 64)), 'MALFORMED');
  });
  it('fields that agree with each other, but not with the limits', () => {
    for (const { keyInfo, block, query } of cases) {
      const info = decodeKeyInfo(keyInfo);
      for (const dimension of [0, 1, 4097, 2 ** 32 - 2]) {
        const width = dimension + (info.metric === 'euclidean' ? 1 : 0);
        assert.equal(outcome(decodeKeyInfo, encodeKeyInfo({ ...info, dimension, width })), 'MALFORMED');
      }
      const none = { width: 0, rows: new Uint32Array(0) };
      assert.equal(outcome(decodeBlock, encodeBlock({ ...decodeBlock(block), ...none })), 'MALFORMED');
      const { parameters, rows, ...rest } = decodeQuery(query);
      const digitRows = rows.subarray(0, parameters.digits * polyWords(parameters));
      const empty = encodeQuery({ ...rest, parameters, width: 0, rows: digitRows });
      assert.equal(outcome(decodeQuery, empty), 'MALFORMED');
    }
  });
  it('a query whose rows are carried in an unknown way is one of a newer version', () => {
    for (const { query } of cases) {
      for (const carried of [1, 2, 0xff])
        assert.equal(
          outcome(
            decodeQuery,
            resealed(query, (view) => view.setUint8(52, carried)),
          ),
          'UNSUPPORTED_VERSION',
        );
    }
  });
  it('another parameter set than the body was made for', () => {
    for (const { plan: p, block, query, response } of cases) {
      // Sets of one shape have bodies of one shape; what was made for the other has another key.
      const { wordBytes, digits } = p.parameters;
      const sameShape = (set: ParameterSet) =>
        polyWords(set) === polyWords(p.parameters) && set.wordBytes === wordBytes;
      for (const other of allSets.filter(({ id }) => id !== p.parameters.id)) {
        const changed = (bytes: Uint8Array) => resealed(bytes, (view) => view.setUint16(6, other.id, true));
        if (!sameShape(other)) assert.equal(outcome(decodeBlock, changed(block)), 'MALFORMED');
        if (!(sameShape(other) && other.digits === digits))
          assert.equal(outcome(decodeQuery, changed(query)), 'MALFORMED');
        if (other.n !== p.parameters.n) assert.equal(outcome(decodeResponse, changed(response)), 'MALFORMED');
      }
    }
  });
});

describe('residues that are not below their prime', () => {
  for (const { name, plan: p, block, query } of cases) {
    it(`are refused wherever they stand: ${name}`, () => {
      const { n, primes, wordBytes } = p.parameters;
      const words = polyWords(p.parameters);
      const bodies = [
        [decodeBlock, block, 112, p.width],
        [decodeQuery, query, 96, p.rows],
      ] as const;
      for (const [decode, bytes, body, rows] of bodies) {
        for (let row = 0; row < rows; row++) {
          primes.forEach((prime, i) => {
            for (const slot of [0, 1, n - 2, n - 1]) {
              for (const value of [prime, prime + 1, 2 ** 30, 2 ** 31, 2 ** 32 - 1].filter(
                (x) => x < 2 ** (8 * wordBytes),
              )) {
                const at = body + wordBytes * (row * words + i * n + slot);
                const altered = resealed(bytes, (_, copy) => {
                  for (let k = 0; k < wordBytes; k++) copy[at + k] = value / 2 ** (8 * k);
                });
                assert.equal(outcome(decode, altered), 'MALFORMED');
              }
            }
          });
        }
      }
    });
  }
});

describe('decryption', () => {
  it('refuses sound messages of another key, query, plan or block size', () => {
    for (const { name, block, response, decrypt, decryptBlock } of cases) {
      for (const other of cases.filter((each) => each.name !== name)) {
        assert.equal(outcome(decrypt, other.response), 'KEY_MISMATCH');
        assert.equal(outcome(decryptBlock, other.block), 'KEY_MISMATCH');
      }
      const flipped = (bytes: Uint8Array, at: number) =>
        resealed(bytes, (view) => view.setUint8(at, view.getUint8(at) ^ 1));
      for (let at = 8; at < 24; at++) {
        assert.equal(outcome(decrypt, flipped(response, at)), 'KEY_MISMATCH');
        assert.equal(outcome(decryptBlock, flipped(block, at)), 'KEY_MISMATCH');
      }
      for (let at = 32; at < 48; at++) assert.equal(outcome(decrypt, flipped(response, at)), 'QUERY_MISMATCH');
      assert.equal(
        outcome(
          decryptBlock,
          resealed(block, (view) => view.setFloat64(64, 12345, true)),
        ),
        'BLOCK_MISMATCH',
      );
    }
  });
  it('refuses fewer or more bits than the query asked for', () => {
    for (const { plan: p, response, decrypt } of cases) {
      const { n } = p.parameters;
      const { c0, c1 } = p.responseBits;
      const packed = (bits: number) => new Uint8Array((n * bits) / 8);
      for (const [bits0, bits1] of [
        [c0 - 1, c1],
        [c0, c1 + 1],
        [c0 + 1, c1 - 1],
        [1, 1],
        [32, 32],
      ]) {
        const sound = { ...decodeResponse(response), bits0, bits1, packed0: packed(bits0), packed1: packed(bits1) };
        assert.equal(outcome(decrypt, encodeResponse(sound)), 'MALFORMED');
      }
    }
  });
  it('never returns anything but scores: a response altered under a good checksum is refused or of the right shape', () => {
    const byte = fc.tuple(fc.nat(), fc.integer({ min: 1, max: 255 }));
    for (const { response, decrypt } of cases) {
      fc.assert(
        fc.property(fc.array(byte, { minLength: 1, maxLength: 8 }), (list) => {
          const altered = resealed(response, (_, copy) => {
            for (const [at, flip] of list) copy[80 + (at % (copy.length - 88))] ^= flip;
          });
          const result = outcome(decrypt, altered);
          if (typeof result === 'string') return assert.equal(result, 'INTEGRITY');
          const { first, scores } = result as { first: number; scores: Float32Array };
          const { first: sent, count } = decodeResponse(response);
          assert.deepEqual([first, scores.length], [sent, count]);
          assert.ok(scores.every(Number.isFinite));
        }),
        { numRuns: 200 },
      );
    }
  });
});
