// Every metric against the obvious way to compute it, on small data with ties.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eachScoreRow, matedPlaces, rankOfMate, unitVectors } from '@hers/vectors/accuracy';
import { Random } from '@hers/vectors/random';
import fc from 'fast-check';
import { meaningless } from '../../testing/datasets.ts';
import { clusteredMean, cmc, mateRanks, rankAccuracy } from './identification.ts';
import { decide, top1Accuracy, trainSvm } from './linear-svm.ts';
import { pairScores } from './pairs.ts';
import { averagePrecision, fifths, precisionAt, precisionRecall, retrieval } from './retrieval.ts';
import { halves } from './statistics.ts';

function set(count: number, dimension: number, classes: number, seed: number) {
  const random = new Random();
  random.seed(seed);
  const numbers = new Float64Array(count * dimension);
  random.fill(numbers, 1);
  const centres = new Float64Array(classes * dimension);
  random.fill(centres, 1);
  const labels = Int32Array.from({ length: count }, (_, i) => (i * 7) % classes);
  // Coarse coordinates, so that some scores are equal.
  const vectors = Float32Array.from(numbers, (x, at) => {
    const label = labels[Math.floor(at / dimension)];
    return Math.round(2 * (x + centres[label * dimension + (at % dimension)])) / 2;
  });
  return { vectors, dimension, labels };
}

const dot = (a: ArrayLike<number>, i: number, b: ArrayLike<number>, j: number, d: number) => {
  let sum = 0;
  for (let c = 0; c < d; c++) sum += a[i * d + c] * b[j * d + c];
  return sum;
};

const sets = [set(41, 5, 7, 1), set(64, 3, 20, 2), set(30, 8, 2, 3)];

test('rows of scores are the inner products, whatever the numbers of probes and templates', () => {
  for (const probes of [1, 3, 4, 5, 9])
    for (const templates of [1, 6]) {
      const [a, b] = [set(probes, 5, 2, 4).vectors, set(templates, 5, 2, 5).vectors];
      let next = 0;
      eachScoreRow(a, b, 5, (i, scores) => {
        assert.equal(i, next++);
        assert.deepEqual(
          [...scores],
          Array.from({ length: templates }, (_, j) => dot(a, i, b, j, 5)),
        );
      });
      assert.equal(next, probes);
    }
  assert.throws(() => eachScoreRow(new Float32Array(7), new Float32Array(10), 5, () => {}), RangeError);
});

test('unit vectors', () => {
  assert.deepEqual([...unitVectors(Float32Array.of(3, 4, 0, -2), 2)], [...Float32Array.of(0.6, 0.8, 0, -1)]);
  assert.throws(() => unitVectors(new Float32Array(4), 2), /vector 0 is zero/);
  assert.throws(
    () => unitVectors(Float32Array.of(1, 1, 0, Number.NaN), 2),
    /vector 1 holds something that is no number/,
  );
});

describe('identification', () => {
  test('the rank of the best mate is its place in the sorted list, behind strangers that score the same', () => {
    for (const data of sets) {
      const { vectors, labels, dimension: d } = data;
      const probes = matedPlaces(labels);
      const ranks = mateRanks(data);
      for (const [n, i] of probes.entries()) {
        const others = Array.from(labels, (label, j) => ({ mate: label === labels[i], j }))
          .filter(({ j }) => j !== i)
          .map(({ mate, j }) => ({ mate, score: dot(vectors, i, vectors, j, d) }))
          .sort((a, b) => b.score - a.score || Number(a.mate) - Number(b.mate));
        // No other mate can precede the best one; strangers before it are what counts.
        assert.equal(ranks[n], 1 + others.findIndex(({ mate }) => mate));
      }
    }
  });

  test('probes are those with a mate', () => {
    assert.deepEqual([...matedPlaces([5, 1, 5, 2, 3, 3])], [0, 2, 4, 5]);
    assert.throws(() => rankOfMate([1, 2], [1, 2], 1, 0), /no mate/);
  });

  test('rank accuracy and the cumulative match characteristic', () => {
    const ranks = [1, 3, 1, 2, 9];
    assert.deepEqual([...cmc(ranks, 4)], [0.4, 0.6, 0.8, 0.8]);
    for (let k = 1; k <= 10; k++) assert.equal(cmc(ranks, 10)[k - 1], rankAccuracy(ranks, k));
  });
});

