// Forged snapshots: they are refused as soon as they show it, memory does not depend on what they
// announce, and nothing of them stays.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ReferenceKernel } from '@hers/scan';
import { type ErrorCode, encodeBlock, HersError } from '@hers/scheme';
import { frame, type Many } from '@hers/service';
import { Samples } from '@hers/service/samples';
import { withFolder } from '../testing/crash.ts';
import type { Step } from './files/disk.ts';
import { type FolderStore, openWatched } from './store.ts';

const MIB = 2 ** 20;
const RECORD = 1;
const LIST = 2;
const PIECE = 3;
const LAST_PIECE = 4;
const END = 5;

let store: FolderStore;
let folder = '';
let finished = () => {};
/** How often entries were written to the end. */
let synced = 0;

before(async () => {
  const ready = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  finished = end.resolve;
  withFolder(async (made) => {
    folder = made;
    const watcher = {
      after: ({ kind, path }: Step) => void (kind === 'sync' && path.startsWith('vault/') && synced++),
    };
    store = await openWatched(folder, { kernel: async () => new ReferenceKernel() }, watcher);
    ready.resolve();
    await end.promise;
    await store.close();
  }).catch(ready.reject);
  await ready.promise;
});
after(() => finished());

interface Announced {
  readonly format?: number;
  readonly version?: bigint;
  readonly records?: bigint;
  readonly lists?: number;
  readonly blocks?: number;
  readonly descriptorBytes?: number;
  readonly zero?: number;
  readonly rest?: Uint8Array;
}

function headerOf(announced: Announced = {}): Uint8Array {
  const {
    format = 1,
    version = 1n,
    records = 0n,
    lists = 0,
    blocks = 0,
    descriptorBytes = 0,
    zero = 0,
    rest,
  } = announced;
  const fields = Buffer.alloc(64);
  fields.write('HERSSNAP', 0, 'latin1');
  fields.writeUInt32LE(format, 8);
  fields.fill(7, 16, 32);
  fields.writeBigUInt64LE(version, 32);
  fields.writeBigUInt64LE(records, 40);
  fields.writeUInt32LE(lists, 48);
  fields.writeUInt32LE(blocks, 52);
  fields.writeUInt32LE(descriptorBytes, 56);
  fields.writeUInt32LE(zero, 60);
  return rest ? Buffer.concat([fields, rest]) : fields;
}

const part = (kind: number, ...content: readonly Uint8Array[]) =>
  frame(Buffer.concat([Uint8Array.of(kind), ...content]));

/** Complete, with the right hash at its end. */
function snapshotOf(announced: Announced, ...parts: readonly Uint8Array[]): Uint8Array[] {
  const all = [frame(headerOf(announced)), ...parts];
  const hash = createHash('sha256');
  for (const piece of all) hash.update(piece);
  return [...all, part(END, hash.digest())];
}

const files = () =>
  readdirSync(folder, { recursive: true })
    .map(String)
    .filter((file) => !file.startsWith('catalogue.'))
    .sort();

/** Nothing is restored, and nothing is left over. */
async function assertRefused(pieces: Many<Uint8Array>, message?: RegExp, code: ErrorCode = 'MALFORMED'): Promise<void> {
  const before = files();
  const error: unknown = await store.restore('copy', pieces).then(
    () => undefined,
    (reason) => reason,
  );
  // So that a failing test leaves nothing behind for the next.
  if (!error) await store.deleteCollection('copy');
  assert.ok(error instanceof HersError, error ? String(error) : 'it was restored');
  assert.equal(error.code, code, error.message);
  if (message) assert.match(error.message, message);
  assert.deepEqual(files(), before);
  assert.deepEqual(readdirSync(join(folder, 'vault')), []);
  assert.deepEqual(readdirSync(join(folder, 'blocks')), []);
  assert.deepEqual(await store.listCollections(), []);
}

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** An endless series of one part; counts how many were taken. */
function manyOf(announced: Announced, piece: (index: number) => Uint8Array, most: number) {
  const taken = { count: 0, most: 0 };
  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield frame(headerOf(announced));
    collect();
    const { heapUsed, external } = process.memoryUsage();
    while (taken.count < most) {
      yield piece(taken.count++);
      if (taken.count % 20 > 0) continue;
      // What is left of it; when the engine collects garbage is up to the engine.
      collect();
      const now = process.memoryUsage();
      taken.most = Math.max(taken.most, now.heapUsed + now.external - heapUsed - external);
    }
  }
  return { pieces: pieces(), taken };
}

