// `npm run bench -- scan`: the server's work for a query, compared with reading the same bytes and
// with a plaintext search of the same shape.
//
// The gallery consists of random residues, which no kernel can tell from a real one, in segment
// files that are mapped as in production.

import { mkdtemp, open, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { progress, type Report, type Result } from '@hers/paper/lab/report';
import { randomSeed } from '@hers/ring';
import { batchesOf, type SegmentHandle, segmentBlocks, segmentBytes, WasmKernel } from '@hers/scan';
import { NativeKernel } from '@hers/scan/native';
import {
  type BlockMatrix,
  HersError,
  type ParameterSet,
  type Plan,
  type Profile,
  plan,
  polyWords,
  type Query,
  ringOf,
} from '@hers/scheme';
import { machine } from '@hers/vectors/machine';
import { faissMissing, faissSearch } from './faiss.ts';
import { Yardsticks } from './yardsticks.ts';

const BATCH = 8;
/** How often the gallery is opened, to be scanned for the first time. */
const FIRSTS = 3;
const HUGE_PAGE = 2 ** 21;

export interface ScanBenchOptions {
  readonly count?: string;
  readonly dimension?: string;
  readonly profile?: string;
  readonly runs?: string;
  /** Instructions of the native kernel and of the search in the clear. */
  readonly isa?: string;
  /** Only the requested dimension. */
  readonly alone?: boolean;
  readonly folder?: string;
}

export async function run(options: ScanBenchOptions): Promise<Report> {
  const count = positive(options.count ?? '1000000', 'count');
  const dimension = positive(options.dimension ?? '128', 'dimension');
  const runs = positive(options.runs ?? '21', 'runs');
  const profile = (options.profile ?? 'compact') as Profile;
  const settings = plan({ dimension, profile });
  const { results, kernel } = await measure(count, settings, runs, options);
  // The targets are for three dimensions; the two beside 128 are measured too, under names of their
  // own.
  if (dimension === 128 && !options.alone) {
    for (const other of [32, 512]) {
      const more = await measure(count, plan({ dimension: other, profile }), runs, options);
      results.push(
        ...more.results.map(({ name, against, ...rest }) => ({
          name: `${name}-d${other}`,
          ...rest,
          ...(against ? { against: `${against}-d${other}` } : {}),
        })),
      );
    }
  }
  const { n } = settings.parameters;
  return {
    bench: 'scan',
    parameters: {
      count,
      dimension,
      profile,
      rows: settings.rows,
      blocks: Math.ceil(count / n),
      kernel,
      threads: availableParallelism(),
      runs,
    },
    machine: machine(),
    results,
  };
}

function positive(text: string, name: string): number {
  const value = Number(text);
  if (!(Number.isInteger(value) && value > 0))
    throw new HersError('INVALID_ARGUMENT', `--${name} takes a positive whole number`);
  return value;
}

/** A block of uniform residues. */
function randomBlock(parameters: ParameterSet, width: number): BlockMatrix {
  const ring = ringOf(parameters);
  const words = polyWords(parameters);
  const key = randomSeed();
  const fill = (rows: number, domain: number) => {
    const out = new Uint32Array(rows * words);
    for (let row = 0; row < rows; row++) {
      ring.uniform(ring.polys[0], { key, domain, index: row });
      out.set(ring.polys[0].residues, row * words);
    }
    return out;
  };
  const block = {
    parameters,
    keyId: new Uint8Array(16),
    blockId: new Uint8Array(16),
    width,
    first: 0,
    count: parameters.n,
    galleryScale: 1024,
    seed: key,
    rows: fill(width, 1),
  };
  return { block, maskRows: fill(parameters.digits, 2) };
}

/** The queries of one key have one seed: that of their masks. */
function randomQuery(
  parameters: ParameterSet,
  width: number,
  bits: { c0: number; c1: number },
  seed = randomSeed(),
): Query {
  const { block, maskRows } = randomBlock(parameters, width);
  const rows = new Uint32Array(block.rows.length + maskRows.length);
  rows.set(block.rows);
  rows.set(maskRows, block.rows.length);
  return {
    parameters,
    keyId: block.keyId,
    queryId: randomSeed().slice(0, 16),
    width,
    galleryScale: 1024,
    bits0: bits.c0,
    bits1: bits.c1,
    seed,
    rows,
  };
}

/**
 * Segment files for this many blocks. Files of one size hold the same residues, but their pages are
 * different.
 */
async function writeGallery(
  folder: string,
  parameters: ParameterSet,
  width: number,
  blocks: number,
): Promise<string[]> {
  const each = segmentBlocks(parameters, width);
  const base = Array.from({ length: Math.min(each, blocks) }, () => randomBlock(parameters, width));
  const full = segmentBytes(base);
  const paths: string[] = [];
  for (let left = blocks; left > 0; left -= each) {
    const path = join(folder, `${paths.length}.segment`);
    await writeAsBuilt(path, left >= each ? full : segmentBytes(base.slice(0, left)));
    paths.push(path);
    if (paths.length % 100 === 0) progress(`  ${blocks - left + each} of ${blocks} blocks written`);
  }
  return paths;
}

/** In pieces of a huge page, as `buildSegment` makes room for a segment. */
async function writeAsBuilt(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, 'wx');
  try {
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = await file.write(bytes, at, Math.min(HUGE_PAGE, bytes.length - at), at);
      at += bytesWritten;
    }
  } finally {
    await file.close();
  }
}

