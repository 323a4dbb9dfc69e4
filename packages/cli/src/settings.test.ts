import assert from 'node:assert/strict';
import { chown, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../testing/cli.ts';
import { Settings, unknownVariables } from './settings.ts';

test('flags win over the environment, which wins over the file, which wins over the default', async () => {
  await using folder = await temporaryFolder();
  const cwd = folder.path;
  const file = join(cwd, 'hers.config.json');
  const value = (env: Record<string, string>, flags: { key?: string } = {}) =>
    new Settings({ cwd, env }, flags).get('key');
  assert.deepEqual(value({}), { value: join(cwd, 'hers.key'), origin: 'default' });
  await writeFile(file, '{"key":"file.key"}');
  assert.deepEqual(value({}), { value: join(cwd, 'file.key'), origin: file });
  assert.deepEqual(value({ HERS_KEY: '' }), { value: join(cwd, 'file.key'), origin: file });
  assert.deepEqual(value({ HERS_KEY: 'env.key' }), { value: join(cwd, 'env.key'), origin: 'HERS_KEY' });
  assert.deepEqual(value({ HERS_KEY: 'env.key' }, { key: 'flag.key' }), {
    value: join(cwd, 'flag.key'),
    origin: '--key',
  });
});

test('the nearest file counts, and its paths begin where it lies', async () => {
  await using folder = await temporaryFolder();
  const cwd = join(folder.path, 'a/b');
  await mkdir(cwd, { recursive: true });
  await writeFile(join(folder.path, 'hers.config.json'), '{"gallery":"g","threads":3}');
  const settings = new Settings({ cwd, env: {} });
  assert.equal(settings.value('gallery'), join(folder.path, 'g'));
  assert.equal(settings.value('key'), join(folder.path, 'hers.key'));
  assert.equal(settings.threads, 3);
  assert.equal(new Settings({ cwd, env: { HERS_GALLERY: 'g' } }).value('gallery'), join(cwd, 'g'));
});

test('a gallery may be written as the SDK writes it', async () => {
  const settings = (gallery: string) => new Settings({ cwd: '/home', env: {} }, { gallery }).value('gallery');
  assert.equal(settings('file:./g'), '/home/g');
  assert.equal(settings('file:///srv/g'), '/srv/g');
  assert.equal(settings('/srv/g'), '/srv/g');
});

const asRoot = { skip: process.getuid?.() === 0 ? false : 'only root can give files to others' };

test('a file of somebody else is not taken just because it lies there', asRoot, async () => {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'hers.config.json');
  await writeFile(file, '{"gallery":"/trap"}');
  await chown(file, 12345, 12345);
  const cwd = join(folder.path, 'inner');
  await mkdir(cwd);
  assert.throws(() => new Settings({ cwd, env: {} }), /belongs to another user/);
  assert.equal(new Settings({ cwd, env: {} }, { config: file }).value('gallery'), '/trap');
});

test('variables with a typing error are named', () => {
  assert.deepEqual(unknownVariables({ HERS_KEY: 'x', HERS_PASPHRASE: 'y', PATH: 'z' }), ['HERS_PASPHRASE']);
});
