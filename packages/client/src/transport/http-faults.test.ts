// Clients and a server that restarts, is busy, or is asked nonsense.
//
// Mostly waits: the runner starts it beside others.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type RunningServer, type ServeOptions, startServer, TokenStore } from '@hers/server';
import { collectedLog } from '@hers/server/testing';
import { HersError, OCTETS, type Service, withMethods } from '@hers/service';
import { Samples } from '@hers/service/samples';
import { openStore } from '@hers/store';
import { counts, vectorOf } from '../../testing/client.ts';
import { Database, HttpService, MasterSeed, type RetryEvent } from '../index.ts';

const fails = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;
const text = (value: string) => new TextEncoder().encode(value);
const seconds = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A folder and a server on it that can be stopped and started again under the same address. */
class Site {
  readonly folder: string;
  readonly #options: ServeOptions & { readonly wrap?: (store: Service) => Service };
  #server: RunningServer | undefined;
  #port = 0;

  private constructor(folder: string, options: ServeOptions) {
    this.folder = folder;
    this.#options = options;
  }

  static async open(options: ServeOptions & { readonly wrap?: (store: Service) => Service } = {}): Promise<Site> {
    const site = new Site(await mkdtemp(join(tmpdir(), 'hers-site-')), options);
    await site.start();
    return site;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    const { wrap = (store) => store, ...options } = this.#options;
    const store = wrap(await openStore(join(this.folder, 'gallery'), { quietMs: 5 }));
    this.#server = await startServer(store, { ...options, port: this.#port });
    this.#port = Number(new URL(this.#server.url).port);
  }

  async stop(): Promise<void> {
    await this.#server?.close();
    this.#server = undefined;
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await rm(this.folder, { recursive: true });
  }
}

