// How much is read at once: as much as a budget allows, whatever is requested.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { HersError } from '@hers/service';
import { Samples } from '@hers/service/samples';
import { handleKey } from './base/bytes.ts';
import type { Collection } from './collection.ts';
import { type Place, RECORD } from './files/entry.ts';
import { readLists, readRecords } from './reading.ts';

const MIB = 2 ** 20;
const never = new AbortController().signal;

/** A collection of records of given lengths, and a list of what was read of it at once. */
function collectionOf(handles: readonly Uint8Array[], bytes: (index: number) => number) {
  const places = new Map(handles.map((handle, i) => [handleKey(handle), { pack: 1, offset: i, length: bytes(i) }]));
  const reads: Place[][] = [];
  const reader = {
    // Only the handle matters here, so the content may be shorter than the stated length.
    read: async (wanted: readonly Place[]) => {
      reads.push([...wanted]);
      return wanted.map(({ offset }) => ({ kind: RECORD, content: handles[offset] }));
    },
    [Symbol.dispose]() {},
  };
  const collection = {
    records: { find: (handle: Uint8Array) => places.get(handleKey(handle)) },
    tables: { listPlace: () => undefined },
    folder: { refresh: () => false },
    vault: { reader: () => reader, path: (pack: number) => `vault/1-${pack}.pack` },
  };
  return { collection: collection as unknown as Collection, reads };
}

it('records are read by their bytes: many small ones at once, large ones one by one', async () => {
  const samples = new Samples(1);
  const handles = Array.from({ length: 3000 }, () => samples.id());
  for (const bytes of [40, 3000, MIB / 4, MIB, 128 * MIB]) {
    const { collection, reads } = collectionOf(handles, () => bytes);
    const found = await Array.fromAsync(readRecords(collection, handles, never));
    assert.deepEqual(
      found.map(({ handle }) => handleKey(handle)),
      handles.map(handleKey),
    );
    for (const places of reads) {
      const sum = places.reduce((all, { length }) => all + length, 0);
      assert.ok(places.length <= 512 && (places.length === 1 || sum <= MIB / 2), `${places.length} of ${bytes} bytes`);
    }
    assert.equal(reads.length, Math.ceil(handles.length / Math.min(512, Math.max(1, Math.floor(MIB / 2 / bytes)))));
  }
});

it('a long record among short ones is read alone', async () => {
  const samples = new Samples(2);
  const handles = Array.from({ length: 9 }, () => samples.id());
  const { collection, reads } = collectionOf(handles, (i) => (i === 4 ? 100 * MIB : 100));
  assert.equal((await Array.fromAsync(readRecords(collection, handles, never))).length, 9);
  assert.deepEqual(
    reads.map((places) => places.length),
    [4, 1, 4],
  );
});

it('nothing is read where a record or list is asked for twice', async () => {
  const samples = new Samples(3);
  const handles = Array.from({ length: 600 }, () => samples.id());
  const { collection, reads } = collectionOf(handles, () => 100);
  const refused = (error: unknown) => error instanceof HersError && error.code === 'INVALID_ARGUMENT';
  await assert.rejects(Array.fromAsync(readRecords(collection, [...handles, handles[0]], never)), refused);
  const id = samples.bytes(32);
  await assert.rejects(Array.fromAsync(readLists(collection, [id, id], never)), refused);
  assert.deepEqual(reads, []);
});

it('a record that is another than the catalogue says is damage of its pack', async () => {
  const samples = new Samples(4);
  const [one, other] = [samples.id(), samples.id()];
  const { collection } = collectionOf([one, other], () => 100);
  const confused = { ...collection, records: { find: () => ({ pack: 7, offset: 1, length: 100 }) } };
  await assert.rejects(
    Array.fromAsync(readRecords(confused as unknown as Collection, [one], never)),
    (error) => error instanceof HersError && error.code === 'DAMAGED' && /vault\/1-7\.pack/.test(error.message),
  );
});