const samples = new Samples(8);
const record = (bytes = 20) => part(RECORD, samples.id(), samples.bytes(bytes));
const list = () => part(LIST, samples.bytes(30));
const encoded = encodeBlock(samples.block());
const block = part(LAST_PIECE, encoded);

it('a snapshot that was made up well is restored', async () => {
  const announced = { records: 2n, lists: 1, blocks: 1, descriptorBytes: 3, rest: samples.bytes(10) };
  await store.restore('copy', snapshotOf(announced, record(), record(0), list(), block));
  const { records, blocks } = await store.getCollection('copy');
  assert.deepEqual({ records, blocks }, { records: 2, blocks: 1 });
  await store.deleteCollection('copy');
});

describe('a header', () => {
  const cases: [string, Announced][] = [
    ['of a descriptor longer than itself', { descriptorBytes: 2 ** 32 - 1 }],
    ['of a descriptor longer than any', { descriptorBytes: 2 ** 24 + 1, rest: new Uint8Array(2 ** 24 + 2) }],
    ['of more records than can be counted', { records: 2n ** 64n - 1n }],
    ['of version 0', { version: 0n }],
    ['of a version after which there is no next', { version: BigInt(Number.MAX_SAFE_INTEGER) }],
    ['of a version that is no number', { version: 2n ** 64n - 1n }],
    ['with something where nothing should be', { zero: 1 }],
  ];
  for (const [about, announced] of cases)
    it(`${about} is refused`, () => assertRefused(snapshotOf(announced), /the header of this snapshot/));

  it('of a newer format is refused as such', () =>
    assertRefused(
      snapshotOf({ format: 2 }),
      /^this snapshot is in another format, .* make it again from its source$/,
      'UNSUPPORTED_VERSION',
    ));

  it('of lists, records and blocks that never come is refused', async () => {
    const nothing = /does not hold what its header announces; nothing was restored/;
    await assertRefused(snapshotOf({ lists: 2 ** 32 - 1 }), nothing);
    await assertRefused(snapshotOf({ blocks: 2 ** 32 - 1 }), nothing);
    await assertRefused(snapshotOf({ records: BigInt(Number.MAX_SAFE_INTEGER) }), nothing);
  });
});

describe('more than the header announces is refused when it comes', () => {
  const cases: [string, Announced, () => Uint8Array][] = [
    ['records', { records: 3n }, () => record()],
    ['lists', { lists: 3 }, () => list()],
    ['blocks', { blocks: 3 }, () => part(LAST_PIECE, encodeBlock(samples.block()))],
    ['blocks', { blocks: 0 }, () => part(PIECE, samples.bytes(9))],
  ];
  for (const [what, announced, piece] of cases)
    it(`${announced.blocks === 0 ? 'pieces of ' : ''}${what}`, async () => {
      const { pieces, taken } = manyOf(announced, piece, 5000);
      await assertRefused(pieces, new RegExp(`holds more ${what} than it announces; nothing was restored`));
      assert.ok(taken.count < 100, `${taken.count} were taken`);
    });
});

