// Partitions in a shell: what there is, what they cost, and tokens that are limited to some.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { hers, hersJson, serve, temporaryFolder, vectorOf } from '../testing/cli.ts';
import { EXIT } from './exit.ts';

const DIMENSION = 8;
const SITES = ['NL', 'DE', 'FR'];
const RECORDS = Array.from({ length: 18 }, (_, i) => ({
  id: `r${i}`,
  vector: [...vectorOf(i, DIMENSION)],
  payload: { site: SITES[i % 3], person: `p${i % 6}` },
}));
const lines = (records: readonly object[]) => `${records.map((each) => JSON.stringify(each)).join('\n')}\n`;
const idsOf = (site: string) => RECORDS.filter(({ payload }) => payload.site === site).map(({ id }) => id);

test('partitions are listed, counted, and what a token can be limited to', async () => {
  await using place = await temporaryFolder();
  const folder = place.path;
  const create = ['collections', 'create', 'sites', '-d', String(DIMENSION), '--field', 'site:keyword,person:keyword'];
  for (const args of [
    ['init', '--unsealed'],
    [...create, '--partition-by', 'site'],
  ])
    assert.equal((await hers(folder, args)).exit, 0);
  const imported = await hers(folder, ['import', '-', '--format', 'jsonl'], { input: lines(RECORDS) });
  assert.equal(imported.exit, 0, imported.err);
  assert.match(
    imported.err,
    /3 partitions; 18 records of 3 stay pending, because they do not fill a block\. A block of a partition takes [\d.]+ [kM]B, for up to /,
  );
  await hersJson(folder, ['optimize']);
  const { partitions } = await hersJson(folder, ['partitions']);
  const handles = new Map<string, string>(partitions.map((each: Record<string, string>) => [each.name, each.handle]));
  assert.deepEqual(
    partitions.map(({ name, records, pending, blocks }: Record<string, unknown>) => [name, records, pending, blocks]),
    SITES.toSorted().map((name) => [name, 6, 0, 1]),
  );
  const shown = await hers(folder, ['partitions', 'sites', '--handles', 'NL,XX']);
  assert.equal(shown.out.split('\n')[0], handles.get('NL'));
  assert.match(shown.out, /^[0-9a-f]{16}\n[0-9a-f]{16}\n$/);
  assert.equal((await hers(folder, ['count', '--partitions', 'NL,FR'])).out, '12\n');
  const listed = (await hers(folder, ['list', '--partitions', 'NL'])).out.trim().split('\n');
  assert.deepEqual(listed.toSorted(), idsOf('NL').toSorted());
  const probe = JSON.stringify([...vectorOf(3, DIMENSION)]);
  const verify = ['verify', probe, '--group', 'person=p3', '-t', '0.9'];
  assert.equal((await hers(folder, [...verify, '--partitions', 'NL'])).exit, 0);
  assert.equal((await hers(folder, [...verify, '--partitions', 'DE'])).exit, EXIT.absent);

  const token = ['tokens', 'create', '--scope', 'write', '--for', 'sites'];
  const limited = await hersJson(folder, [...token, '--partitions', handles.get('NL')!]);
  assert.deepEqual(limited.partitions, [handles.get('NL')]);
  assert.equal((await hers(folder, [...token, '--partitions', 'NL'])).exit, EXIT.usage, 'a name');
  assert.match((await hers(folder, ['tokens', 'list'])).out, new RegExp(`sites \\(${handles.get('NL')}\\)`));
  assert.ok(!(await readFile(join(folder, 'hers.tokens.json'), 'utf8')).includes('NL'));

  await using server = await serve(folder);
  const env = { HERS_TOKEN: limited.token, HERS_GALLERY: server.url };
  const ours = { env: { ...env, HERS_ONLY_PARTITIONS: 'NL' } };
  const { matches } = await hersJson(folder, ['search', probe, '-n', '100'], ours);
  assert.deepEqual(matches.map(({ id }: { id: string }) => id).toSorted(), idsOf('NL').toSorted());
  assert.equal((await hersJson(folder, ['count', '--only-partitions', 'NL'], { env })).records, 6);
  const more = (site: string) => lines([{ ...RECORDS[0], id: `new in ${site}`, payload: { site } }]);
  const add = ['import', '-', '--format', 'jsonl'];
  await hersJson(folder, add, { ...ours, input: more('NL') });
  assert.equal((await hers(folder, add, { ...ours, input: more('DE') })).exit, EXIT.key);
  await hersJson(folder, ['delete', 'r0'], ours);
  await hersJson(folder, ['optimize'], ours);
  const described = await hersJson(folder, ['collections', 'describe', 'sites'], ours);
  assert.deepEqual([described.records, described.blocks], [6, 1]);
  for (const args of [
    ['keys', 'rotate'],
    ['snapshot', 'x.snapshot'],
    ['fields', 'add', 'sites', 'age:number'],
    ['collections', 'delete', 'sites', '--yes'],
    ['count', '--partitions', 'DE'],
  ])
    assert.equal((await hers(folder, args, ours)).exit, EXIT.key, args.join(' '));
  const silent = await hers(folder, ['count'], { env });
  assert.equal(silent.exit, EXIT.integrity);
  assert.match(silent.err, /does not show all partitions/);
});

test('fields that are not finished are shown', async () => {
  await using place = await temporaryFolder();
  const folder = place.path;
  await hers(folder, ['init', '--unsealed']);
  await hersJson(folder, ['collections', 'create', 'people', '-d', String(DIMENSION)]);
  const broken = { ...RECORDS[3]!, id: 'broken', payload: { person: 7 } };
  await hersJson(folder, ['import', '-', '--format', 'jsonl'], { input: lines([...RECORDS, broken]) });
  await hersJson(folder, ['optimize']);
  assert.notEqual((await hers(folder, ['fields', 'add', 'people', 'person:keyword'])).exit, 0);
  assert.deepEqual((await hersJson(folder, ['fields', 'list'])).unfinishedFields, { person: 1 });
  const text = /^Not finished: person \(1 blocks? without it\)\. /m;
  assert.match((await hers(folder, ['fields', 'list'])).err, text);
  assert.match((await hers(folder, ['collections', 'describe', 'people'])).err, text);
  await hersJson(folder, ['update-payload', 'broken', '{"person": "seven"}']);
  await hersJson(folder, ['fields', 'add', 'people', 'person:keyword']);
  assert.deepEqual(await hersJson(folder, ['fields', 'list']), { collection: 'people', fields: { person: 'keyword' } });
});
