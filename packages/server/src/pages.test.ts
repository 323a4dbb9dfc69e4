// What pages may do with a server: with crafted headers here, and in Chromium, with a page of
// another origin and one whose name was made to lead to the server.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { encodeMessage, frame, OCTETS } from '@hers/service';
import { openStore } from '@hers/store';
import { type Browser, chromium, type Page } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import { FACES, filled } from '../testing/clients.ts';
import { served } from '../testing/server.ts';
import { startServer } from './server.ts';
import { TokenStore } from './tokens.ts';

/** The status of a request with headers that fetch would not send. */
function ask(url: string, method: string, path: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request(url + path, { method, headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode!);
    });
    asked.on('error', reject).end();
  });
}

const CHANGES = [
  ['POST', `${FACES}/purge`],
  ['DELETE', FACES],
] as const;
const READS = [
  '/v1',
  '/v1/collections',
  FACES,
  `${FACES}/manifest`,
  `${FACES}/snapshot`,
  '/metrics',
  '/docs',
  '/openapi.json',
];
const HEALTH = ['/healthz', '/readyz'];

describe('without tokens', () => {
  it('a server answers to its own names and addresses alone', async () => {
    await using server = await served({ allowHosts: ['gallery.example', '::5'] });
    await filled(server.store);
    const { port } = new URL(server.url);
    const ours = [
      'localhost',
      'LOCALHOST',
      '127.0.0.1',
      `127.0.0.1:${port}`,
      'localhost:1',
      'gallery.example',
      '[::5]:80',
    ];
    for (const host of ours) assert.equal(await ask(server.url, 'GET', '/v1', { host }), 200, host);
    const others = [
      'evil.example',
      `evil.example:${port}`,
      'localhost.evil.example',
      'localhost.',
      '127.0.0.2',
      '10.0.0.1',
    ];
    const odd = ['a@localhost', 'localhost@evil', 'localhost/x', 'x localhost', '[::1', '::1', 'gallery.example.'];
    for (const host of [...others, ...odd]) {
      for (const path of READS) assert.equal(await ask(server.url, 'GET', path, { host }), 403, `${host} ${path}`);
      for (const [method, path] of CHANGES)
        assert.equal(await ask(server.url, method, path, { host, 'content-type': OCTETS }), 403, `${host} ${path}`);
      for (const path of HEALTH) assert.equal(await ask(server.url, 'GET', path, { host }), 200, `${host} ${path}`);
    }
    assert.equal((await server.store.listCollections()).length, 1);
  });

  it('one that listens everywhere answers to the address that it was reached by', async () => {
    await using server = await served({ host: '0.0.0.0', allowAnyone: true, allowPlaintext: true });
    const url = server.url.replace('0.0.0.0', '127.0.0.1');
    assert.equal(await ask(url, 'GET', '/v1', {}), 200);
    assert.equal(await ask(url, 'GET', '/v1', { host: '0.0.0.0' }), 403);
    assert.equal(await ask(url, 'GET', '/v1', { host: '192.0.2.7' }), 403);
  });

  it('names are written without scheme and port', async () => {
    for (const name of ['https://a.example', 'a.example:80', 'a.example/x', '', 'a b', 'u@a.example'])
      await assert.rejects(served({ allowHosts: [name] }), { code: 'INVALID_ARGUMENT' }, name);
  });
});

it('with tokens a server answers to any name, because no page has a token', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-tokens-'));
  const tokens = new TokenStore(join(folder, 'tokens.json'));
  const { secret } = await tokens.create({ scope: 'admin' });
  await using server = await served({ tokens: tokens.path });
  const authorization = `Bearer ${secret}`;
  assert.equal(await ask(server.url, 'GET', '/v1', { host: 'gallery.example', authorization }), 200);
  const foreign = { authorization, origin: 'https://evil.example' };
  assert.equal(await ask(server.url, 'GET', '/v1', foreign), 403);
  await rm(folder, { recursive: true });
});

