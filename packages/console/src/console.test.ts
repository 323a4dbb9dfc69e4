// The console in Chromium, against a real server: what people do with it, what it never shows, and
// what others cannot do to it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { encodings } from '@hers/client/testing';
import { plan } from '@hers/scheme';
import { fit } from '@hers/training';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import { DIMENSION, HOSTILE, openTrial, PASSPHRASE, type Trial, vectorOf } from '../testing/trial.ts';
import { type RunningConsole, startConsole } from './node/serve.node.ts';

const browserPart = part('browser');
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const RECORDS = 300; // in one block
/** What takes longest is left to the automatic run, which requires a browser. */
const thorough = {
  skip: process.env.HERS_REQUIRE?.includes('browser') ? false : 'it takes long; HERS_REQUIRE=browser runs it',
};
const TABS = ['overview', 'search', 'records', 'enrol', 'upkeep'];

describe('the console', { skip: browserPart.skip, timeout: 120_000 }, () => {
  let trial: Trial;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  const complaints: string[] = [];
  /** All that went over the network, addresses and bodies. */
  const sent: Buffer[] = [];

  before(async () => {
    trial = await openTrial(RECORDS);
    browser = await chromium.launch({
      executablePath: browserPart.path!,
      args: ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP evil.example 127.0.0.1'],
    });
    context = await browser.newContext({
      viewport: { width: 1200, height: 600 },
      reducedMotion: 'reduce',
      acceptDownloads: true,
    });
    page = await context.newPage();
    watch(page);
  });
  after(async () => {
    await browser?.close();
    await trial?.[Symbol.asyncDispose]();
  });

  function watch(watched: Page): void {
    watched.setDefaultTimeout(20_000);
    watched.on('pageerror', (error) => complaints.push(String(error)));
    watched.on('console', (message) => {
      // What a server refuses, browsers write there as well.
      if (message.type() === 'error' && !/Failed to load resource/.test(message.text()))
        complaints.push(message.text());
    });
    watched.on('request', (request) => {
      sent.push(Buffer.from(`${request.method()} ${request.url()}`), request.postDataBuffer() ?? Buffer.alloc(0));
    });
  }

  const button = (name: string, on: Page = page) => on.getByRole('button', { name, exact: true });
  const tab = (name: string) => page.getByRole('link', { name, exact: true }).click();

  async function chooseKey(on: Page = page): Promise<void> {
    const buffer = Buffer.from(trial.keyFile);
    await on.getByLabel('Key file').setInputFiles({ name: 'hers.key', mimeType: 'application/json', buffer });
  }

  async function unlock(on: Page = page): Promise<void> {
    await on.getByLabel('Passphrase').fill(PASSPHRASE);
    await button('Unlock', on).click();
    await on.getByRole('heading', { name: 'Collections' }).waitFor();
  }

  /** What axe finds, one line each; by all its rules, or by these. */
  async function findings(what: string, ...runOnly: string[]): Promise<string[]> {
    // The policy of the page keeps scripts out that are added to it; this one comes past it.
    if (!(await page.evaluate('"axe" in globalThis'))) await page.evaluate(axe);
    const options = { resultTypes: ['violations'], ...(runOnly.length > 0 ? { runOnly } : {}) };
    const { violations } = (await page.evaluate(`axe.run(${JSON.stringify(options)})`)) as {
      violations: { id: string; nodes: { html: string }[] }[];
    };
    return violations.map(({ id, nodes }) => `${what}: ${id} ${nodes[0]!.html}`);
  }

  async function checkWidth(what: string): Promise<void> {
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(over <= 0, `${what} is ${over} pixels too wide`);
  }

  it('says what is wrong with a key file and with a passphrase', async () => {
    await page.goto(trial.served);
    await button('Unlock').waitFor();
    assert.deepEqual(await findings('unlock'), []);
    // The check itself works.
    await page.evaluate(() => document.getElementById('console')!.append(document.createElement('input')));
    assert.match((await findings('unlock')).join(), /label/);
    await page.evaluate(() => document.getElementById('console')!.lastElementChild!.remove());
    const file = { name: 'x.key', mimeType: 'text/plain', buffer: Buffer.from('no key') };
    await page.getByLabel('Key file').setInputFiles(file);
    await page.getByText('This is not a HERS key file.').waitFor();
    await chooseKey();
    await page.getByLabel('Passphrase').fill('another');
    await button('Unlock').click();
    await page.getByText('The passphrase is wrong').waitFor();
    assert.equal(await page.getByLabel('Passphrase').inputValue(), '');
  });

  it('opens by keys alone, and lists the collections', async () => {
    await page.getByLabel('Passphrase').focus();
    await page.keyboard.type(PASSPHRASE);
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'faces' }).waitFor();
    const row = await page.getByRole('row', { name: /faces/ }).innerText();
    assert.match(row.replaceAll(/\s+/g, ' '), /faces 300 32 cosine compact 1 /);
    await page.getByRole('link', { name: 'faces' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'What is promised' }).waitFor();
  });

  it('makes a collection, with the promise of the planner, and deletes it', async () => {
    await page.getByRole('link', { name: 'Collections' }).click();
    await button('New collection').click();
    await page.getByLabel('Name').fill('guests');
    await page.getByLabel('Dimension').fill('8');
    await page.getByLabel('Profile').selectOption('small');
    await button('Make it').click();
    await page.getByText('use compact, which is more accurate').waitFor();
    await page.getByLabel('Profile').selectOption('exact');
    await page.getByText('none beyond rounding').waitFor();
    assert.deepEqual(await findings('new collection'), []);
    await button('Make it').click();
    await page.getByRole('heading', { name: 'guests' }).waitFor();
    await button('Delete this collection …').click();
    assert.equal(await button('Delete it').isDisabled(), true);
    await page.getByLabel('Type guests to go on').fill('guests');
    await button('Delete it').click();
    await page.getByRole('heading', { name: 'Collections' }).waitFor();
    await page.getByRole('link', { name: 'faces' }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'guests' }).count(), 0);
  });

  it('searches by a vector, with a filter, and shows what the server saw', async () => {
    await page.getByRole('link', { name: 'faces' }).click();
    await tab('search');
    await page.getByLabel(`${DIMENSION} numbers`).fill(vectorOf(7).join(' '));
    await button('Search').click();
    await page.getByText('10 matches').waitFor();
    const [, id, score] = (await page.locator('.results tbody tr').first().innerText()).split(/\s+/);
    assert.equal(id, 'person-0007');
    const { noise } = plan({ dimension: DIMENSION });
    assert.ok(Math.abs(Number(score) - 1) < 8 * noise.score, `${score} is not 1 up to the noise`);
    assert.match(await page.locator('.saw').innerText(), /kB of ciphertext[\s\S]*No record was fetched/);
    await button('Add a condition').click();
    await page.getByLabel('value of condition 1').fill('Bergen');
    await button('Search').click();
    // The rows of the search before are there until this one is answered.
    const others = page.locator('.results tbody tr', { hasNotText: 'Bergen' });
    await others.first().waitFor({ state: 'detached' });
    await page.locator('.results tbody tr', { hasText: 'Bergen' }).first().waitFor();
    assert.equal(await others.count(), 0);
    await button('remove condition 1').click();
    await page.getByLabel('Fetch payloads').check();
    await button('Search').click();
    await page.getByText('Then this page fetched 10 records').waitFor();
    assert.equal(await page.locator('.saw .handles code').count(), 8);
    await page.getByText('note 7 of a person').waitFor();
    await page.getByLabel('Fetch payloads').uncheck();
  });

  it('searches by a row of a .npy file and by a record, whose id is text whatever it holds', async () => {
    const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (2, ${DIMENSION}), }\n`;
    const values = Float32Array.from([...vectorOf(20), ...vectorOf(21)]);
    const head = Buffer.from([0x93, ...Buffer.from('NUMPY'), 1, 0, header.length, 0]);
    const buffer = Buffer.concat([head, Buffer.from(header), Buffer.from(values.buffer)]);
    await button('.npy file').click();
    await page.getByLabel('File', { exact: true }).setInputFiles({ name: 'p.npy', mimeType: '', buffer });
    await page.getByLabel('Row').fill('1');
    await button('Search').click();
    await page.locator('.results tbody tr', { hasText: 'person-0021' }).waitFor();
    await button('Record').click();
    await page.getByLabel('Id of a record').fill(HOSTILE);
    await button('Search').click();
    // So long an id makes cards of the matches.
    await page.locator('.results .matches .id', { hasText: HOSTILE }).waitFor();
    assert.equal(await page.locator('#console img').count(), 0);
    assert.equal(await page.title(), 'HERS console');
  });

  it('shows records by pages, one with its payload, writes and deletes', async () => {
    await tab('records');
    await page.getByText('300 records').first().waitFor();
    await button('Next →').click();
    await page.getByText('51–100').waitFor();
    await button('← Before').click();
    await button('person-0012').click();
    await page.getByLabel('Payload').fill(`{ "city": "Cusco", "note": ${JSON.stringify(HOSTILE)} }`);
    await button('Write the payload').click();
    await page.getByText('The payload of person-0012 is written.').waitFor();
    await button('person-0013').click();
    await button('Delete the record').click();
    await page.getByText('person-0013 is deleted.').waitFor();
    await page.getByText('299 records').first().waitFor();
    await button('person-0012').click();
    await page.getByLabel('Payload').waitFor();
    assert.match(await page.getByLabel('Payload').inputValue(), /Cusco/);
    assert.deepEqual(await findings('record'), []);
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('#console img').count(), 0);
  });

  it('enrols a file with a preview', async () => {
    await tab('enrol');
    const input = page.getByLabel('.npy, .jsonl, .csv or .tsv');
    const csv = `id,city,${Array.from({ length: DIMENSION }, (_, i) => `v${i}`).join()}\nada,Dakar,${vectorOf(5000).join()}\n`;
    await input.setInputFiles({ name: 'a.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) });
    await page.getByRole('row', { name: /ada .*Dakar/ }).waitFor();
    await button('Import').click();
    await page.getByText('1 new, 0 replaced, 0 unchanged.').waitFor();
  });

  it('stops a large import in the middle', thorough, async () => {
    await tab('enrol');
    const input = page.getByLabel('.npy, .jsonl, .csv or .tsv');
    const count = 20_000;
    const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${count}, ${DIMENSION}), }\n`;
    const head = Buffer.from([0x93, ...Buffer.from('NUMPY'), 1, 0, header.length, 0]);
    const values = Float32Array.from({ length: count * DIMENSION }, (_, i) => Math.sin(i + 1));
    const buffer = Buffer.concat([head, Buffer.from(header), Buffer.from(values.buffer)]);
    await input.setInputFiles({ name: 'large.npy', mimeType: '', buffer });
    await button('Import 20 000 records').click();
    await button('Stop').click();
    await page.getByText('stopped: It was stopped.').waitFor();
  });

  it('keeps a collection up: optimize, and a snapshot as a file', async () => {
    await tab('upkeep');
    await button('Optimize').click();
    await page.getByText('what was deleted is gone from the disk').waitFor();
    const [download] = await Promise.all([page.waitForEvent('download'), button('Save one').click()]);
    assert.equal(download.suggestedFilename(), 'faces.snapshot');
    await page.getByText('are saved as faces.snapshot').waitFor();
  });

  it('reindexes through a compressor, and without it again; nothing changes by what is none', thorough, async () => {
    const training = Float32Array.from(Array.from({ length: 200 }, (_, i) => vectorOf(i)).flat());
    const compressor = await fit('pca', training, undefined, { inputDimension: DIMENSION, dimension: 16 });
    const choose = (name: string, bytes: Uint8Array) =>
      page.getByLabel('Compressor').setInputFiles({ name, mimeType: '', buffer: Buffer.from(bytes) });
    await choose('none.onnx', new Uint8Array(100));
    await page.locator('.job.failed').waitFor();
    await choose('faces-16.onnx', compressor.save());
    await page.getByText('Searches compare 16 dimensions.').waitFor();
    await button('Without one').click();
    await page.getByText('Searches compare 32 dimensions.').waitFor();
  });

  it('was answered at the first attempt, every time', async () => {
    assert.ok((await page.locator('.exchange').count()) > 40);
    assert.deepEqual(await page.locator('.exchange.failed').allInnerTexts(), []);
    await button('Empty the list').click();
  });

  it('has no finding of axe in any view, in light and dark, and fits a phone', thorough, async () => {
    const all: string[] = [];
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      for (const name of TABS) {
        await tab(name);
        await page.locator(`.tabs a[aria-current]:text-is("${name}")`).waitFor();
        // Nothing but colours differs.
        const rules = colorScheme === 'dark' ? ['color-contrast'] : [];
        all.push(...(await findings(`${name} ${colorScheme}`, ...rules)));
      }
    }
    assert.deepEqual(all, []);
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 360, height: 740 });
    for (const name of TABS) {
      await tab(name);
      await checkWidth(name);
    }
    await page.setViewportSize({ width: 1200, height: 600 });
  });

  it('says that a server is gone, and goes on when it is back', thorough, async () => {
    await tab('search');
    await page.getByLabel(`${DIMENSION} numbers`).fill(vectorOf(8).join(' '));
    await trial.stop();
    await button('Search').click();
    await page.locator('.problem', { hasText: 'cannot be reached' }).waitFor();
    await trial.start();
    await button('Search').click();
    await page.locator('.results tbody tr', { hasText: 'person-0008' }).waitFor();
  });

  it('sees in one tab what another has done', thorough, async () => {
    const other = await context.newPage();
    watch(other);
    await other.goto(trial.served);
    await chooseKey(other);
    await unlock(other);
    await other.getByRole('link', { name: 'faces' }).click();
    await other.getByRole('link', { name: 'records', exact: true }).click();
    const first = other.locator('.ids .id', { hasText: 'person-' }).first();
    const id = await first.innerText();
    await page.getByLabel(`${DIMENSION} numbers`).fill(vectorOf(Number(id.slice('person-'.length))).join(' '));
    await button('Search').click();
    const found = page.locator('.results tbody tr', { hasText: id });
    await found.waitFor();
    await first.click();
    await button('Delete the record', other).click();
    await other.getByText(`${id} is deleted.`).waitFor();
    await other.close();
    await button('Search').click();
    await found.waitFor({ state: 'detached' });
  });

  it('locks: the key and all that was shown are gone from the page, its storage and its history', async () => {
    await button('Lock').click();
    await page.getByText('You locked it. The key is gone from this page.').waitFor();
    const left = await page.evaluate(async () => {
      const databases = await Promise.all(
        (await indexedDB.databases()).map(async ({ name }) => {
          const opened = await new Promise<IDBDatabase>((resolve, reject) => {
            const opening = indexedDB.open(name!);
            opening.onsuccess = () => resolve(opening.result);
            opening.onerror = () => reject(opening.error);
          });
          const stores = [...opened.objectStoreNames];
          const rows = await Promise.all(
            stores.map(
              (store) =>
                new Promise<unknown[]>((resolve, reject) => {
                  const reading = opened.transaction(store).objectStore(store).getAll();
                  reading.onsuccess = () => resolve(reading.result);
                  reading.onerror = () => reject(reading.error);
                }),
            ),
          );
          opened.close();
          return { name, rows };
        }),
      );
      return JSON.stringify([
        document.documentElement.outerHTML,
        { ...localStorage },
        { ...sessionStorage },
        databases,
        history.state,
        location.href,
      ]);
    });
    assert.match(left, /"name":"hers console","rows":\[\[\{/);
    for (const [what, bytes] of secrets())
      for (const form of encodings(bytes)) assert.ok(!Buffer.from(left).includes(form), what);
    await page.goBack();
    assert.equal(await page.getByRole('heading', { name: 'Open the gallery' }).count(), 1);
    // Leaving while it is open, and coming back.
    await chooseKey();
    await page.getByLabel('Passphrase').fill(PASSPHRASE);
    await button('Unlock').click();
    await page.locator('.lock').waitFor();
    await page.goto('about:blank');
    await page.goBack();
    await button('Unlock').waitFor();
    assert.equal(await page.locator('.lock').count(), 0);
  });

  it('locks itself when nobody does anything, and says so before', thorough, async () => {
    const idle = await context.newPage();
    watch(idle);
    await idle.clock.install();
    await idle.goto(trial.served);
    await chooseKey(idle);
    await unlock(idle);
    await idle.clock.fastForward('09:30');
    await idle.getByText(/locks in [23]\d s/).waitFor();
    await idle.keyboard.press('Shift');
    await idle.getByText('unlocked', { exact: true }).waitFor();
    await idle.clock.fastForward('10:02');
    await idle.getByText('It locked itself after 10 min without anybody.').waitFor();
    await idle.close();
  });

  function secrets(): [what: string, bytes: Buffer][] {
    return [
      ['the key', Buffer.from(trial.seed)],
      ['the passphrase', Buffer.from(PASSPHRASE)],
      ['an id', Buffer.from('person-00')],
      ['a payload', Buffer.from('of a person')],
      ['a vector', Buffer.from(Float32Array.from(vectorOf(7)).buffer)],
    ];
  }

  it('has sent no id, no payload, no vector, no key, and has not complained', async () => {
    const all = Buffer.concat(sent);
    assert.ok(all.length > 500_000, `${all.length} bytes were watched`);
    for (const [what, bytes] of secrets()) for (const form of encodings(bytes)) assert.ok(!all.includes(form), what);
    assert.deepEqual(complaints, []);
  });

  describe('before a server that cheats', () => {
    /** What it says in the place of each path; all else is the real server's. */
    const lies = new Map<string, (outgoing: ServerResponse) => void>();
    let cheat: Server;
    let running: RunningConsole;
    let victim: Page;
    const wrongs: string[] = [];

    before(async () => {
      const { port: target } = new URL(trial.served);
      cheat = createServer((incoming, outgoing) => {
        const lie = lies.get(incoming.url!);
        if (lie) return lie(outgoing);
        const { method, url: path, headers } = incoming;
        const onward = request({ host: '127.0.0.1', port: target, method, path, headers }, (answer) => {
          outgoing.writeHead(answer.statusCode!, answer.headers);
          answer.pipe(outgoing);
        });
        onward.on('error', () => outgoing.destroy());
        incoming.pipe(onward);
      });
      await new Promise<void>((resolve) => cheat.listen(0, '127.0.0.1', resolve));
      running = await startConsole({
        upstream: { url: `http://127.0.0.1:${(cheat.address() as AddressInfo).port}` },
        gallery: HOSTILE,
        port: 0,
        keyFile: { name: HOSTILE, text: trial.keyFile },
      });
      const own = await browser.newContext();
      victim = await own.newPage();
      victim.setDefaultTimeout(20_000);
      victim.on('dialog', (dialog) => wrongs.push(dialog.message()));
      victim.on('console', (message) => {
        if (/Content Security Policy/.test(message.text())) wrongs.push(message.text());
      });
      await victim.goto(running.address);
      await victim.getByText('still sealed').waitFor();
      await unlock(victim);
    });
    after(async () => {
      await victim?.context().close();
      await running?.close();
      cheat?.closeAllConnections();
      cheat?.close();
    });

    const place = (name: string) => victim.getByRole('link', { name, exact: true }).click();
    const says = (value: unknown, status = 200) => {
      return (outgoing: ServerResponse) => {
        outgoing.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
      };
    };
    /** As the page makes elements; a server can write only the like of it. */
    const element = {
      type: 'img',
      props: { src: 'x', onerror: 'document.title=1' },
      key: null,
      ref: null,
      constructor: null,
    };

    it('shows what it says as text', async () => {
      const row = { id: HOSTILE, scope: HOSTILE, collection: HOSTILE, note: HOSTILE, created: HOSTILE, by: HOSTILE };
      lies.set('/v1/server/tokens', says({ tokens: [row, { ...row, id: 'x', note: element }] }));
      const line = { time: HOSTILE, operation: HOSTILE, collection: HOSTILE, address: HOSTILE, code: HOSTILE };
      lies.set('/v1/server/audit', says({ entries: [line] }));
      lies.set(
        '/v1/server/doctor',
        says({ findings: [{ check: HOSTILE, level: HOSTILE, found: HOSTILE, advice: HOSTILE }] }),
      );
      const node = { name: HOSTILE, url: `javascript:${HOSTILE}`, error: HOSTILE, shards: 1, bytes: 1, lagging: 0 };
      lies.set(
        '/v1/server/cluster',
        says({
          nodes: [node],
          collections: [{ name: HOSTILE, version: HOSTILE, shards: 1, replicas: 1, degraded: 0, blocked: 0, lost: 0 }],
          moves: [{ collection: HOSTILE, shard: HOSTILE, from: HOSTILE, to: HOSTILE, state: HOSTILE }],
        }),
      );
      await place('Server');
      for (const tab of ['tokens', 'audit log', 'doctor', 'cluster']) {
        await place(tab);
        await victim.locator('main', { hasText: HOSTILE }).waitFor();
        assert.equal(await victim.locator('#console img, #console script, a[href^="javascript"]').count(), 0, tab);
      }
      lies.set('/v1/server/doctor', says({ code: 'FORBIDDEN', message: HOSTILE }, 403));
      await place('doctor');
      await victim.locator('.problem', { hasText: HOSTILE }).waitFor();
      lies.set('/v1/collections/faces/search', says({ code: 'INVALID_ARGUMENT', message: HOSTILE }, 400));
      await place('Gallery');
      await place('faces');
      await place('search');
      await victim.getByLabel(`${DIMENSION} numbers`).fill(vectorOf(7).join(' '));
      await button('Search', victim).click();
      await victim.locator('.problem', { hasText: HOSTILE }).waitFor();
      assert.equal(await victim.locator('#console img').count(), 0);
      assert.equal(await victim.title(), 'HERS console');
      assert.deepEqual(wrongs, []);
    });

    it('stays usable whatever shape its answers have, and however long they are', async () => {
      const shapes = [null, 5, [], {}, { tokens: null }, { tokens: [null] }, { tokens: [{}] }, { tokens: 'x' }];
      await place('Server');
      for (const shape of shapes) {
        lies.set('/v1/server/tokens', says(shape));
        await place('metrics');
        await place('tokens');
        await victim
          .getByRole('heading', { name: 'This cannot be shown' })
          .or(victim.locator('tbody'))
          .first()
          .waitFor();
      }
      lies.set('/v1/server/tokens', (outgoing) => {
        outgoing.writeHead(200, { 'content-type': 'application/json' });
        const piece = Buffer.alloc(2 ** 20, ' ');
        const more = () => {
          while (outgoing.writable && outgoing.write(piece));
        };
        outgoing.on('drain', more);
        more();
      });
      await place('metrics');
      await place('tokens');
      await victim.getByText('answered more than can be shown').waitFor();
      lies.clear();
      await place('Gallery');
      await victim.getByRole('link', { name: 'faces' }).waitFor();
    });
  });

  describe('of hers console', () => {
    it('opens by its address once, in one browser, with the key file of the folder', async () => {
      const own = await browser.newContext();
      const first = await own.newPage();
      await first.goto(trial.address);
      await first.getByText('From the folder of hers console, still sealed.').waitFor();
      assert.equal(new URL(first.url()).hash, '');
      await unlock(first);
      await first.getByRole('link', { name: 'faces' }).waitFor();
      // A second tab of the same browser may follow, with the address or without.
      const second = await own.newPage();
      for (const address of [trial.address, trial.address.replace(/#.*/, '')]) {
        await second.goto(address);
        await button('Unlock', second).waitFor();
      }
      const stranger = await browser.newContext();
      const third = await stranger.newPage();
      await third.goto(trial.address);
      await third.getByText('This address was used already', { exact: false }).waitFor();
      await stranger.close();

      // Pages of others, opened in the browser that has the session.
      const asked: IncomingMessage[] = [];
      const evil = createServer((incoming, outgoing) => {
        asked.push(incoming);
        outgoing.setHeader('content-type', 'text/html').end('<p>hello');
      });
      await new Promise<void>((resolve) => evil.listen(0, '127.0.0.1', resolve));
      const { port } = evil.address() as AddressInfo;
      const { origin, port: ownPort } = new URL(trial.address);
      const stray = await own.newPage();
      for (const host of [`evil.example:${port}`, `127.0.0.1:${port}`]) {
        await stray.goto(`http://${host}/`);
        const outcome = await stray.evaluate(
          async (targets) => {
            const results: string[] = [];
            for (const target of targets)
              for (const mode of ['cors', 'no-cors'] as const)
                for (const method of ['GET', 'POST']) {
                  const answer = await fetch(target, { mode, method, credentials: 'include' }).catch(() => undefined);
                  results.push(answer ? (answer.type === 'opaque' ? 'opaque' : String(answer.status)) : 'refused');
                }
            return [...new Set(results)];
          },
          [
            `${origin}/v1/collections`,
            `${origin}/console/session`,
            `${origin}/console/key`,
            `http://evil.example:${ownPort}/v1`,
          ],
        );
        assert.deepEqual(
          outcome.filter((each) => !['refused', 'opaque'].includes(each)),
          [],
          host,
        );
      }
      // A server on another port is sent the cookie, and cannot use it.
      const cookie = asked.map(({ headers }) => headers.cookie).find((each) => each?.includes('hers-console'));
      assert.ok(cookie, 'cookies know no ports');
      const stolen = await fetch(`${origin}/v1/collections`, { headers: { cookie } });
      assert.equal(stolen.status, 401);
      evil.closeAllConnections();
      evil.close();
      await own.close();
    });
  });
});
