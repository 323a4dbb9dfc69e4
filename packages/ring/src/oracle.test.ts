import assert from 'node:assert/strict';
import { createCipheriv } from 'node:crypto';
import { describe, it } from 'node:test';
import {
  bitReverse,
  centred,
  centredBinomial,
  chacha20Block,
  crt,
  digits,
  intt,
  inverse,
  isPrime,
  keystream,
  mod,
  negacyclicMultiply,
  ntt,
  packBits,
  power,
  primes,
  rootOfUnity,
  switchModulus,
  switchModulusIdeal,
  ternary,
  uniform,
  unpackBits,
  xxh64,
} from '../testing/oracle.ts';

const seed = Uint8Array.from({ length: 32 }, (_, i) => i); // also the key of the RFC 8439 examples

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const unhex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, 'hex'));
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

function moments(values: number[]): { mean: number; variance: number } {
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  return { mean, variance: values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / values.length };
}

/** Pearson's statistic of the observed counts against the expected ones. */
function chiSquare(observed: number[], expected: number[]): number {
  return observed.reduce((sum, count, i) => sum + (count - expected[i]) ** 2 / expected[i], 0);
}

function trialDivision(p: number): boolean {
  for (let d = 2; d * d <= p; d++) if (p % d === 0) return false;
  return p > 1;
}

describe('integers', () => {
  it('isPrime agrees with trial division on small numbers', () => {
    for (let p = -3; p < 5000; p++) assert.equal(isPrime(BigInt(p)), trialDivision(p), `${p}`);
  });

  it('isPrime decides large primes and strong pseudoprimes', () => {
    for (const p of [2n ** 31n - 1n, 2n ** 61n - 1n, 2n ** 64n - 59n]) assert.ok(isPrime(p), `${p}`);
    // Carmichael numbers, the smallest strong pseudoprimes to the first 4, 7 and 9 primes, F5, a
    // square of a prime.
    const composites = [
      561n,
      41041n,
      3215031751n,
      341550071728321n,
      3825123056546413051n,
      2n ** 32n + 1n,
      4294967291n ** 2n,
    ];
    for (const p of composites) assert.ok(!isPrime(p), `${p}`);
  });

  it('primes lists the largest, in descending order, with none left out', () => {
    for (const [bits, n] of [
      [12, 16],
      [20, 1024],
      [28, 4096],
      [30, 4096],
    ]) {
      const list = primes(bits, n, 5);
      const expected: number[] = [];
      for (let p = 2 ** bits - 1; expected.length < 5; p--) {
        if (p % (2 * n) === 1 && trialDivision(p)) expected.push(p);
      }
      assert.deepEqual(list, expected);
    }
  });

  it('primes finds well-known ones', () => {
    assert.deepEqual(primes(14, 2048, 1), [12289]);
    assert.deepEqual(primes(13, 256, 1), [7681]);
    assert.deepEqual(primes(23, 4096, 1), [8380417]);
    assert.deepEqual(primes(30, 2 ** 22, 1), [998244353]);
  });

  it('primes refuses what it cannot give', () => {
    assert.throws(() => primes(31, 4, 1), RangeError);
    assert.throws(() => primes(5, 8, 2), RangeError); // only 17
  });

  it('power, inverse, mod and centred follow their definitions', () => {
    assert.equal(power(3n, 0n, 17n), 1n);
    assert.equal(power(3n, 16n, 17n), 1n);
    assert.equal(power(-2n, 3n, 17n), 9n);
    for (let x = 1n; x < 97n; x++) assert.equal((x * inverse(x, 97n)) % 97n, 1n);
    assert.throws(() => inverse(97n, 97n), RangeError);
    assert.deepEqual(
      [-8n, -7n, -1n, 0n, 6n, 7n].map((x) => mod(x, 7n)),
      [6n, 0n, 6n, 0n, 6n, 0n],
    );
    assert.deepEqual(
      [0n, 1n, 3n, 4n, 6n, -3n, -4n].map((x) => centred(x, 7n)),
      [0n, 1n, 3n, -3n, -1n, -3n, 3n],
    );
    assert.deepEqual(
      [3n, 4n, 5n, -4n].map((x) => centred(x, 8n)),
      [3n, 4n, -3n, 4n],
    );
  });
});

