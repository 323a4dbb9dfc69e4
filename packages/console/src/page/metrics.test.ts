// What the page reads out of the metrics of a server.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { growth, numberIn, quantile, readingOf } from './metrics.ts';

const BOUNDS = [0.001, 0.005, 0.01, 0.05, 0.1, 1];

/** As a server writes them down. */
function textOf(durations: readonly number[]): string {
  const lines = BOUNDS.map(
    (bound) =>
      `hers_request_seconds_bucket{operation="search",le="${bound}"} ${durations.filter((each) => each <= bound).length}`,
  );
  return [
    '# HELP hers_request_seconds From the head of a request to the end of its answer.',
    ...lines,
    `hers_request_seconds_bucket{operation="search",le="+Inf"} ${durations.length}`,
    `hers_searches_total ${durations.length}`,
    '',
  ].join('\n');
}

test('a reading has its numbers, and nothing for what is not there', () => {
  const reading = readingOf(textOf([0.002, 0.2]), 1);
  assert.equal(numberIn(reading, 'hers_searches_total'), 2);
  assert.equal(numberIn(reading, 'hers_request_seconds_bucket{operation="search",le="0.005"}'), 1);
  assert.equal(numberIn(reading, 'nothing'), 0);
  assert.equal(readingOf('garbage \u0000 {', 1).values.size, 0);
});

test('a counter of a server that was started again counts from zero', () => {
  const [before, after] = [readingOf('a 10\n', 1), readingOf('a 3\n', 2)];
  assert.equal(growth(before, after, 'a'), 3);
  assert.equal(growth(after, before, 'a'), 7);
});

test('a quantile lies in the bucket in which sorting finds it', () => {
  let seed = 7;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  const older = Array.from({ length: 40 }, () => random());
  const newer = Array.from({ length: 500 }, () => 0.0005 + random() ** 4 * 0.9);
  const [before, after] = [readingOf(textOf(older), 1), readingOf(textOf([...older, ...newer]), 2)];
  const sorted = newer.toSorted((a, b) => a - b);
  for (const share of [0.1, 0.5, 0.9, 0.95, 1]) {
    const exact = sorted[Math.ceil(share * sorted.length) - 1]!;
    const upper = BOUNDS.find((bound) => exact <= bound)!;
    const lower = BOUNDS.toReversed().find((bound) => bound < exact) ?? 0;
    const found = quantile(before, after, 'search', share)!;
    assert.ok(found >= lower && found <= upper, `${share}: ${found} is not from ${lower} to ${upper}`);
  }
  assert.equal(quantile(before, before, 'search', 0.5), undefined);
  assert.equal(quantile(before, after, 'other', 0.5), undefined);
});

test('what took longer than every bound is told as the last of them', () => {
  const [before, after] = [readingOf(textOf([]), 1), readingOf(textOf([5, 6, 7]), 2)];
  assert.equal(quantile(before, after, 'search', 0.5), 1);
});
