// What an admin may ask of a server: tokens that are made with tokens and go with them, the end of
// the audit log, a doctor that is not asked too often.

import assert from 'node:assert/strict';
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { encodeMessage, OCTETS } from '@hers/service';
import { openStore } from '@hers/store';
import { type RunningServer, startServer } from './server.ts';
import { TokenStore } from './tokens.ts';

describe('what an admin may ask', () => {
  let folder: string;
  let server: RunningServer;
  let admin: string;
  let tokens: TokenStore;
  let log: string;
  let examined = 0;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hers-admin-'));
    log = join(folder, 'audit.jsonl');
    tokens = new TokenStore(join(folder, 'tokens.json'));
    admin = (await tokens.create({ scope: 'admin', note: 'the first' })).secret;
    server = await startServer(await openStore(join(folder, 'gallery')), {
      ...{ port: 0, tokens: tokens.path, audit: log },
      admin: {
        tokens: true,
        doctor: async () => {
          examined++;
          await new Promise((resolve) => setTimeout(resolve, 20));
          return [{ check: 'one', level: 'note', found: 'it', advice: 'this' }];
        },
      },
    });
  });
  after(async () => {
    await server.close();
    await rm(folder, { recursive: true });
  });

  async function ask(secret: string, path: string, method = 'GET', head?: object) {
    const headers = { authorization: `Bearer ${secret}`, ...(method === 'GET' ? {} : { 'content-type': OCTETS }) };
    const body = head ? { body: Buffer.from(encodeMessage(head, [])) } : {};
    const answer = await fetch(`${server.url}/v1/server/${path}`, { method, headers, ...body });
    const text = await answer.text();
    return { status: answer.status, body: text === '' ? undefined : JSON.parse(text), text };
  }

  it('makes tokens, shows each once, and lists them without their secrets', async () => {
    const made = await ask(admin, 'tokens', 'POST', { scope: 'search', collection: 'faces', note: 'a door' });
    assert.equal(made.status, 201);
    assert.match(made.body.secret, /^hers_[0-9a-f]{12}_/);
    const { status, body, text } = await ask(admin, 'tokens');
    assert.equal(status, 200);
    assert.deepEqual(body.tokens[1], made.body.token);
    assert.equal(body.tokens[1].by, body.tokens[0].id);
    assert.ok(!text.includes(made.body.secret.slice(18)) && !text.includes('hash'));
    const hash = JSON.parse(await readFile(tokens.path, 'utf8')).tokens[1].hash;
    assert.ok(!text.includes(hash));
    // It is what it says.
    assert.equal((await ask(made.body.secret, 'tokens')).status, 403);
  });

  it('refuses what is no token to be', async () => {
    for (const head of [{}, { scope: 'root' }, { scope: 'search', collection: '../x' }, { scope: 'search', by: 'x' }])
      assert.equal((await ask(admin, 'tokens', 'POST', head)).body.code, 'INVALID_ARGUMENT', JSON.stringify(head));
    assert.equal((await ask(admin, 'tokens/000000000000', 'DELETE')).body.code, 'NOT_FOUND');
    assert.equal((await ask(admin, 'tokens/..%2f', 'DELETE')).status, 400);
  });

  it('revokes a token with all that were made with it, and with those', async () => {
    const second = (await ask(admin, 'tokens', 'POST', { scope: 'admin' })).body;
    const third = (await ask(second.secret, 'tokens', 'POST', { scope: 'admin' })).body;
    const fourth = (await ask(third.secret, 'tokens', 'POST', { scope: 'search' })).body;
    assert.equal((await ask(admin, `tokens/${second.token.id}`, 'DELETE')).status, 204);
    for (const { secret } of [second, third, fourth]) assert.equal((await ask(secret, 'tokens')).status, 401);
    assert.deepEqual(
      (await tokens.list()).map(({ note }) => note),
      ['the first', 'a door'],
    );
  });

  it('shows the end of the audit log, without what is no line of it', async () => {
    await appendFile(log, 'garbage\n{"a":1}\nnull\n');
    const { body, text } = await ask(admin, 'audit');
    assert.ok(body.entries.length >= 8);
    const made = body.entries.find(({ operation }: { operation: string }) => operation === 'createToken');
    assert.equal(made.status, 201);
    assert.ok(!text.includes('garbage') && !text.includes(admin));
    const line = JSON.stringify({ time: 't', address: 'a', operation: 'search', status: 200 });
    await appendFile(log, `${line}\n`.repeat(20_000));
    assert.equal((await ask(admin, 'audit')).body.entries.length, 200);
  });

  it('asks a doctor once for many who ask', async () => {
    const all = await Promise.all(Array.from({ length: 5 }, () => ask(admin, 'doctor')));
    for (const { body } of all)
      assert.deepEqual(body, { findings: [{ check: 'one', level: 'note', found: 'it', advice: 'this' }] });
    assert.equal(examined, 1);
  });

  it('says what is not there', async () => {
    assert.equal((await ask(admin, 'cluster')).body.code, 'NOT_FOUND');
    const plain = await startServer(await openStore(join(folder, 'other')), { port: 0, tokens: tokens.path });
    try {
      for (const path of ['tokens', 'audit', 'doctor', 'cluster']) {
        const headers = { authorization: `Bearer ${admin}` };
        const answer = await fetch(`${plain.url}/v1/server/${path}`, { headers });
        assert.equal((await answer.json()).code, 'NOT_FOUND', path);
      }
    } finally {
      await plain.close();
    }
  });
});
