// The check of scores: what the sums are, that right scores fit, and that no others do (README.md
// §6).

import assert from 'node:assert/strict';
import { createCipheriv } from 'node:crypto';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { derivedSlowly } from '../../testing/derivation.node.ts';
import { normals, randomVectors } from '../../testing/samples.ts';
import { decodeBlock } from '../block.ts';
import { HersError } from '../errors.ts';
import { SCORE_WEIGHTS } from '../layout.ts';
import { ringOf } from '../parameters.ts';
import { METRICS, type Metric, type Plan, type PlanRequest, plan } from '../plan.ts';
import { decodeQuery } from '../query.ts';
import { blockMatrix, encodeResponse, expandedQuery, scanBlock } from '../response.ts';
import { roundVectors, type Vectors } from '../vectors.ts';
import { encryptBlock, encryptQuery } from './encrypt.ts';
import { type CollectionKey, MasterSeed, scoreWeights } from './key.ts';
import { decodeScoreSums, encodeScoreSums, type ScoreSums, scoreChecker, scoreSums } from './score-sums.ts';

const COPIES = 6;
const exact = { profile: 'exact' } as const;
const tiny = { parameters: 'insecure_n_64_logq_30_30_wide_4', allowInsecure: true, ...exact } as const;
const collectionId = new Uint8Array(16).fill(1);
const masterBytes = new Uint8Array(32).fill(7);
const refused = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;

const keyFor = (request: PlanRequest, epoch = 0, seed = masterBytes): CollectionKey =>
  MasterSeed.from(seed).collectionKey(plan(request), collectionId, epoch);

const boundsFor = (metric: Metric) => (metric === 'cosine' ? {} : { normBound: 3 });

/** Checks the scores of one block against one query. */
const scoresFit = (key: CollectionKey, sums: ScoreSums, query: ArrayLike<number>, integers: Int32Array): boolean =>
  scoreChecker(key, query)(sums, integers);

/** The integers that encryption, a scan and decryption give. */
function searched(key: CollectionKey, block: Uint8Array, vector: ArrayLike<number>): Int32Array {
  const { query, secret } = encryptQuery(key, vector);
  using _ = secret;
  const response = scanBlock(blockMatrix(decodeBlock(block)), expandedQuery(decodeQuery(query)));
  return secret.decrypt(encodeResponse(response)).integers!;
}

/** The same without encryption. */
function scored({ plan: p }: CollectionKey, gallery: Vectors, query: ArrayLike<number>): Int32Array {
  const { dimension, metric } = p;
  const P = roundVectors(p, gallery);
  const Q = roundVectors(p, [query], 'query');
  return Int32Array.from({ length: P.length / dimension }, (_, j) => {
    let sum = 0;
    for (let i = 0; i < dimension; i++) {
      const x = P[j * dimension + i];
      sum += metric === 'euclidean' ? (x - Q[i]) ** 2 : x * Q[i];
    }
    return sum;
  });
}

const altered = (integers: Int32Array, change: (copy: Int32Array) => void): Int32Array => {
  const copy = integers.slice();
  change(copy);
  return copy;
};

// — the slow and obvious version, from docs/formats.md and Node's own HKDF and ChaCha20 —

/** For each copy the weights of all slots. */
function slowWeights(p: Plan, epoch: number): bigint[][] {
  const seed = derivedSlowly(masterBytes, 'score weights', { plan: p, collectionId, epoch });
  const { n, primes } = p.parameters;
  return Array.from({ length: COPIES }, (_, c) => {
    const nonce = Buffer.from(Uint32Array.of(0, SCORE_WEIGHTS, c, 0).buffer); // the counter comes first
    const stream = createCipheriv('chacha20', seed, nonce).update(new Uint8Array(4 * n + 4096));
    return Array.from({ length: n + 1024 }, (_, i) => stream.readUInt32LE(4 * i) & (2 ** 30 - 1))
      .filter((word) => word < primes[0])
      .slice(0, n)
      .map((word) => BigInt.asUintN(18, BigInt(word)));
  });
}

