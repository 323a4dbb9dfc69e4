// Every command does to a server what it does to a folder.

import assert from 'node:assert/strict';
import { stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { hers, hersJson, PEOPLE, Prepared, serve, temporaryFolder, vectorOf, writeGallery } from '../testing/cli.ts';
import { EXIT, Interrupted } from './exit.ts';

let prepared: Prepared;
before(async () => {
  prepared = await Prepared.make(writeGallery);
});
after(() => prepared.remove());

test('every command works against a server, with a token from a variable or a file', async () => {
  const folder = await prepared.copy();
  const admin = await hersJson(folder, ['tokens', 'create', '--scope', 'admin', '--note', 'for tests']);
  const reader = await hersJson(folder, ['tokens', 'create', '--scope', 'search', '--for', 'faces']);
  assert.equal((await stat(join(folder, 'hers.tokens.json'))).mode & 0o777, 0o600);
  await using server = await serve(folder, '--audit-log', 'audit.jsonl');
  await using client = await temporaryFolder();
  const at = client.path;
  await writeFile(join(at, 'token'), `${admin.token}\n`, { mode: 0o600 });
  const config = { gallery: server.url, key: join(folder, 'hers.key'), tokenFile: 'token' };
  await writeFile(join(at, 'hers.config.json'), JSON.stringify(config));

  const [collection, probe] = [['--collection', 'faces'], JSON.stringify([...vectorOf(2.2)])];
  assert.equal((await hersJson(at, ['count', ...collection])).records, PEOPLE.length);
  const [match] = (await hersJson(at, ['search', probe, ...collection])).matches;
  assert.equal(match.id, PEOPLE[2]);
  assert.equal((await hers(at, ['verify', PEOPLE[2], probe, '--threshold', '0.5', ...collection])).exit, 0);
  await hersJson(at, ['collections', 'create', 'more', '--dimension', '2']);
  await hersJson(at, ['import', '-', '--row-ids', '--collection', 'more'], { input: '1,0\n0,1\n' });
  await hersJson(at, ['delete', '0', '--collection', 'more']);
  await hersJson(at, ['fields', 'add', 'more', 'age:number,expires:date']);
  await hersJson(at, ['update-payload', '1', '{"age": 18}', '--collection', 'more']);
  assert.equal((await hers(at, ['list', '--filter', 'age >= 18', '--collection', 'more'])).out, '1\n');
  assert.equal((await hersJson(at, ['expire', 'more'])).count, 0);
  await hersJson(at, ['fields', 'drop', 'more', 'age', '--yes']);
  await hersJson(at, ['optimize', '--collection', 'more']);
  await hersJson(at, ['keys', 'rotate', '--collection', 'more']);
  await hersJson(at, ['snapshot', 'more.snapshot', '--collection', 'more']);
  await hersJson(at, ['restore', 'more.snapshot', '--as', 'copy']);
  assert.deepEqual(
    (await hersJson(at, ['collections', 'list'])).collections.map(({ name }: { name: string }) => name).sort(),
    ['copy', 'faces', 'more', 'tiny'],
  );
  assert.ok((await hersJson(at, ['doctor', '--scrub'])).healthy);
  await hersJson(at, ['collections', 'delete', 'copy', '--yes']);

  // A token of one collection and a small scope, from a variable, which wins over the file of the
  // configuration.
  const env = { HERS_TOKEN: reader.token };
  assert.equal((await hersJson(at, ['count', ...collection], { env })).records, PEOPLE.length);
  const refused = await hers(at, ['count', '--collection', 'more'], { env });
  assert.equal(refused.exit, EXIT.key);
  assert.match(refused.err, /this token is for another collection; use another token/);
  assert.equal((await hers(at, ['delete', 'ada', ...collection], { env })).exit, EXIT.key);

  // What is revoked is refused at once.
  await hersJson(folder, ['tokens', 'revoke', reader.id]);
  const gone = await hers(at, ['count', ...collection], { env });
  assert.equal(gone.exit, EXIT.key);
  assert.match(gone.err, /is not known, or was revoked/);
  const { exit, err } = await hers(at, ['count', ...collection, '--token-file', 'nothing']);
  assert.equal(exit, EXIT.absent, err);
  const { tokens } = await hersJson(folder, ['tokens', 'list']);
  assert.deepEqual(
    tokens.map(({ id, note }: { id: string; note?: string }) => [id, note]),
    [[admin.id, 'for tests']],
  );
});

describe('a careless server does not start, and says why', () => {
  for (const [what, args, message] of [
    [
      'no TLS',
      ['--host', '0.0.0.0'],
      /without TLS everybody on the way could read the tokens.*--tls-cert.*--allow-plaintext/,
    ],
    [
      'no tokens',
      ['--host', '0.0.0.0', '--allow-plaintext'],
      /without tokens whoever reaches it could delete.*hers tokens create.*--allow-anyone/,
    ],
    [
      'a token file that is not there',
      ['--tokens', 'nothing.json'],
      /there is no token in .*nothing.json, so nobody could use/,
    ],
    ['half of TLS', ['--tls-cert', 'server.crt'], /a certificate and its private key go together/],
    ['names of no files', ['--tls-cert', '', '--tls-key', ''], /which should hold the certificate, cannot be read/],
    [
      'a certificate that is none',
      ['--tls-cert', 'vectors.npy', '--tls-key', 'server.key'],
      /are not a certificate and its private key/,
    ],
    ['an origin that is none', ['--cors', 'app.example'], /is not an origin; write it as browsers do/],
    ['a port that is none', ['--port', '99999'], /--port takes a number from 0 to 65535/],
    ['a limit that is none', ['--max-scans', '0'], /the limit scans is a number from 1, not 0/],
  ] as const) {
    test(what, async () => {
      const { exit, out, err } = await hers(await prepared.copy(), ['serve', '--port', '0', ...args]);
      assert.equal(exit, EXIT.usage, err);
      assert.equal(out, '');
      assert.match(err, message);
    });
  }
});

test('the help of serve shows every limit and its default', async () => {
  const { out } = await hers('/', ['serve', '--help']);
  const flat = out.replace(/\s+/g, ' ');
  for (const [flag, value] of [
    ['--max-body-bytes', 75497472],
    ['--max-scans', 4],
    ['--max-queue', 128],
    ['--max-requests', 64],
    ['--max-request-seconds', 120],
    ['--max-header-seconds', 10],
    ['--max-idle-seconds', 60],
  ] as const)
    assert.match(flat, new RegExp(`${flag} <number> [^(]*\\(default: ${value}\\)`));
});

test('a server that is not there is tried again until Ctrl-C; an address that cannot be is given up at once', async () => {
  const folder = await prepared.copy();
  const port = await new Promise<number>((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Interrupted('SIGINT')), 700);
  const gallery = ['--gallery', `http://127.0.0.1:${port}`];
  const { exit, err } = await hers(folder, ['count', ...gallery], { signal: stop.signal });
  assert.equal(exit, EXIT.interrupted);
  assert.match(
    err,
    /connect: http:\/\/127.0.0.1:\d+ cannot be reached: connect ECONNREFUSED.*; attempt 2 in \d\.\d s\./,
  );
  const never = await hers(folder, ['count', '--gallery', 'http://127.0.0.1:9']);
  assert.equal(never.exit, EXIT.storage);
  assert.equal(
    never.err,
    'hers: http://127.0.0.1:9 cannot be reached: bad port; check --gallery, and that the server runs.\n',
  );
});
