// What a search costs on SEAL: some blocks are scored and timed one by one. A block costs what
// another does, so larger galleries are this, multiplied.

import { ENCODINGS, roundVectors } from '@hers/paper';
import { identities } from '@hers/vectors/synthetic';
import { openPaper, PAPER_VARIANTS, type PaperEngine, type PaperVariantName } from '../engine-paper.ts';
import { progress } from '../report.ts';
import { stopwatch, type Time } from './clock.ts';
import type { Source } from './experiment.ts';

export interface SealCost {
  readonly variant: PaperVariantName;
  readonly dimension: number;
  /** Templates of a block. */
  readonly capacity: number;
  /**
   * Seconds from the arrival of a query until 1, 2, 3 … blocks are scored and written: the fastest
   * of the runs.
   */
  readonly cumulative: readonly number[];
  /** Seconds before the first block, and for each. */
  readonly start: number;
  readonly block: number;
  /** CPU seconds of a block: the mean. */
  readonly cpu: number;
  readonly queryBytes: number;
  readonly responseBytes: number;
  readonly keyBytes: number;
  /** Bytes of a block in the server's memory. */
  readonly blockBytes: number;
}

interface SealSample {
  /** Blocks to score. */
  readonly blocks: number;
  readonly runs: number;
  /** How many of them are different ones; beyond that they are scored again. */
  readonly distinct?: number;
}

/**
 * Measures one variant at one dimension. Throws when it gives a wrong score: its time would mean
 * nothing.
 */
export async function measureSeal(
  variant: PaperVariantName,
  dimension: number,
  { blocks, runs, distinct = 2 }: SealSample,
): Promise<SealCost> {
  progress(`${variant} on SEAL, d = ${dimension}: ${blocks} blocks`);
  const different = Math.min(blocks, distinct);
  const engine = await openPaper(variant, { dimension });
  try {
    const { client, server, context } = engine;
    const capacity = ENCODINGS[PAPER_VARIANTS[variant].encoding].capacity(context.parameters.n);
    const { vectors } = identities(different * capacity, 1, dimension).gallery();
    for (const upload of client.enrol(vectors)) server.enrol(upload);
    checkScores(engine, vectors, dimension);
    const query = client.query(vectors.subarray(0, dimension));
    const order = Array.from({ length: blocks }, (_, i) => i % different);
    const cumulative = new Array<number>(blocks).fill(Number.POSITIVE_INFINITY);
    let block = Number.POSITIVE_INFINITY;
    let cpu = 0;
    let responseBytes = 0;
    for (let run = 0; run < runs; run++) {
      const elapsed = stopwatch();
      const times: number[] = [];
      for (const response of server.search(query.bytes, { blocks: order })) {
        times.push(elapsed().seconds);
        responseBytes = response.length;
      }
      cpu += elapsed().cpu / (runs * blocks);
      times.forEach((time, i) => {
        cumulative[i] = Math.min(cumulative[i], time);
      });
      // Without the first, which has the query's loading in it.
      const mean = blocks === 1 ? times[0] : (times[blocks - 1] - times[0]) / (blocks - 1);
      block = Math.min(block, mean);
    }
    return {
      variant,
      dimension,
      capacity,
      cumulative,
      start: Math.max(0, cumulative[0] - block),
      block,
      cpu,
      queryBytes: query.bytes.length,
      responseBytes,
      keyBytes: client.keys.length,
      blockBytes: server.galleryBytes / different,
    };
  } finally {
    await engine.close();
  }
}

function checkScores({ client, server, context }: PaperEngine, vectors: Float32Array, dimension: number): void {
  const rounded = roundVectors(context.parameters, vectors, dimension);
  const query = client.query(vectors.subarray(0, dimension));
  for (const response of server.search(query.bytes, { blocks: [0] })) {
    const { integers } = query.read(response);
    for (const j of [0, integers.length - 1]) {
      let score = 0;
      for (let i = 0; i < dimension; i++) score += rounded[i] * rounded[j * dimension + i];
      if (integers[j] !== score) throw new Error('SEAL gave a wrong score, so its time means nothing.');
    }
  }
}

/** The time for a gallery, and whether that many blocks were really scored. */
export function sealSeconds(cost: SealCost, m: number): Time & { source: Source } {
  const blocks = Math.ceil(m / cost.capacity);
  const measured = cost.cumulative[blocks - 1];
  const cpu = blocks * cost.cpu;
  if (measured !== undefined) return { seconds: measured, cpu, source: 'measured' };
  return { seconds: cost.start + blocks * cost.block, cpu, source: 'extrapolated' };
}

/** Bytes of a gallery in memory. */
export function sealBytes({ capacity, blockBytes }: SealCost, m: number): number {
  return Math.ceil(m / capacity) * blockBytes;
}
