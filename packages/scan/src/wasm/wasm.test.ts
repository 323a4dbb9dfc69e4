import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, open, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { HersError, PARAMETER_SETS, type ParameterSet, parameterSet, type Query } from '@hers/scheme';
import { segmentBytes } from '../builder.ts';
import type { Kernel, ScanOptions, SegmentHandle, SegmentSource } from '../kernel.ts';
import { ReferenceKernel } from '../reference.ts';
import { largest, mixed, type Residue, specimenBlock, specimenQuery } from '../specimen.ts';
import { WasmKernel } from './wasm.ts';

const small = parameterSet('insecure_n_64_logq_30_wide_5');
const smallPair = parameterSet('insecure_n_64_logq_30_30_wide_4');
const compact = parameterSet('n_2048_logq_30_wide_5');
const exact = parameterSet('n_4096_logq_30_30_wide_4');

const packed = parameterSet('insecure_n_64_logq_24_wide_5');
const tiny = Object.values(PARAMETER_SETS).filter(({ n }) => n < 1000);

let folder: string;
let one: WasmKernel;
let two: WasmKernel;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hers-wasm-'));
  [one, two] = await Promise.all([WasmKernel.open({ threads: 1 }), WasmKernel.open({ threads: 2 })]);
});
after(async () => {
  await Promise.all([one.close(), two.close()]);
  await rm(folder, { recursive: true });
});

interface Case {
  readonly parameters: ParameterSet;
  /** Rows of a block: its width and the digits of the mask. */
  readonly rows: number;
  /** Of each segment. */
  readonly blocks?: readonly number[];
  readonly queries?: number;
  readonly residue?: (index: number) => Residue;
}

function segmentsOf({ parameters, rows, blocks = [1], residue = mixed }: Case): Uint8Array[] {
  let index = 0;
  return blocks.map((count) =>
    segmentBytes(
      Array.from({ length: count }, () =>
        specimenBlock({ parameters, width: rows - parameters.digits, index: index++, residue: residue(index) }),
      ),
    ),
  );
}

function queriesOf({ parameters, rows, queries = 1, residue = mixed }: Case): Query[] {
  const bits = [
    [11, 16],
    [22, 28],
    [1, 32],
    [32, 32],
    [7, 13],
  ];
  return Array.from({ length: queries }, (_, index) => {
    const [bits0, bits1] = bits[index % bits.length];
    const width = rows - parameters.digits;
    return specimenQuery({ parameters, width, index, residue: residue(1000 + index) }, bits0, bits1);
  });
}

/** All responses by their place. */
async function scanAll(kernel: Kernel, handles: SegmentHandle[], queries: Query[]): Promise<Map<string, Buffer>> {
  const found = new Map<string, Buffer>();
  for await (const { handle, block, query, response } of kernel.scan(handles, queries)) {
    const place = `segment ${handles.indexOf(handle)}, block ${block}, query ${query}`;
    assert.ok(!found.has(place), `${place} comes twice`);
    found.set(place, Buffer.from(response));
  }
  return found;
}

async function withLoaded<T>(kernel: Kernel, sources: SegmentSource[], use: (handles: SegmentHandle[]) => Promise<T>) {
  const handles = await Promise.all(sources.map((source) => kernel.load(source)));
  try {
    return await use(handles);
  } finally {
    await Promise.all(handles.map((handle) => kernel.unload(handle)));
  }
}

async function checkAgreement(test: Case, kernels: readonly WasmKernel[] = [one, two]): Promise<void> {
  const queries = queriesOf(test);
  const sources = segmentsOf(test).map((bytes, i) => ({ bytes, name: `segment ${i}` }));
  const reference = new ReferenceKernel();
  const expected = await withLoaded(reference, sources, (handles) => scanAll(reference, handles, queries));
  for (const kernel of kernels) {
    const found = await withLoaded(kernel, sources, (handles) => scanAll(kernel, handles, queries));
    assert.equal(found.size, expected.size);
    for (const [place, response] of expected) {
      assert.ok(found.get(place)!.equals(response), `${place} differs, ${kernel.detail}`);
    }
  }
}