describe('a server that restarts', () => {
  it('between staging and commit: everything is staged again, nothing is lost or doubled', async () => {
    await using site = await Site.open();
    const seed = MasterSeed.generate();
    let restarts = 2;
    const events: RetryEvent[] = [];
    const inner = new HttpService(site.url, { onRetry: (event) => events.push(event) });
    // The worst moment: all is staged, the commit is about to be sent.
    const service = withMethods(inner, {
      commit: async (name, change) => {
        if (restarts-- > 0) await site.restart();
        return inner.commit(name, change);
      },
    });
    for (const options of [{ dimension: 8 }, { dimension: 8, profile: 'exact' }] as const) {
      restarts = 2;
      const name = `c-${'profile' in options ? options.profile : 'compact'}`;
      const db = new Database(service, { key: seed, threads: 1 });
      const collection = await db.createCollection(name, options);
      const records = Array.from({ length: 2100 }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i, 8) }));
      assert.deepEqual(await collection.upsert(records), counts({ inserted: 2100 }));
      assert.equal(await collection.count(), 2100);
      restarts = 1;
      assert.equal(await collection.delete(['r0', 'r1']), 2);
      restarts = 1;
      await collection.optimize();
      assert.equal(new Set(await Array.fromAsync(collection.list())).size, 2098);
      const { matches } = await collection.search(vectorOf(77, 8), { limit: 1 });
      assert.equal(matches[0].id, 'r77');
    }
  });

  it('between requests and in the middle of answers: calls go on by themselves and say what they did', async () => {
    await using site = await Site.open();
    const events: RetryEvent[] = [];
    const db = new Database(new HttpService(site.url, { onRetry: (event) => events.push(event) }), {
      key: MasterSeed.generate(),
      threads: 1,
    });
    const collection = await db.createCollection('faces', { dimension: 8 });
    await collection.upsert(Array.from({ length: 5000 }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i, 8) })));
    await site.stop();
    const searching = collection.search(vectorOf(42, 8), { limit: 1 });
    await seconds(400);
    await site.start();
    assert.equal((await searching).matches[0].id, 'r42');
    assert.ok(events.length >= 1 && events.every(({ code }) => code === 'UNAVAILABLE'));
    assert.equal(events[0].operation, 'search');
  });

  it('answers that break off are taken up again, without repeating anything', async () => {
    let cut = 0;
    const breaking = (store: Service): Service => {
      const broken = <T>(items: AsyncIterable<T>, after: number) =>
        (async function* () {
          let count = 0;
          for await (const item of items) {
            if (count++ === after && cut-- > 0) throw new HersError('CLOSED', 'as if it went down');
            yield item;
          }
        })();
      return withMethods(store, {
        search: (...args) => broken(store.search(...args), 30),
        getRecords: (...args) => broken(store.getRecords(...args), 1500),
        getLists: (...args) => broken(store.getLists(...args), 1),
      });
    };
    await using site = await Site.open({ wrap: breaking });
    const service = new HttpService(site.url);
    const samples = new Samples(3);
    await service.createCollection('faces', { id: samples.id(), descriptor: text('d'), manifest: text('1') });
    const shape = { set: 'n_2048_logq_30_wide_5', width: 2 };
    const { encodeBlock, encodeQuery } = await import('@hers/service/samples');
    const blocks = await Promise.all(
      Array.from({ length: 40 }, () => service.stageBlock('faces', [encodeBlock(samples.block(shape))])),
    );
    const records = samples.records(3000);
    const lists = Array.from({ length: 3 }, () => samples.bytes(70_000));
    const staged = await service.stageRecords('faces', records);
    const stagedLists = await Promise.all(lists.map((list) => service.stageList('faces', list)));
    await service.commit('faces', {
      expected: 1,
      manifest: text('2'),
      blocks,
      records: [staged],
      lists: stagedLists,
    });
    cut = 2;
    const query = { version: 2, queries: [encodeQuery(samples.query(shape))] };
    const responses = await Array.fromAsync(service.search('faces', query));
    assert.equal(new Set(responses.map((bytes) => Buffer.from(bytes.subarray(48, 64)).toString('hex'))).size, 40);
    assert.equal(responses.length, 40);
    cut = 2;
    const found = await Array.fromAsync(
      service.getRecords(
        'faces',
        records.map(({ handle }) => handle),
      ),
    );
    assert.deepEqual(
      found.map(({ sealed }) => Buffer.from(sealed).toString('hex')),
      records.map(({ sealed }) => Buffer.from(sealed).toString('hex')),
    );
    cut = 2;
    const ids = await Promise.all(
      lists.map(async (list) => new Uint8Array(await crypto.subtle.digest('SHA-256', list as BufferSource))),
    );
    const read = await Array.fromAsync(service.getLists('faces', ids));
    assert.deepEqual(
      read.map((list) => list.length),
      [70_000, 70_000, 70_000],
    );
    assert.ok(cut <= 0);
    // One that breaks off every time is given up.
    cut = Number.POSITIVE_INFINITY;
    await assert.rejects(Array.fromAsync(service.search('faces', query)), fails('UNAVAILABLE'));
    await service.close();
  });

  it('acknowledgements that are lost: the call is repeated, and done once', async () => {
    await using site = await Site.open();
    const inner = new HttpService(site.url);
    const [original, lose] = [globalThis.fetch, new Set<string>()];
    // The answer is thrown away after the server has done its work.
    globalThis.fetch = async (...args) => {
      const answer = await original(...args);
      const method = `${args[1]?.method} ${new URL(String(args[0])).pathname}`;
      if (!lose.delete(method)) return answer;
      await answer.arrayBuffer();
      throw Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNRESET' } });
    };
    try {
      const id = new Uint8Array(16).fill(5);
      lose.add('POST /v1/collections');
      await inner.createCollection('faces', { id, descriptor: text('d'), manifest: text('1') });
      const other = { id: new Uint8Array(16), descriptor: text('d'), manifest: text('1') };
      await assert.rejects(inner.createCollection('faces', other), fails('ALREADY_EXISTS'));
      const record = new Samples(1).record();
      lose.add('PUT /v1/collections/faces/records');
      const stage = await inner.stageRecords('faces', [record]);
      lose.add('POST /v1/collections/faces/commit');
      assert.equal(await inner.commit('faces', { expected: 1, manifest: text('2'), records: [stage] }), 2);
      assert.equal((await inner.getCollection('faces')).records, 1);
      lose.add('DELETE /v1/collections/faces');
      await inner.deleteCollection('faces');
      await assert.rejects(inner.deleteCollection('faces'), fails('NOT_FOUND'));
    } finally {
      globalThis.fetch = original;
    }
  });

  it('one that stays away is given up with the reason and the number of attempts', async () => {
    const site = await Site.open();
    const service = new HttpService(site.url, { retryMs: 500 });
    await site[Symbol.asyncDispose]();
    await assert.rejects(service.listCollections(), (error) => {
      assert.ok(fails('UNAVAILABLE')(error));
      assert.match((error as Error).message, /cannot be reached: .*ECONNREFUSED.*\(tried \d+ times in \d+\.\d s\)/);
      return true;
    });
    await assert.rejects(new HttpService(site.url, { retryMs: 0 }).listCollections(), /ECONNREFUSED[^(]*$/);
  });
});

