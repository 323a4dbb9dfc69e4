// The nearest neighbours of every vector among the others, exactly: candidates by single-precision
// products, block by block, and then their distances in double precision, because the estimators
// take logarithms of ratios of them.

import { CompressError } from '@hers/compress';
import { refuseUnknown } from '@hers/scheme/options';
import { dot } from '@hers/vectors/linear-algebra';
import { invalid } from '../methods/method.ts';
import { product } from '../training/session.ts';
import { unitRows } from '../training/training-set.ts';

/** The k nearest of each vector but itself, nearest first: row i is about vector i. */
export interface Neighbours {
  readonly count: number;
  readonly k: number;
  readonly index: Int32Array;
  readonly distance: Float64Array;
}

/** `euclidean`: the straight line. `angle`: the arc between directions, whatever the lengths. */
export type Distance = 'euclidean' | 'angle';

export interface NearestOptions {
  readonly distance?: Distance;
  readonly onProgress?: (done: number, total: number) => void;
  readonly signal?: AbortSignal;
}

/** More candidates than wanted, since rounding may swap those that are almost equally far. */
const SPARE = 8;
const BLOCK = 256;

export async function nearest(
  vectors: Float32Array,
  dimension: number,
  k: number,
  options: NearestOptions = {},
): Promise<Neighbours> {
  refuseUnknown(options, { distance: true, onProgress: true, signal: true }, 'nearest', 'option', CompressError);
  const { distance = 'euclidean', onProgress, signal } = options;
  const count = checkVectors(vectors, dimension);
  if (!(Number.isInteger(k) && k >= 1 && k < count))
    throw invalid(`k is a whole number from 1 to ${count - 1}, one less than there are vectors`);
  const points = distance === 'angle' ? directions(vectors, dimension) : vectors;
  const halfSquares = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const point = points.subarray(i * dimension, (i + 1) * dimension);
    halfSquares[i] = dot(point, point) / 2;
  }
  const wanted = Math.min(count - 1, k + SPARE);
  const index = new Int32Array(count * k);
  const distances = new Float64Array(count * k);
  const best = new Candidates(wanted);
  const all = { data: points, columns: dimension };
  for (let first = 0; first < count; first += BLOCK) {
    signal?.throwIfAborted();
    const rows = Math.min(BLOCK, count - first);
    const some = { data: points.subarray(first * dimension, (first + rows) * dimension), columns: dimension };
    const scores = await product(some, all, { transposed: 'second' });
    for (let i = first; i < first + rows; i++) {
      best.clear();
      // ½‖x − y‖² = ½‖x‖² − (⟨x, y⟩ − ½‖y‖²): the nearest has the largest bracket.
      for (let j = 0, at = (i - first) * count; j < count; j++, at++)
        if (j !== i) best.offer(scores[at] - halfSquares[j], j);
      const found = Array.from(best.index, (j) => ({ j, far: between(points, i, j, dimension, distance) }));
      found.sort((a, b) => a.far - b.far || a.j - b.j);
      for (let n = 0; n < k; n++) {
        index[i * k + n] = found[n].j;
        distances[i * k + n] = found[n].far;
      }
    }
    onProgress?.(first + rows, count);
  }
  return { count, k, index, distance: distances };
}

/** The largest values offered, in order. */
class Candidates {
  readonly index: Int32Array;
  readonly #value: Float64Array;

  constructor(count: number) {
    this.index = new Int32Array(count);
    this.#value = new Float64Array(count);
  }

  clear(): void {
    this.#value.fill(Number.NEGATIVE_INFINITY);
  }

  offer(value: number, index: number): void {
    const values = this.#value;
    let place = values.length - 1;
    if (value <= values[place]) return;
    for (; place > 0 && values[place - 1] < value; place--) {
      values[place] = values[place - 1];
      this.index[place] = this.index[place - 1];
    }
    values[place] = value;
    this.index[place] = index;
  }
}

function between(points: Float32Array, i: number, j: number, dimension: number, distance: Distance): number {
  let squares = 0;
  for (let c = 0, a = i * dimension, b = j * dimension; c < dimension; c++, a++, b++)
    squares += (points[a] - points[b]) ** 2;
  const chord = Math.sqrt(squares);
  return distance === 'angle' ? 2 * Math.asin(Math.min(1, chord / 2)) : chord;
}

function directions(vectors: Float32Array, dimension: number): Float32Array {
  for (let at = 0; at < vectors.length; at += dimension)
    if (vectors.subarray(at, at + dimension).every((x) => x === 0))
      throw new CompressError('INVALID_VECTOR', `vector ${at / dimension} is zero and has no direction`);
  return unitRows(vectors, dimension);
}

/** How many vectors there are. */
export function checkVectors(vectors: Float32Array, dimension: number): number {
  const count = vectors.length / dimension;
  if (!(Number.isInteger(dimension) && dimension >= 1 && Number.isInteger(count)))
    throw new CompressError(
      'INVALID_VECTOR',
      `${vectors.length} numbers are not whole vectors of dimension ${dimension}`,
    );
  const bad = vectors.findIndex((x) => !Number.isFinite(x));
  if (bad >= 0)
    throw new CompressError(
      'INVALID_VECTOR',
      `vector ${Math.floor(bad / dimension)} holds ${vectors[bad]} in place ${bad % dimension}`,
    );
  return count;
}
