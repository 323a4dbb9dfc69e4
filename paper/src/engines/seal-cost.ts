// The cost of a search on SEAL: some blocks are scored and timed one by one. All blocks cost the
// same, so larger galleries are extrapolated. SEAL here is WebAssembly, one thread per instance.
// Several threads share a gallery as the paper's processes do: each has a part of it, and all get
// the same query.

import { Worker } from 'node:worker_threads';
import { ClientKeys, Context, ENCODINGS, PaperClient, type PaperQuery, parameterSet, roundVectors } from '@hers/paper';
import { identities } from '@hers/vectors/synthetic';
import type { Source } from '../lab/experiment.ts';
import { progress } from '../lab/report.ts';
import { stopwatch, type Time } from '../lab/timing.ts';
import { PAPER_VARIANTS, type PaperVariantName } from './engine-paper.ts';
import type { SealSearch, SealShare, SealTimes } from './seal-worker.ts';

export interface SealCost {
  readonly variant: PaperVariantName;
  readonly dimension: number;
  /** Threads that share the gallery. */
  readonly threads: number;
  /** Templates of a block. */
  readonly capacity: number;
  /**
   * Seconds from the arrival of a query until every thread has scored and written 1, 2, 3 … blocks:
   * the fastest of the runs.
   */
  readonly cumulative: readonly number[];
  /** Seconds before the first block, and for one of every thread. */
  readonly start: number;
  readonly block: number;
  /** CPU seconds of a block: the mean. */
  readonly cpu: number;
  /** Bytes of a block in the server's memory. */
  readonly blockBytes: number;
}

interface SealSample {
  /** Blocks that each thread scores. */
  readonly blocks: number;
  readonly runs: number;
  /** How many of them are distinct; beyond that they are scored again. */
  readonly distinct?: number;
  readonly threads?: number;
}

/**
 * Measures one variant at one dimension. Throws if it returns a wrong score: its time would mean
 * nothing.
 */
export async function measureSeal(
  variant: PaperVariantName,
  dimension: number,
  { blocks, runs, distinct = 2, threads = 1 }: SealSample,
): Promise<SealCost> {
  progress(`${variant} on SEAL, d = ${dimension}, threads: ${threads}, blocks of each: ${blocks}`);
  const different = Math.min(blocks, distinct);
  const { encoding: name, parameters, encryption } = PAPER_VARIANTS[variant];
  const encoding = ENCODINGS[name];
  const context = contexts.get(parameters) ?? (await Context.open(parameterSet(parameters)));
  contexts.set(parameters, context);
  using keys = new ClientKeys(context, { rotations: encoding.rotations(dimension), encryption });
  const capacity = encoding.capacity(context.parameters.n);
  const { vectors } = identities(threads * different * capacity, 1, dimension).gallery();
  const part = different * capacity * dimension;
  const parts = Array.from({ length: threads }, (_, i) => vectors.subarray(i * part, (i + 1) * part));
  const servers = Array.from({ length: threads }, hired);
  let isWell = false;
  try {
    let galleryBytes = 0;
    for (const [i, templates] of parts.entries()) {
      using client = new PaperClient(context, encoding, { dimension, keys });
      const share: SealShare = { variant, dimension, keys: client.keys, uploads: [...client.enrol(templates)] };
      galleryBytes += await asked<number>(servers[i], share);
    }
    using client = new PaperClient(context, encoding, { dimension, keys });
    const query = client.query(vectors.subarray(0, dimension));
    const order = Array.from({ length: blocks }, (_, i) => i % different);
    const rounded = roundVectors(context.parameters, vectors, dimension);
    const cumulative = new Array<number>(blocks).fill(Number.POSITIVE_INFINITY);
    let block = Number.POSITIVE_INFINITY;
    let cpu = 0;
    for (let run = 0; run < runs; run++) {
      const elapsed = stopwatch();
      const search: SealSearch = { query: query.bytes, order };
      const all = await Promise.all(servers.map((server) => asked<SealTimes>(server, search)));
      cpu += elapsed().cpu / (runs * blocks * threads);
      // The slowest thread determines when a search is done.
      const times = cumulative.map((_, i) => Math.max(...all.map(({ times }) => times[i])));
      times.forEach((time, i) => {
        cumulative[i] = Math.min(cumulative[i], time);
      });
      // Without the first, which includes loading the query.
      const mean = blocks === 1 ? times[0] : (times[blocks - 1] - times[0]) / (blocks - 1);
      block = Math.min(block, mean);
      if (run === 0)
        for (const [i, { responses }] of all.entries()) checkScores(query, responses, rounded, dimension, i * part);
    }
    isWell = true;
    return {
      ...{ variant, dimension, threads, capacity, cumulative, block, cpu },
      start: Math.max(0, cumulative[0] - block),
      blockBytes: galleryBytes / (threads * different),
    };
  } finally {
    for (const server of servers) {
      if (isWell) idle.push(server);
      else await server.terminate();
      server.unref();
    }
  }
}

/** By the name of their parameters: opening SEAL takes longer than most that is measured. */
const contexts = new Map<string, Context>();

/** Threads that wait for the next measurement, and do not keep the process alive. */
const idle: Worker[] = [];

function hired(): Worker {
  const server = idle.pop() ?? new Worker(new URL('./seal-worker.ts', import.meta.url));
  server.ref();
  return server;
}

/** What a thread answers. */
function asked<T>(server: Worker, question: SealShare | SealSearch): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const answered = (answer: T) => {
      server.off('error', failed);
      resolve(answer);
    };
    const failed = (error: unknown) => {
      server.off('message', answered);
      reject(error);
    };
    server.once('message', answered);
    server.once('error', failed);
    server.postMessage(question);
  });
}

/** The first and the last score of each response; the probe is the first template. */
function checkScores(
  query: PaperQuery,
  responses: readonly Uint8Array[],
  rounded: Int32Array,
  dimension: number,
  part: number,
): void {
  for (const response of responses) {
    const { first, integers } = query.read(response);
    for (const j of [0, integers.length - 1]) {
      const at = part + (first + j) * dimension;
      let score = 0;
      for (let i = 0; i < dimension; i++) score += rounded[i] * rounded[at + i];
      if (integers[j] !== score) throw new Error('SEAL gave a wrong score, so its time means nothing.');
    }
  }
}

/** The time for a gallery, and whether that many blocks were actually scored. */
export function sealSeconds(cost: SealCost, m: number): Time & { source: Source } {
  const blocks = Math.ceil(m / cost.capacity);
  // Of the thread that has most.
  const most = Math.ceil(blocks / cost.threads);
  const measured = cost.cumulative[most - 1];
  const cpu = blocks * cost.cpu;
  if (measured !== undefined) return { seconds: measured, cpu, source: 'measured' };
  return { seconds: cost.start + most * cost.block, cpu, source: 'extrapolated' };
}

/** Bytes of a gallery in memory. */
export function sealBytes({ capacity, blockBytes }: SealCost, m: number): number {
  return Math.ceil(m / capacity) * blockBytes;
}
