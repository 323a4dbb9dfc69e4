// A segment that is truncated during a search, with the kernel that maps segments. A process that
// touches missing pages dies, and these tests with it.

import assert from 'node:assert/strict';
import { copyFileSync, readdirSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { NativeKernel } from '@hers/scan';
import type { Block, Query } from '@hers/scheme';
import { HersError, type Service } from '@hers/service';
import { encodeBlock, encodeQuery, expectedResponses, Samples } from '@hers/service/samples';
import { part } from '../../../tools/parts.ts';
import { withFolder } from '../testing/crash.ts';
import { hex } from './base/bytes.ts';
import { openStore } from './store.ts';

const kernel = async () => NativeKernel.open({ threads: 2 });
const samples = new Samples(77);

interface Content {
  readonly blocks: readonly Block[];
  readonly queries: readonly Query[];
}

/** Large enough that a search takes a while. */
const large = { set: 'n_2048_logq_30_wide_5', width: 61 };
const small = { width: 2 };

async function fill(store: Service, name: string, shape: object, count: number): Promise<Content> {
  await store.createCollection(name, { id: samples.id(), descriptor: samples.bytes(9), manifest: samples.bytes(9) });
  const blocks = Array.from({ length: count }, () => samples.block(shape));
  await store.commit(name, {
    expected: 1,
    manifest: samples.bytes(9),
    blocks: await Promise.all(blocks.map((block) => store.stageBlock(name, [encodeBlock(block)]))),
  });
  await store.purge(name);
  return { blocks, queries: Array.from({ length: 4 }, () => samples.query(shape)) };
}

async function* search(store: Service, name: string, { queries }: Content): AsyncGenerator<string> {
  for await (const response of store.search(name, { version: 2, queries: queries.map((query) => encodeQuery(query)) }))
    yield hex(response);
}

const rightAnswers = ({ blocks, queries }: Content): Set<string> =>
  new Set(expectedResponses(blocks, queries).map(hex));

it('a segment that is cut during searches of it fails these searches alone', part('compiler'), () =>
  withFolder(async (folder) => {
    const store = await openStore(folder, { kernel });
    const cut = await fill(store, 'cut', large, 48);
    const segments = readdirSync(join(folder, 'segments'));
    assert.equal(segments.length, 1);
    const file = `segments/${segments[0]}`;
    const path = join(folder, file);
    const other = await fill(store, 'other', small, 12);
    const [right, rightOther] = [rightAnswers(cut), rightAnswers(other)];
    const { size } = statSync(path);
    const copy = join(folder, 'copy');
    copyFileSync(path, copy);

    const several = () =>
      Promise.allSettled(Array.from({ length: 8 }, () => Array.fromAsync(search(store, 'cut', cut))));
    const lengths = [0, 4096 * Math.floor(size / 8192), Math.floor(size / 3), size - 1];
    const tries = 16;
    let failed = 0;
    for (let i = 0; i < tries; i++) {
      const start = performance.now();
      await several();
      const time = performance.now() - start;
      const searches = several();
      await sleep((time * i) / tries);
      truncateSync(path, lengths[i % lengths.length]);
      assert.deepEqual(new Set(await Array.fromAsync(search(store, 'other', other))), rightOther);
      for (const result of await searches) {
        if (result.status === 'fulfilled') {
          assert.ok(result.value.every((answer) => right.has(answer)));
          continue;
        }
        const error = result.reason;
        assert.ok(error instanceof HersError, String(error));
        assert.equal(error.code, 'DAMAGED');
        assert.ok(error.message.includes(file), error.message);
        failed++;
      }
      await assert.rejects(Array.fromAsync(search(store, 'cut', cut)), (error: HersError) => {
        assert.equal(error.code, 'DAMAGED');
        return error.message.includes(file);
      });

      // A file that is brought back is used again.
      copyFileSync(copy, path);
      assert.deepEqual(new Set(await Array.fromAsync(search(store, 'cut', cut))), right);
    }
    assert.ok(failed > tries, `only ${failed} searches were cut`);
    await store.close();
  }),
);