describe('the WebAssembly kernel answers as the reference does', () => {
  for (const rows of [4, 5, 7, 8, 9, 10, 15, 16, 17, 31, 64, 65, 67, 128, 131, 200]) {
    it(`with ${rows} rows, on mixed and on the largest residues`, async () => {
      for (const parameters of tiny) {
        if (rows <= parameters.digits) continue;
        await checkAgreement({ parameters, rows, blocks: [3], queries: 2 });
        await checkAgreement({ parameters, rows, blocks: [2], queries: 2, residue: () => largest });
      }
    });
  }
  it('with 4100 rows', async () => {
    await checkAgreement({ parameters: smallPair, rows: 4100, blocks: [2, 1], queries: 2 });
    await checkAgreement({ parameters: small, rows: 4100, blocks: [5], residue: () => largest });
    await checkAgreement({ parameters: packed, rows: 4103, blocks: [5], residue: () => largest });
    await checkAgreement({ parameters: exact, rows: 4100, residue: () => largest }, [two]);
  });
  it('under the real parameter sets', async () => {
    await checkAgreement({ parameters: compact, rows: 131, blocks: [3, 1], queries: 2 });
    await checkAgreement({ parameters: compact, rows: 64, blocks: [2], residue: () => largest });
    await checkAgreement({ parameters: compact, rows: 17, blocks: [9], residue: () => largest });
    await checkAgreement({ parameters: exact, rows: 67, blocks: [2, 1], queries: 2 });
    await checkAgreement({ parameters: exact, rows: 16, blocks: [3], queries: 3, residue: () => largest });
    for (const set of ['n_2048_logq_30_wide_5', 'n_4096_logq_30_30_wide_4', 'n_2048_logq_24_wide_5']) {
      const parameters = parameterSet(set);
      await checkAgreement({ parameters, rows: 134, blocks: [2, 1], queries: 2 });
      await checkAgreement({ parameters, rows: 17, blocks: [9], residue: () => largest });
    }
  });
  it('with 1, 2, 3, 63 and 64 blocks in many segments', async () => {
    for (const parameters of [small, smallPair, packed])
      await checkAgreement({ parameters, rows: 67, blocks: [1, 2, 3, 63, 64, 1, 2] });
  });
  it('with 1, 2, 3, 8 queries, and with more than fit into a pass', async () => {
    for (const queries of [1, 2, 3, 8, 70])
      for (const parameters of [smallPair, packed])
        await checkAgreement({ parameters, rows: 19, blocks: [5, 2], queries });
  });
  it('with nothing to do', async () => {
    const test = { parameters: small, rows: 5 };
    const [bytes] = segmentsOf(test);
    assert.equal((await scanAll(two, [], queriesOf(test))).size, 0);
    await withLoaded(two, [{ bytes, name: 'a' }], async (handles) => {
      assert.equal((await scanAll(two, handles, [])).size, 0);
    });
  });
  it('from files, and from a Buffer at an odd place', async () => {
    const test = { parameters: smallPair, rows: 131, blocks: [17] };
    const [bytes] = segmentsOf(test);
    const path = join(folder, 'agreement.segment');
    await writeFile(path, bytes);
    const shifted = Buffer.concat([Buffer.alloc(3), bytes]).subarray(3);
    const queries = queriesOf(test);
    const reference = new ReferenceKernel();
    const expected = await withLoaded(reference, [{ path }], (handles) => scanAll(reference, handles, queries));
    for (const source of [{ path }, { bytes: shifted, name: 'shifted' }]) {
      for (const kernel of [one, two])
        assert.deepEqual(await withLoaded(kernel, [source], (handles) => scanAll(kernel, handles, queries)), expected);
    }
  });
});

/** A gallery that keeps a thread busy for some tenths of a second: one segment many times. */
const long: Case = { parameters: compact, rows: 67, blocks: [16] };
const LONG_TIMES = 60;
async function loadLong(
  kernel: Kernel,
): Promise<{ handle: SegmentHandle; handles: SegmentHandle[]; queries: Query[] }> {
  const [bytes] = segmentsOf(long);
  const handle = await kernel.load({ bytes, name: 'long' });
  return { handle, handles: new Array<SegmentHandle>(LONG_TIMES).fill(handle), queries: queriesOf(long) };
}

async function drain(
  kernel: Kernel,
  handles: SegmentHandle[],
  queries: Query[],
  options?: ScanOptions,
): Promise<number> {
  let count = 0;
  for await (const _ of kernel.scan(handles, queries, options)) count++;
  return count;
}

