// The messages of open queries: known answers, and what decoders do with input that is not what it
// should be. After a change of format that is meant, write the answers again, then format:
//
//   node packages/scheme/src/open/wire.test.ts --write && npm run format

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { allCode, withNative } from '@hers/ring/testing/code';
import fc from 'fast-check';
import { openCollection, SMALL } from '../../testing/open.ts';
import { openAnswers } from '../../testing/open-answers.ts';
import { ofLength, outcome, resealed } from '../../testing/tampering.ts';
import { decodeBlock, encodeBlock } from '../block.ts';
import { PARAMETER_SETS } from '../parameters.ts';
import { KINDS, type Kind } from '../wire.ts';
import { decodeEvaluation, encodeEvaluation } from './evaluation.ts';
import { decodePackedResponse, encodePackedResponse } from './pack.ts';
import { decodeOpenQuery, decodePublicKey, encodeOpenQuery, encodePublicKey } from './query.ts';
import { putResidues, residuesBytes, takeResidues } from './ring.ts';

const file = join(import.meta.dirname, '../../testing/open-answers.json');
const actual: ReturnType<typeof openAnswers> = JSON.parse(JSON.stringify(openAnswers()));
if (process.argv.includes('--write')) writeFileSync(file, `${JSON.stringify(actual, null, 2)}\n`);
const expected: ReturnType<typeof openAnswers> = JSON.parse(readFileSync(file, 'utf8'));

describe('known answers of open queries', () => {
  for (const [i, want] of expected.entries())
    it(`of ${want.name}: every message, and every score`, () => {
      assert.deepEqual(actual[i], want);
    });
  for (const { name, native } of allCode())
    it(`are the same with ${name}`, () => {
      assert.deepEqual(JSON.parse(JSON.stringify(withNative(native, openAnswers))), expected);
    });
});

const c = openCollection({ ...SMALL, dimension: 9 });
const vector = Array.from({ length: 9 }, (_, i) => i - 4);
const block = c.block([vector]);
const queries = [c.short(vector), c.public(vector)];

interface Decoder {
  readonly name: string;
  readonly kind: Kind;
  readonly decode: (bytes: Uint8Array) => object;
  readonly encode: (object: never) => Uint8Array;
  readonly messages: readonly Uint8Array[];
}

const decoders: readonly Decoder[] = [
  {
    name: 'decodeOpenQuery',
    kind: 'short query',
    decode: decodeOpenQuery,
    encode: encodeOpenQuery,
    messages: queries.map((query) => encodeOpenQuery(query)),
  },
  {
    name: 'decodePackedResponse',
    kind: 'packed response',
    decode: decodePackedResponse,
    encode: encodePackedResponse,
    messages: [c.answer(queries[0], [block]), c.answer(queries[1], [block, block, block])],
  },
  {
    name: 'decodePublicKey',
    kind: 'public key',
    decode: decodePublicKey,
    encode: encodePublicKey,
    messages: [c.publicKey],
  },
  {
    name: 'decodeEvaluation',
    kind: 'key for evaluation',
    decode: decodeEvaluation,
    encode: encodeEvaluation,
    messages: c.pieces,
  },
  {
    name: 'decodeBlock',
    kind: 'block',
    decode: decodeBlock,
    encode: encodeBlock,
    messages: [encodeBlock(block)],
  },
];

const word = fc.oneof(
  fc.tuple(fc.constant(1), fc.nat(0xff)),
  fc.tuple(fc.constant(2), fc.constantFrom(0, 1, 6, 0xff06, 0xff05, 0xffff)),
  fc.tuple(fc.constant(4), fc.constantFrom(0, 1, 2, 8, 16, 127, 128, 129, 2 ** 30, 2 ** 31, 2 ** 32 - 1)),
  fc.tuple(fc.constant(4), fc.nat(0xffffffff)),
);

