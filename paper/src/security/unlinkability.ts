// Can two ciphertexts be linked? A judge sees two of them, which have the same templates half of
// the time, and decides which it is. The judge is a linear classifier trained on features of such
// pairs. Its advantage is measured on pairs it has not seen.

import { decide, trainSvm } from '../metrics/linear-svm.ts';

/** Ciphertexts of the same templates, or of different ones: coefficients between −½ and ½. */
export type Pair = (same: boolean) => { a: Float64Array; b: Float64Array };

export interface Linking {
  /** Pairs that were judged. */
  readonly pairs: number;
  /**
   * P(says same | same) − P(says same | different): 1 for a judge that is always right, 0 for one
   * that knows nothing.
   */
  readonly advantage: number;
  /** Half of a 95 % interval around a judge that knows nothing. */
  readonly margin: number;
}

/**
 * 1.96 standard deviations of the difference of two shares of pairs / 2 coins each: the variance is
 * 2 · ¼ / (pairs / 2).
 */
export const marginOf = (pairs: number): number => 1.96 / Math.sqrt(pairs);

/** Trains on as many pairs as it judges, half of them of each kind. */
export function linkingAdvantage(
  pair: Pair,
  pairs: number,
  onProgress?: (done: number, total: number) => void,
): Linking {
  if (!(Number.isInteger(pairs) && pairs >= 4 && pairs % 2 === 0))
    throw new RangeError('an even number of pairs is needed, four at least');
  const features: number[][] = [];
  const labels = Int32Array.from({ length: 2 * pairs }, (_, i) => i % 2);
  for (let i = 0; i < 2 * pairs; i++) {
    const { a, b } = pair(labels[i] === 1);
    features.push(compared(a, b));
    onProgress?.(i + 1, 2 * pairs);
  }
  const scaled = standardised(features, pairs);
  const dimension = features[0].length;
  const svm = trainSvm(scaled.subarray(0, pairs * dimension), dimension, labels.subarray(0, pairs));
  const decisions = decide(svm, scaled.subarray(pairs * dimension));
  const says = (kind: number) => {
    let said = 0;
    for (let i = 0; i < pairs; i++) {
      if (labels[pairs + i] === kind && decisions[2 * i + 1] > decisions[2 * i]) said++;
    }
    return said / (pairs / 2);
  };
  return { pairs, advantage: says(1) - says(0), margin: marginOf(pairs) };
}

/**
 * Coefficients that differ by less are counted: from what is common among strangers down to less
 * than the noise of a scheme.
 */
const CLOSE = [8, 12, 16, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48].map((bits) => 2 ** -bits);
export const SCALES: number = CLOSE.length;

/**
 * Features that may give it away: correlation, how close the coefficients are around the circle and
 * how many are closer than chance allows, their signs, and the same for squares and for a shift by
 * one.
 */
function compared(a: Float64Array, b: Float64Array): number[] {
  let [product, near, signs, squares, shifted] = [0, 0, 0, 0, 0];
  const close = new Array<number>(CLOSE.length).fill(0);
  for (let i = 0; i < a.length; i++) {
    const [x, y] = [a[i], b[i]];
    const apart = Math.abs(x - y);
    const around = Math.min(apart, 1 - apart);
    product += x * y;
    near += around;
    signs += Math.sign(x) * Math.sign(y);
    squares += (x * x - 1 / 12) * (y * y - 1 / 12);
    shifted += x * b[(i + 1) % b.length];
    for (let k = 0; k < CLOSE.length && around < CLOSE[k]; k++) close[k]++;
  }
  return [product, near, signs, squares, shifted, ...close].map((sum) => sum / a.length);
}

/** Features scaled to mean 0 and deviation 1 over the first rows, which are the training rows. */
function standardised(rows: readonly number[][], trained: number): Float32Array {
  const width = rows[0].length;
  const out = new Float32Array(rows.length * width);
  for (let c = 0; c < width; c++) {
    const seen = rows.slice(0, trained).map((row) => row[c]);
    const mean = seen.reduce((sum, x) => sum + x, 0) / trained;
    const deviation = Math.sqrt(seen.reduce((sum, x) => sum + (x - mean) ** 2, 0) / trained) || 1;
    for (const [i, row] of rows.entries()) out[i * width + c] = (row[c] - mean) / deviation;
  }
  return out;
}