describe('retrieval', () => {
  test('precision at 10 and average precision, probe by probe', () => {
    for (const data of sets) {
      const { vectors, labels, dimension: d } = data;
      const probes = matedPlaces(labels);
      let [precision, average] = [0, 0];
      for (const i of probes) {
        const ranking = Array.from(labels, (_, j) => j)
          .filter((j) => j !== i)
          .map((j) => ({ mate: labels[j] === labels[i], score: dot(vectors, i, vectors, j, d) }))
          .sort((a, b) => b.score - a.score || Number(a.mate) - Number(b.mate))
          .map(({ mate }) => mate);
        precision += ranking.slice(0, 10).filter(Boolean).length / 10 / probes.length;
        const at = ranking.flatMap((hit, r) => (hit ? [r + 1] : []));
        average += at.reduce((sum, r, n) => sum + (n + 1) / r, 0) / at.length / probes.length;
      }
      const found = retrieval(data, probes);
      assert.ok(Math.abs(found.precisionAt10 - precision) < 1e-12);
      assert.ok(Math.abs(found.meanAveragePrecision - average) < 1e-12);
    }
  });

  test('a fifth of each class are probes apart: found among the rest of it and all other classes', () => {
    const labels = Int32Array.from({ length: 160 }, (_, i) => (i < 150 ? i % 3 : i < 159 ? 7 : 9));
    const probes = fifths(labels);
    const counts = [0, 1, 2, 7, 9].map((label) => Array.from(probes).filter((i) => labels[i] === label).length);
    assert.deepEqual(counts, [10, 10, 10, 1, 0]);
    assert.equal(new Set(probes).size, probes.length);
    assert.notDeepEqual(fifths(labels, 2), probes);
    const data = meaningless(labels, 6);
    const { vectors, dimension: d } = data;
    let precision = 0;
    for (const i of probes) {
      const gallery = Array.from(labels.keys()).filter((j) => labels[j] !== labels[i] || !probes.includes(j));
      assert.equal(gallery.filter((j) => labels[j] === labels[i]).length, labels[i] === 7 ? 8 : 40);
      const best = gallery.sort((a, b) => dot(vectors, i, vectors, b, d) - dot(vectors, i, vectors, a, d));
      precision += best.slice(0, 10).filter((j) => labels[j] === labels[i]).length / 10 / probes.length;
    }
    assert.ok(Math.abs(retrieval(data, probes, { apart: true }).precisionAt10 - precision) < 1e-12);
  });

  test('known answers', () => {
    assert.equal(averagePrecision([true, false, true]), (1 + 2 / 3) / 2);
    assert.equal(averagePrecision([false, false]), 0);
    assert.equal(precisionAt([true, false], 10), 0.5);
  });

  /** Few values for many decisions, so that most scores are shared. */
  const decisions = fc
    .array(fc.tuple(fc.integer({ min: -4, max: 4 }), fc.boolean()), { minLength: 1, maxLength: 40 })
    .filter((all) => all.some(([, hit]) => hit));

  /**
   * What each relevant item adds to the curve, recounted for each: items that score less come after
   * it, and of equals the relevant ones not counted yet.
   */
  function points(all: readonly (readonly [number, boolean])[]) {
    const total = all.filter(([, hit]) => hit).length;
    return all.flatMap(([score, hit], i) => {
      if (!hit) return [];
      const before = all.filter(([other, too], j) => other > score || (other === score && (!too || j <= i)));
      const hits = before.filter(([, too]) => too).length;
      return { recall: hits / total, precision: hits / before.length };
    });
  }

  test('the curve is the best precision at each recall or beyond, by definition, with relevant ones last among equals', () => {
    fc.assert(
      fc.property(decisions, (all) => {
        const scores = all.map(([score]) => score);
        const relevant = all.map(([, hit]) => Number(hit));
        const { recall, precision, averagePrecision: ap } = precisionRecall(scores, relevant, 20);
        const expected = points(all);
        for (const [step, r] of recall.entries()) {
          const best = Math.max(...expected.filter((p) => p.recall >= r - 1e-9).map((p) => p.precision));
          assert.ok(Math.abs(precision[step] - best) < 1e-12, `${r}`);
        }
        const average = expected.reduce((sum, p) => sum + p.precision, 0) / expected.length;
        assert.ok(Math.abs(ap - average) < 1e-12, `${ap}, ${average}`);
      }),
      { numRuns: 200 },
    );
    assert.throws(() => precisionRecall([1], [0]), /nothing is relevant/);
  });

  test('the order in which decisions are given makes no difference', () => {
    assert.equal(precisionRecall([1, 1], [1, 0]).averagePrecision, 0.5);
    assert.equal(precisionRecall([1, 1], [0, 1]).averagePrecision, 0.5);
    const of = (all: readonly (readonly [number, boolean])[]) =>
      precisionRecall(
        all.map(([score]) => score),
        all.map(([, hit]) => Number(hit)),
      );
    fc.assert(fc.property(decisions, (all) => assert.deepEqual(of(all), of(all.toReversed()))));
  });
});