describe('several clients', () => {
  it('two that write to one collection at once lose nothing and double nothing', async () => {
    await using site = await Site.open();
    const seed = MasterSeed.generate();
    const open = () => new Database(new HttpService(site.url), { key: seed, threads: 1 });
    const [one, two, three] = [open(), open(), open()];
    await one.createCollection('faces', { dimension: 8 });
    const writer = async (db: Database, from: number) => {
      const collection = await db.collection('faces');
      for (let batch = 0; batch < 6; batch++) {
        const ids = Array.from({ length: 400 }, (_, i) => from + 400 * batch + i);
        await collection.upsert(ids.map((i) => ({ id: `r${i}`, vector: vectorOf(i, 8), payload: { i } })));
        // Both write these; whoever is last wins, and there is one of each.
        await collection.upsert([{ id: 'shared', vector: vectorOf(from + batch, 8) }]);
        await collection.delete(`r${ids[0]}`);
        if (batch === 3) await collection.optimize();
      }
    };
    await Promise.all([writer(one, 0), writer(two, 10_000)]);
    const collection = await three.collection('faces');
    const ids = await Array.fromAsync(collection.list());
    assert.equal(ids.length, new Set(ids).size);
    assert.equal(ids.length, 2 * 6 * 399 + 1);
    for (const i of [1, 399, 2399, 10_001, 12_399]) {
      const { matches } = await collection.search(vectorOf(i, 8), { limit: 1, payload: true });
      assert.deepEqual([matches[0].id, matches[0].payload], [`r${i}`, { i }]);
    }
    for (const db of [one, two, three]) await db.close();
  });

  it('fifty searches at once during enrolment and optimize: all right, none starved', async () => {
    await using site = await Site.open({ limits: { scans: 1, queue: 20 } });
    const seed = MasterSeed.generate();
    const retried: RetryEvent[] = [];
    const open = () =>
      new Database(new HttpService(site.url, { retryMs: 300_000, onRetry: (event) => retried.push(event) }), {
        key: seed,
        threads: 1,
      });
    const db = open();
    const collection = await db.createCollection('faces', { dimension: 8 });
    const known = 2500;
    await collection.upsert(Array.from({ length: known }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i, 8) })));
    let writing = true;
    const writer = (async () => {
      for (let batch = 0; batch < 2; batch++) {
        const ids = Array.from({ length: 1100 }, (_, i) => known + 1100 * batch + i);
        await collection.upsert(ids.map((i) => ({ id: `r${i}`, vector: vectorOf(i, 8) })));
        await collection.optimize();
      }
      writing = false;
    })();
    const readers = await Promise.all(Array.from({ length: 5 }, () => open().collection('faces')));
    const answered = new Array<number>(50).fill(0);
    const searcher = async (k: number) => {
      do {
        const i = (k * 131 + answered[k] * 17) % known;
        const { matches, coverage } = await readers[k % readers.length].search(vectorOf(i, 8), { limit: 1 });
        assert.equal(matches[0].id, `r${i}`);
        assert.equal(coverage.searched, coverage.total);
        answered[k]++;
      } while (writing);
    };
    await Promise.all([writer, ...answered.map((_, k) => searcher(k))]);
    assert.ok(Math.min(...answered) >= 1, answered.join(' '));
    // The queue is shorter than fifty: some were sent away for a moment, and came back by
    // themselves.
    assert.ok(retried.some(({ code, operation }) => code === 'OVERLOADED' && operation === 'search'));
  });
});

it('the usual limits let blocks through, 16.8 MB at 512 dimensions', async () => {
  await using site = await Site.open();
  const sizes: number[] = [];
  const inner = new HttpService(site.url);
  const service = withMethods(inner, {
    stageBlock: async (name, pieces, options) => {
      const all = await Array.fromAsync(pieces);
      sizes.push(all.reduce((sum, piece) => sum + piece.length, 0));
      return inner.stageBlock(name, all, options);
    },
  });
  const db = new Database(service, { key: MasterSeed.generate(), threads: 1 });
  const collection = await db.createCollection('faces', { dimension: 512, profile: 'exact' });
  await collection.upsert({ id: 'one', vector: vectorOf(1, 512) }, { optimize: 'always' });
  await collection.upsert({ id: 'two', vector: vectorOf(2, 512) }, { optimize: 'always' });
  assert.deepEqual(
    sizes.map((bytes) => (bytes / 1e6).toFixed(1)),
    ['16.8', '16.8'],
  );
  assert.equal((await collection.search(vectorOf(2, 512), { limit: 1 })).matches[0].id, 'two');
  await db.close();
});

