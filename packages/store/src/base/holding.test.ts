// A call announces the memory it will hold before it takes it, and when it releases it. The
// announcement can be refused. Staged data does not pile up.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { HersError } from '@hers/service';
import { encodeBlock, Samples } from '@hers/service/samples';
import type { Batch } from '../files/vault.ts';
import { openStore } from '../index.ts';
import { Stages } from '../stages.ts';

const text = (value: string) => new TextEncoder().encode(value);

/** Counts, and refuses more than `limit`. */
class Meter {
  held = 0;
  peak = 0;
  readonly #limit: number;

  constructor(limit = Number.POSITIVE_INFINITY) {
    this.#limit = limit;
  }

  readonly hold = (bytes: number): void => {
    if (this.held + bytes > this.#limit) throw new HersError('OVERLOADED', 'too much');
    this.held += bytes;
    this.peak = Math.max(this.peak, this.held);
  };
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const got: T[] = [];
  for await (const item of items) got.push(item);
  return got;
}

async function filledStore(folder: string) {
  const samples = new Samples(3);
  const store = await openStore(folder, { quietMs: 60_000 });
  await store.createCollection('faces', { id: samples.id(), descriptor: text('d'), manifest: text('1') });
  const records = [samples.record(6_000_000), ...samples.records(20)];
  const blocks = [samples.block(), samples.block({ count: 3 })];
  const change = {
    expected: 1,
    manifest: text('2'),
    records: [await store.stageRecords('faces', records)],
    blocks: await Promise.all(blocks.map((block) => store.stageBlock('faces', [encodeBlock(block)]))),
  };
  await store.commit('faces', change);
  return { samples, store, records, blocks };
}

describe('memory that a call holds', () => {
  it('is told, given back, and refused', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hers-holding-'));
    const { samples, store, records, blocks } = await filledStore(folder);
    const handles = records.map(({ handle }) => handle);
    const [, part] = blocks;
    const change = async () => ({
      expected: (await store.getManifest('faces')).version,
      manifest: samples.bytes(100_000),
    });
    const snapshot = Buffer.concat(await all(store.snapshot('faces')));
    const calls: Record<string, { least: number; run(hold: (bytes: number) => void): Promise<unknown> }> = {
      getRecords: { least: 12_000_000, run: (hold) => all(store.getRecords('faces', handles, { hold })) },
      getBlock: {
        least: encodeBlock(part).length,
        run: (hold) => all(store.getBlock('faces', part.blockId, { hold })),
      },
      snapshot: { least: 6_000_000, run: (hold) => all(store.snapshot('faces', { hold })) },
      restore: {
        least: 6_000_000,
        run: async (hold) => {
          await store.restore('copy', [snapshot], { hold });
          await store.deleteCollection('copy');
        },
      },
      stageBlock: {
        least: encodeBlock(part).length,
        run: (hold) => store.stageBlock('faces', [encodeBlock(part)], { hold }),
      },
      commit: {
        least: 300_000,
        run: async (hold) => store.commit('faces', await change(), { hold }),
      },
    };
    for (const [name, { least, run }] of Object.entries(calls)) {
      const meter = new Meter();
      if (name !== 'commit') {
        await run(meter.hold);
        assert.ok(meter.peak >= least, `${name} held ${meter.peak}`);
        assert.equal(meter.held, 0, name);
      }
      const strict = new Meter(least - 1);
      await assert.rejects(run(strict.hold), { code: 'OVERLOADED' }, name);
      assert.equal(strict.held, 0, name);
    }
    // The refused calls changed nothing.
    assert.deepEqual(
      (await store.listCollections()).map(({ name, version }) => [name, version]),
      [['faces', 2]],
    );
    await store.close();
    await rm(folder, { recursive: true });
  });
});

it('what is staged is forgotten, the oldest first, when it takes too much memory', () => {
  const stages = new Stages();
  const large = () => ({ kind: 'records', batch: { rows: { length: 2 ** 24 } } as Batch }) as const;
  const ids = Array.from({ length: 6 }, () => {
    const id = stages.add(large());
    stages.expire();
    return id;
  });
  for (const id of ids.slice(0, 3)) assert.throws(() => stages.get(id, 'records'), { code: 'NOT_FOUND' });
  for (const id of ids.slice(3)) stages.get(id, 'records');
  // One that is too large by itself stays until the next comes.
  const huge = stages.add({ kind: 'records', batch: { rows: { length: 2 ** 30 } } as Batch });
  stages.expire();
  stages.get(huge, 'records');
  stages.add(large());
  stages.expire();
  assert.throws(() => stages.get(huge, 'records'), { code: 'NOT_FOUND' });
});
