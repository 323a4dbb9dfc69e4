// What `auto` chooses, and why: the family's ends, the average by hand, folds that hold people out.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { synthetic } from '../../testing/identities.ts';
import { fit } from '../fit.ts';
import { foldsOf, marginsOf, overPeople } from '../training/folds.ts';
import { trainingSet } from '../training/training-set.ts';
import { rankOne } from '../training/validation.ts';
import { averaged } from './auto.ts';
import { fitPca, linearFamily } from './linear.ts';

const linear = { settings: { ranking: null } } as const;

test('without labels it is PCA, and says so', async () => {
  const { vectors } = synthetic();
  const auto = await fit('auto', vectors.slice(), undefined, { dimension: 4, inputDimension: 16 });
  const pca = await fit('pca', vectors.slice(), undefined, { dimension: 4, inputDimension: 16 });
  assert.equal(auto.method, 'pca');
  assert.deepEqual(await auto.transform(vectors), await pca.transform(vectors));
  assert.match(auto.metadata.notes.join(), /^chosen: pca at 4, because there are no labels to choose by/);
  await assert.rejects(
    fit('auto', vectors.slice(), undefined, { inputDimension: 16 }),
    /The dimension cannot be chosen, for there are no labels to choose by: name one, or give labels/,
  );
});

test('the same seed makes the same compressor, and one fit serves several dimensions', async () => {
  const { vectors, labels } = synthetic({ classes: 24 });
  const made = async (dimension: number, also: number[] = []) => {
    const stages: Uint8Array[] = [];
    const onStage = (bytes: Uint8Array) => void stages.push(bytes);
    const last = await fit('auto', vectors.slice(), labels, { dimension, also, seed: 5, onStage, ...linear });
    return { last: last.save(), stages };
  };
  const [six, three] = [await made(6), await made(3)];
  assert.deepEqual((await made(6)).last, six.last);
  const both = await made(6, [3]);
  assert.deepEqual(both.last, six.last);
  assert.equal(both.stages.length, 1);
  assert.deepEqual(Buffer.from(both.stages[0]), Buffer.from(three.last));
});

test('PCA is a member of the family', async () => {
  const { vectors, labels } = synthetic({ dimension: 12 });
  const set = trainingSet(vectors, labels, undefined);
  const [family, pca] = [await linearFamily(set), await fitPca(set, 3)];
  const { axes } = await family.at({ shrinkage: 1, classes: 0 }, 3);
  for (let axis = 0; axis < 3; axis++) {
    const [a, b] = [axes, pca.axes].map((all) => all.subarray(axis * 12, (axis + 1) * 12));
    const dot = (x: Float64Array, y: Float64Array) => x.reduce((sum, value, k) => sum + value * y[k], 0);
    assert.ok(Math.abs(dot(a, b)) / Math.sqrt(dot(a, a) * dot(b, b)) > 1 - 1e-6);
  }
});

test('where whitening helps it whitens, where nothing can be learned it is no worse than PCA', async () => {
  const ranksOf = async (noise: number, loud: number) => {
    const all = synthetic({ classes: 120, dimension: 12, noise });
    const other = synthetic({ classes: 120, dimension: 12, noise: 1, seed: 9 }).vectors;
    for (let i = 0; i < all.labels.length; i++)
      for (const k of [9, 10, 11]) all.vectors[i * 12 + k] += loud * other[i * 12 + k];
    // The first half to learn from, the second to measure on.
    const half = all.labels.length / 2;
    const held = { vectors: all.vectors.slice(half * 12), labels: all.labels.slice(half) };
    return Promise.all(
      (['pca', 'auto'] as const).map(async (method) => {
        const options = { dimension: 3, ...(method === 'auto' ? linear : {}) };
        const made = await fit(method, all.vectors.slice(0, half * 12), all.labels.slice(0, half), options);
        return rankOne(await made.transform(held.vectors), held.labels);
      }),
    );
  };
  const [pca, auto] = await ranksOf(0.2, 3);
  assert.ok(auto > pca + 0.2, `${auto} against ${pca}`);
  const [plain, same] = await ranksOf(0.6, 0);
  assert.ok(same > plain - 0.03, `${same} against ${plain}`);
});

