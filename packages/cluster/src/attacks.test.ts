// What somebody tries who has a token of a client, the token of a node, or the ledger.
//
// Long: cheating.test.ts of client is the short form.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Collection, Database, MasterSeed } from '@hers/client';
import { HersError, type Service } from '@hers/service';
import { encodeBlock, Samples } from '@hers/service/samples';
import fc from 'fast-check';
import { LocalCluster } from '../testing/local.ts';
import { DIRECTORY, decodeDirectory, EMPTY_DIRECTORY, encodeDirectory } from './directory.ts';
import { newestOf } from './ledger.ts';
import { decodeEntry, encodeEntry, HOME, type ShardService, shardName } from './shard.ts';

const NAMES = ['n1', 'n2', 'n3'];
const samples = new Samples(23);
const text = (value: string) => new TextEncoder().encode(value);
const created = () => ({ id: samples.id(), descriptor: new Uint8Array(1), manifest: new Uint8Array(1) });

async function withCluster(
  work: (cluster: LocalCluster, reported: unknown[]) => Promise<void>,
  tendMs = 600_000,
): Promise<void> {
  const reported: unknown[] = [];
  const cluster = await LocalCluster.make({ tendMs, onBackgroundError: (error) => reported.push(error) });
  try {
    await cluster.start(...NAMES);
    await work(cluster, reported);
  } finally {
    await cluster.close();
  }
}

describe('a node that lies', () => {
  const DIMENSION = 8;
  const vectorOf = (seed: number) => {
    const random = new Samples(seed + 1);
    return Float32Array.from({ length: DIMENSION }, () => random.below(2001) / 1000 - 1);
  };
  // Several blocks.
  const records = Array.from({ length: 3 * 2048 }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i) }));

  /** A client of n1, which asks n2 first where it can; and n2 is a liar. */
  const lied = (
    replicas: number,
    work: (cluster: LocalCluster, faces: () => Promise<Collection>, honest: ShardService) => Promise<void>,
  ) =>
    withCluster(async (cluster) => {
      const key = MasterSeed.generate();
      const open = () => new Database(cluster.coordinator('n1', { replicas, shards: replicas === 1 ? 6 : 1 }), { key });
      const { peers } = cluster.nodes.get('n1')!;
      peers.nearest = (nodes) => nodes.toSorted((a, b) => Number(b === 'n2') - Number(a === 'n2'));
      await (await open().createCollection('faces', { dimension: DIMENSION })).upsert(records);
      await work(cluster, () => open().collection('faces'), cluster.nodes.get('n2')!.shards);
    });

  const responses = (honest: ShardService, change: (all: Uint8Array[]) => Uint8Array[]): Partial<ShardService> => ({
    async *searchShards(shards, queries, options) {
      yield* change(await Array.fromAsync(honest.searchShards(shards, queries, { ...options, views: false })));
    },
  });
  const flip = (bytes: Uint8Array, at: number) => bytes.map((byte, i) => (i === at ? byte ^ 1 : byte));
  const lies: Record<string, (honest: ShardService) => Partial<ShardService>> = {
    'leaves out an answer': (honest) => responses(honest, (all) => all.slice(1)),
    'answers nothing': (honest) => responses(honest, () => []),
    'answers one block for another': (honest) => responses(honest, (all) => all.map(() => all[0])),
    'flips a bit of its answers': (honest) => responses(honest, (all) => all.map((bytes) => flip(bytes, 200))),
    'answers for ever': (honest) => ({
      async *searchShards(...args) {
        const [first] = await Array.fromAsync(honest.searchShards(...args));
        for (;;) {
          const forged = first?.slice() ?? samples.bytes(4096);
          forged.set(samples.bytes(48), 8);
          yield forged;
          await new Promise(setImmediate);
        }
      },
    }),
    'gives other lists': (honest) => ({
      async *getLists(...args) {
        for await (const list of honest.getLists(...args)) yield flip(list, 40);
      },
    }),
    'says that its shards are much newer': () => ({ getState: async () => ({ version: 1e9, state: 'ab'.repeat(16) }) }),
    'says that its shards were made by another change': (honest) => ({
      getState: async (name) => ({ ...(await honest.getState(name)), state: 'ab'.repeat(16) }),
    }),
    'gives another manifest': (honest) => ({
      getManifest: async (name) => {
        const { version, manifest } = await honest.getManifest(name);
        return { version, manifest: name === DIRECTORY ? manifest : flip(manifest, manifest.length - 9) };
      },
    }),
  };
  const isCaught = (error: unknown) =>
    error instanceof HersError && ['INTEGRITY', 'DAMAGED', 'UNAVAILABLE', 'TIMED_OUT'].includes(error.code);

  for (const replicas of [1, 3])
    it(`is caught by the client, or nobody sees it, with ${replicas} replicas`, () =>
      lied(replicas, async (cluster, faces, honest) => {
        const [{ id, score }] = (await (await faces()).search(vectorOf(5), { limit: 1 })).matches;
        assert.equal(id, 'r5');
        const seen: Record<string, string> = {};
        for (const [what, lie] of Object.entries(lies)) {
          cluster.lies.set('n2', lie(honest));
          try {
            const collection = await faces();
            const { matches } = await collection.search(vectorOf(5), { limit: 1 });
            assert.equal(matches[0].id, 'r5', what);
            assert.ok(Math.abs(matches[0].score - score) < 0.02, what);
            seen[what] = 'right';
          } catch (error) {
            assert.ok(isCaught(error), `${what}: ${error}`);
            seen[what] = (error as HersError).code;
          }
        }
        // Where n2 is asked for all blocks, the client has to notice.
        if (replicas === 3)
          for (const what of [
            'leaves out an answer',
            'answers nothing',
            'flips a bit of its answers',
            'answers for ever',
          ])
            assert.ok(['INTEGRITY', 'DAMAGED'].includes(seen[what]), JSON.stringify(seen));
        cluster.lies.clear();
        assert.equal((await (await faces()).search(vectorOf(5), { limit: 1 })).matches[0].id, 'r5');
      }));

  it('is replaced by another replica where its answers cannot be read, or are too few', () =>
    lied(3, async (cluster, faces, honest) => {
      const collection = await faces();
      for (const lie of [
        responses(honest, () => [new Uint8Array(3)]),
        responses(honest, (all) => all.map((bytes) => bytes.subarray(0, 20))),
        {
          async *getRecords(...args: Parameters<Service['getRecords']>) {
            for await (const record of honest.getRecords(...args)) {
              yield record;
              throw new HersError('UNAVAILABLE', 'it breaks off');
            }
          },
        },
      ]) {
        cluster.lies.set('n2', lie);
        assert.equal((await collection.search(vectorOf(7), { limit: 1 })).matches[0].id, 'r7');
        const found = await collection.get(['r1', 'r2', 'r3', 'r4']);
        assert.deepEqual(
          found.map((record) => record?.id),
          ['r1', 'r2', 'r3', 'r4'],
        );
      }
    }));
});

