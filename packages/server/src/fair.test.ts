// Nobody can keep a server from others: not by many searches, not by reading or sending slowly, not
// by connections that say nothing, not by asking without a token.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request, type ServerResponse } from 'node:http';
import { request as requestSecurely } from 'node:https';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { encodeMessage, OCTETS, type Service, withMethods } from '@hers/service';
import { encodeQuery } from '@hers/service/samples';
import type { FastifyReply } from 'fastify';
import { FACES, filled, head, held, measure, metrics, open, post, settled } from '../testing/clients.ts';
import { collectedLog, selfSigned, served } from '../testing/server.ts';
import { Answer, MIN_RATE, Pace } from './body.ts';
import { Guests, Rates } from './guests.ts';
import { TokenStore } from './tokens.ts';

describe('the pace of a client', () => {
  const STALL_MS = 30_000;

  /**
   * One that moves so many bytes every so many milliseconds; says after how long it is too slow, of
   * an hour.
   */
  function endsAfter(bytes: number, everyMs: number, first = 0): number {
    let now = 0;
    const pace = new Pace(() => now);
    pace.moved(first);
    for (; now < 3_600_000; ) {
      pace.wait();
      now += everyMs;
      pace.moved(bytes);
      if (pace.isTooSlow(STALL_MS)) return now;
    }
    return Number.POSITIVE_INFINITY;
  }

  it('must be a least one, in the long run', () => {
    assert.equal(endsAfter(2 * MIN_RATE, 1000), Number.POSITIVE_INFINITY);
    assert.equal(endsAfter(MIN_RATE / 2, 1000), 31_000);
    // A piece just before it would stall.
    assert.ok(endsAfter(2 ** 17, 29_000) <= 120_000);
    // What the buffers of a connection swallowed at first does not help for long.
    assert.ok(endsAfter(100, 1000, 4 * 2 ** 20) <= 120_000);
  });

  it('is that of the client: what the server takes does not count', () => {
    let now = 0;
    const pace = new Pace(() => now);
    pace.moved(10);
    now += 3_600_000;
    assert.ok(!pace.isTooSlow(STALL_MS) && !pace.givesWay);
    pace.wait();
    now += 1001;
    assert.ok(pace.givesWay);
    pace.moved(2 ** 20);
    assert.ok(!pace.givesWay);
    // However much it has moved before.
    pace.moved(2 ** 30);
    pace.wait();
    now += 1001;
    assert.ok(pace.givesWay);
  });

  it('ends an answer that is taken too slowly', async () => {
    let now = 0;
    let destroyed = false;
    const response = {
      get destroyed() {
        return destroyed;
      },
      writeHead() {},
      once() {},
      off() {},
      destroy() {
        destroyed = true;
      },
      // 128 KiB every 29 seconds.
      write(_bytes: Uint8Array, done: () => void) {
        now += 29_000;
        done();
      },
    };
    const reply = { raw: response as unknown as ServerResponse, statusCode: 200, getHeaders: () => ({}), hijack() {} };
    const answer = new Answer(reply as unknown as FastifyReply, {
      stallMs: STALL_MS,
      pace: new Pace(() => now),
      signal: new AbortController().signal,
      onBegin() {},
      onSent() {},
    });
    const written = async () => {
      for (let i = 0; i < 10; i++) await answer.write(new Uint8Array(2 ** 17));
    };
    await assert.rejects(written(), { code: 'UNAVAILABLE' });
    assert.ok(now <= 120_000);
  });
});

it('a caller who came too often is not forgotten because thousands of others come', () => {
  const rates = new Rates(5);
  for (let i = 0; i < 10; i++) assert.equal(rates.take('greedy', 0), 0);
  const others = (now: number) => {
    for (let i = 0; i < 3000; i++) rates.take(`${i}`, now);
  };
  others(0);
  assert.equal(rates.take('greedy', 0), 0.2);
  others(100);
  assert.equal(rates.take('greedy', 100), 0.1);
  // Who was quiet for long enough may come as often as anybody.
  others(3000);
  for (let i = 0; i < 10; i++) assert.equal(rates.take('greedy', 3000), 0);
  assert.equal(rates.take('greedy', 3000), 0.2);
});

