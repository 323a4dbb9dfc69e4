// Times, as a store sees them, tell little about whether a search had a filter: the short form of
// testing/filter-timing.ts, which says what is tested and how often it is wrong.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { FALSE_ALARM, signTest, timeFilters } from '../testing/filter-timing.ts';

it('the sign test is the binomial one', () => {
  assert.equal(signTest([]), 1);
  assert.equal(signTest([1, -1]), 0.75);
  assert.ok(Math.abs(signTest([1, 2, 3, 4, 5]) - 1 / 32) < 1e-12);
  assert.ok(Math.abs(signTest([1, 1, 1, -1, 0]) - 5 / 16) < 1e-12);
  assert.ok(Math.abs(signTest(Array(30).fill(1)) / 2 ** -30 - 1) < 1e-9);
  assert.ok(Math.abs(signTest(Array(30).fill(-1)) - 1) < 1e-9);
});

it('a filter adds at most a millisecond before a search and after its answer', async () => {
  const { before, after } = await timeFilters({ pairs: 30 });
  assert.ok(before.p > FALSE_ALARM, `before: p = ${before.p}, median difference ${before.medianMs} ms`);
  assert.ok(after.p > FALSE_ALARM, `after: p = ${after.p}, median difference ${after.medianMs} ms`);
});

it('a filter that took long before the search would be noticed, and adds nothing after its answer', async () => {
  const { before, after } = await timeFilters({ pairs: 30, delayMs: 20 });
  // Less strict, for machines that are busy with other things.
  assert.ok(before.p < 1e-3, `p = ${before.p}, median difference ${before.medianMs} ms`);
  assert.ok(after.p > FALSE_ALARM, `after: p = ${after.p}, median difference ${after.medianMs} ms`);
});