it('a request that a page of another origin has made reads and changes nothing', async () => {
  await using server = await served();
  await filled(server.store);
  const own = { origin: server.url, 'sec-fetch-site': 'same-origin' };
  for (const headers of [
    own,
    { origin: server.url },
    { 'sec-fetch-site': 'none' },
    { 'sec-fetch-site': 'same-origin' },
  ])
    assert.equal(await ask(server.url, 'GET', '/v1/collections', headers), 200, JSON.stringify(headers));
  const { port } = new URL(server.url);
  const foreign = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: '' },
    { origin: `http://localhost:${port}` }, // asked under 127.0.0.1
    { origin: 'http://127.0.0.1:1', 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'nonsense' },
    { origin: 'https://evil.example', 'sec-fetch-site': 'same-origin' },
    { origin: server.url, 'sec-fetch-site': 'cross-site' },
    { origin: `http://evil@127.0.0.1:${port}` },
  ];
  for (const headers of foreign) {
    const shown = JSON.stringify(headers);
    for (const path of READS) assert.equal(await ask(server.url, 'GET', path, headers), 403, `${shown} ${path}`);
    for (const [method, path] of CHANGES)
      assert.equal(
        await ask(server.url, method, path, { ...headers, 'content-type': OCTETS }),
        403,
        `${shown} ${path}`,
      );
    for (const path of HEALTH) assert.equal(await ask(server.url, 'GET', path, headers), 200, `${shown} ${path}`);
  }
  assert.equal((await server.store.listCollections()).length, 1);
});

it('a page of an origin that was named may ask from anywhere', async () => {
  const origin = 'https://app.example';
  await using server = await served({ cors: [origin] });
  assert.equal(await ask(server.url, 'GET', '/v1', { origin, 'sec-fetch-site': 'cross-site' }), 200);
  assert.equal(await ask(server.url, 'GET', '/v1', { 'sec-fetch-site': 'cross-site' }), 403);
  assert.equal(await ask(server.url, 'GET', '/v1', { origin: 'https://other.example' }), 403);
  await using open = await served({ cors: '*' });
  assert.equal(await ask(open.url, 'GET', '/v1', { origin: 'https://other.example' }), 200);
});

it('every change asks for a content type that no simple request can have', async () => {
  await using server = await served();
  await filled(server.store);
  const types = ['', 'text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', `text/plain; ${OCTETS}`];
  const { routes } = await import('./app.ts').then(({ makeApp }) => makeApp(server.store));
  const changes = routes.filter(({ method }) => method !== 'GET');
  assert.ok(changes.length >= 9);
  for (const { method, url } of changes)
    for (const type of types) {
      const headers = type === '' ? {} : { 'content-type': type };
      assert.equal(
        await ask(server.url, method, url.replace(':name', 'faces'), headers),
        415,
        `${method} ${url} ${type}`,
      );
    }
  assert.equal(await ask(server.url, 'POST', `${FACES}/purge`, { 'content-type': `${OCTETS}; x=1` }), 204);
  assert.equal(await ask(server.url, 'DELETE', FACES, { 'content-type': OCTETS }), 204);
});

const browserPart = part('browser');

