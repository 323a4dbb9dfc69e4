import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeBundle, encodeBundle, KINDS } from './bundle.ts';

const u32 = fc.nat(2 ** 32 - 1);
const bundles = fc.record(
  {
    kind: fc.constantFrom(...KINDS),
    encoding: u32,
    dimension: u32,
    first: u32,
    count: u32,
    parts: fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 5 }),
  },
  { noNullPrototype: true },
);

test('what is encoded is decoded', () => {
  fc.assert(
    fc.property(bundles, (bundle) => {
      // Within a larger buffer, as bytes often come.
      const bytes = encodeBundle(bundle);
      const shifted = new Uint8Array(bytes.length + 3).subarray(3);
      shifted.set(bytes);
      const decoded = decodeBundle(shifted, bundle.kind);
      assert.deepEqual(decoded, bundle);
    }),
  );
});

test('whatever else arrives is refused', () => {
  const refused = { code: 'MALFORMED' };
  fc.assert(
    fc.property(bundles, fc.nat(), (bundle, at) => {
      const bytes = encodeBundle(bundle);
      assert.throws(() => decodeBundle(bytes.subarray(0, at % bytes.length), bundle.kind), refused);
      assert.throws(() => decodeBundle(Uint8Array.of(...bytes, 0), bundle.kind), refused);
      const other = KINDS[(KINDS.indexOf(bundle.kind) + 1) % KINDS.length];
      assert.throws(() => decodeBundle(bytes, other), refused);
    }),
  );
  fc.assert(
    fc.property(bundles, fc.nat(), fc.integer({ min: 1, max: 255 }), (bundle, at, flip) => {
      const bytes = encodeBundle({ ...bundle, kind: 'query' });
      bytes[at % bytes.length] ^= flip;
      try {
        decodeBundle(bytes, 'query');
      } catch (error) {
        assert.equal((error as { code: string }).code, 'MALFORMED');
      }
    }),
  );
});