it('requests that are slow give way when their caller has too many', () => {
  const guests = new Guests({ scans: 2, requests: 3, requestsPerSecond: 1000, memoryBytes: 1000 });
  const slow = guests.enter('x');
  const [other] = [guests.enter('x'), guests.enter('x')];
  assert.throws(() => guests.enter('x'), { code: 'OVERLOADED' });
  guests.enter('y');
  Object.defineProperty(slow.pace, 'rate', { value: 5 });
  guests.enter('x');
  assert.equal(slow.ending.signal.reason.code, 'OVERLOADED');
  assert.ok(!other.ending.signal.aborted);
  assert.throws(() => guests.enter('x'), { code: 'OVERLOADED' });
});

it('large writes rest while there are searches, never for long, and go on at once when there were none for a moment', async () => {
  let gate: ReturnType<typeof held> | undefined;
  const service = (store: Service) => (gate = held(store)).service;
  await using server = await served({ service });
  const { search } = await filled(server.store);
  const records = 3 * 2 ** 20;
  const frames = Buffer.alloc(records);
  for (let at = 0; at < records; at += 1024) frames.writeUInt32LE(1020, at);
  const write = async () => {
    const headers = { 'content-type': OCTETS };
    const answer = await fetch(`${server.url}${FACES}/records`, { method: 'PUT', headers, body: frames });
    assert.equal(answer.status, 201, await answer.clone().text());
  };
  const timed = async (work: () => Promise<unknown>) => {
    const began = performance.now();
    await work();
    return performance.now() - began;
  };
  await write();
  const alone = Math.min(await timed(write), await timed(write));
  const searching = post(server.url, `${FACES}/search`, search());
  while (gate!.begun() < 1) await pause(5);
  // A mebibyte beyond what is read at any time, in pieces of 64 KiB, 5 ms each.
  const beside = await timed(write);
  assert.ok(beside > alone + 50, `${beside} ms beside a search, ${alone} ms alone`);
  // Pieces of 50 bytes rest no longer in all: it would be two minutes.
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  const answered = once(socket, 'data');
  const last = frames.subarray(-(2 ** 20));
  const start = frames.subarray(0, 2 ** 21);
  socket.write(head('PUT', `${FACES}/records`, `content-type: ${OCTETS}`, 'transfer-encoding: chunked'));
  socket.write(`${start.length.toString(16)}\r\n`);
  socket.write(start);
  socket.write('\r\n');
  const chunks: Buffer[] = [];
  for (let at = 0; at < last.length; at += 50) {
    const chunk = last.subarray(at, at + 50);
    chunks.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'));
  }
  const inChunks = await timed(async () => {
    socket.write(Buffer.concat([...chunks, Buffer.from('0\r\n\r\n')]));
    assert.match(String(await answered), /^HTTP\/1.1 201/);
  });
  socket.destroy();
  assert.ok(inChunks < 20_000, `${inChunks} ms in small chunks`);
  gate!.release();
  await (await searching).arrayBuffer();
  await pause(50);
  const after = Math.min(await timed(write), await timed(write));
  assert.ok(after < beside, `${after} ms after the search, ${beside} ms beside it`);
});

describe('without tokens, where all clients of a machine are one address', () => {
  it('slow bodies do not keep others out', async () => {
    await using server = await served({ limits: { requests: 4 } });
    await filled(server.store);
    const slow: Awaited<ReturnType<typeof open>>[] = [];
    for (let i = 0; i < 4; i++) {
      const connection = await open(server.url);
      connection.socket.write(head('PUT', `${FACES}/records`, `content-type: ${OCTETS}`, 'transfer-encoding: chunked'));
      connection.socket.write('4\r\n\0\x01\0\0\r\n'); // a record of 256 bytes
      slow.push(connection);
    }
    const drip = setInterval(() => {
      for (const { socket } of slow) socket.write('1\r\nx\r\n');
    }, 50);
    try {
      await pause(1500);
      assert.equal((await fetch(`${server.url}/v1`)).status, 200);
      await Promise.race(slow.map(({ ended }) => ended));
      assert.equal(slow.filter(({ said }) => said().includes('OVERLOADED')).length, 1);
      // The same again and again: others are served.
      assert.equal((await fetch(`${server.url}/v1`)).status, 200);
    } finally {
      clearInterval(drip);
      for (const { socket } of slow) socket.destroy();
    }
    await settled(server.url);
  });

  it('nor do slow bodies that hold all of the memory', async () => {
    const bytes = 2 ** 20;
    await using server = await served({ measure, limits: { memoryBytes: 4 * bytes } });
    await filled(server.store);
    const slow: Awaited<ReturnType<typeof open>>[] = [];
    for (let i = 0; i < 4; i++) {
      const connection = await open(server.url);
      connection.socket.write(head('POST', `${FACES}/lists`, `content-type: ${OCTETS}`, `content-length: ${bytes}`));
      connection.socket.write(Buffer.alloc(bytes - 100));
      slow.push(connection);
      await pause(20);
    }
    await pause(1500);
    // The first that finds no room makes it.
    let status = 429;
    for (let tries = 0; status === 429 && tries < 20; tries++) {
      status = (await post(server.url, `${FACES}/lists`, new Uint8Array(2 * bytes))).status;
      await pause(50);
    }
    assert.equal(status, 201);
    for (const { socket } of slow) socket.destroy();
    await settled(server.url);
    assert.equal((await metrics(server.url)).get('hers_held_bytes'), 0);
  });
});

