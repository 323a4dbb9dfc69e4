import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { ReferenceKernel } from '@hers/scan';
import { Samples } from '@hers/service/samples';
import { withFolder } from '../../testing/crash.ts';
import { handleKey } from '../base/bytes.ts';
import { Disk } from '../files/disk.ts';
import { RECORD } from '../files/entry.ts';
import { packPath } from '../files/layout.ts';
import { openStore } from '../store.ts';
import { openSalvage } from './salvage.ts';
import { entriesOf } from './salvage-pack.ts';

const text = (value: string) => new TextEncoder().encode(value);

it('an old catalogue says where each record was: those in its tables, and those that came or went since', () =>
  withFolder(async (parent) => {
    const folder = join(parent, 'store');
    const samples = new Samples(41);
    const store = await openStore(folder, { kernel: async () => new ReferenceKernel(), quietMs: 60_000 });
    await store.createCollection('faces', { id: samples.id(), descriptor: text('d'), manifest: text('1') });
    const [old, fresh] = [samples.records(30), samples.records(20)];
    const again = old.slice(5, 10).map(({ handle }) => ({ handle, sealed: samples.bytes(40) }));
    const commit = async (expected: number, records: typeof old, removed: Uint8Array[] = []) =>
      store.commit('faces', {
        expected,
        manifest: text(`${expected + 1}`),
        records: [await store.stageRecords('faces', records)],
        removed,
      });
    await commit(1, old);
    await store.purge('faces'); // merges them
    await commit(
      2,
      [...fresh, ...again],
      old.slice(0, 3).map(({ handle }) => handle),
    );
    const crashed = join(parent, 'crashed');
    cpSync(folder, crashed, { recursive: true });
    await store.close();
    const expected = new Map(
      [...old.slice(3), ...fresh, ...again].map(({ handle, sealed }) => [handleKey(handle), sealed]),
    );
    for (const where of [folder, crashed]) {
      const { signal } = new AbortController();
      const salvage = await openSalvage(where, { signal });
      const [collection] = salvage.collections();
      const places = salvage.recordPlaces(collection)!;
      assert.deepEqual([...places.keys()].sort(), [...expected.keys()].sort());
      for (const [key, { pack, offset, length }] of places) {
        const file = new Disk(where).openToRead(packPath(1, pack));
        const [[{ entry }]] = await Array.fromAsync(entriesOf(file, [{ from: offset, to: offset + length }], signal));
        file.close();
        assert.equal(entry.kind, RECORD);
        assert.deepEqual(Buffer.from(entry.content.subarray(16)), Buffer.from(expected.get(key)!));
      }
      assert.equal(
        salvage.recordPlaces({ ...collection, version: 9 }),
        undefined,
        'of another version nothing is said',
      );
      await salvage.close();
    }
  }));