function slowSums(p: Plan, epoch: number, rounded: Int32Array): { w: bigint[]; s: bigint[]; t: bigint[] } {
  const { dimension } = p;
  const w = new Array<bigint>(COPIES * dimension).fill(0n);
  const [s, t] = [new Array<bigint>(COPIES).fill(0n), new Array<bigint>(COPIES).fill(0n)];
  slowWeights(p, epoch).forEach((weights, c) => {
    for (let j = 0; j * dimension < rounded.length; j++) {
      const r = weights[j];
      t[c] += r;
      for (let i = 0; i < dimension; i++) {
        const x = BigInt(rounded[j * dimension + i]);
        w[c * dimension + i] += r * x;
        s[c] += r * x * x;
      }
    }
  });
  return { w, s, t };
}

function slowFit(p: Plan, epoch: number, gallery: Int32Array, query: Int32Array, integers: Int32Array): boolean {
  const { w, s, t } = slowSums(p, epoch, gallery);
  return slowWeights(p, epoch).every((weights, c) => {
    let [product, square, weighed] = [0n, 0n, 0n];
    query.forEach((x, i) => {
      product += w[c * p.dimension + i] * BigInt(x);
      square += BigInt(x) ** 2n;
    });
    integers.forEach((k, j) => {
      weighed += weights[j] * BigInt(k);
    });
    return weighed === (p.metric === 'euclidean' ? s[c] + t[c] * square - 2n * product : product);
  });
}

const whole = ({ w, s, t }: ScoreSums) => ({
  w: Array.from(w, BigInt),
  s: Array.from(s, BigInt),
  t: Array.from(t, BigInt),
});

describe('weights', () => {
  it('are those of docs/formats.md, and below 2^18', () => {
    for (const request of [
      { ...tiny, dimension: 5 },
      { dimension: 4, ...exact },
    ]) {
      const key = keyFor(request, 3);
      const weights = scoreWeights(key);
      assert.deepEqual(Array.from(weights, BigInt), slowWeights(key.plan, 3).flat());
      assert.equal(scoreWeights(key), weights);
      assert.ok(weights.every((r) => r >= 0 && r < 2 ** 18));
      for (const { residues } of ringOf(key.plan.parameters).polys) assert.ok(residues.every((x) => x === 0));
    }
  });
  it('look uniform', () => {
    const weights = scoreWeights(keyFor({ dimension: 4, ...exact }));
    const counts = new Array<number>(16).fill(0);
    for (const r of weights) counts[Math.floor(r / 2 ** 14)]++;
    const expected = weights.length / 16;
    const chi = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    assert.ok(chi < 45, `${chi}`); // 15 degrees of freedom: one key in 10^4 is beyond, and this one is fixed
  });
  it('differ by seed, collection, epoch and plan', () => {
    const base = { ...tiny, dimension: 5, metric: 'dot' } as const;
    const master = MasterSeed.from(masterBytes);
    const keys = [
      keyFor(base),
      keyFor(base, 1),
      keyFor(base, 0, new Uint8Array(32).fill(8)),
      master.collectionKey(plan(base), new Uint8Array(16).fill(2)),
      keyFor({ ...base, normBound: 2 }),
      keyFor({ ...base, metric: 'cosine' }),
    ];
    assert.equal(new Set(keys.map((key) => scoreWeights(key).join())).size, keys.length);
    const gallery = randomVectors('gallery', 9, 5);
    const integers = scored(keys[0], gallery, gallery.slice(0, 5));
    const sums = scoreSums(keys[0], gallery);
    keys.forEach((key, k) => {
      if (k !== 4) assert.deepEqual(scored(key, gallery, gallery.slice(0, 5)), integers); // another bound, other integers
      assert.equal(scoresFit(key, sums, gallery.slice(0, 5), integers), k === 0);
    });
  });
  it('a changed slot passes one copy with probability at most that of the likeliest weight, counted over small ones', () => {
    const bound = 4;
    const slots = 3;
    for (let x = 1; x < 7 ** slots; x++) {
      const changes = Array.from({ length: slots }, (_, j) => (Math.floor(x / 7 ** j) % 7) - 3);
      if (changes.every((change) => change === 0)) continue;
      let passes = 0;
      for (let y = 0; y < bound ** slots; y++)
        if (changes.reduce((sum, change, j) => sum + change * (Math.floor(y / bound ** j) % bound), 0) === 0) passes++;
      assert.ok(passes <= bound ** (slots - 1), `${changes}`);
    }
  });
  it('six copies leave less than 2^−107.9, whatever the set', () => {
    for (const request of [
      { ...tiny, dimension: 5 },
      { dimension: 4, ...exact },
    ]) {
      const [p] = plan(request).parameters.primes;
      const likeliest = Math.ceil(p / 2 ** 18) / p;
      assert.ok(likeliest < 2 ** -18 * (1 + 2 ** -12));
      assert.ok(COPIES * Math.log2(likeliest) < -107.9);
    }
  });
});

