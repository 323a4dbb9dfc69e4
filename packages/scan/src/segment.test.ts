import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { checksum } from '@hers/ring';
import { encodeResponse, expandedQuery, PARAMETER_SETS, parameterSet, scanBlock } from '@hers/scheme';
import fc from 'fast-check';
import { buildSegment, segmentBlocks, segmentBytes } from './builder.ts';
import { ReferenceKernel } from './reference.ts';
import {
  decodeHeader,
  LANES,
  type PanelRun,
  panelRuns,
  putRows,
  readFully,
  rowBytes,
  takeRows,
  writeFully,
} from './segment.ts';
import { mixed, specimenBlock, specimenQuery } from './specimen.ts';

const plain = parameterSet('insecure_n_64_logq_30_wide_5');
const packed = parameterSet('insecure_n_64_logq_24_wide_5');
const sets = Object.values(PARAMETER_SETS);

const blocksOf = (parameters: typeof plain, width: number, count: number) =>
  Array.from({ length: count }, (_, index) => specimenBlock({ parameters, width, index, residue: mixed(index) }));

/** Makes the header's checksum valid again after a change. */
function signed(bytes: Uint8Array, length: number): Uint8Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  view.setBigUint64(80, 0n, true);
  view.setBigUint64(80, checksum(bytes.subarray(0, length)), true);
  return bytes;
}

describe('rows that are packed', () => {
  it('four into three lines, and those left over one each', () => {
    const lines = (rows: number) => rowBytes(packed, rows, 1) / (4 * LANES);
    assert.deepEqual([1, 2, 3, 4, 5, 64, 65, 134].map(lines), [1, 2, 3, 3, 4, 48, 49, 101]);
    assert.equal(rowBytes(plain, 134, 3), 134 * 3 * 64);
  });

  it('as the format says, byte by byte', () => {
    const lines = new Uint32Array(4 * LANES);
    const rows = [0x030201, 0x060504, 0x090807, 0xccbbaa, 0x0c0b0a];
    const words = Uint32Array.from({ length: rows.length * LANES }, (_, i) => rows[Math.floor(i / LANES)]);
    putRows(packed, lines, 0, 0, rows.length, { words, from: 0, stride: LANES });
    const lane = (line: number) => [...new Uint8Array(lines.buffer, 4 * LANES * line + 20, 4)];
    assert.deepEqual([0, 1, 2, 3].map(lane), [
      [1, 2, 3, 0xaa],
      [4, 5, 6, 0xbb],
      [7, 8, 9, 0xcc],
      [10, 11, 12, 0],
    ]);
  });

  it('and taken apart again, whatever they hold, in runs that fill a part', () => {
    const shape = fc.record({ rows: fc.integer({ min: 1, max: 200 }), blocks: fc.integer({ min: 1, max: 5 }) });
    fc.assert(
      fc.property(shape, fc.constantFrom(plain, packed), fc.nat(), ({ rows, blocks }, parameters, seed) => {
        const part = new Uint32Array(rowBytes(parameters, rows, blocks) / 4);
        const word = (block: number, row: number, lane: number) =>
          mixed(seed)(parameters.primes[0], (block * rows + row) * LANES + lane);
        const stride = LANES + 3;
        const loose = (block: number, first: number, count: number) => {
          const words = new Uint32Array(stride * count + 1);
          for (let i = 0; i < count; i++)
            for (let lane = 0; lane < LANES; lane++) words[1 + i * stride + lane] = word(block, first + i, lane);
          return { words, from: 1, stride };
        };
        const eachRun = (use: (block: number, run: PanelRun) => void) => {
          for (let block = 0; block < blocks; block++)
            for (const run of panelRuns(parameters, rows, blocks, block)) use(block, run);
        };
        eachRun((block, { first, count, at }) => {
          // In two parts, as rows and mask rows come.
          const some = seed % (count + 1);
          putRows(parameters, part, at / 4, 0, some, loose(block, first, some));
          putRows(parameters, part, at / 4, some, count - some, loose(block, first + some, count - some));
        });
        eachRun((block, { first, count, at }) => {
          const out = { words: new Uint32Array(stride * count + 1), from: 1, stride };
          takeRows(parameters, part, at / 4, count, out);
          assert.deepEqual(out, loose(block, first, count));
        });
        const last = panelRuns(parameters, rows, blocks, blocks - 1).at(-1)!;
        assert.equal(last.at + last.bytes, 4 * part.length);
      }),
      { numRuns: 60 },
    );
  });
});

