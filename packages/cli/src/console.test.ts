// `hers console` as a command: a folder and a server through it, and the options of `hers serve`.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startServer, TokenStore } from '@hers/server';
import { openStore } from '@hers/store';
import { hers, temporaryFolder } from '../testing/cli.ts';
import { Interrupted } from './exit.ts';

const env = { HERS_PASSPHRASE: 'a passphrase for consoles' };

describe('hers console', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  before(async () => {
    folder = await temporaryFolder();
    assert.equal((await hers(folder.path, ['init'], { env })).exit, 0);
    assert.equal((await hers(folder.path, ['collections', 'create', 'faces', '--dimension', '4'], { env })).exit, 0);
  });
  after(() => folder[Symbol.asyncDispose]());

  /** Runs a command until `use` has ended, which is given the first line of its output. */
  async function until(words: readonly string[], use: (line: string) => Promise<void>): Promise<void> {
    const stop = new AbortController();
    let done: Promise<void> | undefined;
    const onOutput = (text: string) => {
      if (text.startsWith('{')) done ??= use(text).finally(() => stop.abort(new Interrupted('SIGTERM')));
    };
    const { exit, err } = await hers(folder.path, [...words, '--json', '--port', '0'], {
      env,
      signal: stop.signal,
      onOutput,
    });
    assert.equal(exit, 0, err);
    assert.ok(done, 'it said where it is');
    await done;
  }

  /** What a page does with the address, up to the list of collections. */
  async function visit(address: string): Promise<{ names: string[]; key: { name?: string; text?: string } }> {
    const { origin, hash } = new URL(address);
    const opened = await fetch(`${origin}/console/session`, { method: 'POST', body: hash.replace('#open=', '') });
    assert.equal(opened.status, 200);
    const { token } = (await opened.json()) as { token: string };
    const headers = { cookie: opened.headers.get('set-cookie')!.split(';')[0]!, 'x-hers-console': token };
    const { collections } = (await (await fetch(`${origin}/v1/collections`, { headers })).json()) as {
      collections: { name: string }[];
    };
    const key = (await (await fetch(`${origin}/console/key`, { headers })).json()) as { name?: string; text?: string };
    return { names: collections.map(({ name }) => name), key };
  }

  test('a folder, with its sealed key file', async () => {
    await until(['console'], async (line) => {
      const { names, key } = await visit(JSON.parse(line).url);
      assert.deepEqual(names, ['faces']);
      assert.equal(key.name, 'hers.key');
      assert.match(key.text!, /"scrypt"/);
    });
    // The folder is free again.
    assert.equal((await hers(folder.path, ['collections', 'list'], { env })).exit, 0);
  });

  test('a server, with the token of the settings', async () => {
    const tokens = join(folder.path, 'server-tokens.json');
    const { secret } = await new TokenStore(tokens).create({ scope: 'admin' });
    const server = await startServer(await openStore(join(folder.path, 'gallery')), { port: 0, tokens });
    try {
      const withToken = { ...env, HERS_TOKEN: secret };
      const stop = new AbortController();
      let names: readonly string[] | undefined;
      const onOutput = (text: string) => {
        if (!text.startsWith('{')) return;
        void visit(JSON.parse(text).url)
          .then((visited) => (names = visited.names))
          .finally(() => stop.abort(new Interrupted('SIGTERM')));
      };
      const words = ['console', '--gallery', server.url, '--json', '--port', '0'];
      await hers(folder.path, words, { env: withToken, signal: stop.signal, onOutput });
      assert.deepEqual(names, ['faces']);
      const { exit, err } = await hers(folder.path, words, { env: { ...env, HERS_TOKEN: 'hers_wrong' } });
      assert.notEqual(exit, 0);
      assert.match(err, /UNAUTHENTICATED|token/);
    } finally {
      await server.close();
    }
  });

  test('hers serve --console has the page at /console/, and without it has none', async () => {
    await until(['serve', '--console'], async (line) => {
      const { url } = JSON.parse(line);
      const page = await fetch(`${url}/console/`);
      assert.equal(page.status, 200);
      assert.match(await page.text(), /HERS console/);
      assert.match(page.headers.get('content-security-policy')!, /script-src 'self' 'wasm-unsafe-eval'/);
      assert.deepEqual(await (await fetch(`${url}/console/session`)).json(), { kind: 'server' });
      assert.equal((await fetch(`${url}/console/hers-worker.js`)).status, 200);
    });
    await until(['serve'], async (line) => {
      assert.equal((await fetch(`${JSON.parse(line).url}/console/`)).status, 404);
    });
  });
});