describe('sums and check', () => {
  for (const metric of METRICS) {
    it(`${metric}: agree with whole numbers, for right scores and others`, () => {
      fc.assert(
        fc.property(
          fc.integer({ min: 2, max: 40 }),
          fc.integer({ min: 1, max: 64 }),
          fc.nat(1e6),
          (dimension, count, seed) => {
            const key = keyFor({ ...tiny, dimension, metric, ...boundsFor(metric) }, 2);
            const gallery = randomVectors(`g${seed}`, count, dimension, 2.9);
            const query = randomVectors(`q${seed}`, 1, dimension, 3);
            const P = roundVectors(key.plan, gallery);
            const Q = roundVectors(key.plan, query, 'query');
            const sums = scoreSums(key, gallery);
            assert.deepEqual(whole(sums), slowSums(key.plan, 2, P));
            assert.deepEqual(scoreSums(key, P), sums);
            const right = scored(key, gallery, query);
            const wrong = altered(right, (k) => {
              k[seed % count] += 1 + (seed % 5);
            });
            for (const integers of [right, wrong]) {
              assert.equal(scoresFit(key, sums, query, integers), integers === right);
              assert.equal(slowFit(key.plan, 2, P, Q, integers), integers === right);
            }
          },
        ),
        { numRuns: 30 },
      );
    });

    for (const request of [
      { ...tiny, dimension: 7 },
      { dimension: 12, ...exact },
    ]) {
      const key = keyFor({ ...request, metric, ...boundsFor(metric) });
      const { n, name } = key.plan.parameters;
      const d = key.plan.dimension;
      it(`${metric}, ${name}: what a scan gives fits, for full and partial blocks`, () => {
        const gallery = randomVectors('gallery', n, d, 2.9);
        const query = randomVectors('query', 1, d, 3);
        const fits = scoreChecker(key, query);
        for (const count of [1, 2, n - 1, n]) {
          const part = gallery.subarray(0, count * d);
          const integers = searched(key, encryptBlock(key, part), query);
          assert.deepEqual(integers, scored(key, part, query));
          assert.ok(fits(scoreSums(key, part), integers), `${count} slots`);
        }
      });
    }
  }
  it('vectors may be lists, Float64Arrays, and rounded ones', () => {
    const key = keyFor({ ...tiny, dimension: 3, metric: 'dot' });
    const lists = [
      [0.1, 0.2, 0.3],
      [0, 0, 0],
      [-0.5, 0.5, 0],
    ];
    const sums = scoreSums(key, lists);
    assert.deepEqual(scoreSums(key, Float64Array.from(lists.flat())), sums);
    assert.deepEqual(scoreSums(key, roundVectors(key.plan, lists)), sums);
    assert.ok(scoresFit(key, sums, [0.3, 0, 1 / 3], scored(key, lists, [0.3, 0, 1 / 3])));
  });
});

