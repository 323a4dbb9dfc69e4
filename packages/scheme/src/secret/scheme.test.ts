// The scheme as its user sees it, and the rules that keep it safe (README.md §4): each with a test
// that fails when it is broken.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { decryptBlock } from '../../testing/decrypt-block.ts';
import { decodeKeyInfo } from '../../testing/key-info.ts';
import { randomVectors, repeatable } from '../../testing/samples.ts';
import { type Block, blockMask, decodeBlock, encodeBlock } from '../block.ts';
import { HersError } from '../errors.ts';
import { ERRORS, OPEN_EPHEMERAL } from '../layout.ts';
import { polyWords, ringOf, wideFactor } from '../parameters.ts';
import { METRICS, type Plan, type PlanRequest, plan } from '../plan.ts';
import { decodeQuery, encodeQuery, expandQuery, type Query } from '../query.ts';
import { blockMatrix, decodeResponse, encodeResponse, expandedQuery, scanBlock } from '../response.ts';
import { roundVectors } from '../vectors.ts';
import type { Scores } from './decrypt.ts';
import { encryptBlock, encryptBlockFrom, encryptQuery, encryptQueryFrom } from './encrypt.ts';
import { type CollectionKey, MasterSeed } from './key.ts';

const tiny = { parameters: 'insecure_n_64_logq_30_wide_5', allowInsecure: true } as const;
const tinyExact = { parameters: 'insecure_n_64_logq_30_30_wide_4', allowInsecure: true, profile: 'exact' } as const;
const id = (byte: number) => new Uint8Array(16).fill(byte);
const refused =
  (...codes: string[]) =>
  (error: unknown) =>
    error instanceof HersError && codes.includes(error.code);

const keyFor = (request: PlanRequest, collection = 1, epoch = 0, seed = 7): CollectionKey =>
  MasterSeed.from(new Uint8Array(32).fill(seed)).collectionKey(plan(request), id(collection), epoch);

function respond(block: Uint8Array, query: Uint8Array): Uint8Array {
  return encodeResponse(scanBlock(blockMatrix(decodeBlock(block)), expandedQuery(decodeQuery(query))));
}

function search(key: CollectionKey, block: Uint8Array, vector: ArrayLike<number>): Scores {
  const { query, secret } = encryptQuery(key, vector);
  using _ = secret;
  return secret.decrypt(respond(block, query));
}

/** Scores in double precision, from the vectors themselves. */
function truth({ metric, dimension }: Plan, gallery: Float32Array, query: Float32Array): number[] {
  return Array.from({ length: gallery.length / dimension }, (_, j) => {
    const p = gallery.subarray(j * dimension, (j + 1) * dimension);
    const dot = p.reduce((sum, x, i) => sum + x * query[i], 0);
    if (metric === 'euclidean') return p.reduce((sum, x, i) => sum + (x - query[i]) ** 2, 0);
    return metric === 'dot' ? dot : dot / (Math.hypot(...p) * Math.hypot(...query));
  });
}

