import assert from 'node:assert/strict';
import { it } from 'node:test';
import { decodeHeader, segmentBytes } from '@hers/scan';
import { type BlockMatrix, PARAMETER_SETS, type ParameterSet, polyWords, rowsOf } from '@hers/scheme';
import type { DiskReader } from '../files/disk.ts';
import { readRows } from './rebuild.ts';

/** Words that say where they are, below every prime and of three bytes. */
function matrixOf(parameters: ParameterSet, width: number, index: number): BlockMatrix {
  const words = polyWords(parameters);
  const row = (r: number) => Array.from({ length: words }, (_, i) => (index << 20) + ((r * words + i) % 2 ** 20));
  const rows = (first: number, count: number) =>
    Uint32Array.from(Array.from({ length: count }, (_, i) => row(first + i)).flat());
  const block = {
    parameters,
    keyId: new Uint8Array(16),
    blockId: new Uint8Array(16).fill(index),
    width,
    first: 0,
    count: 1,
    galleryScale: 1024,
    seed: new Uint8Array(32),
    rows: rows(0, width),
  };
  return { block, maskRows: rows(width, rowsOf(parameters, width) - width) };
}

it('takes the rows of a block out of a segment as they were given', async () => {
  for (const parameters of Object.values(PARAMETER_SETS).filter(({ insecure }) => insecure)) {
    for (const width of [1, 61, 64, 130]) {
      const matrices = [0, 1, 2].map((index) => matrixOf(parameters, width, index));
      const bytes = Buffer.from(segmentBytes(matrices));
      const read = async (at: number, length: number) =>
        Buffer.from(new Uint8Array(bytes.subarray(at, at + length)).buffer);
      const file = { path: 'a', size: bytes.length, read } as unknown as DiskReader;
      const header = decodeHeader(bytes, bytes.length, 'a');
      for (const [index, { block, maskRows }] of matrices.entries()) {
        const all = await readRows(file, header, index);
        assert.deepEqual(all.subarray(0, block.rows.length), block.rows, `${parameters.name}, ${width}`);
        assert.deepEqual(all.subarray(block.rows.length), maskRows);
      }
    }
  }
});
