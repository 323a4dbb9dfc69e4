// Arithmetic modulo Q·2^t against its definition in whole numbers.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { centred, keystream, mod } from '../testing/oracle.ts';
import { nttPrimes } from '../testing/primes.ts';
import { Ring } from './ring.ts';

const N = 64;
const KEY = new Uint8Array(32).map((_, i) => 7 * i + 1);

const CASES = [
  { name: 'one prime of 30 bits', primes: nttPrimes(30, N, 1), t: 5 },
  { name: 'one prime of 24 bits', primes: nttPrimes(24, N, 1), t: 5 },
  { name: 'two primes of 30 bits', primes: nttPrimes(30, N, 2), t: 4 },
] as const;

/** Whole numbers modulo Q·2^t: the edges, ties of the rounding, and what a generator gives. */
function integers(modulus: bigint, t: number): bigint[] {
  const m = 1n << BigInt(t);
  const q = modulus / m;
  const edges = [0n, 1n, -1n, m / 2n, -m / 2n, m, (q * m) / 2n, -(q * m) / 2n, (q * m) / 2n - 1n, q, -q, (q - 1n) / 2n];
  const out = edges.flatMap((x) => [x, x + m / 2n, x - 1n]);
  for (let state = 12345n; out.length < N; ) {
    state = (state * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
    out.push(out.length % 3 === 0 ? (state / m) * m + m / 2n : state);
  }
  return out.slice(0, N).map((x) => mod(x, modulus));
}

for (const { name, primes, t } of CASES) {
  describe(`modulo Q·2^${t}, ${name}`, () => {
    const ring = new Ring(N, primes);
    const m = 1n << BigInt(t);
    const modulus = ring.modulus * m;
    const values = integers(modulus, t);
    const [a, out] = ring.polys;
    const [bits] = ring.words;
    const load = () => {
      primes.forEach((p, i) => {
        values.forEach((x, j) => {
          a.residues[i * N + j] = Number(x % BigInt(p));
        });
      });
      bits.values.set(values.map((x) => Number(x % m)));
      ring.joinWide(a, bits, t);
    };

    it('Q is 1 modulo 2^t, on which joining relies', () => assert.equal(ring.modulus % m, 1n));
    it('residues and low bits join to the centred integer', () => {
      load();
      const got = [...ring.centredWide()];
      values.forEach((x, j) => {
        // −Q·m/2 and Q·m/2 are the same number.
        const want = centred(x, modulus);
        assert.ok(got[j] === Number(want) || (2n * want === modulus && got[j] === -Number(want)), `${got[j]}, ${want}`);
      });
    });
    it('rounds to the nearest, ties to even', () => {
      load();
      ring.roundWide(out, t);
      values.forEach((x, j) => {
        const y = centred(x, modulus);
        const down = (y - mod(y, m)) / m;
        const twice = 2n * mod(y, m);
        const nearest = twice > m || (twice === m && mod(down, 2n) === 1n) ? down + 1n : down;
        const got = primes.map((_, i) => BigInt(out.residues[i * N + j]));
        const same = (z: bigint) => primes.every((p, i) => got[i] === mod(z, BigInt(p)));
        // Half of the modulus has two centred forms, which round to ±Q/2: one apart modulo Q.
        assert.ok(same(nearest) || (2n * y === modulus && same(-nearest)), `${x} to ${got}, not ${nearest}`);
      });
    });
    it('balanced digits are in range and add up to the integer', () => {
      const digitBits = primes.length === 2 ? 22 : t === 5 && primes[0] < 2 ** 25 ? 5 : 9;
      const count = Math.ceil(modulus.toString(2).length / digitBits);
      load();
      ring.digitsWide(0, digitBits, count);
      const half = 2 ** (digitBits - 1);
      values.forEach((x, j) => {
        let sum = 0n;
        for (let k = 0; k < count; k++) {
          const digit = ring.words[k].values[j];
          assert.ok(digit >= -half && digit <= half);
          sum += BigInt(digit) << BigInt(k * digitBits);
        }
        assert.equal(mod(sum - x, modulus), 0n);
      });
    });
    it('low bits of centred coefficients', () => {
      primes.forEach((p, i) => {
        values.forEach((x, j) => {
          a.residues[i * N + j] = Number(x % BigInt(p));
        });
      });
      ring.lowBits(bits, a, t);
      values.forEach((x, j) => {
        assert.equal(BigInt(bits.values[j]), mod(centred(x, ring.modulus), m));
      });
    });
    it('combines message, error and product modulo 2^t', () => {
      const [low, message, noise] = ring.words;
      message.values.set(values.map((_, j) => (j * 2654435761) | 0));
      noise.values.set(values.map((_, j) => (j % 43) - 21));
      const products = values.map((_, j) => BigInt((j - 30) * 65536));
      out.residues.set(products.map((x) => Number(mod(x, BigInt(primes[0])))));
      for (const sign of [1, -1] as const) {
        for (const scale of [0n, 1n, 33807n, 365520n * 16n + 5n]) {
          ring.combineBits(low, message, noise, out, t, scale, sign);
          products.forEach((x, j) => {
            const want = scale * BigInt(message.values[j]) + BigInt(noise.values[j]) + BigInt(sign) * x;
            assert.equal(BigInt(low.values[j]), mod(want, m));
          });
        }
      }
    });
    it('uniform bits are the low bits of the bytes of their stream', () => {
      ring.uniformBits(bits, t, { key: KEY, domain: 9, index: 77 });
      const stream = keystream(KEY, 9, 77, 0, N);
      bits.values.forEach((x, j) => {
        assert.equal(x, stream[j] & (2 ** t - 1));
      });
    });
    it('is wiped with everything else', () => {
      load();
      ring.wipe();
      assert.ok(ring.centredWide().every((x) => x === 0));
    });
  });
}
