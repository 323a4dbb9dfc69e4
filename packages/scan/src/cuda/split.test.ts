// What does not fit a device, and a device that fails: the device's code compiled for the host.

import assert from 'node:assert/strict';
import { afterEach, before, describe, it } from 'node:test';
import { encodeResponse, expandedQuery, type HersError, parameterSet, scanBlock } from '@hers/scheme';
import { part } from '../../../../tools/parts.ts';
import { emulatedCuda } from '../../testing/emulation.ts';
import { segmentBytes } from '../builder.ts';
import { checkKernel } from '../choose.ts';
import type { SegmentHandle } from '../kernel.ts';
import { ReferenceKernel } from '../reference.ts';
import { decodeHeader } from '../segment.ts';
import { largest, mixed, specimenBlock, specimenQuery } from '../specimen.ts';
import { CudaKernel } from './cuda.ts';
import { SplitKernel } from './split.ts';

const compiler = part('compiler');
const parameters = parameterSet('insecure_n_64_logq_30_wide_5');
const width = 9;
const blocks = Array.from({ length: 6 }, (_, index) =>
  specimenBlock({ parameters, width, index, residue: mixed(index) }),
);
const queries = [0, 1].map((index) => specimenQuery({ parameters, width, index, residue: mixed(50 + index) }));

