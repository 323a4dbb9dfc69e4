// Checksum canaries: what they hold, that honest responses fit them whatever a block holds, and
// which changes of a single score show.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sha256 } from '@noble/hashes/sha2.js';
import { normals, randomVectors, repeatable } from '../../testing/samples.ts';
import { decodeBlock } from '../block.ts';
import { modulusOf } from '../parameters.ts';
import { METRICS, type Plan, type PlanRequest, plan, slotsFor } from '../plan.ts';
import { decodeQuery } from '../query.ts';
import { blockMatrix, encodeResponse, expandedQuery, scanBlock } from '../response.ts';
import { encodeVectors } from '../vectors.ts';
import { canaryChecker, makeCanaries, sumUp, withCanaries } from './canaries.ts';
import type { Scores } from './decrypt.ts';
import { encryptBlock, encryptQuery } from './encrypt.ts';
import { type Canaries, type CollectionKey, MasterSeed } from './key.ts';

type Noisy = 'compact' | 'small';
const strong = (profile: Noisy, dimension: number, more: Partial<PlanRequest> = {}): Plan =>
  plan({ dimension, profile, integrity: 'strong', ...more });

const keyOf = (p: Plan, label = 'a key'): CollectionKey => {
  const { seed, id } = repeatable(label);
  return MasterSeed.from(seed()).collectionKey(p, id());
};
const idOf = (label: string | number) => repeatable(`id ${label}`).id();
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

/** The slots of every group, one group after the other. */
function groupsOf({ checksums }: Canaries): number[][] {
  const { order, group } = checksums!;
  const whole = Math.floor(order.length / (group + 1));
  const [sideBySide, last] = [order.subarray(0, whole * (group + 1)), [...order.subarray(whole * (group + 1))]];
  const groups = Array.from({ length: whole }, (_, c) => [...sideBySide.filter((_slot, at) => at % whole === c)]);
  return last.length === 0 ? groups : [...groups, last];
}

/** For every group the weight of each slot, as README.md §8 has them. */
function weightsOf(canaries: Canaries): { own: number; weights: Map<number, number> }[] {
  return groupsOf(canaries).map(([own, ...slots]) => {
    const g = slots.length;
    let k = 0;
    while (k * k < g || (g - k) % 2 !== 0) k++;
    const weights = new Map(slots.map((slot, i) => [slot, i < (g + k) / 2 ? 1 : -1]));
    return { own, weights: weights.set(own, -k) };
  });
}
const norm = (weights: Map<number, number>) => Math.hypot(...weights.values());

function blockOf(key: CollectionKey, vectors: Float32Array, blockId: Uint8Array) {
  const { plan: p } = key;
  const encoded = encryptBlock(key, withCanaries(key, vectors, blockId), { blockId });
  const matrix = blockMatrix(decodeBlock(encoded));
  const place = { id: hex(blockId), slots: slotsFor(p, vectors.length / p.dimension) };
  return {
    place,
    canaries: makeCanaries(key, place),
    answer: (query: Uint8Array) => encodeResponse(scanBlock(matrix, expandedQuery(decodeQuery(query)))),
  };
}

type Coordinate = (j: number, i: number) => number;
const galleries = (dimension: number): Readonly<Record<string, Coordinate>> => {
  const normal = normals('galleries');
  const signs = Array.from({ length: 2048 }, () => (normal() < 0 ? -1 : 1));
  return {
    random: () => normal(),
    identical: (_, i) => 1 + i,
    'nearly identical': (_, i) => 1 + i + 0.1 * normal(),
    'one-hot': (j, i) => (j % dimension === i ? 1 : 0),
    'one direction and its opposite': (j) => signs[j],
  };
};
const vectorsOf = (coordinate: Coordinate, count: number, dimension: number) =>
  Float32Array.from({ length: count * dimension }, (_, at) => coordinate(Math.floor(at / dimension), at % dimension));

const changed = (decrypted: Scores, slot: number, by: number): Scores => {
  const scores = decrypted.scores.slice();
  scores[slot] += by;
  return { ...decrypted, scores };
};

