// Mostly waits: the runner starts it beside others.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { HersError } from '@hers/service';
import { natsServer, TestCluster } from '../testing/cluster.ts';
import { newestOf } from './ledger.ts';
import { NatsLedger, openNatsLedger } from './ledger-nats.ts';
import { NatsConnection } from './nats.ts';

const nats = natsServer();
const text = (value: string) => new TextEncoder().encode(value);
const isStale = (error: unknown) => error instanceof HersError && error.code === 'STALE';

describe('the ledger on three servers of NATS', { skip: nats.skip }, () => {
  let cluster: TestCluster;
  let ledgers: NatsLedger[];
  before(async () => {
    cluster = await TestCluster.start(nats.path!, { nodes: 0, inMemory: true });
    // Each of them begins at once, while the servers elect leaders.
    ledgers = await Promise.all(cluster.natsUrls.map((url) => openNatsLedger({ servers: [url] })));
  });
  after(async () => {
    await Promise.all(ledgers?.map((ledger) => ledger.close()) ?? []);
    await cluster?.close();
  });

  /** What is read, whoever is asked: all of a topic, and the newest. */
  const contents = async (topic: string) => {
    const read = await Promise.all(
      ledgers.map(async (ledger) => {
        const all = await Array.fromAsync(ledger.read(topic, 0));
        assert.deepEqual(await newestOf(ledger, topic), all.at(-1));
        return all.map(({ content }) => new TextDecoder().decode(content));
      }),
    );
    for (const each of read) assert.deepEqual(each, read[0]);
    return read[0]!;
  };

  it('keeps what there is where less is there than it should keep', async () => {
    const [ledger] = ledgers as [NatsLedger];
    assert.equal(await ledger.append('first', 0, text('first')), 1, 'the first of the stream');
    for (const keep of [1, 5]) await ledger.trim('first', keep);
    await ledger.trim('nothing', 1);
    assert.deepEqual(await contents('first'), ['first']);
  });

  it('takes one of several entries that are appended to the same one', async () => {
    const won: string[] = [];
    for (let round = 0; round < 40; round++) {
      const newest = await newestOf(ledgers[round % 3]!, 'race');
      const results = await Promise.allSettled(
        ledgers.map((ledger, i) => ledger.append('race', newest?.position ?? 0, text(`${round}, ${i}`))),
      );
      for (const result of results) assert.ok(result.status === 'fulfilled' || isStale(result.reason));
      const [winner, ...others] = results.flatMap(({ status }, i) => (status === 'fulfilled' ? [i] : []));
      assert.deepEqual([winner !== undefined, others], [true, []]);
      won.push(`${round}, ${winner}`);
    }
    assert.deepEqual(await contents('race'), won);
  });

  it('passes over what a server let through too late', async () => {
    const [ledger] = ledgers as [NatsLedger];
    const first = await ledger.append('late', 0, text('first'));
    const second = await ledger.append('late', first, text('second'));
    const raw = new NatsConnection({ servers: cluster.natsUrls });
    const letThrough = async (follows: number, content: string) => {
      const headers = { 'Hers-After': String(follows) };
      while (!raw.isOpen) await new Promise((resolve) => setTimeout(resolve, 10));
      await raw.request('hers-ledger.late', text(content), { headers, timeoutMs: 5000 });
    };
    await letThrough(0, 'too late');
    await letThrough(first, 'too late as well');
    assert.deepEqual(await contents('late'), ['first', 'second']);
    await assert.rejects(ledger.append('late', first, text('stale')), isStale);
    // The entries in between are no obstacle, nor are they what is kept.
    const third = await ledger.append('late', second, text('third'));
    await letThrough(second, 'once more');
    await ledger.trim('late', 1);
    assert.deepEqual(await contents('late'), ['third']);
    await ledger.append('late', third, text('fourth'));
    await letThrough(third, 'and again');
    await ledger.trim('late', 2);
    assert.deepEqual(await contents('late'), ['third', 'fourth']);
    await assert.rejects(ledger.append('late', 0, text('stale')), isStale);
    await raw.close();
  });

  it('passes over what no node appended, whatever it is', async () => {
    const [ledger] = ledgers as [NatsLedger];
    const raw = new NatsConnection({ servers: cluster.natsUrls });
    while (!raw.isOpen) await new Promise((resolve) => setTimeout(resolve, 10));
    const strange: Record<string, string>[] = [
      {},
      { 'Hers-After': '' },
      { 'Hers-After': '-1' },
      { 'Hers-After': '1e3' },
      { 'Hers-After': 'NaN' },
      { 'Hers-After': '9007199254740993' },
      // Of an entry that there is not yet.
      { 'Hers-After': '900000000' },
    ];
    const publish = async (content: Uint8Array) => {
      for (const headers of strange) await raw.request('hers-ledger.strange', content, { headers, timeoutMs: 5000 });
    };
    await publish(text('before all'));
    assert.deepEqual(await contents('strange'), []);
    const first = await ledger.append('strange', 0, text('first'));
    await publish(new Uint8Array(0));
    assert.deepEqual(await contents('strange'), ['first']);
    const second = await ledger.append('strange', first, text('second'));
    await publish(new Uint8Array(2 ** 19));
    await ledger.trim('strange', 1);
    assert.deepEqual(await contents('strange'), ['second']);
    // A copy of an entry of before is too late.
    const headers = { 'Hers-After': String(first) };
    await raw.request('hers-ledger.strange', text('second'), { headers, timeoutMs: 5000 });
    assert.equal(await ledger.append('strange', second, text('third')), (await newestOf(ledger, 'strange'))?.position);
    assert.deepEqual(await contents('strange'), ['second', 'third']);
    await raw.close();
  });

  it('finds what it appended before its answer was lost', async () => {
    const [ledger, other] = ledgers as [NatsLedger, NatsLedger];
    const position = await ledger.append('again', 0, text('the same'));
    assert.equal(await other.append('again', 0, text('the same')), position);
    assert.deepEqual(await contents('again'), ['the same']);
  });
});

