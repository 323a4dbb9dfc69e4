import assert from 'node:assert/strict';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { it } from 'node:test';
import { ReferenceKernel } from '@hers/scan';
import { conformance, heldTo } from '@hers/service/conformance';
import { encodeBlock, encodeQuery, expectedResponses, Samples } from '@hers/service/samples';
import { makeFolder, withFolder } from '../testing/crash.ts';
import { hex } from './base/bytes.ts';
import { stateOf } from './stages.ts';
import { type FolderStore, openStore } from './store.ts';

const kernel = async () => new ReferenceKernel();
const text = (value: string) => new TextEncoder().encode(value);
const open = (folder: string) => openStore(folder, { kernel, quietMs: 5, shards: true });
const found = async (answer: AsyncIterable<Uint8Array>) => (await Array.fromAsync(answer)).map(hex).sort();

conformance('a folder of shards', async () => {
  const folder = await makeFolder();
  let service = await open(folder);
  return {
    service,
    keepsStages: true,
    async reopen() {
      await service.close();
      service = await open(folder);
      return service;
    },
    heldTo: async (_, partitions) => heldTo(service, partitions),
    async done() {
      await service.close();
      await rm(folder, { recursive: true });
    },
  };
});

async function made(folder: string): Promise<{ store: FolderStore; samples: Samples }> {
  const [store, samples] = [await open(folder), new Samples(5)];
  await store.createCollection('s', { id: samples.id(), descriptor: text('d'), manifest: text('m1') });
  return { store, samples };
}

it('what is staged has the hash of its content for a name, and survives a restart with the change that names it', () =>
  withFolder(async (folder) => {
    const { store, samples } = await made(folder);
    const [records, list, block] = [samples.records(20), samples.bytes(90), samples.block()];
    const stages = await Promise.all([
      store.stageRecords('s', records),
      store.stageList('s', list),
      store.stageBlock('s', [encodeBlock(block)]),
    ]);
    assert.deepEqual(
      [
        await store.stageRecords('s', records),
        await store.stageList('s', list),
        await store.stageBlock('s', [encodeBlock(block)]),
      ],
      stages,
    );
    assert.equal(new Set(stages).size, 3);
    // The version that it makes need not be the next one: a shard sees only what touches it.
    const change = {
      expected: 1,
      basis: stateOf(text('m1')),
      version: 9,
      manifest: text('m9'),
      records: [stages[0]],
      lists: [stages[1]],
      blocks: [stages[2]],
    };
    const id = await store.prepare('s', change);
    const other = await store.prepare('s', { ...change, records: [], lists: [], blocks: [], manifest: text('loser') });
    await store.purge('s');
    await store.close();
    const again = await open(folder);
    assert.deepEqual(await readdir(join(folder, 'lost+found')).catch(() => []), []);
    const staged = { change: id, version: 9, state: stateOf(change.manifest) };
    assert.equal(await again.apply('s', staged), 9);
    assert.equal(await again.apply('s', staged), 9, 'twice is the same as once');
    await assert.rejects(again.apply('s', { ...staged, change: other, version: 10 }), { code: 'NOT_FOUND' });
    const handles = records.map(({ handle }) => handle);
    assert.deepEqual(
      (await Array.fromAsync(again.getRecords('s', handles))).map(({ sealed }) => hex(sealed)),
      records.map(({ sealed }) => hex(sealed)),
    );
    const query = samples.query();
    const request = { version: 9, queries: [encodeQuery(query)] };
    assert.deepEqual(await found(again.search('s', request)), expectedResponses([block], [query]).map(hex));
    await again.close();
  }));

it('a change that could not be applied is refused before it is staged', () =>
  withFolder(async (folder) => {
    const { store, samples } = await made(folder);
    const change = { expected: 1, basis: stateOf(text('m1')), version: 2, manifest: text('m2') };
    await assert.rejects(store.prepare('s', { ...change, basis: stateOf(text('other')) }), { code: 'STALE' });
    await assert.rejects(store.prepare('s', { ...change, expected: 2 }), { code: 'STALE' });
    await assert.rejects(store.prepare('s', { ...change, lists: ['nothing'] }), { code: 'NOT_FOUND' });
    await assert.rejects(store.prepare('s', { ...change, dropped: [samples.id()] }), { code: 'NOT_FOUND' });
    assert.equal((await store.getManifest('s')).version, 1);
    await store.close();
  }));