describe('negacyclic transform', () => {
  it('rootOfUnity is a primitive 2n-th root, from the smallest g', () => {
    assert.equal(rootOfUnity(17, 4), 9n); // 2^2 has order 4, 3^2 has order 8
    for (const n of [1, 2, 8, 64, 1024]) {
      const p = primes(28, 1024, 1)[0];
      const psi = rootOfUnity(p, n);
      assert.equal(power(psi, BigInt(n), BigInt(p)), BigInt(p) - 1n);
    }
    assert.throws(() => rootOfUnity(17, 16), RangeError);
  });

  it('bitReverse reverses log2(n) bits', () => {
    assert.deepEqual(
      [0, 1, 2, 3, 4, 5, 6, 7].map((i) => bitReverse(i, 8)),
      [0, 4, 2, 6, 1, 5, 3, 7],
    );
    assert.equal(bitReverse(0, 1), 0);
  });

  it('a worked example: the transform of x mod 17 is psi, psi^5, psi^3, psi^7', () => {
    assert.deepEqual(ntt([0, 1, 0, 0], 17, 4), [9, 8, 15, 2]);
    assert.deepEqual(ntt([5, 0, 0, 0], 17, 4), [5, 5, 5, 5]);
  });

  it('evaluates the polynomial at the odd powers of psi, by Horner', () => {
    const n = 64;
    const p = primes(30, n, 1)[0];
    const q = BigInt(p);
    const a = uniform(seed, 9, 0, 0, p, n);
    const values = ntt(Uint32Array.from(a), p, n);
    for (let i = 0; i < n; i++) {
      const x = power(rootOfUnity(p, n), BigInt(2 * bitReverse(i, n) + 1), q);
      assert.equal(
        BigInt(values[i]),
        a.reduceRight((sum, c) => (sum * x + BigInt(c)) % q, 0n),
      );
    }
  });

  it('intt undoes ntt and ntt undoes intt', () => {
    for (const n of [1, 2, 4, 32, 512]) {
      const p = primes(30, n, 1)[0];
      const a = uniform(seed, 1, n, 0, p, n);
      assert.deepEqual(intt(ntt(a, p, n), p, n), a);
      assert.deepEqual(ntt(intt(a, p, n), p, n), a);
    }
  });

  it('the product of transforms is the transform of the schoolbook product', () => {
    for (const n of [1, 2, 8, 128]) {
      for (const [k, p] of primes(28, n, 3).entries()) {
        const a = uniform(seed, 2, n, k, p, n);
        const b = uniform(seed, 3, n, k, p, n);
        const right = ntt(b, p, n);
        const pointwise = ntt(a, p, n).map((x, i) => Number((BigInt(x) * BigInt(right[i])) % BigInt(p)));
        assert.deepEqual(intt(pointwise, p, n), negacyclicMultiply(a, b, p));
      }
    }
  });

  it('negacyclicMultiply wraps with a minus sign and takes signed input', () => {
    assert.deepEqual(negacyclicMultiply([0, 0, 0, 1], [0, 1, 0, 0], 17), [16, 0, 0, 0]);
    assert.deepEqual(negacyclicMultiply([1, 2, 3, 4], [0, -1, 0, 0], 17), [4, 16, 15, 14]);
  });

  it('refuses the wrong length', () => {
    assert.throws(() => ntt([1, 2, 3], 17, 4), RangeError);
    assert.throws(() => intt([1, 2, 3], 7, 3), RangeError);
    assert.throws(() => negacyclicMultiply([1], [1, 2], 17), RangeError);
  });
});

