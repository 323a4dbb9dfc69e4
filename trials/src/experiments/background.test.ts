import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '@hers/vectors/random';
import { backgroundLike } from './background.ts';

const d = 12;

/** Unit vectors with a mean and with some directions longer than others. */
function sample(): Float32Array {
  const random = new Random();
  random.seed(3);
  const numbers = new Float64Array(5000 * d);
  random.fill(numbers, 1);
  const out = Float32Array.from(numbers, (x, i) => x / (1 + 0.1 * (i % d)) + (i % d === 2 ? 0.4 : 0));
  for (let at = 0; at < out.length; at += d) {
    const norm = Math.hypot(...out.subarray(at, at + d));
    for (let i = at; i < at + d; i++) out[i] /= norm;
  }
  return out;
}

function second(vectors: Float32Array): Float64Array {
  const sums = new Float64Array(d * (d + 1));
  const count = vectors.length / d;
  for (let at = 0; at < vectors.length; at += d)
    for (let a = 0; a < d; a++) {
      sums[d * d + a] += vectors[at + a] / count;
      for (let b = 0; b < d; b++) sums[a * d + b] += (vectors[at + a] * vectors[at + b]) / count;
    }
  return sums;
}

test('distractors have the moments of the sample, at unit length', () => {
  const real = sample();
  const made = Float32Array.from(
    [...backgroundLike(real, d, { intrinsic: 6 }).chunks(5000)].flatMap((part) => [...part]),
  );
  assert.equal(made.length, real.length);
  for (let at = 0; at < made.length; at += d) assert.ok(Math.abs(Math.hypot(...made.subarray(at, at + d)) - 1) < 1e-5);
  const [a, b] = [second(real), second(made)];
  // Bringing them to unit length moves the moments a little.
  assert.ok(
    a.every((x, i) => Math.abs(x - b[i]) < 0.04),
    `${Math.max(...a.map((x, i) => Math.abs(x - b[i])))}`,
  );
});

test('the same distractors every time, in portions of any size', () => {
  const background = backgroundLike(sample(), d, { intrinsic: 6 });
  const once = [...background.chunks(50, 50)][0];
  const again = Float32Array.from([...background.chunks(50, 16)].flatMap((part) => [...part]));
  assert.deepEqual(again, once);
});
