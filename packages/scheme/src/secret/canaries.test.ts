// Canaries: where they are, that honest responses agree with them, and how often others do.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sha256 } from '@noble/hashes/sha2.js';
import fc from 'fast-check';
import { normals, randomVectors, repeatable } from '../../testing/samples.ts';
import { decodeBlock } from '../block.ts';
import { HersError } from '../errors.ts';
import type { Profile } from '../parameters.ts';
import { METRICS, type Plan, type PlanRequest, plan } from '../plan.ts';
import { decodeQuery } from '../query.ts';
import { blockMatrix, decodeResponse, encodeResponse, expandedQuery, scanBlock } from '../response.ts';
import { noiselessScores } from '../vectors.ts';
import { type CanaryPlace, canaryChecker, makeCanaries, withCanaries } from './canaries.ts';
import type { QuerySecret, Scores } from './decrypt.ts';
import { encryptBlock, encryptQuery } from './encrypt.ts';
import { type CollectionKey, MasterSeed } from './key.ts';

const SETS: Readonly<Record<Exclude<Profile, 'open'>, string>> = {
  compact: 'insecure_n_64_logq_30_wide_5',
  exact: 'insecure_n_64_logq_30_30_wide_4',
  small: 'insecure_n_64_logq_24_wide_5',
};
const tiny = (profile: Exclude<Profile, 'open'>, more: Partial<PlanRequest> = {}): Plan =>
  plan({ dimension: 16, profile, parameters: SETS[profile], allowInsecure: true, ...more });

const keyOf = (p: Plan, label = 'a key'): CollectionKey => {
  const { seed, id } = repeatable(label);
  return MasterSeed.from(seed()).collectionKey(p, id());
};
const idOf = (number: number) => repeatable(`id ${number}`).id();
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

/** With this many canaries, which takes more or fewer responses to say something about chances. */
const having = (p: Plan, canaries: number): Plan => ({ ...p, canaries, capacity: p.parameters.n - canaries });

/** A block of these vectors, with canaries, and what it answers. */
function blockOf(key: CollectionKey, vectors: Float32Array, blockId: Uint8Array) {
  const encoded = encryptBlock(key, withCanaries(key, vectors, blockId), { blockId });
  const matrix = blockMatrix(decodeBlock(encoded));
  const place = { id: hex(blockId), slots: vectors.length / key.plan.dimension + key.plan.canaries };
  return {
    place,
    encoded,
    answer: (query: Uint8Array) => encodeResponse(scanBlock(matrix, expandedQuery(decodeQuery(query)))),
  };
}

const copied = ({ scores, integers, ...rest }: Scores): Scores => ({
  ...rest,
  scores: scores.slice(),
  ...(integers ? { integers: integers.slice() } : {}),
});

/** Whether a response passes; what was decrypted stays as it is. */
const checkerOf = (key: CollectionKey, probe: Float32Array) => {
  const checked = canaryChecker(key, probe);
  return (place: CanaryPlace, decrypted: Scores) => checked(place, copied(decrypted)) !== undefined;
};

/** What decrypting says, or nothing where it refuses. */
function tried(secret: QuerySecret, response: Uint8Array): Scores | undefined {
  try {
    return secret.decrypt(response);
  } catch (error) {
    assert.ok(error instanceof HersError && error.code === 'INTEGRITY');
    return undefined;
  }
}

