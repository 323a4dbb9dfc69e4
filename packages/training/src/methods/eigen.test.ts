import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '@hers/vectors/random';
import { largestProducts, product } from '../training/session.ts';
import { leadingEigen, symmetricEigen } from './eigen.ts';

for (const n of [1, 2, 3, 17, 64])
  test(`a symmetric matrix of ${n} rows is put together again from its eigenvalues and orthonormal eigenvectors`, () => {
    const random = new Random(n);
    const a = new Float64Array(n * n);
    for (let i = 0; i < n; i++) for (let j = 0; j <= i; j++) a[i * n + j] = a[j * n + i] = random.normal();
    const { values, vectors } = symmetricEigen(a, n);
    for (let i = 0; i < n; i++) {
      assert.ok(i === 0 || values[i] <= values[i - 1]);
      for (let j = 0; j < n; j++) {
        let [entry, dot] = [0, 0];
        for (let k = 0; k < n; k++) {
          entry += values[k] * vectors[k * n + i] * vectors[k * n + j];
          dot += vectors[i * n + k] * vectors[j * n + k];
        }
        assert.ok(Math.abs(entry - a[i * n + j]) < 1e-11 * n);
        assert.ok(Math.abs(dot - (i === j ? 1 : 0)) < 1e-11 * n);
      }
    }
  });

test('equal eigenvalues and zero matrices are no difficulty', () => {
  assert.deepEqual([...symmetricEigen(new Float64Array(9), 3).values], [0, 0, 0]);
  assert.deepEqual([...symmetricEigen(Float64Array.from([2, 0, 0, 0, 2, 0, 0, 0, 2]), 3).values], [2, 2, 2]);
  // Rank one: v vᵀ with |v|² = 9.
  const v = [1, 2, 2];
  const { values } = symmetricEigen(Float64Array.from(v.flatMap((x) => v.map((y) => x * y))), 3);
  assert.ok(Math.abs(values[0] - 9) < 1e-12 && Math.abs(values[2]) < 1e-12);
});

// The leading axes of a matrix, and the products they are made of, against the slow way.

const drawn = (length: number, seed: number) => {
  const random = new Random(seed);
  return Float64Array.from({ length }, () => random.normal());
};

/** `a b` by the definition, where `aᵀ` and `bᵀ` are given by their entries. */
const slow = (
  n: number,
  k: number,
  m: number,
  a: (i: number, p: number) => number,
  b: (p: number, j: number) => number,
) =>
  Float64Array.from({ length: n * m }, (_, at) => {
    let sum = 0;
    for (let p = 0; p < k; p++) sum += a(Math.floor(at / m), p) * b(p, at % m);
    return sum;
  });

const near = (a: ArrayLike<number>, b: ArrayLike<number>, within: number) => {
  assert.equal(a.length, b.length);
  for (let i = 0; i < a.length; i++) assert.ok(Math.abs(a[i] - b[i]) < within, `${i}: ${a[i]}, ${b[i]}`);
};

test('products are those of the definition, in both precisions, the same on one thread and on two', async () => {
  const [n, k, m] = [150, 33, 70];
  const [a, b] = [drawn(n * k, 1), drawn(k * m, 2)];
  const plain = slow(
    n,
    k,
    m,
    (i, p) => a[i * k + p],
    (p, j) => b[p * m + j],
  );
  const first = slow(
    k,
    n,
    m,
    (i, p) => a[p * k + i],
    (p, j) => plain[p * m + j],
  );
  const second = slow(
    n,
    m,
    k,
    (i, p) => plain[i * m + p],
    (p, j) => b[j * m + p],
  );
  const [asA, asB, asPlain] = [a, b, plain].map((data, i) => ({ data, columns: [k, m, m][i] }));
  near(await product(asA, asB), plain, 1e-12);
  near(await product(asA, asPlain, { transposed: 'first' }), first, 1e-10);
  near(await product(asPlain, asB, { transposed: 'second' }), second, 1e-10);
  const [shortA, shortB] = [asA, asB].map(({ data, columns }) => ({ data: new Float32Array(data), columns }));
  const one = await product(shortA, shortB);
  near(one, plain, 1e-4);
  assert.deepEqual(await product(shortA, shortB, { threads: 2 }), one);
  const short = { data: new Float32Array(plain), columns: m };
  const largest = await largestProducts(short, shortB, 2);
  near(
    largest,
    Float64Array.from({ length: n }, (_, i) => Math.max(...second.subarray(i * k, (i + 1) * k))),
    1e-3,
  );
});

/** With these eigenvalues, along axes that are drawn. */
function matrixOf(values: readonly number[], n: number, seed: number): Float64Array {
  const some = drawn(n * n, seed);
  const { vectors } = symmetricEigen(
    some.map((_, at) => some[at] + some[(at % n) * n + Math.floor(at / n)]),
    n,
  );
  return slow(
    n,
    values.length,
    n,
    (i, p) => values[p] * vectors[p * n + i],
    (p, j) => vectors[p * n + j],
  );
}

test('the leading axes span what the first eigenvectors of the whole decomposition do', async () => {
  const [n, count] = [90, 6];
  const leading = leadingEigen(n, 1);
  for (const seed of [3, 4]) {
    const matrix = matrixOf(
      Array.from({ length: n }, (_, i) => 100 / 1.5 ** i),
      n,
      seed,
    );
    const whole = symmetricEigen(matrix, n);
    const { values, vectors } = await leading(matrix, count, 8);
    near(values, whole.values.subarray(0, count), 1e-4);
    for (let i = 0; i < count; i++) {
      const [a, b] = [vectors, whole.vectors].map((all) => all.subarray(i * n, (i + 1) * n));
      assert.ok(Math.abs(a.reduce((sum, x, k) => sum + x * b[k], 0)) > 1 - 1e-6);
    }
  }
});

test('a matrix of fewer axes than are asked for gives axes at right angles, and no more values', async () => {
  const [n, count] = [120, 30];
  const { values, vectors } = await leadingEigen(n, 1)(matrixOf([9, 4, 1], n, 5), count, 4);
  near(values, [9, 4, 1, ...new Array<number>(count - 3).fill(0)], 1e-4);
  const axes = { data: vectors, columns: n };
  const angles = await product(axes, axes, { transposed: 'second' });
  near(
    angles,
    Float64Array.from({ length: count * count }, (_, at) => Number(at % (count + 1) === 0)),
    1e-6,
  );
});