describe('a client with a token', () => {
  it('commits nothing by names that it made up, nor what was staged for another collection', () =>
    withCluster(async (cluster) => {
      const service = cluster.coordinator('n1');
      for (const name of ['mine', 'theirs']) await service.createCollection(name, created());
      const theirs = await service.stageRecords('theirs', samples.records(4));
      const block = await service.stageBlock('theirs', [encodeBlock(samples.block())]);
      const list = await service.stageList('theirs', samples.bytes(100));
      const hash = 'A'.repeat(43);
      const changes = [
        { records: [theirs] },
        { blocks: [block] },
        { lists: [list] },
        { blocks: ['block/'] },
        { lists: ['list/'] },
        { blocks: [`block/0:${hash},1:${hash}`] },
        { records: [`records/99:${hash}`] },
        { records: [`records/0:${hash}`] },
        { records: ['records/../../theirs'] },
        { records: [`${theirs}\n`] },
        { records: [''] },
        { records: ['x'.repeat(9000)] },
      ];
      for (const change of changes)
        await assert.rejects(
          service.commit('mine', { expected: 1, manifest: text('a manifest'), ...change }),
          (error) => error instanceof HersError && ['NOT_FOUND', 'INVALID_ARGUMENT'].includes(error.code),
          JSON.stringify(change),
        );
      assert.equal((await service.getManifest('mine')).version, 1);
      assert.equal(await service.commit('theirs', { expected: 1, manifest: text('other'), records: [theirs] }), 2);
    }));

  it('cannot name shards, the directory or what every object has', () =>
    withCluster(async (cluster) => {
      const service = cluster.coordinator('n1');
      await service.createCollection('faces', created());
      const { uid } = cluster.nodes.get('n1')!.members.directory.collections.faces;
      for (const name of [
        shardName(uid, 0),
        `${shardName(uid, 0)}.0`,
        DIRECTORY,
        '__proto__',
        'constructor',
        'toString',
      ])
        await assert.rejects(service.getManifest(name), { code: 'NOT_FOUND' }, name);
      for (const name of ['a/0', 'a#1', '../a', '', '.', '__proto__', 'a\n', 'ä'])
        await assert.rejects(service.createCollection(name, created()), { code: 'INVALID_ARGUMENT' }, name);
      // Names of their own, whatever nodes call their shards.
      for (const name of [shardName(uid, 0), DIRECTORY, 'constructor']) {
        await service.createCollection(name, created());
        assert.equal((await service.getManifest(name)).version, 1);
        await service.deleteCollection(name);
      }
      assert.equal((await service.getManifest('faces')).version, 1);
    }));

  it('has large records read without anybody holding all of them', () =>
    withCluster(async (cluster) => {
      const service = cluster.coordinator('n1');
      await service.createCollection('faces', created());
      const large = samples.records(24).map(({ handle }) => ({ handle, sealed: samples.bytes(2 ** 20) }));
      const stage = await service.stageRecords('faces', large);
      await service.commit('faces', { expected: 1, manifest: text('large'), records: [stage] });
      let taken = 0;
      let given = 0;
      for (const name of ['n2', 'n3']) {
        const honest = cluster.nodes.get(name)!.shards;
        cluster.lies.set(name, {
          async *getRecords(...args: Parameters<Service['getRecords']>) {
            for await (const record of honest.getRecords(...args)) {
              given++;
              yield record;
            }
          },
        });
      }
      // n1 is asked last: only what others give is counted.
      const handles = large.map(({ handle }) => handle);
      const nearest = cluster.nodes.get('n1')!.peers;
      nearest.nearest = (nodes) => nodes.filter((node) => node !== 'n1');
      for await (const { sealed } of service.getRecords('faces', handles)) {
        assert.equal(Buffer.compare(sealed, large[taken].sealed), 0);
        taken++;
        // Each of four shards is two ahead at most.
        assert.ok(given <= taken + 2 * 4, `${given} were read when ${taken} were taken`);
      }
      assert.equal(taken, large.length);
    }));

  it('cannot fill the directory so that nodes cannot join, or shards move', () =>
    withCluster(async (cluster) => {
      const { members } = cluster.nodes.get('n1')!;
      const placed = {
        base: 0,
        placement: 0,
        replicas: 3,
        shards: Array.from({ length: 128 }, () => ['n4', 'n5', 'n6']),
      };
      const many = Array.from({ length: 405 }, (_, i) => [`c${i}`, { ...placed, uid: String(i).padStart(32, '0') }]);
      const before = members.directory.collections;
      await members.change((directory) => ({ ...directory, collections: Object.fromEntries(many) }));
      const service = cluster.coordinator('n1', { shards: 1 });
      await assert.rejects(service.createCollection('one-more', created()), { code: 'TOO_LARGE' });
      assert.ok(!(await members.read()).collections['one-more']);
      await members.drain('n3', true);
      await cluster.start('n4');
      await members.change((directory) => ({ ...directory, collections: before }));
    }));
});

