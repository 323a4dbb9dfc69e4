import assert from 'node:assert/strict';
import { test } from 'node:test';
import { graphDistanceDimension, likelihoodDimension, nearest, twoNearestDimension } from '@hers/training/dimension';
import { identities } from '@hers/vectors/synthetic';
import { pairScores } from '../metrics/pairs.ts';
import { curvedManifold, FACE_LIKE } from './manifold.ts';

const dimension = 128;

function moments(values: Float64Array): { mean: number; deviation: number } {
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / values.length;
  return { mean, deviation: Math.sqrt(variance) };
}

test('genuine and impostor scores are those of a face network', () => {
  const people = identities(400, 3, dimension, { ...FACE_LIKE, centres: curvedManifold(dimension, FACE_LIKE) });
  const { vectors, labels } = people.gallery();
  const { genuine, impostor } = pairScores(vectors, dimension, labels);
  const [same, other] = [moments(genuine), moments(impostor)];
  assert.ok(Math.abs(same.mean - 0.69) < 0.03 && Math.abs(same.deviation - 0.1) < 0.03, JSON.stringify(same));
  // Noise makes strangers less similar than their centres are.
  assert.ok(
    other.mean > -0.005 && other.mean < 0.02 && Math.abs(other.deviation - 0.09) < 0.015,
    JSON.stringify(other),
  );
});

test('strangers are as similar on average as was asked for', () => {
  for (const similarity of [0.05, 0.3]) {
    const centres = curvedManifold(1000, { intrinsic: 6, similarity });
    const { vectors, labels } = identities(300, 1, 1000, { centres, noise: 0 }).gallery();
    const { mean } = moments(pairScores(vectors, 1000, labels).impostor);
    assert.ok(Math.abs(mean - similarity) < 0.02, `${mean}`);
  }
});

test('estimators find the dimension that was asked for', async () => {
  for (const intrinsic of [3, 6]) {
    const centres = curvedManifold(48, { intrinsic, similarity: 0.2 });
    const neighbours = await nearest(identities(1500, 1, 48, { noise: 0, centres }).gallery().vectors, 48, 15);
    const found = [
      graphDistanceDimension(neighbours, { sources: 100 }).dimension!,
      twoNearestDimension(neighbours),
      likelihoodDimension(neighbours),
    ];
    for (const value of found) assert.ok(Math.abs(value / intrinsic - 1) < 0.25, `${intrinsic}: ${found.join(', ')}`);
  }
});

test('the same seed gives the same people, in any order; another seed another manifold', () => {
  const make = (seed: number) =>
    identities(20, 1, 16, { ...FACE_LIKE, centres: curvedManifold(16, { intrinsic: 3, seed }), seed });
  assert.deepEqual(make(1).probes([7, 3]), make(1).probes([7, 3]));
  const [a, b] = [make(1).gallery(), make(1)];
  b.probes([19]);
  assert.deepEqual(b.gallery(), a);
  assert.notDeepEqual(make(2).gallery(), a);
});

test('what cannot be is refused', () => {
  assert.throws(() => curvedManifold(8, { intrinsic: 8 }), /from 1 to 7/);
  assert.throws(() => curvedManifold(8, { intrinsic: 2, similarity: 1 }), /between 0 and 1/);
});
