// Whether all scores of a block are right, from a few sums of its vectors under secret weights
// (Freivalds). README.md §6 has the bound and its proof.
//
// For each copy c, with weights r_c[j] secret and uniform below 2^18, over the slots j that hold
// the vectors P_j:
//
//   w_c = Σ_j r_c[j]·P_j        s_c = Σ_j r_c[j]·‖P_j‖²        t_c = Σ_j r_c[j]
//
// The scores K_j of a query Q are right only if, but for probability 2^−107, for every copy
//
//   Σ_j r_c[j]·K_j = ⟨w_c, Q⟩                           cosine, dot
//   Σ_j r_c[j]·K_j = s_c + t_c·‖Q‖² − 2·⟨w_c, Q⟩         euclidean
//
// Doubles are exact here. Let M be the longest rounded vector, at most 1402.02 (d = 4096), and n ≤
// 4096, so t_c < 2^30. Then Σ_j r_c[j]·|K_j| ≤ t_c·4M² < 2^52.91; Σ_i |w_c[i]·Q_i| ≤
// ‖w_c‖·‖Q‖ ≤ t_c·M² < 2^50.91 by Cauchy-Schwarz, and likewise s_c and t_c·‖Q‖². No sum, in
// whatever order, gets to 2^53.

import { HersError } from '../errors.ts';
import { NORM_TOLERANCE, type Plan } from '../plan.ts';
import { type Encoded, encodeVectors, type Vectors } from '../vectors.ts';
import { WEIGHT_COPIES as COPIES, type CollectionKey, scoreWeights, WEIGHT_BITS } from './key.ts';

/**
 * What the scores of a block are checked against. As secret as a key: with the vectors, sums tell
 * the weights.
 */
export interface ScoreSums {
  /** One sum of vectors after the other: copies · dimension. */
  readonly w: Float64Array;
  /** Of squared norms, and of the weights alone: one for each copy. */
  readonly s: Float64Array;
  readonly t: Float64Array;
}

/** The norm of the longest vector after rounding: what encodeVectors lets pass. */
function longest({ steps, dimension }: Plan): number {
  return steps * (1 + NORM_TOLERANCE) + Math.sqrt(dimension) / 2;
}

/** ‖P − Q‖² reaches it, |⟨P, Q⟩| a quarter. */
export const largestInteger = (plan: Plan): number => 4 * longest(plan) ** 2;

/** ‖Q‖² of an encoded query, without the coordinate that euclidean appends. */
export function squareOf({ dimension }: Plan, { values }: Encoded): number {
  let square = 0;
  for (let i = 0; i < dimension; i++) square += values[i] ** 2;
  return square;
}

function checkExact({ profile }: Plan): void {
  if (profile !== 'exact')
    throw new HersError('INVALID_ARGUMENT', 'only scores under exact can be checked; those under compact have errors');
}

/**
 * For every copy c, Σ_j factors[c·stride + j]·values[at + j] into out[c]. All six at once:
 * values are read once, and no sum waits for another.
 */
function weigh(
  out: Float64Array,
  factors: Float64Array,
  stride: number,
  values: Int32Array,
  at: number,
  count: number,
): void {
  let [sum0, sum1, sum2, sum3, sum4, sum5] = [0, 0, 0, 0, 0, 0];
  for (let k = 0; k < count; k++) {
    const x = values[at + k];
    sum0 += factors[k] * x;
    sum1 += factors[k + stride] * x;
    sum2 += factors[k + 2 * stride] * x;
    sum3 += factors[k + 3 * stride] * x;
    sum4 += factors[k + 4 * stride] * x;
    sum5 += factors[k + 5 * stride] * x;
  }
  out[0] = sum0;
  out[1] = sum1;
  out[2] = sum2;
  out[3] = sum3;
  out[4] = sum4;
  out[5] = sum5;
}

/**
 * The sums of vectors in the slots from 0 on. Vectors as encryptBlock takes them. `exact` only.
 *
 * @example const sums = scoreSums(key, vectors); // kept sealed, beside the id of the block that
 * encrypts them
 */
export function scoreSums(key: CollectionKey, vectors: Vectors): ScoreSums {
  const { plan } = key;
  const { dimension, parameters } = plan;
  const { n } = parameters;
  checkExact(plan);
  const { count, values } = encodeVectors(plan, vectors, 'gallery');
  if (count < 1 || count > n)
    throw new HersError('INVALID_ARGUMENT', `a block has slots 0 … ${n - 1}; ${count} vectors do not fit`);
  const sums = blank(dimension);
  const squares = new Int32Array(count); // below 2^21
  try {
    const weights = scoreWeights(key);
    for (let i = 0; i < dimension; i++) {
      for (let j = 0, at = i * count; j < count; j++, at++) squares[j] += values[at] * values[at];
      weigh(sums.s, weights, n, values, i * count, count);
      for (let c = 0; c < COPIES; c++) sums.w[c * dimension + i] = sums.s[c];
    }
    weigh(sums.s, weights, n, squares, 0, count);
    weigh(sums.t, weights, n, squares.fill(1), 0, count);
  } finally {
    values.fill(0);
    squares.fill(0);
  }
  return sums;
}

