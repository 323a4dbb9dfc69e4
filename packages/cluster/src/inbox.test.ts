// Inboxes on several nodes: one number for each item wherever it is posted, and nothing lost.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Service } from '@hers/service';
import { Samples, sampleEnvelope } from '@hers/service/samples';
import type { InboxLimits } from '@hers/store';
import { LocalCluster } from '../testing/local.ts';
import type { CoordinatorOptions } from './coordinator.ts';
import { INBOXES } from './directory.ts';
import { InboxState } from './inbox-state.ts';
import { HOME, readAddress } from './shard.ts';

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const text = (value: string) => new TextEncoder().encode(value);
const NAMES = ['n1', 'n2', 'n3'];

async function made(options: Partial<CoordinatorOptions> = {}, names: readonly string[] = NAMES) {
  const cluster = await LocalCluster.make({ tendMs: 20 });
  await cluster.start(...names);
  const samples = new Samples(5);
  const coordinator = (name: string) => cluster.coordinator(name, { shards: 2, ...options });
  const id = samples.id();
  await coordinator('n1').createCollection('doors', { id, descriptor: text('doors'), manifest: text('1') });
  const envelope = (device = 1, bytes = 40) =>
    sampleEnvelope({ collection: id, nonce: samples.id(), body: samples.bytes(bytes), device });
  return { cluster, coordinator, envelope, id, samples };
}

const taken = async (service: Service, after = 0) =>
  (await Array.fromAsync(service.takeInbox('doors', { after, limit: 1000 }))).map((item) => [
    item.number,
    hex(item.envelope),
  ]);

async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await holds())) await new Promise((go) => setTimeout(go, 20));
}

it('what is posted to several nodes at once has one number, however often it is posted', async () => {
  const { cluster, coordinator, envelope } = await made();
  try {
    const services = NAMES.map(coordinator);
    const posted = Array.from({ length: 60 }, (_, i) => envelope(i % 5));
    const numbers = await Promise.all(
      posted.map(async (each, i) => {
        const both = [services[i % 3], services[(i + 1) % 3], services[i % 3]];
        return Promise.all(both.map((service) => service.post('doors', each)));
      }),
    );
    for (const [first, ...others] of numbers) for (const other of others) assert.equal(other, first);
    const order = numbers.map(([first]) => first);
    assert.deepEqual(
      order.toSorted((a, b) => a - b),
      posted.map((_, i) => i + 1),
    );
    const expected = posted
      .map((each, i) => [order[i], hex(each)] as const)
      .sort(([a], [b]) => a - b)
      .map((item) => [...item]);
    for (const service of services) assert.deepEqual(await taken(service), expected);
    // Dropped by several at once, while others read and post.
    const reading = Promise.all(services.map((service) => taken(service)));
    await Promise.all([
      ...services.map((service, i) => service.dropInbox('doors', order.slice(20 * i, 20 * i + 30))),
      services[1].post('doors', envelope()),
    ]);
    await reading;
    for (const service of services)
      assert.deepEqual(
        (await taken(service)).map(([number]) => number),
        [61],
      );
  } finally {
    await cluster.close();
  }
});

it('nothing that was acknowledged is lost with a node, and two of three are enough', async () => {
  const { cluster, coordinator, envelope } = await made();
  try {
    const all: [number, string][] = [];
    const post = async (name: string) => {
      const each = envelope();
      all.push([await coordinator(name).post('doors', each), hex(each)]);
    };
    for (const name of NAMES) await post(name);
    await cluster.stop('n1');
    await post('n2');
    await cluster.stop('n2');
    await assert.rejects(coordinator('n3').post('doors', envelope()), { code: 'UNAVAILABLE' });
    await assert.rejects(taken(coordinator('n3')), { code: 'UNAVAILABLE' });
    await cluster.start('n1', 'n2');
    await post('n1');
    // One loses its disk, and copies the inbox from the others.
    await cluster.stop('n2');
    await cluster.wipe('n2');
    await cluster.start('n2');
    const inbox = () => {
      const { collections } = cluster.nodes.get('n2')!.members.directory;
      return collections[INBOXES + collections.doors.uid];
    };
    await until(async () => {
      const { version } = await cluster.nodes.get('n3')!.store.getState(`${inbox().uid}.${HOME}`);
      const here = await cluster.nodes
        .get('n2')!
        .store.getState(`${inbox().uid}.${HOME}`)
        .catch(() => undefined);
      return here?.version === version;
    });
    await cluster.stop('n1');
    assert.deepEqual(
      (await taken(coordinator('n2'))).map(([, each]) => each),
      all.map(([, each]) => each),
    );
    await post('n2');
    assert.deepEqual(await taken(coordinator('n3')), all);
  } finally {
    await cluster.close();
  }
});