describe('pairs', () => {
  test('each once, never a vector with itself', () => {
    const { vectors, dimension, labels } = sets[0];
    const { genuine, impostor } = pairScores(vectors, dimension, labels);
    const [same, other]: number[][] = [[], []];
    for (let i = 0; i < labels.length; i++)
      for (let j = i + 1; j < labels.length; j++)
        (labels[i] === labels[j] ? same : other).push(dot(vectors, j, vectors, i, dimension));
    assert.deepEqual([...genuine].sort(), same.sort());
    assert.deepEqual([...impostor].sort(), other.sort());
  });
});

describe('linear support vector machines', () => {
  /**
   * What training minimises: ½‖w‖² + C·Σ max(0, 1 − y·(w·x + b))², with the threshold as a
   * coordinate.
   */
  function objective(w: ArrayLike<number>, data: (typeof sets)[0], label: number, cost: number): number {
    const { vectors, labels, dimension: d } = data;
    let sum = 0;
    for (let c = 0; c <= d; c++) sum += w[c] ** 2 / 2;
    for (let i = 0; i < labels.length; i++) {
      const margin = (labels[i] === label ? 1 : -1) * (dot(w, 0, vectors.subarray(i * d, (i + 1) * d), 0, d) + w[d]);
      sum += cost * Math.max(0, 1 - margin) ** 2;
    }
    return sum;
  }

  test('reach the minimum that plain gradient descent reaches', () => {
    const data = set(40, 3, 3, 6);
    const {
      weights,
      classes,
      dimension: d,
    } = trainSvm(data.vectors, 3, data.labels, { tolerance: 1e-6, passes: 2000 });
    for (const [n, label] of classes.entries()) {
      const w = new Float64Array(d + 1);
      for (let step = 0; step < 20_000; step++) {
        const gradient = Float64Array.from(w);
        for (let i = 0; i < data.labels.length; i++) {
          const x = [...data.vectors.subarray(i * d, (i + 1) * d), 1];
          const y = data.labels[i] === label ? 1 : -1;
          const short = Math.max(0, 1 - y * x.reduce((sum, value, c) => sum + value * w[c], 0));
          for (let c = 0; c <= d; c++) gradient[c] -= 2 * short * y * x[c];
        }
        for (let c = 0; c <= d; c++) w[c] -= 0.0005 * gradient[c];
      }
      const found = objective(weights.subarray(n * (d + 1), (n + 1) * (d + 1)), data, label, 1);
      assert.ok(Math.abs(found - objective(w, data, label, 1)) < 1e-4 * found, `${label}`);
    }
  });

  test('separate what can be separated, and say the class with the largest value', () => {
    const vectors = Float32Array.of(1, 0, 0.9, 0.1, 0, 1, 0.1, 0.9, -1, -1, -0.9, -1);
    const labels = [4, 4, 9, 9, 2, 2];
    const svm = trainSvm(vectors, 2, labels, { cost: 100 });
    assert.deepEqual([...svm.classes], [2, 4, 9]);
    assert.equal(top1Accuracy(svm, decide(svm, vectors), labels), 1);
    assert.equal(top1Accuracy(svm, decide(svm, vectors), [9, 9, 4, 4, 2, 2]), 1 / 3);
  });

  test('what cannot be trained is refused', () => {
    assert.throws(() => trainSvm(new Float32Array(4), 2, [1, 1]), /two classes/);
    assert.throws(() => trainSvm(new Float32Array(4), 2, [1]), /a label for every vector/);
  });
});

