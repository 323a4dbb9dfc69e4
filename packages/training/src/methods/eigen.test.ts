import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '@hers/vectors/random';
import { symmetricEigen } from './eigen.ts';

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