describe('a scan in the WebAssembly kernel', () => {
  it('ends within 50 ms when it is aborted, with the reason, and the threads stop', async () => {
    for (const kernel of [one, two]) {
      const { handle, handles, queries } = await loadLong(kernel);
      const reason = new Error('enough');
      const attempt = async () => {
        const controller = new AbortController();
        let aborted = Number.NaN;
        setTimeout(() => {
          aborted = performance.now();
          controller.abort(reason);
        }, 30);
        await assert.rejects(drain(kernel, handles, queries, { signal: controller.signal }), reason);
        return performance.now() - aborted;
      };
      // On a busy machine, one of three is enough.
      const late = [await attempt()];
      while (Math.min(...late) >= 50 && late.length < 3) late.push(await attempt());
      assert.ok(Math.min(...late) < 50, `rejected after ${late} ms`);
      const busy = Object.values(kernel.times).reduce((sum, time) => sum + time);
      await kernel.unload(handle);
      await sleep(30);
      const more = Object.values(kernel.times).reduce((sum, time) => sum + time) - busy;
      assert.ok(more < 100, `the threads went on for ${more} ms`);
    }
  });
  it('does not begin when it was aborted before', async () => {
    const { handle, handles, queries } = await loadLong(one);
    await assert.rejects(drain(one, handles, queries, { signal: AbortSignal.abort() }), { name: 'AbortError' });
    await one.unload(handle);
  });
  it('is aborted even when all results are there and nobody has taken them', async () => {
    const test = { parameters: small, rows: 5, blocks: [64] };
    const [bytes] = segmentsOf(test);
    await withLoaded(two, [{ bytes, name: 'a' }], async (handles) => {
      const controller = new AbortController();
      const scan = two.scan(handles, queriesOf(test), { signal: controller.signal })[Symbol.asyncIterator]();
      await scan.next();
      await sleep(50);
      controller.abort();
      await assert.rejects(scan.next(), { name: 'AbortError' });
    });
  });
  it('ends when the loop is left, and the next one works', async () => {
    for (const kernel of [one, two]) {
      const { handle, handles, queries } = await loadLong(kernel);
      for (let i = 0; i < 3; i++) for await (const _ of kernel.scan(handles, queries)) break;
      assert.equal(await drain(kernel, [handle], queries), 16);
      await kernel.unload(handle);
    }
  });
  it('lets the event loop go on', async () => {
    const { handle, handles, queries } = await loadLong(two);
    let last = performance.now();
    let longest = 0;
    let ticks = 0;
    const timer = setInterval(() => {
      const now = performance.now();
      longest = Math.max(longest, now - last);
      last = now;
      ticks++;
    }, 1);
    assert.equal(await drain(two, handles, queries), 16 * LONG_TIMES);
    clearInterval(timer);
    assert.ok(ticks > 10 && longest < 250, `${ticks} ticks, the longest pause ${longest} ms`);
    await two.unload(handle);
  });
  it('makes unloading wait', async () => {
    const { handle, handles, queries } = await loadLong(two);
    const scan = two.scan(handles, queries)[Symbol.asyncIterator]();
    await scan.next();
    let unloaded = false;
    const unloading = two.unload(handle).then(() => {
      unloaded = true;
    });
    await sleep(20);
    assert.equal(unloaded, false);
    await assert.rejects(drain(two, [handle], queries), /not loaded/);
    let count = 1;
    while (!(await scan.next()).done) count++;
    assert.equal(count, 16 * LONG_TIMES);
    await unloading;
    await two.unload(handle);
  });
  it('takes turns with others, however slowly they are consumed', async () => {
    const { handle, handles, queries } = await loadLong(two);
    const scans = [0, 1, 2].map(() => two.scan(handles.slice(0, 5), queries)[Symbol.asyncIterator]());
    for (let i = 0; i < 16 * 5; i++) for (const scan of scans) assert.ok(!(await scan.next()).done);
    for (const scan of scans) assert.ok((await scan.next()).done);
    await two.unload(handle);
  });
  it('keeps few results for a consumer that does not take them', async () => {
    const test = { parameters: exact, rows: 4, blocks: [32], queries: 4 };
    const [bytes] = segmentsOf(test);
    const queries = queriesOf(test).map((query) => ({ ...query, bits0: 32, bits1: 32 }));
    await withLoaded(two, [{ bytes, name: 'a' }], async ([handle]) => {
      const before = process.memoryUsage().arrayBuffers;
      let count = 0;
      for await (const { response } of two.scan(new Array(40).fill(handle), queries)) {
        if (count++ === 0) await sleep(300);
        assert.ok(process.memoryUsage().arrayBuffers - before < 1200 * response.length);
      }
      assert.equal(count, 40 * 32 * 4);
    });
  });
});