it('an inbox moves with the nodes, and gets the replicas of its collection', async () => {
  const { cluster, coordinator, envelope } = await made({ replicas: 2 });
  try {
    const posted = Array.from({ length: 5 }, () => envelope());
    for (const each of posted) await coordinator('n1').post('doors', each);
    const { members } = cluster.nodes.get('n1')!;
    const inbox = () => members.directory.collections[INBOXES + members.directory.collections.doors.uid];
    assert.equal(inbox().shards[HOME].length, 2);
    const leaving = inbox().shards[HOME][0];
    await members.drain(leaving, true);
    await until(() => !inbox().shards[HOME].includes(leaving) && inbox().move === undefined);
    const other = NAMES.find((name) => name !== leaving)!;
    assert.equal((await taken(coordinator(other))).length, 5);
    assert.equal(await coordinator(other).post('doors', posted[3]), 4);
    await members.drain(leaving, false);
    await members.setReplicas('doors', 3);
    await until(() => inbox().shards[HOME].length === 3);
    assert.equal((await taken(coordinator(leaving))).length, 5);
  } finally {
    await cluster.close();
  }
});

it('limits hold for all nodes together, and what is too old makes room', async () => {
  const inbox: InboxLimits = { items: 3, bytes: 2000, age: 60 };
  const { cluster, coordinator, envelope, id, samples } = await made({ inbox });
  try {
    const [first, second, third] = NAMES.map(coordinator);
    const kept = envelope();
    await first.post('doors', kept);
    await second.post('doors', envelope());
    await third.post('doors', envelope());
    await assert.rejects(first.post('doors', envelope()), { code: 'INBOX_FULL' });
    assert.equal(await second.post('doors', kept), 1);
    await assert.rejects(second.post('doors', envelope(2, 3000)), { code: 'INBOX_FULL' });
    assert.equal(await second.post('doors', envelope(2)), 4);
    // More at once than there is room for: some are refused, and the others are there.
    const many = await Promise.allSettled(
      Array.from({ length: 9 }, (_, i) => [first, second, third][i % 3].post('doors', envelope(3))),
    );
    assert.equal(many.filter(({ status }) => status === 'fulfilled').length, 3);
    assert.deepEqual(
      (await taken(third)).map(([number]) => number),
      [1, 2, 3, 4, 5, 6, 7],
    );
    const clock = Date.now;
    try {
      Date.now = () => clock() + 61_000;
      assert.deepEqual(await taken(first), []);
      const later = sampleEnvelope({ collection: id, nonce: samples.id(), body: samples.bytes(9) });
      assert.equal(await first.post('doors', later), 8);
      assert.deepEqual(
        (await taken(second)).map(([number]) => number),
        [8],
      );
    } finally {
      Date.now = clock;
    }
  } finally {
    await cluster.close();
  }
});

it('an inbox is no collection for clients, and goes with its own', async () => {
  const { cluster, coordinator, envelope, id } = await made();
  try {
    const service = coordinator('n1');
    await Promise.all(NAMES.map((name) => coordinator(name).post('doors', envelope())));
    const { members } = cluster.nodes.get('n1')!;
    const hidden = Object.keys(members.directory.collections).filter((name) => name !== 'doors');
    assert.equal(hidden.length, 1, 'made once, though three nodes posted first');
    assert.deepEqual(
      (await service.listCollections()).map(({ name }) => name),
      ['doors'],
    );
    for (const call of [
      () => service.getCollection(hidden[0]),
      () => service.getManifest(hidden[0]),
      () => service.deleteCollection(hidden[0]),
      () => service.stageList(hidden[0], text('x')),
      () => service.commit(hidden[0], { expected: 1, manifest: text('x') }),
      () => Array.fromAsync(service.snapshot(hidden[0])),
    ])
      await assert.rejects(call, { code: 'NOT_FOUND' });
    await service.deleteCollection('doors');
    await assert.rejects(coordinator('n2').post('doors', envelope()), { code: 'NOT_FOUND' });
    await assert.rejects(taken(coordinator('n3')), { code: 'NOT_FOUND' });
    for (const name of NAMES)
      await until(async () =>
        (await cluster.nodes.get(name)!.store.listCollections()).every((info) => !readAddress(info.name)),
      );
    // Another of its name has an inbox of its own.
    await service.createCollection('doors', { id, descriptor: text('doors'), manifest: text('1') });
    assert.deepEqual(await taken(service), []);
    assert.equal(await coordinator('n2').post('doors', envelope()), 1);
  } finally {
    await cluster.close();
  }
});

it('what an inbox says of itself is read back, and a format of later refused', () => {
  const limits = { items: 5, bytes: 1000, age: 60 };
  const state = InboxState.empty();
  const nonce = new Samples(2).id();
  for (const device of [3, 0xffffffff]) state.put('x', { device, nonce, posted: 2 ** 41, bytes: 7 }, limits);
  state.refused = [1, 0xffffffff];
  const again = InboxState.decode(state.encode());
  assert.deepEqual(again.entries(), state.entries());
  assert.deepEqual([again.last, again.refused, again.size], [2, [1, 0xffffffff], { items: 2, bytes: 14 }]);
  assert.notDeepEqual(state.encode(), state.encode());
  const later = Buffer.from(state.encode()).toString('latin1').replace('"format":1', '"format":2');
  assert.throws(() => InboxState.decode(new Uint8Array(Buffer.from(later, 'latin1'))), { code: 'UNSUPPORTED_VERSION' });
});
