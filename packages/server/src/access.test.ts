// Who may do what: every path of the router, with every kind of token.

import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { encodeMessage, HersError, OCTETS } from '@hers/service';
import { openStore } from '@hers/store';
import { type App, makeApp } from './app.ts';
import type { Route } from './routes.ts';
import { SCOPES, TokenCheck, TokenStore } from './tokens.ts';

const text = (value: string) => new TextEncoder().encode(value);

describe('every path of the router', () => {
  let folder: string;
  let app: App;
  let url: string;
  let tokens: TokenStore;
  let close: () => Promise<void>;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hers-access-'));
    tokens = new TokenStore(join(folder, 'tokens.json'));
    await tokens.create({ scope: 'search' });
    const store = await openStore(join(folder, 'gallery'));
    await store.createCollection('faces', { id: new Uint8Array(16), descriptor: text('d'), manifest: text('m') });
    app = makeApp(store, { tokens: new TokenCheck(tokens.path) });
    url = await app.fastify.listen({ port: 0, host: '127.0.0.1' });
    close = async () => {
      await app.close();
      await store.close();
      await rm(folder, { recursive: true });
    };
  });
  after(() => close());

  async function call(route: Route, secret?: string): Promise<{ status: number; code: string | undefined }> {
    const path = route.url
      .replace(':name', 'faces')
      .replace(':block', '00'.repeat(16))
      .replace(':token', '00'.repeat(6));
    const body = route.operation === 'createCollection' ? createFaces() : route.takes ? new Uint8Array(0) : undefined;
    const headers = {
      ...(secret ? { authorization: `Bearer ${secret}` } : {}),
      ...(body ? { 'content-type': OCTETS } : {}),
    };
    const answer = await fetch(url + path, { method: route.method, headers, ...(body ? { body } : {}) });
    const content = await answer.text();
    return { status: answer.status, code: answer.ok ? undefined : JSON.parse(content).code };
  }

  /** A message that is right but for its collection, which exists. */
  const createFaces = () => Buffer.from(encodeMessage({ name: 'faces', id: '00'.repeat(16) }, [text('d'), text('m')]));
  const closed = () => app.routes.filter(({ needs }) => needs !== 'open');

  it('is in the table, and the table in the router', () => {
    assert.deepEqual([...app.registered].sort(), app.routes.map(({ method, url: path }) => `${method} ${path}`).sort());
    assert.deepEqual(
      app.routes.filter(({ needs }) => needs === 'open').map(({ url: path }) => path),
      ['/healthz', '/readyz', '/openapi.json', '/docs'],
    );
  });

  it('is refused without a token, with one that nobody made, and with a revoked one', async () => {
    const { token, secret } = await tokens.create({ scope: 'admin' });
    await tokens.revoke(token.id);
    const other = secret.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
    for (const route of closed()) {
      for (const wrong of [undefined, 'nonsense', other, secret, `${secret}x`])
        assert.deepEqual(await call(route, wrong), { status: 401, code: 'UNAUTHENTICATED' }, route.operation);
    }
  });

  it('is refused with a token of too small a scope', async () => {
    for (const [i, scope] of SCOPES.entries()) {
      const { secret } = await tokens.create(
        scope === 'device' ? { scope, collection: 'faces', device: 1 } : { scope },
      );
      for (const route of closed()) {
        // A device can post and do nothing else; whoever may write can post as well.
        const ranks = SCOPES.indexOf(route.needs as (typeof SCOPES)[number]) <= i;
        const enough = route.needs === 'device' ? scope !== 'search' : ranks && scope !== 'device';
        if (!enough) assert.deepEqual(await call(route, secret), { status: 403, code: 'FORBIDDEN' }, route.operation);
        else if (!['deleteCollection', 'purge'].includes(route.operation)) {
          const { status } = await call(route, secret);
          assert.ok(status !== 401 && status !== 403 && status < 500, `${route.operation} ${status}`);
        }
      }
    }
  });

  it('is refused with a token for another collection', async () => {
    const { secret } = await tokens.create({ scope: 'admin', collection: 'other' });
    for (const route of closed()) {
      // These name no collection: they say who the server is, and which collections the token is
      // for.
      if (['hello', 'listCollections'].includes(route.operation)) continue;
      assert.deepEqual(await call(route, secret), { status: 403, code: 'FORBIDDEN' }, route.operation);
    }
    const answer = await fetch(`${url}/v1/collections`, { headers: { authorization: `Bearer ${secret}` } });
    assert.deepEqual(await answer.json(), { collections: [] });
  });

  it('is refused with a token that is limited to partitions, if it is about whole collections', async () => {
    const partitions = ['0011223344556677'];
    const { secret } = await tokens.create({ scope: 'write', collection: 'faces', partitions });
    const whole = ['createCollection', 'deleteCollection', 'purge', 'snapshot', 'restore', 'metrics'];
    whole.push('post', 'takeInbox', 'dropInbox', 'refuseDevices');
    // The collection has no partitions, so neither has it a manifest for such a token; and a list
    // without a partition is nobody's.
    const own = ['listTokens', 'createToken', 'revokeToken', 'audit', 'doctor', 'cluster'];
    const empty = [...whole, ...own, 'getManifest', 'stageList'];
    for (const route of closed()) {
      const { status } = await call(route, secret);
      assert.equal(status === 403, empty.includes(route.operation), `${route.operation} ${status}`);
      if (whole.includes(route.operation) && route.operation !== 'metrics') assert.ok(route.everything);
    }
    const headers = { authorization: `Bearer ${secret}` };
    const shown = await (await fetch(`${url}/v1/collections/faces`, { headers })).json();
    assert.deepEqual([shown.records, shown.blocks, shown.bytes], [0, 0, 0]);
  });

  it('a path that somebody adds without saying who may use it is for nobody', async () => {
    const store = await openStore(join(folder, 'other'));
    const other = makeApp(store, {});
    other.fastify.get('/forgotten', async () => 'all secrets');
    const answer = await fetch(`${await other.fastify.listen({ port: 0 })}/forgotten`);
    assert.equal(answer.status, 403);
    await other.close();
    await store.close();
  });
});

