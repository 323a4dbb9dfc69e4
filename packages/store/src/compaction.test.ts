import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { ReferenceKernel } from '@hers/scan';
import type { Block } from '@hers/scheme';
import { encodeBlock, encodeQuery, expectedResponses, Samples } from '@hers/service/samples';
import { withFolder } from '../testing/crash.ts';
import { hex } from './base/bytes.ts';
import type { StoredBlock } from './blocks/source.ts';
import { planCompaction } from './compaction.ts';
import { type FolderStore, openStore } from './store.ts';

const kernel = async () => new ReferenceKernel();

interface Filled {
  readonly store: FolderStore;
  readonly blocks: Map<string, Block>;
  commit(added: readonly Block[], dropped?: readonly Block[]): Promise<void>;
}

async function withStore(quietMs: number, work: (filled: Filled, folder: string) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const store = await openStore(folder, { kernel, quietMs });
    const samples = new Samples(1);
    const created = { id: samples.id(), descriptor: samples.bytes(9), manifest: samples.bytes(9) };
    await store.createCollection('faces', created);
    const blocks = new Map<string, Block>();
    let version = 1;
    const commit = async (added: readonly Block[], dropped: readonly Block[] = []) => {
      const stages = await Promise.all(added.map((block) => store.stageBlock('faces', [encodeBlock(block)])));
      const ids = dropped.map(({ blockId }) => blockId);
      version = await store.commit('faces', {
        expected: version,
        manifest: samples.bytes(20),
        blocks: stages,
        dropped: ids,
      });
      for (const id of ids) blocks.delete(hex(id));
      for (const block of added) blocks.set(hex(block.blockId), block);
    };
    try {
      await work({ store, blocks, commit }, folder);
      const query = samples.query({ width: 2 });
      const responses = await Array.fromAsync(store.search('faces', { version, queries: [encodeQuery(query)] }));
      assert.deepEqual(responses.map(hex).sort(), expectedResponses(blocks.values(), [query]).map(hex).sort());
    } finally {
      await store.close();
    }
  });
}

