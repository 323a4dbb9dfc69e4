// What does not fit a device, and a device that fails: the device's code compiled for the host.

import assert from 'node:assert/strict';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, before, describe, it } from 'node:test';
import type { Kernel, ScanResult, SegmentHandle } from '@hers/scan';
import { decodeHeader, ReferenceKernel } from '@hers/scan';
import { checkKernel, largest, mixed, segmentBytes, specimenBlock, specimenQuery } from '@hers/scan/accelerator';
import { encodeResponse, expandedQuery, type HersError, parameterSet, scanBlock } from '@hers/scheme';
import { part } from '../../tools/parts.ts';
import { emulatedCuda } from '../testing/emulation.ts';
import { CudaKernel } from './kernel.ts';
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

  const open = (memory?: number, turns: boolean | 'measured' = false, other: Kernel = new ReferenceKernel()) => {
    const warnings: string[] = [];
    const warn = (text: string) => warnings.push(text);
    const kernel = new SplitKernel(CudaKernel.open({ addon }), {
      ...{ memory, turns: turns === 'measured' ? undefined : turns, openOther: async () => other, warn },
    });
    return { kernel, warnings };
  };
  /** Bytes of a segment of two blocks. */
  const bytes = segmentBytes(blocks.slice(0, 2));
  const each = bytes.length - decodeHeader(bytes, bytes.length, 'segment').dataAt;
  const load = (kernel: SplitKernel) =>
    Promise.all(
      [0, 2, 4].map((i) => kernel.load({ bytes: segmentBytes(blocks.slice(i, i + 2)), name: `segment ${i}` })),
    );

  /** How many responses are right. */
  async function right(kernel: SplitKernel, handles: readonly SegmentHandle[], first = 0, step = 1): Promise<number> {
    let count = 0;
    for await (const { handle, block, query, response } of kernel.scan(handles, queries)) {
      const of = blocks[2 * (first + step * handles.indexOf(handle)) + block];
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
    { name: 'insecure_n_64_logq_30_30_wide_4', width: 12, together: 8 },
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
      const memory = each;
      const warnings: string[] = [];
      const warn = (text: string) => warnings.push(text);
      const openCpu = async () => new ReferenceKernel();
      const openNext = async () =>
        new SplitKernel(CudaKernel.open({ addon, device: 1 }), { memory, turns: false, openOther: openCpu, warn });
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

  const FAULTS = [
    ['launch:0', /unspecified launch failure/],
    ['ecc:0', /uncorrectable ECC error/],
    ['lost:0', /unknown error/],
  ] as const;
  for (const [fault, sentence] of FAULTS)
    it(`ends a scan with a typed error when the device fails, and goes on without it: ${fault}`, async () => {
      for (const [how, memory] of [
        ['scan', undefined],
        ['keep', undefined],
        ['scan', each],
      ] as const) {
        const { kernel, warnings } = open(memory, true);
        const handles = await load(kernel);
        const kept = await kernel.keep(handles, queries);
        assert.ok(kept);
        kept.forget();
        process.env.HERS_EMULATION_FAILS = fault;
        const failing = how === 'scan' ? right(kernel, handles) : kernel.keep(handles, queries);
        await assert.rejects(
          failing,
          (error: HersError) =>
            error.code === 'UNAVAILABLE' && /the GPU failed/.test(error.message) && sentence.test(error.message),
        );
        assert.equal(warnings.length, 1);
        assert.match(warnings[0], sentence);
        assert.equal(await right(kernel, handles), 12);
        assert.equal(await kernel.keep(handles, queries), undefined);
        assert.match(kernel.detail, /which failed: the CPU scans/);
        const { hasFailed, elsewhere, used } = kernel.device();
        assert.deepEqual({ hasFailed, elsewhere, used }, { hasFailed: true, elsewhere: 3, used: 0 });
        delete process.env.HERS_EMULATION_FAILS;
        await kernel.close();
      }
    });

  it('gives memory back that scans need, and that another process has taken', async () => {
    for (const turns of [false, true]) {
      const { kernel, warnings } = open(turns ? each : undefined, turns);
      const handles = await load(kernel);
      // Not what is taken now: kernels of before may give theirs back in the meantime.
      process.env.HERS_EMULATION_FAILS = `memory:${kernel.device().used}`;
      assert.equal(await kernel.keep(handles, queries), undefined);
      assert.equal(await right(kernel, handles), 12);
      assert.match(warnings.join(), /too little memory for scans, perhaps because another process took it/);
      const { elsewhere, used, segments, hasFailed } = kernel.device();
      assert.ok(elsewhere >= 2 && segments <= 1 && used <= each && !hasFailed, kernel.detail);
      // What is loaded now goes to the CPU as well, and all of it is scanned.
      const more = await kernel.load({ bytes: segmentBytes(blocks.slice(0, 2)), name: 'more' });
      assert.equal(await right(kernel, [more]), 4);
      assert.equal(await right(kernel, handles), 12);
      delete process.env.HERS_EMULATION_FAILS;
      await kernel.close();
    }
  });

  it('refuses a segment whose file was replaced while it was on a device that failed, and no other', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hers-split-'));
    try {
      const path = join(folder, 'first.segment');
      await writeFile(path, segmentBytes(blocks.slice(0, 2)));
      const { kernel } = open();
      const handles = [await kernel.load({ path }), (await load(kernel))[1]];
      // The device has its own copy.
      await writeFile(`${path}.new`, segmentBytes(blocks.slice(2, 4)));
      await rename(`${path}.new`, path);
      assert.equal(await right(kernel, handles), 8);
      process.env.HERS_EMULATION_FAILS = 'lost:0';
      await assert.rejects(right(kernel, handles), { code: 'UNAVAILABLE' });
      await assert.rejects(right(kernel, handles), { code: 'DAMAGED', message: /first.segment is another file/ });
      assert.equal(await right(kernel, [handles[1]], 1), 4);
      await writeFile(`${path}.new`, segmentBytes(blocks.slice(0, 2)));
      await rename(`${path}.new`, path);
      assert.equal(await right(kernel, handles), 8);
      await kernel.close();
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  describe('in turns', () => {
    it('scans what the device may not hold, and keeps its responses', async () => {
      for (const memory of [0, each, 2 * each]) {
        const { kernel, warnings } = open(memory, true);
        const handles = await load(kernel);
        const { segments, turns, elsewhere, used } = kernel.device();
        assert.deepEqual([used, segments + turns, elsewhere], [memory, 3, 0]);
        assert.match(kernel.detail, new RegExp(`; ${3 - memory / each} of 3 segments in turns$`));
        assert.equal(await right(kernel, handles), 12);
        assert.equal(await right(kernel, handles.toReversed(), 2, -1), 12);
        const kept = await kernel.keep(handles, queries);
        assert.ok(kept);
        kept.forget();
        for (const handle of handles) await kernel.unload(handle);
        assert.deepEqual([kernel.device().turns, kernel.device().used, warnings], [0, 0, []]);
        await kernel.close();
      }
    });

    it('fetches many pieces, of segments between others, for any number of queries', async () => {
      for (const [name, together] of [
        ['insecure_n_64_logq_30_wide_5', 1],
        ['insecure_n_64_logq_24_wide_5', 4],
        ['insecure_n_64_logq_30_30_wide_4', 3],
      ] as const) {
        const parameters = parameterSet(name);
        const own = Array.from({ length: 90 }, (_, index) =>
          specimenBlock({ parameters, width: 11, index, residue: mixed(index) }),
        );
        const asked = Array.from({ length: together }, (_, index) =>
          specimenQuery({ parameters, width: 11, index, residue: mixed(200 + index) }),
        );
        const kernel = CudaKernel.open({ addon });
        const cuts = [0, 40, 45, 46, 80, 90];
        const handles: SegmentHandle[] = [];
        for (let i = 0; i + 1 < cuts.length; i++) {
          const some = { bytes: segmentBytes(own.slice(cuts[i], cuts[i + 1])), name: `segment ${i}` };
          handles.push(await kernel.load(some, { inTurns: i !== 1 }));
        }
        let count = 0;
        for await (const { handle, block, query, response } of kernel.scan(handles, asked)) {
          const expected = encodeResponse(
            scanBlock(own[cuts[handles.indexOf(handle)] + block], expandedQuery(asked[query])),
          );
          assert.deepEqual(Buffer.from(response), Buffer.from(expected), `block ${block}, query ${query}`);
          count++;
        }
        assert.equal(count, own.length * together);
        await kernel.close();
      }
    });

    it('is chosen where it is faster than the other kernel, and only there', async () => {
      class Slow extends ReferenceKernel {
        override async *scan(...all: Parameters<ReferenceKernel['scan']>) {
          await new Promise((resolve) => setTimeout(resolve, 500));
          yield* super.scan(...all);
        }
      }
      class Fast extends ReferenceKernel {
        override async *scan() {}
      }
      for (const [other, turns] of [
        [new Slow(), 2],
        [new Fast(), 0],
      ] as const) {
        const { kernel } = open(each, 'measured', other);
        const handles = await load(kernel);
        assert.deepEqual([kernel.device().turns, kernel.device().elsewhere], [turns, 2 - turns]);
        if (turns > 0) assert.equal(await right(kernel, handles), 12);
        await kernel.close();
      }
    });

    it('is not chosen where there is no pinned memory', async () => {
      const { kernel } = open(0, true);
      process.env.HERS_EMULATION_FAILS = 'pinned';
      const handles = await load(kernel);
      delete process.env.HERS_EMULATION_FAILS;
      assert.deepEqual([kernel.device().turns, kernel.device().elsewhere], [0, 3]);
      assert.equal(await right(kernel, handles), 12);
      await kernel.close();
    });

    it('ends when it is aborted, and finds damage', async () => {
      const { kernel } = open(0, true);
      const handles = await load(kernel);
      for (const how of ['scan', 'keep'] as const) {
        const controller = new AbortController();
        const reason = new Error('enough');
        const { signal } = controller;
        const running =
          how === 'scan'
            ? Array.fromAsync(kernel.scan(handles, queries, { signal }))
            : kernel.keep(handles, queries, { signal });
        controller.abort(reason);
        await assert.rejects(running, reason);
      }
      assert.equal(await right(kernel, handles), 12);
      const damaged = segmentBytes(blocks.slice(0, 2));
      damaged[damaged.length - 5] ^= 1;
      const bad = await kernel.load({ bytes: damaged, name: 'bad' });
      await assert.rejects(right(kernel, [bad]), { code: 'DAMAGED', message: /bad/ });
      assert.equal(await right(kernel, handles), 12);
      await kernel.close();
    });
  });

  it('hands on what comes together, in memory that stays as it is', async () => {
    const { kernel } = open();
    const handles = await load(kernel);
    const held: ScanResult[] = [];
    let batches = 0;
    for (let i = 0; i < 8; i++)
      for await (const batch of kernel.batches(handles, queries)) {
        held.push(...batch);
        batches++;
      }
    assert.deepEqual([held.length, batches], [8 * 12, 8]);
    await kernel.close();
    for (const { handle, block, query, response } of held) {
      const of = blocks[2 * handles.indexOf(handle) + block];
      assert.deepEqual(
        Buffer.from(response),
        Buffer.from(encodeResponse(scanBlock(of, expandedQuery(queries[query])))),
      );
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