describe('a segment', () => {
  for (const parameters of sets) {
    it(`of ${parameters.name} is scanned as its blocks are`, async () => {
      const width = 5;
      const blocks = blocksOf(parameters, width, 3);
      const query = specimenQuery({ parameters, width, index: 0, residue: mixed(9) });
      const kernel = new ReferenceKernel();
      const handle = await kernel.load({ bytes: segmentBytes(blocks), name: 'a' });
      for await (const { block, response } of kernel.scan([handle], [query]))
        assert.deepEqual(response, encodeResponse(scanBlock(blocks[block], expandedQuery(query))));
    });
  }

  it('is the same in a file as in memory, however much of it is laid out together', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hers-segment-'));
    // Of several huge pages.
    const large = parameterSet('n_2048_logq_30_wide_5');
    try {
      for (const [parameters, width, count] of [
        ...sets.map((set) => [set, 70, 3] as const),
        [large, 40, 14] as const,
      ]) {
        const blocks = blocksOf(parameters, width, count);
        const path = join(folder, parameters.name);
        const expected = segmentBytes(blocks);
        if (count > 3) assert.ok(expected.length > 2 ** 22 && expected.length % 2 ** 21 !== 0);
        for (const part of [1, 0.4, 0.01]) {
          const told: number[] = [];
          const onProgress = (written: number) => told.push(written);
          const stageBytes = part === 1 ? undefined : Math.ceil(part * expected.length);
          await buildSegment(path, blocks, count, { onProgress, ...(stageBytes === undefined ? {} : { stageBytes }) });
          assert.equal(told.length, part === 1 ? 1 : part === 0.01 ? count : Math.ceil(count / told[0]));
          assert.equal(told.at(-1), count);
          assert.ok((await readFile(path)).equals(expected), `${parameters.name}, ${part}`);
        }
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('of packed rows takes three quarters of the bytes, and has another layout', () => {
    const heads = [plain, packed].flatMap((parameters) => {
      const bytes = segmentBytes(blocksOf(parameters, 128 - parameters.digits, 2));
      const { partBytes, dataAt, fileBytes } = decodeHeader(bytes, bytes.length, 'a');
      assert.equal(partBytes, 2 * 64 * (parameters === packed ? 96 : 128));
      assert.equal(fileBytes, dataAt + 4 * partBytes);
      return [...new Uint32Array(bytes.buffer, 8, 2)];
    });
    assert.deepEqual(heads, [1, 1, 1, 2]);
    const real = parameterSet('n_2048_logq_24_wide_5');
    assert.equal(segmentBlocks(real, 4096), Math.floor(2 ** 29 / (128 * rowBytes(real, 4102, 1))));
  });

  it('is the same bytes as ever: a known answer', () => {
    const hashes = [parameterSet('insecure_n_64_logq_30_wide_5'), packed].map((parameters) =>
      createHash('sha256')
        .update(segmentBytes(blocksOf(parameters, 5, 2)))
        .digest('hex'),
    );
    assert.deepEqual(hashes, [
      '89ba694f92fc9cbb90d962b01091f9d70c4b79f137d95244afd4a4703a541129',
      'f3bc895290a6aab52b13342b6be0a7f81c7b09faa302ad2a5f04785bee2e1e98',
    ]);
  });

  it('in another format is refused with a sentence', () => {
    const bytes = segmentBytes(blocksOf(plain, 5, 1));
    for (const version of [0, 2, 3]) {
      new Uint32Array(bytes.buffer, 8, 1)[0] = version;
      assert.throws(() => decodeHeader(signed(bytes, 4096), bytes.length, 'a'), {
        code: 'UNSUPPORTED_VERSION',
        message: /^a is in another format, .* make it again from its source$/,
      });
    }
  });

  it('whose layout is not that of its parameter set is refused', () => {
    for (const parameters of [plain, packed]) {
      const bytes = segmentBytes(blocksOf(parameters, 5, 1));
      new Uint32Array(bytes.buffer, 12, 1)[0] = parameters === plain ? 2 : 1;
      assert.throws(() => decodeHeader(signed(bytes, 4096), bytes.length, 'a'), {
        code: 'MALFORMED',
        message: 'a has a header whose fields contradict each other',
      });
    }
  });

  it('that is torn, or whose header is not what was written, is refused whatever became of it', () => {
    for (const parameters of [plain, packed]) {
      const whole = segmentBytes(blocksOf(parameters, 5, 2));
      const { dataAt } = decodeHeader(whole, whole.length, 'a');
      for (const length of [0, 1, 127, 128, 4095, dataAt - 1])
        assert.throws(() => decodeHeader(whole.subarray(0, length), whole.length, 'a'), { name: 'HersError' });
      for (const length of [dataAt, whole.length - 1, whole.length + 1])
        assert.throws(() => decodeHeader(whole, length, 'a'), { code: 'DAMAGED' });
      const change = fc.record({ at: fc.nat(dataAt - 1), by: fc.integer({ min: 1, max: 255 }) });
      fc.assert(
        fc.property(fc.array(change, { minLength: 1, maxLength: 4 }), fc.boolean(), (changes, sign) => {
          const bytes = new Uint8Array(whole);
          for (const { at, by } of changes) bytes[at] ^= by;
          if (Buffer.compare(bytes, whole) === 0) return;
          try {
            const header = decodeHeader(sign ? signed(bytes, dataAt) : bytes, bytes.length, 'a');
            // With a valid checksum, a change can be in a name or a number, but not in a size.
            assert.ok(sign && header.dataAt === dataAt && header.fileBytes === bytes.length);
          } catch (error) {
            assert.equal((error as Error).name, 'HersError', String(error));
          }
        }),
        { numRuns: 300 },
      );
    }
  });
});

it('a system that writes and reads little at a time still writes and reads all of it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-'));
  const file = await open(join(folder, 'file'), 'w+');
  try {
    const most = 7;
    const slow = {
      write: (bytes: Uint8Array, offset: number, length: number, at: number) =>
        file.write(bytes, offset, Math.min(most, length), at),
      read: (bytes: Uint8Array, offset: number, length: number, at: number) =>
        file.read(bytes, offset, Math.min(most, length), at),
    };
    const bytes = Uint8Array.from({ length: 100 }, (_, i) => i + 1);
    await writeFully(slow as typeof file, bytes, 3);
    assert.deepEqual(await readFully(file, 103, 0), Uint8Array.of(0, 0, 0, ...bytes));
    assert.deepEqual(await readFully(slow as typeof file, 103, 0), Uint8Array.of(0, 0, 0, ...bytes));
    assert.equal((await readFully(slow as typeof file, 50, 90)).length, 13);
    const silent = { write: async () => ({ bytesWritten: 0 }) };
    await assert.rejects(writeFully(silent as unknown as typeof file, bytes, 0), /wrote nothing/);
  } finally {
    await file.close();
    await rm(folder, { recursive: true });
  }
});