describe('in Chromium', { skip: browserPart.skip }, () => {
  let browser: Browser;
  before(async () => {
    browser = await chromium.launch({
      executablePath: browserPart.path!,
      args: ['--no-sandbox', '--host-resolver-rules=MAP evil.example 127.0.0.1'],
    });
  });
  after(() => browser?.close());

  /** A server of somebody else with an empty page. */
  async function elsewhere() {
    const server = createServer((_request, answer) => answer.setHeader('content-type', 'text/html').end('<p>hello'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const close = () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    };
    return { port, close };
  }

  /**
   * Everything a page can send without and with asking, and what came of it: a status, 'opaque', or
   * 'refused'.
   */
  function attack(page: Page, target: string): Promise<Record<string, string>> {
    const bodies = {
      create: [...encodeMessage({ name: 'made', id: '00'.repeat(16) }, [new Uint8Array(1), new Uint8Array(1)])],
      record: [...frame(new Uint8Array(20))],
    };
    return page.evaluate(
      async ({ target, bodies, faces, octets }) => {
        const outcome: Record<string, string> = {};
        const send = async (name: string, path: string, options: RequestInit) => {
          try {
            const answer = await fetch(target + path, options);
            outcome[name] = answer.type === 'opaque' ? 'opaque' : String(answer.status);
          } catch {
            outcome[name] = 'refused';
          }
        };
        const bytes = (values: number[]) => new Uint8Array(values);
        const typed = { 'content-type': octets };
        await send('list', '/v1/collections', {});
        await send('list blindly', '/v1/collections', { mode: 'no-cors' });
        await send('snapshot', `${faces}/snapshot`, {});
        await send('manifest', `${faces}/manifest`, {});
        await send('purge', `${faces}/purge`, { method: 'POST', headers: typed });
        await send('purge blindly', `${faces}/purge`, { method: 'POST', mode: 'no-cors' });
        await send('purge as text', `${faces}/purge`, { method: 'POST', mode: 'no-cors', body: 'x' });
        await send('create', '/v1/collections', { method: 'POST', headers: typed, body: bytes(bodies.create) });
        await send('create blindly', '/v1/collections', {
          method: 'POST',
          mode: 'no-cors',
          body: bytes(bodies.create),
        });
        await send('stage', `${faces}/records`, { method: 'PUT', headers: typed, body: bytes(bodies.record) });
        await send('delete', faces, { method: 'DELETE', headers: typed });
        const form = document.createElement('form');
        form.method = 'POST';
        form.action = `${target}${faces}/purge`;
        form.target = 'frame';
        const frame = document.createElement('iframe');
        frame.name = 'frame';
        document.body.append(frame, form);
        const loaded = new Promise((resolve) => frame.addEventListener('load', resolve, { once: true }));
        form.submit();
        await Promise.race([loaded, new Promise((resolve) => setTimeout(resolve, 2000))]);
        return outcome;
      },
      { target, bodies, faces: FACES, octets: OCTETS },
    );
  }

  /** A store that remembers what it was asked to do. */
  async function watched() {
    const folder = await mkdtemp(join(tmpdir(), 'hers-pages-'));
    const store = await openStore(join(folder, 'gallery'));
    await filled(store);
    const calls: string[] = [];
    const service = new Proxy(store, {
      get(target, method: keyof typeof store) {
        const own = target[method];
        // A server asks to be told of evaluation keys when it starts.
        if (method === 'onEvaluationKeys') return target.onEvaluationKeys.bind(target);
        if (typeof own !== 'function') return own;
        return (...args: unknown[]) => {
          calls.push(String(method));
          return (own as (...all: unknown[]) => unknown).apply(target, args);
        };
      },
    });
    return { service, calls, remove: () => rm(folder, { recursive: true, force: true }) };
  }

  it('a page of another origin reads and changes nothing', async () => {
    const { service, calls, remove } = await watched();
    const server = await startServer(service, { port: 0 });
    const other = await elsewhere();
    try {
      const page = await browser.newPage();
      await page.goto(`http://localhost:${other.port}/`);
      const outcome = await attack(page, server.url);
      for (const [name, came] of Object.entries(outcome)) assert.match(came, /^(refused|opaque)$/, name);
      assert.deepEqual(calls, []);
      await page.close();
    } finally {
      await other.close();
      await server.close();
      await remove();
    }
  });

  it('nor does one whose name was made to lead here', async () => {
    const { service, calls, remove } = await watched();
    const other = await elsewhere();
    const page = await browser.newPage();
    await page.goto(`http://evil.example:${other.port}/`);
    await other.close();
    const server = await startServer(service, { port: other.port });
    try {
      const origin = `http://evil.example:${other.port}`;
      assert.equal(await page.evaluate(() => location.origin), origin);
      const outcome = await attack(page, origin);
      assert.equal(outcome.list, '403'); // it is reached, and it refuses
      for (const [name, came] of Object.entries(outcome)) assert.match(came, /^(403|415|opaque)$/, name);
      assert.deepEqual(calls, []);
      // Under its own name it is itself.
      assert.equal((await page.goto(`http://localhost:${other.port}/docs`))?.status(), 200);
    } finally {
      await page.close();
      await server.close();
      await remove();
    }
  });
});

// Pages beside the API: given to anybody, with headers of their own.

/** An answer to headers that fetch would not send. */
function get(url: string, headers: Record<string, string>, method = 'GET'): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { method, headers }, (answer) => resolve(answer.resume()));
    asked.on('error', reject).end();
  });
}

