import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import * as oracle from '../testing/oracle.ts';
import { nttPrimes } from '../testing/primes.ts';
import { rootOfUnity } from './modulus.ts';
import { type Poly, Ring } from './ring.ts';

const key = Uint8Array.from({ length: 32 }, (_, i) => 7 * i + 1);

/** Deterministic residues with the extremes 0, 1, p − 1 well represented. */
function fill(ring: Ring, poly: Poly, index: number): void {
  ring.uniform(poly, { key, domain: 99, index });
  ring.primes.forEach((p, i) => {
    for (const [j, x] of [0, 1, p - 1, p - 1, p >> 1, (p >> 1) + 1].entries())
      poly.residues[i * ring.n + j * (index + 2)] = x;
  });
}

const rowsOf = (ring: Ring, poly: Poly): Uint32Array[] =>
  ring.primes.map((_, i) => poly.residues.slice(i * ring.n, (i + 1) * ring.n));

describe('primes', () => {
  it('are the ones the oracle finds', () => {
    for (const n of [1024, 2048, 4096, 8192]) {
      assert.deepEqual(nttPrimes(30, n, 3), oracle.primes(30, n, 3));
      for (const p of nttPrimes(30, n, 2)) assert.equal(rootOfUnity(p, n), oracle.rootOfUnity(BigInt(p), n));
    }
    assert.deepEqual(nttPrimes(20, 64, 4), oracle.primes(20, 64, 4));
  });
  it('are refused where there are none', () => {
    assert.throws(() => nttPrimes(31, 1024, 1), RangeError);
    assert.throws(() => nttPrimes(12, 2048, 1), /only 0 primes/);
  });
});

describe('the transform', () => {
  for (const n of [16, 32, 64, 128, 256, 512]) {
    it(`equals its definition at n = ${n}, and the inverse undoes it`, () => {
      for (const bits of [20, 30]) {
        const ring = new Ring(n, nttPrimes(bits, n, 2));
        const [a] = ring.polys;
        fill(ring, a, 1);
        const before = rowsOf(ring, a);
        ring.ntt(a);
        rowsOf(ring, a).forEach((row, i) => {
          assert.deepEqual([...row], oracle.ntt(before[i], BigInt(ring.primes[i]), n));
        });
        ring.intt(a);
        assert.deepEqual(rowsOf(ring, a), before);
      }
    });
  }
  for (const n of [1024, 2048, 4096, 8192]) {
    it(`equals its definition at n = ${n}, on random and extreme residues`, () => {
      const ring = new Ring(n, nttPrimes(30, n, 1));
      const p = ring.primes[0];
      const [a] = ring.polys;
      const inputs = [() => fill(ring, a, 3), () => a.residues.fill(p - 1)];
      if (n > 2048) inputs.pop(); // the slow definition takes its time
      for (const input of inputs) {
        input();
        const before = a.residues.slice();
        ring.ntt(a);
        assert.deepEqual([...a.residues], oracle.ntt(before, BigInt(p), n));
        ring.intt(a);
        assert.deepEqual(a.residues, before);
      }
    });
  }
  it('turns products into negacyclic convolution', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1 << 20 }), (index) => {
        const ring = Ring.of(64, nttPrimes(30, 64, 2));
        const [a, b, c] = ring.polys;
        fill(ring, a, index);
        fill(ring, b, index + 1);
        const [x, y] = [rowsOf(ring, a), rowsOf(ring, b)];
        ring.ntt(a);
        ring.ntt(b);
        ring.multiply(c, a, b);
        ring.intt(c);
        rowsOf(ring, c).forEach((row, i) => {
          assert.deepEqual([...row], oracle.negacyclicMultiply(x[i], y[i], BigInt(ring.primes[i])));
        });
      }),
      { numRuns: 50 },
    );
  });
  it('is linear', () => {
    const ring = Ring.of(2048, nttPrimes(30, 2048, 1));
    const [a, b, sum] = ring.polys;
    fc.assert(
      fc.property(fc.nat(1e6), (index) => {
        fill(ring, a, index);
        fill(ring, b, index + 1);
        ring.add(sum, a, b);
        ring.ntt(sum);
        ring.ntt(a);
        ring.ntt(b);
        ring.add(a, a, b);
        assert.deepEqual(a.residues, sum.residues);
      }),
      { numRuns: 20 },
    );
  });
});

