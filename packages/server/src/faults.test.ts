// Clients that stall, vanish, lie about lengths, or come in masses: what they hold is bounded,
// everybody else is served, and nothing is left over.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { encodeMessage, frame, OCTETS, type Service } from '@hers/service';
import { encodeQuery } from '@hers/service/samples';
import { FACES, filled, head, held, metrics, open, post, settled } from '../testing/clients.ts';
import { collectedLog, served } from '../testing/server.ts';

describe('a client that', () => {
  it('sends the head of a request too slowly is told so and let go', async () => {
    await using server = await served({ limits: { headerSeconds: 0.3 } });
    const { socket, said, ended } = await open(server.url);
    socket.write('GET /v1 HTTP/1.1\r\nhost: localhost\r\n');
    const drip = setInterval(() => socket.write('x-a: b\r\n'), 50);
    await ended;
    clearInterval(drip);
    assert.match(said(), /^HTTP\/1.1 408 .*"code":"TIMED_OUT"/s);
  });

  it('sends a head without end, or waits for what it expects, is told so', async () => {
    await using server = await served();
    const long = await open(server.url);
    long.socket.write(head('GET', '/v1', `x-long: ${'x'.repeat(2 ** 16)}`));
    await long.ended;
    assert.match(long.said(), /^HTTP\/1.1 431 .*"code":"TOO_LARGE"/s);
    const expecting = await open(server.url);
    expecting.socket.write(head('GET', '/v1', 'expect: 200-maybe', 'connection: close'));
    await expecting.ended;
    assert.match(expecting.said(), /^HTTP\/1.1 417 .*"code":"INVALID_ARGUMENT"/s);
    assert.equal((await fetch(`${server.url}/v1`)).status, 200);
  });

  it('stalls in the middle of a body is told so and let go; what it sent is gone', async () => {
    const { lines, log } = collectedLog();
    await using server = await served({ limits: { stallSeconds: 0.2 }, log });
    await filled(server.store);
    for (const path of ['blocks', 'lists', 'search', 'commit']) {
      const { socket, said, ended } = await open(server.url);
      socket.write(head('POST', `${FACES}/${path}`, `content-type: ${OCTETS}`, 'content-length: 1000000'));
      socket.write(Buffer.alloc(1000));
      await ended;
      assert.match(said(), /^HTTP\/1.1 408 .*connection: close.*"code":"TIMED_OUT"/is, path);
    }
    await settled(server.url);
    assert.ok(lines.some((line) => line.includes('"code":"TIMED_OUT"')));
    assert.equal((await server.store.getCollection('faces')).version, 2);
  });

  it('sends a byte now and then does not hold a connection for ever', async () => {
    await using server = await served({ limits: { stallSeconds: 0.3 } });
    await filled(server.store);
    const { socket, said, ended } = await open(server.url);
    socket.write(head('PUT', `${FACES}/records`, `content-type: ${OCTETS}`, 'transfer-encoding: chunked'));
    const drip = setInterval(() => socket.write('1\r\nx\r\n'), 100);
    await ended;
    clearInterval(drip);
    assert.match(said(), /"code":"TIMED_OUT"/);
  });

  it('vanishes in the middle of an upload leaves nothing', async () => {
    await using server = await served();
    await filled(server.store);
    for (const path of [`PUT ${FACES}/records`, `POST ${FACES}/blocks`, 'PUT /v1/collections/new/snapshot']) {
      const [method, url] = path.split(' ');
      const { socket } = await open(server.url);
      socket.write(head(method, url, `content-type: ${OCTETS}`, 'content-length: 1000000'));
      socket.write(frame(Buffer.alloc(1000)));
      await pause(30);
      socket.destroy();
    }
    await settled(server.url);
    assert.deepEqual(
      (await server.store.listCollections()).map(({ name, version }) => [name, version]),
      [['faces', 2]],
    );
  });

  it('vanishes in the middle of an answer, or does not read it, ends the scan', async () => {
    await using server = await served({ limits: { stallSeconds: 0.5, scans: 1 } });
    // More than the buffers of a connection hold.
    const shape = { set: 'n_4096_logq_30_30_wide_4', width: 2 };
    const { samples, version, search } = await filled(server.store, 40, shape);
    const queries = Array.from({ length: 24 }, () => encodeQuery(samples.query(shape)));
    const large = Buffer.from(encodeMessage({ version }, queries));
    for (const vanish of [true, false]) {
      const { socket, said, ended } = await open(server.url);
      socket.write(head('POST', `${FACES}/search`, `content-type: ${OCTETS}`, `content-length: ${large.length}`));
      socket.write(large);
      while (said().length === 0) await pause(10);
      if (vanish) socket.destroy();
      else socket.pause();
      await (vanish ? ended : pause(20));
      // The only scan is free again for others.
      const answer = await post(server.url, `${FACES}/search`, search());
      assert.equal(answer.status, 200);
      await answer.arrayBuffer();
      socket.destroy();
    }
    await settled(server.url);
  });

  it('sends less or more than it announced gets a 4xx or nothing, and nobody else is disturbed', async () => {
    await using server = await served();
    await filled(server.store);
    const short = await open(server.url);
    short.socket.write(head('POST', `${FACES}/lists`, `content-type: ${OCTETS}`, 'content-length: 100'));
    short.socket.end('only this');
    await short.ended;
    assert.ok(short.said() === '' || /^HTTP\/1.1 4/.test(short.said()), short.said());
    const long = await open(server.url);
    long.socket.write(head('POST', `${FACES}/lists`, `content-type: ${OCTETS}`, 'content-length: 4'));
    long.socket.write('listGARBAGE THAT IS NO REQUEST\r\n\r\n');
    await long.ended;
    // The list may be staged before the rest is read, or not.
    assert.match(long.said(), /^(HTTP\/1.1 201 .*)?HTTP\/1.1 400 .*"code":"MALFORMED"/s);
    const both = await open(server.url);
    both.socket.write(
      head('POST', `${FACES}/lists`, `content-type: ${OCTETS}`, 'content-length: 4', 'transfer-encoding: chunked'),
    );
    both.socket.write('4\r\nlist\r\n0\r\n\r\n');
    await both.ended;
    assert.match(both.said(), /^HTTP\/1.1 400/);
    const bad = await open(server.url);
    bad.socket.write(head('POST', `${FACES}/lists`, `content-type: ${OCTETS}`, 'transfer-encoding: chunked'));
    bad.socket.write('nonsense\r\n');
    await bad.ended;
    await settled(server.url);
  });

  it('announces or sends more than is allowed is refused before it is held', async () => {
    await using server = await served({ limits: { bodyBytes: 10_000, memoryBytes: 10_000 } });
    await filled(server.store);
    for (const path of ['lists', 'blocks', 'search', 'commit', 'records/get']) {
      const answer = await post(server.url, `${FACES}/${path}`, new Uint8Array(10_001));
      assert.equal(answer.status, 413);
      assert.equal(((await answer.json()) as { code: string }).code, 'TOO_LARGE');
    }
    const { socket, said, ended } = await open(server.url);
    socket.write(head('POST', `${FACES}/lists`, `content-type: ${OCTETS}`, 'transfer-encoding: chunked'));
    for (let i = 0; i < 3; i++) socket.write(`1388\r\n${'x'.repeat(5000)}\r\n`);
    socket.write('0\r\n\r\n');
    while (!said().includes('}')) await pause(5);
    assert.match(said(), /^HTTP\/1.1 413/);
    socket.destroy();
    await ended;
  });
});