describe('a plan with integrity strong', () => {
  it('leaves room for checksums, and changes nothing else', () => {
    for (const [profile, capacity] of [
      ['compact', 2008],
      ['small', 1912],
    ] as const) {
      const [p, standard] = [strong(profile, 128), plan({ dimension: 128, profile })];
      assert.equal(p.capacity, capacity);
      assert.ok(slotsFor(p, p.capacity) <= p.parameters.n);
      assert.ok(slotsFor(p, p.capacity + 1) > p.parameters.n);
      const { capacity: _, integrity, checksumGroup, bytes, ...rest } = p;
      const alike = { integrity: 'standard', checksumGroup: 0, capacity: standard.capacity, bytes: standard.bytes };
      assert.deepEqual({ ...rest, ...alike }, standard);
      // Fewer records share a block.
      const more = standard.capacity / capacity;
      for (const name of ['perTemplate', 'responsePerScore'] as const)
        assert.ok(Math.abs(bytes[name] / standard.bytes[name] / more - 1) < 1e-9, name);
      assert.deepEqual([integrity, checksumGroup], ['strong', profile === 'small' ? 16 : 64]);
    }
  });

  it('is for scores that are not exact', () => {
    const refused = (request: Partial<PlanRequest>, message: RegExp) =>
      assert.throws(() => plan({ dimension: 16, integrity: 'strong', ...request }), {
        code: 'UNSUPPORTED_PLAN',
        message,
      });
    refused({ profile: 'exact' }, /exact checks every score already/);
    refused({ integrity: 'stronger' as 'strong' }, /standard or strong/);
  });
});

