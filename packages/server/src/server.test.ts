// What a server shows of itself: headers, logs, metrics, its own description; and its certificate.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { get } from 'node:https';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { encodeMessage, HersError, OCTETS, withMethods } from '@hers/service';
import { FACES, post } from '../testing/clients.ts';
import { collectedLog, selfSigned, served } from '../testing/server.ts';
import { TokenStore } from './tokens.ts';

const fails = (message: RegExp) => (error: unknown) =>
  error instanceof HersError && error.code === 'INVALID_ARGUMENT' && message.test(error.message);

describe('a server', () => {
  it('on any address but its own machine asks for TLS and tokens', async () => {
    await assert.rejects(served({ host: '0.0.0.0' }), fails(/without TLS.*could read the tokens/));
    await assert.rejects(served({ host: '::' }), fails(/without TLS/));
    await assert.rejects(served({ host: '0.0.0.0', allowPlaintext: true }), fails(/without tokens/));
    await assert.rejects(served({ tokens: 'none.json' }), fails(/nobody could use this server/));
    const { lines, log } = collectedLog();
    await using open = await served({ host: '0.0.0.0', allowPlaintext: true, allowAnyone: true, log });
    assert.match(open.url, /^http:\/\/0\.0\.0\.0:\d+$/);
    // Once for each address of the machine, and each says which.
    const listening = lines.map((line) => JSON.parse(line).msg).filter((text) => text.startsWith('listening'));
    assert.ok(listening.includes(`listening at http://127.0.0.1:${new URL(open.url).port}`));
    assert.equal(new Set(listening).size, listening.length);
  });

  it('refuses options that it does not know', async () => {
    await assert.rejects(served({ tokenz: 'tokens.json' } as object), fails(/no option "tokenz"/));
    await assert.rejects(served({ log: { lvel: 'warn' } } as object), fails(/a log has no option "lvel"/));
  });

  it('refuses values that make no sense', async () => {
    for (const value of [-1, 0.5, Number.NaN, '3'])
      await assert.rejects(
        served({ limits: { scans: value as number } }),
        fails(new RegExp(`the limit scans is a number from 1, not ${value}$`)),
      );
    for (const origin of ['app.example', 'https://app.example/', 'https://app.example/path', 'nonsense'])
      await assert.rejects(served({ cors: [origin] }), fails(/is not an origin; write it as browsers do/));
  });

  it('says why it cannot listen', async () => {
    await using server = await served();
    const port = Number(new URL(server.url).port);
    await assert.rejects(served({ port }), fails(/^cannot listen on .*:\d+: something else listens there already$/));
    await assert.rejects(
      served({ host: '192.0.2.1', allowPlaintext: true, allowAnyone: true }), // RFC 5737: nobody's
      fails(/^cannot listen on 192\.0\.2\.1:0: this machine has no such address$/),
    );
    assert.equal((await fetch(`${server.url}/v1`)).status, 200);
  });

  it('sends headers that keep pages and caches away, and opens CORS only where it is told to', async () => {
    await using closed = await served();
    const origin = 'https://app.example';
    const preflight = { method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'POST' } };
    const plain = await fetch(`${closed.url}/v1`, { headers: { origin } });
    assert.equal(plain.headers.get('access-control-allow-origin'), null);
    assert.equal(plain.headers.get('cache-control'), 'no-store');
    assert.equal(plain.headers.get('x-content-type-options'), 'nosniff');
    assert.match(plain.headers.get('content-security-policy')!, /default-src 'none'/);
    const refused = await fetch(`${closed.url}/v1`, preflight);
    assert.deepEqual([refused.status, refused.headers.get('access-control-allow-origin')], [403, null]);

    const { lines, log } = collectedLog();
    await using open = await served({ cors: [origin], log });
    const allowed = await fetch(`${open.url}/v1/collections/x/search`, preflight);
    assert.equal(allowed.status, 204);
    assert.equal(allowed.headers.get('access-control-allow-origin'), origin);
    assert.match(allowed.headers.get('access-control-allow-headers')!, /authorization/);
    while (!lines.some((line) => line.includes('"operation"'))) await pause(10);
    assert.match(lines.find((line) => line.includes('"operation"'))!, /"operation":"preflight","status":204/);
    const stranger = await fetch(`${open.url}/v1`, { headers: { origin: 'https://evil.example' } });
    assert.equal(stranger.headers.get('access-control-allow-origin'), null);
    // Errors can be read too, or a page could not know that its token is wrong.
    const missing = await fetch(`${open.url}/v1/collections/x`, { headers: { origin } });
    assert.deepEqual([missing.status, missing.headers.get('access-control-allow-origin')], [404, origin]);
  });

  it('says that it lives, is ready, and what it is', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hers-tokens-'));
    const tokens = new TokenStore(join(folder, 'tokens.json'));
    await tokens.create({ scope: 'admin' });
    await using server = await served({ tokens: tokens.path });
    const text = async (path: string) => (await fetch(server.url + path)).text();
    assert.equal(await text('/healthz'), 'ok\n');
    assert.equal(await text('/readyz'), 'ready\n');
    const document = JSON.parse(await text('/openapi.json'));
    assert.equal(document.openapi, '3.1.0');
    const operations = Object.entries<Record<string, { operationId: string; security: unknown[] }>>(document.paths);
    assert.ok(operations.length > 15);
    const ids = operations.flatMap(([, path]) => Object.values(path).map(({ operationId }) => operationId));
    assert.equal(new Set(ids).size, ids.length);
    assert.deepEqual(document.paths['/v1/collections/{name}/search'].post.security, [{ token: [] }]);
    const page = await fetch(`${server.url}/docs`);
    const html = await page.text();
    assert.match(page.headers.get('content-type')!, /text\/html/);
    assert.ok(!/<script|src=|https?:\/\//i.test(html.replaceAll("connect('https://…'", '')));
    for (const [path] of operations) assert.ok(html.includes(path.replace(/\{(\w+)\}/g, ':$1')), path);
    await rm(folder, { recursive: true });
  });

  it('shows what the GPU that scans holds, where there is one', async () => {
    const device = { used: 5, memory: 9, free: 4, segments: 2, turns: 3, elsewhere: 1, hasFailed: false };
    let now: typeof device | undefined;
    await using server = await served({ device: () => now });
    const read = async () => (await (await fetch(`${server.url}/metrics`)).text()).split('\n');
    assert.ok(!(await read()).some((line) => line.includes('hers_device')));
    now = device;
    const lines = await read();
    for (const line of [
      'gallery_bytes 5',
      'memory_bytes 9',
      'free_bytes 4',
      'segments 2',
      'turn_segments 3',
      'cpu_segments 1',
      'failed 0',
    ])
      assert.ok(lines.includes(`hers_device_${line}`), line);
  });

  it('counts what it does', async () => {
    await using server = await served();
    await fetch(`${server.url}/v1`);
    await fetch(`${server.url}/v1/collections/none`);
    const answer = await fetch(`${server.url}/metrics`);
    assert.match(answer.headers.get('content-type')!, /^text\/plain; version=0\.0\.4/);
    const lines = (await answer.text()).trimEnd().split('\n');
    // Every line is a comment or a sample, and every sample has a type.
    const types = new Map<string, string>();
    for (const line of lines) {
      const [, name, type] = /^# TYPE (\w+) (counter|gauge|histogram)$/.exec(line) ?? [];
      if (name) types.set(name, type);
      if (line.startsWith('#')) continue;
      const [, sample] = /^(\w+)(?:\{(?:\w+="[^"]*",?)+\})? [-+\d.e]+$/.exec(line) ?? assert.fail(line);
      assert.ok(types.has(sample.replace(/_(bucket|sum|count)$/, '')) || types.has(sample), line);
    }
    assert.ok(lines.includes('hers_requests_total{operation="hello",status="200"} 1'));
    assert.ok(lines.includes('hers_errors_total{code="NOT_FOUND"} 1'));
  });

  it('writes an audit log that names who, what and which, for its owner alone', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hers-tokens-'));
    const tokens = new TokenStore(join(folder, 'tokens.json'));
    const { token, secret } = await tokens.create({ scope: 'search' });
    const { lines, log } = collectedLog('debug');
    await using server = await served({ tokens: tokens.path, audit: 'audit.jsonl', log });
    const headers = { authorization: `Bearer ${secret}` };
    await fetch(`${server.url}/v1/collections/none`, { headers });
    await fetch(`${server.url}/v1/collections/none`, { method: 'DELETE', headers });
    await fetch(`${server.url}/v1/collections/none`, { headers: { authorization: 'Bearer SENTINEL-TOKEN' } });
    await fetch(`${server.url}/v1?SENTINEL=SENTINEL`, { headers: { 'x-a': 'SENTINEL' } });
    await pause(50);
    const path = join(server.folder, 'audit.jsonl');
    const entries = (await readFile(path, 'utf8'))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(
      entries.map(({ token: id, operation, collection, status, code }) => [id, operation, collection, status, code]),
      [
        [token.id, 'getCollection', 'none', 404, 'NOT_FOUND'],
        [token.id, 'deleteCollection', 'none', 403, 'FORBIDDEN'],
        [undefined, 'getCollection', 'none', 401, 'UNAUTHENTICATED'],
        [undefined, 'hello', undefined, 401, 'UNAUTHENTICATED'],
      ],
    );
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    const all = JSON.stringify(entries) + lines.join('');
    assert.ok(!all.includes('SENTINEL') && !all.includes(secret) && !all.includes(secret.slice(-43)));
    await rm(folder, { recursive: true });
  });

  it('goes on where its audit log cannot be written, and says so in the other', async (t) => {
    const { lines, log } = collectedLog();
    await using server = await served({ audit: 'audit.jsonl', log });
    const { writeSync } = fs;
    t.mock.method(fs, 'writeSync', (file: number, ...rest: [string]) => {
      if (String(rest[0]).includes('"operation"')) throw new Error('no room, says the test');
      return writeSync(file, ...rest);
    });
    syncBuiltinESMExports();
    try {
      assert.equal((await fetch(`${server.url}/v1`)).status, 200);
      while (!lines.join('').includes('the audit log cannot be written')) await pause(5);
    } finally {
      t.mock.restoreAll();
      syncBuiltinESMExports();
    }
    await fetch(`${server.url}/v1`);
    const path = join(server.folder, 'audit.jsonl');
    while (!(await readFile(path, 'utf8')).includes('"operation":"hello"')) await pause(5);
  });

  it('answers a bug of its own with 500 and says no more; the log has no message either', async () => {
    const { lines, log } = collectedLog();
    await using server = await served({
      log,
      service: (store) => withMethods(store, { getCollection: () => Promise.reject(new TypeError('SENTINEL')) }),
    });
    const answer = await fetch(`${server.url}/v1/collections/x`);
    assert.equal(answer.status, 500);
    assert.deepEqual(await answer.json(), {
      code: 'INTERNAL',
      message: 'the server has a bug; its log says more',
      retryable: false,
    });
    await pause(20);
    assert.match(lines.join(''), /"type":"TypeError".*server\.test\.ts/);
    assert.ok(!lines.join('').includes('SENTINEL'));
  });

  it('says that it cannot tell which collection there is, and not that there is none', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hers-tokens-'));
    const tokens = new TokenStore(join(folder, 'tokens.json'));
    const { secret } = await tokens.create({ scope: 'search', collection: 'faces' });
    let failure = new HersError('NOT_FOUND', 'there is none');
    await using server = await served({
      tokens: tokens.path,
      service: (store) => withMethods(store, { getCollection: () => Promise.reject(failure) }),
    });
    const list = () => fetch(`${server.url}/v1/collections`, { headers: { authorization: `Bearer ${secret}` } });
    assert.deepEqual(await (await list()).json(), { collections: [] });
    failure = new HersError('UNAVAILABLE', 'not now');
    const answer = await list();
    assert.deepEqual([answer.status, ((await answer.json()) as { code: string }).code], [503, 'UNAVAILABLE']);
    await rm(folder, { recursive: true });
  });

  it('refuses other media types, methods and paths with a typed body', async () => {
    await using server = await served();
    const code = async (answer: Response) => [answer.status, ((await answer.json()) as { code: string }).code];
    const put = (type: string) =>
      fetch(`${server.url}/v1/collections/x/commit`, { method: 'POST', body: '{}', headers: { 'content-type': type } });
    assert.deepEqual(await code(await put('application/json')), [415, 'INVALID_ARGUMENT']);
    assert.deepEqual(await code(await put('nonsense')), [415, 'INVALID_ARGUMENT']);
    assert.deepEqual(await code(await put(OCTETS)), [400, 'MALFORMED']);
    const packed = { 'content-type': OCTETS, 'content-encoding': 'gzip' };
    const gzip = await fetch(`${server.url}/v1/collections/x/lists`, { method: 'POST', body: 'x', headers: packed });
    assert.deepEqual(await code(gzip), [400, 'INVALID_ARGUMENT']);
    assert.deepEqual(await code(await fetch(`${server.url}/v1`, { method: 'PATCH' })), [404, 'NOT_FOUND']);
    assert.deepEqual(await code(await fetch(`${server.url}/v2`)), [404, 'NOT_FOUND']);
    assert.deepEqual(await code(await fetch(`${server.url}/v1/collections/%zz`)), [400, 'INVALID_ARGUMENT']);
    assert.deepEqual(await code(await fetch(`${server.url}/v1/collections/${'x'.repeat(300)}`)), [
      414,
      'INVALID_ARGUMENT',
    ]);
  });

  it('refuses a message that lacks a part, or whose head does not fit', async () => {
    await using server = await served();
    const refusal = async (path: string, head: object, parts: number) => {
      const answer = await post(server.url, path, encodeMessage(head, new Array(parts).fill(Uint8Array.of(1))));
      const { code, message } = (await answer.json()) as { code: string; message: string };
      return `${answer.status} ${code}: ${message}`;
    };
    const lacking = '400 MALFORMED: this message has';
    const created = { name: 'faces', id: '00'.repeat(16) };
    assert.equal(await refusal('/v1/collections', created, 0), `${lacking} 0 parts, and should have 2`);
    assert.equal(await refusal('/v1/collections', created, 1), `${lacking} 1 parts, and should have 2`);
    assert.equal(await refusal(`${FACES}/commit`, { expected: 1 }, 3), `${lacking} 3 parts, and should have 4`);
    const misfit = '400 INVALID_ARGUMENT: the head of this message does not fit:';
    assert.equal(await refusal('/v1/collections', {}, 2), `${misfit} must have required property 'name'`);
    assert.equal(await refusal(`${FACES}/search`, { version: 'x' }, 1), `${misfit} /version must be integer`);
    assert.equal(
      await refusal(`${FACES}/search`, { version: 1, some: true }, 0),
      '400 MALFORMED: this search lacks the ids of blocks or lists',
    );
  });
});