describe('other scores are refused', () => {
  for (const metric of METRICS) {
    const key = keyFor({ ...tiny, dimension: 6, metric, ...boundsFor(metric) });
    const gallery = randomVectors('gallery', 64, 6, 2.9);
    const query = randomVectors('query', 1, 6, 2.9);
    const sums = scoreSums(key, gallery);
    const integers = searched(key, encryptBlock(key, gallery), query);
    const fits = scoreChecker(key, query);
    const passes = (change: (copy: Int32Array) => void) => fits(sums, altered(integers, change));

    it(`${metric}: one slot changed, any of them, by anything`, () => {
      assert.ok(passes(() => {}));
      for (let j = 0; j < 64; j++)
        for (const by of [1, -1, 2, 250, -1000, 2 ** 16, -(2 ** 16)]) {
          const change = (k: Int32Array) => {
            k[j] += by;
          };
          assert.ok(!passes(change), `slot ${j} by ${by}`);
        }
    });
    it(`${metric}: two slots changed with the same plain sum, or exchanged; all rotated or reversed`, () => {
      for (let j = 1; j < 64; j++) {
        const shifted = (k: Int32Array) => {
          k[j]++;
          k[j - 1]--;
        };
        assert.ok(!passes(shifted));
        if (integers[j] === integers[0]) continue;
        const exchanged = (k: Int32Array) => {
          [k[0], k[j]] = [k[j], k[0]];
        };
        assert.ok(!passes(exchanged));
      }
      assert.ok(!passes((k) => k.reverse()));
      assert.ok(!passes((k) => k.set([...k.subarray(1), k[0]])));
    });
    it(`${metric}: all zero, all one more, doubled, negated`, () => {
      assert.ok(!passes((k) => k.fill(0)));
      for (const change of [(x: number) => x + 1, (x: number) => 2 * x, (x: number) => -x])
        assert.ok(!fits(sums, integers.map(change)));
    });
    it(`${metric}: those of another query, of another block, of other slots`, () => {
      const another = randomVectors('another', 1, 6, 2.9);
      assert.ok(!fits(sums, searched(key, encryptBlock(key, gallery), another)));
      const others = randomVectors('others', 64, 6, 2.9);
      assert.ok(!fits(sums, searched(key, encryptBlock(key, others), query)));
      assert.ok(!fits(scoreSums(key, others), integers));
      const half = gallery.subarray(0, 32 * 6);
      assert.ok(fits(scoreSums(key, half), integers.slice(0, 32)));
      assert.ok(!fits(scoreSums(key, half), integers.slice(1, 33)));
      assert.ok(!fits(scoreSums(key, half), integers.slice(32)));
    });
    it(`${metric}: fewer or more than were summed, also where they are zero`, () => {
      assert.ok(!fits(sums, integers.slice(0, 63)));
      assert.ok(!fits(sums, integers.slice(1)));
      assert.ok(!fits(sums, new Int32Array(0)));
      assert.ok(!fits(sums, Int32Array.of(...integers, 0)));
      const orthogonal = [0, 0, 0, 0, 0, 1];
      const flat = metric === 'euclidean' ? orthogonal : [1, 0, 0, 0, 0, 0];
      const repeated = Array.from({ length: 9 }, () => orthogonal);
      const zeros = scored(key, repeated, flat);
      assert.deepEqual(zeros, new Int32Array(9));
      assert.ok(scoresFit(key, scoreSums(key, repeated), flat, zeros));
      for (const count of [0, 8, 10, 64])
        assert.ok(!scoresFit(key, scoreSums(key, repeated), flat, new Int32Array(count)));
    });
    it(`${metric}: those that no score can be, whatever the sums say`, () => {
      const largest = 4 * (key.plan.steps * (1 + 1e-5) + Math.sqrt(6) / 2) ** 2;
      const zero = { w: new Float64Array(36), s: new Float64Array(6), t: new Float64Array(6) };
      for (const x of [Math.floor(largest) + 1, -Math.floor(largest) - 1, 2 ** 31 - 1, -(2 ** 31)]) {
        assert.ok(!fits(zero, Int32Array.of(x)));
        const change = (k: Int32Array) => {
          k[5] = x;
        };
        assert.ok(!passes(change));
      }
    });
  }
  it('a difference that one copy cannot see is seen by another', () => {
    const key = keyFor({ ...tiny, dimension: 6 });
    const gallery = randomVectors('gallery', 64, 6);
    const query = gallery.slice(0, 6);
    const right = scored(key, gallery, query);
    const weights = scoreWeights(key);
    // Real weights leave nothing unseen that a test could find, so small ones take their place.
    const kept = weights.slice();
    try {
      weights.fill(0);
      for (let c = 0; c < COPIES; c++)
        for (let j = 0; j < 64; j++) weights[c * 64 + j] = 1 + (c === 5 && j > 7 ? 1 : 0);
      const sums = scoreSums(key, gallery);
      const swap = (a: number, b: number) =>
        altered(right, (k) => {
          k[a]++;
          k[b]--;
        });
      assert.ok(scoresFit(key, sums, query, right));
      assert.ok(scoresFit(key, sums, query, swap(8, 9))); // seen by no copy, with weights that are all the same
      assert.ok(!scoresFit(key, sums, query, swap(3, 9))); // seen by the last alone
    } finally {
      weights.set(kept);
    }
  });
});