for (const profile of ['compact', 'small'] as const)
  describe(`checksums of ${profile}`, () => {
    it('every slot but those of canaries is in one group, and weights add up to zero', () => {
      const p = strong(profile, 8);
      const key = keyOf(p);
      for (const count of [1, 2, 3, p.checksumGroup, p.checksumGroup + 1, 777, p.capacity]) {
        const all = withCanaries(key, randomVectors(`${count}`, count, 8), idOf(count));
        const place = { id: hex(idOf(count)), slots: all.length / 8 };
        const canaries = makeCanaries(key, place);
        const own = new Set(canaries.own);
        const records = Array.from(all).filter((_, at) => !own.has(Math.floor(at / 8)));
        assert.deepEqual(Float32Array.from(records), randomVectors(`${count}`, count, 8), `${count} records`);
        const groups = weightsOf(canaries);
        assert.equal(groups.length, Math.ceil(count / p.checksumGroup));
        const slots = groups.flatMap(({ weights }) => [...weights.keys()]);
        assert.deepEqual(
          [...slots, ...canaries.slots].toSorted((a, b) => a - b),
          Array.from({ length: place.slots }, (_, slot) => slot),
        );
        assert.deepEqual(
          [...canaries.own],
          [...canaries.slots, ...groups.map(({ own }) => own)].toSorted((a, b) => a - b),
        );
        for (const { weights } of groups) {
          let sum = 0;
          for (const weight of weights.values()) sum += weight;
          assert.equal(sum, 0);
        }
      }
    });

    it('templates that are alike give a sum no more noise than others: by the definition', () => {
      const { n } = strong(profile, 8).parameters;
      const key = keyOf(strong(profile, 8));
      for (const count of [40, 1024, key.plan.capacity]) {
        const { canaries, place } = blockOf(key, randomVectors('alike', count, 8), idOf(`alike ${count}`));
        for (const { weights } of weightsOf(canaries)) {
          // ‖w ⋆ u‖² of the slots in use, in the ring of polynomials modulo x^n + 1.
          let square = 0;
          for (let l = 0; l < n; l++) {
            let sum = 0;
            for (const [slot, weight] of weights) {
              const at = slot - l;
              if (at >= 0 && at < place.slots) sum += weight;
              if (at + n < place.slots) sum -= weight;
            }
            square += sum ** 2;
          }
          assert.ok(square <= n * norm(weights) ** 2, `${count} records: ${square}`);
        }
      }
    });

    it('nor do templates of one direction and its opposite, in a random order', () => {
      const p = strong(profile, 2);
      const { n } = p.parameters;
      const key = keyOf(p);
      const normal = normals('opposite');
      const vectors = Float32Array.from({ length: 2 * p.capacity }, (_, at) =>
        at % 2 === 1 ? 0 : normal() < 0 ? -1 : 1,
      );
      const all = withCanaries(key, vectors, idOf('opposite'));
      const encoded = encodeVectors(p, all, 'gallery');
      sumUp(key, encoded, idOf('opposite'));
      const { count } = encoded;
      const groups = weightsOf(makeCanaries(key, { id: hex(idOf('opposite')), slots: count }));
      const planned = n * p.galleryScale ** 2;
      for (const { weights } of groups.slice(0, 40)) {
        let square = 0;
        for (let i = 0; i < p.width; i++)
          for (let l = 0; l < n; l++) {
            let sum = 0;
            for (const [slot, weight] of weights) {
              const at = slot - l;
              if (at >= 0) sum += weight * encoded.values[i * count + at];
              else if (at + n < count) sum -= weight * encoded.values[i * count + at + n];
            }
            square += sum ** 2;
          }
        const share = square / planned / norm(weights) ** 2;
        assert.ok(share > 0.85 && share < 1.15, `${share} of the plan`);
      }
    });

    for (const metric of METRICS)
      it(`${metric}: a checksum is the sum of the encoded vectors of its group, rounded once`, () => {
        const p = strong(profile, 12, metric === 'cosine' ? {} : { metric, normBound: 2, queryNormBound: 3 });
        const key = keyOf(p);
        const vectors = randomVectors('sums', 300, 12, p.normBound / 2);
        const all = withCanaries(key, vectors, idOf('sums'));
        const before = encodeVectors(p, all, 'gallery');
        const after = encodeVectors(p, all, 'gallery');
        sumUp(key, after, idOf('sums'));
        const { count } = before;
        const groups = weightsOf(makeCanaries(key, { id: hex(idOf('sums')), slots: count }));
        const sums = new Set(groups.map(({ own }) => own));
        for (let i = 0; i < p.width; i++) {
          for (let slot = 0; slot < count; slot++)
            if (!sums.has(slot)) assert.equal(after.values[i * count + slot], before.values[i * count + slot]);
          for (const { own, weights } of groups) {
            let left = 0;
            for (const [slot, weight] of weights) left += weight * after.values[i * count + slot];
            assert.ok(Math.abs(left) <= -weights.get(own)! / 2, `${left} is left`);
          }
        }
      });

    it('the check decides as the definition does, for groups of every size', () => {
      const p = strong(profile, 16);
      const key = keyOf(p);
      const probe = randomVectors('probe', 1, 16);
      const { query, secret } = encryptQuery(key, probe);
      const checked = canaryChecker(key, probe);
      const asked = Math.hypot(...encodeVectors(p, [probe], 'query').values);
      const rounding = (Math.sqrt(p.width) * asked) / (2 * p.galleryScale * p.queryScale);
      const normal = normals('changes');
      const decided = { true: 0, false: 0 };
      for (let count = 1; count <= 140; count += count < 20 ? 1 : 7) {
        const { place, canaries, answer } = blockOf(key, randomVectors(`${count}`, count, 16), idOf(`sizes ${count}`));
        const decrypted = secret.decrypt(answer(query));
        const own = new Set(canaries.own);
        const groups = weightsOf(canaries);
        for (let trial = 0; trial < 20; trial++) {
          let given = decrypted;
          for (let slot = 0; slot < place.slots; slot++) {
            // One record in four; and canaries never, which have a check of their own.
            const isChanged = !own.has(slot) && normal() > 0.67;
            if (isChanged) given = changed(given, slot, 20 * normal() * p.noise.score);
          }
          const distances = sumsOf(p, canaries, given).map((sum, c) => {
            const { own: slot, weights } = groups[c];
            return 8 + (rounding * -weights.get(slot)!) / (norm(weights) * p.noise.score) - Math.abs(sum);
          });
          // What is that close, single precision decides.
          if (distances.some((distance) => Math.abs(distance) < 1e-3)) continue;
          const fits = distances.every((distance) => distance > 0);
          decided[`${fits}`]++;
          assert.equal(checked(place, changed(given, 0, 0)) !== undefined, fits, `${count} records`);
        }
      }
      assert.ok(decided.true > 50 && decided.false > 50, JSON.stringify(decided));
    });

    for (const metric of METRICS)
      it(`${metric}: honest responses fit, of full blocks and small ones; changed ones do not`, () => {
        const bounds = metric === 'cosine' ? {} : { metric, normBound: 2, queryNormBound: 3 };
        const p = strong(profile, 16, bounds);
        const key = keyOf(p);
        const least = certainlyNoticed(p);
        for (const count of [1, 5, 100, p.capacity]) {
          const vectors = randomVectors(`${metric} ${count}`, count, 16, p.normBound);
          const { place, canaries, answer } = blockOf(key, vectors, idOf(`${metric} ${count}`));
          for (let q = 0; q < 3; q++) {
            const probe = randomVectors(`probe ${q}`, 1, 16, p.queryNormBound);
            const { query, secret } = encryptQuery(key, probe);
            const decrypted = secret.decrypt(answer(query));
            const checked = canaryChecker(key, probe);
            const passes = (scores: Scores) => checked(place, changed(scores, 0, 0)) !== undefined;
            assert.ok(passes(decrypted), `${count} records`);
            const own = new Set(canaries.own);
            for (let slot = 0; slot < place.slots; slot += 1 + (place.slots >> 5)) {
              if (own.has(slot)) continue;
              for (const by of [least, -least, 3 * least])
                assert.ok(!passes(changed(decrypted, slot, by)), `slot ${slot} by ${by}`);
            }
            assert.equal(checked(place, decrypted)?.length, count);
          }
        }
      });
  });

