// The rates of a report against slow and obvious counting.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Random } from '../random.ts';
import { enrolment, evaluation } from './evaluation.ts';
import { bootstrapped, equalErrorRate, linkability, missedAt, ofRate, outcomesOf } from './rates.ts';

/** Few values, so that many are equal. */
const score = fc.integer({ min: -5, max: 5 });
const person = fc.integer({ min: 0, max: 4 });
const outcome = fc.tuple(score, person, person);
const weights = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 5, maxLength: 5 });

type Outcome = readonly [score: number, first: number, second: number];

/** Each outcome as often as its people were drawn. */
const written = (all: readonly Outcome[], drawn: readonly number[]) =>
  all.flatMap(([s, a, b]) => new Array<number>(a === b ? drawn[a] : drawn[a] * drawn[b]).fill(s));
const outcomes = (all: readonly Outcome[]) =>
  outcomesOf(
    all.map(([s]) => s),
    all.map(([, a]) => a),
    all.map(([, , b]) => b),
  );

test('what is missed at a rate is the least of all thresholds that keep it, with people drawn again', () => {
  fc.assert(
    fc.property(
      fc.array(outcome, { minLength: 1, maxLength: 30 }),
      fc.array(outcome, { minLength: 1, maxLength: 30 }),
      weights,
      fc.constantFrom(0, 0.05, 0.1, 0.25, 0.5, 1),
      (genuine, impostor, drawn, rate) => {
        const [same, other] = [written(genuine, drawn), written(impostor, drawn)];
        if (same.length === 0 || other.length === 0) return;
        let least = 1;
        for (let t = -6; t <= 6.5; t += 0.5)
          if (other.filter((s) => s >= t).length / other.length <= rate + 1e-9)
            least = Math.min(least, same.filter((s) => s < t).length / same.length);
        const [found] = missedAt(outcomes(genuine), outcomes(impostor), [rate], Float64Array.from(drawn));
        assert.ok(Math.abs(found - least) < 1e-9, `${found}, ${least}`);
      },
    ),
  );
});

test('the equal error rate is where the two rates are closest, over all thresholds', () => {
  fc.assert(
    fc.property(
      fc.array(outcome, { minLength: 1, maxLength: 30 }),
      fc.array(outcome, { minLength: 1, maxLength: 30 }),
      (genuine, impostor) => {
        const all = new Float64Array(5).fill(1);
        const [same, other] = [genuine.map(([s]) => s), impostor.map(([s]) => s)];
        let [apart, rates] = [Infinity, [] as number[]];
        for (const t of [...same, ...other]) {
          const fnmr = same.filter((s) => s < t).length / same.length;
          const fmr = other.filter((s) => s >= t).length / other.length;
          if (Math.abs(fnmr - fmr) < apart - 1e-12) [apart, rates] = [Math.abs(fnmr - fmr), []];
          if (Math.abs(fnmr - fmr) < apart + 1e-12) rates.push((fnmr + fmr) / 2);
        }
        const found = equalErrorRate(outcomes(genuine), outcomes(impostor), all);
        assert.ok(
          rates.some((rate) => Math.abs(rate - found) < 1e-9),
          `${found}: ${rates}`,
        );
      },
    ),
  );
});

test('unlinkability by hand: three bins, of which one says all and one says something', () => {
  // p(s | mated) = ¼, ½, ¼ and p(s | other) = ½, ½, 0: only the last bin is above its counterpart.
  assert.equal(linkability([0, 1, 1, 2], [0, 0, 1, 1], 3), 0.25);
  // ¾ against ¼ in a bin: LR = 3, D = 2 · 3/4 − 1 = ½, so ¾ · ½.
  assert.equal(linkability([0, 1, 1, 1], [0, 0, 0, 1], 2), 0.375);
  assert.equal(linkability([1, 1], [0, 0], 2), 1);
  assert.equal(linkability([0, 1, 2], [2, 1, 0], 3), 0);
});

test('intervals are those of people drawn again: the same for the same seed, and as wide as they must be', () => {
  const random = new Random(5);
  const found = Array.from({ length: 400 }, () => Number(random.uniform() < 0.8));
  const share = (w: Float64Array) => {
    const total = w.reduce((sum, x) => sum + x, 0);
    return [w.reduce((sum, x, i) => sum + x * found[i], 0) / total];
  };
  const [first] = bootstrapped(400, share, { seed: 3, draws: 1000 });
  assert.deepEqual(bootstrapped(400, share, { seed: 3, draws: 1000 }), [first]);
  assert.notDeepEqual(bootstrapped(400, share, { seed: 4, draws: 1000 }), [first]);
  const deviation = Math.sqrt((first.value * (1 - first.value)) / 400);
  assert.ok(Math.abs((first.high - first.low) / (2 * 1.96 * deviation) - 1) < 0.15);
});

test('where no error was seen, the interval ends where none would be seen in one of twenty tries', () => {
  const { low, high } = ofRate({ value: 0, low: 0, high: 0 }, 60);
  assert.equal(low, 0);
  assert.ok(Math.abs((1 - high) ** 60 - 0.05) < 1e-12);
  assert.ok(Math.abs(high - 3 / 60) < 0.003);
  assert.deepEqual(ofRate({ value: 1, low: 1, high: 1 }, 60), { value: 1, low: 1 - high, high: 1 });
  assert.deepEqual(ofRate({ value: 0, low: 0, high: 0.4 }, 60), { value: 0, low: 0, high: 0.4 });
  assert.deepEqual(ofRate({ value: 0.1, low: 0, high: 0.2 }, 60), { value: 0.1, low: 0, high: 0.2 });
});

