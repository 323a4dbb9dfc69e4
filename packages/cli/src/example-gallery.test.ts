// The example of `hers console --example`: in Chromium, both searches agree.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { startConsole } from '@hers/console';
import { vectorsOf } from '@hers/console/testing';
import { startServer } from '@hers/server';
import { openStore } from '@hers/store';
import { type Browser, chromium, type Page } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import { makeExampleGallery, SENTENCES, sentenceVectors } from './example.ts';

const browserPart = part('browser');

describe('the example of hers console', { skip: browserPart.skip, timeout: 60_000 }, () => {
  let page: Page;
  let browser: Browser;
  const ends: (() => Promise<void>)[] = [];
  const complaints: string[] = [];

  before(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hers-example-test-'));
    ends.push(() => rm(folder, { recursive: true }));
    const { keyFile, example } = await makeExampleGallery(folder, AbortSignal.timeout(30_000));
    const server = await startServer(await openStore(folder), { port: 0, log: false });
    ends.push(() => server.close());
    const running = await startConsole({
      ...{ upstream: { url: server.url }, gallery: 'example', port: 0, example },
      keyFile: { name: 'example.key', text: keyFile },
    });
    ends.push(() => running.close());
    browser = await chromium.launch({ executablePath: browserPart.path!, args: ['--no-sandbox', '--disable-gpu'] });
    ends.push(() => browser.close());
    page = await browser.newPage();
    page.setDefaultTimeout(15_000);
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(running.address);
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  const button = (name: string) => page.getByRole('button', { name, exact: true });

  it('says its passphrase, finds a face, and compares with the search in the clear', async () => {
    await page.getByText('Its passphrase is example.').waitFor();
    await page.getByText('still sealed').waitFor();
    await page.getByLabel('Passphrase').fill('example');
    await button('Unlock').click();
    await page.getByRole('link', { name: 'faces' }).click();
    await page.getByRole('link', { name: 'search', exact: true }).click();
    await page.getByLabel('From the example').selectOption('another picture of person-0750');
    await button('Search').click();
    await page.getByText('10 matches').waitFor();
    assert.equal(await page.locator('.results tbody th').first().innerText(), 'person-0750');
    await page.getByText('The best match is the same; of the best 10,', { exact: false }).waitFor();
    const text = await page.locator('.clear').innerText();
    const difference = Number(/largest difference is ([\d.]+)\./.exec(text)?.[1]);
    assert.ok(difference < 0.02, text);
    assert.match(text, /512 B: the probe itself/);
  });

  it('knows only scores where the search is filtered', async () => {
    await button('Add a condition').click();
    await page.getByLabel('value of condition 1').fill('Ada Dubois');
    await button('Search').click();
    await page.getByText('The plain copy knows no filter', { exact: false }).waitFor();
    assert.deepEqual(complaints, []);
  });

  it('has the vectors that the model makes of its sentences', async () => {
    const all = Object.values(SENTENCES).flat();
    const kept = sentenceVectors();
    assert.equal(kept.length, 512 * all.length);
    const chosen = [0, 40, all.length - 1];
    const made = await vectorsOf(chosen.map((at) => all[at]!));
    for (const [i, at] of chosen.entries()) {
      const cosine = made[i]!.reduce((sum, value, k) => sum + value * kept[512 * at + k]!, 0);
      assert.ok(cosine > 0.999, `${all[at]}: ${cosine}`);
    }
  });
});