const minimum = (values: readonly number[]) => Math.min(...values);
const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1];

async function repeat(runs: number, action: () => Promise<number>): Promise<number[]> {
  const out: number[] = [];
  for (let i = 0; i < runs; i++) out.push(await action());
  return out;
}

async function measure(
  count: number,
  { parameters, dimension, width, responseBits }: Plan,
  runs: number,
  { folder: where, isa: wanted }: ScanBenchOptions,
): Promise<{ results: Result[]; kernel: string }> {
  const blocks = Math.ceil(count / parameters.n);
  const folder = await mkdtemp(join(where ?? tmpdir(), 'hers-bench-'));
  const cores = availableParallelism();
  const isa = wanted as NativeKernel['isa'] | undefined;
  const one = NativeKernel.open({ threads: 1, isa });
  const all = NativeKernel.open({ threads: cores, isa });
  const wasm = await WasmKernel.open({ threads: 1 });
  const yardsticks = await Yardsticks.open(one.isa);
  try {
    progress(`d = ${dimension}: writing ${blocks} blocks`);
    const paths = await writeGallery(folder, parameters, width, blocks);
    const load = (kernel: NativeKernel | WasmKernel) => Promise.all(paths.map((path) => kernel.load({ path })));
    const [masks, ...apart] = Array.from({ length: BATCH }, () => randomQuery(parameters, width, responseBits));
    const queries = Array.from({ length: BATCH }, () => randomQuery(parameters, width, responseBits, masks.seed));
    const results: Result[] = [];
    const add = (name: string, values: readonly number[], against?: Result) => {
      const value = minimum(values);
      const result: Result = {
        name,
        value,
        unit: 'ms',
        ...(against ? { ratio: against.value / value, against: against.name } : {}),
      };
      results.push(result, { name: `${name}-median`, value: median(values), unit: 'ms' });
      return result;
    };

    progress('  plain read, multiply-accumulate and whole search, one thread');
    const onOne = await load(one);
    const bytes = onOne.reduce((sum, { header }) => sum + header.partBytes * header.partChecksums.length, 0);
    // In memory from the beginning, so that every round can search them too.
    const plain = count * dimension * 4 < 8e9 ? yardsticks.plaintext(count, dimension) : undefined;
    // Verifies checksums and maps pages: what the first search after opening costs. The first
    // opening fills the page cache, and starts what a process starts once.
    const firsts = async (kernel: NativeKernel, handles: SegmentHandle[]) => {
      const times: number[] = [];
      for (let i = 0; i < FIRSTS; i++) {
        if (i > 0) {
          for (const handle of handles) await kernel.unload(handle);
          handles.splice(0, handles.length, ...(await load(kernel)));
        }
        times.push(await scanOnce(kernel, handles, queries.slice(0, 1)));
      }
      return minimum(times);
    };
    const first = await firsts(one, onOne);
    const segments = await yardsticks.map(paths);
    segments.readSeconds(cores, 1);
    // Pages are mapped by now. Reading, multiplying and searching in the clear alternate, so that
    // all see the same machine.
    const [reads, macs, wholes, shares, plains] = [[], [], [], [], []] as number[][];
    for (let i = 0; i < runs; i++) {
      reads.push(...segments.readSeconds(1, 1).map((s) => 1000 * s));
      const times = await one.multiplyOnly(onOne, queries.slice(0, 1));
      macs.push(times.untilEnd - times.untilMultiply);
      if (plain) plains.push(...plain.searchSeconds(1, 1).map((s) => 1000 * s));
      wholes.push(await scanOnce(one, onOne, queries.slice(0, 1)));
      const last = one.times!;
      shares.push(last.respond / (last.expand + last.multiply + last.respond));
    }
    const read1 = add('plain-read-1', reads);
    const native1 = add('native-1', macs, read1);
    for (const handle of onOne) await one.unload(handle);

    progress('  all cores, and a batch');
    const onAll = await load(all);
    const firstAll = await firsts(all, onAll);
    const [readsAll, macsAll, singles, plainsAll] = [[], [], [], []] as number[][];
    const [batches, aparts, ceilings, sharedCeilings] = [[], [], [], []] as number[][];
    for (let i = 0; i < runs; i++) {
      readsAll.push(...segments.readSeconds(cores, 1).map((s) => 1000 * s));
      const times = await all.multiplyOnly(onAll, queries.slice(0, 1));
      macsAll.push(times.untilEnd - times.untilMultiply);
      if (plain) plainsAll.push(...plain.searchSeconds(cores, 1).map((s) => 1000 * s));
      singles.push(await scanOnce(all, onAll, queries.slice(0, 1)));
      batches.push(await scanOnce(all, onAll, queries));
      aparts.push(await scanOnce(all, onAll, [masks, ...apart]));
      // What multiplying alone would take, beside what it is the limit of: where threads share a
      // core for a while, as those of a virtual machine may, it takes twice as long. First for a
      // mask and a body of each query, then for the columns that queries of one key have.
      for (const [times, pairs] of [
        [ceilings, BATCH],
        [sharedCeilings, (BATCH + 1) / 2],
      ] as const)
        times.push((1000 * pairs * bytes) / yardsticks.multiplyCeiling(parameters, Math.ceil(pairs), cores, 1));
    }
    const readAll = add('plain-read-all', readsAll);
    const nativeAll = add('native-all', macsAll, readAll);
    segments.close();
    for (const handle of onAll) await all.unload(handle);

    progress('  WebAssembly');
    const onWasm = await load(wasm);
    await scanOnce(wasm, onWasm, queries.slice(0, 1));
    const wasmTimes = await repeat(Math.min(runs, 7), async () => {
      const before = wasm.times.multiply;
      await scanOnce(wasm, onWasm, queries.slice(0, 1));
      return wasm.times.multiply - before;
    });
    add('wasm-1', wasmTimes, read1);
    for (const handle of onWasm) await wasm.unload(handle);

    const whole = minimum(wholes);
    results.push(
      { name: 'search-1', value: whole, unit: 'ms' },
      { name: 'search-all', value: minimum(singles), unit: 'ms' },
      { name: 'first-scan-1', value: first, unit: 'ms', ratio: first / whole, against: 'search-1' },
      {
        name: 'first-scan-all',
        value: firstAll,
        unit: 'ms',
        ratio: firstAll / minimum(singles),
        against: 'search-all',
      },
    );
    if (plain) {
      const plain1 = { name: 'plaintext-f32-1', value: minimum(plains), unit: 'ms' };
      const plainAll = { name: 'plaintext-f32-all', value: minimum(plainsAll), unit: 'ms' };
      results.push(plain1, plainAll);
      const blas = plain.blasSeconds(runs);
      plain.close();
      if (blas.length > 0) results.push({ name: 'plaintext-openblas-1', value: 1000 * minimum(blas), unit: 'ms' });
      results.push(...(await faiss(count, dimension, cores, runs)));
      const over = (name: string, value: number, against: Result) => {
        const ratio = value / against.value;
        results.push({ name, value: ratio, unit: 'x', ratio, against: against.name });
      };
      over('encrypted-over-plaintext-1', native1.value, plain1);
      over('encrypted-over-plaintext-all', nativeAll.value, plainAll);
      over('search-server-1', whole, plain1);
    }
    results.push(
      { name: 'post-processing-share', value: minimum(shares), unit: 'share' },
      {
        name: 'batch-8-speedup',
        value: (BATCH * minimum(singles)) / minimum(batches),
        unit: 'x',
        ratio: (BATCH * minimum(singles)) / minimum(batches),
        against: 'search-all',
      },
      {
        name: 'batch-8-ceiling',
        value: (BATCH * minimum(singles)) / minimum(ceilings),
        unit: 'x',
        ratio: minimum(ceilings) / minimum(batches),
        against: 'batch-8-speedup',
      },
      { name: 'batch-8', value: minimum(batches), unit: 'ms' },
      {
        name: 'batch-8-columns',
        value: minimum(sharedCeilings),
        unit: 'ms',
        ratio: minimum(sharedCeilings) / minimum(batches),
        against: 'batch-8',
      },
      {
        name: 'batch-8-apart',
        value: minimum(aparts),
        unit: 'ms',
        ratio: minimum(aparts) / minimum(batches),
        against: 'batch-8',
      },
      { name: 'bytes-read', value: bytes, unit: 'bytes' },
      { name: 'native-1-bandwidth', value: bytes / native1.value / 1e6, unit: 'GB/s' },
      { name: 'plain-read-1-bandwidth', value: bytes / read1.value / 1e6, unit: 'GB/s' },
      { name: 'native-all-bandwidth', value: bytes / minimum(macsAll) / 1e6, unit: 'GB/s' },
      { name: 'seconds-per-query', value: minimum(singles) / 1000, unit: 's' },
    );
    return { results, kernel: `native ${all.detail}` };
  } finally {
    await Promise.all([one.close(), all.close(), wasm.close()]);
    await rm(folder, { recursive: true, force: true });
  }
}

/** The same search in the clear by Faiss, where it is installed. */
async function faiss(count: number, dimension: number, cores: number, runs: number): Promise<Result[]> {
  const missing = faissMissing();
  if (missing) progress(`  without Faiss: ${missing}`);
  if (missing) return [];
  progress('  Faiss');
  const results: Result[] = [];
  for (const [name, threads] of [
    ['faiss-flat-1', 1],
    ['faiss-flat-all', cores],
  ] as const) {
    const { seconds } = await faissSearch(count, dimension, threads, runs);
    results.push({ name, value: 1000 * minimum(seconds), unit: 'ms' });
  }
  return results;
}

/** Milliseconds from the call to the last response. */
async function scanOnce(
  kernel: NativeKernel | WasmKernel,
  handles: readonly SegmentHandle[],
  queries: readonly Query[],
): Promise<number> {
  const start = performance.now();
  let responses = 0;
  // As a client takes them from a folder: what was read is not kept.
  for await (const batch of batchesOf(kernel, handles, queries, { passing: true })) responses += batch.length;
  const expected = handles.reduce((sum, handle) => sum + handle.header.blocks.length, 0) * queries.length;
  if (responses !== expected) throw new Error(`${responses} responses instead of ${expected}`);
  return performance.now() - start;
}
