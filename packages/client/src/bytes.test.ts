import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { putText } from './bytes.ts';

it('text of any kind and length is written as an encoder writes it, and nothing beyond it', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 80 }),
    fc.string({ unit: 'binary-ascii', minLength: 60, maxLength: 70 }),
    // ASCII up to the last unit.
    fc.tuple(fc.string({ unit: 'binary-ascii', maxLength: 63 }), fc.constantFrom('é', '€', '😀', '\ud800')),
  );
  fc.assert(
    fc.property(text, fc.nat(20), (given, at) => {
      const text = typeof given === 'string' ? given : given.join('');
      const expected = new TextEncoder().encode(text);
      const out = new Uint8Array(at + 3 * text.length + 5).fill(0xaa);
      assert.equal(putText(text, out, at), expected.length);
      assert.deepEqual(out.slice(at, at + expected.length), expected);
      assert.ok(out.subarray(0, at).every((byte) => byte === 0xaa));
      assert.ok(out.subarray(at + 3 * text.length).every((byte) => byte === 0xaa));
    }),
  );
});
