// What goes wrong in the first days, and the next step that the error names.

import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startServer } from '@hers/server';
import { openStore } from '@hers/store';
import {
  binFolder,
  childEnv,
  hers,
  Prepared,
  quicklySealed,
  shell,
  temporaryFolder,
  writeGallery,
} from '../testing/cli.ts';
import { EXIT } from './exit.ts';

let prepared: Prepared;
before(async () => {
  prepared = await Prepared.make(writeGallery);
});
after(() => prepared.remove());

describe('every refusal names the next step', () => {
  const tiny = ['--collection', 'tiny'];
  for (const [what, args, exit, message] of [
    [
      'a collection that is not there',
      ['collections', 'describe', 'nosuch'],
      EXIT.absent,
      /"nosuch"; `hers collections list` shows which there are/,
    ],
    [
      'one to work on',
      ['count', '--collection', 'nosuch'],
      EXIT.absent,
      /"nosuch"; `hers collections list` shows which there are/,
    ],
    [
      'one that is there already',
      ['collections', 'create', 'faces', '--dimension', '4'],
      EXIT.absent,
      /a collection faces already; use it, or choose another name/,
    ],
    [
      'a token',
      ['tokens', 'revoke', 'nosuch', '--tokens', 'server-tokens.json'],
      EXIT.absent,
      /there is no token "nosuch" in .*; `hers tokens list` shows which there are/,
    ],
    [
      'a record',
      ['verify', 'nosuch', 'probes.npy', '--row', '0'],
      EXIT.absent,
      /there is no record "nosuch"; `hers list` prints the ids there are/,
    ],
    [
      'a probe of another length',
      ['search', '[1, 2, 3]', ...tiny],
      EXIT.input,
      /has 3 coordinates, and the collection takes 4; use the model that the gallery was made with/,
    ],
    [
      'a file of another dimension',
      ['import', 'vectors.npy', '--row-ids', ...tiny],
      EXIT.input,
      /128 dimensions, and the collection takes 4; name another with --collection, or make one: .* --dimension 128/,
    ],
    [
      'a certificate',
      ['serve', '--port', '0', '--tls-cert', 'nosuch', '--tls-key', 'server.key'],
      EXIT.usage,
      /cannot be read \(ENOENT\); check its path and permissions/,
    ],
    [
      'an address without its scheme',
      ['count', '--gallery', '127.0.0.1:7443'],
      EXIT.usage,
      /looks like a server without its scheme; write https:\/\/127\.0\.0\.1:7443, http:/,
    ],
    [
      'an address of another kind',
      ['init', 'new', '--unsealed', '--gallery', 'ftp://x'],
      EXIT.usage,
      /neither a folder nor the address of a server, such as https:/,
    ],
    ['a server that is not there', ['count', '--gallery', 'http://none.invalid'], EXIT.storage, /that the server runs/],
    [
      'a snapshot that is none',
      ['restore', 'names.txt'],
      EXIT.input,
      /names\.txt is no snapshot, or is damaged \(.*\); name a file that `hers snapshot` wrote/,
    ],
    [
      'a snapshot of a collection that is there',
      ['restore', 'old-faces.snapshot', '--as', 'faces'],
      EXIT.absent,
      /a collection faces already; choose another name with --as/,
    ],
  ] as const)
    test(what, async () => {
      const folder = await prepared.copy();
      const { exit: found, err } = await hers(folder, args);
      assert.match(err, message);
      assert.equal(found, exit);
    });

  test('a snapshot whose name is no name', async () => {
    const folder = await prepared.copy();
    await writeFile(join(folder, 'my faces.snapshot'), await readFile(join(folder, 'old-faces.snapshot')));
    const { exit, err } = await hers(folder, ['restore', 'my faces.snapshot']);
    assert.equal(exit, EXIT.usage);
    assert.match(err, /"my faces" is no name for a collection.*; say what it shall be called with --as/);
  });

  test('a folder that a server writes', async () => {
    const folder = await prepared.copy();
    const store = await openStore(join(folder, 'gallery'));
    try {
      const { exit, err } = await hers(folder, ['optimize']);
      assert.equal(exit, EXIT.storage);
      assert.match(err, /where it is `hers serve`, write through it: --gallery http:/);
    } finally {
      await store.close();
    }
  });
});

test('a folder of the name of an address can be named', async () => {
  const folder = await prepared.copy();
  await mkdir(join(folder, 'host:7443'));
  const { err } = await hers(folder, ['collections', 'list', '--gallery', './host:7443']);
  assert.doesNotMatch(err, /scheme/);
});

test('init without a terminal and without a passphrase leaves nothing behind', async () => {
  await using folder = await temporaryFolder();
  const { exit, err } = await hers(folder.path, ['init', 'new']);
  assert.equal(exit, EXIT.key);
  assert.match(err, /there is no terminal to ask for it; set HERS_PASSPHRASE/);
  assert.deepEqual(await readdir(folder.path), []);
});

test('doctor says that the file of the passphrase is missing, or empty', async () => {
  const folder = await prepared.copy();
  const key = join(folder, 'hers.key');
  await writeFile(key, await quicklySealed('hush', await readFile(key, 'utf8')), { mode: 0o600 });
  await writeFile(join(folder, 'empty'), '', { mode: 0o600 });
  for (const [file, finding] of [
    ['nosuch', /^problem\tpassphrase\tthere is no .*nosuch\tcheck the path$/m],
    ['empty', /^problem\tpassphrase\t.*empty is empty\tcheck HERS_PASSPHRASE or --passphrase-file$/m],
  ] as const) {
    const { exit, out } = await hers(folder, ['doctor', '--passphrase-file', file]);
    assert.match(out, finding);
    assert.equal(exit, EXIT.no);
  }
});

test('doctor writes all sizes in one kind of unit', async () => {
  const { out } = await hers(await prepared.copy(), ['doctor']);
  assert.match(out, /^ok\tmemory\t[\d.]+ [GT]B, /m);
  assert.doesNotMatch(out, /[KMG]iB/);
});

test('every help shows how to get it', async () => {
  for (const path of [['count'], ['keys', 'create'], ['collections']])
    assert.match((await hers('/', [...path, '--help'])).out, /^ {2}-h, --help {2,}print what there is$/m);
});

test('a certificate for another host, and the wrong scheme', async () => {
  const folder = await prepared.copy();
  const store = await openStore(join(folder, 'gallery'), { mode: 'read' });
  const tls = { cert: join(folder, 'server.crt'), key: join(folder, 'server.key') };
  const server = await startServer(store, { host: '127.0.0.2', port: 0, tls });
  try {
    const env = childEnv(await binFolder(folder), { NODE_EXTRA_CA_CERTS: tls.cert });
    const other = await shell(folder, `hers count --gallery ${server.url}`, env);
    assert.equal(other.exit, EXIT.key, other.err);
    assert.match(other.err, /altnames.*; name the server in --gallery as its certificate does/);
    const plain = server.url.replace('https:', 'http:');
    const scheme = await hers(folder, ['count', '--gallery', plain]);
    assert.equal(scheme.exit, EXIT.usage);
    assert.equal(scheme.err, `hers: ${plain} speaks TLS; its address is ${server.url}.\n`);
    const doctor = await hers(folder, ['doctor', '--gallery', plain]);
    assert.match(doctor.out, /^problem\tgallery\t.* speaks TLS; .*\tcheck --gallery/m);
  } finally {
    await server.close();
  }
});
