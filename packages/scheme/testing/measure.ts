// Measures the noise of real encryptions against its prediction. For tests and campaigns: it sees
// phases before they are rounded.

import { noiseTerms } from '../src/noise.ts';
import { type OpenPlan, openTerms } from '../src/open/plan.ts';
import { wideFactor } from '../src/parameters.ts';
import type { Plan } from '../src/plan.ts';
import { decodeQuery } from '../src/query.ts';
import { blockMatrix, encodeResponse, expandedQuery, scanBlock } from '../src/response.ts';
import { rawPhase } from '../src/secret/decrypt.ts';
import { type Entropy, encryptBlockFrom, encryptQueryFrom } from '../src/secret/encrypt.ts';
import { MasterSeed } from '../src/secret/key.ts';
import { encodeVectors, type Vectors } from '../src/vectors.ts';

export type GalleryKind = 'random' | 'identical' | 'one-hot' | 'half-empty';
export const GALLERY_KINDS: readonly GalleryKind[] = ['random', 'identical', 'one-hot', 'half-empty'];

export interface Measurement {
  /** Root mean squares over all slots and queries, in the plan's units, and their ratio. */
  readonly measured: number;
  readonly predicted: number;
  readonly ratio: number;
  readonly largest: number;
  readonly scores: number;
  /** `exact`: scores whose noise exceeds half a step. */
  readonly wrong: number;
}

export interface MeasureOptions {
  readonly gallery: GalleryKind;
  readonly queries: number;
  readonly entropy: Entropy;
  /** Standard normal numbers for the vectors. */
  readonly normal: () => number;
  readonly onProgress?: (done: number, of: number) => void;
}

/** Unit vectors of the asked kind, one after the other. */
function makeGallery(kind: GalleryKind, count: number, dimension: number, normal: () => number): Float32Array {
  const used = kind === 'half-empty' ? count >> 1 : count;
  const out = new Float32Array(used * dimension);
  for (let j = 0; j < used; j++) {
    const row = out.subarray(j * dimension, (j + 1) * dimension);
    if (kind === 'one-hot') row[j % dimension] = 1;
    else if (kind === 'identical' && j > 0) row.set(out.subarray(0, dimension));
    else unit(row, normal);
  }
  return out;
}

function unit(row: Float32Array, normal: () => number): void {
  let norm = 0;
  for (let i = 0; i < row.length; i++) {
    row[i] = normal();
    norm += row[i] ** 2;
  }
  for (let i = 0; i < row.length; i++) row[i] /= Math.sqrt(norm);
}

export function measureNoise(plan: Plan, options: MeasureOptions): Measurement {
  const { gallery: kind, queries, entropy, normal } = options;
  const { dimension } = plan;
  const key = MasterSeed.from(entropy.seed()).collectionKey(plan, entropy.id());
  const gallery = makeGallery(kind, plan.parameters.n, dimension, normal);
  const count = gallery.length / dimension;
  const steps = queries + 1;
  const matrix = blockMatrix(encryptBlockFrom(entropy, key, gallery));
  options.onProgress?.(1, steps);
  const encoded = encodeVectors(plan, gallery, 'gallery');
  let squares = 0;
  let predicted = 0;
  let largest = 0;
  let wrong = 0;
  for (let k = 0; k < queries; k++) {
    const vector = new Float32Array(dimension);
    unit(vector, normal);
    const { query, secret } = encryptQueryFrom(entropy, key, vector);
    const phase = rawPhase(secret, encodeResponse(scanBlock(matrix, expandedQuery(decodeQuery(query)))));
    secret.wipe();
    const truth = plan.profile === 'exact' ? exactPhases(plan, encoded, vector) : realScores(gallery, vector);
    for (let j = 0; j < plan.parameters.n; j++) {
      const error = Math.abs(phase[j] - (j < count ? truth[j] : 0));
      squares += error * error;
      if (error > largest) largest = error;
      if (error >= 0.5) wrong++;
    }
    predicted += predictedNoise(plan, gallery, vector) ** 2;
    options.onProgress?.(k + 2, steps);
  }
  const scores = queries * plan.parameters.n;
  const measured = Math.sqrt(squares / scores);
  predicted = Math.sqrt(predicted / queries);
  return { measured, predicted, ratio: measured / predicted, largest, scores, wrong };
}

/**
 * What an `exact` phase must be, in steps: the integer sum of products of encoded coordinates, in
 * units of the plan.
 */
function exactPhases(plan: Plan, gallery: ReturnType<typeof encodeVectors>, vector: Float32Array): Float64Array {
  const query = encodeVectors(plan, [vector], 'query');
  const out = new Float64Array(gallery.count);
  for (let i = 0; i < plan.width; i++) {
    const wide = 2 ** plan.parameters.wideBits;
    const factor = (query.values[i] * query.lifts[i] * gallery.lifts[i]) / wide / plan.unit;
    for (let j = 0; j < gallery.count; j++) out[j] += gallery.values[i * gallery.count + j] * factor;
  }
  return out;
}

/** Cosine scores of unit vectors, in double precision. */
function realScores(gallery: Float32Array, vector: Float32Array): Float64Array {
  const dimension = vector.length;
  const length = Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));
  return Float64Array.from({ length: gallery.length / dimension }, (_, j) => {
    let dot = 0;
    let square = 0;
    for (let i = 0; i < dimension; i++) {
      const x = gallery[j * dimension + i];
      dot += x * vector[i];
      square += x * x;
    }
    return dot / (length * Math.sqrt(square));
  });
}

/**
 * The standard deviation of the scores of one block against one query, in the plan's units
 * (`compact`: a score of 1 at the norm bounds, `exact`: an integer step). A half-empty block has
 * less of it than the plan, which assumes full ones.
 */
function predictedNoise(plan: Plan, gallery: Vectors, query: ArrayLike<number>): number {
  const { parameters, width, responseBits, profile } = plan;
  const gallerySquares = encodeVectors(plan, gallery, 'gallery').squares.reduce((sum, x) => sum + x, 0);
  const querySquares = encodeVectors(plan, [query], 'query').squares[0];
  const rounding = profile === 'exact' ? 0 : querySquares / 12 / wideFactor(parameters) ** 2;
  const { c0: bits0, c1: bits1 } = responseBits;
  const terms = noiseTerms({ parameters, width, gallerySquares, querySquares, rounding, bits0, bits1 });
  return Math.sqrt(terms.total) / plan.unit;
}

/**
 * The standard deviation of the scores of one block against one open query, where the templates are
 * not alike: in units of a score of 1 at the norm bounds.
 */
export function predictedOpenNoise(plan: OpenPlan, gallery: Vectors, query: ArrayLike<number>): number {
  const { parameters: set, width, levels, responseBits } = plan;
  const gallerySquares = encodeVectors(plan, gallery, 'gallery').squares.reduce((sum, x) => sum + x, 0);
  const querySquares = encodeVectors(plan, [query], 'query').squares[0];
  const { c0: bits0, c1: bits1 } = responseBits;
  const terms = openTerms({ set, width, levels, gallerySquares, querySquares, bits0, bits1 });
  return Math.sqrt(terms.total) / plan.unit;
}