describe('extremes', () => {
  const extremes = (d: number, steps: number): { name: string; vector: Int32Array }[] => {
    const vector = (fill: (i: number) => number) => Int32Array.from({ length: d }, (_, i) => fill(i));
    // As long as rounding makes a vector: every coordinate moved up by almost a half.
    const M = steps * (1 + 1e-5) + Math.sqrt(d) / 2;
    const low = Math.floor(M / Math.sqrt(d));
    const higher = Math.max(0, Math.min(d, Math.floor((M ** 2 - d * low ** 2) / (2 * low + 1))));
    return [
      { name: 'all in one', vector: vector((i) => (i === 1 ? steps : 0)) },
      { name: 'all in one, negative', vector: vector((i) => (i === 1 ? -steps : 0)) },
      { name: 'longest', vector: vector((i) => low + (i < higher ? 1 : 0)) },
      { name: 'longest, negative', vector: vector((i) => -low - (i < higher ? 1 : 0)) },
      { name: 'zero', vector: vector(() => 0) },
    ];
  };
  for (const d of [2, 128, 4096]) {
    for (const metric of ['dot', 'euclidean'] as const) {
      it(`${metric}, d = ${d}: full blocks of the longest vectors, exact all the same`, () => {
        const key = keyFor({ dimension: d, ...exact, metric });
        const { parameters, steps } = key.plan;
        const { n } = parameters;
        const vectors = extremes(d, steps);
        for (const [g, { name, vector }] of vectors.entries()) {
          const count = d === 4096 && g !== 2 ? 200 : n;
          const gallery = new Int32Array(count * d);
          for (let j = 0; j < count; j++) gallery.set(vector, j * d);
          const sums = scoreSums(key, gallery);
          assert.deepEqual(decodeScoreSums(key.plan, encodeScoreSums(sums)), sums);
          const square = vector.reduce((sum, x) => sum + x * x, 0);
          slowWeights(key.plan, 0).forEach((weights, c) => {
            const t = weights.slice(0, count).reduce((sum, r) => sum + r);
            assert.equal(BigInt(sums.t[c]), t);
            assert.equal(BigInt(sums.s[c]), t * BigInt(square));
            assert.ok(vector.every((x, i) => BigInt(sums.w[c * d + i]) === t * BigInt(x)));
          });
          for (const [q, probe] of vectors.entries()) {
            // Queries are rounded from floats: the integers over the steps come back as they are,
            // if they are within the bound.
            if (Math.hypot(...probe.vector) > steps) continue;
            const query = Array.from(probe.vector, (x) => x / steps);
            let score = 0;
            for (let i = 0; i < d; i++)
              score += metric === 'dot' ? vector[i] * probe.vector[i] : (vector[i] - probe.vector[i]) ** 2;
            const integers = new Int32Array(count).fill(score);
            const fits = scoreChecker(key, query);
            assert.ok(fits(sums, integers), `${name} ${q}`);
            integers[count - 1]++;
            assert.ok(!fits(sums, integers), `${name} ${q}`);
          }
        }
      });
    }
  }
  it('euclidean, d = 4096: opposite vectors that rounding lengthens are further apart than 4.1·steps², and fit', () => {
    const d = 4096;
    const key = keyFor({ dimension: d, ...exact, metric: 'euclidean' });
    // So many and a half steps, a little more: they round up, all of them.
    const { steps } = key.plan;
    const low = Math.floor(steps / Math.sqrt(d) - 0.5) + 0.501;
    const higher = Math.max(0, Math.floor((steps ** 2 - d * low ** 2) / ((low + 1) ** 2 - low ** 2)));
    const query = Array.from({ length: d }, (_, i) => (i < higher ? low + 1 : low) / steps);
    const gallery = Array.from({ length: 3 }, () => query.map((x) => -x));
    const integers = scored(key, gallery, query);
    assert.ok(integers[0] > 4.1 * steps ** 2);
    const fits = scoreChecker(key, query);
    assert.ok(fits(scoreSums(key, gallery), integers));
    assert.ok(
      !fits(
        scoreSums(key, gallery),
        altered(integers, (k) => {
          k[2]--;
        }),
      ),
    );
  });
  it('random integers, d = 2 and 4096, without encryption', () => {
    for (const dimension of [2, 4096]) {
      for (const metric of METRICS) {
        const key = keyFor({ dimension, ...exact, metric });
        const normal = normals(`${metric} ${dimension}`);
        const count = dimension === 2 ? 4096 : 50;
        const gallery = Int32Array.from({ length: count * dimension }, () =>
          Math.round(normal() * (dimension === 2 ? 60 : 3.7)),
        ).map((x) => Math.max(-170, Math.min(170, x)));
        const query = randomVectors('query', 1, dimension, 0.999);
        const integers = scored(key, gallery, query);
        const sums = scoreSums(key, gallery);
        assert.deepEqual(whole(sums), slowSums(key.plan, 0, gallery));
        const fits = scoreChecker(key, query);
        assert.ok(fits(sums, integers));
        for (const j of [0, 1, count >> 1, count - 1])
          for (const by of [1, -1]) {
            const change = (k: Int32Array) => {
              k[j] += by;
            };
            assert.ok(!fits(sums, altered(integers, change)));
          }
      }
    }
  });
});

