// The device as a page in Chromium: that of examples/devices, with the module as it is built.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { it } from 'node:test';
import { chromium } from 'playwright-core';
import { part } from '../../../../tools/parts.ts';
import { world } from '../../testing/devices.ts';

const root = resolve(import.meta.dirname, '../../../..');
const browserPart = part('browser');

it('a page asks as a device, and the keeper sees who it is', browserPart, async () => {
  const files: Record<string, readonly [string, string]> = {
    '/': ['text/html', await readFile(join(root, 'examples/devices/index.html'), 'utf8')],
    '/hers-device.js': ['text/javascript', await readFile(join(root, 'packages/client/build/hers-device.js'), 'utf8')],
  };
  const pages = createServer((request, response) => {
    const [type, text] = files[request.url!] ?? [];
    if (!type) response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': `${type}; charset=utf-8` }).end(text);
  });
  await new Promise<void>((resolve) => pages.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;
  const browser = await chromium.launch({ executablePath: browserPart.path!, args: ['--no-sandbox'] });
  try {
    await using w = await world(0, {}, { cors: [origin], dimension: 4 });
    await w.faces.upsert([
      { id: 'ada', vector: [1, 0, 0, 0] },
      { id: 'grace', vector: [0, 1, 0, 0] },
    ]);
    const bundle = join(w.folder, 'door.device');
    await writeFile(bundle, await w.add('door'));
    const page = await browser.newPage();
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(error.message));
    await page.goto(origin);
    await page.setInputFiles('#bundle', bundle);
    await page.click('#ask');
    await page.waitForFunction("document.querySelector('#said').value !== ''", undefined, { timeout: 20_000 });
    assert.equal(await page.evaluate("document.querySelector('#said').value"), 'question 1');
    assert.deepEqual(errors, []);
    const { asked } = await w.answers();
    assert.deepEqual(
      asked.map(({ device, matches }) => [device, matches[0]?.id]),
      [['door', 'grace']],
    );
    // What the page enrols opens at the keeper alone.
    const module = '/hers-device.js';
    await page.evaluate(
      `(async () => {
        const { openDevice } = await import(${JSON.stringify(module)});
        const door = openDevice(undefined, ${JSON.stringify(await w.add('kiosk', { enrol: { most: 1 } }))});
        await door.enrol({ id: 'mary', vector: [0, 0, 1, 0], payload: { from: 'a page' } });
      })()`,
    );
    await w.answers();
    assert.deepEqual((await w.faces.get('mary'))[0]?.payload, { from: 'a page' });
  } finally {
    await browser.close();
    pages.close();
  }
});
