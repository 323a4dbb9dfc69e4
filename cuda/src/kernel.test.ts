import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, open, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Kernel, SegmentHandle, SegmentSource } from '@hers/scan';
import { buildSegment, openKernel, ReferenceKernel } from '@hers/scan';
import {
  checkKernel,
  largest,
  mixed,
  type Residue,
  segmentBytes,
  specimenBlock,
  specimenQuery,
} from '@hers/scan/accelerator';
import {
  type BlockMatrix,
  type HersError,
  PARAMETER_SETS,
  type ParameterSet,
  parameterSet,
  type Query,
} from '@hers/scheme';
import { part } from '../../tools/parts.ts';
import { registerCuda } from './index.ts';
import { CudaKernel } from './kernel.ts';
import { isCudaBuilt } from './kernel-addon.ts';

await registerCuda();

/** Why the kernel cannot be tested here, or false. */
function missing(): string | false {
  try {
    void CudaKernel.open().close();
    return false;
  } catch (error) {
    return (error as Error).message;
  }
}

interface Shape {
  readonly parameters: ParameterSet;
  readonly rows: number;
  readonly residue?: (index: number) => Residue;
}

function blocksOf({ parameters, rows, residue = mixed }: Shape, count: number): BlockMatrix[] {
  const width = rows - parameters.digits;
  return Array.from({ length: count }, (_, index) =>
    specimenBlock({ parameters, width, index, residue: residue(index) }),
  );
}

const BITS = [
  [11, 16],
  [13, 18],
  [27, 32],
  [1, 32],
  [7, 9],
  [32, 32],
] as const;

function queriesOf({ parameters, rows, residue = mixed }: Shape, count: number): Query[] {
  const width = rows - parameters.digits;
  return Array.from({ length: count }, (_, index) =>
    specimenQuery({ parameters, width, index, residue: residue(100 + index) }, ...BITS[index % BITS.length]),
  );
}

async function answers(kernel: Kernel, sources: readonly SegmentSource[], queries: readonly Query[]) {
  const handles = await Promise.all(sources.map((source) => kernel.load(source)));
  const found = new Map<string, Buffer>();
  for await (const { handle, block, query, response } of kernel.scan(handles, queries)) {
    const place = `segment ${handles.indexOf(handle)}, block ${block}, query ${query}`;
    assert.ok(!found.has(place), `${place} comes once`);
    found.set(place, Buffer.from(response));
  }
  for (const handle of handles) await kernel.unload(handle);
  return found;
}

async function drain(kernel: Kernel, handles: SegmentHandle[], queries: Query[], signal?: AbortSignal) {
  let count = 0;
  for await (const _ of kernel.scan(handles, queries, signal ? { signal } : {})) count++;
  return count;
}