describe('sums as bytes', () => {
  const key = keyFor({ ...tiny, dimension: 5, metric: 'euclidean' });
  const p = key.plan;
  const sums = scoreSums(key, randomVectors('gallery', 20, 5, 0.9));
  const bytes = encodeScoreSums(sums);
  const set = (at: number, value: number): Uint8Array => {
    const copy = bytes.slice();
    new DataView(copy.buffer).setFloat64(8 * at, value, true);
    return copy;
  };

  it('come back as they were, from any place in memory', () => {
    assert.equal(bytes.length, 48 * 7);
    assert.deepEqual(decodeScoreSums(p, bytes), sums);
    assert.deepEqual(decodeScoreSums(p, Buffer.from(bytes)), sums);
    const shifted = new Uint8Array(bytes.length + 1);
    shifted.set(bytes, 1);
    assert.deepEqual(decodeScoreSums(p, shifted.subarray(1)), sums);
    assert.deepEqual(
      Array.from({ length: 18 }, (_, k) => new DataView(bytes.buffer).getFloat64(8 * k, true)),
      [...sums.s, ...sums.t, ...sums.w.subarray(0, 6)],
    );
  });
  it('of a wrong length, not whole, or out of range are refused', () => {
    const [s, t, w] = [0, 6, 12];
    const longest = p.steps + 2;
    for (const bad of [
      bytes.subarray(1),
      bytes.subarray(8),
      new Uint8Array(0),
      new Uint8Array(bytes.length + 8),
      ...[s, t, w].flatMap((at) => [0.5, -0, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53].map((x) => set(at, x))),
      set(s, -1),
      set(s, Math.ceil(sums.t[0] * longest ** 2)),
      set(t, -1),
      set(t, 0),
      set(t, 64 * 2 ** 18 + 1),
      set(w, sums.t[0] * longest),
      set(w + 29, -sums.t[5] * longest),
    ])
      assert.throws(() => decodeScoreSums(p, bad), refused('MALFORMED'));
    assert.throws(() => decodeScoreSums(plan({ ...tiny, dimension: 6 }), bytes), refused('MALFORMED'));
    for (const bad of [undefined, null, [...bytes], 'bytes'])
      assert.throws(() => decodeScoreSums(p, bad as never), refused('INVALID_ARGUMENT'));
  });
});