it('as many idle connections as there may be do not keep others from being served', async (t) => {
  // npm run campaign -- connections opens as many as the descriptor limit allows
  const wanted = 300;
  await using server = await served({
    limits: { connections: 2 * (wanted + 50), idleSeconds: 0.5, headerSeconds: 0.5 },
  });
  const connections = await Promise.all(Array.from({ length: wanted }, () => open(server.url)));
  assert.equal((await fetch(`${server.url}/v1`)).status, 200);
  assert.ok((await metrics(server.url)).get('hers_connections')! >= wanted);
  // Those that say nothing are let go.
  await Promise.all(connections.map(({ ended }) => ended));
  t.diagnostic(`${wanted} connections opened and let go`);
  assert.ok((await metrics(server.url)).get('hers_connections')! < 10);
});

describe('too much at once', () => {
  it('searches wait in order, and beyond the queue are refused with 429 and Retry-After', async () => {
    let gate: ReturnType<typeof held> | undefined;
    const service = (store: Service) => (gate = held(store)).service;
    await using server = await served({ service, limits: { scans: 1, queue: 4 } });
    const { search } = await filled(server.store);
    const first = post(server.url, `${FACES}/search`, search());
    while (gate!.begun() === 0) await pause(5);
    const waiting = [post(server.url, `${FACES}/search`, search()), post(server.url, `${FACES}/search`, search())];
    while ((await metrics(server.url)).get('hers_scans_waiting') !== 2) await pause(5);
    const refused = await post(server.url, `${FACES}/search`, search());
    assert.equal(refused.status, 429);
    assert.ok(Number(refused.headers.get('retry-after')) >= 1);
    const { code, retryable } = (await refused.json()) as { code: string; retryable: boolean };
    assert.deepEqual({ code, retryable }, { code: 'OVERLOADED', retryable: true });
    gate!.release();
    for (const answer of await Promise.all([first, ...waiting])) {
      assert.equal(answer.status, 200);
      await answer.arrayBuffer();
    }
    // Those that waited together were scanned together.
    assert.equal(gate!.begun(), 2);
    const numbers = await metrics(server.url);
    assert.equal(numbers.get('hers_searches_total'), 3);
    assert.equal(numbers.get('hers_errors_total{code="OVERLOADED"}'), 1);
  });

  it('requests of one caller are counted, at a time and by the second', async () => {
    let gate: ReturnType<typeof held> | undefined;
    const service = (store: Service) => (gate = held(store)).service;
    await using server = await served({ service, limits: { requests: 1, requestsPerSecond: 5 } });
    const { search } = await filled(server.store);
    const first = post(server.url, `${FACES}/search`, search());
    while (gate!.begun() === 0) await pause(5);
    assert.equal((await fetch(`${server.url}/v1`)).status, 429);
    gate!.release();
    await (await first).arrayBuffer();
    const statuses = new Set<number>();
    for (let i = 0; i < 30; i++) statuses.add((await fetch(`${server.url}/v1`)).status);
    assert.ok(statuses.has(429) && statuses.has(200));
  });

  it('one bad search among several that are scanned together fails alone', async () => {
    let gate: ReturnType<typeof held> | undefined;
    const service = (store: Service) => (gate = held(store)).service;
    await using server = await served({ service, limits: { scans: 1 } });
    const { samples, version, search } = await filled(server.store);
    const first = post(server.url, `${FACES}/search`, search());
    while (gate!.begun() === 0) await pause(5);
    const wrongPlan = encodeMessage({ version }, [encodeQuery(samples.query({ width: 5 }))]);
    const others = [search(), wrongPlan, search()].map((body) => post(server.url, `${FACES}/search`, body));
    while ((await metrics(server.url)).get('hers_scans_waiting') !== 3) await pause(5);
    gate!.release();
    const statuses = [];
    for (const answer of await Promise.all([first, ...others])) {
      statuses.push(answer.status);
      await answer.arrayBuffer();
    }
    assert.deepEqual(statuses, [200, 200, 409, 200]);
  });

  it('a request that takes too long ends with 408', async () => {
    let gate: ReturnType<typeof held> | undefined;
    const service = (store: Service) => (gate = held(store)).service;
    await using server = await served({ service, limits: { requestSeconds: 0.2 } });
    const { search } = await filled(server.store);
    const answer = await post(server.url, `${FACES}/search`, search());
    assert.equal(answer.status, 408);
    gate!.release();
    await settled(server.url);
  });

  it('going down: what runs is finished, what is new is refused, and then it is closed', async () => {
    let gate: ReturnType<typeof held> | undefined;
    const service = (store: Service) => (gate = held(store)).service;
    const server = await served({ service });
    const { search } = await filled(server.store);
    const running = post(server.url, `${FACES}/search`, search());
    while (gate!.begun() === 0) await pause(5);
    const idle = await open(server.url);
    const busy = await open(server.url);
    busy.socket.write('GET /v1 HT'); // half a request
    const closing = server.close();
    await idle.ended;
    await assert.rejects(fetch(`${server.url}/v1`));
    gate!.release();
    const answer = await running;
    assert.equal(answer.status, 200);
    assert.ok((await answer.arrayBuffer()).byteLength > 0);
    await closing;
    await busy.ended;
    await server[Symbol.asyncDispose]();
  });
});
