import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { minimum, minimumAsync } from './timing.ts';

test('both limits are reached, and warm-ups are not counted', () => {
  let calls = 0;
  const byRuns = minimum(() => calls++, { atLeastMs: 0, atLeastRuns: 7, warmups: 3 });
  assert.equal(byRuns.runs, 7);
  assert.equal(calls, 10);

  const byTime = minimum(() => spin(2), { atLeastMs: 20, atLeastRuns: 1, warmups: 0 });
  assert.ok(byTime.runs >= 2 && byTime.runs <= 10, `${byTime.runs} runs`);
  assert.ok(byTime.min >= 2 && byTime.min <= byTime.median);
});

test('there is always one run', () => {
  assert.equal(minimum(() => {}, { atLeastMs: 0, atLeastRuns: 0, warmups: 0 }).runs, 1);
});

test('an asynchronous run ends with its promise', async () => {
  const { min, median, runs } = await minimumAsync(() => wait(10), { atLeastMs: 0, atLeastRuns: 3, warmups: 1 });
  assert.equal(runs, 3);
  // Timers count whole milliseconds and may fire one early.
  assert.ok(min >= 8 && min <= median, `${min} ms, ${median} ms`);
});

function spin(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}