test('folds hold out each person as often, and learn from nobody who is held out', () => {
  const { vectors, labels } = synthetic({ classes: 20, each: 3 });
  const set = trainingSet(vectors, labels, undefined);
  const folds = foldsOf(set, 4, 2, 7);
  assert.equal(folds.length, 8);
  const times = new Int32Array(20);
  for (const { people, learn, heldOut } of folds) {
    for (const person of new Set(people)) times[person]++;
    assert.equal(learn.count + heldOut, 60);
    assert.equal(learn.classCount + new Set(people).size, 20);
  }
  assert.deepEqual([...new Set(times)], [2]);
  assert.deepEqual(foldsOf(set, 4, 2, 7), folds);
});

test('margins are those of the slow way: the best mate less the best stranger', async () => {
  // Held-out vectors fill more than two tiles, and no class ends where a tile does.
  const { vectors, labels } = synthetic({ classes: 200, each: 3, dimension: 5 });
  const [fold] = foldsOf(trainingSet(vectors, labels, undefined), 2, 1, 1);
  assert.equal(fold.heldOut, 300);
  const margins = await marginsOf(fold, fold.gallery, 5, 4, 1);
  const count = fold.gallery.length / 5;
  const cosine = (i: number, j: number) => {
    let [ab, aa, bb] = [0, 0, 0];
    for (let k = 0; k < 4; k++) {
      const [a, b] = [fold.gallery[i * 5 + k], fold.gallery[j * 5 + k]];
      [ab, aa, bb] = [ab + a * b, aa + a * a, bb + b * b];
    }
    return ab / Math.sqrt(aa * bb);
  };
  fold.probes.forEach((probe, n) => {
    let [mate, stranger, heldOut] = [-2, -2, -2];
    for (let j = 0; j < count; j++) {
      const isMate = j >= fold.mates.from[probe] && j < fold.mates.to[probe];
      if (j !== probe && isMate) mate = Math.max(mate, cosine(probe, j));
      if (!isMate) stranger = Math.max(stranger, cosine(probe, j));
      if (!isMate && j < fold.heldOut) heldOut = Math.max(heldOut, cosine(probe, j));
    }
    assert.ok(Math.abs(margins.all[n] - (mate - stranger)) < 1e-5);
    assert.ok(Math.abs(margins.heldOut[n] - (mate - heldOut)) < 1e-5);
  });
});

test('standard errors are over people: more probes of the same people make them no smaller', () => {
  const outcomes = [1, 0, 1, 1, 0, 1];
  const once = overPeople(outcomes, [0, 1, 2, 3, 4, 5]);
  const thrice = overPeople(
    outcomes.flatMap((x) => [x, x, x]),
    [0, 1, 2, 3, 4, 5].flatMap((x) => [x, x, x]),
  );
  assert.ok(Math.abs(once.mean - thrice.mean) < 1e-12 && Math.abs(once.error - thrice.error) < 1e-12);
  // By hand: a share of 2/3 of six, with n / (n − 1).
  assert.ok(Math.abs(once.error - Math.sqrt((2 / 9 / 6) * (6 / 5))) < 1e-12);
  assert.equal(overPeople([1, 0], [4, 4]).error, Infinity);
});

test('one member that is clearly ahead is taken; where all are equal, the middle of the family is', () => {
  const people = Int32Array.from({ length: 60 }, (_, i) => i >> 1);
  // The members in order: nine shrinkages from 0.05 to 1, for classes 0, ½ and 1.
  const members = (margin: (p: number, probe: number) => number) =>
    Array.from({ length: 27 }, (_, p) => Float32Array.from({ length: 60 }, (_, probe) => margin(p, probe)));
  const alike = (each: Float32Array[]) => each.map((all) => ({ heldOut: all, all }));
  const best = members((p, probe) => (p === 9 + 3 ? 0.3 : -0.3) + 0.01 * Math.sin(p + probe));
  const ahead = averaged(alike(best), people, 16);
  assert.ok(Math.abs(ahead.point.shrinkage - 0.35) < 1e-6 && Math.abs(ahead.point.classes - 0.5) < 1e-6);
  assert.ok(ahead.equal < 1.01);
  const same = members((_, probe) => Math.sin(probe));
  const equal = averaged(alike(same), people, 16);
  assert.ok(Math.abs(equal.point.shrinkage - 0.5) < 1e-6 && Math.abs(equal.point.classes - 0.5) < 1e-6);
  assert.ok(Math.abs(equal.equal - 27) < 1e-6);
  // Either kind of strangers decides where the other does not.
  for (const margins of [
    best.map((heldOut, p) => ({ heldOut, all: same[p] })),
    best.map((all, p) => ({ heldOut: same[p], all })),
  ])
    assert.ok(Math.abs(averaged(margins, people, 16).point.shrinkage - 0.35) < 1e-6);
});
