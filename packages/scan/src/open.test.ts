// Kernels scan with the rows of open queries, whose masks are given and not expanded from a seed,
// and give responses of 32 bits, which tell every coefficient exactly.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  blockMatrix,
  decodeBlock,
  encodeBlock,
  encodeResponse,
  expandedQuery,
  type Query,
  rowsOf,
  scanBlock,
} from '@hers/scheme';
import { decodeOpenQuery, openPlan, resultOf, scannedQuery } from '@hers/scheme/open';
import { encryptBlock, MasterSeed } from '@hers/scheme/secret';
import { encryptShortQuery, makeDeviceKey } from '@hers/scheme/secret/open';
import { scanOpenBlock } from '@hers/scheme/testing/slow-open';
import { part } from '../../../tools/parts.ts';
import { segmentBytes } from './builder.ts';
import type { Kernel } from './kernel.ts';
import { NativeKernel } from './native/native.ts';
import { ReferenceKernel } from './reference.ts';
import { WasmKernel } from './wasm/wasm.ts';

const SMALL = { parameters: 'insecure_n_128_logq_30_wide_5_open', allowInsecure: true };

/** One mask or several, one panel of rows or two; rows mixed, or all residues the largest. */
const CASES = [
  { dimension: 3, largest: false },
  { dimension: 40, largest: false },
  { dimension: 128, largest: false },
  { dimension: 100, largest: true },
];

async function check(kernel: Kernel): Promise<void> {
  try {
    for (const { dimension, largest } of CASES) {
      const plan = openPlan({ ...SMALL, dimension });
      using seed = MasterSeed.generate();
      const key = seed.collectionKey(plan, new Uint8Array(16));
      const blocks = [5, 128].map((count) => {
        const made = decodeBlock(encryptBlock(key, Float32Array.from({ length: count * dimension }, Math.random)));
        return largest ? { ...made, rows: made.rows.map(() => plan.parameters.primes[0] - 1) } : made;
      });
      const [q] = plan.parameters.primes;
      const words = () => Uint32Array.from({ length: plan.rows * 128 }, () => (largest ? q - 1 : Math.random() * q));
      const query = decodeOpenQuery(
        encryptShortQuery(plan, makeDeviceKey(key, 0), new Float32Array(dimension).fill(1)),
      );
      const rows = { bodies: words(), masks: words() };
      const scanned: Query = scannedQuery(query, rows);
      assert.equal(scanned.rows.length / 128, rowsOf(plan.parameters, plan.width));
      const matrices = blocks.map((block) => blockMatrix(decodeBlock(encodeBlock(block))));
      const handle = await kernel.load({ bytes: segmentBytes(matrices), name: 'open' });
      // Two queries at once: each has its own masks.
      const other: Query = { ...scanned, rows: words(), masks: words() };
      const found = new Map<string, Uint8Array>();
      for await (const { block, query: asked, response } of kernel.scan([handle], [scanned, other]))
        found.set(`${block} ${asked}`, new Uint8Array(response));
      assert.equal(found.size, 4);
      for (const [i, matrix] of matrices.entries()) {
        for (const [j, each] of [scanned, other].entries())
          assert.deepEqual(
            found.get(`${i} ${j}`),
            encodeResponse(scanBlock(matrix, expandedQuery(each))),
            `d = ${dimension}`,
          );
        const plain = scanOpenBlock(matrix.block, matrix.maskRows, query, rows);
        const { body, mask, block } = resultOf(found.get(`${i} 0`)!);
        assert.deepEqual([body, mask, block.count], [plain.body, plain.mask, plain.block.count]);
      }
      await kernel.unload(handle);
    }
  } finally {
    await kernel.close();
  }
}

describe('open queries', () => {
  it('the reference kernel', () => check(new ReferenceKernel()));
  it('WebAssembly', async () => check(await WasmKernel.open({ threads: 2 })));
  for (const isa of ['avx512ifma', 'avx512', 'avx2', 'generic'] as const)
    it(`native code, ${isa}`, part('compiler'), async (t) => {
      let kernel: Kernel;
      try {
        kernel = NativeKernel.open({ isa, threads: 2 });
      } catch (error) {
        t.skip((error as Error).message);
        return;
      }
      await check(kernel);
    });
});
