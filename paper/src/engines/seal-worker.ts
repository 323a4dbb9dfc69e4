// A thread of the published system's server, with its own SEAL. It is given keys and a part of a
// gallery, then queries one after the other, and reports when each block was scored. Another
// gallery replaces the one it has: opening SEAL takes longer than scoring a small one.

import { parentPort } from 'node:worker_threads';
import { Context, type PaperServer, parameterSet } from '@hers/paper';
import { PAPER_VARIANTS, type PaperVariantName, paperServer } from './engine-paper.ts';

/** What a thread is to hold; it answers with the bytes of its gallery. */
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
const contexts = new Map<string, Context>();
let server: PaperServer | undefined;

port.on('message', async (message: SealShare | SealSearch) => {
  port.postMessage('uploads' in message ? await hold(message) : search(message));
});

async function hold({ variant, dimension, keys, uploads }: SealShare): Promise<number> {
  server?.[Symbol.dispose]();
  const { parameters } = PAPER_VARIANTS[variant];
  const context = contexts.get(parameters) ?? (await Context.open(parameterSet(parameters)));
  contexts.set(parameters, context);
  server = paperServer(variant, context, keys, { dimension });
  for (const upload of uploads) server.enrol(upload);
  return server.galleryBytes;
}

function search({ query, order }: SealSearch): SealTimes {
  const begin = performance.now();
  const times: number[] = [];
  let [first, last]: Uint8Array[] = [];
  for (const response of server!.search(query, { blocks: order })) {
    times.push((performance.now() - begin) / 1000);
    first ??= response;
    last = response;
  }
  return { times, responses: [first, last] };
}
