import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PARAMETER_SETS, PUBLISHED, parameterSet } from './parameters.ts';
import { roundVectors } from './rounding.ts';

test('coordinates are rounded to the nearest 0.004, ties to even', () => {
  assert.deepEqual(
    [...roundVectors(PUBLISHED, [[0.004, -0.004, 0.0059, 0.002, 0.006, -0.002]], 6)],
    [1, -1, 1, 0, 2, 0].map((x) => x + 0),
  );
  assert.deepEqual([...roundVectors(PUBLISHED, Float32Array.of(1, 0, 0, -1), 2)], [250, 0, 0, -250]);
});

test('what is no vector is refused', () => {
  const code = { code: 'INVALID_VECTOR' };
  assert.throws(() => roundVectors(PUBLISHED, [[1, 0, 0]], 2), code);
  assert.throws(() => roundVectors(PUBLISHED, new Float32Array(3), 2), code);
  for (const x of [Number.NaN, Number.POSITIVE_INFINITY, 1e300]) {
    assert.throws(() => roundVectors(PUBLISHED, [[x, 0]], 2), code);
  }
});

test('vectors whose scores could wrap around are refused', () => {
  const refused = { code: 'INVALID_VECTOR', message: /wrap around beyond norms of about 0\.72;/ };
  const small = PARAMETER_SETS.bgv_n_4096_t_65537;
  assert.throws(() => roundVectors(small, [[1, 0]], 2), refused);
  assert.deepEqual([...roundVectors(small, [[0.72, 0]], 2)], [180, 0]);
  // At the paper's precision 147 457 is the smallest that takes every unit vector, rounded however
  // badly: of 512 equal coordinates, for one.
  const unit = new Array(512).fill(11.5 / 250);
  assert.equal(roundVectors(PARAMETER_SETS.bgv_n_4096_t_147457, [unit], 512)[0], 12);
  assert.throws(() => roundVectors(PUBLISHED, [[3, 0]], 2), { code: 'INVALID_VECTOR' });
});

test('an unknown parameter set is named in the error', () => {
  assert.equal(parameterSet('bfv_n_4096_t_1032193'), PUBLISHED);
  assert.throws(() => parameterSet('constructor'), {
    code: 'INVALID_ARGUMENT',
    message: /"constructor"; there are bfv/,
  });
});