for (const profile of ['compact', 'small', 'exact'] as const)
  describe(`canaries of ${profile}`, () => {
    it('are eight, or sixteen under small', () => {
      const p = tiny(profile);
      assert.equal(p.canaries, profile === 'small' ? 16 : 8);
      assert.equal(p.capacity, p.parameters.n - p.canaries);
    });

    it('follow from the key and the id, and are as long as a vector may be', () => {
      const p = tiny(profile, { metric: 'dot', normBound: 3 });
      const vectors = new Float32Array(20 * 16); // zero, which no canary is
      const slotsOf = (key: CollectionKey, id: Uint8Array) => {
        const all = withCanaries(key, vectors, id);
        const found = Array.from({ length: all.length / 16 }, (_, j) => all.subarray(16 * j, 16 * (j + 1)))
          .map((row, slot) => ({ slot, norm: Math.hypot(...row), row: Array.from(row).join() }))
          .filter(({ norm }) => norm > 0);
        for (const { norm } of found) assert.ok(Math.abs(norm - 3) < 1e-5);
        assert.equal(found.length, p.canaries);
        return found;
      };
      const text = (found: ReturnType<typeof slotsOf>) => found.map(({ slot, row }) => `${slot}: ${row}`).join('; ');
      const own = slotsOf(keyOf(p), idOf(0));
      assert.equal(text(slotsOf(keyOf(p), idOf(0))), text(own));
      assert.notEqual(text(slotsOf(keyOf(p), idOf(1))), text(own));
      assert.notEqual(text(slotsOf(keyOf(p, 'another'), idOf(0))), text(own));
      assert.equal(new Set(own.map(({ row }) => row)).size, p.canaries);
    });

    it('are put in among the records, which stay in their order', () => {
      const p = tiny(profile);
      const key = keyOf(p);
      fc.assert(
        fc.property(fc.integer({ min: 0, max: p.capacity }), fc.integer({ min: 0, max: 2 ** 20 }), (count, number) => {
          const id = idOf(number);
          const vectors = randomVectors(`${number}`, count, 16);
          const all = withCanaries(key, vectors, id);
          assert.equal(all.length, vectors.length + 16 * p.canaries);
          const place = { id: hex(id), slots: count + p.canaries };
          const own = new Set(makeCanaries(key, place).own);
          const slots = Array.from({ length: place.slots }, (_, slot) => slot).filter((slot) => !own.has(slot));
          assert.equal(slots.length, count);
          for (const [i, slot] of slots.entries())
            assert.deepEqual(all.subarray(16 * slot, 16 * (slot + 1)), vectors.subarray(16 * i, 16 * (i + 1)));
        }),
        { numRuns: 40 },
      );
    });

    for (const metric of METRICS)
      it(`${metric}: honest responses agree, of full blocks and small ones; those of others do not`, () => {
        const p = tiny(profile, metric === 'cosine' ? {} : { metric, normBound: 2, queryNormBound: 3 });
        const key = keyOf(p);
        const norm = p.normBound;
        const blocks = [1, 17, p.capacity].map((count, i) =>
          blockOf(key, randomVectors(`${metric} ${i}`, count, 16, norm), idOf(i)),
        );
        for (let q = 0; q < 5; q++) {
          const probe = randomVectors(`probe ${metric} ${q}`, 1, 16, p.queryNormBound);
          const { query, secret } = encryptQuery(key, probe);
          const agrees = checkerOf(key, probe);
          for (const { place, answer } of blocks) {
            const decrypted = copied(secret.decrypt(answer(query)));
            assert.ok(agrees(place, decrypted));
            assert.ok(!agrees({ ...place, id: hex(idOf(99)) }, decrypted));
            assert.ok(!agrees({ ...place, slots: place.slots - 1 }, decrypted));
            const other = randomVectors(`other ${metric} ${q}`, 1, 16, p.queryNormBound);
            assert.ok(!checkerOf(key, other)(place, decrypted));
            assert.ok(!agrees(place, { ...decrypted, first: 1 }));
          }
          const full = blocks[2];
          const decrypted = copied(secret.decrypt(full.answer(query)));
          for (const r of [1, 5, 32, 63]) {
            const moved = copied(decrypted);
            moved.scores.forEach((_, j) => {
              moved.scores[j] = decrypted.scores.at(j - r)!; // but for the signs of those that come round
              if (moved.integers) moved.integers[j] = decrypted.integers!.at(j - r)!;
            });
            assert.ok(!agrees(full.place, moved), `moved by ${r}`);
          }
          // What another query was answered with, under the name of this one.
          const another = encryptQuery(key, probe);
          const given = decodeResponse(full.answer(another.query));
          const stale = tried(secret, encodeResponse({ ...given, queryId: secret.queryId }));
          assert.ok(!stale || !agrees(full.place, stale));
        }
      });
  });

it('known answers: the same on every machine', () => {
  const answers = (['compact', 'small', 'exact'] as const).map((profile) => {
    const all = withCanaries(keyOf(tiny(profile)), new Float32Array(16 * 10), idOf(7));
    return [
      profile,
      Buffer.from(sha256(new Uint8Array(all.buffer)))
        .toString('hex')
        .slice(0, 16),
    ];
  });
  assert.deepEqual(Object.fromEntries(answers), KNOWN);
});
const KNOWN = {
  compact: '748754b36627a01b',
  small: 'bf4c5b15376addc8',
  exact: '54138d360ba8dd82',
};

it('what is not a place of canaries is refused', () => {
  const key = keyOf(tiny('compact'));
  const refused = { code: 'INVALID_ARGUMENT' };
  assert.throws(() => withCanaries(key, new Float32Array(16 * 57).fill(1), idOf(0)), refused);
  assert.throws(() => withCanaries(key, new Float32Array(17).fill(1), idOf(0)), refused);
  assert.throws(() => withCanaries(key, new Float32Array(16).fill(1), new Uint8Array(8)), refused);
  for (const place of [
    { id: hex(idOf(0)), slots: 7 },
    { id: 'none', slots: 20 },
    { id: hex(idOf(0)), slots: 65 },
  ])
    assert.throws(() => makeCanaries(key, place), refused);
  key.wipe();
  assert.throws(() => withCanaries(key, new Float32Array(16).fill(1), idOf(0)), { code: 'WIPED' });
});

