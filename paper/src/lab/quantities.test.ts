import assert from 'node:assert/strict';
import { test } from 'node:test';
import { table } from './markdown.ts';
import {
  bytes,
  counted,
  decimals,
  marked,
  percent,
  plusMinus,
  seconds,
  signed,
  templates,
  times,
} from './quantities.ts';

test('quantities are written for people', () => {
  assert.deepEqual([12_700_000, 138_250, 300, 1234.5, 12.34, 1, 0.0204, 0.000229].map(seconds), [
    '12 700 000 s',
    '138 250 s',
    '300 s',
    '1 230 s',
    '12.3 s',
    '1 s',
    '20.4 ms',
    '229 µs',
  ]);
  assert.deepEqual([0.5, 999, 131_072, 5.9e6, 9e12].map(bytes), ['0.5 B', '999 B', '131 KB', '5.9 MB', '9 TB']);
  assert.deepEqual([1, 4096, 1e6, 1e8, 1_234_567].map(templates), [
    '1',
    '4 096',
    '1 million',
    '100 million',
    '1 234 567',
  ]);
  assert.deepEqual([12.5, 0.25].map(times), ['12.5 ×', '1/4 ×']);
  assert.equal(marked('3 s', 'extrapolated'), '≈ 3 s *');
  assert.equal(marked('3 s', 'measured'), '3 s');
  assert.equal(plusMinus(0.9671, 0.0039, 3), '0.967 ± 0.004');
  assert.deepEqual([decimals(-0.25, 1), signed(-0.0012), signed(0.0012, 3)], ['−0.3', '−0.0012', '+0.001']);
  assert.equal(percent(0.4371), '43.7');
  assert.equal(counted({ vectors: 7010, labels: 2872 }, 'people'), '7 010 vectors of 2 872 people');
});

test('a table is Markdown, and lines up', () => {
  assert.equal(table(['a', 'b'], [['x|y', '1']]), ['| a    |   b |', '|:---- | ---:|', '| x\\|y |   1 |'].join('\n'));
});
