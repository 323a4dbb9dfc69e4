// The module for pages, in Chromium, against a `hers serve` of its own: what a page does is what
// Node does, workers or not, isolated or not; and nothing that is secret goes over the line, on
// which every byte is remembered.

import assert from 'node:assert/strict';
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect as connectSocket, createServer as createLine, type Server as Line } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { TokenStore } from '@hers/server';
import { openStore } from '@hers/store';
import { init, parse } from 'es-module-lexer';
import { type Browser, chromium, type Page } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import { counts, encodings } from '../testing/client.ts';
import {
  connect,
  MasterSeed,
  type Match,
  openKey,
  type StoredRecord,
  type UpsertResult,
  type Verification,
} from './index.ts';

const root = resolve(import.meta.dirname, '../../..');
const built = resolve(import.meta.dirname, '../build');
const browserPart = part('browser');

/** What a page has to load before it can search. */
const MODULE_BYTES = 311_000;
const COMPRESSED_BYTES = 111_000;

describe('the module for pages', () => {
  it('is one file that loads nothing else, and not too large', async () => {
    await init();
    const bytes = await readFile(join(built, 'hers.js'));
    const text = bytes.toString();
    const [imports, exports] = parse(text);
    // Nothing but what only some collections need, and nothing of that before one does.
    const loaded = imports.filter(({ type }) => type !== 'import-meta');
    for (const { type, specifier } of loaded) {
      assert.equal(type, 'dynamic', `${specifier}`);
      assert.match(specifier ?? '', /^onnxruntime-web/);
    }
    for (const name of ['connect', 'MasterSeed', 'sealKey', 'openKey', 'HersError'])
      assert.ok(
        exports.some((each) => 'name' in each && each.name === name),
        name,
      );
    assert.ok(!/["'`]node:|\brequire\(|process\.(?!versions|process\b)[a-z]+\(/.test(text), 'something of Node');
    assert.ok(bytes.length <= MODULE_BYTES, `${bytes.length} bytes`);
    const compressed = gzipSync(bytes, { level: 9 }).length;
    assert.ok(compressed <= COMPRESSED_BYTES, `${compressed} bytes compressed`);
    const worker = await readFile(join(built, 'hers-worker.js'), 'utf8');
    assert.deepEqual(
      parse(worker)[0].map(({ specifier }) => specifier),
      ['./hers.js'],
    );
  });
});

/** Starts a program, and waits until it has said something. */
async function firstLine(args: string[], options: SpawnOptions): Promise<{ child: ChildProcess; line: string }> {
  const child = spawn(process.execPath, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  let errors = '';
  child.stderr!.setEncoding('utf8').on('data', (text) => (errors += text));
  const ended = once(child, 'exit').then(() => assert.fail(`${args[0]} ended: ${errors}`));
  ended.catch(() => {});
  const [line] = await Promise.race([once(createInterface(child.stdout!), 'line'), ended]);
  return { child, line };
}

/** A `hers serve` in a folder of its own. */
class Serving {
  readonly folder: string;
  readonly url: string;
  /** Of somebody who may do everything. */
  readonly token: string;
  readonly #child: ChildProcess;

  private constructor(folder: string, child: ChildProcess, url: string, token: string) {
    this.folder = folder;
    this.token = token;
    this.#child = child;
    this.url = url;
  }

  static async start(...options: string[]): Promise<Serving> {
    const folder = await mkdtemp(join(tmpdir(), 'hers-pages-'));
    await (await openStore(join(folder, 'gallery'))).close();
    const tokens = join(folder, 'tokens.json');
    const { secret } = await new TokenStore(tokens).create({ scope: 'admin' });
    const args = ['serve', '--json', '--port', '0', '--tokens', tokens, ...options];
    const { child, line } = await firstLine([join(root, 'packages/cli/src/main.ts'), ...args], {
      cwd: folder,
      env: { PATH: process.env.PATH, HOME: folder, HERS_GALLERY: join(folder, 'gallery'), NO_COLOR: '1' },
    });
    return new Serving(folder, child, JSON.parse(line).url, secret);
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGTERM');
    if (this.#child.exitCode === null) await once(this.#child, 'exit');
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A line to a server that keeps what goes over it, in both directions. */
async function watchedLine(
  target: string,
): Promise<{ line: Line; url: string; bytes: () => { sent: Buffer; received: Buffer } }> {
  const { port } = new URL(target);
  const sent: Buffer[] = [];
  const received: Buffer[] = [];
  const line = createLine((near) => {
    const far = connectSocket(Number(port), '127.0.0.1');
    near.on('data', (bytes) => sent.push(bytes as Buffer)).pipe(far);
    far.on('data', (bytes) => received.push(bytes as Buffer)).pipe(near);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ])
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
  });
  const url = await listen(line);
  return { line, url, bytes: () => ({ sent: Buffer.concat(sent), received: Buffer.concat(received) }) };
}

async function listen(server: Server | Line): Promise<string> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/**
 * Pages with the policy that the documentation asks for. `/alone/` has no worker file, as after
 * careless copying; in `/strict/` workers may not use WebAssembly.
 */
async function pages(headers: Record<string, string>): Promise<{ server: Server; origin: string }> {
  const files: Record<string, readonly [string, string]> = {
    '/': ['text/html', '<!doctype html><meta charset="utf-8"><title>page</title>'],
    '/hers.js': ['text/javascript', await readFile(join(built, 'hers.js'), 'utf8')],
    '/hers-worker.js': ['text/javascript', await readFile(join(built, 'hers-worker.js'), 'utf8')],
  };
  const server = createServer((request, response) => {
    const path = request.url!.replace(/^\/(?:alone|strict)\//, '/');
    const [type, text] = files[path] ?? [];
    if (!type || request.url === '/alone/hers-worker.js') return void response.writeHead(404).end();
    const wasm = request.url === '/strict/hers-worker.js' ? '' : "'wasm-unsafe-eval'";
    const policy = `default-src 'none'; script-src 'self' ${wasm}; worker-src 'self'; connect-src http://127.0.0.1:*`;
    response
      .writeHead(200, { 'content-type': `${type}; charset=utf-8`, 'content-security-policy': policy, ...headers })
      .end(text);
  });
  return { server, origin: await listen(server) };
}

const DIMENSION = 16;
const COUNT = 2100; // a block, and 52 pending
const PASSPHRASE = 'correct horse battery staple';
const SENTINEL = 'the payload that nobody else may read';

/** What comes of it. */
interface Outcome {
  readonly file: string;
  readonly seed: number[];
  readonly isolated: boolean;
  readonly written: UpsertResult;
  readonly again: UpsertResult;
  readonly found: Match[];
  readonly reranked: Match;
  readonly batch: unknown;
  readonly verified: Verification[];
  readonly deleted: number;
  readonly counted: number;
  readonly errors: Record<string, string>;
  readonly left: (Omit<StoredRecord, 'vector'> & { readonly vector: number[] })[];
}

/**
 * What the page does. Everything it returns comes to the test by the browser's own line, not over
 * the network.
 */
const scenario = `async ({ url, token, module, collection, dimension, count, passphrase, sentinel }) => {
  const { connect, MasterSeed, sealKey, openKey, HersError } = await import(module);
  const code = (promise) => promise.then(() => 'nothing', (error) => (error instanceof HersError ? error.code : String(error)));
  const vectorOf = (seed) => { let x = Math.imul(seed + 1, 0x9e3779b1); return Float32Array.from({ length: dimension }, () => {
    x ^= x << 13; x ^= x >>> 17; x ^= x << 5; return x / 2 ** 31; }); };

  const file = passphrase && (await sealKey(MasterSeed.generate(), passphrase));
  const wrongPassphrase = passphrase ? await code(openKey(file, 'another')) : 'WRONG_KEY';
  const key = passphrase ? await openKey(file, passphrase) : MasterSeed.generate();
  const seed = [...key.reveal()];
  const db = await connect(url, { key, token });
  const faces = await db.createCollection(collection, { dimension });
  const records = Array.from({ length: count }, (_, i) => ({ id: 'person number ' + i, vector: vectorOf(i), payload: { sentinel, i } }));
  const written = await faces.upsert(records);
  const again = await faces.upsert(records.slice(0, 100));
  const found = [];
  for (const i of [0, 2047, count - 1]) found.push((await faces.search(vectorOf(i), { limit: 3 })).matches[0]);
  const reranked = (await faces.search(vectorOf(7), { limit: 1, rerank: true, payload: true })).matches[0];
  const batch = (await faces.searchBatch([vectorOf(3), vectorOf(2060)], { limit: 1 })).map(({ matches, coverage }) => [matches[0].id, coverage]);
  const verified = [await faces.verify('person number 5', vectorOf(5), { threshold: 0.9 }), await faces.verify('person number 5', vectorOf(6), { threshold: 0.9 })];
  const deleted = await faces.delete(['person number 9', 'nobody']);
  const errors = { wrongPassphrase, folder: await code(connect('file:./x', { key })), none: await code(db.collection('none')), vector: await code(faces.search([1])),
    stranger: await code((await connect(url, { key: MasterSeed.generate(), token })).collection(collection)),
    token: await code(connect(url, { key })) };
  await faces.optimize();
  const counted = await faces.count();
  const left = (await faces.get(['person number 8', 'person number 9'])).map(({ id, vector, payload }) => ({ id, vector: [...vector], payload }));
  await db.close();
  return { file, seed, isolated: crossOriginIsolated, written, again, found, reranked, batch, verified, deleted, errors, counted, left };
}`;

/** A collection with queries of a kilobyte, made and searched by a page. */
const openScenario = `async ({ url, token, module, collection }) => {
  const { connect, MasterSeed } = await import(module);
  const vectorOf = (seed) => { let x = Math.imul(seed + 1, 0x9e3779b1); return Float32Array.from({ length: 16 }, () => {
    x ^= x << 13; x ^= x >>> 17; x ^= x << 5; return x / 2 ** 31; }); };
  const key = MasterSeed.generate();
  const db = await connect(url, { key, token });
  const faces = await db.createCollection(collection, { dimension: 16, profile: 'open' });
  await faces.upsert(Array.from({ length: 4200 }, (_, i) => ({ id: String(i), vector: vectorOf(i) })));
  const found = [];
  for (const i of [4, 4000, 4100]) found.push((await faces.search(vectorOf(i), { limit: 1 })).matches[0]);
  const refused = await faces.search(vectorOf(1), { payload: true }).catch(({ message }) => message);
  const seed = [...key.reveal()];
  await db.close();
  return { seed, asked: [...vectorOf(4000)], found, refused };
}`;

describe('a page', { skip: browserPart.skip, timeout: 180_000 }, () => {
  let plain: Awaited<ReturnType<typeof pages>>;
  let isolated: Awaited<ReturnType<typeof pages>>;
  let example: { child: ChildProcess; line: string };
  let serving: Serving;
  let watched: Awaited<ReturnType<typeof watchedLine>>;
  let browser: Browser;
  const complaints: string[] = [];
  /** What must not have gone over the line. */
  const secrets: [what: string, forms: Buffer[]][] = [
    ['a passphrase', encodings(Buffer.from(PASSPHRASE))],
    ['a payload', encodings(Buffer.from(SENTINEL))],
    ['an id', encodings(Buffer.from('person number'))],
  ];

  before(async () => {
    plain = await pages({});
    isolated = await pages({
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-embedder-policy': 'require-corp',
    });
    example = await firstLine([join(root, 'examples/browser/serve.mjs'), '0'], {});
    serving = await Serving.start('--cors', plain.origin, isolated.origin, example.line);
    watched = await watchedLine(serving.url);
    browser = await chromium.launch({
      executablePath: browserPart.path!,
      args: ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'],
    });
  });
  after(async () => {
    await browser?.close();
    watched?.line.close();
    for (const { server } of [plain, isolated]) server?.close();
    example?.child.kill();
    await serving?.stop();
  });

  async function open(address: string): Promise<Page> {
    const page = await browser.newPage();
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(address);
    return page;
  }

  const ways = [
    {
      name: 'an ordinary page',
      collection: 'ordinary',
      keyFile: true,
      module: '/hers.js',
      isolated: false,
      workers: true,
    },
    {
      name: 'an isolated page',
      collection: 'isolated',
      keyFile: false,
      module: '/hers.js',
      isolated: true,
      workers: true,
    },
    {
      name: 'a page without workers',
      collection: 'alone',
      keyFile: false,
      module: '/alone/hers.js',
      isolated: false,
      workers: false,
    },
  ];
  for (const { name, module, workers } of ways.filter(({ isolated }) => !isolated))
    it(`${name}: makes a collection of the profile open and searches it, and Node finds the same`, async () => {
      const page = await open(plain.origin);
      const input = { url: watched.url, token: serving.token, module, collection: `open-${workers}` };
      const { seed, asked, found, refused } = (await page.evaluate(`(${openScenario})(${JSON.stringify(input)})`)) as {
        readonly seed: number[];
        readonly asked: number[];
        readonly found: Match[];
        readonly refused: string;
      };
      await page.close();
      assert.deepEqual(complaints, []);
      assert.deepEqual(
        found.map(({ id }) => id),
        ['4', '4000', '4100'],
      );
      assert.ok(found.every(({ score }) => Math.abs(score - 1) < 0.01));
      assert.match(refused, /because of their scores/);
      const key = MasterSeed.from(Uint8Array.from(seed));
      const db = await connect(serving.url, { key, token: serving.token });
      const faces = await db.collection(`open-${workers}`);
      assert.equal(faces.plan.profile, 'open');
      const { matches } = await faces.search(asked, { limit: 1 });
      assert.equal(matches[0].id, '4000');
      await db.close();
    });

  for (const way of ways) {
    it(`${way.name}: makes a key and a collection, enrols, searches, verifies, and Node reads the same`, async () => {
      const page = await open((way.isolated ? isolated : plain).origin);
      const started: string[] = [];
      page.on('worker', (worker) => started.push(worker.url()));
      const input = {
        url: watched.url,
        token: serving.token,
        module: way.module,
        collection: way.collection,
        dimension: DIMENSION,
        count: COUNT,
        // Opening a key file takes a second by design: once is enough.
        passphrase: way.keyFile ? PASSPHRASE : '',
        sentinel: SENTINEL,
      };
      const result = (await page.evaluate(`(${scenario})(${JSON.stringify(input)})`)) as Outcome;
      await page.close();
      assert.deepEqual(complaints, []);
      assert.equal(result.isolated, way.isolated);
      // A worker that could not be loaded may be seen for a moment.
      if (way.workers)
        assert.ok(started.length > 0 && started.every((url) => url.endsWith('/hers-worker.js')), started.join());
      assert.deepEqual([result.written, result.again], [counts({ inserted: COUNT }), counts({ unchanged: 100 })]);
      assert.deepEqual(
        result.found.map(({ id }) => id),
        [0, 2047, COUNT - 1].map((i) => `person number ${i}`),
      );
      assert.deepEqual(
        [result.reranked.id, result.reranked.payload],
        ['person number 7', { sentinel: SENTINEL, i: 7 }],
      );
      assert.deepEqual(
        result.batch,
        [3, 2060].map((i) => [`person number ${i}`, { searched: COUNT, total: COUNT }]),
      );
      assert.deepEqual(
        result.verified.map(({ match }) => match),
        [true, false],
      );
      assert.deepEqual([result.deleted, result.counted], [1, COUNT - 1]);
      assert.deepEqual(result.errors, {
        wrongPassphrase: 'WRONG_KEY',
        folder: 'INVALID_ARGUMENT',
        none: 'NOT_FOUND',
        vector: 'INVALID_VECTOR',
        stranger: 'WRONG_KEY',
        token: 'UNAUTHENTICATED',
      });

      // What the page sealed and encrypted by its means, Node reads and searches by its own.
      const key = MasterSeed.from(Uint8Array.from(result.seed));
      if (way.keyFile) assert.deepEqual((await openKey(result.file, PASSPHRASE)).reveal(), key.reveal());
      const db = await connect(serving.url, { key, token: serving.token });
      const faces = await db.collection(way.collection);
      const records = await faces.get(['person number 8', 'person number 2099']);
      assert.deepEqual(records[0], { ...result.left[0], vector: Float32Array.from(result.left[0].vector) });
      assert.equal((await faces.search(records[1].vector, { limit: 1 })).matches[0].id, 'person number 2099');
      assert.deepEqual(await faces.upsert(records), counts({ unchanged: 2 }));

      await db.close();
      secrets.push(['a seed', encodings(key.reveal())], ['half a seed', encodings(key.reveal().subarray(0, 16))]);
      for (const { vector } of records) {
        for (const numbers of [vector, Float64Array.from(vector)])
          secrets.push([
            'a vector',
            encodings(new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength / 4)),
          ]);
        secrets.push(['a vector as text', [Buffer.from(JSON.stringify([...vector.subarray(0, 3)]).slice(1, -1))]]);
      }
    });
  }

  it('the example: colours by name, and a key that the browser keeps', async () => {
    const page = await open(example.line);
    await page.fill('[name=url]', watched.url);
    await page.fill('[name=token]', serving.token);
    await page.fill('[name=passphrase]', PASSPHRASE);
    await page.click('#open button');
    await page.waitForSelector('#search:not([hidden])', { timeout: 60_000 });
    await page.fill('[name=colour]', '#4781b0');
    await page.click('#search button');
    await page.waitForSelector('#matches li');
    assert.match((await page.textContent('#matches li'))!, /^steel blue, 0\.[01]/);
    assert.equal(
      JSON.parse((await page.evaluate(`localStorage.getItem('hers key')`)) as string).sealed !== undefined,
      true,
    );
    await page.close();
    secrets.push(['a colour', encodings(Buffer.from('steel blue'))]);
  });

  it('nothing secret went over the line, in either direction', () => {
    const { sent, received } = watched.bytes();
    // What is not secret is found, so the search works: sealed records and a block from each of the
    // pages, answers to searches.
    for (const known of ['POST /v1/collections/ordinary/search', '"isolated"', '"alone"', 'origin: http://127.0.0.1'])
      assert.ok(sent.toString('latin1').toLowerCase().includes(known.toLowerCase()), known);
    assert.ok(sent.length > 3 * 300_000 && received.length > 100_000, `${sent.length} and ${received.length} bytes`);
    assert.equal(secrets.filter(([what]) => what === 'a seed').length, ways.length);
    for (const [what, forms] of secrets)
      for (const form of forms) for (const bytes of [sent, received]) assert.ok(!bytes.includes(form), what);
  });

  it('whose workers may not do what it may do works alone', async () => {
    const page = await open(plain.origin);
    const search = `async ({ url, token, module }) => {
      const { connect, MasterSeed } = await import(module);
      const db = await connect(url, { key: MasterSeed.generate(), token });
      const points = await db.createCollection('strict', { dimension: 2, metric: 'dot', normBound: 0.001 });
      await points.upsert(Array.from({ length: 100 }, (_, i) => ({ id: String(i), vector: [i / 1e6, 1 / 1e6] })));
      await points.optimize();
      return (await points.search([0.001, 0], { limit: 1 })).matches[0].id;
    }`;
    const input = { url: serving.url, token: serving.token, module: '/strict/hers.js' };
    const best = Number(await page.evaluate(`(${search})(${JSON.stringify(input)})`));
    assert.ok(best > 80, `${best}`);
    assert.deepEqual(page.workers(), []);
    await page.close();
  });

  it('keeps lists in IndexedDB, and fetches those that are damaged', async () => {
    const page = await open(plain.origin);
    const scenario = `async ({ url, token, module }) => {
      const { connect, MasterSeed, openListCache } = await import(module);
      const key = MasterSeed.generate();
      const cache = await openListCache('lists of a test');
      const db = await connect(url, { key, token, cache });
      const people = await db.createCollection('cached', { dimension: 2, fields: { age: 'number' } });
      await people.upsert(Array.from({ length: 100 }, (_, i) => ({ id: String(i), vector: [i + 1, 1], payload: { age: i } })));
      await people.optimize();
      const fetches = () => performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('/lists/get')).length;
      const opened = async () => {
        const before = fetches();
        const again = await connect(url, { key, token, cache: await openListCache('lists of a test') });
        const count = await (await again.collection('cached')).count({ filter: { must: { field: 'age', range: { lt: 40 } } } });
        await again.close();
        await new Promise((done) => setTimeout(done, 100)); // entries come a little later
        return [count, fetches() - before];
      };
      const answer = (request) => new Promise((done, failed) => { request.onsuccess = () => done(request.result); request.onerror = () => failed(request.error); });
      const database = await answer(indexedDB.open('lists of a test'));
      const lists = (mode) => database.transaction('lists', mode).objectStore('lists');
      const opens = [await opened(), await opened()];
      const [first] = await answer(lists('readonly').getAllKeys());
      const sealed = await answer(lists('readonly').get(first));
      sealed[9] ^= 1;
      await answer(lists('readwrite').put(sealed, first));
      opens.push(await opened(), await opened());
      const kept = await answer(lists('readonly').count());
      await db.deleteCollection('cached');
      const left = await answer(lists('readonly').count());
      await db.close();
      return { opens, kept, left };
    }`;
    const input = { url: serving.url, token: serving.token, module: '/hers.js' };
    const result = await page.evaluate(`(${scenario})(${JSON.stringify(input)})`);
    await page.close();
    assert.deepEqual(complaints, []);
    const opens = [
      [40, 1],
      [40, 0],
      [40, 1],
      [40, 0],
    ];
    assert.deepEqual(result, { opens, kept: 2, left: 0 });
  });

  describe('of an origin that was not named', () => {
    const attempt = `async ({ url, token, module }) => {
      const { connect, MasterSeed } = await import(module);
      try { await connect(url, { key: MasterSeed.generate(), token, retryMs: 0 }); return 'connected'; } catch (error) { return error.code; }
    }`;
    const tryFrom = async (origin: string, { url, token }: Serving) => {
      const page = await open(origin);
      const result = await page.evaluate(`(${attempt})(${JSON.stringify({ url, token, module: '/hers.js' })})`);
      await page.close();
      return result;
    };

    it('reads nothing of a server that lets others in, and nobody of one that was not told to', async () => {
      const other = plain.origin.replace('127.0.0.1', 'localhost'); // the same page, of another origin
      const closed = await Serving.start();
      try {
        assert.equal(await tryFrom(plain.origin, serving), 'connected');
        assert.equal(await tryFrom(other, serving), 'UNAVAILABLE');
        assert.equal(await tryFrom(plain.origin, closed), 'UNAVAILABLE');
        const key = MasterSeed.generate();
        await (await connect(closed.url, { key, token: closed.token })).close(); // it is only pages that it does not answer
      } finally {
        await closed.stop();
      }
    });
  });
});