describe('chances', () => {
  const probeOf = (label: string, dimension: number) => randomVectors(`probe ${label}`, 1, dimension);

  // Half of all slots are canaries, so that one response has a thousand of them.
  for (const profile of ['compact', 'small'] as const)
    it(`${profile}: no false alarm in a million honest canaries, whatever else a block holds`, () => {
      const p = having(plan({ dimension: 16, profile }), 1024);
      const key = keyOf(p);
      const normal = normals('galleries');
      const galleries: Readonly<Record<string, (j: number, i: number) => number>> = {
        random: () => normal(),
        identical: (_, i) => 1 + i,
        alternating: (j) => (j % 2 === 0 ? 1 : -1),
        'one-hot': (j, i) => (j % 16 === i ? 1 : 0),
      };
      let checked = 0;
      let largest = 0;
      for (const [name, coordinate] of Object.entries(galleries)) {
        const vectors = Float32Array.from({ length: p.capacity * 16 }, (_, at) => coordinate(at >> 4, at & 15));
        const blockId = repeatable(name).id();
        const { place, answer } = blockOf(key, vectors, blockId);
        const all = withCanaries(key, vectors, blockId);
        for (let q = 0; q < 250; q++) {
          // Every other query is as lopsided as a query can be.
          const probe = q % 2 === 0 ? probeOf(`${name} ${q}`, 16) : new Float32Array(16).fill(1, 0, 1 + (q % 16));
          const { query, secret } = encryptQuery(key, probe);
          const decrypted = secret.decrypt(answer(query));
          assert.ok(checkerOf(key, probe)(place, decrypted), `${name}, query ${q}`);
          checked += p.canaries;
          if (q % 25 > 0) continue;
          const expected = noiselessScores(p, all, probe);
          expected.forEach((score, j) => {
            largest = Math.max(largest, Math.abs(decrypted.scores[j] - score) / p.noise.score);
          });
        }
      }
      assert.ok(checked >= 1e6);
      // Of 80 000 scores: so the eight deviations of the check are neither too few nor far too
      // many.
      assert.ok(largest > 3.5 && largest < 6, `${largest} deviations`);
    });

  /** The error function, by its series. */
  const erf = (x: number) => {
    let [term, sum] = [x, x];
    for (let k = 1; k < 40; k++) {
      term *= (-x * x) / k;
      sum += term / (2 * k + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  };
  /** One canary agrees with the score of a stranger: |N(0, 2/d)| ≤ 8σ. */
  const missed = ({ noise, dimension }: Plan) => erf(4 * noise.score * Math.sqrt(dimension));

  for (const [profile, dimension, canaries, trials] of [
    ['compact', 128, 1, 20_000],
    ['compact', 512, 2, 40_000],
    ['small', 128, 1, 5000],
    ['small', 128, 2, 20_000],
  ] as const)
    it(`${profile}: another block passes for one with ${canaries} of its canaries as often as the formula says`, () => {
      const p = having(plan({ dimension, profile }), canaries);
      const key = keyOf(p, `${profile} ${canaries}`);
      const probe = probeOf(profile, dimension);
      const { query, secret } = encryptQuery(key, probe);
      const agrees = checkerOf(key, probe);
      const { answer } = blockOf(key, randomVectors('strangers', p.capacity, dimension), idOf(0));
      const decrypted = secret.decrypt(answer(query));
      let passed = 0;
      for (let i = 0; i < trials; i++) {
        const id = i.toString(16).padStart(32, '0');
        if (agrees({ id, slots: p.parameters.n }, decrypted)) passed++;
      }
      const expected = trials * missed(p) ** canaries;
      assert.ok(expected > 50, `${expected} are too few to tell`);
      // Four deviations, and a little because a coordinate is no Gaussian and slots meet again.
      assert.ok(Math.abs(passed - expected) < 4 * Math.sqrt(expected) + 0.05 * expected, `${passed}, not ${expected}`);
    });

  it('of all canaries together: what README.md §7 says', () => {
    const bits = (profile: Profile, dimension: number) => {
      const p = plan({ dimension, profile });
      const constant = erf(8 * p.noise.score * Math.sqrt(dimension / 2));
      return [missed(p), constant].map((chance) => Math.round(10 * p.canaries * Math.log2(chance)) / 10);
    };
    assert.deepEqual(
      (['compact', 'small'] as const).flatMap((profile) => [128, 512].map((d) => [profile, d, ...bits(profile, d)])),
      [
        ['compact', 128, -43.6, -39.6],
        ['compact', 512, -35.6, -31.6],
        ['small', 128, -39.9, -32],
        ['small', 512, -24.4, -17.1],
      ],
    );
  });
});
