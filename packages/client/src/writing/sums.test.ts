// Homomorphic collections: a block that comes back is the sum of what was added to it, or it is not
// decrypted.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { addBlocks, type Block, decodeBlock, encodeBlock, polyWords, ringOf } from '@hers/scheme';
import { HersError, type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { vectorOf } from '../../testing/client.ts';
import { joined } from '../bytes.ts';
import { type Collection, Database, MasterSeed } from '../index.ts';

const DIMENSION = 3;
const key = MasterSeed.generate();
const ids = ['a', 'b', 'c'];
let folder: string;
let store: Service;
/** What was staged, and what blocks were after each addition. */
const parts: Uint8Array[] = [];
const sums: Uint8Array[] = [];

const currentBlock = async () => {
  let last: Uint8Array | undefined;
  const { blocks } = await new Database(store, { key, threads: 1 }).describe('faces');
  assert.equal(blocks, 1);
  const spy = withMethods(store, {
    async *getBlock(name, id) {
      last = await joined(store.getBlock(name, id));
      yield new Uint8Array(0); // only looking
    },
  });
  await assert.rejects((await new Database(spy, { key, threads: 1 }).collection('faces')).optimize());
  return last!;
};

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hers-sums-'));
  store = await openStore(folder);
  const watching = withMethods(store, {
    async stageBlock(name, pieces, options) {
      const part = await joined(
        (async function* () {
          yield* pieces;
        })(),
      );
      parts.push(part);
      return store.stageBlock(name, [part], options);
    },
  });
  const options = { dimension: DIMENSION, profile: 'exact', enrolment: 'homomorphic', maxAdditions: 16 } as const;
  const faces = await new Database(watching, { key }).createCollection('faces', options);
  for (const [i, id] of ids.entries()) {
    await faces.upsert({ id, vector: vectorOf(i, DIMENSION) });
    // A deleted record makes the block worth rewriting, so that it is asked for.
    if (i === 0) continue;
    await faces.upsert({ id: 'gone', vector: vectorOf(9, DIMENSION) });
    await faces.delete('gone');
    sums.push(await currentBlock());
  }
});
after(async () => {
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

const giving = (bytes: Uint8Array): Partial<Service> => ({
  async *getBlock() {
    yield bytes;
  },
});
const through = (changes: Partial<Service>): Promise<Collection> =>
  new Database(withMethods(store, changes), { key, threads: 1 }).collection('faces');

/** Every row, and the mask, changed in the same way. */
function mapped(block: Block, change: (poly: Uint32Array) => Uint32Array): Block {
  const words = polyWords(block.parameters);
  const rows = new Uint32Array(block.rows.length);
  for (let at = 0; at < rows.length; at += words) rows.set(change(block.rows.subarray(at, at + words)), at);
  assert.ok('residues' in block.mask);
  return { ...block, rows, mask: { residues: change(block.mask.residues) } };
}

/** Times x^k: everybody's template moves on by k slots. */
function rotated(block: Block, k: number): Block {
  const ring = ringOf(block.parameters);
  const { n, primes } = block.parameters;
  return mapped(block, (poly) => {
    const [x] = ring.polys;
    x.residues.set(poly);
    ring.intt(x);
    const from = x.residues.slice();
    primes.forEach((p, at) => {
      for (let j = 0; j < n; j++) {
        const to = (j + k) % n;
        const value = from[at * n + j];
        x.residues[at * n + to] = j + k < n || value === 0 ? value : p - value;
      }
    });
    ring.ntt(x);
    return x.residues.slice();
  });
}

describe('a store that gives for a sum', () => {
  const last = () => sums.at(-1)!;
  const cheats: [string, () => Uint8Array][] = [
    ['an older one', () => sums[0]],
    [
      'an older one under the id and with the counts of the newest',
      () => {
        const { blockId, count, additions } = decodeBlock(last());
        return encodeBlock({ ...decodeBlock(sums[0]), blockId, count, additions });
      },
    ],
    ['a part of it', () => parts[0]],
    ['one that has moved by a slot', () => encodeBlock(rotated(decodeBlock(last()), 1))],
    ['one that has moved by a slot, and says so', () => encodeBlock({ ...rotated(decodeBlock(last()), 1), first: 1 })],
    [
      'one with rows exchanged',
      () => {
        const block = decodeBlock(last());
        const words = polyWords(block.parameters);
        const rows = block.rows.slice();
        rows.copyWithin(0, words, 2 * words);
        rows.set(block.rows.subarray(0, words), words);
        return encodeBlock({ ...block, rows });
      },
    ],
    [
      'one to which a part was added again',
      () => {
        const block = decodeBlock(last());
        const again = addBlocks({ ...block, first: 0, count: 1 }, { ...decodeBlock(parts[0]), first: 1, count: 1 }, 99);
        const { blockId, count, additions } = block;
        return encodeBlock({ ...again, blockId, count, additions, first: 0 });
      },
    ],
    [
      'one with a bit changed',
      () => {
        const block = decodeBlock(last());
        const rows = block.rows.slice();
        rows[17] ^= 1;
        return encodeBlock({ ...block, rows });
      },
    ],
    ['rubbish', () => new Uint8Array(5000)],
    ['nothing', () => new Uint8Array(0)],
  ];
  for (const [what, bytes] of cheats)
    it(`${what} is caught before anything is written`, async () => {
      const commits: unknown[] = [];
      const collection = await through({
        ...giving(bytes()),
        async commit(_, change) {
          commits.push(change);
          throw new HersError('INTERNAL', 'this should not be asked');
        },
      });
      await assert.rejects(
        collection.optimize(),
        (error) => error instanceof HersError && ['INTEGRITY', 'DAMAGED', 'MALFORMED'].includes(error.code),
      );
      assert.equal(commits.length, 0);
    });

  it('the sum itself is believed, and decrypted once however often the commit is refused', async () => {
    let reads = 0;
    let refusals = 3;
    const collection = await through({
      async *getBlock(name, id) {
        reads++;
        yield* store.getBlock(name, id);
      },
      async commit(name, change) {
        if (refusals-- > 0) throw new HersError('STALE', 'again, please');
        return store.commit(name, change);
      },
    });
    await collection.rotateKey();
    assert.equal(reads, 1);
    for (const [i, id] of ids.entries())
      assert.equal((await collection.search(vectorOf(i, DIMENSION), { limit: 1 })).matches[0].id, id);
  });
});
