import assert from 'node:assert/strict';
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

  it('finds what it appended before its answer was lost', async () => {
    const [ledger, other] = ledgers as [NatsLedger, NatsLedger];
    const position = await ledger.append('again', 0, text('the same'));
    assert.equal(await other.append('again', 0, text('the same')), position);
    assert.deepEqual(await contents('again'), ['the same']);
  });
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
