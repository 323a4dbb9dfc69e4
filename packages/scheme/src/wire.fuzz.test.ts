// What every decoder does with input that is not what it should be: a typed error, or exactly the
// object that was encoded. Never another error, garbage, or a second encoding of the same thing.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type Decoder, decoders, ofLength, outcome, resealed } from '../testing/tampering.ts';
import { PARAMETER_SETS } from './parameters.ts';
import { KINDS } from './wire.ts';

const allSets = Object.values(PARAMETER_SETS);

/** Sizes and values at which comparisons, conversions and multiplications go wrong. */
const interestingWord = fc.oneof(
  fc.tuple(fc.constant(1), fc.nat(0xff)),
  fc.tuple(fc.constant(2), fc.constantFrom(0, 1, 2, 0xff01, 0xff02, 0xffff)),
  fc.tuple(fc.constant(4), fc.constantFrom(0, 1, 2, 63, 64, 65, 2 ** 24, 2 ** 30, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1)),
  fc.tuple(fc.constant(4), fc.nat(0xffffffff)),
  fc.tuple(fc.constant(8), fc.double()),
);

/** Refused, or taken at its word: then it has no second encoding. */
function checkSound({ decode, encode }: Decoder, bytes: Uint8Array): void {
  const result = outcome(decode, bytes);
  if (typeof result === 'object' && encode) assert.deepEqual(encode(result as never), bytes);
}

