// Before the files of blocks go that were put into a segment, it is proven that all of them arrived: a disk that becomes full takes a part of a write
// without an error. The sum of all words does not depend on their order, and what is missing reads as zeros.

import { decodeHeader, headerLength } from '@hers/scan';
import type { BlockMatrix } from '@hers/scheme';
import type { Disk } from './disk.ts';
import { damaged, storageError } from './storage-errors.ts';

const READ_BYTES = 2 ** 22;

function sumOf(words: Uint32Array, sum: number): number {
  for (let i = 0; i < words.length; i++) sum = (sum + words[i]) | 0;
  return sum;
}

/** Adds up the blocks that pass through it. */
export class SegmentProof {
  #sum = 0;

  async *watch(matrices: AsyncIterable<BlockMatrix>): AsyncGenerator<BlockMatrix> {
    for await (const matrix of matrices) {
      this.#sum = sumOf(matrix.maskRows, sumOf(matrix.block.rows, this.#sum));
      yield matrix;
    }
  }

  /** Throws unless the file holds all of them. Returns its header, as bytes. */
  async check(disk: Disk, path: string): Promise<Uint8Array> {
    const file = await disk.openToRead(path);
    try {
      const { size } = await file.stat();
      const piece = new Uint8Array(Math.min(size, READ_BYTES));
      const read = async (at: number, length: number) => {
        const { bytesRead } = await file.read(piece, 0, length, at);
        if (bytesRead !== length) throw damaged(path, 'it was not written to its end');
        return piece.subarray(0, length);
      };
      const headerBytes = headerLength(await read(0, Math.min(size, READ_BYTES)), path);
      const header = piece.slice(0, headerBytes);
      decodeHeader(header, size, path);
      let sum = 0;
      for (let at = headerBytes; at < size; at += READ_BYTES) {
        const { buffer, length } = await read(at, Math.min(READ_BYTES, size - at));
        sum = sumOf(new Uint32Array(buffer, 0, length / 4), sum);
      }
      if (sum !== this.#sum) throw damaged(path, 'it does not hold all blocks that belong into it. Is the disk full?');
      return header;
    } catch (error) {
      throw storageError(error, path);
    } finally {
      await file.close();
    }
  }
}