it('known answers: the same on every machine', () => {
  const answers = (['compact', 'small'] as const).map((profile) => {
    const key = keyOf(strong(profile, 4));
    const place = { id: hex(idOf('known')), slots: slotsFor(key.plan, 1500) };
    const order = groupsOf(makeCanaries(key, place)).flat();
    return [profile, hex(sha256(new TextEncoder().encode(order.join(' ')))).slice(0, 16)];
  });
  assert.deepEqual(Object.fromEntries(answers), KNOWN);
});
const KNOWN = { compact: '7ee574700015f6b0', small: '59d31caef40e3597' };

/** The deviation of the sum of a whole group: of g scores with the weight 1, and √g of its own. */
function deviationOf({ noise, checksumGroup: g }: Plan): number {
  return noise.score * Math.sqrt(2 * g);
}

/** What rounding can add to the sum of a group, where vectors are as long as they may be. */
function roundingOf({ checksumGroup: g, width, galleryScale, normBound, queryNormBound, metric }: Plan): number {
  const slope = (metric === 'euclidean' ? 2 * Math.sqrt(1.25) : 1) * normBound * queryNormBound;
  return ((slope * Math.sqrt(width)) / (2 * galleryScale)) * Math.sqrt(g);
}

/** A change of one score that is missed with less than 2^−49. */
function certainlyNoticed(p: Plan): number {
  return 16 * deviationOf(p) + roundingOf(p);
}

/** The sums of scores with the weights of each group, in deviations. */
function sumsOf({ noise, unit, parameters }: Plan, canaries: Canaries, { scores }: Scores): number[] {
  const period = modulusOf(parameters) / unit;
  return weightsOf(canaries).map(({ weights }) => {
    let sum = 0;
    for (const [slot, weight] of weights) sum += weight * scores[slot];
    return (sum - period * Math.round(sum / period)) / norm(weights) / noise.score;
  });
}

