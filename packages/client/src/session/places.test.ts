// Which slot an id is in: the table against a Map, over views that share it.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { List } from '../formats/lists.ts';
import { hashOf, Places } from './view.ts';

const VERSION = '00'.repeat(16);
const listOf = (ids: readonly string[]) => List.of(ids.map((id) => ({ id, version: VERSION })));
const everywhere = () => true;

describe('a list', () => {
  const version = fc.uint8Array({ minLength: 16, maxLength: 16 }).map((bytes) => Buffer.from(bytes).toString('hex'));

  it('has the entries that it was made of', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string({ minLength: 1 }), version), { maxLength: 20 }), (rows) => {
        const entries = rows
          .filter(([id]) => id.isWellFormed())
          .map(([id, each], i, all) => ({ id, version: each, order: all.length - 1 - i }));
        const list = List.of(entries);
        assert.deepEqual([...list], entries);
        const slots = [...list.inOrder()];
        assert.deepEqual(
          slots,
          slots.toSorted((a, b) => b - a),
        );
      }),
    );
  });
});

describe('places', () => {
  it('are those of a Map, whatever is added, replaced and deleted', () => {
    const step = fc.record({
      ids: fc.uniqueArray(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 200 }),
      deleted: fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 20 }),
    });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
        const places = new Places();
        const blocks: { id: string; ids: string[] }[] = [];
        const oracle = new Map<string, string>();
        for (const [number, { ids, deleted }] of steps.entries()) {
          for (const each of deleted) oracle.delete(`id ${each}`);
          const texts = ids.map((each) => `id ${each}`);
          blocks.push({ id: `block ${number}`, ids: texts });
          texts.forEach((id, i) => {
            oracle.set(id, `${number} ${i}`);
          });
          const lists = new Map(blocks.map((block) => [block.id, listOf(block.ids)]));
          assert.ok(places.extend(blocks, (id) => lists.get(id)!));
          for (let each = 0; each <= 400; each++) {
            const id = `id ${each}`;
            const found = places.find(id, (block, slot) => oracle.get(id) === `${block} ${slot}`);
            assert.equal(found && `${found.number} ${found.slot}`, oracle.get(id));
          }
        }
      }),
      { numRuns: 30 },
    );
  });

  it('are made again where other blocks have taken their numbers', () => {
    const lists = new Map(['a', 'b', 'c'].map((id) => [id, listOf([id])]));
    const extend = (places: Places, ids: string) =>
      places.extend(
        [...ids].map((id) => ({ id })),
        (id) => lists.get(id)!,
      );
    const places = new Places();
    assert.ok(extend(places, 'ab'));
    assert.ok(extend(places, 'a'), 'an older view');
    assert.ok(extend(places, 'ab'), 'twice');
    assert.ok(!extend(places, 'ac'));
    assert.ok(!extend(places, 'b'));
    assert.deepEqual(places.find('b', everywhere), { number: 1, slot: 0 });
    assert.equal(places.find('c', everywhere), undefined);
  });

  it('of ids that no record can have are none', () => {
    const places = new Places();
    // Half a surrogate pair is encoded as U+FFFD.
    places.extend([{ id: 'a' }], () => listOf(['x', '\ufffd']));
    for (const id of ['', 'y', 'x'.repeat(5000), '\ud800']) assert.equal(places.find(id, everywhere), undefined);
    assert.deepEqual(places.find('\ufffd', everywhere), { number: 0, slot: 1 });
  });

  it('take less than 50 bytes a record with their lists, and no record is lost among 200 000', () => {
    const places = new Places();
    const blocks = Array.from({ length: 100 }, (_, i) => ({ id: `${i}` }));
    const lists = new Map(
      blocks.map(({ id }) => [
        id,
        listOf(Array.from({ length: 2000 }, (_, j) => `${2000 * Number(id) + j}`.padStart(12, 'p'))),
      ]),
    );
    places.extend(blocks, (id) => lists.get(id)!);
    for (let i = 0; i < 200_000; i += 7)
      assert.deepEqual(places.find(`${i}`.padStart(12, 'p'), everywhere), {
        number: Math.floor(i / 2000),
        slot: i % 2000,
      });
    const bytes = [...lists.values()].reduce((sum, list) => sum + list.bytes, places.bytes);
    assert.ok(bytes / 200_000 < 50, `${bytes / 200_000}`);
  });

  it('are spread by a hash that depends on its key, the length and every byte', () => {
    const seen = new Set<number>();
    const bytes = new Uint8Array(16);
    for (let length = 0; length <= 16; length++) seen.add(hashOf(bytes, 0, length, 1, 2));
    for (let at = 0; at < 16; at++) {
      const other = bytes.slice();
      other[at] = 1;
      seen.add(hashOf(other, 0, 16, 1, 2));
    }
    for (let key = 3; key < 20; key++) seen.add(hashOf(bytes, 0, 16, 1, key));
    assert.equal(seen.size, 17 + 16 + 17);
  });
});