const make = (samples: Samples, count: number, shape = {}) =>
  Array.from({ length: count }, () => samples.block({ width: 2, ...shape }));

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; !condition(); i++) {
    if (i === 2000) throw new Error('this never came');
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

const files = (folder: string) => [
  readdirSync(join(folder, 'blocks')).length,
  readdirSync(join(folder, 'segments')).length,
];

it('a segment is built as soon as one can be filled; the rest when it is quiet', () =>
  withStore(200, async ({ commit }, folder) => {
    const samples = new Samples(2);
    await commit(make(samples, 63));
    assert.deepEqual(files(folder), [63, 0]);
    await commit(make(samples, 3));
    await until(() => String(files(folder)) === '2,1');
    await commit(make(samples, 20));
    await until(() => String(files(folder)) === '0,2');
    // Merged with the segment that is not full.
    await commit(make(samples, 16));
    await until(() => String(files(folder)) === '0,2');
    await commit(make(samples, 15));
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.deepEqual(files(folder), [15, 2]);
  }));

it('blocks that are not full wait, unless there are many', () =>
  withStore(1, async ({ commit, store }, folder) => {
    const samples = new Samples(3);
    await commit([...make(samples, 20), ...make(samples, 15, { count: 9 })]);
    await until(() => String(files(folder)) === '15,1');
    await store.purge('faces');
    assert.deepEqual(files(folder), [15, 1]);
    await commit(make(samples, 1, { count: 9 }));
    await until(() => String(files(folder)) === '0,1');
  }));

it('segments of different keys and plans never mix', () =>
  withStore(1, async ({ commit, store, blocks }, folder) => {
    const samples = new Samples(4);
    const other = { set: 'insecure_n_64_logq_30_30_wide_4', keyId: new Uint8Array(16).fill(9) };
    const wide = { width: 5, keyId: new Uint8Array(16).fill(8) };
    await commit([...make(samples, 20), ...make(samples, 20, other), ...make(samples, 20, wide)]);
    await until(() => String(files(folder)) === '0,3');
    await commit([], [...blocks.values()].slice(0, 20));
    await until(() => String(files(folder)) === '0,2');
    await store.purge('faces');
    assert.deepEqual(files(folder), [0, 2]);
  }));

it('blocks are read exactly while they move from segment to segment', () =>
  withStore(1, async ({ commit, store, blocks }) => {
    const samples = new Samples(5);
    await commit(make(samples, 40));
    let moving = true;
    const read = async (id: string, block: Block) => {
      while (moving && blocks.has(id)) {
        const encoded = Buffer.concat(await Array.fromAsync(store.getBlock('faces', block.blockId)));
        assert.equal(hex(encoded), hex(encodeBlock(block)));
      }
    };
    const readers = [...blocks].slice(-6).map(([id, block]) => read(id, block));
    for (let i = 0; i < 12; i++) {
      await commit([], [...blocks.values()].slice(0, 1));
      await store.purge('faces');
    }
    moving = false;
    await Promise.all(readers);
  }));

it('the plan takes what is due, and nothing else', () => {
  const source = (inSegment: boolean, total = 1) => ({ inSegment, total, live: new Set<StoredBlock>() });
  const block = (from: ReturnType<typeof source>, rest: Partial<StoredBlock> = {}) => {
    const made = { kind: 'k', parametersId: 0xff01, width: 2, first: 0, count: 64, bytes: 1000, source: from, ...rest };
    from.live.add(made as unknown as StoredBlock);
    return made as unknown as StoredBlock;
  };
  const loose = (count: number, rest = {}) => Array.from({ length: count }, () => block(source(false), rest));
  const inOne = (live: number, total = live) => {
    const from = source(true, total);
    return Array.from({ length: live }, () => block(from));
  };
  const sizes = (blocks: StoredBlock[], mode: Parameters<typeof planCompaction>[1]) =>
    planCompaction(blocks, mode).map(({ length }) => length);

  assert.deepEqual(sizes(loose(63), 'busy'), []);
  assert.deepEqual(sizes(loose(130), 'busy'), [64, 64]);
  assert.deepEqual(sizes([...inOne(10), ...loose(15)], 'quiet'), []);
  assert.deepEqual(sizes([...inOne(10), ...inOne(50), ...loose(16)], 'quiet'), [64, 2]);
  assert.deepEqual(sizes(loose(3, { bytes: 2 ** 26 }), 'busy'), [3]);
  assert.deepEqual(sizes([...inOne(64), ...inOne(30)], 'purge'), []);
  assert.deepEqual(sizes([...inOne(63, 64), ...inOne(64)], 'purge'), [63]);
  assert.deepEqual(sizes([...inOne(30), ...inOne(20), ...loose(1)], 'purge'), [51]);
  assert.deepEqual(sizes(loose(1), 'purge'), []);

  // Blocks of one partition have segments of their own, and those of small ones stay loose until
  // all together take much memory.
  const partitions = new Set(['01', '02', '03'].map((byte) => byte.repeat(8)));
  const of = (byte: string, count: number, rest = {}) => loose(count, { name: byte.repeat(16), ...rest });
  const split = (blocks: StoredBlock[], mode: Parameters<typeof planCompaction>[1]) =>
    planCompaction(blocks, mode, partitions).map((group) => `${group.length} of ${group[0].name.slice(0, 2)}`);
  assert.deepEqual(split([...of('01', 70), ...of('02', 60), ...of('04', 40), ...of('05', 40)], 'busy'), [
    '64 of 01',
    '64 of 04',
  ]);
  const large = { bytes: 2 ** 25 };
  assert.deepEqual(split([...of('01', 1, large), ...of('02', 2, large)], 'busy'), []);
  assert.deepEqual(split([...of('01', 1, large), ...of('02', 3, large)], 'busy'), ['1 of 01', '3 of 02']);
  // A segment of several partitions is taken apart.
  const both = source(true, 5);
  const mixed = ['01', '01', '02', '02', '03'].map((byte) => block(both, { name: byte.repeat(16) }));
  assert.deepEqual(split(mixed, 'quiet'), []);
  assert.deepEqual(split(mixed, 'purge'), ['2 of 01', '2 of 02', '1 of 03']);
});
