import assert from 'node:assert/strict';
import { it } from 'node:test';
import * as oracle from '../testing/oracle.ts';
import { checksum } from './kernel.ts';

it('is XXH64, for every length and however the bytes are cut', () => {
  const bytes = oracle.keystream(new Uint8Array(32), 1, 2, 3, 70_000);
  for (const length of [0, 1, 3, 4, 7, 8, 31, 32, 33, 63, 64, 1000, 32767, 32768, 32769, 65536, 70_000]) {
    const message = bytes.subarray(0, length);
    const expected = oracle.xxh64(message);
    assert.equal(checksum(message), expected);
    const cut = length >> 1;
    assert.equal(checksum(message.subarray(0, cut), message.subarray(cut)), expected);
  }
});

it('notices every single flipped bit of a short message', () => {
  const bytes = oracle.keystream(new Uint8Array(32), 4, 5, 6, 100);
  const expected = checksum(bytes);
  for (let bit = 0; bit < 800; bit++) {
    bytes[bit >> 3] ^= 1 << (bit & 7);
    assert.notEqual(checksum(bytes), expected);
    bytes[bit >> 3] ^= 1 << (bit & 7);
  }
});