describe('searching', () => {
  for (const metric of METRICS) {
    const bounds = metric === 'cosine' ? {} : { normBound: 3 };
    it(`compact ${metric}: scores within eight deviations`, () => {
      for (const dimension of [2, 31, 128]) {
        const key = keyFor({ dimension, metric, ...bounds });
        const gallery = randomVectors('gallery', 300, dimension, 2.5);
        const query = gallery.slice(0, dimension);
        const { scores, first } = search(key, encryptBlock(key, gallery, { first: 17 }), query);
        assert.equal(first, 17);
        truth(key.plan, gallery, query).forEach((score, j) => {
          const error = Math.abs(scores[j] - score);
          assert.ok(
            error < 8 * key.plan.noise.score + key.plan.noise.worstRounding * 9,
            `${metric} error ${error} at d = ${dimension}`,
          );
        });
      }
    });
    it(`exact ${metric}: the integers of the rounded vectors, whatever they are`, () => {
      fc.assert(
        fc.property(
          fc.integer({ min: 2, max: 40 }),
          fc.integer({ min: 1, max: 64 }),
          fc.nat(1e6),
          (dimension, count, seed) => {
            const key = keyFor({ ...tinyExact, dimension, metric, ...bounds });
            const gallery = randomVectors(`g${seed}`, count, dimension, metric === 'cosine' ? 9 : 2.9);
            const query = randomVectors(`q${seed}`, 1, dimension, 3);
            const { integers } = search(key, encryptBlock(key, gallery, { first: 64 - count }), query);
            const P = roundVectors(key.plan, gallery);
            const Q = roundVectors(key.plan, query, 'query');
            for (let j = 0; j < count; j++) {
              let expected = 0;
              for (let i = 0; i < dimension; i++) {
                const [x, y] = [P[j * dimension + i], Q[i]];
                expected += metric === 'euclidean' ? (x - y) ** 2 : x * y;
              }
              assert.equal(integers?.[j], expected);
            }
          },
        ),
        { numRuns: 40 },
      );
    });
  }
  it('vectors may be lists, and plain numbers keep their precision', () => {
    const key = keyFor({ ...tinyExact, dimension: 3, metric: 'dot' });
    const gallery = [
      [0.1, 0.2, 0.3],
      [0, 0, 0],
      [-1e-300, 1, 0],
    ];
    const { integers } = search(key, encryptBlock(key, gallery), [0.004, 1, 0]);
    const { steps } = key.plan;
    assert.equal(steps, 1370);
    assert.deepEqual([...integers!], [137 * 5 + 274 * steps, 0, steps * steps]);
  });
  it('cosine measures vectors of any length', () => {
    const key = keyFor({ ...tinyExact, dimension: 2 });
    const gallery = [
      [1e300, 0],
      [1e-300, 1e-300],
      [0, -3e-320],
    ];
    const { integers } = search(key, encryptBlock(key, gallery), [5e307, 0]);
    const { steps } = key.plan;
    assert.deepEqual([...integers!], [steps * steps, Math.round(steps / Math.SQRT2) * steps, 0]);
  });
  it('a block decrypts to its vectors', () => {
    const gallery = randomVectors('rebuild', 50, 24, 0.9);
    const compact = keyFor({ dimension: 24, metric: 'dot' });
    assert.throws(() => encryptBlock(compact, gallery, { frst: 3 } as object), { message: /did you mean first/ });
    const back = decryptBlock(compact, encryptBlock(compact, gallery, { first: 3 }));
    assert.equal(back.first, 3);
    const rms = Math.sqrt(back.vectors.reduce((sum, x, i) => sum + (x - gallery[i]) ** 2, 0) / gallery.length);
    const rounded = wideFactor(compact.plan.parameters) ** 2 / 12; // a body's, in units of the wide modulus
    assert.ok(rms < (1.1 * Math.sqrt(10.5 + 1 / 12 + rounded)) / compact.plan.galleryScale, `${rms}`);
    for (const metric of METRICS) {
      const exact = keyFor({ dimension: 24, metric, profile: 'exact' });
      assert.deepEqual(decryptBlock(exact, encryptBlock(exact, gallery)).integers, roundVectors(exact.plan, gallery));
    }
  });
});

