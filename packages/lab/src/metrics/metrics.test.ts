// Every metric against the obvious way to compute it, on small data with ties in it.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Gaussian } from '../random.ts';
import { cmc, matedPlaces, mateRanks, rankAccuracy, rankOfMate } from './identification.ts';
import { decide, top1Accuracy, trainSvm } from './linear-svm.ts';
import { fnirAtFpir, pairScores, tarAtFar } from './open-set.ts';
import { averagePrecision, precisionAt, precisionRecall, retrieval } from './retrieval.ts';
import { eachScoreRow, unitVectors } from './score-rows.ts';

function set(count: number, dimension: number, classes: number, seed: number) {
  const random = new Gaussian();
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
        // Other mates before the best one are not possible; strangers before it are what counts.
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
          .sort((a, b) => dot(vectors, i, vectors, b, d) - dot(vectors, i, vectors, a, d) || a - b)
          .map((j) => labels[j] === labels[i]);
        precision += ranking.slice(0, 10).filter(Boolean).length / 10 / probes.length;
        const at = ranking.flatMap((hit, r) => (hit ? [r + 1] : []));
        average += at.reduce((sum, r, n) => sum + (n + 1) / r, 0) / at.length / probes.length;
      }
      const found = retrieval(data, probes);
      assert.ok(Math.abs(found.precisionAt10 - precision) < 1e-12);
      assert.ok(Math.abs(found.meanAveragePrecision - average) < 1e-12);
    }
  });

  test('known answers', () => {
    assert.equal(averagePrecision([true, false, true]), (1 + 2 / 3) / 2);
    assert.equal(averagePrecision([false, false]), 0);
    assert.equal(precisionAt([true, false], 10), 0.5);
  });

  test('the curve is the best precision at each recall or beyond, by definition', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.integer({ min: -1000, max: 1000 }), { minLength: 1, maxLength: 40 }),
        fc.array(fc.boolean(), { minLength: 40, maxLength: 40 }),
        (scores, flags) => {
          const relevant = scores.map((_, i) => (i === 0 || flags[i] ? 1 : 0));
          const { recall, precision, averagePrecision: ap } = precisionRecall(scores, relevant, 20);
          const total = relevant.filter(Boolean).length;
          const points = scores.map((t) => {
            const above = scores.flatMap((s, i) => (s >= t ? [relevant[i]] : []));
            const hits = above.filter(Boolean).length;
            return { recall: hits / total, precision: hits / above.length };
          });
          for (const [step, r] of recall.entries()) {
            const best = Math.max(...points.filter((p) => p.recall >= r - 1e-9).map((p) => p.precision));
            assert.ok(Math.abs(precision[step] - best) < 1e-12, `${r}`);
          }
          const sorted = scores.map((s, i) => [s, relevant[i]]).sort((a, b) => b[0] - a[0]);
          assert.ok(Math.abs(ap - averagePrecision(sorted.map(([, hit]) => hit === 1))) < 1e-12);
        },
      ),
      { numRuns: 100 },
    );
    assert.throws(() => precisionRecall([1], [0]), /nothing is relevant/);
  });
});

describe('errors at thresholds', () => {
  const score = fc.integer({ min: -5, max: 5 });
  const rate = fc.constantFrom(0, 0.01, 0.1, 0.25, 0.5, 1);

  test('TAR at FAR: the best of all thresholds that keep the rate', () => {
    fc.assert(
      fc.property(
        fc.array(score, { minLength: 1 }),
        fc.array(score, { minLength: 1 }),
        rate,
        (genuine, impostor, far) => {
          let best = 0;
          for (let t = -6; t <= 6.5; t += 0.5) {
            if (impostor.filter((s) => s >= t).length / impostor.length > far + 1e-9) continue;
            best = Math.max(best, genuine.filter((s) => s >= t).length / genuine.length);
          }
          assert.equal(tarAtFar(Float64Array.from(genuine), Float64Array.from(impostor), far), best);
        },
      ),
    );
    assert.throws(() => tarAtFar(new Float64Array(1), new Float64Array(0), 0.1), RangeError);
  });

  test('FNIR at FPIR: the same, with mates that did not come first as misses', () => {
    const search = fc.record({ top: score, first: fc.boolean() });
    fc.assert(
      fc.property(
        fc.array(search, { minLength: 1 }),
        fc.array(score, { minLength: 1 }),
        rate,
        (mated, strangers, fpir) => {
          let least = 1;
          for (let t = -6; t <= 6.5; t += 0.5) {
            if (strangers.filter((s) => s >= t).length / strangers.length > fpir + 1e-9) continue;
            least = Math.min(least, mated.filter(({ top, first }) => !(first && top >= t)).length / mated.length);
          }
          const found = fnirAtFpir(
            mated.map(({ top, first }) => (first ? { top, mate: top } : { top })),
            strangers.map((top) => ({ top })),
            fpir,
          );
          assert.equal(found, least);
        },
      ),
    );
  });

  test('pairs: each once, never a vector with itself', () => {
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
  /** What training minimises: ½‖w‖² + C·Σ max(0, 1 − y·(w·x + b))², with the threshold as a coordinate. */
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