it('a server that is none of NATS, or sends what has no end, is left, and nothing of it is kept', async () => {
  const hello = 'INFO {"headers":true}\r\n';
  const ready = `${hello}PONG\r\n`;
  for (const sent of [
    'HTTP/1.1 400 Bad Request\r\n\r\n',
    'INFO garbage\r\n',
    'x'.repeat(2 ** 17),
    `${ready}MSG a 1 99999999999\r\n${'x'.repeat(2 ** 16)}`,
    `${ready}MSG a 1 -5\r\n\r\n`,
    `${ready}MSG a 1 many\r\n\r\n`,
    `${ready}HMSG a 1 10 5\r\n0123456789\r\n`,
    `${ready}MSG\r\n`,
  ]) {
    let left = 0;
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.on('close', () => left++);
      socket.resume();
      socket.write(sent);
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as { port: number };
    const connection = new NatsConnection({ servers: [`nats://127.0.0.1:${port}`] });
    while (left === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await assert.rejects(connection.request('a', new Uint8Array(0), { timeoutMs: 50 }), { code: 'UNAVAILABLE' });
    await connection.close();
    await new Promise((resolve) => server.close(resolve));
  }
});

it('a ledger that cannot be reached says so when its time is up', async () => {
  // Nothing listens on this port.
  const ledger = new NatsLedger({ servers: ['nats://127.0.0.1:1'] });
  const began = performance.now();
  await assert.rejects(ledger.begin(500), (error) => {
    assert.ok(error instanceof HersError && error.code === 'UNAVAILABLE');
    assert.match(error.message, /not ready within .* cannot be reached: .*ECONNREFUSED.*; see that most servers/);
    return true;
  });
  assert.ok(performance.now() - began < 5000);
  await ledger.close();
});