describe('tokens', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hers-tokens-'));
  });
  after(() => rm(folder, { recursive: true }));
  const fails = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;

  it('are stored hashed, for their owner alone, and shown once', async () => {
    const tokens = new TokenStore(join(folder, 'a.json'));
    const { token, secret } = await tokens.create({ scope: 'write', collection: 'faces', note: 'door' });
    assert.match(secret, /^hers_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$/);
    const content = await readFile(tokens.path, 'utf8');
    assert.ok(!content.includes(secret) && !content.includes(secret.slice(18)));
    assert.equal((await stat(tokens.path)).mode & 0o777, 0o600);
    assert.deepEqual(await tokens.list(), [token]);
    assert.ok(!JSON.stringify(await tokens.list()).includes('hash'));
    const check = new TokenCheck(tokens.path);
    assert.deepEqual(await check.identify(`Bearer ${secret}`), token);
    await assert.rejects(tokens.revoke('000000000000'), fails('NOT_FOUND'));
    await tokens.revoke(token.id);
    await assert.rejects(check.identify(`Bearer ${secret}`), fails('UNAUTHENTICATED'));
  });

  it('are not lost when several processes make some at once', async () => {
    const path = join(folder, 'b.json');
    const made = await Promise.all(Array.from({ length: 20 }, () => new TokenStore(path).create({ scope: 'search' })));
    const ids = (await new TokenStore(path).list()).map(({ id }) => id);
    assert.deepEqual(ids.sort(), made.map(({ token }) => token.id).sort());
  });

  it('a file that is damaged or gone lets nobody in, and is not written over', async () => {
    const path = join(folder, 'c.json');
    const { secret } = await new TokenStore(path).create({ scope: 'admin' });
    const check = new TokenCheck(path);
    await check.identify(`Bearer ${secret}`);
    for (const bad of [
      '{',
      '{"format":0,"tokens":[]}',
      '{"format":2,"tokens":[]}',
      '{"format":1,"tokens":[{"id":"x"}]}',
    ]) {
      await writeFile(path, bad);
      await assert.rejects(check.identify(`Bearer ${secret}`), fails('UNAVAILABLE'));
      await assert.rejects(new TokenStore(path).create({ scope: 'admin' }), fails('DAMAGED'));
      assert.equal(await readFile(path, 'utf8'), bad);
    }
    await rm(path);
    await assert.rejects(check.identify(`Bearer ${secret}`), fails('UNAUTHENTICATED'));
  });

  it('what cannot be is refused', async () => {
    const tokens = new TokenStore(join(folder, 'd.json'));
    await assert.rejects(tokens.create({ scope: 'root' as 'admin' }), fails('INVALID_ARGUMENT'));
    await assert.rejects(tokens.create({ scope: 'admin', collection: '../x' }), fails('INVALID_ARGUMENT'));
    const limited = { scope: 'write', collection: 'faces', partitions: ['0011223344556677'] } as const;
    const wrong = [
      { ...limited, scope: 'admin' as const },
      { scope: limited.scope, partitions: limited.partitions },
      ...[[], ['site-1'], ['0000000000000000'], ['00112233445566778'], ['001122334455667G']].map((partitions) => ({
        ...limited,
        partitions,
      })),
    ];
    for (const made of wrong) await assert.rejects(tokens.create(made), fails('INVALID_ARGUMENT'));
  });
});