for (const decoder of decoders) {
  const { name, kind, decode, encode, messages } = decoder;
  const shortest = kind === 'query' ? 104 : 88;

  describe(name, () => {
    it('reads every known answer, wherever it lies in memory, and leaves it as it was', () => {
      for (const bytes of messages) {
        const before = bytes.slice();
        const expected = decode(bytes);
        for (let offset = 0; offset < 9; offset++) {
          const around = new Uint8Array(bytes.length + 16).fill(0xa5);
          around.set(bytes, offset);
          const shifted = around.subarray(offset, offset + bytes.length);
          assert.deepEqual(decode(shifted), expected);
          if (encode) assert.deepEqual(encode(decode(shifted) as never), bytes);
        }
        assert.deepEqual(bytes, before);
      }
    });
    it('reads a Buffer like any other bytes', () => {
      // A Buffer's own `slice` shares memory instead of copying it.
      const plain = (x: unknown) => (x instanceof Uint8Array ? Uint8Array.from(x) : x);
      const flat = (x: object) => Object.entries(x).map(([field, value]) => [field, plain(value)]);
      for (const bytes of messages) {
        for (const offset of [0, 1, 2, 3]) {
          const buffer = Buffer.from(new ArrayBuffer(bytes.length + 8), offset, bytes.length);
          buffer.set(bytes);
          assert.deepEqual(flat(decode(buffer)), flat(decode(bytes)));
        }
      }
    });
    it('refuses what is not bytes', () => {
      const detached = new Uint8Array(messages[0]);
      structuredClone(detached.buffer, { transfer: [detached.buffer] });
      const { buffer } = messages[0].slice();
      const views = [
        new DataView(buffer),
        new Uint8ClampedArray(buffer),
        new Int8Array(buffer),
        new Uint16Array(buffer),
      ];
      const others = [
        undefined,
        null,
        88,
        88n,
        'HERS',
        [],
        [...messages[0]],
        {},
        { length: 88 },
        buffer,
        () => {},
        detached,
      ];
      for (const other of [...views, ...others]) assert.equal(outcome(decode, other as never), 'MALFORMED');
    });
    it('refuses random bytes, whatever frame stands around them', () => {
      fc.assert(
        fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
          assert.equal(outcome(decode, bytes), 'MALFORMED');
        }),
        { numRuns: 500 },
      );
      const framed = fc.tuple(fc.uint8Array({ minLength: shortest, maxLength: 1400 }), fc.constantFrom(...allSets));
      fc.assert(
        fc.property(framed, ([random, { id }]) => {
          const bytes = resealed(random, (view, copy) => {
            copy.set(messages[0].subarray(0, 32));
            view.setUint16(6, id, true);
            view.setUint32(24, copy.length, true);
          });
          checkSound(decoder, bytes);
        }),
        { numRuns: 500 },
      );
    });
    it('refuses every truncation, also one that owns up to it', () => {
      for (const bytes of messages) {
        for (let length = 0; length < bytes.length; length++) {
          assert.equal(outcome(decode, bytes.subarray(0, length)), 'MALFORMED');
          if (length >= 32) assert.equal(outcome(decode, ofLength(bytes, length)), 'MALFORMED');
        }
      }
    });
    it('refuses bytes added, also with a length and a checksum that count them', () => {
      for (const bytes of messages) {
        for (const extra of [1, 2, 3, 4, 8, 31, 32, 256, 512, 65536]) {
          const longer = new Uint8Array(bytes.length + extra);
          longer.set(bytes);
          assert.equal(outcome(decode, longer), 'MALFORMED');
          assert.equal(outcome(decode, ofLength(bytes, bytes.length + extra)), 'MALFORMED');
        }
      }
    });
    it('refuses every alteration of a single byte', () => {
      const codeAt = (at: number) => {
        if (at < 5 || (at >= 24 && at < 32)) return 'MALFORMED';
        return at === 5 ? 'UNSUPPORTED_VERSION' : 'DAMAGED';
      };
      for (const [i, bytes] of messages.entries()) {
        // To every other value where that does not take long.
        const all = encode && i === 0 && bytes.length < 500;
        const flips = all ? Array.from({ length: 255 }, (_, i) => i + 1) : [1, 128, 255];
        const altered = bytes.slice();
        for (let at = 0; at < bytes.length; at++) {
          for (const flip of flips) {
            altered[at] = bytes[at] ^ flip;
            const got = outcome(decode, altered);
            if (got !== codeAt(at)) assert.fail(`byte ${at} flipped by ${flip}: ${got}, not ${codeAt(at)}`);
          }
          altered[at] = bytes[at];
        }
      }
    });
    it('refuses other kinds, other versions and unknown parameter sets', () => {
      for (const other of decoders.filter((each) => each.kind !== kind).flatMap((each) => each.messages))
        assert.equal(outcome(decode, other), 'MALFORMED');
      for (const bytes of messages) {
        for (const code of [0, 0xff, ...Object.values(KINDS)]) {
          if (code === KINDS[kind]) continue;
          assert.equal(
            outcome(
              decode,
              resealed(bytes, (view) => view.setUint8(4, code)),
            ),
            'MALFORMED',
          );
        }
        for (const version of [0, 2, 3, 0xff])
          assert.equal(
            outcome(
              decode,
              resealed(bytes, (view) => view.setUint8(5, version)),
            ),
            'UNSUPPORTED_VERSION',
          );
        for (const id of [0, 7, 0xff00, 0xff07, 0xffff])
          assert.equal(
            outcome(
              decode,
              resealed(bytes, (view) => view.setUint16(6, id, true)),
            ),
            'UNSUPPORTED_VERSION',
          );
        assert.equal(
          outcome(
            decode,
            resealed(bytes, (view) => view.setUint8(3, 0x73)),
          ),
          'MALFORMED',
        );
        for (const at of [28, 29, 30, 31])
          assert.equal(
            outcome(
              decode,
              resealed(bytes, (view) => view.setUint8(at, 1)),
            ),
            'MALFORMED',
          );
        for (const length of [0, bytes.length - 1, bytes.length + 1, 0x7fffffff, 0xffffffff])
          assert.equal(
            outcome(
              decode,
              resealed(bytes, (view) => view.setUint32(24, length, true)),
            ),
            'MALFORMED',
          );
      }
    });
    it('refuses or takes at their word fields altered under a good checksum', () => {
      const edit = fc.tuple(fc.integer({ min: 4, max: shortest }), interestingWord);
      const edits = fc.tuple(fc.constantFrom(...messages), fc.array(edit, { minLength: 1, maxLength: 4 }));
      fc.assert(
        fc.property(edits, ([bytes, list]) => {
          const altered = resealed(bytes, (view, copy) => {
            for (const [at, [size, value]] of list) {
              if (at + size > copy.length) continue;
              if (size === 1) view.setUint8(at, value);
              else if (size === 2) view.setUint16(at, value, true);
              else if (size === 4) view.setUint32(at, value, true);
              else view.setFloat64(at, value, true);
            }
          });
          checkSound(decoder, altered);
        }),
        { numRuns: 1500 },
      );
    });
  });
}