describe('ChaCha20', () => {
  const zeros = '00'.repeat(32);

  it('block function, RFC 8439 section 2.3.2', () => {
    assert.equal(
      hex(chacha20Block(seed, unhex('000000090000004a00000000'), 1)),
      '10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e' +
        'd2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e',
    );
  });

  it('encryption example, RFC 8439 section 2.4.2', () => {
    const plaintext = utf8(
      "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, " +
        'sunscreen would be it.',
    );
    // The nonce 00 00 00 00 00 00 00 4a 00 00 00 00 as little-endian words; the example starts at
    // block 1.
    const stream = keystream(seed, 0, 0x4a000000, 0, 64 + plaintext.length).subarray(64);
    assert.equal(
      hex(plaintext.map((byte, i) => byte ^ stream[i])),
      '6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b' +
        'f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8' +
        '07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736' +
        '5af90bbf74a35be6b40b8eedf2785e42874d',
    );
  });

  const appendix: [key: string, nonce: string, counter: number, block: string][] = [
    [
      zeros,
      '000000000000000000000000',
      0,
      '76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7' +
        'da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586',
    ],
    [
      zeros,
      '000000000000000000000000',
      1,
      '9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed' +
        '29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f',
    ],
    [
      `${'00'.repeat(31)}01`,
      '000000000000000000000000',
      1,
      '3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a' +
        '8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0',
    ],
    [
      `00ff${'00'.repeat(30)}`,
      '000000000000000000000000',
      2,
      '72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca' +
        '13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096',
    ],
    [
      zeros,
      '000000000000000000000002',
      0,
      'c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7' +
        '8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d',
    ],
  ];
  for (const [i, [key, nonce, counter, block]] of appendix.entries()) {
    it(`block function, RFC 8439 appendix A.1, test vector ${i + 1}`, () => {
      assert.equal(hex(chacha20Block(unhex(key), unhex(nonce), counter)), block);
    });
  }

  it('keystream equals that of OpenSSL, whose initial vector is the counter and the nonce', () => {
    for (const [domain, index, third, length] of [
      [0, 0, 0, 1],
      [1, 2, 3, 64],
      [0xffffffff, 0x80000000, 0x01020304, 1000],
    ]) {
      const iv = new Uint8Array(16);
      const view = new DataView(iv.buffer);
      for (const [i, word] of [0, domain, index, third].entries()) view.setUint32(4 * i, word, true);
      const expected = createCipheriv('chacha20', seed, iv).update(new Uint8Array(length));
      assert.equal(hex(keystream(seed, domain, index, third, length)), hex(expected));
    }
  });

  it('refuses keys and nonces of the wrong length', () => {
    assert.throws(() => chacha20Block(new Uint8Array(31), new Uint8Array(12), 0), RangeError);
    assert.throws(() => chacha20Block(new Uint8Array(32), new Uint8Array(8), 0), RangeError);
  });
});

