// How fast the page is: until it can be used, until a large collection is open, and per search.
//
//   node packages/console/testing/speed.ts [records] [dimension]

import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Database, MasterSeed, sealKey } from '@hers/client';
import { startServer } from '@hers/server';
import { openStore } from '@hers/store';
import { chromium } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import { BASE, PAGE_HEADERS, readPage, serverFiles } from '../src/node/index.node.ts';
import { PASSPHRASE, vectorOf } from './trial.ts';

const [records = 100_000, dimension = 128] = process.argv.slice(2).map(Number);
const SEARCHES = 15;

const folder = await mkdtemp(join(tmpdir(), 'hers-console-speed-'));
using key = MasterSeed.generate();
const database = new Database(await openStore(folder), { key });
const collection = await database.createCollection('large', { dimension });
function* all() {
  for (let i = 0; i < records; i++) yield { id: `record-${i}`, vector: Float32Array.from(vectorOf(i, dimension)) };
}
await collection.upsert(all());
await collection.optimize();
await database.close();

const site = { base: BASE, headers: PAGE_HEADERS, files: [...(await readPage()), ...serverFiles()] };
const server = await startServer(await openStore(folder), { port: 0, site });
const browser = await chromium.launch({ executablePath: part('browser').path!, args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
page.setDefaultTimeout(60_000);
const button = (name: string) => page.getByRole('button', { name, exact: true });
const timed = async (work: () => Promise<unknown>) => {
  const start = performance.now();
  await work();
  return Math.round(performance.now() - start);
};
const usable = await timed(async () => {
  await page.goto(server.url + BASE);
  await button('Unlock').waitFor();
});
const buffer = Buffer.from(await sealKey(key, PASSPHRASE, 2 ** 10));
await page.getByLabel('Key file').setInputFiles({ name: 'hers.key', mimeType: 'application/json', buffer });
await page.getByLabel('Passphrase').fill(PASSPHRASE);
await button('Unlock').click();
await page.getByRole('link', { name: 'large' }).click();
const opened = await timed(async () => {
  await page.getByRole('link', { name: 'records', exact: true }).click();
  await page.locator('.ids li').first().waitFor();
});
await page.getByRole('link', { name: 'search', exact: true }).click();
const times: number[] = [];
for (let i = 0; i < SEARCHES; i++) {
  await page.getByLabel(`${dimension} numbers`).fill(vectorOf(i, dimension).join(' '));
  await button('Search').click();
  await page.locator('.results tbody tr').first().getByText(`record-${i}`, { exact: true }).waitFor();
  const text = await page.locator('.timeline .total .number').innerText();
  times.push(text.endsWith('ms') ? Number.parseFloat(text) : 1000 * Number.parseFloat(text));
}
const session = await page.context().newCDPSession(page);
await session.send('Performance.enable');
const { metrics } = await session.send('Performance.getMetrics');
const heap = metrics.find(({ name }) => name === 'JSHeapUsedSize')!.value;
const sorted = times.toSorted((a, b) => a - b);
console.log(`${records} records of ${dimension} dimensions, ${cpus().length} × ${cpus()[0]!.model}`);
console.log(`the page can be used after ${usable} ms; the collection is open after ${opened} ms`);
console.log(
  `a search in the page: ${sorted[0]} ms at best, ${sorted[SEARCHES >> 1]} ms median, ${sorted.at(-1)} ms at worst`,
);
const resident = await largestRenderer();
console.log(`the page takes ${(heap / 1e6).toFixed(0)} MB of JavaScript memory; its process ${resident} MB in all`);
await browser.close();
await server.close();
await rm(folder, { recursive: true, force: true });

/** Resident memory, in MB, of the largest process that shows a page, with its workers. */
async function largestRenderer(): Promise<number> {
  const { processInfo } = await (await browser.newBrowserCDPSession()).send('SystemInfo.getProcessInfo');
  const sizes = processInfo
    .filter(({ type }) => type === 'renderer')
    .map(({ id }) => Number(/VmRSS:\s*(\d+)/.exec(readFileSync(`/proc/${id}/status`, 'utf8'))?.[1]) / 1000);
  return Math.round(Math.max(...sizes));
}
