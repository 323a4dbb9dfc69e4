import assert from 'node:assert/strict';
import { test } from 'node:test';
import { run } from './open.ts';

test('bench open reports bytes, errors and times of open queries', async () => {
  const { results } = await run({ count: '9000', dimension: '32', searches: '2', quick: true });
  const value = (name: string) => results.find((each) => each.name === name)!.value;
  assert.equal(value('query-bytes-device'), 332);
  assert.ok(value('query-bytes-public') <= 30_000);
  assert.ok(value('response-bytes') <= 1.9);
  // One query: its rows have one rounding error each, which all scores share.
  assert.ok(value('score-error') > 0.0008 && value('score-error') < 0.0016, `${value('score-error')}`);
  for (const name of ['expand-1-ms', 'expand-2-ms', 'pack-us', 'plain-us']) assert.ok(value(name) > 0);
  for (const name of ['search-p50', 'compact-p50', 'search-p50-20mbit', 'compact-p50-20mbit'])
    assert.ok(value(name) > 0, name);
  assert.equal(value('rank-1'), value('compact-rank-1'));
  await assert.rejects(run({ dimension: '1' }), /whole number/);
});
