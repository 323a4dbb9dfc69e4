// Shards move to where they should be: on nodes that join, away from those that are emptied or
// gone; and what was lost on one node is copied from others. A client changes and searches
// meanwhile, and a history decides whether it was always told the truth.
//
// Long: node.test.ts is the short form.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { HersError } from '@hers/service';
import { Samples } from '@hers/service/samples';
import fc from 'fast-check';
import { ChangeHistory } from '../testing/history.ts';
import { LocalCluster } from '../testing/local.ts';
import { type Directory, decodeDirectory, encodeDirectory, type PlacedCollection, placeShards } from './directory.ts';
import { heldOf, nextMove } from './placement.ts';
import { decodeEntry, decodeHome, encodeEntry, encodeHome, readAddress, shardName } from './shard.ts';

const NAMES = ['n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7'];
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const text = (value: string) => new TextEncoder().encode(value);

function directoryOf(nodes: readonly string[], collections: readonly PlacedCollection[]): Directory {
  return {
    version: 1,
    nodes: Object.fromEntries(nodes.map((name) => [name, { url: name }])),
    collections: Object.fromEntries(collections.map((placed, i) => [`c${i}`, placed])),
  };
}

describe('the plan', () => {
  /** Moves until nothing moves. */
  function settle(
    given: Directory,
    live: readonly string[],
    gone: readonly string[] = [],
  ): { directory: Directory; moves: number } {
    let directory = given;
    for (let moves = 0; moves < 2000; moves++) {
      const next = nextMove(directory, { live: new Set(live), gone: new Set(gone) });
      if (!next) return { directory, moves };
      const { shard, from, to } = next.move;
      const placed = directory.collections[next.name];
      const nodes = placed.shards[shard].filter((node) => node !== from).concat(to ?? []);
      assert.equal(new Set(nodes).size, nodes.length, 'two replicas on one node');
      const shards = placed.shards.map((each, i) => (i === shard ? nodes : each));
      directory = { ...directory, collections: { ...directory.collections, [next.name]: { ...placed, shards } } };
    }
    throw new Error('it never ends');
  }

  const galleries = fc.record({
    nodes: fc.integer({ min: 3, max: 7 }),
    first: fc.integer({ min: 1, max: 3 }),
    replicas: fc.integer({ min: 1, max: 3 }),
    shards: fc.array(fc.integer({ min: 1, max: 32 }), { minLength: 1, maxLength: 4 }),
  });

  it('evens out what nodes keep, and leaves nothing on nodes that are gone or emptied', () => {
    fc.assert(
      fc.property(galleries, fc.integer({ min: 0, max: 2 }), ({ nodes, first, replicas, shards }, leave) => {
        const names = NAMES.slice(0, nodes);
        const few = names.slice(0, Math.max(first, replicas));
        const collections = shards.map((count, i) => ({
          uid: String(i),
          base: 0,
          placement: 0,
          replicas,
          shards: placeShards(String(i), count, replicas, few),
        }));
        const leaving = names.slice(0, Math.min(leave, nodes - replicas));
        const made = directoryOf(names, collections);
        const emptied = { ...made, nodes: { ...made.nodes, [leaving[0] ?? 'none']: { url: '', draining: true } } };
        if (leaving.length === 0) delete (emptied.nodes as Record<string, unknown>).none;
        const stay = names.filter((name) => !leaving.includes(name));
        const { directory } = settle(emptied, stay.concat(leaving.slice(0, 1)), leaving.slice(1));
        const total = new Map(stay.map((name) => [name, 0]));
        for (const placed of Object.values(directory.collections)) {
          for (const each of placed.shards) {
            assert.equal(each.length, replicas);
            for (const node of each) assert.ok(stay.includes(node));
          }
          const held = stay.map((name) => heldOf(placed, names).get(name)!);
          assert.ok(Math.max(...held) - Math.min(...held) <= 1, held.join());
          for (const [i, name] of stay.entries()) total.set(name, total.get(name)! + held[i]);
        }
        const all = [...total.values()];
        assert.ok(Math.max(...all) - Math.min(...all) <= Math.max(1, collections.length - 1), all.join());
      }),
      { numRuns: 200 },
    );
  });

  it('moves no more than the new nodes get', () => {
    const placed = { uid: 'u', base: 0, placement: 0, replicas: 3, shards: placeShards('u', 32, 3, NAMES.slice(0, 3)) };
    const { directory, moves } = settle(directoryOf(NAMES.slice(0, 4), [placed]), NAMES.slice(0, 4));
    assert.equal(moves, 24);
    assert.equal(heldOf(directory.collections.c0, NAMES).get('n4'), 24);
  });

  it('leaves what no other node can take', () => {
    const placed = { uid: 'u', base: 0, placement: 0, replicas: 3, shards: placeShards('u', 4, 3, NAMES.slice(0, 3)) };
    assert.equal(settle(directoryOf(NAMES.slice(0, 3), [placed]), ['n1', 'n2'], ['n3']).moves, 0);
  });
});

