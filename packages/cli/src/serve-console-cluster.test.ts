// The table of nodes and shards in the console, in Chromium, of three `hers serve --cluster` and a
// server of NATS, each a process of its own: all are up, one is emptied, one is killed.
//
// Long: serve-console.test.ts is the short form.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Database, HttpService, MasterSeed, sealKey } from '@hers/client';
import { freePorts } from '@hers/cluster/testing';
import { TokenStore } from '@hers/server';
import { type Browser, chromium, type Page } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import { temporaryFolder } from '../testing/cli.ts';

const [browserPart, natsPart] = [part('browser'), part('nats')];
const PASSPHRASE = 'a passphrase for nodes';
const MAIN = join(import.meta.dirname, 'main.ts');

describe('the cluster in the console', { skip: browserPart.skip || natsPart.skip, timeout: 180_000 }, () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let browser: Browser;
  let page: Page;
  const started: ChildProcess[] = [];
  const nodes = new Map<string, { readonly child: ChildProcess; readonly url: string; readonly nodeUrl: string }>();
  const nodeTokenFile = () => join(folder.path, 'node.token');

  function start(program: string, ...words: string[]) {
    const env = { ...process.env, NODE_V8_COVERAGE: '' };
    const child = spawn(program, words, { cwd: folder.path, stdio: ['ignore', 'pipe', 'pipe'], env });
    started.push(child);
    return child;
  }
  const hersWith = (...words: string[]) => start(process.execPath, MAIN, ...words);

  async function startNode(name: string, natsUrl: string, nodePort: number): Promise<void> {
    const child = hersWith(
      ...['serve', '--console', '--gallery', name, '--port', '0', '--tokens', 'tokens.json', '--json'],
      ...['--cluster', natsUrl, '--ledger-replicas', '1', '--node', name, '--node-port', String(nodePort)],
      ...['--node-tokens', 'node-tokens.json', '--node-token-file', 'node.token'],
      ...['--replicas', '2', '--shards', '3', '--log-level', 'silent'],
    );
    let [said, noted] = ['', ''];
    child.stderr.setEncoding('utf8').on('data', (text: string) => (noted += text));
    const url = await new Promise<string>((found, reject) => {
      child.once('exit', (code) => reject(new Error(`${name} ended with ${code}: ${noted}`)));
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        said += text;
        if (said.includes('\n')) found(JSON.parse(said).url);
      });
    });
    nodes.set(name, { child, url, nodeUrl: `http://127.0.0.1:${nodePort}` });
  }

  before(async () => {
    folder = await temporaryFolder();
    const [natsPort, ...nodePorts] = await freePorts(4);
    const tokens = new TokenStore(join(folder.path, 'tokens.json'));
    const { secret: token } = await tokens.create({ scope: 'admin' });
    const { secret } = await new TokenStore(join(folder.path, 'node-tokens.json')).create({ scope: 'admin' });
    await writeFile(nodeTokenFile(), secret, { mode: 0o600 });
    const store = join(folder.path, 'nats');
    await mkdir(store);
    const settings = `listen: "127.0.0.1:${natsPort}"\njetstream { store_dir: "${store}" }\n`;
    await writeFile(join(store, 'nats.conf'), settings);
    start(natsPart.path!, '-c', join(store, 'nats.conf'), '-l', join(store, 'log'));
    await Promise.all(nodePorts.map((port, i) => startNode(`n${i + 1}`, `nats://127.0.0.1:${natsPort}`, port)));
    const { url } = nodes.get('n1')!;
    using key = MasterSeed.generate();
    const database = new Database(new HttpService(url, { token }), { key });
    const faces = await database.createCollection('faces', { dimension: 4 });
    await faces.upsert(Array.from({ length: 20 }, (_, i) => ({ id: `person-${i}`, vector: [1, i, 2, 3] })));
    await database.close();
    browser = await chromium.launch({ executablePath: browserPart.path!, args: ['--no-sandbox', '--disable-gpu'] });
    page = await browser.newPage({ viewport: { width: 1200, height: 800 }, reducedMotion: 'reduce' });
    page.setDefaultTimeout(60_000);
    await page.goto(`${url}/console/`);
    const buffer = Buffer.from(await sealKey(key, PASSPHRASE, 2 ** 10));
    await page.getByLabel('Key file').setInputFiles({ name: 'hers.key', mimeType: 'application/json', buffer });
    await page.getByLabel('Passphrase').fill(PASSPHRASE);
    await page.getByLabel('Token, if the server asks for one').fill(token);
    await page.getByRole('button', { name: 'Unlock', exact: true }).click();
    await page.getByRole('link', { name: 'Server', exact: true }).click();
    await page.getByRole('link', { name: 'cluster', exact: true }).click();
  });
  after(async () => {
    await browser?.close();
    for (const child of started) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    }
    await folder?.[Symbol.asyncDispose]();
  });

  /** Asks again until a row reads so. */
  async function waitForRow(name: string, text: RegExp): Promise<string> {
    for (;;) {
      const row = page.getByRole('row', { name: new RegExp(`^${name} `) });
      await row.first().waitFor();
      const read = (await row.first().innerText()).replaceAll(/\s+/g, ' ').trim();
      if (text.test(read)) return read;
      const answered = page.waitForResponse((answer) => answer.url().endsWith('/v1/server/cluster'));
      await page.getByRole('button', { name: 'Refresh' }).click();
      await answered;
    }
  }

  it('shows the nodes with their shards, and that a collection is whole', async () => {
    for (const [name, { nodeUrl }] of nodes)
      assert.match(await waitForRow(name, / up$/), new RegExp(`^${name} ${nodeUrl} 2 [\\d.]+ [kM]?B 0 up$`));
    assert.match(await waitForRow('faces', /whole$/), /^faces \d+ 3 2 whole$/);
    await page.getByText('No shard moves.').waitFor();
  });

  it('shows that a node is emptied, whose shards the others have then', async () => {
    const { nodeUrl } = nodes.get('n1')!;
    const drain = hersWith('cluster', 'drain', 'n3', '--node-url', nodeUrl, '--node-token-file', nodeTokenFile());
    const [code] = await once(drain, 'exit');
    assert.equal(code, 0);
    assert.match(await waitForRow('n3', /emptied, and can be stopped$/), / 0 0 B 0 emptied/);
    assert.match(await waitForRow('n2', / up$/), / 3 [\d.]+ [kM]?B 0 up$/);
    await waitForRow('faces', /whole$/);
  });

  it('shows that a node is gone, and what of the collection suffers', async () => {
    const { child } = nodes.get('n2')!;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    assert.match(await waitForRow('n2', /down: /), /^n2 \S+ 0 0 B 3 down: .*cannot be reached/);
    assert.match(await waitForRow('faces', /no changes$/), / 3 2 3 shards take no changes$/);
    await waitForRow('n1', / up$/);
  });
});