for (const { name, kind, decode, encode, messages } of decoders)
  describe(name, () => {
    it('reads what was encoded, wherever it lies in memory, and encodes it to the same bytes', () => {
      for (const bytes of messages)
        for (const offset of [0, 1, 2, 3]) {
          const around = new Uint8Array(bytes.length + 8).fill(0xa5);
          around.set(bytes, offset);
          const decoded = decode(around.subarray(offset, offset + bytes.length));
          assert.deepEqual(encode(decoded as never), bytes);
        }
    });
    it('refuses every other length', () => {
      for (const bytes of messages) {
        const lengths = [...Array(200).keys(), bytes.length - 1, bytes.length + 1, bytes.length + 8];
        for (const length of lengths.filter((length) => length !== bytes.length)) {
          if (length < bytes.length) assert.equal(outcome(decode, bytes.slice(0, length)), 'MALFORMED');
          if (length >= 32) assert.equal(outcome(decode, ofLength(bytes, length)), 'MALFORMED', `${length} bytes`);
        }
      }
    });
    it('refuses altered bytes, other kinds and versions, and sets of other queries', () => {
      for (const bytes of messages) {
        for (let at = 0; at < bytes.length; at += at < 120 ? 1 : 61) {
          const altered = bytes.slice();
          altered[at] ^= 1 + (at % 255);
          assert.equal(typeof outcome(decode, altered), 'string', `byte ${at}`);
        }
        for (const code of [0, ...Object.values(KINDS)].filter((code) => code !== KINDS[kind])) {
          const other = resealed(bytes, (view) => view.setUint8(4, code));
          assert.equal(outcome(decode, other), 'MALFORMED');
        }
        for (const id of [0, 1, 3, 7, 0xff05, 0xffff]) {
          const other = resealed(bytes, (view) => view.setUint16(6, id, true));
          // A block may be of a set of other queries; this one has too many bytes for any of them.
          const isOther = kind === 'block' && Object.values(PARAMETER_SETS).some((set) => set.id === id);
          assert.equal(outcome(decode, other), isOther ? 'MALFORMED' : 'UNSUPPORTED_VERSION');
        }
        const version = resealed(bytes, (view) => view.setUint8(5, 2));
        assert.equal(outcome(decode, version), 'UNSUPPORTED_VERSION');
      }
    });
    it('refuses or takes at their word fields and bodies altered under a good checksum', () => {
      const edit = fc.tuple(fc.integer({ min: 4, max: 200 }), word);
      const edits = fc.tuple(fc.constantFrom(...messages), fc.array(edit, { minLength: 1, maxLength: 4 }));
      fc.assert(
        fc.property(edits, ([bytes, list]) => {
          const altered = resealed(bytes, (view, copy) => {
            for (const [at, [size, value]] of list) {
              if (at + size > copy.length - 8) continue;
              if (size === 1) view.setUint8(at, value);
              else if (size === 2) view.setUint16(at, value, true);
              else view.setUint32(at, value, true);
            }
          });
          const result = outcome(decode, altered);
          if (typeof result === 'object') assert.deepEqual(encode(result as never), altered);
        }),
        { numRuns: 600 },
      );
    });
  });

describe('residues in bits', () => {
  it('come back, and are refused unless reduced and without rest', () => {
    for (const p of [33_553_153, 1_073_738_753, 7681])
      for (const count of [1, 2, 3, 5, 8, 33]) {
        const residues = Uint32Array.from({ length: count }, (_, i) => [p - 1, 0, 1, (i * 7919) % p][i % 4]);
        const bytes = new Uint8Array(residuesBytes([p], count));
        putResidues(bytes, 0, [residues], [p]);
        assert.deepEqual(takeResidues(bytes, 0, count, [p], 'test')[0], residues);
        putResidues(bytes, 0, [residues.with(count - 1, p)], [p]);
        assert.equal(
          outcome((x) => takeResidues(x, 0, count, [p], 'test'), bytes),
          'MALFORMED',
        );
      }
    // 25 bits leave seven of the last byte.
    for (let bit = 1; bit < 8; bit++)
      assert.equal(
        outcome((x) => takeResidues(x, 0, 1, [33_553_153], 'test'), Uint8Array.of(1, 0, 0, 1 << bit)),
        'MALFORMED',
      );
  });
});