describe('the memory of the WebAssembly kernel', () => {
  it('does not grow over 100 scans', async () => {
    const test = { parameters: compact, rows: 35, blocks: [8], queries: 2 };
    const [bytes] = segmentsOf(test);
    const queries = queriesOf(test);
    await withLoaded(two, [{ bytes, name: 'a' }], async (handles) => {
      for (let i = 0; i < 10; i++) await drain(two, handles, queries);
      const shared = two.memoryBytes;
      const { rss } = process.memoryUsage();
      for (let i = 0; i < 100; i++) {
        await drain(two, handles, queries, i % 10 === 9 ? { signal: new AbortController().signal } : {});
        if (i % 10 === 5) for await (const _ of two.scan(handles, queries)) break;
      }
      assert.equal(two.memoryBytes, shared);
      const grown = process.memoryUsage().rss - rss;
      assert.ok(grown < 2 ** 26, `resident memory grew by ${grown} bytes`);
    });
  });
  it('suffices for scans that only fit one at a time, even in lockstep', async () => {
    const kernel = await WasmKernel.open({ threads: 1, maximumBytes: 12 * 2 ** 20 });
    const test = { parameters: compact, rows: 300, blocks: [1] }; // 4.9 MB of slices
    const queries = queriesOf(test).map((query) => ({ ...query, bits0: 32, bits1: 32 }));
    const handle = await kernel.load({ bytes: segmentsOf(test)[0], name: 'a' });
    const scans = [0, 1].map(() => kernel.scan(new Array(2200).fill(handle), queries)[Symbol.asyncIterator]());
    for (let i = 0; i < 2200; i++) for (const scan of scans) assert.ok(!(await scan.next()).done);
    await kernel.close();
  });
  it('is refused to a query that does not fit at all', async () => {
    const kernel = await WasmKernel.open({ threads: 1, maximumBytes: 12 * 2 ** 20 });
    const test = { parameters: compact, rows: 800, blocks: [1] };
    const handle = await kernel.load({ bytes: segmentsOf(test)[0], name: 'a' });
    await assert.rejects(drain(kernel, [handle], queriesOf(test)), { code: 'UNSUPPORTED_PLAN' });
    await kernel.close();
  });
});

describe('damage', () => {
  const test = { parameters: smallPair, rows: 67, blocks: [3] };
  const damaged = (name: string, part: number) => (error: unknown) =>
    error instanceof HersError &&
    error.code === 'DAMAGED' &&
    error.message.includes(`${name} is damaged in part ${part}`);

  it('of any part is found and named by the first scan, in memory and in files', async () => {
    const [bytes] = segmentsOf(test);
    const reference = new ReferenceKernel();
    const { header } = await reference.load({ bytes, name: 'a' });
    for (const part of [0, 3, 7]) {
      const broken = bytes.slice();
      broken[header.dataAt + part * header.partBytes + 77 * part] ^= 1;
      const path = join(folder, `damaged-${part}.segment`);
      await writeFile(path, broken);
      for (const kernel of [one, two]) {
        for (const source of [{ path }, { bytes: broken, name: 'broken' }]) {
          await withLoaded(kernel, [source], async (handles) => {
            const name = 'path' in source ? source.path : source.name;
            await assert.rejects(drain(kernel, handles, queriesOf(test)), damaged(name, part));
            await assert.rejects(drain(kernel, handles, queriesOf(test)), damaged(name, part));
          });
        }
      }
    }
  });
  it('is looked for once per opening', async () => {
    const [bytes] = segmentsOf(test);
    await withLoaded(two, [{ bytes, name: 'a' }], async (handles) => {
      await drain(two, handles, queriesOf(test));
      const { verify } = two.times;
      await drain(two, handles, queriesOf(test));
      assert.equal(two.times.verify, verify);
    });
  });
  it('by truncation is found when a file is opened, and later', async () => {
    const [bytes] = segmentsOf(test);
    const path = join(folder, 'truncated.segment');
    for (const length of [0, 100, 4000, bytes.length - 1]) {
      await writeFile(path, bytes.subarray(0, length));
      await assert.rejects(two.load({ path }), HersError);
    }
    await writeFile(path, bytes);
    await withLoaded(two, [{ path }], async (handles) => {
      await truncate(path, bytes.length - 1000);
      await assert.rejects(drain(two, handles, queriesOf(test)), damaged(path, 7));
    });
    await assert.rejects(two.load({ path: join(folder, 'missing') }), { code: 'ENOENT' });
  });
  it('of a file that was replaced does not show in one that is open', async () => {
    const [bytes] = segmentsOf(test);
    const path = join(folder, 'replaced.segment');
    await writeFile(path, bytes);
    await withLoaded(two, [{ path }], async (handles) => {
      await rm(path);
      await writeFile(path, bytes.slice().fill(0, 5000));
      assert.equal(await drain(two, handles, queriesOf(test)), 3);
    });
  });
});

