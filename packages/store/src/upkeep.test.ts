// A store that is written faster than its upkeep can follow: commits wait, or snapshots end.

import assert from 'node:assert/strict';
import { it, type TestContext } from 'node:test';
import { ReferenceKernel } from '@hers/scan';
import { HersError } from '@hers/service';
import { Samples } from '@hers/service/samples';
import { withFolder } from '../testing/crash.ts';
import { RecordIndex } from './catalogue/record-index.ts';
import { openStore } from './store.ts';
import { warn } from './upkeep.ts';

const kernel = async () => new ReferenceKernel();
const text = (value: string) => new TextEncoder().encode(value);

/** A store with a collection whose snapshot takes several pieces. */
async function filledStore(folder: string) {
  const samples = new Samples(4);
  const store = await openStore(folder, { kernel, quietMs: 60_000, onBackgroundError: assert.ifError });
  await store.createCollection('faces', { id: samples.id(), descriptor: text('d'), manifest: text('1') });
  let version = 1;
  const add = async (bytes: number) => {
    const records = [await store.stageRecords('faces', [samples.record(bytes)])];
    await store.commit('faces', { expected: version, manifest: text(`${++version}`), records });
  };
  for (let i = 0; i < 4; i++) await add(200_000);
  return { store, add };
}

/** Millions of records would take minutes. */
function pretendFresh(t: TestContext, count: number) {
  return t.mock.getter(RecordIndex.prototype, 'fresh', () => count).mock;
}

it('a snapshot during which too much is written ends with STALE, and the commits go on', (t) =>
  withFolder(async (folder) => {
    const { store, add } = await filledStore(folder);
    const pieces = store.snapshot('faces')[Symbol.asyncIterator]();
    await pieces.next();
    const few = pretendFresh(t, 2 ** 21);
    await add(10);
    await pieces.next();
    few.restore();
    const many = pretendFresh(t, 2 ** 21 + 1);
    await add(10);
    many.restore();
    await assert.rejects(
      async () => {
        while (!(await pieces.next()).done);
      },
      (error) => error instanceof HersError && error.code === 'STALE' && /take it again/.test(error.message),
    );
    const copy = await Array.fromAsync(store.snapshot('faces'));
    await store.restore('copy', copy);
    assert.equal((await store.getCollection('copy')).records, 6);
    await store.close();
  }));

it('a commit waits for a merge that cannot keep up', (t) =>
  withFolder(async (folder) => {
    const { store, add } = await filledStore(folder);
    const { merge } = RecordIndex.prototype;
    const merges = { begun: 0, ended: 0 };
    t.mock.method(
      RecordIndex.prototype,
      'merge',
      async function (this: RecordIndex, ...args: Parameters<typeof merge>) {
        merges.begun++;
        await merge.apply(this, args);
        merges.ended++;
      },
    );
    const due = pretendFresh(t, 2 ** 18 - 1);
    await add(10);
    assert.deepEqual(merges, { begun: 1, ended: 0 }, 'it does not wait for one that is only due');
    due.restore();
    while (merges.ended < 1) await new Promise(setImmediate);
    pretendFresh(t, 2 ** 18);
    await add(10);
    assert.deepEqual(merges, { begun: 2, ended: 2 });
    t.mock.restoreAll();
    await store.close();
  }));

it('what goes wrong in the background is a warning where nobody asks for it', async () => {
  const warned = (error: unknown) =>
    new Promise<Error & { code?: string }>((resolve) => {
      process.once('warning', resolve);
      warn(error);
    });
  const ours = await warned(new HersError('DAMAGED', 'a file is damaged'));
  assert.deepEqual([ours.name, ours.code, ours.message], ['HersWarning', 'HERS_DAMAGED', 'a file is damaged']);
  const other = await warned('a string');
  assert.deepEqual([other.code, other.message], ['HERS_ERROR', 'a string']);
});
