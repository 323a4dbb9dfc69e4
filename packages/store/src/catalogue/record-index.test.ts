import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Samples } from '@hers/service/samples';
import { withFolder } from '../../testing/crash.ts';
import { hex } from '../base/bytes.ts';
import { Disk } from '../files/disk.ts';
import { DELETED, encodePlace, type Place } from '../files/entry.ts';
import { WritableCatalogue } from './catalogue-writer.ts';
import { RecordIndex, slicesOf } from './record-index.ts';
import { Tables } from './tables.ts';

const pause = () => new Promise<void>(setImmediate);

function open(folder: string) {
  const catalogue = new WritableCatalogue(new Disk(folder), false);
  const tables = new Tables(catalogue, 1);
  return { catalogue, tables, index: new RecordIndex(catalogue, tables) };
}

/** Applies the changes one after the other, in one batch. */
function write(
  { catalogue, index }: ReturnType<typeof open>,
  changes: readonly { handle: Uint8Array; place: Place }[],
) {
  const rows = Buffer.concat(changes.map(({ handle, place }) => Buffer.concat([handle, encodePlace(place)])));
  const fresh = catalogue.transaction(() => index.write(rows));
  for (const { batch, entries } of fresh) index.take(batch, entries);
}

it('agrees with a map, whenever merges and restarts come in between', () =>
  withFolder(async (folder) => {
    const samples = new Samples(1);
    const handles = Array.from({ length: 3000 }, () => samples.id());
    const model = new Map<string, Place>();
    let opened = open(folder);
    opened.catalogue.transaction(() => opened.tables.create(1, new Uint8Array(1)));
    let merges = 0;
    for (let round = 0; round < 60; round++) {
      const changes = Array.from({ length: samples.below(400) }, (_, i) => {
        const handle = handles[samples.below(handles.length)];
        const there = { pack: 1 + samples.below(3), offset: 1000 * round + i, length: 1 + samples.below(99) };
        const place = samples.below(4) === 0 ? DELETED : there;
        if (place === DELETED) model.delete(hex(handle));
        else model.set(hex(handle), place);
        return { handle, place };
      });
      write(opened, changes);
      if (round % 7 === 3) {
        // Changes that arrive during a merge.
        const merging = opened.index.merge(pause);
        const handle = handles[samples.below(handles.length)];
        const place = { pack: 2, offset: round, length: 5 };
        write(opened, [{ handle, place }]);
        model.set(hex(handle), place);
        await merging;
        merges++;
      }
      if (round % 11 === 5) {
        opened.catalogue.close();
        opened = open(folder);
      }
      assert.equal(opened.index.count(), model.size);
      const found = opened.index.findMany(handles);
      for (const [i, handle] of handles.entries()) assert.deepEqual(found[i], model.get(hex(handle)));
      assert.deepEqual(opened.index.find(handles[0]), model.get(hex(handles[0])));
    }
    while (opened.index.fresh > 0) await opened.index.merge(pause);
    assert.equal(opened.index.count(), model.size);
    const live = new Map<number, number>();
    for (const { pack, length } of model.values()) live.set(pack, (live.get(pack) ?? 0) + length);
    for (const { pack, live: counted } of opened.tables.packs()) assert.equal(counted, live.get(pack) ?? 0);
    assert.ok(merges > 5);
    opened.catalogue.close();
  }));

it('a merge that stops anywhere is taken up again', () =>
  withFolder(async (folder) => {
    const samples = new Samples(2);
    const changes = Array.from({ length: 20_000 }, (_, offset) => ({
      handle: samples.id(),
      place: { pack: 1, offset, length: 10 },
    }));
    let opened = open(folder);
    opened.catalogue.transaction(() => opened.tables.create(1, new Uint8Array(1)));
    write(opened, changes);
    let pauses = 0;
    const stopping = async () => {
      if (++pauses === 2) throw new Error('stop');
    };
    await assert.rejects(opened.index.merge(stopping), /stop/);
    const check = () => {
      assert.equal(opened.index.count(), changes.length);
      const found = opened.index.findMany(changes.map(({ handle }) => handle));
      assert.deepEqual(
        found,
        changes.map(({ place }) => place),
      );
    };
    check();
    write(
      opened,
      changes.slice(0, 5).map(({ handle }) => ({ handle, place: DELETED })),
    );
    opened.catalogue.close();
    opened = open(folder);
    changes.splice(0, 5);
    check();
    await opened.index.merge(pause);
    check();
    assert.deepEqual({ ...opened.tables.packs()[0] }, { pack: 1, ends: 20_009, live: 10 * changes.length });
    opened.catalogue.close();
  }));

it('slices hold the last change of every handle once, in order, whatever the handles are', () => {
  const samples = new Samples(3);
  // Those that begin alike are a client's choice.
  const alike = (bytes: number) => {
    const handle = samples.id();
    handle.fill(7, 0, bytes);
    return handle;
  };
  for (const [handles, sizes] of [
    [Array.from({ length: 9000 }, () => samples.id()), [5000, 0, 1, 20_000]],
    [Array.from({ length: 3000 }, () => alike(4)), [9000]],
    [Array.from({ length: 3000 }, () => alike(15)), [1, 9000, 0]],
    [[samples.id()], [1, 1, 3]],
    [[], [0, 0]],
    [[], []],
  ] as const) {
    const last = new Map<string, string>();
    let number = 0;
    const batches = sizes.map((size) =>
      Buffer.concat(
        Array.from({ length: size }, () => {
          const handle = handles[samples.below(handles.length)];
          const place = encodePlace(samples.below(5) === 0 ? DELETED : { pack: 1, offset: number++, length: 3 });
          last.set(hex(handle), hex(place));
          return Buffer.concat([handle, place]);
        }),
      ),
    );
    const slices = [...slicesOf(batches)].map(hex);
    const rows = slices.flatMap((slice) => slice.match(/.{56}/g) ?? []);
    assert.deepEqual(new Map(rows.map((row) => [row.slice(0, 32), row.slice(32)])), last);
    assert.equal(rows.length, last.size);
    assert.ok(slices.every((slice) => slice.length > 0 && slice.length <= 56 * 2 ** 13));
    const heads = rows.map((row) => row.slice(0, 8));
    assert.deepEqual(heads, heads.toSorted());
  }
});