describe('the kernel', () => {
  const test = { parameters: small, rows: 19, blocks: [2] };

  it('refuses what does not belong together', async () => {
    await withLoaded(two, [{ bytes: segmentsOf(test)[0], name: 'a' }], async (handles) => {
      const [query] = queriesOf(test);
      await assert.rejects(drain(two, handles, [{ ...query, keyId: new Uint8Array(16) }]), { code: 'KEY_MISMATCH' });
      await assert.rejects(drain(two, handles, [{ ...query, galleryScale: 7 }]), { code: 'BLOCK_MISMATCH' });
      await assert.rejects(drain(two, handles, queriesOf({ ...test, rows: 20 })), { code: 'BLOCK_MISMATCH' });
      await assert.rejects(drain(one, handles, [query]), { code: 'INVALID_ARGUMENT' });
    });
    for (const threads of [0, -1, 1.5, Number.NaN])
      await assert.rejects(WasmKernel.open({ threads }), { code: 'INVALID_ARGUMENT' });
  });
  it('ends running scans when it is closed, and takes no more', async () => {
    const kernel = await WasmKernel.open({ threads: 2 });
    const { handle, handles, queries } = await loadLong(kernel);
    const running = drain(kernel, handles, queries);
    await turn();
    const [outcome] = await Promise.allSettled([running, kernel.close()]);
    assert.match(String(outcome.status === 'rejected' && outcome.reason), /closed/);
    await assert.rejects(drain(kernel, [handle], queries), /closed/);
    await assert.rejects(kernel.load({ bytes: segmentsOf(test)[0], name: 'a' }), /closed/);
    await kernel.close();
  });
  it('says so when a thread is lost', async () => {
    const workers: Worker[] = [];
    const collect = (worker: Worker) => workers.push(worker);
    process.on('worker', collect);
    const kernel = await WasmKernel.open({ threads: 2 });
    process.off('worker', collect);
    const { handle, handles, queries } = await loadLong(kernel);
    const running = drain(kernel, handles, queries);
    await Promise.all([assert.rejects(running, /lost a thread/), workers[1].terminate()]);
    await assert.rejects(drain(kernel, [handle], queries), /lost a thread/);
    await kernel.close();
  });
  it('does not keep a process alive', async () => {
    const path = join(folder, 'exit.segment');
    await using file = await open(path, 'w');
    await file.writeFile(segmentsOf(test)[0]);
    const code = `
      const { WasmKernel } = await import(${JSON.stringify(import.meta.resolve('./wasm.ts'))});
      const { specimenQuery, largest } = await import(${JSON.stringify(import.meta.resolve('../specimen.ts'))});
      const kernel = await WasmKernel.open({ threads: 2 });
      const handle = await kernel.load({ path: ${JSON.stringify(path)} });
      const { parameters, width } = handle.header;
      const query = specimenQuery({ parameters, width, index: 0, residue: largest });
      for await (const { response } of kernel.scan([handle], [query])) console.log(response.length);
      for await (const _ of kernel.scan(new Array(50).fill(handle), [query])) break;
    `;
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
      encoding: 'utf8',
      timeout: 20_000,
    });
    assert.deepEqual({ status, stderr }, { status: 0, stderr: '' });
    assert.deepEqual(stdout.trim().split('\n'), ['304', '304']);
  });
});