describe('chances', () => {
  for (const [profile, dimension, queries] of [
    ['compact', 16, 40],
    ['small', 16, 40],
    ['compact', 128, 12],
    ['small', 512, 6],
    ['compact', 1536, 4],
  ] as const)
    it(`${profile}, ${dimension} dimensions: no false alarm, and as much noise as planned, whatever a block holds`, () => {
      const p = strong(profile, dimension);
      const key = keyOf(p);
      const isQuick = dimension < 512;
      for (const [name, coordinate] of Object.entries(galleries(dimension)).slice(0, isQuick ? undefined : 2))
        for (const count of isQuick ? [p.capacity, p.capacity >> 1] : [p.capacity]) {
          const vectors = vectorsOf(coordinate, count, dimension);
          const { place, canaries, answer } = blockOf(key, vectors, idOf(`${name} ${count}`));
          let [squares, sums, largest] = [0, 0, 0];
          for (let q = 0; q < queries; q++) {
            // Every other query is as lopsided as a query can be.
            const lopsided = new Float32Array(dimension).fill(1, 0, 1 + (q % dimension));
            const probe = q % 2 === 0 ? randomVectors(`probe ${q}`, 1, dimension) : lopsided;
            const { query, secret } = encryptQuery(key, probe);
            const decrypted = secret.decrypt(answer(query));
            for (const sum of sumsOf(p, canaries, decrypted)) {
              squares += sum ** 2;
              sums++;
              largest = Math.max(largest, Math.abs(sum));
            }
            assert.ok(canaryChecker(key, probe)(place, decrypted), `${name}, ${count} records, query ${q}`);
          }
          const rms = Math.sqrt(squares / sums);
          // At least the share that does not depend on the gallery; at most four deviations of the
          // root mean square of so few sums.
          const most = 1 + 4 / Math.sqrt(2 * sums);
          assert.ok(rms > 0.6 && rms < most, `${name}, ${count} records: ${rms} of what is planned, at most ${most}`);
          assert.ok(largest < 6, `${name}, ${count} records: ${largest} deviations`);
        }
    });

  /** The normal distribution function, by a series. */
  const below = (x: number) => {
    let [term, sum] = [x, x];
    for (let k = 1; k < 100; k++) {
      term *= (x * x) / (2 * k + 1);
      sum += term;
    }
    return 0.5 + (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI);
  };

  for (const profile of ['compact', 'small'] as const)
    it(`${profile}: a change of one score is missed as often as the formula says`, () => {
      const p = strong(profile, 32);
      const key = keyOf(p);
      const deviations = [7, 7.5, 8, 8.5, 9, 9.5];
      const missed = deviations.map(() => 0);
      let [trials, certain] = [0, 0];
      for (let b = 0; b < 4; b++) {
        const { place, canaries, answer } = blockOf(key, randomVectors(`${b}`, p.capacity, 32), idOf(`missed ${b}`));
        const groups = weightsOf(canaries);
        for (let q = 0; q < 25; q++) {
          const probe = randomVectors(`probe ${b} ${q}`, 1, 32);
          const { query, secret } = encryptQuery(key, probe);
          const decrypted = secret.decrypt(answer(query));
          const checked = canaryChecker(key, probe);
          for (const { own, weights } of groups) {
            const slots = [...weights.keys()].filter((slot) => slot !== own);
            const slot = slots[(q * 7) % slots.length];
            const sd = norm(weights) * p.noise.score;
            deviations.forEach((by, i) => {
              if (checked(place, changed(decrypted, slot, by * sd))) missed[i]++;
            });
            if (checked(place, changed(decrypted, slot, certainlyNoticed(p)))) certain++;
            trials++;
          }
        }
      }
      assert.equal(certain, 0);
      deviations.forEach((by, i) => {
        const expected = below(8 - by);
        // The check has room for rounding besides, which does not use it.
        const more = below(8 - by + roundingOf(p) / deviationOf(p) + 0.1);
        const share = missed[i] / trials;
        assert.ok(share > expected - 0.04 && share < more + 0.04, `${by} deviations: ${share} missed, not ${expected}`);
      });
    });

  it('two changes that cancel are missed about as often as two slots are in one group', () => {
    const p = strong('compact', 16);
    const key = keyOf(p);
    const { place, canaries, answer } = blockOf(key, randomVectors('pairs', p.capacity, 16), idOf('pairs'));
    const probe = randomVectors('probe', 1, 16);
    const { query, secret } = encryptQuery(key, probe);
    const decrypted = secret.decrypt(answer(query));
    const checked = canaryChecker(key, probe);
    const own = new Set(canaries.own);
    const slots = Array.from({ length: place.slots }, (_, slot) => slot).filter((slot) => !own.has(slot));
    let [passed, trials] = [0, 0];
    for (let i = 0; i < 10_000; i++) {
      const [a, b] = [slots[(i * 7919) % slots.length], slots[(i * 104_729 + 13) % slots.length]];
      if (a === b) continue;
      // Towards zero, so that no score leaves the range.
      const by = decrypted.scores[a] > 0 ? -0.13 : 0.13;
      if (checked(place, changed(changed(decrypted, a, by), b, by))) passed++;
      trials++;
    }
    const expected = trials / 64;
    assert.ok(Math.abs(passed - expected) < 5 * Math.sqrt(expected), `${passed}, not ${expected}`);
  });

  it('what README.md §8 says of the least change that is noticed', () => {
    const rows = (['compact', 'small'] as const).flatMap((profile) =>
      [32, 128, 512, 1536].map((dimension) => {
        const p = strong(profile, dimension);
        const room = roundingOf(p) + deviationOf(p) * 8;
        return [profile, dimension, ...[0, 3.1, 8].map((more) => Number((room + more * deviationOf(p)).toFixed(3)))];
      }),
    );
    assert.deepEqual(rows, ROWS);
  });
  const ROWS = [
    ['compact', 32, 0.041, 0.057, 0.082],
    ['compact', 128, 0.042, 0.058, 0.083],
    ['compact', 512, 0.043, 0.059, 0.084],
    ['compact', 1536, 0.045, 0.061, 0.086],
    ['small', 32, 0.162, 0.223, 0.321],
    ['small', 128, 0.164, 0.226, 0.323],
    ['small', 512, 0.17, 0.232, 0.329],
    ['small', 1536, 0.179, 0.241, 0.338],
  ];
});