test('halves: no vector is learned from and asked about, and every class of several is in both', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 12 }), { maxLength: 60 }), (labels) => {
      const { train, test } = halves(labels);
      assert.equal(new Set([...train, ...test]).size, train.length + test.length);
      for (const label of new Set(labels)) {
        const all = labels.filter((other) => other === label).length;
        const [known, asked] = [train, test].map((half) => half.filter((i) => labels[i] === label).length);
        assert.deepEqual([known, asked], all < 2 ? [0, 0] : [Math.ceil(all / 2), Math.floor(all / 2)]);
      }
    }),
  );
  assert.deepEqual(halves([7, 7, 4, 7, 4, 1]), { train: [0, 2, 3], test: [1, 4] });
});

describe('means of outcomes in clusters', () => {
  const random = new Random();
  const normal = (count: number) => {
    const out = new Float64Array(count);
    random.fill(out, 1);
    return out;
  };
  /** From 0 to below 1: the fractions of much wider normal numbers. */
  const uniform = (count: number) => normal(count).map((x) => (((100 * x) % 1) + 1) % 1);
  const meanOf = (values: readonly number[]) => values.reduce((sum, x) => sum + x, 0) / values.length;
  /** The textbook formula, for independent values. */
  const errorOf = (values: readonly number[]) =>
    Math.sqrt(values.reduce((sum, x) => sum + (x - meanOf(values)) ** 2, 0) / (values.length - 1) / values.length);

  test('where all clusters have the same size, it is the standard error of their means', () => {
    random.seed(1);
    for (const size of [1, 2, 5]) {
      const shift = normal(12);
      const outcomes = normal(12 * size).map((x, i) => x + shift[i % 12]);
      const means = Array.from(shift, (_, g) => meanOf([...outcomes].filter((_, i) => i % 12 === g)));
      const clusters = outcomes.map((_, i) => i % 12);
      const found = clusteredMean(outcomes, clusters);
      assert.equal(found.clusters, 12);
      for (const mean of [found.mean, found.clusterMean]) assert.ok(Math.abs(mean - meanOf(means)) < 1e-12);
      for (const error of [found.error, found.clusterError]) assert.ok(Math.abs(error - errorOf(means)) < 1e-12);
    }
  });

  test('where they have not, it is what drawing the clusters again gives', () => {
    random.seed(2);
    // A few have many, as in the faces, and a person who is hard to find is so on every picture.
    const people = Array.from(normal(150), (hard, g) => {
      const size = 1 + (g % 10 === 0 ? 25 : g % 3);
      return Array.from(normal(size), (x) => Number(hard + 0.7 * x > -0.8));
    });
    const clusters = people.flatMap((outcomes, g) => outcomes.map(() => g));
    const found = clusteredMean(people.flat(), clusters);
    const [means, personMeans]: number[][] = [[], []];
    for (let draw = 0; draw < 4000; draw++) {
      const some = Array.from(uniform(150), (x) => people[Math.floor(150 * x)]);
      means.push(meanOf(some.flat()));
      personMeans.push(meanOf(some.map(meanOf)));
    }
    const spread = (values: readonly number[]) => errorOf(values) * Math.sqrt(values.length);
    assert.ok(Math.abs(found.error / spread(means) - 1) < 0.1, `${found.error}, ${spread(means)}`);
    assert.ok(Math.abs(found.clusterError / spread(personMeans) - 1) < 0.1);
    assert.equal(found.clusterMean, meanOf(people.map(meanOf)));
    // Treating pictures as independent would be far off.
    assert.ok(errorOf(people.flat()) < 0.7 * found.error, `${errorOf(people.flat())}`);
  });

  test('what cannot be said is refused', () => {
    assert.throws(() => clusteredMean([1, 0], [1]), /a cluster for every outcome/);
    assert.throws(() => clusteredMean([1, 0], [1, 1]), /two clusters/);
  });
});