describe('what is refused before anything is encrypted', () => {
  const cosine = keyFor({ ...tiny, dimension: 3 });
  const dot = keyFor({ ...tinyExact, dimension: 3, metric: 'dot', normBound: 2 });
  const bad: [string, CollectionKey, unknown][] = [
    ['a wrong length', cosine, [1, 2]],
    ['a longer one', cosine, [1, 2, 3, 4]],
    ['an empty one', cosine, []],
    ['NaN', cosine, [1, Number.NaN, 0]],
    ['infinity', cosine, [1, Number.POSITIVE_INFINITY, 0]],
    ['minus infinity', dot, [Number.NEGATIVE_INFINITY, 0, 0]],
    ['the zero vector under cosine', cosine, [0, 0, -0]],
    ['a norm beyond the bound', dot, [2, 0.1, 0]],
    ['text', cosine, ['1', '2', '3']],
    ['a hole', cosine, [1, undefined, 2]],
    ['nothing', cosine, null],
    ['a big integer', cosine, [1n, 2n, 3n]],
  ];
  for (const [what, key, vector] of bad) {
    it(what, () => {
      assert.throws(() => encryptQuery(key, vector as number[]), refused('INVALID_VECTOR'));
      assert.throws(() => encryptBlock(key, [[0.1, 0.2, 0.3], vector as number[]]), refused('INVALID_VECTOR'));
    });
  }
  it('too many vectors, none, and slots that are not there', () => {
    const one = new Float32Array([1, 0, 0]);
    for (const first of [64, -1, 0.5, Number.NaN])
      assert.throws(() => encryptBlock(cosine, one, { first }), refused('INVALID_ARGUMENT'));
    assert.throws(() => encryptBlock(cosine, new Float32Array(65 * 3).fill(1)), refused('INVALID_ARGUMENT'));
    assert.throws(() => encryptBlock(cosine, new Float32Array(0)), refused('INVALID_ARGUMENT'));
    assert.throws(() => encryptBlock(cosine, new Float32Array(4)), refused('INVALID_VECTOR'));
  });
  it('seeds, ids and epochs of the wrong form', () => {
    assert.throws(() => MasterSeed.from(new Uint8Array(31)), refused('INVALID_ARGUMENT'));
    assert.throws(
      () => MasterSeed.generate().collectionKey(cosine.plan, new Uint8Array(15)),
      refused('INVALID_ARGUMENT'),
    );
    assert.throws(() => MasterSeed.generate().collectionKey(cosine.plan, id(1), -1), refused('INVALID_ARGUMENT'));
  });
});

describe('no wrap-around for the worst legal vectors', () => {
  const equal = (dimension: number) => new Float32Array(dimension).fill(1 / Math.sqrt(dimension));
  const worst: [string, number, Float32Array][] = [
    ['472 coordinates of 11.5/250 at d = 512', 512, new Float32Array(512).fill(11.5 / 250, 0, 472)],
    ['equal coordinates at d = 3086', 3086, equal(3086)],
    ['equal coordinates at d = 4096', 4096, equal(4096)],
    ['one-hot at d = 128', 128, new Float32Array(128).fill(1, 5, 6)],
  ];
  for (const profile of ['compact', 'exact'] as const) {
    for (const metric of METRICS) {
      for (const [name, dimension, vector] of worst) {
        it(`${profile} ${metric}: templates identical or opposite, ${name}`, () => {
          const key = keyFor({ dimension, profile, metric });
          const count = 64;
          const signOf = (j: number) => (j < count / 2 ? 1 : -1);
          const gallery = new Float32Array(count * dimension);
          for (let j = 0; j < count; j++) gallery.set(signOf(j) === 1 ? vector : vector.map((x) => -x), j * dimension);
          const { scores, integers } = search(key, encryptBlock(key, gallery), vector);
          const square = roundVectors(key.plan, vector).reduce((sum, x) => sum + x * x, 0);
          const expected = truth(key.plan, gallery, vector);
          const room = key.plan.noise.worstRounding * (metric === 'euclidean' ? 2 : 1) + 8 * key.plan.noise.score;
          for (let j = 0; j < count; j++) {
            if (integers)
              assert.equal(integers[j], metric !== 'euclidean' ? signOf(j) * square : signOf(j) === 1 ? 0 : 4 * square);
            else assert.ok(Math.abs(scores[j] - expected[j]) < room, `${scores[j]} instead of ${expected[j]}`);
          }
        });
      }
    }
  }
});