describe('callers with tokens of their own', () => {
  let folder: string;
  let tokens: TokenStore;
  const secrets: string[] = [];
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hers-fair-'));
    tokens = new TokenStore(join(folder, 'tokens.json'));
    for (let i = 0; i < 2; i++) secrets.push((await tokens.create({ scope: 'admin' })).secret);
  });
  after(() => rm(folder, { recursive: true }));

  const searchAs = (url: string, secret: string, body: Uint8Array, signal?: AbortSignal) =>
    fetch(`${url}${FACES}/search`, {
      method: 'POST',
      body: body as BodyInit,
      headers: { 'content-type': OCTETS, authorization: `Bearer ${secret}` },
      ...(signal ? { signal } : {}),
    });
  const numbers = (url: string) => metrics(url, { authorization: `Bearer ${secrets[1]}` });

  it('one has at most half of the scans and of the queue', async () => {
    let gate: ReturnType<typeof held> | undefined;
    const service = (store: Service) => (gate = held(store)).service;
    await using server = await served({ service, tokens: tokens.path, limits: { scans: 2, queue: 4 } });
    const { search, samples, version } = await filled(server.store);
    // Of another plan each, so that none are scanned together.
    const alone = (i: number) => encodeMessage({ version }, [encodeQuery(samples.query({ width: 5 + i }))]);
    const greedy = Array.from({ length: 3 }, (_, i) => searchAs(server.url, secrets[0], alone(i)));
    while ((await numbers(server.url)).get('hers_scans_waiting') !== 2) await pause(5);
    assert.equal(gate!.begun(), 1);
    const refused = await searchAs(server.url, secrets[0], search());
    assert.equal(refused.status, 429);
    assert.match(await refused.text(), /of this caller/);
    const other = searchAs(server.url, secrets[1], search());
    while (gate!.begun() < 2) await pause(5);
    gate!.release();
    assert.equal((await other).status, 200);
    await (await other).arrayBuffer();
    for (const answer of await Promise.all(greedy)) await answer.arrayBuffer();
  });

  it('a search whose client does not read lets others scan meanwhile', async () => {
    await using server = await served({
      measure,
      tokens: tokens.path,
      limits: { scans: 1, memoryBytes: 64 * 2 ** 20 },
    });
    // More than the buffers of a connection hold.
    const shape = { set: 'n_4096_logq_30_30_wide_4', width: 2 };
    const { samples, version, search } = await filled(server.store, 40, shape);
    const queries = Array.from({ length: 48 }, () => encodeQuery(samples.query(shape)));
    const large = Buffer.from(encodeMessage({ version }, queries));
    const { socket, said } = await open(server.url);
    const headers = [
      `content-type: ${OCTETS}`,
      `content-length: ${large.length}`,
      `authorization: Bearer ${secrets[0]}`,
    ];
    socket.write(head('POST', `${FACES}/search`, ...headers));
    socket.write(large);
    while (said().length === 0) await pause(5);
    socket.pause();
    await pause(100);
    const answer = await searchAs(server.url, secrets[1], search(), AbortSignal.timeout(10_000));
    assert.equal(answer.status, 200);
    await answer.arrayBuffer();
    // And it goes on when its client does.
    const now = await numbers(server.url);
    assert.equal(now.get('hers_requests_running'), 2);
    socket.resume();
    while ((await numbers(server.url)).get('hers_requests_running')! > 1) await pause(20);
    assert.match(said(), /^HTTP\/1.1 200 /);
    assert.ok(said().length > 48 * 40 * 1000);
    socket.destroy();
  });

  it('strangers who ask very often are not answered, and leave few lines', async () => {
    const { lines, log } = collectedLog();
    const limits = { requestsPerSecond: 20 };
    await using server = await served({ tokens: tokens.path, audit: 'audit.jsonl', log, limits });
    const outcomes = new Map<number, number>();
    for (let i = 0; i < 300; i++) {
      const status = await fetch(`${server.url}/v1/collections`).then(
        ({ status }) => status,
        () => 0,
      );
      outcomes.set(status, (outcomes.get(status) ?? 0) + 1);
    }
    assert.ok(outcomes.get(401)! >= 40 && outcomes.get(0)! > 50, JSON.stringify([...outcomes]));
    assert.ok(lines.filter((line) => line.includes('UNAUTHENTICATED')).length <= outcomes.get(401)!);
    assert.equal((await fetch(`${server.url}/v1`, { headers: { authorization: `Bearer ${secrets[0]}` } })).status, 200);
    await server.close();
    const audit = (await readFile(join(server.folder, 'audit.jsonl'), 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.ok(audit.length < 70, `${audit.length} lines`);
    assert.ok(audit.some(({ operation, requests }) => operation === 'leftOut' && requests > 0));
  });
});

