import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gaussian } from './random.ts';

function draw(length: number, ...names: number[]): Float64Array {
  const random = new Gaussian();
  random.seed(...names);
  const numbers = new Float64Array(length);
  random.fill(numbers, 1);
  return numbers;
}

test('the numbers are standard normal: the first four moments, within five standard errors', () => {
  const count = 400_000;
  const numbers = draw(count, 1, 2);
  // Variances of the sample means of x, x², x³, x⁴ for normal x: 1, 2, 15, 96, each over the count.
  for (const [power, expected, variance] of [
    [1, 0, 1],
    [2, 1, 2],
    [3, 0, 15],
    [4, 3, 96],
  ]) {
    const mean = numbers.reduce((sum, x) => sum + x ** power, 0) / count;
    assert.ok(Math.abs(mean - expected) < 5 * Math.sqrt(variance / count), `moment ${power}: ${mean}`);
  }
});

test('streams with neighbouring names are unrelated', () => {
  const count = 100_000;
  const streams = [draw(count, 1, 0), draw(count, 1, 1), draw(count, 0, 1), draw(count, 1), draw(count, 1, 0, 0)];
  for (const [i, a] of streams.entries()) {
    for (const b of streams.slice(i + 1)) {
      const correlation = a.reduce((sum, x, k) => sum + x * b[k], 0) / count;
      assert.ok(Math.abs(correlation) < 5 / Math.sqrt(count), `${correlation}`);
    }
  }
});