describe('what is refused', () => {
  const key = keyFor({ ...tiny, dimension: 5 });
  const gallery = randomVectors('gallery', 20, 5);
  const query = gallery.slice(0, 5);
  const sums = scoreSums(key, gallery);
  const integers = scored(key, gallery, query);

  it('compact, in every function', () => {
    const compact = keyFor({ dimension: 5 });
    for (const use of [
      () => scoreSums(compact, gallery),
      () => scoreChecker(compact, query),
      () => scoresFit(compact, sums, query, integers),
      () => decodeScoreSums(compact.plan, encodeScoreSums(sums)),
    ])
      assert.throws(use, refused('INVALID_ARGUMENT'));
  });
  it('slots that do not exist, and vectors that cannot be encrypted', () => {
    assert.throws(() => scoreSums(key, randomVectors('many', 65, 5)), refused('INVALID_ARGUMENT'));
    assert.throws(() => scoreSums(key, []), refused('INVALID_ARGUMENT'));
    assert.throws(() => scoreSums(key, [[0, 0, 0, 0, 0]]), refused('INVALID_VECTOR'));
    assert.throws(() => scoreSums(key, Int32Array.of(key.plan.steps + 50, 0, 0, 0, 0)), refused('INVALID_VECTOR'));
    assert.throws(() => scoreChecker(key, [1, 2]), refused('INVALID_VECTOR'));
  });
  it('sums of another shape, and scores that are no integers', () => {
    const other = scoreSums(keyFor({ ...tiny, dimension: 6 }), randomVectors('other', 3, 6));
    const fits = scoreChecker(key, query);
    assert.throws(() => fits(other, integers), refused('INVALID_ARGUMENT'));
    assert.throws(() => fits({ ...sums, t: sums.t.subarray(1) }, integers), refused('INVALID_ARGUMENT'));
    assert.throws(() => encodeScoreSums({ ...sums, s: [...sums.s] as never }), refused('INVALID_ARGUMENT'));
    assert.throws(() => fits(sums, Float32Array.from(integers) as never), refused('INVALID_ARGUMENT'));
    assert.ok(fits(sums, integers));
  });
  it('a wiped key, and its weights are overwritten', () => {
    const own = keyFor({ ...tiny, dimension: 5 });
    const weights = scoreWeights(own);
    const fits = scoreChecker(own, query);
    assert.ok(fits(sums, integers));
    own.wipe();
    assert.ok(weights.every((r) => r === 0));
    for (const use of [
      () => fits(sums, integers),
      () => scoreSums(own, gallery),
      () => scoreChecker(own, query),
      () => scoresFit(own, sums, query, integers),
    ])
      assert.throws(use, refused('WIPED'));
  });
});