describe('what cannot be part of a snapshot is refused', () => {
  it('frames without anything in them', async () => {
    const empty = frame(new Uint8Array(0));
    await assertRefused(snapshotOf({ records: 1n }, empty), /holds something unknown/);
    await assertRefused([empty], /not a snapshot/);
    await assertRefused(snapshotOf({ blocks: 1 }, part(PIECE), block), /an empty piece of a block/);
    await assertRefused(snapshotOf({ blocks: 1 }, part(LAST_PIECE)), /an empty piece of a block/);
  });

  it('a block that is none, or comes twice, or breaks off', async () => {
    const flipped = encoded.map((byte, i) => (i === 100 ? byte ^ 1 : byte));
    const cannot = /a block in this snapshot cannot be read \(.*\); nothing was restored/;
    await assertRefused(snapshotOf({ blocks: 1 }, part(LAST_PIECE, flipped)), cannot);
    await assertRefused(snapshotOf({ blocks: 1 }, part(LAST_PIECE, encoded.subarray(0, 100))), cannot);
    await assertRefused(snapshotOf({ blocks: 1 }, part(LAST_PIECE, samples.bytes(9))), cannot);
    await assertRefused(snapshotOf({ blocks: 2 }, block, block), /holds a block twice; nothing was restored/);
    await assertRefused(snapshotOf({ blocks: 1, records: 1n }, part(PIECE, encoded), record()), /breaks off a block/);
    await assertRefused(snapshotOf({ blocks: 1 }, part(PIECE, encoded)), /does not hold what its header announces/);
  });

  it('a record or list longer than any, or without a handle', async () => {
    const tooLong = part(RECORD, new Uint8Array(128 * MIB + 1));
    await assertRefused(
      snapshotOf({ records: 1n }, tooLong),
      /a record or list that is too long; nothing was restored/,
    );
    await assertRefused(snapshotOf({ records: 1n }, part(RECORD, samples.bytes(15))), /a record without a handle/);
  });

  it('the same record or list twice', async () => {
    const [once, listed] = [record(), list()];
    await assertRefused(snapshotOf({ records: 2n }, once, once), /does not hold what its header announces/);
    await assertRefused(snapshotOf({ lists: 2 }, listed, listed), /does not hold what its header announces/);
  });
});

describe('memory', () => {
  it('a frame that claims 4 GiB is refused by its length', async () => {
    const claim = Uint8Array.of(255, 255, 255, 255);
    const { pieces, taken } = manyOf({ records: 1n }, (i) => (i === 0 ? claim : new Uint8Array(1)), 5000);
    await assertRefused(pieces, /claims 4294967295 bytes/);
    assert.ok(taken.count < 3, `${taken.count} pieces were taken`);
  });

  it('a frame that claims much, and comes in drops, takes little', async () => {
    const claim = Uint8Array.of(0, 0, 0, 8); // 128 MiB
    const { pieces, taken } = manyOf({ records: 1n }, (i) => (i === 0 ? claim : new Uint8Array(10)), 2000);
    await assertRefused(pieces, /in the middle of a part/);
    assert.ok(taken.most < 32 * MIB, `${taken.most} bytes were taken`);
  });

  it('a block in many small pieces takes no more than a block', async () => {
    const piece = Buffer.concat(Array(1000).fill(part(PIECE, Uint8Array.of(1))));
    const { pieces, taken } = manyOf({ blocks: 1 }, () => piece, 200);
    await assertRefused(pieces, /is cut off/);
    assert.ok(taken.most < 24 * MIB, `${taken.most} bytes were taken`);
  });

  it('a block longer than any is refused when it becomes so', async () => {
    const piece = part(PIECE, new Uint8Array(MIB));
    const { pieces, taken } = manyOf({ blocks: 1 }, () => piece, 600);
    await assertRefused(pieces, /too long to be a block; nothing was restored/);
    assert.ok(taken.count <= 258, `${taken.count} MiB were taken`);
  });

  it('many records of nothing but their handles are not all kept until the end', async () => {
    const records = (i: number) =>
      Buffer.concat(Array.from({ length: 1000 }, (_, k) => part(RECORD, Buffer.alloc(16, `${1000 * i + k} `))));
    const { pieces } = manyOf({ records: 10n ** 9n }, records, 150);
    const before = synced;
    await assertRefused(pieces, /is cut off/);
    assert.ok(synced > before, 'nothing was written in between');
  });

  it('a stream of nothing can be stopped', async () => {
    const stop = new AbortController();
    async function* nothing(): AsyncGenerator<Uint8Array> {
      for (let i = 0; i < 1_000_000; i++) {
        if (i === 5) stop.abort(new Error('enough'));
        yield new Uint8Array(0);
      }
      assert.fail('it was not stopped');
    }
    await assert.rejects(store.restore('copy', nothing(), { signal: stop.signal }), /enough/);
  });
});