describe('rule: randomness is fresh at every encryption', () => {
  const key = keyFor({ dimension: 16 });
  const vectors = randomVectors('same', 100, 16);
  /** Residues at the same place that agree; about one in 2^30 should. */
  const agreeing = (a: Uint32Array, b: Uint32Array) => a.reduce((sum, x, i) => sum + (x === b[i] ? 1 : 0), 0);
  const seedOf = (block: Block) => Buffer.from(block.seed).toString('hex');

  it('blocks: two encryptions of the same vectors share nothing, re-encryption neither', () => {
    const a = decodeBlock(encryptBlock(key, vectors));
    const b = decodeBlock(encryptBlock(key, vectors));
    const again = decodeBlock(encryptBlock(keyFor({ dimension: 16 }), decryptBlock(key, encodeBlock(a)).vectors));
    for (const other of [b, again]) {
      assert.notEqual(seedOf(a), seedOf(other));
      assert.notDeepEqual(a.blockId, other.blockId);
      assert.ok(agreeing(a.rows, other.rows) <= 2);
      assert.ok(agreeing(blockMask(a), blockMask(other)) <= 2);
    }
  });
  it('blocks: changed content never keeps a mask', () => {
    const seeds = new Set(
      Array.from({ length: 50 }, (_, k) => seedOf(decodeBlock(encryptBlock(key, vectors.subarray(0, 16 * (k + 1)))))),
    );
    assert.equal(seeds.size, 50);
  });
  const probe = vectors.subarray(0, 16);
  /** The largest coefficient of the difference of two bodies, as a share of half the modulus. */
  const apart = (a: Query, b: Query, row: number): number => {
    const ring = ringOf(a.parameters);
    const words = polyWords(a.parameters);
    const [difference] = ring.polys;
    const [p] = a.parameters.primes;
    difference.residues.forEach((_, j) => {
      const at = row * words + j;
      difference.residues[j] = (a.rows[at] + p - b.rows[at]) % p;
    });
    ring.intt(difference);
    return ring.centred(difference).reduce((most, x) => Math.max(most, Math.abs(x)), 0) / (p / 2);
  };
  it('queries: ids and rows are new, and what two differ by is not small', () => {
    const queries = Array.from({ length: 20 }, () => decodeQuery(encryptQuery(key, probe).query));
    assert.equal(new Set(queries.map((q) => Buffer.from(q.queryId).toString('hex'))).size, 20);
    const rows = queries[0].rows.length / polyWords(key.plan.parameters);
    for (const [i, a] of queries.entries()) {
      for (const b of queries.slice(i + 1)) {
        assert.ok(agreeing(a.rows, b.rows) <= 4);
        // The mask is the same. With one result secret for two, only errors would be left here.
        for (let row = 0; row < rows; row += 5) assert.ok(apart(a, b, row) > 0.9);
      }
    }
  });
  it('queries: their masks are of the key, whoever derives it, and of no other', () => {
    const seedOf = (of: CollectionKey) => Buffer.from(decodeQuery(encryptQuery(of, probe).query).seed).toString('hex');
    const request = { dimension: 16 };
    const seeds = [key, key, keyFor(request)].map(seedOf);
    assert.equal(new Set(seeds).size, 1);
    const others = [
      keyFor(request, 2),
      keyFor(request, 1, 1),
      keyFor(request, 1, 0, 8),
      keyFor({ ...request, profile: 'small' }),
      keyFor({ ...request, metric: 'dot', normBound: 2 }),
    ];
    assert.equal(new Set([seeds[0], ...others.map(seedOf)]).size, 1 + others.length);
  });
  it('queries: a generator that repeats itself still gives another probe another result secret', () => {
    const drawn = (vector: ArrayLike<number>) => encryptQueryFrom(repeatable('again'), key, vector);
    const [a, same, b] = [probe, probe, vectors.subarray(16, 32)].map((vector) => decodeQuery(drawn(vector).query));
    assert.deepEqual(a, same);
    assert.deepEqual(a.queryId, b.queryId);
    for (let row = 0; row < 16; row++) assert.ok(apart(a, b, row) > 0.9);
    // And so does a probe that differs as little as it can.
    const integers = keyFor({ ...tinyExact, dimension: 2, metric: 'dot' });
    const [c, d] = [0, 1 / integers.plan.steps].map((x) =>
      decodeQuery(encryptQueryFrom(repeatable('again'), integers, [0.5, x]).query),
    );
    assert.ok(apart(c, d, 0) > 0.8);
  });
  it('queries: the uniform halves of all rows are unrelated to each other', () => {
    const query = decodeQuery(encryptQuery(key, probe).query);
    const words = polyWords(query.parameters);
    const uniform = expandQuery(query);
    const rows = Array.from({ length: 20 }, (_, r) => uniform.subarray(r * words, (r + 1) * words));
    rows.forEach((a, i) => {
      for (const b of rows.slice(i + 1)) assert.ok(agreeing(a, b) <= 1);
    });
  });
  it('queries: the result secret is another one each time', () => {
    // A response relabelled with the other query's id would decrypt if the two shared their secret.
    const block = encryptBlock(key, vectors);
    const [a, b] = [0, 1].map(() => encryptQuery(key, vectors.subarray(0, 16)));
    const forged = encodeResponse({ ...decodeResponse(respond(block, b.query)), queryId: a.secret.queryId });
    const honest = b.secret.decrypt(respond(block, b.query)).scores;
    let scores: Float32Array | undefined;
    try {
      scores = a.secret.decrypt(forged).scores;
    } catch (error) {
      assert.ok(refused('INTEGRITY')(error));
    }
    if (scores) assert.ok(scores.filter((x, j) => Math.abs(x - honest[j]) < 0.01).length < 20);
  });
  it('errors never come from a public seed', () => {
    const key = keyFor({ dimension: 16 });
    const { parameters, galleryScale } = key.plan;
    const { n, wideBits } = parameters;
    const { seed, id } = repeatable('errors');
    const drawn: Uint8Array[] = [];
    const entropy = {
      seed: () => {
        drawn.push(seed());
        return drawn[drawn.length - 1].slice();
      },
      id,
    };
    const block = encryptBlockFrom(entropy, key, new Float32Array(16 * n).fill(0.25));
    const { vectors } = decryptBlock(key, encodeBlock(block));
    const ring = ringOf(parameters);
    for (let i = 0; i < 16; i++) {
      // e_i, which the key holder can compute but for the rounding of a body by half of 2^wideBits.
      const error = Array.from({ length: n }, (_, j) => vectors[16 * j + i] * galleryScale - galleryScale / 4);
      const fits = (key: Uint8Array, domain: number, index: number) => {
        ring.error(ring.words[0], { key, domain, index });
        return error.every((e, j) => Math.abs(e - ring.words[0].values[j]) < 2 ** wideBits / 2 + 2);
      };
      assert.ok(fits(drawn[1], ERRORS, i));
      for (const given of [block.seed, new Uint8Array(32), new Uint8Array(32).fill(0xff)])
        for (let domain = 0; domain <= OPEN_EPHEMERAL; domain++)
          for (const index of [0, i]) assert.ok(!fits(given, domain, index));
    }
  });
});