// The pinned values below were derived from OpenSSL's keystream by a separate program.
describe('samplers', () => {
  it('uniform, pinned', () => {
    assert.deepEqual(
      uniform(seed, 7, 1234567, 3, 1073479681, 8),
      [180930511, 580300646, 816785713, 673520452, 629742154, 933458774, 936426548, 451797317],
    );
    assert.deepEqual(
      uniform(seed, 7, 1234567, 3, 8380417, 8),
      [4769743, 1486694, 3090737, 2431812, 596554, 2323286, 5291060, 7201093],
    );
    assert.deepEqual(uniform(seed, 7, 1234567, 3, 12289, 8), [1999, 12134, 10545, 6980, 6730, 8517, 6360, 4020]);
    // Just above a power of two: nearly half of the words are discarded.
    assert.deepEqual(uniform(seed, 7, 1234567, 3, 8209, 8), [1999, 6980, 6730, 6360, 4020, 7631, 1208, 6590]);
  });

  it('uniform has the mean, variance and range of its distribution', () => {
    const p = primes(30, 4096, 1)[0];
    const n = 20000;
    const values = uniform(seed, 4, 0, 1, p, n);
    assert.equal(values.length, n);
    assert.ok(values.every((v) => Number.isInteger(v) && v >= 0 && v < p));
    const { mean, variance } = moments(values.map((v) => v / p));
    assert.ok(Math.abs(mean - 1 / 2) < 4 * Math.sqrt(1 / 12 / n), `mean ${mean}`);
    assert.ok(Math.abs(variance * 12 - 1) < 0.03, `variance ${variance}`);
    const bins = new Array<number>(16).fill(0);
    for (const v of values) bins[Math.floor((16 * v) / p)]++;
    assert.ok(chiSquare(bins, new Array(16).fill(n / 16)) < 37.7); // 15 degrees of freedom, 0.1 %
  });

  it('ternary, pinned: bytes 12 and 20 of this stream are 255 and are skipped', () => {
    const bytes = keystream(seed, 1, 2, 0, 24);
    assert.deepEqual([bytes.indexOf(255), bytes.lastIndexOf(255)], [12, 20]);
    assert.deepEqual(ternary(seed, 1, 2, 16), [0, 0, 0, -1, -1, 0, -1, -1, 1, 1, -1, 1, 0, 1, 0, 1]);
    assert.equal(ternary(seed, 1, 2, 2000).filter((v) => v === 0).length, 649);
  });

  it('ternary is uniform on -1, 0, 1', () => {
    const n = 30000;
    const values = ternary(seed, 5, 0, n);
    assert.equal(values.length, n);
    const counts = [-1, 0, 1].map((t) => values.filter((v) => v === t).length);
    assert.equal(
      counts.reduce((sum, c) => sum + c, 0),
      n,
    );
    assert.ok(chiSquare(counts, [n / 3, n / 3, n / 3]) < 13.8, `${counts}`); // 2 degrees of freedom, 0.1 %
    const { mean, variance } = moments(values);
    assert.ok(Math.abs(mean) < 4 * Math.sqrt(2 / 3 / n), `mean ${mean}`);
    assert.ok(Math.abs(variance - 2 / 3) < 0.01, `variance ${variance}`);
  });

  it('centredBinomial, pinned', () => {
    const expected = [
      [-3, 2, -1, -1, 0, 3, 0, 3, -2, 0, 2, -3, -4, -1, -2, 0],
      [0, 3, -2, 4, 7, 5, -4, 2, -2, 7, 1, 0, 2, -10, 3, -2],
      [-2, -1, -1, 1, -5, 4, 1, 3, 1, 0, 6, -5, 0, 5, 0, 1],
    ].flat();
    assert.deepEqual(centredBinomial(seed, 2, 0xfffffffe, 48), expected);
    assert.deepEqual(centredBinomial(seed, 2, 0xfffffffe, 21), expected.slice(0, 21));
  });

  it('centredBinomial is binomial with eta = 21', () => {
    const n = 32768;
    const values = centredBinomial(seed, 6, 0, n);
    assert.equal(values.length, n);
    assert.ok(values.every((v) => Number.isInteger(v) && Math.abs(v) <= 21));
    const { mean, variance } = moments(values);
    assert.ok(Math.abs(mean) < 4 * Math.sqrt(10.5 / n), `mean ${mean}`);
    assert.ok(Math.abs(variance - 10.5) < 0.35, `variance ${variance}`);
    // P(v) = C(42, 21 + v) / 2^42; beyond ±9 in one bin a side, which leaves 21 bins and 20 degrees
    // of freedom.
    const observed = new Array<number>(21).fill(0);
    const expected = new Array<number>(21).fill(0);
    const bin = (v: number): number => Math.min(Math.max(v, -10), 10) + 10;
    for (const v of values) observed[bin(v)]++;
    let choose = 1;
    for (let k = 0; k <= 42; k++) {
      expected[bin(k - 21)] += (n * choose) / 2 ** 42;
      choose = (choose * (42 - k)) / (k + 1);
    }
    assert.ok(chiSquare(observed, expected) < 45.3, `${observed}`); // 0.1 %
  });

  it('streams differ by seed, domain, index and prime', () => {
    const other = seed.map((byte) => byte ^ 1);
    const streams = [
      keystream(seed, 0, 0, 0, 64),
      keystream(other, 0, 0, 0, 64),
      keystream(seed, 1, 0, 0, 64),
      keystream(seed, 0, 1, 0, 64),
      keystream(seed, 0, 0, 1, 64),
    ];
    assert.equal(new Set(streams.map(hex)).size, streams.length);
  });
});

