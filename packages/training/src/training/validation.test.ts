import assert from 'node:assert/strict';
import { test } from 'node:test';
import { synthetic } from '../../testing/identities.ts';
import { rankOne, rankOneFast } from './validation.ts';

/** By the definition, one probe after the other. */
function obvious(vectors: Float32Array, labels: Int32Array, strangers: Float32Array): number {
  const d = vectors.length / labels.length;
  const all = [...vectors, ...strangers];
  const row = (i: number) => all.slice(i * d, (i + 1) * d);
  const cosine = (a: number[], b: number[]) =>
    a.reduce((sum, x, k) => sum + x * b[k], 0) / (Math.hypot(...a) * Math.hypot(...b));
  let [probes, found] = [0, 0];
  labels.forEach((label, i) => {
    if (labels.filter((each) => each === label).length < 2) return;
    probes++;
    const scores = Array.from({ length: all.length / d }, (_, j) => (j === i ? -2 : cosine(row(i), row(j))));
    if (labels[scores.indexOf(Math.max(...scores))] === label) found++;
  });
  return found / probes;
}

test('rank-1 is what the definition says, with strangers and without, in plain TypeScript and in onnxruntime', async () => {
  const { vectors, labels } = synthetic({ classes: 30, each: 3, dimension: 5, noise: 0.7 });
  labels[7] = 1000; // someone with one picture
  const others = synthetic({ classes: 40, each: 1, dimension: 5, seed: 8 }).vectors;
  for (const strangers of [new Float32Array(), others]) {
    const expected = obvious(vectors, labels, strangers);
    assert.ok(expected > 0.1 && expected < 0.95);
    assert.equal(await rankOne(vectors, labels, strangers), expected);
    assert.equal(await rankOneFast(vectors, labels, strangers), expected);
  }
  assert.ok(Number.isNaN(await rankOne(vectors.subarray(0, 10), Int32Array.of(1, 2))));
});