describe('a cluster in one process', () => {
  const quick = { tendMs: 20, goneMs: 1500 };

  /** How many shards each node keeps, by what lies in its folder. */
  async function kept(cluster: LocalCluster): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const [name, node] of cluster.nodes)
      counts[name] = (await node.store.listCollections()).filter((info) => readAddress(info.name)).length;
    return counts;
  }

  async function until(what: string, holds: () => Promise<boolean> | boolean, seconds: number = 40): Promise<void> {
    for (const end = performance.now() + 1000 * seconds; !(await holds()); await pause(20))
      if (performance.now() > end) throw new Error(`not in time: ${what}`);
  }

  const placedOf = (cluster: LocalCluster) => {
    const [node] = cluster.nodes.values();
    return node.members.directory.collections[ChangeHistory.COLLECTION];
  };

  it('nodes join, are emptied, die and come back while clients change and search', async () => {
    const cluster = await LocalCluster.make(quick);
    await cluster.start('n1', 'n2', 'n3');
    const history = new ChangeHistory(7, () => cluster.coordinator('n2', { shards: 4 }));
    await history.begin();
    const working = history.run();
    working.catch(() => {}); // reported below
    try {
      const evenly = async (counts: Record<string, number>) => {
        const all = await kept(cluster);
        return !placedOf(cluster).move && JSON.stringify(all) === JSON.stringify(counts);
      };
      await pause(200);
      await cluster.start('n4');
      await until('n4 takes its share', () => evenly({ n1: 3, n2: 3, n3: 3, n4: 3 }));
      await cluster.nodes.get('n2')!.members.drain('n1', true);
      await until('n1 is empty', () => evenly({ n1: 0, n2: 4, n3: 4, n4: 4 }));
      await cluster.nodes.get('n2')!.members.drain('n1', false);
      await until('n1 takes its share again', () => evenly({ n1: 3, n2: 3, n3: 3, n4: 3 }));
      await cluster.stop('n3');
      await until('the shards of n3 are elsewhere', () => evenly({ n1: 4, n2: 4, n4: 4 }));
      await until('n3 is forgotten', () => !cluster.nodes.get('n1')!.members.directory.nodes.n3);
      await cluster.start('n3');
      await until('n3 is back', () => evenly({ n1: 3, n2: 3, n4: 3, n3: 3 }));
      await cluster.nodes.get('n2')!.members.setReplicas(ChangeHistory.COLLECTION, 2);
      await until('two replicas', async () => Object.values(await kept(cluster)).join() === '2,2,2,2');
    } finally {
      history.stop();
      await working;
    }
    for (const name of cluster.nodes.keys()) await history.check(cluster.coordinator(name));
    assert.ok(
      history.changes > 10 && history.searches > 10,
      `${history.changes} changes, ${history.searches} searches`,
    );
    await cluster.close();
  });

  it('a wiped node copies its shards, and only when enough others answer', async () => {
    const cluster = await LocalCluster.make({ tendMs: 20 });
    await cluster.start('n1', 'n2', 'n3');
    const history = new ChangeHistory(8, () => cluster.coordinator('n1'));
    await history.begin();
    // n2 misses this change, n1 and n3 have it.
    await history.change();
    await cluster.stop('n2');
    await history.change();
    await cluster.stop('n1', 'n3');
    await cluster.wipe('n3');
    // n2 alone could give n3 only what is old.
    await cluster.start('n2');
    const starting = cluster.start('n3');
    await pause(300);
    assert.equal((await kept(cluster)).n3, 0);
    await assert.rejects(cluster.coordinator('n2').getManifest(ChangeHistory.COLLECTION), { code: 'UNAVAILABLE' });
    await cluster.start('n1');
    await starting;
    await until('n3 is whole', async () => (await kept(cluster)).n3 === 4);
    await history.check(cluster.coordinator('n3'));
    await cluster.close();
  });

  it('a flipped byte is mended from another node', async () => {
    const cluster = await LocalCluster.make({ tendMs: 20, scrubMs: 100 });
    await cluster.start('n1', 'n2', 'n3');
    const history = new ChangeHistory(9, () => cluster.coordinator('n1'));
    await history.begin();
    for (let i = 0; i < 8; i++) await history.change();
    const damaged = async () => {
      const files = await Array.fromAsync(cluster.nodes.get('n3')!.store.scrub());
      return files.filter(({ damage }) => damage);
    };
    assert.deepEqual(await damaged(), []);
    const kinds = ['vault', 'blocks', 'segments'].map((kind) => join(cluster.folder, 'n3', kind));
    const files = await Promise.all(
      kinds.map(async (folder) =>
        (await readdir(folder).catch(() => [])).slice(0, 2).map((file) => join(folder, file)),
      ),
    );
    const flipped = files.flat();
    assert.ok(flipped.length > 0);
    // The node may have replaced one already, because of another one of its shard.
    for (const file of flipped) await flip(file).catch((error) => assert.equal(error.code, 'ENOENT'));
    // A copy from another node has files of its own.
    await until('they are replaced', () => !flipped.some((file) => existsSync(file)));
    await until('nothing is damaged', async () => (await damaged()).length === 0);
    await cluster.stop('n1');
    for (const name of ['n2', 'n3']) await history.check(cluster.coordinator(name));
    await cluster.close();
  });

  it('shards of a collection that was never finished are removed', async () => {
    const cluster = await LocalCluster.make({ tendMs: 20, leftoverMs: 200 });
    await cluster.start('n1', 'n2', 'n3');
    const history = new ChangeHistory(10, () => cluster.coordinator('n1'));
    await history.begin();
    const samples = new Samples(1);
    const uid = 'ab'.repeat(16);
    for (const node of cluster.nodes.values())
      await node.store.createCollection(shardName(uid, 0), {
        id: samples.id(),
        descriptor: text('d'),
        manifest: text('m'),
      });
    await until('they are gone', async () => Object.values(await kept(cluster)).join() === '4,4,4');
    await history.check(cluster.coordinator('n2'));
    await cluster.close();
  });

  it('whoever counts by an earlier placement is refused', async () => {
    const cluster = await LocalCluster.make(quick);
    await cluster.start('n1', 'n2', 'n3', 'n4');
    const history = new ChangeHistory(11, () => cluster.coordinator('n1', { shards: 1 }));
    await history.begin();
    const before = placedOf(cluster);
    const [away] = before.shards[0];
    const [asker] = [...cluster.nodes.keys()].filter((name) => name !== away);
    await cluster.nodes.get(asker)!.members.drain(away, true);
    await until('it has moved', () => !placedOf(cluster).shards[0].includes(away) && !placedOf(cluster).move);
    const node = cluster.nodes.get(asker)!;
    await assert.rejects(node.changes.home(before), (error) => error instanceof HersError && error.code !== 'INTERNAL');
    const change = { version: 2, shards: [] };
    await assert.rejects(node.changes.append(before, 1, change), { code: 'STALE' });
    await history.change();
    await history.check(cluster.coordinator(away));
    await cluster.close();
  });
});

