import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from './random.ts';

function draw(length: number, ...names: number[]): Float64Array {
  const random = new Random();
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

test('a stream is the same for ever: training and synthetic data can be made again to the bit', () => {
  const random = new Random(1, 2);
  assert.deepEqual(
    [random.uniform(), random.uniform(), random.uniform()],
    [0.21511355065740645, 0.721459022955969, 0.6917019933462143],
  );
  assert.equal(random.normal(), -0.002459877994478191);
  assert.deepEqual([...random.order(6)], [4, 2, 0, 3, 5, 1]);
  random.seed(7, 8);
  const numbers = new Float64Array(3);
  random.fill(numbers, 0.5);
  assert.deepEqual([...numbers], [-0.36821173766097887, 0.20141907278744006, -0.3747043754604318]);
});

test('seeding again forgets the number that was left over', () => {
  const random = new Random(3);
  const first = random.normal();
  random.seed(3);
  assert.equal(random.normal(), first);
});