describe('residues and digits', () => {
  it('crt inverts reduction', () => {
    assert.equal(crt([2, 3, 2], [3, 5, 7]), 23n); // Sun Tzu's problem
    for (const count of [1, 2, 3, 5]) {
      const list = primes(30, 4096, count);
      const q = list.reduce((product, p) => product * BigInt(p), 1n);
      const samples = [0n, 1n, q - 1n, q / 2n, q / 3n];
      for (let i = 0; i < 50; i++) samples.push(BigInt(`0x${hex(keystream(seed, 8, i, count, 32))}`) % q);
      for (const x of samples) {
        assert.equal(
          crt(
            list.map((p) => Number(x % BigInt(p))),
            list,
          ),
          x,
        );
      }
    }
    assert.throws(() => crt([1], [3, 5]), RangeError);
  });

  it('digits, worked examples', () => {
    assert.deepEqual(digits(7n, 1000n, 3, 2), [-1n, 1n]);
    assert.deepEqual(digits(4n, 1000n, 3, 2), [-4n, 1n]);
    assert.deepEqual(digits(3n, 1000n, 3, 2), [3n, 0n]);
    assert.deepEqual(digits(995n, 1000n, 3, 2), [3n, -1n]); // -5 = 3 - 8
    assert.deepEqual(digits(995n, 1000n, 3, 1), [-5n]);
  });

  it('digits recompose to the centred value and stay in range', () => {
    const q = primes(30, 4096, 2).reduce((product, p) => product * BigInt(p), 1n);
    for (const [base, count] of [
      [1, 4],
      [7, 9],
      [15, 4],
      [20, 3],
      [30, 2],
    ]) {
      const half = 1n << BigInt(base - 1);
      // |x| <= q/2, and the roundings, halves at most, add less than one to the last quotient.
      const bound = q / (2n << BigInt(base * (count - 1))) + 1n;
      const samples = [0n, 1n, -1n, q / 2n, q / 2n + 1n, q - 1n, q, half, half - 1n, -half, -half - 1n];
      for (let i = 0; i < 200; i++) samples.push(BigInt(`0x${hex(keystream(seed, 10, i, base, 16))}`));
      for (const x of samples) {
        const d = digits(x, q, base, count);
        assert.equal(d.length, count);
        assert.equal(
          d.reduceRight((sum, digit) => (sum << BigInt(base)) + digit, 0n),
          centred(x, q),
        );
        for (const digit of d.slice(0, -1)) assert.ok(digit >= -half && digit < half);
        const last = d[count - 1];
        assert.ok(last >= -bound && last <= bound, `${last}`);
      }
    }
  });
});

describe('modulus switching', () => {
  /** Distance on the circle of 2^bits points. */
  const distance = (a: bigint, b: bigint, bits: number): bigint => {
    const d = centred(a - b, 1n << BigInt(bits));
    return d < 0n ? -d : d;
  };

  it('worked examples mod 17', () => {
    for (const [c, expected] of [
      [0, 0n],
      [1, 1n],
      [5, 5n],
      [8, 8n],
      [16, 15n],
    ] as const) {
      assert.equal(switchModulus([c], [17], 4), expected);
      assert.equal(switchModulusIdeal([c], [17], 4), expected);
    }
    assert.equal(switchModulus([16], [17], 3), 0n); // 7.53 rounds up and wraps
    assert.equal(switchModulusIdeal([16], [17], 3), 0n);
  });

  it('agrees with exact rounding nearly always and is never more than one unit off', () => {
    const samples = 500;
    for (const primeBits of [28, 30]) {
      for (const count of [1, 2, 3]) {
        const list = primes(primeBits, 4096, count);
        const residues = list.map((p, i) => uniform(seed, 11, count, i, p, samples));
        for (const bits of [8, 16, 20]) {
          let differing = 0;
          for (let j = 0; j < samples; j++) {
            const c = residues.map((r) => r[j]);
            const got = switchModulus(c, list, bits);
            const ideal = switchModulusIdeal(c, list, bits);
            assert.ok(got >= 0n && got < 1n << BigInt(bits));
            assert.ok(distance(got, ideal, bits) <= 1n, `${c}: ${got} and ${ideal}`);
            if (got !== ideal) differing++;
          }
          // An error of at most count * 2^(bits-32) units turns a rounding with at most twice that
          // probability.
          assert.ok(differing <= 2, `${differing} of ${samples} differ for ${count} primes and ${bits} bits`);
        }
      }
    }
  });

  it('is at most one unit off on the rounding boundaries themselves', () => {
    for (const count of [1, 2, 3]) {
      const list = primes(28, 4096, count);
      const q = list.reduce((product, p) => product * BigInt(p), 1n);
      for (const bits of [12, 20, 28]) {
        for (let i = 0; i < 40; i++) {
          const m = BigInt(i < 4 ? i : (i * 2654435761) % 2 ** bits) % (1n << BigInt(bits));
          const boundary = ((2n * m + 1n) * q) >> BigInt(bits + 1); // c*2^bits/Q = m + 1/2
          for (let offset = -2n; offset <= 2n; offset++) {
            const c = list.map((p) => Number(mod(boundary + offset, BigInt(p))));
            const ideal = switchModulusIdeal(c, list, bits);
            assert.ok(distance(switchModulus(c, list, bits), ideal, bits) <= 1n);
          }
        }
      }
    }
  });

  it('refuses primes of different bit lengths', () => {
    assert.throws(() => switchModulus([1, 1], [17, 7], 4), RangeError);
  });
});