describe('secrets', () => {
  it('no vector, id, payload, key or token is in the log or the audit log, and no key is sent', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hers-tokens-'));
    const tokens = new TokenStore(join(folder, 'tokens.json'));
    const { secret } = await tokens.create({ scope: 'admin' });
    const { lines, log } = collectedLog('trace');
    await using site = await Site.open({ tokens: tokens.path, log, audit: join(folder, 'audit') });
    const seed = MasterSeed.generate();
    const db = new Database(new HttpService(site.url, { token: secret }), { key: seed, threads: 1 });
    const collection = await db.createCollection('faces', { dimension: 8 });
    const vector = vectorOf(5, 8);
    await collection.upsert({ id: 'SENTINEL-ID', vector, payload: { note: 'SENTINEL-PAYLOAD' } });
    await collection.upsert(Array.from({ length: 2100 }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i + 9, 8) })));
    const { matches } = await collection.search(vector, { limit: 3, payload: true });
    assert.equal(matches[0].id, 'SENTINEL-ID');
    await collection.delete('SENTINEL-ID');
    await collection.optimize();
    await assert.rejects(db.collection('SENTINEL'), fails('NOT_FOUND')); // names of collections are public
    await site.stop();
    const { readFile } = await import('node:fs/promises');
    const audit = await readFile(join(folder, 'audit'), 'utf8');
    assert.ok(lines.length > 10 && audit.length > 500);
    const all = lines.join('') + audit;
    const forms = (bytes: Uint8Array) =>
      ['hex', 'base64', 'base64url', 'latin1'].map((form) => Buffer.from(bytes).toString(form as 'hex'));
    const numbers = [...vector, ...matches.map(({ score }) => score)].map((x) => String(x).slice(0, 9));
    for (const hidden of [
      'SENTINEL-ID',
      'SENTINEL-PAYLOAD',
      secret,
      secret.slice(-43),
      ...forms(seed.reveal()),
      ...forms(new Uint8Array(vector.buffer)),
      ...numbers,
    ])
      assert.ok(!all.includes(hidden), `${hidden} is in a log`);
    await rm(folder, { recursive: true });
  });

  it('a token is not sent over a line that others can read, and an address holds none', () => {
    assert.throws(() => new HttpService('http://gallery.example:7443', { token: 'x' }), /could be read on the way/);
    assert.throws(() => new HttpService('https://user:secret@gallery.example'), /holds no password/);
    for (const where of ['gallery.example', 'ftp://gallery.example', ''])
      assert.throws(() => new HttpService(where), /is not the address of a server/);
    assert.throws(() => new HttpService('https://gallery.example', { token: 'a b' }), /no spaces/);
    assert.ok(new HttpService('http://gallery.example:7443', { token: 'x', insecure: true }));
    assert.ok(new HttpService('https://gallery.example', { token: 'x' }));
  });
});