describe('pointwise arithmetic', () => {
  for (const bits of [14, 20, 29, 30]) {
    it(`equals BigInt arithmetic modulo primes of ${bits} bits`, () => {
      const n = 64;
      const ring = new Ring(n, nttPrimes(bits, n, 2));
      const [a, b, out] = ring.polys;
      for (let index = 0; index < 20; index++) {
        const check = (f: (x: bigint, y: bigint, z: bigint) => bigint, run: () => void) => {
          fill(ring, a, index);
          fill(ring, b, index + 7);
          fill(ring, out, index + 3);
          if (index === 0)
            for (const poly of [a, b, out])
              ring.primes.forEach((p, i) => poly.residues.fill(p - 1, i * n, (i + 1) * n));
          const [x, y, z] = [a, b, out].map((poly) => poly.residues.slice());
          run();
          out.residues.forEach((r, j) => {
            const p = BigInt(ring.primes[j < n ? 0 : 1]);
            assert.equal(BigInt(r), oracle.mod(f(BigInt(x[j]), BigInt(y[j]), BigInt(z[j])), p));
          });
        };
        check(
          (x, y) => x + y,
          () => ring.add(out, a, b),
        );
        check(
          (x, y) => x - y,
          () => ring.subtract(out, a, b),
        );
        check(
          (x, y) => x * y,
          () => ring.multiply(out, a, b),
        );
        check(
          (x, y, z) => z + x * y,
          () => ring.multiplyAdd(out, a, b),
        );
        check(
          (x, y, z) => z - x * y,
          () => ring.multiplySubtract(out, a, b),
        );
        check(
          (x, _, z) => z - 123456789012n * x,
          () => ring.scaleAdd(out, a, -123456789012n),
        );
      }
    });
  }
  it('is a commutative ring: associativity and distributivity', () => {
    const ring = Ring.of(1024, nttPrimes(30, 1024, 2));
    const [a, b, c, left, right] = ring.polys;
    fc.assert(
      fc.property(fc.nat(1e6), (index) => {
        [a, b, c].forEach((poly, i) => fill(ring, poly, index + i));
        ring.multiply(left, a, b);
        ring.multiply(left, left, c);
        ring.multiply(right, c, b);
        ring.multiply(right, right, a);
        assert.deepEqual(left.residues, right.residues);
        ring.add(left, a, b);
        ring.multiply(left, left, c);
        ring.multiply(right, a, c);
        ring.multiplyAdd(right, b, c);
        assert.deepEqual(left.residues, right.residues);
      }),
      { numRuns: 20 },
    );
  });
  it('tells reduced residues from others', () => {
    const ring = new Ring(64, nttPrimes(30, 64, 2));
    const [p0, p1] = ring.primes;
    const residues = new Uint32Array(128).fill(p1 - 1);
    assert.equal(ring.isReduced(residues), true);
    residues[63] = p0;
    assert.equal(ring.isReduced(residues), false);
    residues[63] = 0;
    residues[127] = 0xffffffff;
    assert.equal(ring.isReduced(residues), false);
  });
});

describe('samplers', () => {
  for (const n of [16, 64, 2048, 4096, 8192]) {
    it(`give the oracle's polynomials at n = ${n}`, () => {
      const ring = new Ring(n, nttPrimes(30, n, 2));
      const [poly] = ring.polys;
      const [words] = ring.words;
      for (const index of [0, 1, 0xffffffff]) {
        const source = { key, domain: 5, index };
        ring.uniform(poly, source);
        rowsOf(ring, poly).forEach((row, i) => {
          assert.deepEqual([...row], oracle.uniform(key, 5, index, i, ring.primes[i], n));
        });
        ring.ternary(words, source);
        assert.deepEqual([...words.values], oracle.ternary(key, 5, index, n));
        ring.error(words, source);
        assert.deepEqual([...words.values], oracle.centredBinomial(key, 5, index, n));
      }
    });
  }
  it('discard what is not below a prime far from a power of two', () => {
    const n = 1024;
    const p = 469762049; // 7·2^26 + 1: an eighth of all words is discarded
    const ring = new Ring(n, [p]);
    ring.uniform(ring.polys[0], { key, domain: 1, index: 2 });
    assert.deepEqual([...ring.polys[0].residues], oracle.uniform(key, 1, 2, 0, p, n));
  });
});

