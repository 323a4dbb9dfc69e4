// What follows from published and measured figures by arithmetic alone: time per core, the paper's
// headline ratios, and the origin of the gigabytes in its Table 3.

import { HEADLINES, TABLE_3, TWO_STAGE } from './published.ts';

/** The dimensions of the headline ratios: as in the paper, or those of a small run. */
export interface HeadlineDimensions {
  /** Where the two encodings are compared. */
  readonly encoding: number;
  /** The dimension compressed to, at which two stages begin. */
  readonly compressed: number;
  readonly coarse: number;
  /** The dimension compressed from, at which two stages end. */
  readonly full: number;
}

export const HEADLINE_DIMENSIONS: HeadlineDimensions = {
  encoding: HEADLINES.encoding.dimension,
  compressed: HEADLINES.both.dimension,
  coarse: HEADLINES.stages.to,
  full: HEADLINES.stages.dimension,
};

export interface Headlines {
  readonly encoding: number;
  readonly compression: number;
  readonly both: number;
  readonly memory: number;
  readonly stages: number;
}

/** Core-seconds and bytes of one system, by dimension; NaN if not measured. */
export interface Costs {
  seconds(dimension: number): number;
  bytes(dimension: number): number;
}

/**
 * The paper's five ratios: a search by the baseline, Boddeti's encoding, against one by a system.
 * Two stages scan everything at the coarse dimension and score a share of the gallery again by the
 * baseline. Without a share, the system searches once, at full dimension.
 */
export function headlines(
  baseline: Costs,
  system: Costs,
  { encoding, compressed, coarse, full }: HeadlineDimensions,
  share?: number,
): Headlines {
  const again = share === undefined ? system.seconds(full) : system.seconds(coarse) + share * baseline.seconds(full);
  return {
    encoding: baseline.seconds(encoding) / system.seconds(encoding),
    compression: system.seconds(full) / system.seconds(compressed),
    both: baseline.seconds(compressed) / system.seconds(compressed),
    memory: baseline.bytes(compressed) / system.bytes(compressed),
    stages: baseline.seconds(full) / again,
  };
}

/** The same from the paper's own tables, where its text has rounded them. */
export function publishedHeadlines(): Headlines {
  const { hers, boddeti } = TABLE_3;
  const { coarseSeconds, fineSeconds, singleSeconds } = TWO_STAGE;
  return {
    encoding: boddeti.seconds / hers[512].seconds,
    compression: singleSeconds / hers[32].seconds,
    both: boddeti.seconds / hers[32].seconds,
    memory: boddeti.gigabytes / hers[32].gigabytes,
    stages: boddeti.seconds / (coarseSeconds + fineSeconds),
  };
}

/** Bytes of ciphertexts that each hold one coordinate of this many templates. */
export function hersBytes(templates: number, dimension: number, slots: number, ciphertext: number): number {
  return Math.ceil(templates / slots) * dimension * ciphertext;
}

/** Boddeti's encoding: one ciphertext per template, whatever its dimension. */
export function boddetiBytes(templates: number, ciphertext: number): number {
  return templates * ciphertext;
}