describe('TLS', () => {
  it('is served from files, and a new certificate without a restart; a bad one changes nothing', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hers-tls-'));
    const files = { cert: join(folder, 'crt'), key: join(folder, 'key') };
    const write = async ({ cert, key }: { cert: string; key: string }) => {
      await writeFile(files.key, key, { mode: 0o600 });
      await writeFile(files.cert, cert);
    };
    const [first, second] = [selfSigned('first'), selfSigned('second')];
    for (const missing of ['the certificate', 'the private key of the certificate']) {
      await assert.rejects(served({ tls: files }), fails(new RegExp(`should hold ${missing}, cannot be read`)));
      await write(first);
      await rm(files.key);
    }
    await write(first);
    const { lines, log } = collectedLog();
    await using server = await served({ tls: files, tlsEveryMs: 20, log });
    assert.match(server.url, /^https:/);
    const subject = (ca: string) =>
      new Promise<string>((resolve, reject) => {
        get(`${server.url}/healthz`, { ca, agent: false, servername: 'localhost' }, (answer) => {
          answer.resume();
          assert.equal(answer.headers['strict-transport-security'], 'max-age=31536000');
          const { subject } = (answer.socket as TLSSocket).getPeerCertificate();
          answer.on('end', () => resolve(String(subject.CN)));
        }).on('error', reject);
      });
    const logged = async (message: string) => {
      while (!lines.some((line) => line.includes(message))) await pause(10);
    };
    assert.equal(await subject(first.cert), 'first');
    await assert.rejects(subject(second.cert));
    await writeFile(files.cert, 'nonsense');
    await logged('the new certificate cannot be used');
    assert.equal(await subject(first.cert), 'first');
    await rm(files.cert);
    await logged(`${files.cert}, which should hold the certificate, cannot be read (ENOENT)`);
    assert.equal(await subject(first.cert), 'first');
    await write(second);
    await logged('the certificate was replaced');
    assert.equal(await subject(second.cert), 'second');
    assert.ok(!lines.join('').includes('PRIVATE KEY'));
    await rm(folder, { recursive: true });
  });
});