describe('bits', () => {
  it('packBits, worked examples', () => {
    assert.deepEqual([...packBits([1, 2, 3], 3)], [0b11010001, 0]);
    assert.deepEqual([...packBits([0x123, 0xabc], 12)], [0x23, 0xc1, 0xab]);
    assert.deepEqual([...packBits([0xdeadbeef], 32)], [0xef, 0xbe, 0xad, 0xde]);
    assert.deepEqual([...packBits([], 5)], []);
  });

  it('unpackBits undoes packBits at every width', () => {
    for (let bits = 1; bits <= 32; bits++) {
      for (const count of [1, 7, 8, 33]) {
        const words = unpackBits(keystream(seed, 12, bits, count, 4 * count), 32, count);
        const values = words.map((w) => w % 2 ** bits);
        values[0] = 2 ** bits - 1;
        const bytes = packBits(values, bits);
        assert.equal(bytes.length, Math.ceil((bits * count) / 8));
        assert.deepEqual(unpackBits(bytes, bits, count), values);
      }
    }
  });

  it('refuse values too wide and strings too short', () => {
    assert.throws(() => packBits([8], 3), RangeError);
    assert.throws(() => packBits([-1], 3), RangeError);
    assert.throws(() => unpackBits(new Uint8Array(1), 3, 3), RangeError);
  });
});

describe('XXH64', () => {
  const bytes768 = Uint8Array.from({ length: 768 }, (_, i) => i % 256);
  const vectors: [name: string, input: Uint8Array, seed: bigint, hash: bigint][] = [
    ['nothing', utf8(''), 0n, 0xef46db3751d8e999n],
    ['nothing, seeded', utf8(''), 1n, 0xd5afba1336a3be4bn],
    ['a', utf8('a'), 0n, 0xd24ec4f1a98c6e5bn],
    ['abc', utf8('abc'), 0n, 0x44bc2cf5ad770999n],
    ['asdf', utf8('asdf'), 0n, 0x415872f599cea71en],
    ['abcdefghij', utf8('abcdefghij'), 0n, 0xd6287a1de5498bb2n],
    ['one stripe', utf8('a'.repeat(32)), 0n, 0x856e843298f99ad7n],
    ['39 bytes', utf8('Nobody inspects the spammish repetition'), 0n, 0xfbcea83c8a378bf1n],
    ['63 bytes', utf8('Call me Ishmael. Some years ago--never mind how long precisely-'), 0n, 0x02a2e85470d6fd96n],
    ['768 bytes', bytes768, 0n, 0x8e03c838c596036fn],
    ['768 bytes, seeded', bytes768, 1n, 0xa80257374b99ade3n],
  ];
  for (const [name, input, start, hash] of vectors) {
    it(`known vector: ${name}`, () => assert.equal(xxh64(input, start), hash));
  }

  it('hashes a view at an odd offset as its bytes', () => {
    const bytes = new Uint8Array(70);
    const text = utf8('Call me Ishmael. Some years ago--never mind how long precisely-');
    bytes.set(text, 3);
    assert.equal(xxh64(bytes.subarray(3, 66)), 0x02a2e85470d6fd96n);
  });
});
