// npm run screenshots: every screen of the console, light and dark, wide and on a phone, into
// temp/screenshots, to be looked at. Words after it choose those whose names contain one of them,
// such as 11-search-photo-wide-light.

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { TokenStore } from '@hers/server';
import { openStore } from '@hers/store';
import { chromium, type Page } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import { DRAWN, drawFace } from './drawn-face.ts';
import { vectorOf } from './trial.ts';

const root = resolve(import.meta.dirname, '../../..');
const target = join(root, 'temp/screenshots');
mkdirSync(target, { recursive: true });

const SIZES = { wide: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };
const wanted = process.argv.slice(2);

/** Runs the command until it has said where it listens. */
async function start(...words: string[]): Promise<{ readonly url: string; readonly process: ChildProcess }> {
  const command = [join(root, 'packages/cli/src/main.ts'), ...words, '--port', '0', '--json'];
  const child = spawn(process.execPath, command, { stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  const url = await new Promise<string>((found, reject) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      if (said.includes('\n')) found(JSON.parse(said).url);
    });
    child.once('exit', (code) => reject(new Error(`${words[0]} ended with ${code}`)));
  });
  return { url, process: child };
}

const folder = await mkdtemp(join(tmpdir(), 'hers-screenshots-'));
const tokens = new TokenStore(join(folder, 'tokens.json'));
const { secret: admin } = await tokens.create({ scope: 'admin', note: 'whoever runs it' });
await tokens.create({ scope: 'search', collection: 'faces', note: 'the door camera' });
await tokens.create({ scope: 'write', note: 'the import at night' });
await (await openStore(join(folder, 'gallery'))).close();
const example = await start('console', '--example', '--no-open');
const server = await start(
  ...['serve', '--console', '--gallery', join(folder, 'gallery'), '--tokens', tokens.path],
  ...['--audit-log', join(folder, 'audit.jsonl'), '--log-level', 'silent'],
);
const browser = await chromium.launch({ executablePath: part('browser').path!, args: ['--no-sandbox'] });

/** The kinds that are named; all where none is. */
const named = wanted.flatMap((each) => /(?:wide|phone)-(?:light|dark)$/.exec(each) ?? []);
let number = 0;
let suffix = '';
async function shoot(page: Page, name: string, isWhole = false): Promise<void> {
  const file = `${String(++number).padStart(2, '0')}-${name}-${suffix}.png`;
  if (wanted.length > 0 && !wanted.some((each) => file.includes(each))) return;
  await page.waitForTimeout(200);
  writeFileSync(join(target, file), await page.screenshot({ fullPage: isWhole || suffix.startsWith('phone') }));
}

const watch = (page: Page) => {
  page.on('pageerror', (error) => console.error(String(error)));
  page.on('console', (message) => message.type() === 'error' && console.error(message.text()));
};

async function gallery(page: Page): Promise<void> {
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const link = (name: string) => page.getByRole('link', { name, exact: true }).click();
  const search = async () => {
    await button('Search').click();
    await page.locator('.clear .facts').waitFor();
  };
  await page.getByText('still sealed').waitFor();
  await shoot(page, 'unlock');
  await page.getByLabel('Passphrase').fill('example');
  await button('Unlock').click();
  await page.getByRole('link', { name: 'sentences' }).waitFor();
  await shoot(page, 'collections');
  await button('New collection').click();
  await page.getByLabel('Name').fill('guests');
  await shoot(page, 'new-collection');
  await page.keyboard.press('Escape');
  await link('sentences');
  await page.getByRole('heading', { name: 'What it holds' }).waitFor();
  await shoot(page, 'overview');
  await link('search');
  await page.getByLabel('A sentence').fill('What will the weather be like?');
  await search();
  await shoot(page, 'search-sentence');
  await shoot(page, 'search-sentence-whole', true);
  await link('enrol');
  await shoot(page, 'enrol-sentences');
  await link('Gallery');
  await link('faces');
  await link('search');
  await shoot(page, 'photo');
  await button('Vector').click();
  await page.getByLabel('From the example').selectOption('another picture of person-0750');
  await page.getByLabel('Fetch payloads').check();
  await search();
  await shoot(page, 'search-vector', true);
  await link('enrol');
  const pictures = await Promise.all(
    Object.entries(DRAWN).map(async ([name, colours]) => ({
      ...{ name: `${name}.png`, mimeType: 'image/png' },
      buffer: Buffer.from(await page.evaluate(drawFace, colours), 'base64'),
    })),
  );
  await page.getByLabel('Pictures for faces').setInputFiles(pictures);
  await button('Enrol 3 faces').waitFor({ timeout: 60_000 });
  await page.getByLabel('.npy, .jsonl').setInputFiles({
    ...{ name: 'people.jsonl', mimeType: 'application/jsonl' },
    buffer: Buffer.from(
      Array.from({ length: 40 }, (_, i) =>
        JSON.stringify({ id: `guest-${i}`, vector: vectorOf(9000 + i, 128), payload: { since: 2020 } }),
      ).join('\n'),
    ),
  });
  await page.getByText('guest-3').waitFor();
  await shoot(page, 'enrol');
  await button('Enrol 3 faces').click();
  await page.locator('.job.finished').waitFor();
  await link('search');
  await page.getByLabel('A photograph').setInputFiles(pictures[0]!);
  await page.getByRole('button', { name: 'face 1' }).waitFor({ timeout: 60_000 });
  await page.getByLabel('Fetch payloads').check();
  await page.getByLabel('At most').fill('0.6');
  await search();
  await shoot(page, 'search-photo');
  await link('records');
  await page.getByText('5 003 records').first().waitFor();
  await shoot(page, 'records');
  await page.locator('.ids .id', { hasText: 'person-' }).first().click();
  await page.getByLabel('Payload').waitFor();
  await shoot(page, 'record');
  await page.keyboard.press('Escape');
  await link('upkeep');
  await button('Optimize').click();
  await page.locator('.job.finished, .job.failed').waitFor();
  await shoot(page, 'upkeep');
  await link('Server');
  await busy(page);
  await shoot(page, 'metrics');
  await link('doctor');
  await page.locator('.findings').waitFor();
  await shoot(page, 'doctor');
  await button('Lock').click();
  await page.getByText('You locked it').waitFor();
  await shoot(page, 'locked');
}

