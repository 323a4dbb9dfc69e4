// Searches whose responses a kernel leaves on its device: the store says which of them count.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type KeptScan, ReferenceKernel, type SegmentHandle } from '@hers/scan';
import type { Query } from '@hers/scheme';
import type { KeptResponses } from '@hers/service';
import { encodeBlock, encodeQuery, expectedResponses, Samples } from '@hers/service/samples';
import { withFolder } from '../testing/crash.ts';
import { hex } from './base/bytes.ts';
import { openStore } from './store.ts';

/** Keeps the responses of each query in memory, in the order of the handles and of their blocks. */
class KeepingKernel extends ReferenceKernel {
  kept = 0;

  async keep(handles: readonly SegmentHandle[], queries: readonly Query[]): Promise<KeptScan> {
    const responses = queries.map((): string[] => []);
    const starts = new Map<SegmentHandle, number>();
    let blocks = 0;
    for (const handle of handles) {
      starts.set(handle, blocks);
      blocks += handle.header.blocks.length;
    }
    for await (const { handle, block, query, response } of this.scan(handles, queries))
      responses[query][starts.get(handle)! + block] = hex(response);
    this.kept++;
    return {
      handle: responses as never,
      device: 0,
      forget: () => {
        this.kept--;
      },
    };
  }
}

it('responses that stay on a device are those of the blocks that were asked for', () =>
  withFolder(async (folder) => {
    const samples = new Samples(51);
    const kernel = new KeepingKernel();
    const store = await openStore(folder, { kernel: async () => kernel, quietMs: 60_000 });
    await store.createCollection('faces', {
      id: samples.id(),
      descriptor: samples.bytes(9),
      manifest: samples.bytes(9),
    });
    const blocks = Array.from({ length: 15 }, () => samples.block({ width: 2 }));
    for (const [expected, some] of [blocks.slice(0, 12), blocks.slice(12)].entries()) {
      const stages = await Promise.all(some.map((block) => store.stageBlock('faces', [encodeBlock(block)])));
      await store.commit('faces', { expected: expected + 1, manifest: samples.bytes(9), blocks: stages });
      if (expected === 0) await store.purge('faces'); // makes a segment of them
    }
    const queries = [samples.query({ width: 2 }), samples.query({ width: 2 })];
    const search = async (wanted: typeof blocks | undefined, isPart: boolean) => {
      const found: string[] = [];
      const keep = async ({ handle, queries: numbers, only }: KeptResponses) => {
        assert.equal(kernel.kept, 1);
        assert.deepEqual(numbers, [0, 1]);
        for (const responses of handle as unknown as string[][])
          found.push(...(only ? Array.from(only, (at) => responses[at]) : responses));
        assert.equal(only !== undefined, isPart);
      };
      const request = {
        version: 3,
        queries: queries.map((query) => encodeQuery(query)),
        ...(wanted ? { blocks: wanted.map(({ blockId }) => blockId) } : {}),
      };
      assert.deepEqual(await Array.fromAsync(store.search('faces', request, { keep })), [], 'nothing comes twice');
      assert.equal(kernel.kept, 0);
      assert.deepEqual(
        found.sort(),
        expectedResponses(wanted ?? blocks, queries)
          .map(hex)
          .sort(),
      );
    };
    await search(undefined, false);
    await search(
      [3, 14, 0, 12, 7].map((i) => blocks[i]),
      true,
    );
    await search([blocks[13]], false); // all of its file
    // What takes them may fail: they are forgotten all the same.
    const failing = store.search(
      'faces',
      { version: 3, queries: queries.map((query) => encodeQuery(query)) },
      { keep: () => Promise.reject(new Error('no room on the device')) },
    );
    await assert.rejects(Array.fromAsync(failing), /no room on the device/);
    assert.equal(kernel.kept, 0);
    await store.close();
  }));
