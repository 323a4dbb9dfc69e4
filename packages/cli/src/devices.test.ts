// Devices and the keeper, as commands.

import assert from 'node:assert/strict';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDevice } from '@hers/client/device';
import { hers, hersJson, serve, temporaryFolder, vectorOf } from '../testing/cli.ts';
import { EXIT, Interrupted } from './exit.ts';

const DIMENSION = 8;
const near = (i: number) => [...vectorOf(i + 0.05, DIMENSION)];

/** A served folder with an open collection of four, and the folder of its keeper. */
async function setUp(...flags: string[]) {
  const owner = await temporaryFolder();
  const keeper = await temporaryFolder();
  await hersJson(owner.path, ['init', '--unsealed']);
  const admin = await hersJson(owner.path, ['tokens', 'create', '--scope', 'admin']);
  const server = await serve(owner.path, ...flags);
  const at = keeper.path;
  await writeFile(join(at, 'token'), `${admin.token}\n`, { mode: 0o600 });
  const config = {
    gallery: server.url,
    key: join(owner.path, 'hers.key'),
    tokenFile: 'token',
    tokens: join(owner.path, 'hers.tokens.json'),
    collection: 'faces',
  };
  await writeFile(join(at, 'hers.config.json'), JSON.stringify(config));
  await hersJson(at, ['collections', 'create', 'faces', '--dimension', String(DIMENSION), '--profile', 'open']);
  const rows = [0, 1, 2, 3].map((i) => [...vectorOf(i, DIMENSION)].join(',')).join('\n');
  await hersJson(at, ['import', '-', '--row-ids'], { input: rows });
  return {
    at,
    server,
    config,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await keeper[Symbol.asyncDispose]();
      await owner[Symbol.asyncDispose]();
    },
  };
}

test('a device with a key of its own asks with little, and leaves as much as the server allows', async () => {
  await using world = await setUp('--inbox-items', '2', '--inbox-bytes', '5000', '--inbox-age', '3600');
  const { at } = world;
  const printed = await hers(at, ['devices', 'add', 'gate', '--own-key', '--make-token']);
  assert.equal(printed.exit, 0, printed.err);
  const gate = openDevice(undefined, printed.out);
  await gate.ask(near(1));
  await gate.ask(near(3));
  await assert.rejects(gate.ask(near(1)), { code: 'INBOX_FULL' });
  // One question with the public key has more than 5000 bytes.
  const wide = openDevice(undefined, (await hers(at, ['devices', 'add', 'door', '--make-token'])).out);
  await assert.rejects(wide.ask(near(1)), { code: 'INBOX_FULL' });
  const lines = (await hers(at, ['keeper', '--once', '--json'])).out.trim().split('\n');
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).matches[0].id),
    ['1', '3'],
  );
  const { devices } = await hersJson(at, ['devices', 'list']);
  assert.deepEqual(
    devices.map(({ name, hasOwnKey }: { name: string; hasOwnKey: boolean }) => [name, hasOwnKey]),
    [
      ['gate', true],
      ['door', false],
    ],
  );
  assert.match((await hers(at, ['devices', 'list'])).out, /gate\tyes/);
  // Renewed, it has another one.
  const renewed = JSON.parse((await hers(at, ['devices', 'renew', 'gate'])).out);
  assert.ok(renewed.own.secret > JSON.parse(printed.out).own.secret);
  for (const wrong of [
    ['--inbox-items', '0'],
    ['--inbox-bytes', 'much'],
    ['--inbox-age', '1.5'],
  ])
    assert.equal((await hers(at, ['serve', '--gallery', at, ...wrong])).exit, EXIT.usage);
});

test('a device is added, asks, is answered and revoked', async () => {
  await using world = await setUp();
  const { at, server, config } = world;
  const printed = await hers(at, ['devices', 'add', 'door-3', '--make-token']);
  assert.equal(printed.exit, 0, printed.err);
  const door = openDevice(undefined, printed.out);
  await hersJson(at, ['devices', 'add', 'kiosk', '--make-token', '--enrol', '2', '--output', 'kiosk.device']);
  assert.equal((await stat(join(at, 'kiosk.device'))).mode & 0o777, 0o600);
  const kiosk = openDevice(undefined, await readFile(join(at, 'kiosk.device'), 'utf8'));
  await door.ask(near(2));
  await kiosk.enrol({ id: 'visitor', vector: vectorOf(9, DIMENSION) });

  const once = await hers(at, ['keeper', '--once', '--json']);
  assert.equal(once.exit, 0, once.err);
  const lines = once.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const answered = lines.find(({ matches }) => matches);
  assert.deepEqual([answered.device, answered.matches[0].id], ['door-3', '2']);
  assert.deepEqual(lines.find(({ enrolled }) => enrolled)?.enrolled, 'visitor');
  // Each question once, also by a keeper that starts again.
  assert.equal((await hers(at, ['keeper', '--once', '--json'])).out, '');

  // As a service, with a webhook.
  const told: string[] = [];
  const stop = new AbortController();
  const hook = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (piece) => (text += piece));
    request.on('end', () => {
      told.push(text);
      response.end();
      stop.abort(new Interrupted('SIGTERM'));
    });
  });
  await new Promise<void>((resolve) => hook.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/asked`;
  await kiosk.ask(vectorOf(9, DIMENSION));
  const kept = await hers(at, ['keeper', '--poll', '0.05', '--webhook', url], { signal: stop.signal });
  hook.close();
  assert.equal(kept.exit, 0, kept.err);
  assert.match(kept.out, / {2}kiosk {2}visitor 0\.99\d|1\.00\d/);
  assert.equal(JSON.parse(told[0]).matches[0].id, 'visitor');
  assert.equal((await hers(at, ['keeper', '--webhook', `${server.url}/x`])).exit, EXIT.usage);

  const { devices } = await hersJson(at, ['devices', 'list']);
  assert.deepEqual(
    devices.map(({ name, number }: { name: string; number: number }) => [number, name]),
    [
      [1, 'door-3'],
      [2, 'kiosk'],
    ],
  );
  await hersJson(at, ['devices', 'revoke', 'door-3']);
  await assert.rejects(door.ask(near(1)), /revoked/);
  assert.equal((await hers(at, ['devices', 'revoke', 'nobody'])).exit, EXIT.absent);
  assert.equal((await hers(at, ['devices', 'add', 'x', '--into', 'y'])).exit, EXIT.usage);
  // The token of a device does nothing else.
  const token = JSON.parse(printed.out).token;
  for (const command of [['count'], ['search', JSON.stringify(near(1))], ['devices', 'list']])
    assert.equal((await hers(at, command, { env: { HERS_TOKEN: token } })).exit, EXIT.key);
  // Nor does the list of the server's tokens know how it is called.
  assert.ok(!(await readFile(config.tokens, 'utf8')).includes('door-3'));
});