describe('the CUDA addon', () => {
  const compiler = part('compiler');
  it('has a program that checks it, which shares interfaces with the code for the CPU', compiler, () => {
    const own = resolve(import.meta.dirname, '../scan/check.cc');
    const options = ['-std=c++17', '-fsyntax-only', '-Wall', '-Wextra', '-Werror'];
    const { status, stderr } = spawnSync(compiler.path!, [...options, own], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  });
  it('says what it takes, and is chosen unasked only where it works', async () => {
    for (const memory of [-1, 0.5]) await assert.rejects(registerCuda({ memory }), { code: 'INVALID_ARGUMENT' });
    assert.throws(() => CudaKernel.open({ addon: '/nowhere/none.node' }), /was not built, which takes nvcc/);
    for (const device of [-1, 0.5]) assert.throws(() => CudaKernel.open({ device }), { code: 'INVALID_ARGUMENT' });
    const { kernel, rejected } = await openKernel({ warn() {} });
    assert.equal(kernel.name === 'cuda', missing() === false);
    // Where it was not built, nothing is said about it.
    assert.equal(
      rejected.some((reason) => reason.includes('cuda')),
      isCudaBuilt() && missing() !== false,
    );
    await kernel.close();
  });
});

describe('cuda kernel', { skip: missing() }, () => {
  let folder: string;
  let kernel: CudaKernel;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hers-cuda-'));
    kernel = CudaKernel.open();
  });
  after(async () => {
    await kernel.close();
    await rm(folder, { recursive: true });
  });

  async function compare(sources: readonly SegmentSource[], queries: readonly Query[]) {
    const expected = await answers(new ReferenceKernel(), sources, queries);
    const found = await answers(kernel, sources, queries);
    assert.equal(found.size, expected.size);
    for (const [place, response] of found) assert.ok(response.equals(expected.get(place)!), `${place} differs`);
  }

  it('is opened where it is asked for, after its self-test', async () => {
    await checkKernel(kernel);
    const choice = await openKernel({ kernel: 'cuda' });
    assert.match(choice.chosen, /^cuda \(.* GiB, a driver for CUDA [\d.]+\), asked for by the option kernel$/);
    await choice.kernel.close();
  });

  // Of rings of 128 coefficients, which tests alone use, there is no code for a device.
  for (const parameters of Object.values(PARAMETER_SETS).filter(({ n }) => n !== 128))
    for (const rows of parameters.n < 1000 ? [4, 7, 8, 9, 16, 17, 19, 64, 65, 67, 131, 258, 4103] : [20, 67, 134])
      if (rows > parameters.digits && rows <= 4097 + parameters.digits)
        for (const residue of [mixed, () => largest])
          it(`is identical to the reference: ${parameters.name}, ${rows} rows, residues ${residue.name || 'p − 1'}`, async () => {
            const shape = { parameters, rows, residue };
            const blocks = rows > 1000 ? 2 : 5;
            await compare([{ bytes: segmentBytes(blocksOf(shape, blocks)), name: 'a' }], queriesOf(shape, 3));
          });

  it('is identical to the reference for any number of blocks, segments and queries', async () => {
    for (const name of [
      'insecure_n_64_logq_30_wide_5',
      'insecure_n_64_logq_24_wide_5',
      'insecure_n_64_logq_30_30_wide_4',
    ]) {
      const shape = { parameters: parameterSet(name), rows: 23 };
      const path = join(folder, `${name}.segment`);
      await buildSegment(path, blocksOf(shape, 33), 33);
      const parts = [1, 2, 64].map((count) => ({ bytes: segmentBytes(blocksOf(shape, count)), name: 'b' }));
      for (const queries of [1, 2, 3, 4, 5, 8, 9, 17]) await compare([{ path }, ...parts], queriesOf(shape, queries));
    }
  });

  const small = { parameters: parameterSet('insecure_n_64_logq_30_wide_5'), rows: 19 };

  it('keeps what it was given when the bytes change, and its segments when their files do', async () => {
    const bytes = segmentBytes(blocksOf(small, 2));
    const expected = await answers(new ReferenceKernel(), [{ bytes, name: 'a' }], queriesOf(small, 1));
    const path = join(folder, 'cut.segment');
    const header = await buildSegment(path, blocksOf(small, 2), 2);
    const shifted = Buffer.concat([Buffer.alloc(1), bytes]).subarray(1);
    const handles = [await kernel.load({ bytes: shifted, name: 'shifted' }), await kernel.load({ path })];
    shifted.fill(0xff);
    await truncate(path, header.dataAt);
    for await (const { block, query, response } of kernel.scan(handles, queriesOf(small, 1)))
      assert.ok(expected.get(`segment 0, block ${block}, query ${query}`)!.equals(response));
    for (const handle of handles) await kernel.unload(handle);
  });

  it('refuses damaged parts by name, short files, and queries of another plan', async () => {
    const path = join(folder, 'damaged.segment');
    const header = await buildSegment(path, blocksOf(small, 2), 2);
    const file = await open(path, 'r+');
    await file.write(Uint8Array.of(0xa5), 0, 1, header.dataAt + 2 * header.partBytes + 100);
    await file.close();
    const damaged = await kernel.load({ path });
    const intact = await kernel.load({ bytes: segmentBytes(blocksOf(small, 2)), name: 'intact' });
    const queries = queriesOf(small, 2);
    for (let i = 0; i < 2; i++)
      await assert.rejects(drain(kernel, [intact, damaged], queries), (error: HersError) => {
        assert.equal(error.code, 'DAMAGED');
        assert.ok(error.message.startsWith(`${path} is damaged in part 2`), error.message);
        return true;
      });
    assert.equal(await drain(kernel, [intact], queries), 4);
    await assert.rejects(drain(kernel, [intact], [{ ...queries[0], galleryScale: 7 }]), { code: 'BLOCK_MISMATCH' });
    await truncate(path, header.fileBytes - 1);
    await assert.rejects(kernel.load({ path }), { code: 'DAMAGED' });
    await kernel.unload(damaged);
    await kernel.unload(damaged);
    await assert.rejects(drain(kernel, [damaged], queries), /is not loaded/);
    await kernel.unload(intact);
  });

  it('ends within 50 ms of an abort with its reason, and goes on afterwards', async () => {
    const parameters = parameterSet('n_2048_logq_30_wide_5');
    const shape = { parameters, rows: 131, residue: () => largest };
    const bytes = segmentBytes(blocksOf(shape, 16));
    const handle = await kernel.load({ bytes, name: 'large' });
    // Some 40 ms on an H200: none of these scans is over when it is aborted.
    const many = Array.from({ length: 2400 }, () => handle);
    const queries = queriesOf(shape, 8);
    assert.equal(await drain(kernel, [handle], queries), 128);
    for (const taken of [0, 1, 3000]) {
      const controller = new AbortController();
      const reason = new Error('enough');
      let count = 0;
      let start = 0;
      await assert.rejects(async () => {
        const scan = kernel.scan(many, queries, { signal: controller.signal });
        const abort = () => {
          start = performance.now();
          controller.abort(reason);
        };
        if (taken === 0) setTimeout(abort, 5);
        for await (const _ of scan) if (++count === taken) setImmediate(abort);
      }, reason);
      assert.ok(performance.now() - start < 50, `${performance.now() - start} ms`);
    }
    // The same where responses stay on the device.
    const controller = new AbortController();
    const reason = new Error('enough');
    let start = 0;
    const keeping = kernel.keep!(many, queries, { signal: controller.signal });
    setTimeout(() => {
      start = performance.now();
      controller.abort(reason);
    }, 2);
    await assert.rejects(keeping, reason);
    assert.ok(performance.now() - start < 50, `${performance.now() - start} ms`);
    const kept = await kernel.keep!(many, queries);
    kept!.forget();
    kept!.forget();
    for await (const _ of kernel.scan(many, queries)) break;
    assert.equal(await drain(kernel, [handle], queries), 128);
    // Unloading waits for what runs.
    const running = drain(kernel, many.slice(0, 50), queries);
    await new Promise((resolve) => setTimeout(resolve, 2));
    await kernel.unload(handle);
    assert.equal(await running, 50 * 128);
  });

  it('answers several scans at once, and none after it was closed', async () => {
    const other = CudaKernel.open();
    const source = { bytes: segmentBytes(blocksOf(small, 5)), name: 'a' };
    const expected = await answers(new ReferenceKernel(), [source], queriesOf(small, 3));
    const handle = await other.load(source);
    await Promise.all(
      Array.from({ length: 10 }, async () => {
        for await (const { block, query, response } of other.scan([handle], queriesOf(small, 3)))
          assert.ok(expected.get(`segment 0, block ${block}, query ${query}`)!.equals(response));
      }),
    );
    await other.close();
    await other.close();
    await assert.rejects(drain(other, [handle], queriesOf(small, 1)), /closed/);
    await assert.rejects(other.load(source), /closed/);
  });
});