describe('malformed requests', () => {
  interface Recorded {
    readonly method: string;
    readonly path: string;
    readonly body: Uint8Array | undefined;
  }

  /** What a client really sends, one of each operation. */
  async function recorded(url: string): Promise<Recorded[]> {
    const requests = new Map<string, Recorded>();
    const between = createServer(async (request, response) => {
      const { method = '', url: path = '', headers } = request;
      const came = Buffer.concat(await Array.fromAsync(request));
      const body = came.length > 0 ? came : undefined;
      requests.set(`${method} ${path}`, { method, path, body });
      const type = headers['content-type'];
      const init = { method, ...(type ? { headers: { 'content-type': type } } : {}), ...(body ? { body } : {}) };
      const answer = await fetch(url + path, init);
      response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
    });
    await new Promise<void>((resolve) => between.listen(0, '127.0.0.1', resolve));
    const address = `http://127.0.0.1:${(between.address() as AddressInfo).port}`;
    try {
      const db = new Database(new HttpService(address), { key: MasterSeed.generate(), threads: 1 });
      await db.listCollections();
      const collection = await db.createCollection('faces', {
        dimension: 4,
        profile: 'exact',
      });
      for (let i = 0; i < 3; i++) await collection.upsert({ id: `r${i}`, vector: vectorOf(i, 4) });
      await collection.delete('r0');
      await collection.optimize();
      await collection.verify('r1', vectorOf(1, 4));
      const vault = await db.createCollection('vault', { dimension: 4 });
      await vault.upsert(Array.from({ length: 3 }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i, 4) })));
      await vault.get('r1');
      await db.restore('copy', await Array.fromAsync(vault.snapshot()));
      await db.deleteCollection('copy');
    } finally {
      between.closeAllConnections();
      await new Promise((resolve) => between.close(resolve));
    }
    return [...requests.values()];
  }

  const mutated = (samples: Samples, bytes: Uint8Array): Uint8Array => {
    const out = bytes.slice();
    switch (samples.below(5)) {
      case 0: // somewhere a byte
        out[samples.below(Math.min(out.length, 400))] ^= 1 << samples.below(8);
        return out;
      case 1: // cut off
        return out.subarray(0, samples.below(out.length));
      case 2: // and something more
        return Buffer.concat([out, samples.bytes(1 + samples.below(20))]);
      case 3: {
        // a length that cannot be
        const at = samples.below(Math.max(1, Math.min(out.length - 4, 200)));
        out.set([255, 255, 255, samples.below(256)].slice(0, out.length - at), at);
        return out;
      }
      default: // other text in the head
        return Buffer.from(Buffer.from(out).toString('latin1').replace(/\d/, 'null'), 'latin1');
    }
  };

  it('made from real ones, or from the description of the server, get a 4xx with a typed body, never a 5xx', async () => {
    const { lines, log } = collectedLog('error');
    await using site = await Site.open({ log, limits: { requestsPerSecond: 100_000 } });
    const real = await recorded(site.url);
    assert.ok(real.length >= 15, real.map(({ method, path }) => `${method} ${path}`).join('\n'));
    const document = (await (await fetch(`${site.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { requestBody?: unknown; operationId: string }>>;
    };
    const samples = new Samples(11);
    let refused = 0;
    const send = async (method: string, path: string, body: Uint8Array | undefined, type = OCTETS) => {
      const answer = await fetch(site.url + path, {
        method,
        ...(body && method !== 'GET' ? { body: body as BodyInit, headers: { 'content-type': type } } : {}),
      });
      const content = await answer.text();
      const shown = `${method} ${path} ${Buffer.from(body ?? [])
        .toString('hex')
        .slice(0, 80)}: ${answer.status} ${content.slice(0, 200)}`;
      assert.ok(answer.status < 500, shown);
      if (answer.status < 400) return;
      refused++;
      const { code, message, retryable } = JSON.parse(content);
      assert.ok(typeof code === 'string' && typeof message === 'string' && typeof retryable === 'boolean', shown);
    };
    for (const { method, path, body } of real) {
      const rounds = body && body.length < 500_000 ? 60 : 6;
      for (let i = 0; i < rounds && body; i++) await send(method, path, mutated(samples, body));
    }
    for (const [template, path] of Object.entries(document.paths)) {
      for (const [method, { requestBody }] of Object.entries(path)) {
        if (method === 'delete' && !template.includes('blocks')) continue; // it would just work
        const names = [
          'vault',
          'none',
          '..',
          '%2e%2e',
          'a%2fb',
          '%00',
          'x'.repeat(65),
          '%F0%9F%98%80',
          'constructor',
          '__proto__',
        ];
        for (const name of names) {
          const blocks = template.includes('{block}') ? ['zz', '00'.repeat(16), '0'.repeat(31)] : [''];
          for (const block of blocks) {
            const target = template.replace('{name}', name).replace('{block}', block);
            await send(method.toUpperCase(), target, requestBody ? samples.bytes(samples.below(60)) : undefined);
            if (requestBody) {
              await send(method.toUpperCase(), target, new Uint8Array(0));
              await send(method.toUpperCase(), target, text('{}'), 'application/json');
              await send(method.toUpperCase(), target, headOf(samples));
            }
          }
        }
      }
    }
    assert.ok(refused > 300, String(refused));
    assert.deepEqual(lines, []);
    // And it still works.
    assert.equal((await fetch(`${site.url}/readyz`)).status, 200);
  });

  /** A message whose head is JSON of the wrong kind. */
  function headOf(samples: Samples): Uint8Array {
    const heads = [
      'null',
      '[]',
      '"x"',
      '{}',
      '{"version":-1}',
      '{"version":1.5}',
      '{"version":1,"some":"yes"}',
      '{"version":1,"extra":1}',
      '{"expected":1,"records":[1]}',
      '{"expected":1,"records":["x"],"__proto__":{"a":1}}',
      '{"expected":9007199254740993}',
      '{"name":"../x","id":"00"}',
      '{"name":"ok","id":"00000000000000000000000000000000"}',
    ];
    const head = text(heads[samples.below(heads.length)]);
    const parts = [head, ...Array.from({ length: samples.below(7) }, () => samples.bytes(samples.below(40)))];
    return Buffer.concat(
      parts.flatMap((part) => {
        const length = Buffer.alloc(4);
        length.writeUInt32LE(part.length);
        return [length, part];
      }),
    );
  }
});
