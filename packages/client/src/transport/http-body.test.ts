// Bodies that are too large to be held, and servers that do not take them at the first attempt.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { startServer } from '@hers/server';
import { freeBytes, HersError, Renewable, type SealedRecord, type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { counts, vectorOf } from '../../testing/client.ts';
import { Database, HttpService, MasterSeed, type RetryEvent } from '../index.ts';
import { gatherBody } from './http-body.ts';

const RECORD_BYTES = 1000;
const COUNT = 24_000;
const text = (value: string) => new TextEncoder().encode(value);
const fails = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;

/** Record i, the same every time. */
function recordAt(i: number): SealedRecord {
  const handle = new Uint8Array(16);
  new DataView(handle.buffer).setUint32(0, Math.imul(i, 0x9e3779b1));
  new DataView(handle.buffer).setUint32(12, i);
  return { handle, sealed: new Uint8Array(RECORD_BYTES).fill(i % 251) };
}

/** 24 MB, made as they are sent. */
const records = (onRecord: (i: number) => void = () => {}) =>
  new Renewable(function* () {
    for (let i = 0; i < COUNT; i++) {
      onRecord(i);
      yield recordAt(i);
    }
  });

/** A server in this process; `stageRecords` goes through `wrap`. */
async function serve(wrap: (store: Service) => Partial<Service> = () => ({})) {
  const folder = await mkdtemp(join(tmpdir(), 'hers-body-'));
  const store = await openStore(join(folder, 'gallery'));
  const server = await startServer(withMethods(store, wrap(store)), {});
  return {
    url: server.url,
    async [Symbol.asyncDispose]() {
      await server.close();
      await rm(folder, { recursive: true });
    },
  };
}

/** What a store says to each attempt: after so many records, this error. */
function refusing(refusals: { readonly after: number; readonly code: HersError['code'] }[]) {
  return (store: Service): Partial<Service> => ({
    stageRecords: (name, given, options) => {
      const refusal = refusals.shift();
      const taken = async function* () {
        let count = 0;
        for await (const record of given) {
          if (count++ === refusal?.after) throw new HersError(refusal.code, 'not now');
          yield record;
        }
      };
      return store.stageRecords(name, taken(), options);
    },
  });
}

/** All that was staged is there, byte for byte. */
async function checkStaged(service: Service, stage: string): Promise<void> {
  await service.commit('faces', { expected: 1, manifest: text('2'), records: [stage] });
  assert.equal((await service.getCollection('faces')).records, COUNT);
  const asked = Array.from({ length: COUNT }, (_, i) => recordAt(i));
  let at = 0;
  for await (const { sealed } of service.getRecords(
    'faces',
    asked.map(({ handle }) => handle),
  ))
    assert.ok(Buffer.from(sealed).equals(asked[at++].sealed));
  assert.equal(at, COUNT);
}

const make = (service: Service) =>
  service.createCollection('faces', { id: new Uint8Array(16).fill(5), descriptor: text('d'), manifest: text('1') });

describe('a body of 24 MB', () => {
  it('comes through a server that refuses it at first, and in the middle, and holds none of it', async () => {
    const refusals = [
      { after: 0, code: 'OVERLOADED' },
      { after: 0, code: 'UNAVAILABLE' },
      { after: 12_000, code: 'OVERLOADED' },
      { after: COUNT - 1, code: 'UNAVAILABLE' },
    ] as const;
    await using site = await serve(refusing([...refusals]));
    const events: RetryEvent[] = [];
    const service = new HttpService(site.url, { onRetry: (event) => events.push(event) });
    await make(service);
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const live = () => {
      // What the first finds is freed by the second.
      collect();
      collect();
      return process.memoryUsage().arrayBuffers;
    };
    const before = live();
    let most = 0;
    const watched = records((i) => {
      if (i % 8000 === 7999) most = Math.max(most, live() - before);
    });
    const stage = await service.stageRecords('faces', watched);
    assert.deepEqual(
      events.map(({ operation, code }) => [operation, code]),
      refusals.map(({ code }) => ['stageRecords', code]),
    );
    await checkStaged(service, stage);
    // Of the client and the server together, which read and write pieces of it.
    assert.ok(most < 12e6, `${most} bytes`);
    await service.close();
  });

  it('comes through a connection that is cut in the middle', async () => {
    await using site = await serve();
    const { hostname, port } = new URL(site.url);
    // Cuts a connection when so many bytes have come since the last cut.
    const cuts = [9e6, 20e6];
    let bytes = 0;
    const line = createServer((socket) => {
      const further = connect(Number(port), hostname);
      const end = () => {
        socket.destroy();
        further.destroy();
      };
      socket.on('data', (data) => {
        bytes += data.length;
        if (bytes > (cuts[0] ?? Number.POSITIVE_INFINITY)) {
          cuts.shift();
          bytes = 0;
          return end();
        }
        if (!further.write(data)) socket.pause();
      });
      further.on('drain', () => socket.resume());
      further.pipe(socket);
      for (const each of [socket, further]) each.on('error', end).on('close', end);
    });
    line.listen(0, '127.0.0.1');
    await once(line, 'listening');
    const events: RetryEvent[] = [];
    const service = new HttpService(`http://127.0.0.1:${(line.address() as AddressInfo).port}`, {
      onRetry: (event) => events.push(event),
    });
    await make(service);
    const stage = await service.stageRecords('faces', records());
    assert.equal(cuts.length, 0);
    assert.equal(events.length, 2);
    assert.deepEqual([...new Set(events.map(({ code }) => code))], ['UNAVAILABLE']);
    await checkStaged(service, stage);
    await service.close();
    line.close();
  });

  it('is not sent after a redirect', async () => {
    let requests = 0;
    const server = createHttpServer((request, answer) => {
      requests++;
      request.resume();
      answer.writeHead(307, { location: 'http://127.0.0.1:1/' }).end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const service = new HttpService(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    await assert.rejects(service.stageRecords('faces', records()), (error) => {
      assert.match((error as Error).message, /leads to another address; connect to that one if you trust it/);
      return fails('INVALID_ARGUMENT')(error);
    });
    assert.equal(requests, 1);
    server.close();
    server.closeAllConnections();
  });

  it('of records that can be had once alone is given up when it fails in the middle', async () => {
    await using site = await serve(refusing([{ after: COUNT - 1, code: 'OVERLOADED' }]));
    const service = new HttpService(site.url);
    await make(service);
    await assert.rejects(
      service.stageRecords('faces', records()[Symbol.iterator]() as Generator<SealedRecord>),
      fails('OVERLOADED'),
    );
    await service.close();
  });

  it('is what an upsert sends, and nothing of it is lost or doubled', async () => {
    const refusals = [
      { after: 0, code: 'OVERLOADED' },
      { after: 9000, code: 'OVERLOADED' },
    ] as const;
    await using site = await serve(refusing([...refusals]));
    const events: RetryEvent[] = [];
    const service = new HttpService(site.url, { onRetry: (event) => events.push(event) });
    const db = new Database(service, { key: MasterSeed.generate(), threads: 1 });
    const collection = await db.createCollection('faces', { dimension: 8 });
    const payload = { note: 'x'.repeat(1000) };
    const given = Array.from({ length: 10_000 }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i, 8), payload }));
    assert.deepEqual(await collection.upsert(given), counts({ inserted: 10_000 }));
    assert.deepEqual(
      events.map(({ code }) => code),
      ['OVERLOADED', 'OVERLOADED'],
    );
    assert.equal(new Set(await Array.fromAsync(collection.list())).size, 10_000);
    assert.deepEqual(await collection.upsert(given.slice(0, 3000)), counts({ unchanged: 3000 }));
    await db.close();
  });
});

describe('a body', () => {
  const piece = (value: number) => new Uint8Array(3 * 2 ** 20).fill(value);
  const read = async (content: Uint8Array | ReadableStream<Uint8Array>, most = Number.POSITIVE_INFINITY) => {
    assert.ok(content instanceof ReadableStream);
    const reader = content.getReader();
    const values: number[] = [];
    for (let i = 0; i < most; i++) {
      const { done, value } = await reader.read();
      if (done) break;
      values.push(value[0]);
    }
    return values;
  };

  it('that is small is held, whatever it comes from', async () => {
    const body = await gatherBody([piece(1), piece(2)][Symbol.iterator](), undefined);
    assert.ok(body.repeatable && body.content() instanceof Uint8Array);
    assert.equal((body.content() as Uint8Array).length, 6 * 2 ** 20);
  });

  it('begins again where its pieces can be had again', async () => {
    const pieces = [1, 2, 3, 4, 5].map(piece);
    for (const source of [pieces, new Renewable(() => pieces)]) {
      const body = await gatherBody(source, undefined);
      await read(body.content(), 2);
      assert.ok(body.repeatable && body.sent().bytes > 0);
      // Each is one run of pieces, of its own size or smaller.
      const runs = (await read(body.content())).filter((value, i, all) => value !== all[i - 1]);
      assert.deepEqual(runs, [1, 2, 3, 4, 5]);
      assert.ok(body.repeatable);
      assert.equal(body.sent().bytes, 15 * 2 ** 20);
      await body.done();
    }
    // Memory of its own: the caller may give its away.
    const mine = [1, 2, 3].map(piece);
    const reader = ((await gatherBody(mine, undefined)).content() as ReadableStream<Uint8Array>).getReader();
    const { value } = await reader.read();
    freeBytes(...mine);
    assert.deepEqual([mine[0].length, value?.[0]], [0, 1]);
  });

  it('that can be had once begins again as long as only what is held was sent', async () => {
    let ended = 0;
    const once = async function* () {
      try {
        for (const value of [1, 2, 3, 4, 5]) yield piece(value);
      } finally {
        ended++;
      }
    };
    const body = await gatherBody(once(), undefined);
    const first = body.content();
    assert.deepEqual(await read(first, 3), [1, 2, 3]);
    assert.ok(body.repeatable);
    const second = body.content();
    // What is left of the first attempt takes nothing.
    assert.ok(first instanceof ReadableStream);
    assert.deepEqual(await read(second, 4), [1, 2, 3, 4]);
    assert.ok(!body.repeatable);
    assert.equal(ended, 0);
    await body.done();
    assert.equal(ended, 1);
  });

  it('of an attempt that is over takes no pieces from the next', async () => {
    const body = await gatherBody(
      (function* () {
        for (const value of [1, 2, 3, 4, 5]) yield piece(value);
      })(),
      undefined,
    );
    const stale = (body.content() as ReadableStream<Uint8Array>).getReader();
    const content = body.content();
    await assert.rejects(stale.read());
    assert.equal(body.failure(), undefined);
    assert.deepEqual(await read(content), [1, 2, 3, 4, 5]);
  });
});
