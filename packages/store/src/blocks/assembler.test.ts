import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { ReferenceKernel } from '@hers/scan';
import { HersError } from '@hers/scheme';
import { encodeBlock, Samples } from '@hers/service/samples';
import { withFolder } from '../../testing/crash.ts';
import { hex } from '../base/bytes.ts';
import { openStore } from '../store.ts';

const kernel = async () => new ReferenceKernel();
const SHAPE = { set: 'n_2048_logq_30_wide_5', width: 70 };
const COUNT = 18; // some 10 MB, which is enough for another thread

async function withBlocks(
  work: (opened: {
    store: Awaited<ReturnType<typeof openStore>>;
    folder: string;
    encoded: Uint8Array[];
    troubles: unknown[];
  }) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const samples = new Samples(1);
    const troubles: unknown[] = [];
    const store = await openStore(folder, { kernel, quietMs: 1e6, onBackgroundError: (error) => troubles.push(error) });
    await store.createCollection('faces', {
      id: samples.id(),
      descriptor: samples.bytes(9),
      manifest: samples.bytes(9),
    });
    const block = samples.block(SHAPE);
    const encoded = Array.from({ length: COUNT }, () =>
      encodeBlock({ ...block, blockId: samples.id(), seed: samples.bytes(32) }),
    );
    const blocks = await Promise.all(encoded.map((bytes) => store.stageBlock('faces', [bytes])));
    await store.commit('faces', { expected: 1, manifest: samples.bytes(8), blocks });
    try {
      await work({ store, folder, encoded, troubles });
    } finally {
      await store.close();
    }
  });
}

it('a large segment is assembled in another thread', () =>
  withBlocks(async ({ store, folder, encoded }) => {
    await store.purge('faces');
    assert.equal(readdirSync(join(folder, 'segments')).length, 1);
    assert.equal(readdirSync(join(folder, 'blocks')).length, 0);
    for (const bytes of encoded) {
      const read = Buffer.concat(await Array.fromAsync(store.getBlock('faces', bytes.subarray(32, 48))));
      assert.equal(hex(read), hex(bytes));
    }
  }));

it('what is damaged is said by the other thread too, and stays where it is', () =>
  withBlocks(async ({ store, folder, encoded }) => {
    const [file] = readdirSync(join(folder, 'blocks'));
    const path = join(folder, 'blocks', file);
    const bytes = readFileSync(path);
    bytes[5000] ^= 1;
    writeFileSync(path, bytes);
    await assert.rejects(store.purge('faces'), (error: unknown) => {
      assert.ok(error instanceof HersError && error.code === 'DAMAGED');
      assert.ok(error.message.includes(file), error.message);
      return true;
    });
    assert.equal(readdirSync(join(folder, 'blocks')).length, encoded.length);
    assert.equal(readdirSync(join(folder, 'segments')).length, 0);
    bytes[5000] ^= 1;
    writeFileSync(path, bytes);
    await store.purge('faces');
    assert.equal(readdirSync(join(folder, 'segments')).length, 1);
  }));

it('it stops when it is told to, and when the folder is closed', () =>
  withBlocks(async ({ store, folder }) => {
    const stopping = new AbortController();
    const purge = store.purge('faces', { signal: stopping.signal });
    setTimeout(() => stopping.abort(new Error('enough')), 30);
    await assert.rejects(purge, /enough/);
    const again = assert.rejects(
      store.purge('faces'),
      (error) => error instanceof HersError && error.code === 'CLOSED',
    );
    await new Promise((resolve) => setTimeout(resolve, 30));
    await store.close();
    await again;
    assert.deepEqual(readdirSync(join(folder, 'segments')), []);
  }));
