// npm run screenshots: every screen of the console, light and dark, wide and on a phone, into
// temp/screenshots, to be looked at.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { chromium, type Page } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import { openTrial, PASSPHRASE, vectorOf } from './trial.ts';

const target = resolve(import.meta.dirname, '../../../temp/screenshots');
mkdirSync(target, { recursive: true });

const SIZES = { wide: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

await using trial = await openTrial(4000);
const browser = await chromium.launch({ executablePath: part('browser').path!, args: ['--no-sandbox'] });
const wanted = process.argv.slice(2);

async function unlock(page: Page): Promise<void> {
  await page.getByLabel('Key file').setInputFiles({
    name: 'hers.key',
    mimeType: 'application/json',
    buffer: Buffer.from(trial.keyFile),
  });
  await page.getByLabel('Passphrase').fill(PASSPHRASE);
  await page.getByRole('button', { name: 'Unlock', exact: true }).click();
  await page.getByRole('heading', { name: 'Collections' }).waitFor();
}

for (const [size, viewport] of Object.entries(SIZES))
  for (const colorScheme of ['light', 'dark'] as const) {
    const page = await browser.newPage({ viewport, colorScheme });
    page.on('pageerror', (error) => console.error(String(error)));
    page.on('console', (message) => message.type() === 'error' && console.error(message.text()));
    let number = 0;
    const shoot = async (name: string) => {
      const file = `${String(++number).padStart(2, '0')}-${name}-${size}-${colorScheme}.png`;
      if (wanted.length > 0 && !wanted.some((each) => file.includes(each))) return;
      await page.waitForTimeout(150);
      writeFileSync(join(target, file), await page.screenshot({ fullPage: size === 'phone' }));
    };
    const tab = (name: string) => page.getByRole('link', { name, exact: true }).click();
    await page.goto(trial.served);
    await page.getByRole('button', { name: 'Unlock', exact: true }).waitFor();
    await shoot('unlock');
    await unlock(page);
    await page.getByRole('link', { name: 'faces' }).waitFor();
    await shoot('collections');
    await page.getByRole('button', { name: 'New collection' }).click();
    await page.getByLabel('Name').fill('guests');
    await shoot('new-collection');
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'faces' }).click();
    await page.getByRole('heading', { name: 'What it holds' }).waitFor();
    await shoot('overview');
    await tab('search');
    await page.getByLabel('32 numbers').fill(
      vectorOf(7)
        .map((each) => each.toFixed(4))
        .join(', '),
    );
    await page.getByRole('button', { name: 'Add a condition' }).click();
    await page.getByLabel('value of condition 1').fill('Cusco');
    await page.getByRole('button', { name: 'Search', exact: true }).click();
    await page.getByText('10 matches').waitFor();
    await shoot('search');
    await page.getByLabel('Fetch payloads').check();
    await page.getByRole('button', { name: 'Search', exact: true }).click();
    await page.getByText('showed it which').waitFor();
    await page.getByText('What the server saw', { exact: true }).scrollIntoViewIfNeeded();
    await shoot('search-payloads');
    await tab('records');
    await page.getByText('4 000 records').first().waitFor();
    await shoot('records');
    await page.locator('.ids .id', { hasText: 'person-' }).first().click();
    await page.getByLabel('Payload').waitFor();
    await shoot('record');
    await page.keyboard.press('Escape');
    await tab('enrol');
    await page.getByLabel('.npy, .jsonl').setInputFiles({
      name: 'people.jsonl',
      mimeType: 'application/jsonl',
      buffer: Buffer.from(
        Array.from({ length: 40 }, (_, i) =>
          JSON.stringify({ id: `guest-${i}`, vector: vectorOf(9000 + i), payload: { city: 'Bergen' } }),
        ).join('\n'),
      ),
    });
    await page.getByText('guest-3').waitFor();
    await shoot('enrol');
    await tab('upkeep');
    await page.getByRole('button', { name: 'Optimize', exact: true }).click();
    await page.locator('.job.finished, .job.failed').waitFor();
    await shoot('upkeep');
    await page.getByRole('button', { name: 'Lock', exact: true }).click();
    await page.getByText('You locked it').waitFor();
    await shoot('locked');
    await page.close();
  }
await browser.close();
console.log(target);