describe('the CUDA kernel, emulated', { skip: compiler.skip }, () => {
  let addon: string;
  before(async () => {
    addon = await emulatedCuda();
  });
  afterEach(() => {
    delete process.env.HERS_EMULATION_FAILS;
  });

  const open = (memory?: number) => {
    const warnings: string[] = [];
    const openOther = async () => new ReferenceKernel();
    const kernel = new SplitKernel(CudaKernel.open({ addon }), {
      memory,
      openOther,
      warn: (text) => warnings.push(text),
    });
    return { kernel, warnings };
  };
  const load = (kernel: SplitKernel) =>
    Promise.all(
      [0, 2, 4].map((i) => kernel.load({ bytes: segmentBytes(blocks.slice(i, i + 2)), name: `segment ${i}` })),
    );

  /** How many responses are right. */
  async function right(kernel: SplitKernel, handles: readonly SegmentHandle[]): Promise<number> {
    let count = 0;
    for await (const { handle, block, query, response } of kernel.scan(handles, queries)) {
      const of = blocks[2 * handles.indexOf(handle) + block];
      const expected = encodeResponse(scanBlock(of, expandedQuery(queries[query])));
      assert.deepEqual(Buffer.from(response), Buffer.from(expected));
      count++;
    }
    return count;
  }

  it('answers as scheme does', async () => {
    const { kernel } = open();
    await checkKernel(kernel);
    await kernel.close();
  });

  for (const { name, width, together } of [
    { name: 'insecure_n_64_logq_30_wide_5', width: 200, together: 3 },
    { name: 'insecure_n_64_logq_30_wide_5', width: 20, together: 9 },
    { name: 'insecure_n_64_logq_30_30', width: 12, together: 8 },
    { name: 'insecure_n_64_logq_24_wide_5', width: 67, together: 3 },
    { name: 'insecure_n_64_logq_24_wide_5', width: 20, together: 8 },
  ]) {
    it(`answers ${together} queries together, with and without tensor cores: ${name}, ${width} rows`, async () => {
      const parameters = parameterSet(name);
      // More blocks than go into one tile, and sums that are folded; the first ones at their
      // largest.
      const residue = (index: number) => (index < 3 ? largest : mixed(index));
      const own = Array.from({ length: 18 }, (_, index) =>
        specimenBlock({ parameters, width, index, residue: residue(index) }),
      );
      const asked = Array.from({ length: together }, (_, index) =>
        specimenQuery({ parameters, width, index, residue: residue(index) }),
      );
      for (const slow of [false, true]) {
        if (slow) process.env.HERS_EMULATION_FAILS = 'doubles';
        const kernel = CudaKernel.open({ addon });
        const handle = await kernel.load({ bytes: segmentBytes(own), name: 'segment' });
        let count = 0;
        for await (const { block, query, response } of kernel.scan([handle], asked)) {
          const expected = encodeResponse(scanBlock(own[block], expandedQuery(asked[query])));
          assert.deepEqual(Buffer.from(response), Buffer.from(expected), `block ${block}, query ${query}`);
          count++;
        }
        assert.equal(count, own.length * together);
        await kernel.close();
      }
    });
  }

  it('says how fast its memory is', async () => {
    const { kernel } = open();
    const speed = kernel.device().copySpeed();
    assert.ok(Number.isFinite(speed) && speed > 0, `${speed}`);
    await kernel.close();
  });

  it('says in one sentence what is missing', () => {
    process.env.HERS_EMULATION_FAILS = 'no-device';
    assert.throws(() => CudaKernel.open({ addon }), /there is no NVIDIA driver on this machine/);
    process.env.HERS_EMULATION_FAILS = 'old-driver';
    assert.throws(() => CudaKernel.open({ addon }), /the NVIDIA driver is older than the CUDA version 13/);
    delete process.env.HERS_EMULATION_FAILS;
  });

  it('scans on the CPU what the device may not hold', async () => {
    const bytes = segmentBytes(blocks.slice(0, 2));
    const each = bytes.length - decodeHeader(bytes, bytes.length, 'segment').dataAt;
    for (const [memory, elsewhere] of [
      [0, 3],
      [each, 2],
      [2 * each, 1],
    ]) {
      const { kernel, warnings } = open(memory);
      const handles = await load(kernel);
      assert.match(kernel.detail, new RegExp(`; ${elsewhere} of 3 segments on the CPU$`));
      const { segments, used, free, memory: all, elsewhere: others, hasFailed } = kernel.device();
      assert.deepEqual(
        { segments, used, others, hasFailed },
        { segments: 3 - elsewhere, used: (3 - elsewhere) * each, others: elsewhere, hasFailed: false },
      );
      assert.ok(free > 0 && free <= all);
      assert.equal(await right(kernel, handles), 12);
      assert.equal(await kernel.keep(handles, queries), undefined);
      assert.deepEqual(warnings, []);
      for await (const _ of kernel.scan(handles, queries)) break;
      await kernel.close();
    }
  });

  it('scans on the next device what does not fit the first, and then on the CPU', async () => {
    process.env.HERS_EMULATION_DEVICES = '2';
    try {
      const bytes = segmentBytes(blocks.slice(0, 2));
      const memory = bytes.length - decodeHeader(bytes, bytes.length, 'segment').dataAt;
      const warnings: string[] = [];
      const warn = (text: string) => warnings.push(text);
      const openCpu = async () => new ReferenceKernel();
      const openNext = async () =>
        new SplitKernel(CudaKernel.open({ addon, device: 1 }), { memory, openOther: openCpu, warn });
      const kernel = new SplitKernel(CudaKernel.open({ addon }), { memory, openOther: openNext, warn });
      const handles = await load(kernel);
      const { segments, used, elsewhere } = kernel.device();
      assert.deepEqual({ segments, used, elsewhere }, { segments: 2, used: 2 * memory, elsewhere: 1 });
      assert.match(kernel.detail, /; 2 of 3 segments on emulation, .*; 1 of 2 segments on the CPU$/);
      assert.equal(await right(kernel, handles), 12);
      assert.equal(await kernel.keep(handles, queries), undefined);
      assert.deepEqual(warnings, []);
      await kernel.close();
      assert.throws(() => CudaKernel.open({ addon, device: 2 }), /there is no GPU number 2/);
    } finally {
      delete process.env.HERS_EMULATION_DEVICES;
    }
  });

  it('scans on the CPU what does not fit the device', async () => {
    const { kernel } = open();
    process.env.HERS_EMULATION_FAILS = 'memory:1000';
    const handles = await load(kernel);
    assert.match(kernel.detail, /3 of 3 segments on the CPU/);
    delete process.env.HERS_EMULATION_FAILS;
    assert.equal(await right(kernel, handles), 12);
    await kernel.close();
  });

  it('ends a scan with a typed error when the device fails, and goes on without it', async () => {
    for (const how of ['scan', 'keep'] as const) {
      const { kernel, warnings } = open();
      const handles = await load(kernel);
      const kept = await kernel.keep(handles, queries);
      assert.ok(kept);
      kept.forget();
      process.env.HERS_EMULATION_FAILS = 'launch:0';
      const failing = how === 'scan' ? right(kernel, handles) : kernel.keep(handles, queries);
      await assert.rejects(
        failing,
        (error: HersError) => error.code === 'UNAVAILABLE' && /the GPU failed/.test(error.message),
      );
      assert.equal(warnings.length, 1);
      assert.equal(await right(kernel, handles), 12);
      assert.equal(await kernel.keep(handles, queries), undefined);
      assert.match(kernel.detail, /which failed: the CPU scans/);
      const { hasFailed, elsewhere, used } = kernel.device();
      assert.deepEqual({ hasFailed, elsewhere, used }, { hasFailed: true, elsewhere: 3, used: 0 });
      delete process.env.HERS_EMULATION_FAILS;
      await kernel.close();
    }
  });

  it('keeps nothing of a scan that is aborted', async () => {
    const { kernel } = open();
    const handles = await load(kernel);
    const controller = new AbortController();
    const reason = new Error('enough');
    const keeping = kernel.keep(handles, queries, { signal: controller.signal });
    controller.abort(reason);
    await assert.rejects(keeping, reason);
    await kernel.close();
  });
});
