import assert from 'node:assert/strict';
import { test } from 'node:test';
import { identities } from './synthetic.ts';

const dimension = 128;

function score(a: Float32Array, i: number, b: Float32Array, j: number): number {
  let sum = 0;
  for (let k = 0; k < dimension; k++) sum += a[i * dimension + k] * b[j * dimension + k];
  return sum;
}

test('all vectors have unit norm, also in odd dimensions', () => {
  for (const d of [1, 2, 31, 128, 513]) {
    const people = identities(20, 3, d);
    for (const { vectors } of [people.gallery(), people.probes([0, 19])]) {
      for (let start = 0; start < vectors.length; start += d) {
        const norm = Math.hypot(...vectors.subarray(start, start + d));
        assert.ok(Math.abs(norm - 1) < 1e-6, `d = ${d}: ${norm}`);
      }
    }
  }
});

test('a seed gives the same gallery again, another seed another one', () => {
  const make = (seed: number) => identities(50, 2, dimension, { seed });
  assert.deepEqual(make(5).gallery(), make(5).gallery());
  assert.deepEqual(make(5).probes([7, 3]), make(5).probes([7, 3]));
  assert.notDeepEqual(make(5).gallery(), make(6).gallery());
});

test('chunks add up to the gallery, whatever is drawn between them', () => {
  const people = identities(50, 3, dimension);
  const whole = people.gallery();
  const vectors: number[] = [];
  const labels: number[] = [];
  for (const chunk of people.chunks(16)) {
    people.probes([1]);
    assert.ok(chunk.labels.length <= 16 * 3);
    vectors.push(...chunk.vectors);
    labels.push(...chunk.labels);
  }
  assert.deepEqual(Float32Array.from(vectors), whole.vectors);
  assert.deepEqual(Int32Array.from(labels), whole.labels);
});

test('labels say which identity a template belongs to', () => {
  assert.deepEqual([...identities(3, 2, 8).gallery().labels], [0, 0, 1, 1, 2, 2]);
  assert.deepEqual([...identities(3, 2, 8).probes([2, 0]).labels], [2, 0]);
  assert.throws(() => identities(3, 2, 8).probes([3]), RangeError);
});

test('without noise all samples of an identity are the same; a probe is a sample of its own', () => {
  const still = identities(2, 2, dimension, { noise: 0 });
  assert.ok(Math.abs(score(still.gallery().vectors, 0, still.probes([0]).vectors, 0) - 1) < 1e-6);
  const people = identities(2, 2, dimension);
  assert.ok(score(people.gallery().vectors, 0, people.gallery().vectors, 1) < 0.9);
  assert.ok(score(people.gallery().vectors, 1, people.probes([0]).vectors, 0) < 0.9);
});

test('genuine scores lie where the noise puts them, impostor scores around zero', () => {
  const count = 500;
  const noise = 1;
  const people = identities(count, 1, dimension, { noise });
  const { vectors } = people.gallery();
  const probes = people.probes(Int32Array.from({ length: count }, (_, i) => i)).vectors;
  let genuine = 0;
  let impostor = 0;
  let impostorSquares = 0;
  for (let i = 0; i < count; i++) {
    const other = score(vectors, (i + 1) % count, probes, i);
    genuine += score(vectors, i, probes, i) / count;
    impostor += other / count;
    impostorSquares += other ** 2 / count;
  }
  // Four standard errors; two random directions score with variance 1/d.
  assert.ok(Math.abs(genuine - 1 / (1 + noise ** 2)) < 0.015, `${genuine}`);
  assert.ok(Math.abs(impostor) < 4 / Math.sqrt(count * dimension), `${impostor}`);
  assert.ok(Math.abs(impostorSquares * dimension - 1) < 4 * Math.sqrt(2 / count), `${impostorSquares}`);
});
