import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { copyFile, mkdtemp, open, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { checksum } from '@hers/ring';
import {
  type BlockMatrix,
  type HersError,
  PARAMETER_SETS,
  type ParameterSet,
  parameterSet,
  type Query,
} from '@hers/scheme';
import { part } from '../../../../tools/parts.ts';
import { buildSegment, segmentBytes } from '../builder.ts';
import type { Kernel, SegmentHandle, SegmentSource } from '../kernel.ts';
import { ReferenceKernel } from '../reference.ts';
import { dataOffset, encodeHeader, LANES, partCount } from '../segment.ts';
import { largest, mixed, type Residue, specimenBlock, specimenQuery } from '../specimen.ts';
import { NativeKernel } from './native.ts';
import { type Isa, loadAddon } from './native-addon.ts';

const compiler = part('compiler');
const isas = compiler.present ? loadAddon().variants() : (['generic'] as Isa[]);

const small = parameterSet('insecure_n_64_logq_30_wide_5');
const smallPair = parameterSet('insecure_n_64_logq_30_30_wide_4');
const compact = parameterSet('n_2048_logq_30_wide_5');
const exact = parameterSet('n_4096_logq_30_30_wide_4');

const packed = parameterSet('insecure_n_64_logq_24_wide_5');
const tiny = Object.values(PARAMETER_SETS).filter(({ n }) => n < 1000);

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hers-native-'));
});
after(() => rm(folder, { recursive: true }));