it('a node refuses what is in another format: the directory, entries, and the first shard', () => {
  const directory = directoryOf(NAMES, []);
  const entry = { version: 2, nonce: 'n', fence: 0, shards: [] };
  const home = { version: 3, manifest: new Uint8Array(4), shards: [] };
  const isOther = { code: 'UNSUPPORTED_VERSION', message: /^this cluster is in another format, .* from its source$/ };
  assert.deepEqual(decodeDirectory(encodeDirectory(directory)), directory);
  assert.deepEqual(decodeEntry(encodeEntry(entry)), entry);
  assert.deepEqual(decodeHome(encodeHome(home)), home);
  for (const format of ['0', '2', '3', '"1"', 'null']) {
    const other = (bytes: Uint8Array) =>
      new Uint8Array(
        Buffer.from(Buffer.from(bytes).toString('latin1').replace('"format":1', `"format":${format}`), 'latin1'),
      );
    assert.throws(() => decodeDirectory(other(encodeDirectory(directory))), isOther);
    assert.throws(() => decodeEntry(other(encodeEntry(entry))), isOther);
    if (format.length === 1) assert.throws(() => decodeHome(other(encodeHome(home))), isOther);
  }
});

async function flip(file: string): Promise<void> {
  const handle = await open(file, 'r+');
  const { size } = await handle.stat();
  const at = Math.floor(size / 2);
  const byte = Buffer.alloc(1);
  await handle.read(byte, 0, 1, at);
  byte[0] ^= 1;
  await handle.write(byte, 0, 1, at);
  await handle.close();
}