it('a search at an earlier version is answered as of then, until a purge', () =>
  withFolder(async (folder) => {
    const { store, samples } = await made(folder);
    const blocks = Array.from({ length: 6 }, () => samples.block());
    const query = samples.query();
    const at = (version: number) => found(store.search('s', { version, queries: [encodeQuery(query)] }));
    const expected = (...wanted: number[]) =>
      expectedResponses(
        wanted.map((i) => blocks[i]),
        [query],
      )
        .map(hex)
        .sort();
    const commit = async (expectedVersion: number, version: number, added: number[], dropped: number[]) => {
      const stages = await Promise.all(added.map((i) => store.stageBlock('s', [encodeBlock(blocks[i])])));
      const ids = dropped.map((i) => blocks[i].blockId);
      const change = {
        expected: expectedVersion,
        basis: (await store.getState('s')).state,
        version,
        manifest: text(`m${version}`),
        blocks: stages,
        dropped: ids,
      };
      const state = stateOf(change.manifest);
      await store.apply('s', { change: await store.prepare('s', change), version, state });
    };
    await commit(1, 2, [0, 1], []);
    await commit(2, 5, [2, 3], [0]);
    await commit(5, 6, [4, 5], [2, 1]);
    assert.deepEqual(await at(6), expected(3, 4, 5));
    assert.deepEqual(await at(5), expected(1, 2, 3));
    assert.deepEqual(await at(4), expected(0, 1));
    assert.deepEqual(await at(2), expected(0, 1));
    assert.deepEqual(await at(1), []);
    await assert.rejects(at(7), { code: 'STALE' });
    await assert.rejects(at(0), { code: 'STALE' });
    await store.purge('s');
    assert.deepEqual(await at(6), expected(3, 4, 5));
    await assert.rejects(at(5), { code: 'STALE' });
    await store.close();
  }));

it('two changes that make the same version are told apart, and neither follows the other', () =>
  withFolder(async (folder) => {
    const { store, samples } = await made(folder);
    const basis = stateOf(text('m1'));
    const [one, other] = ['one', 'other'].map((manifest) => ({
      expected: 1,
      basis,
      version: 2,
      manifest: text(manifest),
    }));
    const names = [await store.prepare('s', one), await store.prepare('s', other)];
    const [made1, made2] = [one, other].map(({ manifest }, i) => ({
      change: names[i],
      version: 2,
      state: stateOf(manifest),
    }));
    assert.equal(await store.apply('s', made1), 2);
    assert.deepEqual(await store.getState('s'), { version: 2, state: made1.state });
    await assert.rejects(store.apply('s', made2), { code: 'STALE' });
    // What follows the other one is refused.
    const next = { expected: 2, basis: made2.state, version: 3, manifest: text('three') };
    await assert.rejects(store.prepare('s', next), { code: 'STALE' });
    // A search for the other one is not answered; one for the version before is.
    const queries = [encodeQuery(samples.query())];
    const search = (version: number, state?: string) =>
      found(store.searchShards([{ name: 's', version, ...(state ? { state } : {}) }], queries));
    assert.deepEqual(await search(2, made1.state), []);
    assert.deepEqual(await search(1, basis), []);
    assert.deepEqual(await search(1), []);
    await assert.rejects(search(2, made2.state), { code: 'STALE' });
    await assert.rejects(search(2), { code: 'STALE' });
    await store.close();
  }));

it('a folder is a gallery or holds shards, and stays what it is', () =>
  withFolder(async (folder) => {
    await (await openStore(join(folder, 'plain'), { kernel })).close();
    await assert.rejects(open(join(folder, 'plain')), { code: 'INVALID_ARGUMENT' });
    const { store } = await made(join(folder, 'shards'));
    const stage = await store.stageList('s', text('x'));
    await store.close();
    const again = await openStore(join(folder, 'shards'), { kernel });
    assert.equal(await again.commit('s', { expected: 1, manifest: text('m2'), lists: [stage] }), 2);
    await again.close();
  }));
