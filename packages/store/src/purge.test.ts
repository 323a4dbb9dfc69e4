import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { ReferenceKernel } from '@hers/scan';
import { encodeBlock, Samples } from '@hers/service/samples';
import { withFolder } from '../testing/crash.ts';
import { openStore, openWatched } from './store.ts';

const kernel = async () => new ReferenceKernel();
const listId = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());
const text = (value: string) => new TextEncoder().encode(value);

/** All files of a folder, concatenated. */
function everything(folder: string): Buffer {
  const files = readdirSync(folder, { recursive: true }).map((file) => join(folder, String(file)));
  return Buffer.concat(files.filter((file) => statSync(file).isFile()).map((file) => readFileSync(file)));
}

const count = (all: Buffer, things: readonly Uint8Array[]) =>
  things.filter((thing) => all.includes(Buffer.from(thing))).length;

it('after a purge, what was deleted or replaced is nowhere in the folder', () =>
  withFolder(async (folder) => {
    const samples = new Samples(1);
    const store = await openStore(folder, { kernel });
    const created = { id: samples.id(), descriptor: samples.bytes(40), manifest: text('manifest 1') };
    await store.createCollection('faces', created);
    const records = samples.records(3000);
    const lists = Array.from({ length: 30 }, () => samples.bytes(300));
    const blocks = Array.from({ length: 90 }, () => samples.block({ width: 2 }));
    const open = samples.block({ width: 2, first: 0, count: 3 });
    const part = samples.block({ width: 2, first: 3, count: 1 });
    const stage = (block: typeof open) => store.stageBlock('faces', [encodeBlock(block)]);
    await store.commit('faces', {
      expected: 1,
      manifest: text('manifest 2'),
      records: [await store.stageRecords('faces', records)],
      lists: await Promise.all(lists.map((list) => store.stageList('faces', list))),
      blocks: await Promise.all([...blocks, open].map(stage)),
    });
    await store.purge('faces'); // so that part of it is in segments
    const half = <T>(all: readonly T[]) => all.filter((_, i) => i % 2 === 0);
    const rest = <T>(all: readonly T[]) => all.filter((_, i) => i % 2 === 1);
    const [replaced, kept] = [rest(records).slice(0, 100), rest(records).slice(100)];
    const next = replaced.map(({ handle }) => ({ handle, sealed: samples.bytes(90) }));
    await store.commit('faces', {
      expected: 2,
      manifest: text('manifest 3'),
      records: [await store.stageRecords('faces', next)],
      removed: half(records).map(({ handle }) => handle),
      dropped: [...half(blocks), open].map(({ blockId }) => blockId),
      blocks: [await stage(part)],
      droppedLists: half(lists).map(listId),
    });

    const rowsOf = (block: typeof open) => new Uint8Array(block.rows.buffer, 0, 64);
    const gone = [
      ...half(records).flatMap(({ handle, sealed }) => [handle, sealed]),
      ...replaced.map(({ sealed }) => sealed),
      ...half(lists).flatMap((list) => [list, listId(list)]),
      ...[...half(blocks), open].flatMap((block) => [block.blockId, rowsOf(block)]),
      text('manifest 1'),
      text('manifest 2'),
    ];
    const here = [
      ...[...kept, ...next].flatMap(({ handle, sealed }) => [handle, sealed]),
      ...rest(lists).flatMap((list) => [list, listId(list)]),
      ...rest(blocks).map(({ blockId }) => blockId),
      part.blockId,
      text('manifest 3'),
    ];
    assert.ok(count(everything(folder), gone) > 3000, 'before the purge it is all there, else this shows nothing');
    await store.purge('faces');
    const purged = everything(folder);
    assert.equal(count(purged, gone), 0);
    assert.equal(count(purged, here), here.length);
    const found = await Array.fromAsync(
      store.getRecords(
        'faces',
        [...kept, ...next].map(({ handle }) => handle),
      ),
    );
    assert.equal(found.length, 1500);

    // Also if only the manifest was replaced.
    await store.commit('faces', { expected: 3, manifest: text('manifest 4') });
    await store.purge('faces');
    assert.equal(count(everything(folder), [text('manifest 3')]), 0);

    // The same for a collection as a whole.
    await store.createCollection('empty', { ...created, manifest: text('stays') });
    await store.deleteCollection('faces');
    assert.equal(count(everything(folder), [...here, ...gone]), 0);
    await store.close();
    assert.equal(count(everything(folder), [...here, ...gone]), 0);
  }));