/** Vectors of people, coarse so that scores are equal at times. */
function sample(sizes: readonly number[], seed: number) {
  const random = new Random(seed);
  const labels = sizes.flatMap((size, p) => new Array<number>(size).fill(10 * p + 3));
  const n = labels.length;
  const scores = new Float32Array(n * n);
  for (let i = 0; i < n; i++)
    for (let j = 0; j <= i; j++)
      scores[i * n + j] = scores[j * n + i] =
        Math.round(4 * (random.normal() + (labels[i] === labels[j] ? 1.5 : 0))) / 4;
  return { labels, scores, n };
}

test('identification, open set and verification, each counted one by one', () => {
  const { labels, scores, n } = sample([4, 3, 5, 2, 2, 6, 1, 1, ...new Array<number>(110).fill(1)], 7);
  const found = evaluation(scores, labels, { draws: 10, ranks: 5 });
  const at = (i: number, j: number) => scores[i * n + j];
  const places = [...labels.keys()];
  const probes = places.filter((i) => places.some((j) => j !== i && labels[j] === labels[i]));
  const isWithin = (i: number, k: number) => {
    const mate = Math.max(...places.filter((j) => j !== i && labels[j] === labels[i]).map((j) => at(i, j)));
    return places.filter((j) => labels[j] !== labels[i] && at(i, j) >= mate).length < k;
  };
  assert.equal(found.identification.probes, probes.length);
  for (let k = 1; k <= 5; k++)
    assert.ok(
      Math.abs(found.identification.cmc[k - 1].value - probes.filter((i) => isWithin(i, k)).length / probes.length) <
        1e-12,
    );
  const enrolled = places.filter((i) => probes.includes(i) && labels.indexOf(labels[i]) === i);
  const mated = probes.filter((i) => !enrolled.includes(i));
  const strangers = places.filter((i) => !probes.includes(i));
  assert.deepEqual(
    [found.openSet.enrolled, found.openSet.mated, found.openSet.strangers],
    [enrolled.length, mated.length, strangers.length],
  );
  const tops = strangers.map((i) => Math.max(...enrolled.map((e) => at(i, e))));
  for (const { rate, missed, threshold } of found.openSet.curve) {
    assert.ok(tops.filter((top) => top >= threshold!).length / tops.length <= rate);
    const misses = mated.filter((i) => {
      const mate = at(i, enrolled.find((e) => labels[e] === labels[i])!);
      return mate < threshold! || enrolled.some((e) => labels[e] !== labels[i] && at(i, e) >= mate);
    });
    assert.ok(Math.abs(missed!.value - misses.length / mated.length) < 1e-12);
  }
  // 112 strangers: three errors are expected at 5 %, and not at 1 %.
  assert.deepEqual(
    found.openSet.at.map(({ missed }) => missed),
    [undefined, undefined],
  );
  const genuine = places.flatMap((i) =>
    places
      .slice(0, i)
      .filter((j) => labels[i] === labels[j])
      .map((j) => at(i, j)),
  );
  assert.equal(found.verification.genuine, genuine.length);
  assert.equal(found.verification.impostor, (n * (n - 1)) / 2 - genuine.length);
  for (const { missed, threshold } of found.verification.curve)
    assert.ok(Math.abs(missed!.value - genuine.filter((s) => s < threshold!).length / genuine.length) < 1e-12);
});

test('impostor pairs that are drawn are as many as asked, the same for a seed, and as good as all', () => {
  const { labels, scores } = sample(new Array<number>(150).fill(2), 3);
  const all = evaluation(scores, labels, { draws: 0 }).verification;
  const some = (seed: number) => evaluation(scores, labels, { draws: 0, impostors: 9000, seed }).verification;
  assert.deepEqual([all.impostor, all.impostorsOf], [(300 * 299) / 2 - 150, (300 * 299) / 2 - 150]);
  assert.deepEqual([some(1).genuine, some(1).impostor, some(1).impostorsOf], [150, 9000, all.impostor]);
  assert.deepEqual(some(1), some(1));
  assert.notDeepEqual(some(1), some(2));
  assert.ok(Math.abs(some(1).equalErrorRate!.value - all.equalErrorRate!.value) < 0.02);
});

test('three thousand strangers are enough for an FPIR of 0.1 %, and fewer are not', () => {
  const at = (strangers: number) => {
    const labels = [0, 0, 1, 1, 2, 2, 3, 3, ...Array.from({ length: strangers }, (_, i) => 10 + i)];
    const n = labels.length;
    const scores = new Float32Array(n * n);
    [0.875, 0.875, 0.5, 0.875].forEach((mate, p) => (scores[(2 * p + 1) * n + 2 * p] = mate));
    // Three strangers score higher than any mate, and the fourth 0.75.
    for (let i = 8; i < n; i++) scores[i * n] = i < 11 ? 0.9375 : i === 11 ? 0.75 : 0.25;
    return evaluation(scores, labels, { draws: 0, ranks: 1, impostors: 1000 }).openSet.at[1];
  };
  assert.deepEqual(at(2999), { rate: 0.001 });
  const { missed, threshold } = at(3000);
  assert.equal(missed!.value, 0.25);
  assert.ok(threshold! > 0.75 && threshold! < 0.875);
});

test('where nobody has one vector alone, half of the people are strangers', () => {
  const person = Int32Array.from({ length: 60 }, (_, i) => i % 20);
  const { enrolled, mated, strangers } = enrolment(person, 20, 1);
  assert.deepEqual([enrolled.length, mated.length, strangers.length], [10, 20, 30]);
  const who = (all: number[]) => new Set(all.map((i) => person[i]));
  assert.equal(who([...enrolled, ...strangers]).size, 20);
  assert.deepEqual(who(mated), who(enrolled));
});
