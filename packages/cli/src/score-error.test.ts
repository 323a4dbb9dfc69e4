import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Metric, type Profile, plan } from '@hers/scheme';
import { Random } from '@hers/vectors/random';
import { scoreError } from './score-error.ts';

/** Vectors at their norm bound, in random directions. */
function rows(count: number, dimension: number, norm: number, seed: number): Float32Array[] {
  const random = new Random(seed);
  return Array.from({ length: count }, () => {
    const row = Float32Array.from({ length: dimension }, () => random.normal());
    const length = Math.sqrt(row.reduce((sum, x) => sum + x * x, 0));
    return row.map((x) => (x * norm) / length);
  });
}

test('plans state the error against the unrounded score: what is measured is no more, and not far less', () => {
  for (const dimension of [16, 256])
    for (const metric of ['cosine', 'dot', 'euclidean'] as const satisfies readonly Metric[])
      for (const profile of ['compact', 'small', 'exact'] as const satisfies readonly Profile[]) {
        const bound = metric === 'cosine' ? 1 : 3;
        const made = plan({ dimension, metric, profile, ...(metric === 'cosine' ? {} : { normBound: bound }) });
        const { rounding, total, bias } = scoreError(made, rows(200, dimension, bound, dimension));
        const said = `${profile}, ${metric}, ${dimension}: rounding ${rounding} of ${made.error.rounding}, total ${total} of ${made.error.total}`;
        // A block of 200 templates has less noise than a full one, for which it is planned.
        assert.ok(total < 1.15 * made.error.total && total > 0.15 * made.error.total, said);
        assert.ok(rounding < 1.15 * made.error.rounding && rounding > 0.6 * made.error.rounding, said);
        assert.ok(Math.abs(bias) <= total, said);
      }
});

test('coordinates below a rounding step make a bias, which the sample shows and the plan cannot', () => {
  // All but one coordinate is mostly below half a step. That one is a whole number of steps, and is
  // not scaled: rounding it would add an error of its own.
  const made = plan({ dimension: 1024, metric: 'dot', normBound: 1, profile: 'exact' });
  const step = 1 / made.steps;
  const random = new Random(4);
  const small = Array.from({ length: 100 }, () =>
    Float32Array.from({ length: 1024 }, (_, k) =>
      k === 0 ? step * Math.floor(0.99 / step) : 0.375 * step * (0.5 + random.uniform()),
    ),
  );
  const { bias } = scoreError(made, small);
  // Two coordinates of 0.375 steps on average lose their product, but where both are above half a
  // step.
  const expected = 1023 * step ** 2 * ((1 / 6) ** 2 - 0.375 ** 2);
  assert.ok(Math.abs(bias - expected) < 0.1 * Math.abs(expected), `${bias}, not ${expected}`);
});
