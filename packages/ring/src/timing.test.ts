// A smoke test for timing: the same operation on very different secrets should take the same time.
// It reports what it saw, and fails only for a difference that a branch or a table would make, not
// for the noise of a busy machine. SECURITY.md says what cannot be promised.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { nttPrimes } from '../testing/primes.ts';
import { ResultSecret, Ring } from './ring.ts';

const ring = Ring.of(2048, nttPrimes(30, 2048, 1));
const [p] = ring.primes;
const [poly] = ring.polys;
const key = new Uint8Array(32).fill(3);

/** Minimum over interleaved rounds, so that both classes see the same machine. */
function ratio(first: () => void, second: () => void): number {
  const best = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let round = 0; round < 400; round++) {
    [first, second].forEach((run, k) => {
      const start = performance.now();
      for (let i = 0; i < 8; i++) run();
      best[k] = Math.min(best[k], performance.now() - start);
    });
  }
  return best[0] / best[1];
}

const onFilled = (value: number, run: () => void) => () => {
  poly.residues.fill(value);
  run();
};
const [forward, inverse] = [() => ring.ntt(poly), () => ring.intt(poly)];
const random = () => ring.uniform(ring.polys[1], { key, domain: 1, index: 1 });
const packed = (bits: number, value: number) => new Uint8Array(ring.packedBytes(bits)).fill(value);
const zeroSecret = new ResultSecret(new Uint32Array(2048));
random();
const secret = new ResultSecret(ring.polys[1].residues.slice());

const cases: [string, () => void, () => void][] = [
  ['the transform of zeros and of p − 1', onFilled(0, forward), onFilled(p - 1, forward)],
  ['the inverse of zeros and of p − 1', onFilled(0, inverse), onFilled(p - 1, inverse)],
  [
    'decryption of nothing and of anything',
    () => ring.scores({ packed0: packed(11, 0), bits0: 11, packed1: packed(16, 0), bits1: 16 }, zeroSecret, 1, 0),
    () => ring.scores({ packed0: packed(11, 0xa7), bits0: 11, packed1: packed(16, 0x9c), bits1: 16 }, secret, 1, 0),
  ],
  [
    'errors from two seeds',
    () => ring.error(ring.words[0], { key, domain: 1, index: 7 }),
    () => ring.error(ring.words[0], { key: new Uint8Array(32), domain: 1, index: 8 }),
  ],
  [
    'ternary secrets from two seeds',
    () => ring.ternary(ring.words[0], { key, domain: 1, index: 7 }),
    () => ring.ternary(ring.words[0], { key: new Uint8Array(32), domain: 1, index: 8 }),
  ],
];

for (const [name, first, second] of cases) {
  it(`${name} take the same time`, (t) => {
    const seen = ratio(first, second);
    t.diagnostic(`ratio of minima ${seen.toFixed(3)}`);
    assert.ok(seen > 2 / 3 && seen < 3 / 2, `ratio ${seen}`);
  });
}
