// Assembles segments in a worker thread. Laying out hundreds of megabytes on the main thread would
// block commits and searches. Small segments are assembled on the main thread.

import { Worker } from 'node:worker_threads';
import { buildSegment, decodeHeader, headerLength } from '@hers/scan';
import { type BlockMatrix, blockMatrix, type ParameterSet } from '@hers/scheme';
import { damaged } from '../base/storage-errors.ts';
import { Thread } from '../base/thread.ts';
import type { Disk } from '../files/disk.ts';
import { type KeptBlock, readKeptBlock, segmentName } from './rebuild.ts';

/** Segments of at least this many bytes of blocks are assembled by the worker. */
const ASIDE_BYTES = 2 ** 23;

export interface AssemblerRequest {
  readonly folder: string;
  readonly path: string;
  readonly blocks: readonly KeptBlock[];
}

export class Assembler {
  #thread: Thread | undefined;

  async assemble(
    disk: Disk,
    path: string,
    blocks: readonly KeptBlock[],
    bytes: number,
    signal: AbortSignal,
  ): Promise<Assembled> {
    if (bytes < ASIDE_BYTES) return assembleSegment(disk, path, blocks, signal);
    const thread = (this.#thread ??= this.#start());
    try {
      return await thread.ask({ folder: disk.folder, path, blocks } satisfies AssemblerRequest, { signal });
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    }
  }

  #start(): Thread {
    const lost = () => {
      if (this.#thread === thread) this.#thread = undefined;
    };
    const reason = new Error('the thread that assembles segments has ended');
    const worker = new Worker(new URL('./assembler-worker.ts', import.meta.url), { execArgv: [] });
    const thread = new Thread(worker, lost, reason);
    return thread;
  }

  async close(): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    await thread?.close();
  }
}

export interface Assembled {
  readonly bytes: number;
  readonly name: string;
}

/** Writes the segment to `path`, where it is on disk afterwards. */
export async function assembleSegment(
  disk: Disk,
  path: string,
  blocks: readonly KeptBlock[],
  signal: AbortSignal,
): Promise<Assembled> {
  async function* matrices(): AsyncGenerator<BlockMatrix> {
    for (const block of blocks) yield blockMatrix((await readKeptBlock(disk, block)).block);
  }
  const proof = new SegmentProof();
  const { fileBytes } = await buildSegment(disk.path(path), proof.watch(matrices()), blocks.length, { signal });
  const header = await proof.check(disk, path);
  return { bytes: fileBytes, name: segmentName(header) };
}

// The files of loose blocks are removed once they are in a segment. Before that, this verifies that
// every block arrived: a disk that fills up may take part of a write without an error. The sum of
// all words does not depend on their order, and missing data reads as zeros. Packed rows keep the
// bytes of their words but not the words, so there it is the sum of bytes.

const READ_BYTES = 2 ** 22;

type Sum = (data: Uint8Array | Uint32Array) => number;

function sumOfWords({ buffer, byteOffset, byteLength }: Uint8Array | Uint32Array): number {
  const words = new Int32Array(buffer, byteOffset, byteLength / 4);
  let [a, b, c, d] = [0, 0, 0, 0];
  // Rows are multiples of 16 words; four sums at a time are four times as fast as one.
  for (let i = 0; i < words.length; i += 4) {
    a = (a + words[i]) | 0;
    b = (b + words[i + 1]) | 0;
    c = (c + words[i + 2]) | 0;
    d = (d + words[i + 3]) | 0;
  }
  return (a + b + c + d) | 0;
}

function sumOfBytes({ buffer, byteOffset, byteLength }: Uint8Array | Uint32Array): number {
  const words = new Int32Array(buffer, byteOffset, byteLength / 4);
  let [even, odd] = [0, 0];
  for (let i = 0; i < words.length; i++) {
    const x = words[i];
    even = (even + (x & 255) + ((x >>> 16) & 255)) | 0;
    odd = (odd + ((x >>> 8) & 255) + (x >>> 24)) | 0;
  }
  return (even + odd) | 0;
}

const sumFor = ({ wordBytes }: ParameterSet): Sum => (wordBytes === 3 ? sumOfBytes : sumOfWords);

/** Adds up the blocks that pass through it. */
class SegmentProof {
  #sum = 0;

  async *watch(matrices: AsyncIterable<BlockMatrix>): AsyncGenerator<BlockMatrix> {
    for await (const matrix of matrices) {
      const sumOf = sumFor(matrix.block.parameters);
      this.#sum = (this.#sum + sumOf(matrix.maskRows) + sumOf(matrix.block.rows)) | 0;
      yield matrix;
    }
  }

  /** Throws unless the file holds all of them. Returns its header as bytes. */
  async check(disk: Disk, path: string): Promise<Uint8Array> {
    using file = disk.openToRead(path);
    const { size } = file;
    const room = Buffer.allocUnsafeSlow(READ_BYTES);
    const start = await file.read(0, READ_BYTES, room);
    const header = new Uint8Array(start.subarray(0, headerLength(start, path)));
    const sumOf = sumFor(decodeHeader(header, size, path).parameters);
    let sum = 0;
    for (let at = header.length; at < size; at += READ_BYTES)
      sum = (sum + sumOf(await file.read(at, Math.min(READ_BYTES, size - at), room))) | 0;
    if (sum !== this.#sum) throw damaged(path, 'it does not hold all blocks that belong into it. Is the disk full?');
    return header;
  }
}