function blank(dimension: number): ScoreSums {
  return { w: new Float64Array(COPIES * dimension), s: new Float64Array(COPIES), t: new Float64Array(COPIES) };
}

/** Whether these are arrays as scoreSums makes them, for vectors of this dimension. */
function checkShape({ w, s, t }: ScoreSums, dimension: number): void {
  const floats = [w, s, t].every((each) => each instanceof Float64Array);
  if (!floats || w.length !== COPIES * dimension || s.length !== COPIES || t.length !== COPIES)
    throw new HersError('INVALID_ARGUMENT', 'sums must be given as scoreSums made them, for the same dimension');
}

/** s, t, then w as f64, little endian: 48·(dimension + 2) bytes. To be sealed. */
export function encodeScoreSums(sums: ScoreSums): Uint8Array {
  checkShape(sums, sums.w.length / COPIES);
  const { w, s, t } = sums;
  const bytes = new Uint8Array(8 * (2 * COPIES + w.length));
  const view = new DataView(bytes.buffer);
  for (let c = 0; c < COPIES; c++) {
    view.setFloat64(8 * c, s[c], true);
    view.setFloat64(8 * (COPIES + c), t[c], true);
  }
  for (let k = 0; k < w.length; k++) view.setFloat64(8 * (2 * COPIES + k), w[k], true);
  return bytes;
}

/**
 * Throws MALFORMED for what cannot be the sums of any vectors under this plan; that keeps what is
 * computed with them exact.
 */
export function decodeScoreSums(plan: Plan, bytes: Uint8Array): ScoreSums {
  checkExact(plan);
  const { dimension, parameters } = plan;
  if (!(bytes instanceof Uint8Array))
    throw new HersError('INVALID_ARGUMENT', 'sums must be given as the bytes that encodeScoreSums made');
  const length = 8 * COPIES * (dimension + 2);
  if (bytes.length !== length)
    throw new HersError('MALFORMED', `sums for ${dimension} dimensions have ${length} bytes`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, length);
  const read = (at: number): number => {
    const x = view.getFloat64(8 * at, true);
    if (!Number.isSafeInteger(x) || Object.is(x, -0))
      throw new HersError('MALFORMED', 'these sums hold something that is not a whole number');
    return x;
  };
  const sums = blank(dimension);
  const { w, s, t } = sums;
  const norm = longest(plan);
  const loose = 1 + 1e-9; // for the rounding of the squares below, which are no exact numbers
  for (let c = 0; c < COPIES; c++) {
    s[c] = read(c);
    t[c] = read(COPIES + c);
    let square = 0;
    for (let i = 0; i < dimension; i++) {
      const x = read(2 * COPIES + c * dimension + i);
      w[c * dimension + i] = x;
      square += x * x;
    }
    const fits =
      t[c] >= 0 &&
      t[c] <= parameters.n * 2 ** WEIGHT_BITS &&
      s[c] >= 0 &&
      s[c] <= t[c] * norm ** 2 * loose &&
      Math.sqrt(square) <= t[c] * norm * loose;
    if (!fits) throw new HersError('MALFORMED', 'these sums are larger than any vectors have');
  }
  return sums;
}

/**
 * Checks blocks against one query, which is rounded once. As secret as the query: let go of it with
 * the responses.
 *
 * @example const fits = scoreChecker(key, query); // then, for every block: if (!fits(sums,
 * integers)) refuse it
 */
export function scoreChecker(
  key: CollectionKey,
  query: ArrayLike<number>,
): (sums: ScoreSums, integers: Int32Array) => boolean {
  const { plan } = key;
  const { dimension, metric, parameters } = plan;
  const { n } = parameters;
  checkExact(plan);
  scoreWeights(key); // a wiped key is refused here already
  const encoded = encodeVectors(plan, [query], 'query');
  const probe = encoded.values; // of euclidean's appended coordinate nothing is read
  const square = squareOf(plan, encoded);
  const largest = largestInteger(plan);
  const ones = new Int32Array(n).fill(1);
  const products = new Float64Array(COPIES);
  const weighed = new Float64Array(COPIES);
  const slots = new Float64Array(COPIES);

  return (sums, integers) => {
    checkShape(sums, dimension);
    if (!(integers instanceof Int32Array))
      throw new HersError('INVALID_ARGUMENT', 'scores must be given as the integers that decryption gives');
    const weights = scoreWeights(key);
    const count = integers.length;
    if (count > n) return false;
    for (let j = 0; j < count; j++) if (Math.abs(integers[j]) > largest) return false;
    const { w, s, t } = sums;
    weigh(products, w, dimension, probe, 0, dimension);
    weigh(weighed, weights, n, integers, 0, count);
    // The weights alone tell whether it is these slots that were summed, also where a score is
    // zero.
    weigh(slots, weights, n, ones, 0, count);
    let fits = true;
    for (let c = 0; c < COPIES; c++) {
      const expected = metric === 'euclidean' ? s[c] + t[c] * square - 2 * products[c] : products[c];
      fits = weighed[c] === expected && slots[c] === t[c] && fits;
    }
    products.fill(0);
    weighed.fill(0);
    slots.fill(0);
    return fits;
  };
}