it('what was staged when a purge began and is committed while it runs stays', () =>
  withFolder(async (folder) => {
    const samples = new Samples(2);
    let committing: Promise<number> | undefined;
    let stage = '';
    const after = ({ kind, path }: { kind: string; path: string }) => {
      // The first pack is being copied; the second is next.
      if (kind === 'create' && path === 'vault/1-3.pack')
        committing = store.commit('faces', { expected: 4, manifest: text('5'), records: [stage] });
    };
    const store = await openWatched(folder, { kernel }, { after });
    await store.createCollection('faces', { id: samples.id(), descriptor: text('d'), manifest: text('1') });
    const [first, second, third] = [samples.records(400), samples.records(400), samples.records(20)];
    const add = async (expected: number, records: typeof first) =>
      store.commit('faces', {
        expected,
        manifest: text(`${expected + 1}`),
        records: [await store.stageRecords('faces', records)],
      });
    await add(1, first);
    await store.purge('faces'); // later entries go to a second pack
    await add(2, second);
    const removed = [...first.slice(0, 200), ...second.slice(0, 200)].map(({ handle }) => handle);
    await store.commit('faces', { expected: 3, manifest: text('4'), removed });
    stage = await store.stageRecords('faces', third);
    await store.purge('faces');
    assert.equal(await committing, 5);
    const kept = [...first.slice(200), ...second.slice(200), ...third];
    const found = await Array.fromAsync(
      store.getRecords(
        'faces',
        kept.map(({ handle }) => handle),
      ),
    );
    assert.equal(found.length, kept.length);
    await store.purge('faces');
    await store.close();
  }));

it('room of records that were removed is freed without a purge, and nothing is lost that is staged', () =>
  withFolder(async (folder) => {
    const samples = new Samples(3);
    const store = await openStore(folder, { kernel, shards: true });
    await store.createCollection('inbox', { id: samples.id(), descriptor: text('d'), manifest: text('1') });
    const vault = () =>
      readdirSync(join(folder, 'vault')).reduce((sum, file) => sum + statSync(join(folder, 'vault', file)).size, 0);
    let version = 1;
    let last: ReturnType<Samples['records']> = [];
    const turn = async () => {
      const next = Array.from({ length: 20 }, () => samples.record(2000));
      const stage = await store.stageRecords('inbox', next);
      const removed = last.map(({ handle }) => handle);
      await store.commit('inbox', { expected: version, manifest: text(`${++version}`), records: [stage], removed });
      last = next;
    };
    for (let i = 0; i < 10; i++) await turn();
    const staged = samples.records(5);
    const stage = await store.stageRecords('inbox', staged);
    const before = vault();
    // Not worth it.
    await store.reclaim('inbox', () => 40_000);
    await store.reclaim('inbox', () => before, 0);
    assert.equal(vault(), before);
    // Others go on meanwhile.
    await Promise.all([store.reclaim('inbox', () => 40_000, 0), turn(), turn()]);
    assert.ok(vault() < 200_000 && before > 400_000, `${before} bytes, and then ${vault()}`);
    await store.commit('inbox', { expected: version, manifest: text('end'), records: [stage] });
    const handles = [...last, ...staged].map(({ handle }) => handle);
    const expected = [...last, ...staged].map(({ sealed }) => sealed);
    const found = async () => (await Array.fromAsync(store.getRecords('inbox', handles))).map(({ sealed }) => sealed);
    assert.deepEqual((await found()).map(String), expected.map(String));
    await store.close();
    const again = await openStore(folder, { kernel, shards: true });
    assert.equal((await Array.fromAsync(again.getRecords('inbox', handles))).length, 25);
    for await (const { damage } of again.scrub()) assert.equal(damage, undefined);
    await again.close();
  }));
