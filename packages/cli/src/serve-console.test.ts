// The server in the console, in Chromium, by a real `hers serve --console`: numbers, tokens, the
// audit log, the doctor. With tokens of too small a scope, it asks for another.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { TokenStore } from '@hers/server';
import { type Browser, chromium, type Page } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import { hers, temporaryFolder } from '../testing/cli.ts';
import { Interrupted } from './exit.ts';

const browserPart = part('browser');
const PASSPHRASE = 'a passphrase for servers';
const env = { HERS_PASSPHRASE: PASSPHRASE };

describe('hers serve --console', { skip: browserPart.skip, timeout: 60_000 }, () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let browser: Browser;
  let page: Page;
  let served: Promise<unknown>;
  let [admin, search] = ['', ''];
  const stop = new AbortController();
  const complaints: string[] = [];

  before(async () => {
    folder = await temporaryFolder();
    for (const words of [['init'], ['collections', 'create', 'faces', '--dimension', '4']])
      assert.equal((await hers(folder.path, words, { env })).exit, 0);
    const tokens = new TokenStore(join(folder.path, 'server-tokens.json'));
    admin = (await tokens.create({ scope: 'admin', note: 'whoever runs it' })).secret;
    search = (await tokens.create({ scope: 'search' })).secret;
    const { promise, resolve } = Promise.withResolvers<string>();
    const words = ['serve', '--console', '--port', '0', '--tokens', 'server-tokens.json', '--audit-log', 'audit.jsonl'];
    served = hers(folder.path, [...words, '--json', '--log-level', 'silent'], {
      env,
      signal: stop.signal,
      onOutput: (text) => text.startsWith('{') && resolve(JSON.parse(text).url),
    });
    const url = await promise;
    browser = await chromium.launch({ executablePath: browserPart.path!, args: ['--no-sandbox', '--disable-gpu'] });
    page = await browser.newPage({ viewport: { width: 1200, height: 800 }, reducedMotion: 'reduce' });
    page.setDefaultTimeout(15_000);
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(`${url}/console/`);
    const buffer = await readFile(join(folder.path, 'hers.key'));
    await page.getByLabel('Key file').setInputFiles({ name: 'hers.key', mimeType: 'application/json', buffer });
    await page.getByLabel('Passphrase').fill(PASSPHRASE);
    await page.getByLabel('Token, if the server asks for one').fill(search);
    await button('Unlock').click();
    await page.getByRole('link', { name: 'faces' }).waitFor();
  });
  after(async () => {
    await browser?.close();
    stop.abort(new Interrupted('SIGTERM'));
    await served;
    await folder[Symbol.asyncDispose]();
  });

  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const link = (name: string) => page.getByRole('link', { name, exact: true });

  async function findings(): Promise<string[]> {
    const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
    if (!(await page.evaluate('"axe" in globalThis'))) await page.evaluate(axe);
    const { violations } = (await page.evaluate('axe.run()')) as {
      violations: { id: string; nodes: { html: string }[] }[];
    };
    return violations.map(({ id, nodes }) => `${id} ${nodes[0]!.html}`);
  }

  it('plots numbers that a token of any scope may read', async () => {
    await link('Server').click();
    await page.getByText('searches a second').waitFor();
    await page.getByRole('img', { name: /^memory: [\d.]+ MB$/ }).waitFor();
    // A line needs two readings.
    await page.waitForFunction(() => /L/.test(document.querySelector('.plot:nth-child(4) path')!.getAttribute('d')!));
    assert.deepEqual(await findings(), []);
  });

  it('asks for a token of scope admin, and takes one', async () => {
    await link('doctor').click();
    await page.getByText('needs a token of scope admin').waitFor();
    assert.deepEqual(await findings(), []);
    await page.getByLabel('A token of scope admin').fill('hers_wrong');
    await button('Use it').click();
    await page.getByText('This token is not known').waitFor();
    await page.getByLabel('A token of scope admin').fill(admin);
    await button('Use it').click();
    await page.locator('.findings li', { hasText: 'processor' }).waitFor();
    await page.locator('.findings li', { hasText: 'collection faces' }).waitFor();
    assert.deepEqual(await findings(), []);
  });

  it('makes a token, shows it once, and revokes it', async () => {
    await link('tokens').click();
    await page.getByRole('row', { name: /whoever runs it/ }).waitFor();
    await page.getByLabel('Note').fill('the door camera');
    await button('Make it').click();
    const secret = await page.locator('.command').innerText();
    assert.match(secret, /^hers_[0-9a-f]{12}_/);
    const row = page.getByRole('row', { name: /the door camera/ });
    await row.waitFor();
    assert.deepEqual(await findings(), []);
    await button('I have it').click();
    assert.equal(await page.locator('.command').count(), 0);
    await row.getByRole('button').click();
    const id = secret.slice(5, 17);
    await page.getByLabel(`Type ${id} to go on`).fill(id);
    await button('Revoke it').click();
    await row.waitFor({ state: 'detached' });
  });

  it('shows the audit log, and that there is no cluster', async () => {
    await link('audit log').click();
    await page.getByRole('cell', { name: 'revokeToken' }).waitFor();
    await page.getByRole('cell', { name: 'FORBIDDEN' }).first().waitFor();
    assert.deepEqual(await findings(), []);
    await link('cluster').click();
    await page.getByText('This server is no node of a cluster').waitFor();
    assert.deepEqual(await findings(), []);
    await page.setViewportSize({ width: 360, height: 740 });
    for (const name of ['metrics', 'tokens', 'audit log', 'doctor', 'cluster']) {
      await link(name).click();
      await page.locator(`.tabs a[aria-current]:text-is("${name}")`).waitFor();
      const over = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.ok(over <= 0, `${name} is ${over} pixels too wide`);
    }
  });

  it('forgets the token with the lock, and has not complained', async () => {
    await button('Lock').click();
    await page.getByText('You locked it').waitFor();
    const left = await page.evaluate(() =>
      JSON.stringify([document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage }, location.href]),
    );
    assert.ok(!left.includes(admin.slice(18)));
    assert.deepEqual(complaints, []);
  });
});