describe('rule: keys of one collection are useless for another', () => {
  const request: PlanRequest = { dimension: 16 };
  const key = keyFor(request);
  const vectors = randomVectors('keys', 200, 16);
  const block = encryptBlock(key, vectors);
  const others: [string, CollectionKey][] = [
    ['another collection', keyFor(request, 2)],
    ['another epoch', keyFor(request, 1, 1)],
    ['another master seed', keyFor(request, 1, 0, 8)],
  ];
  for (const [name, other] of others) {
    it(`${name}: typed errors`, () => {
      assert.notDeepEqual(other.keyId, key.keyId);
      assert.throws(() => decryptBlock(other, block), refused('KEY_MISMATCH'));
      const { query, secret } = encryptQuery(other, vectors.subarray(0, 16));
      assert.throws(() => respond(block, query), refused('KEY_MISMATCH'));
      const mine = encryptQuery(key, vectors.subarray(0, 16));
      assert.throws(() => secret.decrypt(respond(block, mine.query)), refused('KEY_MISMATCH'));
    });
    it(`${name}: with the key id forged, the answers carry no information`, () => {
      const forged = encodeBlock({ ...decodeBlock(block), keyId: other.keyId });
      const back = decryptBlock(other, forged).vectors;
      const correlation =
        back.reduce((sum, x, i) => sum + x * vectors[i], 0) / (Math.hypot(...back) * Math.hypot(...vectors));
      assert.ok(Math.abs(correlation) < 0.08, `vectors correlate: ${correlation}`);
      let scores: Float32Array;
      try {
        scores = search(other, forged, vectors.subarray(0, 16)).scores;
      } catch (error) {
        assert.ok(refused('INTEGRITY')(error));
        return;
      }
      const right = truth(key.plan, vectors, vectors.slice(0, 16));
      assert.ok(scores.filter((x, j) => Math.abs(x - right[j]) < 0.01).length < 20);
    });
  }
  it('another parameter set', () => {
    const exact = keyFor({ ...request, profile: 'exact' });
    assert.throws(() => decryptBlock(exact, block), refused('KEY_MISMATCH'));
  });
  it('exact notices garbage even with the key id forged', () => {
    const exact = { dimension: 16, profile: 'exact' } as const;
    const [mine, other] = [keyFor(exact), keyFor(exact, 2)];
    const forged = encodeBlock({ ...decodeBlock(encryptBlock(mine, vectors)), keyId: other.keyId });
    assert.throws(() => search(other, forged, vectors.subarray(0, 16)), refused('INTEGRITY'));
    assert.throws(() => decryptBlock(other, forged), refused('INTEGRITY'));
  });
  it('the public part says what it must and nothing else', () => {
    const info = decodeKeyInfo(key.info());
    assert.deepEqual(info.keyId, key.keyId);
    assert.deepEqual(info.collectionId, id(1));
    assert.equal(info.dimension, 16);
    assert.equal(key.info().length, 88);
  });
});