describe('what no node wrote', () => {
  const FOREIGN = [
    new Uint8Array(0),
    text('garbage'),
    text('null'),
    text('[]'),
    text('{"format":1'),
    Uint8Array.of(0xff, 0xfe, 0),
    text('{"format":1,"version":2}'),
    text('{"format":1,"version":-1,"nonce":"","fence":0,"shards":[]}'),
    text('{"format":1,"version":2,"nonce":"","fence":0,"shards":[{"shard":1e9,"version":2,"state":"","change":""}]}'),
    text('{"format":1,"version":2,"nonce":"","fence":0,"shards":[null]}'),
    text('{"format":2,"version":2,"nonce":"","fence":0,"shards":[]}'),
    new Uint8Array(2 ** 20),
  ];
  const isRefused = (error: unknown) =>
    error instanceof HersError && ['MALFORMED', 'UNSUPPORTED_VERSION'].includes(error.code);

  it('is refused, whatever bytes it has', () => {
    for (const bytes of FOREIGN)
      for (const decode of [decodeEntry, decodeDirectory]) assert.throws(() => decode(bytes), isRefused);
    const entry = encodeEntry({
      version: 2,
      nonce: 'ab',
      fence: 0,
      shards: [{ shard: 0, version: 2, state: 'cd', change: 'ef' }],
    });
    const directory = encodeDirectory({
      version: 3,
      nodes: { n1: { url: 'memory:n1' } },
      collections: {
        c: { uid: 'ab', base: 0, shards: [['n1']], placement: 0, replicas: 1, move: { shard: 0, to: 'n2' } },
      },
    });
    assert.equal(decodeEntry(entry).shards.length, 1);
    assert.equal(decodeDirectory(directory).version, 3);
    const altered = fc.record({
      whole: fc.constantFrom(entry, directory),
      at: fc.nat(200),
      byte: fc.nat(255),
      cut: fc.nat(200),
    });
    fc.assert(
      fc.property(altered, ({ whole, at, byte, cut }) => {
        const bytes = whole.slice(0, Math.max(whole.length - cut, 0));
        if (bytes.length > 0) bytes[at % bytes.length] = byte;
        for (const decode of [decodeEntry, decodeDirectory])
          try {
            decode(bytes);
          } catch (error) {
            assert.ok(isRefused(error), String(error));
          }
      }),
      { numRuns: 2000 },
    );
  });

  it('in the ledger stops the collection that it is of: nothing behind it is applied, and others go on', () =>
    withCluster(async (cluster, reported) => {
      const service = cluster.coordinator('n1');
      for (const name of ['faces', 'guests']) await service.createCollection(name, created());
      const { uid } = cluster.nodes.get('n1')!.members.directory.collections.faces;
      assert.equal(await service.commit('faces', { expected: 1, manifest: text('second') }), 2);
      const last = (await newestOf(cluster.ledger, uid))!;
      // One that could be applied comes behind the one that nobody knows.
      const states = await Promise.all(
        NAMES.map((name) => cluster.nodes.get(name)!.store.getState(shardName(uid, HOME))),
      );
      const at = await cluster.ledger.append(uid, last.position, FOREIGN[10]);
      const entry = { ...decodeEntry(last.content), version: 3, nonce: 'behind' };
      await cluster.ledger.append(uid, at, encodeEntry(entry));
      await cluster.ledger.append(uid, at + 1, FOREIGN[1]);
      await assert.rejects(service.commit('faces', { expected: 2, manifest: text('third') }), isRefused);
      // A node that comes back reads all of the ledger, and tends what it can.
      await cluster.stop('n3');
      assert.equal(await service.commit('guests', { expected: 1, manifest: text('second') }), 2);
      await cluster.start('n3');
      const guests = cluster.nodes.get('n1')!.members.directory.collections.guests.uid;
      for (;;) {
        const { version } = await cluster.nodes.get('n3')!.store.getState(shardName(guests, HOME));
        if (version === 2) break;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      for (const [i, name] of NAMES.entries())
        assert.deepEqual(await cluster.nodes.get(name)!.store.getState(shardName(uid, HOME)), states[i]);
      assert.equal((await service.getManifest('faces')).version, 2);
      assert.ok(reported.every(isRefused), String(reported));
      await service.deleteCollection('faces');
    }, 20));

  it('in the place of the directory changes nothing, and nothing is removed because of it', () =>
    withCluster(async (cluster, reported) => {
      const service = cluster.coordinator('n1');
      await service.createCollection('faces', created());
      const { version } = cluster.nodes.get('n1')!.members.directory;
      for (const bytes of [text('garbage'), text('{"format":9}'), text('{"format":1,"version":99,"nodes":[]}')]) {
        const last = (await newestOf(cluster.ledger, DIRECTORY))!;
        await cluster.ledger.append(DIRECTORY, last.position, bytes);
        await assert.rejects(service.createCollection('guests', created()), isRefused);
        assert.equal((await service.getManifest('faces')).version, 1);
        assert.equal((await service.listCollections()).length, 1);
      }
      // An older one that is appended again is not taken for the newest.
      const last = (await newestOf(cluster.ledger, DIRECTORY))!;
      await cluster.ledger.append(DIRECTORY, last.position, encodeDirectory({ ...EMPTY_DIRECTORY, version: 1 }));
      await service.createCollection('guests', created());
      assert.deepEqual((await service.listCollections()).map(({ name }) => name).sort(), ['faces', 'guests']);
      assert.ok(cluster.nodes.get('n2')!.members.directory.version > version);
      assert.ok(reported.every(isRefused), String(reported));
    }));
});