/** Opened for one test, closed after it. */
async function withKernel(
  options: Parameters<typeof NativeKernel.open>[0],
  use: (kernel: NativeKernel) => Promise<void>,
) {
  const kernel = NativeKernel.open(options);
  try {
    await use(kernel);
  } finally {
    await kernel.close();
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

function queriesOf({ parameters, rows, residue = mixed }: Shape, count: number): Query[] {
  const widths = [
    [11, 16],
    [22, 28],
    [1, 32],
    [7, 9],
    [32, 32],
    [15, 17],
  ];
  const width = rows - parameters.digits;
  return Array.from({ length: count }, (_, index) => {
    const [bits0, bits1] = widths[index % widths.length];
    return specimenQuery({ parameters, width, index, residue: residue(100 + index) }, bits0, bits1);
  });
}

/** Of the first scan after loading; later ones must give the same. */
async function answers(kernel: Kernel, sources: readonly SegmentSource[], queries: readonly Query[], scans = 1) {
  const handles = await Promise.all(sources.map((source) => kernel.load(source)));
  const found = new Map<string, Buffer>();
  for await (const { handle, block, query, response } of kernel.scan(handles, queries)) {
    const place = `segment ${handles.indexOf(handle)}, block ${block}, query ${query}`;
    assert.ok(!found.has(place), `${place} comes once`);
    found.set(place, Buffer.from(response));
  }
  for (let scan = 1; scan < scans; scan++) {
    let again = 0;
    for await (const { handle, block, query, response } of kernel.scan(handles, queries)) {
      const place = `segment ${handles.indexOf(handle)}, block ${block}, query ${query}`;
      assert.ok(found.get(place)?.equals(response), `${place} is another later with ${kernel.detail}`);
      again++;
    }
    assert.equal(again, found.size);
  }
  for (const handle of handles) await kernel.unload(handle);
  return found;
}

/** All answers of a kernel for some segments, compared with those of the reference. */
async function compare(
  sources: readonly SegmentSource[],
  queries: readonly Query[],
  kernels: readonly Kernel[],
  scans = 1,
) {
  const expected = await answers(new ReferenceKernel(), sources, queries);
  for (const kernel of kernels) {
    // So that memory which is used again holds other answers than those that are expected.
    if (queries.length > 1) await answers(kernel, sources, queries.toReversed());
    const found = await answers(kernel, sources, queries, scans);
    assert.equal(found.size, expected.size);
    for (const [place, response] of found) {
      assert.ok(response.equals(expected.get(place)!), `${place} differs with ${kernel.detail}`);
    }
  }
}

describe('native kernel', compiler, () => {
  describe('is identical to the reference', () => {
    const kernels: NativeKernel[] = [];
    before(() => {
      for (const isa of isas) kernels.push(NativeKernel.open({ isa, threads: 2 }));
    });
    after(() => Promise.all(kernels.map((kernel) => kernel.close())));

    /** Those of one letter have one seed, and ask for as many bits: but for those left `apart`. */
    const withMasks = (queries: readonly Query[], masks: string, apart = (_: number) => false) => {
      const seeds = new Map<string, Uint8Array>();
      return queries.map((query, i) => {
        const seed = seeds.get(masks[i]) ?? query.seed;
        seeds.set(masks[i], seed);
        return apart(i) ? { ...query, seed } : { ...query, seed, bits1: 32 };
      });
    };
    for (const parameters of tiny) {
      for (const masks of ['aa', 'aab', 'aba', 'aaaa', 'abab', 'abcabca', 'aaaaaaaa', 'aaaaaaaaa'])
        it(`${parameters.name}, queries whose masks are ${masks}`, async () => {
          const shape = { parameters, rows: 70 };
          const bytes = segmentBytes(blocksOf(shape, 6));
          const queries = withMasks(queriesOf(shape, masks.length), masks, (i) => i % 4 === 3);
          await compare([{ bytes, name: 'a' }], queries, kernels);
        });
      // One column is left over, and takes more blocks at once: some, all but a few, and none.
      for (const [masks, blocks] of [
        ['aaaa', 1],
        ['aaaa', 7],
        ['aaaa', 8],
        ['aab', 19],
        ['aaaaaaaa', 21],
        ['aaaaabbbcccc', 11],
      ] as const)
        it(`${parameters.name}, ${blocks} blocks, queries whose masks are ${masks}`, async () => {
          const shape = { parameters, rows: 195 };
          const bytes = segmentBytes(blocksOf(shape, blocks));
          await compare([{ bytes, name: 'a' }], withMasks(queriesOf(shape, masks.length), masks), kernels);
        });
    }
    for (const parameters of Object.values(PARAMETER_SETS)) {
      if (parameters.n < 1000) continue;
      it(`${parameters.name}, four queries with one mask, every residue q − 1`, async () => {
        const shape = { parameters, rows: 67, residue: () => largest };
        const bytes = segmentBytes(blocksOf(shape, 9));
        await compare([{ bytes, name: 'a' }], withMasks(queriesOf(shape, 4), 'aaaa'), kernels);
      });
    }
    for (const parameters of tiny) {
      for (const rows of [4, 5, 7, 8, 9, 10, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 127, 128, 131, 200, 1027]) {
        if (rows <= parameters.digits) continue;
        it(`${parameters.name}, ${rows} rows`, async () => {
          const shape = { parameters, rows };
          const bytes = segmentBytes(blocksOf(shape, 3));
          await compare([{ bytes, name: 'a' }], queriesOf(shape, 3), kernels);
        });
      }
    }

    for (const parameters of Object.values(PARAMETER_SETS)) {
      for (const rows of parameters.n < 1000 ? [4, 7, 16, 17, 64, 65, 67, 128, 131, 258, 4103] : [16, 67]) {
        if (rows <= parameters.digits || rows > 4097 + parameters.digits) continue;
        it(`${parameters.name}, ${rows} rows, every residue q − 1`, async () => {
          const shape = { parameters, rows, residue: () => largest };
          const bytes = segmentBytes(blocksOf(shape, rows > 1000 ? 2 : 5));
          await compare([{ bytes, name: 'a' }], queriesOf(shape, rows > 1000 ? 2 : 3), kernels);
        });
      }
    }

    // One query verifies two parts while it multiplies them, the first time, where a task has
    // several: a scan of many parts has such tasks.
    for (const [parameters, rows, count] of [
      [small, 5, 3],
      [small, 16, 1],
      [small, 131, 2],
      [smallPair, 67, 5],
      [packed, 67, 5],
      [compact, 132, 3],
      [exact, 70, 2],
    ] as const) {
      it(`${parameters.name}, ${rows} rows, verified and multiplied at once, and later`, async () => {
        for (const residue of [mixed, () => largest]) {
          const shape = { parameters, rows, residue };
          const bytes = segmentBytes(blocksOf(shape, count));
          const sources = Array.from({ length: parameters.n < 1000 ? 20 : 2 }, () => ({ bytes, name: 'a' }));
          const [query] = queriesOf(shape, 1);
          await compare(sources, [query], kernels, 2);
        }
      });
    }

    // What one segment answers is made while others are multiplied.
    for (const [parameters, counts] of [
      [compact, [40, 3, 33, 64, 1, 35, 2]],
      [small, [64, 1, 2, 63, 5, 64, 33, 7, 64, 20, 3, 64]],
      [packed, [3, 64, 64, 1, 40]],
    ] as const)
      it(`${parameters.name}, one query, and segments of which each is another`, async () => {
        const rows = parameters === compact ? 16 : 70;
        let index = 0;
        const sources = counts.map((count, i) => {
          const width = rows - parameters.digits;
          const blocks = Array.from({ length: count }, () =>
            specimenBlock({ parameters, width, index: index++, residue: mixed(index) }),
          );
          return { bytes: segmentBytes(blocks), name: `segment ${i}` };
        });
        for (const threads of [1, 2, 5])
          await withKernel({ threads }, (kernel) => compare(sources, queriesOf({ parameters, rows }, 1), [kernel], 3));
        await compare(sources, queriesOf({ parameters, rows }, 1), kernels);
        await compare(sources, withMasks(queriesOf({ parameters, rows }, 2), 'aa'), kernels);
      });

    it('residues 0 and 1', async () => {
      for (const value of [0, 1]) {
        const shape = { parameters: smallPair, rows: 40, residue: () => () => value };
        await compare([{ bytes: segmentBytes(blocksOf(shape, 2)), name: 'a' }], queriesOf(shape, 2), kernels);
      }
    });

    for (const parameters of [small, packed]) {
      for (const blocks of [1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64]) {
        it(`${parameters.name}, ${blocks} blocks, and 1 to 9 queries`, async () => {
          const shape = { parameters, rows: 70 };
          const bytes = segmentBytes(blocksOf(shape, blocks));
          for (const queries of blocks < 10 ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : [1, 2, 3, 9])
            await compare([{ bytes, name: 'a' }], queriesOf(shape, queries), kernels);
        });
      }
    }

    it('the sets that are used, several segments of files and of memory', async () => {
      for (const [parameters, rows] of [
        [compact, 131],
        [exact, 35],
        [parameterSet('n_2048_logq_30_wide_5'), 132],
        [parameterSet('n_4096_logq_30_30_wide_4'), 35],
        [parameterSet('n_2048_logq_24_wide_5'), 134],
      ] as const) {
        const shape = { parameters, rows };
        const path = join(folder, `${parameters.name}.segment`);
        await buildSegment(path, blocksOf(shape, 5), 5);
        const sources = [
          { path },
          ...[1, 2].map((count) => ({ bytes: segmentBytes(blocksOf(shape, count)), name: 'b' })),
        ];
        await compare(sources, queriesOf(shape, 3), kernels);
      }
    });

    it('more queries than are answered in one pass', async () => {
      // Eight of these are, and each pass has a column that is left over.
      const shape = { parameters: exact, rows: 5 };
      const queries = withMasks(queriesOf(shape, 20), 'aaaaaaaabcbcbcbcbbbb');
      await compare([{ bytes: segmentBytes(blocksOf(shape, 64)), name: 'a' }], queries, kernels);
    });

    it('bytes that are not aligned, and that change after they were loaded', async () => {
      const shape = { parameters: small, rows: 19 };
      const bytes = segmentBytes(blocksOf(shape, 2));
      for (const kernel of kernels) {
        const shifted = Buffer.concat([Buffer.alloc(1), bytes]).subarray(1);
        const handle = await kernel.load({ bytes: shifted, name: 'shifted' });
        shifted.fill(0xff);
        const expected = await answers(new ReferenceKernel(), [{ bytes, name: 'a' }], queriesOf(shape, 1));
        for await (const { block, query, response } of kernel.scan([handle], queriesOf(shape, 1))) {
          assert.ok(expected.get(`segment 0, block ${block}, query ${query}`)!.equals(response));
        }
        await kernel.unload(handle);
      }
    });
  });

  describe('refuses', () => {
    const shape = { parameters: small, rows: 19 };
    const source = { bytes: segmentBytes(blocksOf(shape, 2)), name: 'gallery' };
    const drain = async (kernel: Kernel, handles: SegmentHandle[], queries: Query[], signal?: AbortSignal) => {
      let count = 0;
      for await (const _ of kernel.scan(handles, queries, signal ? { signal } : {})) count++;
      return count;
    };

    it('queries of another key or plan, and unknown handles', () =>
      withKernel({ threads: 1 }, async (kernel) => {
        const handle = await kernel.load(source);
        const [query] = queriesOf(shape, 1);
        const otherKey = { ...query, keyId: new Uint8Array(16) };
        await assert.rejects(drain(kernel, [handle], [otherKey]), { code: 'KEY_MISMATCH' });
        await assert.rejects(drain(kernel, [handle], [{ ...query, galleryScale: 7 }]), { code: 'BLOCK_MISMATCH' });
        await assert.rejects(drain(kernel, [handle], [{ ...query, rows: query.rows.subarray(1) }]), {
          code: 'MALFORMED',
        });
        await assert.rejects(drain(kernel, [handle], [{ ...query, bits1: 33 }]), { code: 'MALFORMED' });
        await assert.rejects(drain(kernel, [{ ...handle }], [query]), { code: 'INVALID_ARGUMENT' });
        assert.equal(await drain(kernel, [handle], []), 0);
        assert.equal(await drain(kernel, [], [query]), 0);
        await kernel.unload(handle);
        await kernel.unload(handle);
        await assert.rejects(drain(kernel, [handle], [query]), /gallery is not loaded/);
      }));

    it('a wrong number of threads, and an instruction set nobody has', () => {
      for (const threads of [0, 1.5, -1, Number.NaN])
        assert.throws(() => NativeKernel.open({ threads }), { code: 'INVALID_ARGUMENT' });
      assert.throws(() => NativeKernel.open({ isa: 'mmx' as Isa }), /no code for mmx; it has .*generic/);
      assert.throws(() => NativeKernel.open({ addon: join(folder, 'none.node') }), /there is no addon for/);
    });

    it('anything after it was closed', async () => {
      const kernel = NativeKernel.open({ threads: 1 });
      const handle = await kernel.load(source);
      await kernel.close();
      await kernel.close();
      await assert.rejects(kernel.load(source), /closed/);
      await assert.rejects(drain(kernel, [handle], queriesOf(shape, 1)), /closed/);
    });

    it('a damaged part, by its name, as often as it is asked', () =>
      withKernel({ threads: 2 }, async (kernel) => {
        const intact = await kernel.load(source);
        const path = join(folder, 'damaged.segment');
        const { dataAt, partBytes, partChecksums } = await buildSegment(path, blocksOf(shape, 2), 2);
        const bytes = await readFile(path);
        // Two are verified together: each place of a pair, and the last.
        for (const part of [2, 3, partChecksums.length - 1]) {
          const damaged = Uint8Array.from(bytes);
          damaged[dataAt + (part + 1) * partBytes - 1] ^= 0xa5;
          await writeFile(path, damaged);
          const handle = await kernel.load({ path });
          for (let i = 0; i < 2; i++) {
            await assert.rejects(drain(kernel, [intact, handle], queriesOf(shape, 2)), (error: HersError) => {
              assert.equal(error.code, 'DAMAGED');
              assert.match(error.message, new RegExp(`^\\S+damaged\\.segment is damaged in part ${part}\\b`));
              return true;
            });
          }
          await kernel.unload(handle);
        }
        assert.equal(await drain(kernel, [intact], queriesOf(shape, 2)), 4);
      }));

    it('a damaged part of any place, by one query and by several', async () => {
      for (const [parameters, places] of [
        [compact, [0, 1, 2, 63, 64, 126, 127]],
        [exact, [255, 256, 511]],
      ] as const) {
        const shape = { parameters, rows: 5 };
        const whole = segmentBytes(blocksOf(shape, 1));
        const partBytes = 5 * 4 * LANES;
        const dataAt = whole.length - partCount(parameters) * partBytes;
        for (const isa of isas)
          await withKernel({ isa, threads: 1 }, async (kernel) => {
            for (const place of places)
              for (const count of [1, 2]) {
                const bytes = new Uint8Array(whole);
                bytes[dataAt + place * partBytes + ((37 * place) % partBytes)] ^= 1;
                const handle = await kernel.load({ bytes, name: 'torn' });
                const answered = Array.fromAsync(kernel.scan([handle], queriesOf(shape, count)));
                await assert.rejects(answered, { code: 'DAMAGED', message: new RegExp(`part ${place}\\b`) }, isa);
                await kernel.unload(handle);
              }
          });
      }
    });

    it('a file that is too short, and one that became so', () =>
      withKernel({ threads: 2 }, async (kernel) => {
        const path = join(folder, 'long.segment');
        const header = await buildSegment(path, blocksOf(shape, 2), 2);
        const short = join(folder, 'short.segment');
        await copyFile(path, short);
        await truncate(short, header.fileBytes - 1);
        await assert.rejects(kernel.load({ path: short }), { code: 'DAMAGED' });
        await truncate(short, 100);
        await assert.rejects(kernel.load({ path: short }), { code: 'MALFORMED' });
        await assert.rejects(kernel.load({ path: join(folder, 'none') }), { code: 'ENOENT' });
        const handle = await kernel.load({ path });
        assert.equal(await drain(kernel, [handle], queriesOf(shape, 1)), 2);
        await truncate(path, header.dataAt);
        for (let i = 0; i < 20; i++)
          await assert.rejects(
            drain(kernel, [handle, handle], queriesOf(shape, 3)),
            /ends too soon: it was cut while it was open/,
          );
      }));
  });

  describe('in the course of a scan', () => {
    /** Large enough to take a while: every part of it zero. */
    async function zeroSegment(name: string, rows: number): Promise<{ path: string; bytes: number }> {
      const path = join(folder, name);
      const blocks = Array.from({ length: 64 }, (_, i) => ({
        blockId: new Uint8Array(16).fill(i),
        first: 0,
        count: compact.n,
      }));
      const parts = partCount(compact);
      const dataAt = dataOffset(blocks.length, parts);
      const partBytes = rows * blocks.length * 4 * LANES;
      const fileBytes = dataAt + parts * partBytes;
      const partChecksums = new BigUint64Array(parts).fill(checksum(new Uint8Array(partBytes)));
      const { block } = specimenBlock({ parameters: compact, width: 1, index: 0, residue: largest });
      const { keyId, galleryScale } = block;
      const width = rows - compact.digits;
      const header = {
        parameters: compact,
        keyId,
        width,
        rows,
        galleryScale,
        blocks,
        partChecksums,
        dataAt,
        partBytes,
        fileBytes,
      };
      const file = await open(path, 'w');
      await file.write(encodeHeader(header), 0, dataAt, 0);
      await file.truncate(fileBytes);
      await file.close();
      return { path, bytes: fileBytes };
    }
    const rows = 131;
    const queries = (count: number) => queriesOf({ parameters: compact, rows }, count);
    let path: string;
    before(async () => {
      ({ path } = await zeroSegment('zero.segment', rows));
    });

    it('an abort ends it within 50 ms, with the reason of the signal', () =>
      withKernel({ threads: 2 }, async (kernel) => {
        const handle = await kernel.load({ path });
        const reason = new Error('enough');
        const many = Array.from({ length: 40 }, () => handle);
        const attempt = async (delay: number): Promise<number> => {
          const controller = new AbortController();
          let aborted = Number.NaN;
          setTimeout(() => {
            aborted = performance.now();
            controller.abort(reason);
          }, delay);
          await assert.rejects(async () => {
            for await (const _ of kernel.scan(many, queries(8), { signal: controller.signal }));
          }, reason);
          return performance.now() - aborted;
        };
        for (const delay of [0, 5, 60]) {
          // On a busy machine, one of three is enough.
          const times = [await attempt(delay)];
          while (Math.min(...times) >= 50 && times.length < 3) times.push(await attempt(delay));
          assert.ok(Math.min(...times) < 50, `it took ${times} ms`);
        }
        const signal = AbortSignal.abort(reason);
        await assert.rejects(async () => {
          for await (const _ of kernel.scan([handle], queries(1), { signal }));
        }, reason);
      }));

    it('passing responses are the same, and their memory is freed when what follows is asked for', () =>
      withKernel({}, async (kernel) => {
        const shape = { parameters: compact, rows: 20 };
        const bytes = segmentBytes(blocksOf(shape, 60));
        const handles = [await kernel.load({ bytes, name: 'one' }), await kernel.load({ bytes, name: 'two' })];
        const queries = queriesOf(shape, 2);
        const found = async (passing: boolean) => {
          const all = new Map<string, Uint8Array>();
          const buffers = new Set<ArrayBufferLike>();
          for await (const { handle, block, query, response } of kernel.scan(handles, queries, { passing })) {
            all.set(`${handle.name} ${block} ${query}`, response.slice());
            buffers.add(response.buffer);
          }
          return {
            all: new Map([...all].sort()),
            kept: [...buffers].filter(({ byteLength }) => byteLength > 0).length,
          };
        };
        const [held, passing] = [await found(false), await found(true)];
        assert.deepEqual(passing.all, held.all);
        assert.ok(held.kept > 1, `${held.kept}`);
        assert.equal(passing.kept, 0);
      }));

    it('a batch is as large as responses are, whatever the first query asks for', () =>
      withKernel({ threads: 2 }, async (kernel) => {
        const handle = await kernel.load({ path });
        const wide = queries(8).map((query, i) =>
          i === 0 ? { ...query, bits0: 1, bits1: 1 } : { ...query, bits0: 32, bits1: 32 },
        );
        const perBlock = 8 * (88 + 8 * compact.n);
        for await (const batch of kernel.batches([handle], wide))
          assert.ok(batch[0].response.buffer.byteLength <= Math.max(2 ** 18, perBlock));
      }));

    it('leaving the loop ends it, and what it used can be unloaded', () =>
      withKernel({ threads: 2 }, async (kernel) => {
        const handle = await kernel.load({ path });
        for await (const _ of kernel.scan(
          Array.from({ length: 100 }, () => handle),
          queries(8),
        ))
          break;
        const start = performance.now();
        await kernel.unload(handle);
        assert.ok(performance.now() - start < 500);
      }));

    it('unloading waits for it, and nothing new is begun', () =>
      withKernel({ threads: 2 }, async (kernel) => {
        const handle = await kernel.load({ path });
        let unloaded = false;
        let unloading: Promise<void> | undefined;
        let count = 0;
        // More responses than may wait to be read, so that it cannot be over while the first are.
        const many = Array.from({ length: 20 }, () => handle);
        for await (const _ of kernel.scan(many, queries(1))) {
          unloading ??= kernel.unload(handle).then(() => {
            unloaded = true;
          });
          // The last results may already have arrived when the threads are done.
          if (count++ < 32) assert.ok(!unloaded);
        }
        assert.equal(count, 20 * 64);
        await unloading;
        await assert.rejects(async () => {
          for await (const _ of kernel.scan([handle], queries(1)));
        }, /not loaded/);
      }));

    it('closing the kernel ends it with an error', async () => {
      const kernel = NativeKernel.open({ threads: 2 });
      const handle = await kernel.load({ path });
      await assert.rejects(async () => {
        for await (const _ of kernel.scan(
          Array.from({ length: 100 }, () => handle),
          queries(2),
        ))
          void kernel.close();
      }, /closed/);
      await kernel.close();
    });

    it('another one can be run to its end while it waits for its consumer', () =>
      withKernel({ threads: 2 }, async (kernel) => {
        const handle = await kernel.load({ path });
        let outer = 0;
        for await (const _ of kernel.scan(
          Array.from({ length: 20 }, () => handle),
          queries(8),
        )) {
          if (outer++ > 2) break;
          let inner = 0;
          for await (const _ of kernel.scan([handle, handle], queries(1))) inner++;
          assert.equal(inner, 128);
        }
      }));

    it('a slow consumer holds it up, and memory stays where it is', { skip: !existsStatus() }, () =>
      withKernel({ threads: 2 }, async (kernel) => {
        const handle = await kernel.load({ path });
        const many = Array.from({ length: 64 }, () => handle);
        const before = anonymousBytes();
        let count = 0;
        for await (const _ of kernel.scan(many, queries(2))) {
          if (++count > 1) continue;
          await sleep(300);
          assert.equal(kernel.times, undefined, 'it is not done yet');
          const grown = anonymousBytes() - before;
          assert.ok(grown < 100e6, `${grown} bytes more`);
        }
        assert.equal(count, 2 * 64 * 64);
      }),
    );

    it('the event loop goes on', () =>
      withKernel({ threads: 1 }, async (kernel) => {
        const handle = await kernel.load({ path });
        // The CPU time of this thread between two turns, because other processes take their share
        // of the machine.
        const spent = () => {
          const { user, system } = process.threadCpuUsage();
          return (user + system) / 1000;
        };
        let longest = 0;
        let turns = 0;
        let last = spent();
        const timer = setInterval(() => {
          const now = spent();
          longest = Math.max(longest, now - last);
          last = now;
          turns++;
        }, 1);
        for await (const _ of kernel.scan(
          Array.from({ length: 30 }, () => handle),
          queries(3),
        ));
        clearInterval(timer);
        assert.ok(turns > 10, `${turns} turns`);
        assert.ok(longest < 50, `it stood still for ${longest} ms`);
      }));

    it('files larger than the memory it may take are scanned', { skip: !existsStatus() }, () =>
      withKernel({ threads: 2 }, async (kernel) => {
        const large = await zeroSegment('large.segment', 512);
        const handle = await kernel.load({ path: large.path });
        assert.ok(large.bytes > 250e6);
        const before = anonymousBytes();
        let most = 0;
        for await (const _ of kernel.scan([handle, handle], queriesOf({ parameters: compact, rows: 512 }, 1))) {
          most = Math.max(most, anonymousBytes() - before);
        }
        assert.ok(most < 64e6, `${most} bytes of anonymous memory for ${large.bytes} of data`);
        await kernel.unload(handle);
      }),
    );

    it('after 200 of them the process is as large as before', { skip: !existsStatus() }, () =>
      withKernel({ threads: 2 }, async (kernel) => {
        const shape = { parameters: compact, rows: 35 };
        const bytes = segmentBytes(blocksOf(shape, 8));
        const run = async () => {
          const handle = await kernel.load({ bytes, name: 'a' });
          for await (const _ of kernel.scan([handle], queriesOf(shape, 2)));
          await kernel.unload(handle);
        };
        for (let i = 0; i < 60; i++) await run();
        const before = anonymousBytes();
        for (let i = 0; i < 200; i++) await run();
        const grown = anonymousBytes() - before;
        // Each one moves 10 MB, so a leak would show.
        assert.ok(grown < 60e6, `${grown} bytes more`);
      }),
    );
  });

  it('lives in several worker threads, also in one that is terminated', async () => {
    const shape = { parameters: compact, rows: 35 };
    const path = join(folder, 'workers.segment');
    await buildSegment(path, blocksOf(shape, 6), 6);
    const url = (file: string) => JSON.stringify(pathToFileURL(join(import.meta.dirname, file)).href);
    const code = `
      import { parentPort } from 'node:worker_threads';
      const { parameterSet } = await import(${JSON.stringify(import.meta.resolve('@hers/scheme'))});
      const { NativeKernel } = await import(${url('native.ts')});
      const { mixed, specimenQuery } = await import(${url('../specimen.ts')});
      const parameters = parameterSet('n_2048_logq_30_wide_5');
      const queries = [100, 101].map((seed, index) => specimenQuery({ parameters, width: ${shape.rows - compact.digits}, index, residue: mixed(seed) }));
      const kernel = NativeKernel.open({ threads: 2 });
      const handle = await kernel.load({ path: ${JSON.stringify(path)} });
      for (let round = 0; ; round++) {
        let sum = 0;
        for await (const { response } of kernel.scan([handle, handle, handle], queries)) sum += response.length;
        if (round === 5) parentPort.postMessage(sum);
      }
    `;
    const start = () => new Worker(code, { eval: true, execArgv: ['--input-type=module'] });
    const workers = [start(), start(), start()];
    const sums = await Promise.all(
      workers.map((worker) => new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))),
    );
    assert.equal(new Set(sums).size, 1);
    // They are in the middle of another scan now.
    await Promise.all(workers.map((worker) => worker.terminate()));
    const [query] = queriesOf(shape, 1);
    await withKernel({ threads: 1 }, (kernel) => compare([{ path }], [query], [kernel]));
  });
});

function existsStatus(): boolean {
  return process.platform === 'linux';
}

/** Memory of the process that is not backed by a file. */
function anonymousBytes(): number {
  const [, kilobytes] = /^RssAnon:\s*(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))!;
  return 1024 * Number(kilobytes);
}