describe('what belongs together', () => {
  const key = keyFor({ dimension: 16 });
  const block = encryptBlock(key, randomVectors('x', 10, 16));
  it('a response to another query', () => {
    const [a, b] = [0, 1].map(() => encryptQuery(key, randomVectors('q', 1, 16)));
    assert.throws(() => a.secret.decrypt(respond(block, b.query)), refused('QUERY_MISMATCH'));
  });
  it('a query of another plan', () => {
    const euclidean = keyFor({ dimension: 15, metric: 'euclidean' });
    assert.throws(
      () => respond(block, encryptQuery(euclidean, randomVectors('q', 1, 15)).query),
      refused('KEY_MISMATCH'),
    );
    const bounded = (normBound: number) => keyFor({ dimension: 16, metric: 'dot', normBound });
    const one = encryptBlock(bounded(1), randomVectors('x', 1, 16));
    assert.throws(
      () => respond(one, encryptQuery(bounded(3), randomVectors('q', 1, 16)).query),
      refused('KEY_MISMATCH'),
    );
  });
  it('a response with bits nobody asked for', () => {
    const { query, secret } = encryptQuery(key, randomVectors('q', 1, 16));
    const altered = encodeQuery({ ...decodeQuery(query), bits0: 12 });
    assert.throws(() => secret.decrypt(respond(block, altered)), refused('MALFORMED'));
  });
});

describe('distributions', () => {
  /** χ² of residues over 256 bins against uniform; its mean is 255 and its deviation 22.6. */
  const chiSquare = (residues: Uint32Array, p: number): number => {
    const bins = new Float64Array(256);
    for (const x of residues) bins[Math.floor((x / p) * 256)]++;
    const expected = residues.length / 256;
    return bins.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  };
  for (const profile of ['compact', 'exact'] as const) {
    it(`${profile}: residues of blocks, masks and queries look uniform, whatever is encrypted`, () => {
      const key = keyFor({ dimension: 16, profile });
      const { parameters } = key.plan;
      const { n } = parameters;
      const galleries = [randomVectors('chi', n, 16), new Float32Array(16 * n).fill(0.25)];
      for (const gallery of galleries) {
        const block = decodeBlock(encryptBlock(key, gallery));
        const query = decodeQuery(encryptQuery(key, gallery.subarray(0, 16)).query);
        for (const rows of [block.rows, blockMask(block), query.rows]) {
          parameters.primes.forEach((p, k) => {
            const ofPrime = rows.filter((_, i) => Math.floor(i / n) % parameters.primes.length === k);
            const value = chiSquare(ofPrime, p);
            assert.ok(value > 120 && value < 400, `χ² = ${value}`);
          });
        }
      }
    });
  }
});
