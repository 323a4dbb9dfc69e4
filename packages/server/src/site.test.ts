// Pages beside the API: given to anybody, with headers of their own.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { served } from '../testing/server.ts';

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

test('without a site there is none', async () => {
  await using server = await served();
  assert.equal((await fetch(`${server.url}/console/`)).status, 404);
});
