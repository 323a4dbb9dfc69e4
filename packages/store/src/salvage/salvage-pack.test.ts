// A pack with any damage: every entry outside the damage is found, and nothing else.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { damaged, storageError } from '../base/storage-errors.ts';
import { Disk, type DiskReader } from '../files/disk.ts';
import { entryBytes, LIST, packHeader, RECORD, writeEntry } from '../files/entry.ts';
import { type ByteRange, entriesOf, type FoundEntry, PackSalvage, readThrough } from './salvage-pack.ts';

let folder = '';
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'hers-salvage-'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

const never = new AbortController().signal;
const HEADER = Buffer.from(packHeader(new Uint8Array(16).fill(9)));

function packOf(contents: readonly Uint8Array[]): { bytes: Buffer; starts: number[] } {
  const parts = [HEADER];
  const starts: number[] = [];
  let at = HEADER.length;
  for (const content of contents) {
    const entry = Buffer.alloc(entryBytes(content.length));
    writeEntry(entry, 0, content.length % 3 === 0 && content.length > 16 ? LIST : RECORD, content);
    starts.push(at);
    at += entry.length;
    parts.push(entry);
  }
  return { bytes: Buffer.concat(parts), starts };
}

async function salvage(bytes: Uint8Array, signal = never) {
  writeFileSync(join(folder, '1-1.pack'), bytes);
  const file = new Disk(folder).openToRead('1-1.pack');
  try {
    const reading = new PackSalvage(file, signal);
    const found = (await Array.fromAsync(reading.entries())).flat().map(copied);
    const again = (await Array.fromAsync(entriesOf(file, reading.runs, signal))).flat().map(copied);
    assert.deepEqual(again, found);
    return { found, damage: reading.damage };
  } finally {
    file.close();
  }
}

const copied = ({ entry, offset, length }: FoundEntry) => ({
  offset,
  length,
  kind: entry.kind,
  content: Buffer.from(entry.content).toString('hex'),
});

/** The obvious version: an entry is intact if none of its bytes are in the damage. */
const untouched = (starts: readonly number[], contents: readonly Uint8Array[], { from, to }: ByteRange) =>
  starts.filter((start, i) => start + entryBytes(contents[i].length) <= from || start >= to);

const contents = fc.array(fc.uint8Array({ minLength: 16, maxLength: 300 }), { minLength: 1, maxLength: 40 });

describe('salvaging a pack', () => {
  it('finds all entries of a whole one', async () => {
    const all = [...Array(500).keys()].map((i) => new Uint8Array(16 + (i % 77)).fill(i));
    const { bytes, starts } = packOf(all);
    const { found, damage } = await salvage(bytes);
    assert.deepEqual(
      found.map(({ offset }) => offset),
      starts,
    );
    assert.deepEqual(damage, []);
  });

  it('finds every entry that damage did not touch, and says where that is', async () => {
    const spoil = fc.constantFrom<(bytes: Buffer, range: ByteRange) => void>(
      (bytes, { from, to }) => bytes.fill(0, from, to),
      (bytes, { from, to }) => bytes.fill(0xa5, from, to),
      (bytes, { from, to }) => bytes.fill(Buffer.from([200, 0, 0, 0, 1, 0, 0, 0]), from, to),
    );
    const places = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.integer({ min: 1, max: 700 }));
    await fc.assert(
      fc.asyncProperty(contents, places, spoil, async (all, [share, length], damageIt) => {
        const { bytes, starts } = packOf(all);
        const from = Math.floor(share * (bytes.length - 1));
        const range = { from, to: Math.min(bytes.length, from + length) };
        const before = Buffer.from(bytes);
        damageIt(bytes, range);
        if (bytes.equals(before)) return;
        const { found, damage } = await salvage(bytes);
        const expected = untouched(starts, all, range);
        const offsets = found.map(({ offset }) => offset);
        for (const start of expected) assert.ok(offsets.includes(start), `${start}`);
        // Bytes that were overwritten with themselves are intact.
        for (const offset of offsets) assert.ok(starts.includes(offset));
        for (const { from: first, to } of damage) assert.ok(first < range.to && to > range.from);
      }),
      { numRuns: 150 },
    );
  });

  it('goes on behind a length that was damaged into a plausible one', async () => {
    const all = [...Array(40).keys()].map((i) => new Uint8Array(100).fill(i));
    const { bytes, starts } = packOf(all);
    // The next entry but one begins where this one claims to end.
    bytes.writeUInt32LE(100 + 116, starts[5]);
    const { found } = await salvage(bytes);
    assert.deepEqual(
      found.map(({ offset }) => offset),
      starts.filter((_, i) => i !== 5),
    );
  });

  it('ends in bounded time where everything looks like a beginning, and before that when it is stopped', async () => {
    const bytes = Buffer.alloc(2 ** 25);
    for (let at = 0; at < bytes.length; at += 8) {
      bytes.writeUInt32LE(2 ** 22, at);
      bytes.writeUInt32LE(RECORD, at + 4);
    }
    const { found, damage } = await salvage(bytes);
    assert.deepEqual(found, []);
    assert.deepEqual(damage, [{ from: 0, to: bytes.length }]);
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 20);
    await assert.rejects(salvage(bytes, stop.signal), { name: 'AbortError' });
  });
});

describe('a disk that cannot read some sectors', () => {
  const bytes = Buffer.from(Array.from({ length: 3 * 4096 + 100 }, (_, i) => 1 + (i % 255)));
  const reader = (fails: (from: number, to: number) => Error | undefined) =>
    ({
      read: async (at: number, length: number) => {
        const error = fails(at, at + length);
        if (error) throw error;
        return bytes.subarray(at, at + length);
      },
    }) as DiskReader;
  const failing = storageError(Object.assign(new Error('EIO'), { code: 'EIO' }), '1-1.pack') as Error;

  it('costs zeros in their place, and no more than a few KiB around', async () => {
    const bad = 5000;
    const file = reader((from, to) => (from <= bad && bad < to ? failing : undefined));
    const read = await readThrough(file, 10, bytes.length - 10);
    assert.equal(read.length, bytes.length - 10);
    const wrong = [...read.keys()].filter((i) => read[i] !== bytes[i + 10]);
    assert.ok(wrong.length > 0 && wrong.length <= 4096, `${wrong.length} bytes are lost`);
    assert.ok(wrong.every((i) => read[i] === 0) && wrong.includes(bad - 10));
    assert.equal(wrong.at(-1)! - wrong[0] + 1, wrong.length);
  });

  it('is told from a file that is gone', async () => {
    const file = reader(() => damaged('1-1.pack', 'it is missing'));
    await assert.rejects(readThrough(file, 0, 10), { code: 'DAMAGED' });
  });
});
