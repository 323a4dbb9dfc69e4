// The profile small: where it is offered, and that its collections work like others.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { Service } from '@hers/service';
import { openStore } from '@hers/store';
import { scoreOf, vectorOf } from '../../testing/client.ts';
import { Database, MasterSeed } from '../index.ts';

const seed = MasterSeed.generate();
const folders: string[] = [];
const opened: Service[] = [];
after(async () => {
  for (const store of opened) await store.close();
  await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
});

async function emptyStore(): Promise<Service> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-small-'));
  folders.push(folder);
  const store = await openStore(folder);
  opened.push(store);
  return store;
}

describe('small', () => {
  it('is refused where it is no smaller than floats, also of what a compressor leaves', async () => {
    const store = await emptyStore();
    const db = new Database(store, { key: seed, threads: 1 });
    const isSmaller = (dimension: number, width = dimension) => (width + 6) * 3 < dimension * 4;
    for (const dimension of [16, 18, 19, 32]) {
      const made = db.createCollection(`small-${dimension}`, { dimension, profile: 'small' });
      if (isSmaller(dimension)) assert.equal((await made).plan.canaries, 16);
      else await assert.rejects(made, { code: 'UNSUPPORTED_PLAN', message: /use compact/ });
    }
    const { fit } = await import('@hers/training');
    const vectors = new Float32Array(60 * 32).map((_, i) => vectorOf(i >> 5, 32)[i & 31]);
    const compressor = (await fit('pca', vectors, undefined, { inputDimension: 32, dimension: 8 })).save();
    await assert.rejects(db.createCollection('short', { dimension: 32, profile: 'small', compressor }), {
      code: 'UNSUPPORTED_PLAN',
    });
  });

  it('collections are written, searched, optimized and rotated like others', async () => {
    const store = await emptyStore();
    const db = new Database(store, { key: seed, threads: 1 });
    const faces = await db.createCollection('faces', { dimension: 32, profile: 'small' });
    const { capacity, noise } = faces.plan;
    const count = 2 * capacity + 30;
    await faces.upsert(Array.from({ length: count }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i, 32) })));
    const probe = vectorOf(70_000, 32);
    for (const step of ['as it is', 'delete', 'optimize', 'rotateKey'] as const) {
      if (step === 'delete') await faces.delete('r7');
      else if (step !== 'as it is') await faces[step]();
      const { matches, coverage } = await faces.search(probe, { limit: count });
      assert.equal(coverage.searched, step === 'as it is' ? count : count - 1, step);
      for (const { id, score } of matches) {
        const right = scoreOf('cosine', probe, vectorOf(Number(id.slice(1)), 32));
        assert.ok(Math.abs(score - right) < 7 * noise.score, `${step}, ${id}`);
      }
      assert.equal((await faces.search(vectorOf(9, 32), { limit: 1, rerank: true })).matches[0].id, 'r9');
    }
    assert.equal((await db.describe('faces')).blocks, 3);
  });
});