describe('connections', () => {
  /** A connection from an address of this machine. */
  async function lineFrom(url: string, localAddress: string): Promise<{ socket: Socket; closed: () => boolean }> {
    const { hostname: host, port } = new URL(url);
    const socket = connect({ host, port: Number(port), localAddress }).on('error', () => {});
    let isClosed = false;
    socket.once('close', () => {
      isClosed = true;
    });
    await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
    return { socket: socket.resume(), closed: () => isClosed };
  }

  for (const tls of [false, true])
    it(`that say nothing shut nobody out, ${tls ? 'with' : 'without'} TLS`, async () => {
      const { files, remove } = tls ? await certificate() : { files: undefined, remove: async () => {} };
      await using server = await served({ limits: { connections: 20 }, ...(files ? { tls: files } : {}) });
      const ask = (localAddress: string) => status(server.url, localAddress);
      const silent = [];
      for (let i = 0; i < 30; i++) silent.push(await lineFrom(server.url, '127.0.0.1'));
      await pause(50);
      // Half of all, and the oldest made room.
      assert.equal(silent.filter(({ closed }) => !closed()).length, 10);
      assert.ok(silent.slice(0, 20).every(({ closed }) => closed()));
      assert.equal(await ask('127.0.0.2'), 200);
      assert.equal(await ask('127.0.0.1'), 200);
      // From many addresses together.
      for (let i = 3; i < 40; i++) silent.push(await lineFrom(server.url, `127.0.0.${i}`));
      await pause(50);
      assert.ok(silent.filter(({ closed }) => !closed()).length <= 20);
      assert.equal(await ask('127.0.0.99'), 200);
      for (const { socket } of silent) socket.destroy();
      await remove();
    });
});

async function certificate() {
  const folder = await mkdtemp(join(tmpdir(), 'hers-tls-'));
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  const { cert, key } = selfSigned();
  await writeFile(files.cert, cert);
  await writeFile(files.key, key);
  return { files, remove: () => rm(folder, { recursive: true }) };
}

/** The status of /v1, asked from an address. */
function status(url: string, localAddress: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    const ask = url.startsWith('https') ? requestSecurely : request;
    const asked = ask(`${url}/v1`, { localAddress, rejectUnauthorized: false, agent: false });
    asked.on('response', (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    asked.on('error', () => resolve(undefined)).end();
  });
}

it('going down ends within the grace, whatever is running', async () => {
  const stuck = Promise.withResolvers<void>();
  const { lines, log } = collectedLog();
  const service = (store: Service) =>
    // One that does not listen to its signal, and a store that never closes.
    withMethods(store, { purge: () => stuck.promise, close: () => stuck.promise });
  const server = await served({ service, log, limits: { graceSeconds: 1.2 } });
  await filled(server.store);
  const purge = post(server.url, `${FACES}/purge`, new Uint8Array(0)).catch(() => undefined);
  const slow = await open(server.url);
  slow.socket.write(head('PUT', `${FACES}/records`, `content-type: ${OCTETS}`, 'content-length: 100'));
  await pause(100);
  const began = performance.now();
  await server.close();
  const seconds = (performance.now() - began) / 1000;
  assert.ok(seconds < 3, `${seconds} s`);
  assert.equal(await purge, undefined);
  await slow.ended;
  assert.ok(lines.some((line) => line.includes('did not end in time')));
  stuck.resolve();
  await server.store.close();
  await server[Symbol.asyncDispose]();
});
