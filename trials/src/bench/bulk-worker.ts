// Makes segments of a large gallery in a thread: pseudo-random vectors, encrypted as the client
// does. It also compares them with the probes in the clear, since nobody keeps the vectors.

import { parentPort, workerData } from 'node:worker_threads';
import { type BulkBlock, bulkMaker } from '@hers/client/testing/bulk';
import { segmentBytes } from '@hers/scan';
import { blockMatrix, decodeBlock } from '@hers/scheme';
import { galleryVectors, probeVectors } from './bulk-vectors.ts';

export interface BulkTask {
  readonly seed: Uint8Array;
  readonly name: string;
  readonly descriptor: Uint8Array;
  readonly count: number;
  readonly dimension: number;
  readonly probes: number;
  readonly blocksPerSegment: number;
}

export interface BulkSegment {
  readonly number: number;
  readonly bytes: Uint8Array;
  readonly blocks: readonly Omit<BulkBlock, 'encoded'>[];
  /** For each probe the best record of the segment, and its score. */
  readonly best: readonly (readonly [id: number, score: number])[];
}

if (parentPort) {
  const port = parentPort;
  const task: BulkTask = workerData;
  const { count, dimension, blocksPerSegment } = task;
  const maker = await bulkMaker(task.seed, task.name, task.descriptor);
  const probes = probeVectors(task.probes, count, dimension, maker.capacity);
  const perSegment = blocksPerSegment * maker.capacity;
  port.on('message', async (number: number) => {
    const best: [number, number][] = Array.from({ length: task.probes }, () => [-1, Number.NEGATIVE_INFINITY]);
    const made: BulkBlock[] = [];
    const end = Math.min(count, (number + 1) * perSegment);
    for (let first = number * perSegment; first < end; first += maker.capacity) {
      const vectors = galleryVectors(first / maker.capacity, Math.min(maker.capacity, end - first), dimension);
      for (const [p, so] of best.entries()) compare(vectors, first, probes, p, dimension, so);
      made.push(await maker.make(vectors, first));
    }
    const bytes = segmentBytes(made.map(({ encoded }) => blockMatrix(decodeBlock(encoded))));
    const blocks = made.map(({ list, entry }) => ({ list, entry }));
    port.postMessage({ number, bytes, blocks, best } satisfies BulkSegment, [bytes.buffer as ArrayBuffer]);
  });
}

function compare(
  vectors: Float32Array,
  first: number,
  probes: Float32Array,
  probe: number,
  dimension: number,
  best: [number, number],
): void {
  const from = probe * dimension;
  for (let at = 0, j = 0; at < vectors.length; at += dimension, j++) {
    let sum = 0;
    for (let i = 0; i < dimension; i++) sum += vectors[at + i] * probes[from + i];
    if (sum > best[1]) {
      best[0] = first + j;
      best[1] = sum;
    }
  }
}
