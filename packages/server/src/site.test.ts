// Pages beside the API: given to anybody, with headers of their own.

import assert from 'node:assert/strict';
import { type IncomingMessage, request } from 'node:http';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { served } from '../testing/server.ts';

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
