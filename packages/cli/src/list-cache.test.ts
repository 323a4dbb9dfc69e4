// Commands keep the lists of servers beside the key file, and those of folders nowhere.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { hers, hersJson, serve, temporaryFolder, vectorOf, writeGallery } from '../testing/cli.ts';
import { EXIT } from './exit.ts';

test('lists of a server are kept for its owner alone, unless --list-cache or its variable is off', async () => {
  await using place = await temporaryFolder();
  const folder = place.path;
  await writeGallery(folder);
  const lists = join(folder, 'hers.key.lists');
  await hersJson(folder, ['optimize', '--collection', 'faces']);
  const search = ['search', JSON.stringify([...vectorOf(2.2)]), '--collection', 'faces'];
  const { matches } = await hersJson(folder, search);
  assert.ok(!existsSync(lists));
  await using server = await serve(folder);
  const remote = [...search, '--gallery', server.url];
  assert.deepEqual((await hersJson(folder, [...remote, '--list-cache', 'off'])).matches[0].id, matches[0].id);
  await hersJson(folder, remote, { env: { HERS_LIST_CACHE: 'off' } });
  assert.ok(!existsSync(lists));
  for (let i = 0; i < 2; i++) assert.equal((await hersJson(folder, remote)).matches[0].id, matches[0].id);
  const [name, ...others] = await readdir(lists);
  assert.deepEqual(others, []);
  assert.equal((await stat(lists)).mode & 0o777, 0o700);
  assert.equal((await stat(join(lists, name))).mode & 0o777, 0o600);
  assert.equal((await hers(folder, [...remote, '--list-cache', 'maybe'])).exit, EXIT.usage);
});
