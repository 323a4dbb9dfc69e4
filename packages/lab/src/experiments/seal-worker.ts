// A thread of the published system's server, with its own SEAL, keys and part of the gallery. It
// takes queries one after the other and reports when each block was scored.

import { parentPort, workerData } from 'node:worker_threads';
import { Context, parameterSet } from '@hers/paper';
import { PAPER_VARIANTS, type PaperVariantName, paperServer } from '../engine-paper.ts';

/** The initial data of a thread. */
export interface SealShare {
  readonly variant: PaperVariantName;
  readonly dimension: number;
  readonly keys: Uint8Array;
  readonly uploads: readonly Uint8Array[];
}

export interface SealSearch {
  readonly query: Uint8Array;
  /** Blocks to score, in this order. */
  readonly order: readonly number[];
}

export interface SealTimes {
  /** Seconds from the arrival of the query until each block was scored and written. */
  readonly times: readonly number[];
  /** Of the first block and of the last. */
  readonly responses: readonly Uint8Array[];
}

const port = parentPort!;
const { variant, dimension, keys, uploads } = workerData as SealShare;
const context = await Context.open(parameterSet(PAPER_VARIANTS[variant].parameters));
const server = paperServer(variant, context, keys, { dimension });
for (const upload of uploads) server.enrol(upload);

port.on('message', ({ query, order }: SealSearch) => {
  const begin = performance.now();
  const times: number[] = [];
  let [first, last]: Uint8Array[] = [];
  for (const response of server.search(query, { blocks: order })) {
    times.push((performance.now() - begin) / 1000);
    first ??= response;
    last = response;
  }
  port.postMessage({ times, responses: [first, last] } satisfies SealTimes);
});
port.postMessage(server.galleryBytes);
