// What the commands say about profiles and integrity.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { hers, hersJson, temporaryFolder } from '../testing/cli.ts';

describe('create --profile', () => {
  test('small says what it costs, and is refused where it is no smaller', async () => {
    await using folder = await temporaryFolder();
    const { path } = folder;
    assert.equal((await hers(path, ['init', '--unsealed'])).exit, 0);
    const create = (name: string, dimension: number) =>
      hers(path, ['collections', 'create', name, '--dimension', String(dimension), '--profile', 'small']);
    const { exit, out, err } = await create('small', 128);
    assert.equal(exit, 0, err);
    assert.match(out, /^error\t0\.0035 \(rms\) in every score, 0\.00007 of it from rounding vectors$/m);
    assert.match(out, /^a stored vector\t405 bytes$/m);
    assert.match(
      err,
      /error of 0\.0035 .*Under compact it would be 0\.00045 .* at 530 bytes a vector instead of 405 bytes/,
    );
    assert.match(out, /^blocks\t0 of up to 2,032 records$/m);
    const refused = await create('tiny', 16);
    assert.notEqual(refused.exit, 0);
    assert.match(
      refused.err,
      /small takes 67 bytes for a vector of 16 dimensions, and an array of floats 64: use compact/,
    );
  });
});

test('create --integrity strong: is shown by describe, and refused where every score is checked already', async () => {
  await using folder = await temporaryFolder();
  const { path } = folder;
  assert.equal((await hers(path, ['init', '--unsealed'])).exit, 0);
  const create = (name: string, ...more: string[]) =>
    hers(path, ['collections', 'create', name, '--dimension', '32', ...more]);
  for (const [profile, records, note] of [
    [
      'compact',
      '2,008',
      'one slot in 65: a vector takes 147 bytes instead of 145 bytes, and a block holds 2,008 records',
    ],
    [
      'small',
      '1,912',
      'one slot in 17: a vector takes 122 bytes instead of 115 bytes, and a block holds 1,912 records',
    ],
  ]) {
    const made = await create(profile, '--profile', profile, '--integrity', 'strong');
    assert.equal(made.exit, 0, made.err);
    assert.ok(made.err.includes(note), made.err);
    for (const { out } of [made, await hers(path, ['collections', 'describe', profile])]) {
      assert.match(out, /^integrity\tstrong$/m);
      assert.ok(out.includes(`\nblocks\t0 of up to ${records} records\n`), out);
    }
  }
  assert.match((await create('plain')).out, /^integrity\tstandard$/m);
  const { collections } = await hersJson(path, ['collections', 'list']);
  assert.deepEqual(
    collections.map(({ name, integrity }: { name: string; integrity: string }) => `${name} ${integrity}`),
    ['compact strong', 'plain standard', 'small strong'],
  );
  const { exit, err } = await create('exact', '--profile', 'exact', '--integrity', 'strong');
  assert.notEqual(exit, 0);
  assert.match(err, /checks every score already, by sums that are exact; leave out integrity: 'strong'/);
  assert.notEqual((await create('x', '--integrity', 'stronger')).exit, 0);
});