/** Searches in another tab for a while. */
async function busy(page: Page): Promise<void> {
  const other = await page.context().newPage();
  await other.goto(page.url().replace(/#.*/, ''));
  await other.getByText('still sealed').waitFor();
  await other.getByLabel('Passphrase').fill('example');
  await other.getByRole('button', { name: 'Unlock', exact: true }).click();
  await other.getByRole('link', { name: 'faces' }).click();
  await other.getByRole('link', { name: 'search', exact: true }).click();
  await other.getByRole('button', { name: 'Vector' }).click();
  await other.getByLabel('From the example').selectOption('another picture of person-0750');
  for (let i = 0; i < 40; i++) {
    await other.getByRole('button', { name: 'Search', exact: true }).click();
    await other.getByRole('button', { name: 'Search', exact: true }).waitFor();
    await other.waitForTimeout(20 * (i % 10));
  }
  await other.close();
  await page.bringToFront();
}

/** A server with tokens and an audit log. */
async function operations(page: Page): Promise<void> {
  const link = (name: string) => page.getByRole('link', { name, exact: true }).click();
  await page.getByRole('button', { name: 'Make a new key' }).click();
  await page.getByLabel('Passphrase for the new key file').fill('for screenshots');
  await page.getByLabel('The same again').fill('for screenshots');
  await page.getByRole('button', { name: 'Make and save it' }).click();
  await page.getByLabel('Token, if the server asks for one').fill(admin);
  await page.getByLabel('I have the file').check();
  await page.getByRole('button', { name: 'Open the gallery with it' }).click();
  await page.getByRole('heading', { name: 'Collections' }).waitFor();
  await shoot(page, 'no-collections');
  await link('Server');
  await link('tokens');
  await page.getByRole('row', { name: /door camera/ }).waitFor();
  await shoot(page, 'tokens');
  await link('audit log');
  await page.getByRole('cell', { name: 'listTokens' }).first().waitFor();
  await shoot(page, 'audit');
  await link('cluster');
  await page.getByText('no node of a cluster').waitFor();
  await shoot(page, 'cluster');
}

try {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  watch(page);
  let address = example.url;
  for (const [size, viewport] of Object.entries(SIZES))
    for (const colorScheme of ['light', 'dark'] as const) {
      suffix = `${size}-${colorScheme}`;
      if (named.length > 0 && !named.includes(suffix)) continue;
      number = 0;
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      await page.goto('about:blank');
      await page.goto(address);
      address = address.replace(/#.*/, '');
      await gallery(page);
      const other = await browser.newPage({ viewport, colorScheme });
      watch(other);
      await other.goto(`${server.url}/console/`);
      await operations(other);
      await other.close();
    }
} finally {
  await browser.close();
  for (const { process: child } of [example, server]) {
    const ended = child.exitCode === null ? new Promise((resolve) => child.once('exit', resolve)) : undefined;
    child.kill('SIGTERM');
    await ended;
  }
  await rm(folder, { recursive: true, force: true });
}
console.log(target);