const body = Buffer.from('<p>hello');
const site = {
  base: '/console/',
  headers: { 'content-security-policy': "default-src 'none'; script-src 'self'" },
  files: [{ path: '', type: 'text/html; charset=utf-8', body, compressed: gzipSync(body) }],
};

test('files of a site come with its own headers, compressed where that is wanted', async () => {
  await using server = await served({ site });
  const page = await fetch(`${server.url}/console/`);
  assert.equal(page.status, 200);
  assert.equal(await page.text(), '<p>hello');
  assert.equal(page.headers.get('content-security-policy'), site.headers['content-security-policy']);
  assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
  const plain = await fetch(`${server.url}/console/`, { headers: { 'accept-encoding': 'identity' } });
  assert.equal(plain.headers.get('content-encoding'), null);
  assert.equal(await plain.text(), '<p>hello');
  const slashless = await fetch(`${server.url}/console`, { redirect: 'manual' });
  assert.deepEqual([slashless.status, slashless.headers.get('location')], [302, '/console/']);
  assert.equal((await fetch(`${server.url}/console/../v1/x`)).status, 404);
  assert.equal((await fetch(`${server.url}/console/other`)).status, 404);
  // A page of another origin gets nothing of it.
  const foreign = await fetch(`${server.url}/console/`, { headers: { origin: 'http://evil.example' } });
  assert.equal(foreign.status, 403);
});

test('a link to the page may stand anywhere, and leads to nothing else', async () => {
  await using server = await served({ site });
  const visit = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
  const statusOf = async (path: string, more: Record<string, string> = {}, method = 'GET') =>
    (await get(server.url + path, { ...visit, ...more }, method)).statusCode;
  assert.equal(await statusOf('/console/'), 200);
  assert.equal(await statusOf('/console'), 302);
  for (const path of ['/v1', '/v1/collections', '/metrics', '/docs', '/console/other'])
    assert.equal(await statusOf(path), 403, path);
  assert.equal(await statusOf('/console/', {}, 'POST'), 403);
  assert.equal(await statusOf('/console/', { 'sec-fetch-dest': 'iframe' }), 403);
  assert.equal(await statusOf('/console/', { 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' }), 403);
  // A stranger's name that was made to lead here.
  assert.equal(await statusOf('/console/', { host: 'evil.example' }), 403);
});

test('gzip is for whoever takes it', async () => {
  await using server = await served({ site });
  for (const [accepted, encoding] of [
    ['gzip', 'gzip'],
    ['br;q=1, GZIP ; q=0.01', 'gzip'],
    ['gzip;q=0', undefined],
    ['br, gzip; q=0.000, deflate', undefined],
  ] as const) {
    const { headers } = await get(`${server.url}/console/`, { 'accept-encoding': accepted });
    assert.equal(headers['content-encoding'], encoding, accepted);
  }
});

test('without a site there is none', async () => {
  await using server = await served();
  assert.equal((await fetch(`${server.url}/console/`)).status, 404);
});