describe('between moduli', () => {
  it('CRT gives the centred integer', () => {
    const ring = new Ring(64, nttPrimes(30, 64, 2));
    const [a] = ring.polys;
    const q = ring.modulus;
    const values = Array.from({ length: 64 }, (_, j) => (q * BigInt(j)) / 63n - q / 2n + BigInt(j % 3));
    values.forEach((x, j) => {
      ring.primes.forEach((p, i) => {
        a.residues[i * 64 + j] = Number(oracle.mod(x, BigInt(p)));
      });
    });
    assert.deepEqual(
      [...ring.centred(a)],
      values.map((x) => Number(oracle.centred(x, q))),
    );
  });
  it('switching and packing give the oracle’s bits', () => {
    for (const count of [1, 2]) {
      const ring = new Ring(64, nttPrimes(30, 64, count));
      const [a] = ring.polys;
      for (let bits = 1; bits <= 32; bits++) {
        fill(ring, a, bits);
        const rows = rowsOf(ring, a);
        const expected = rows[0].map((_, j) =>
          Number(
            oracle.switchModulus(
              rows.map((r) => r[j]),
              [...ring.primes],
              bits,
            ),
          ),
        );
        const out = new Uint8Array(ring.packedBytes(bits));
        ring.switchAndPack(out, a, bits);
        assert.deepEqual(out, oracle.packBits([...expected], bits));
      }
    }
  });
  it('phase is c0 + s·c1 modulo a power of two, exactly', () => {
    for (const n of [64, 2048]) {
      const ring = new Ring(n, nttPrimes(30, n, 1));
      const p = ring.primes[0];
      for (const [bits0, bits1] of [
        [11, 16],
        [22, 28],
        [16, 16],
        [20, 31],
      ]) {
        for (const extreme of [false, true]) {
          const c0 = oracle.uniform(key, 1, bits1, 0, p, n).map((x) => (extreme ? 2 ** bits0 - 1 : x % 2 ** bits0));
          const c1 = oracle.uniform(key, 2, bits1, 0, p, n).map((x) => (extreme ? 2 ** (bits1 - 1) : x % 2 ** bits1));
          const s = extreme ? new Array(n).fill(-1) : oracle.ternary(key, 3, 0, n);
          const [poly] = ring.polys;
          ring.words[0].values.set(s);
          ring.embed(poly, ring.words[0]);
          ring.ntt(poly);
          const pair = { packed0: oracle.packBits(c0, bits0), bits0, packed1: oracle.packBits(c1, bits1), bits1 };
          const phase = ring.phase(pair, poly.residues.slice());
          const m = 2n ** BigInt(bits1);
          const product = oracle.negacyclicMultiply(
            c1,
            s.map((x) => (x < 0 ? Number(m) - 1 : x)),
            m,
          );
          const expected = product.map((x, j) => oracle.mod(BigInt(x) + (BigInt(c0[j]) << BigInt(bits1 - bits0)), m));
          // −2^(bits−1) and 2^(bits−1) are the same; two's complement prefers the former.
          assert.deepEqual(
            [...phase.values],
            expected.map((x) => Number(x >= m / 2n ? x - m : x)),
          );
        }
      }
    }
  });
});

describe('memory', () => {
  it('does not grow over ten thousand operations', () => {
    const ring = Ring.of(1024, nttPrimes(30, 1024, 2));
    const { buffer } = ring.polys[0].residues;
    const before = buffer.byteLength;
    const [a, b, c] = ring.polys;
    const out = new Uint8Array(ring.packedBytes(16));
    for (let i = 0; i < 2500; i++) {
      ring.uniform(a, { key, domain: 1, index: i });
      ring.error(ring.words[3], { key, domain: 1, index: i });
      ring.embed(b, ring.words[3]);
      ring.ntt(b);
      ring.multiplyAdd(c, a, b);
      ring.switchAndPack(out, c, 16);
    }
    assert.equal(buffer.byteLength, before);
  });
  it('is wiped on demand', () => {
    const ring = Ring.of(1024, nttPrimes(30, 1024, 2));
    ring.ternary(ring.words[0], { key, domain: 1, index: 0 });
    ring.embed(ring.polys[3], ring.words[0]);
    ring.wipe();
    for (const poly of ring.polys) assert.ok(poly.residues.every((x) => x === 0));
    for (const words of ring.words) assert.ok(words.values.every((x) => x === 0));
  });
});

describe('construction', () => {
  it('refuses rings it cannot serve', () => {
    const [p] = nttPrimes(30, 2048, 1);
    assert.throws(() => new Ring(1000, [p]), /power of two/);
    assert.throws(() => new Ring(16384, [p]), /power of two/);
    assert.throws(() => new Ring(2048, [p, p]), /distinct/);
    assert.throws(() => new Ring(2048, []), /one or two/);
    assert.throws(() => new Ring(2048, [7681]), /not 1 mod/);
    assert.throws(() => new Ring(2048, [4096 * 11 + 1]), /not a prime/);
  });
});
