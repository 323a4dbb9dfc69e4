// From vectors of floats to the integers that are encrypted, and from decrypted integers to scores
// (README.md §5).

import { roundVectors as roundTransposed, squareSums } from '@hers/ring';
import { HersError } from './errors.ts';
import { NORM_TOLERANCE, type Plan } from './plan.ts';

/**
 * One vector after another in one array, or a list of vectors. An Int32Array holds vectors that
 * `exact` has rounded already, as decryption gives them.
 */
export type Vectors = Float32Array | Float64Array | Int32Array | readonly ArrayLike<number>[];

type Numbers = Float32Array | Float64Array | Int32Array;

/** Added and subtracted, it rounds to the nearest integer, ties to even. */
const ROUNDER = 1.5 * 2 ** 52;

/** Encoded vectors, coordinate-major: coordinate i of vector j at i·count + j. */
export interface Encoded {
  readonly count: number;
  readonly values: Int32Array;
  /** What coordinate i is multiplied by when it is encrypted. */
  readonly lifts: readonly number[];
  /** For each vector Σ (lift·value)², the squares that the noise formulas take. */
  readonly squares: Float64Array;
}

/** The role decides scale, norm bound and the appended coordinate. */
export type Role = 'gallery' | 'query';

function flatten(
  vectors: Vectors,
  dimension: number,
  name?: string | (() => string),
): { data: Numbers; count: number } {
  if (vectors instanceof Float32Array || vectors instanceof Float64Array || vectors instanceof Int32Array) {
    if (vectors.length % dimension !== 0)
      throw new HersError(
        'INVALID_VECTOR',
        `vectors must have ${dimension} coordinates each; ${vectors.length} numbers do not divide so`,
      );
    return { data: vectors, count: vectors.length / dimension };
  }
  if (!Array.isArray(vectors))
    throw new HersError('INVALID_VECTOR', 'vectors must be a Float32Array or a list of vectors');
  const data = new Float64Array(vectors.length * dimension);
  vectors.forEach((vector, j) => {
    if (vector === null || typeof vector !== 'object' || vector.length !== dimension) {
      const found = typeof vector?.length === 'number' ? `has ${vector.length} coordinates` : 'is no list of numbers';
      throw new HersError(
        'INVALID_VECTOR',
        `${called(name) ?? `vector ${j}`} ${found}, and the collection takes ${dimension}; use the model that the gallery was made with`,
      );
    }
    for (let i = 0; i < dimension; i++) {
      const x = vector[i];
      if (typeof x !== 'number')
        throw new HersError('INVALID_VECTOR', `${called(name) ?? `vector ${j}`} holds something that is not a number`);
      data[j * dimension + i] = x;
    }
  });
  return { data, count: vectors.length };
}

/** What an error calls a vector: only made when there is one. */
const called = (name: string | (() => string) | undefined) => (typeof name === 'function' ? name() : name);

/**
 * Euclidean norm; from the plain sum of squares first, which may be known, and a scaled one where
 * that over- or underflows.
 */
function normOf(data: Numbers, at: number, dimension: number, squares?: number): number {
  let sum = squares ?? 0;
  if (squares === undefined) for (let i = at; i < at + dimension; i++) sum += data[i] * data[i];
  if (sum > 1e-200 && sum < 1e200) return Math.sqrt(sum);
  let largest = 0;
  for (let i = at; i < at + dimension; i++) {
    const x = Math.abs(data[i]);
    if (!(x < Number.POSITIVE_INFINITY)) return Number.NaN;
    if (x > largest) largest = x;
  }
  if (largest === 0) return 0;
  sum = 0;
  for (let i = at; i < at + dimension; i++) sum += (data[i] / largest) ** 2;
  return largest * Math.sqrt(sum);
}

/**
 * The norm of one vector that may be encrypted. Throws INVALID_VECTOR for NaN, infinity, a zero
 * vector under cosine, and a norm beyond the bound.
 */
function checkedNorm(
  plan: Plan,
  data: Numbers,
  at: number,
  role: Role,
  name: string | (() => string),
  squares?: number,
): number {
  const { metric, dimension } = plan;
  const bound = role === 'gallery' ? plan.normBound : plan.queryNormBound;
  const norm = normOf(data, at, dimension, squares);
  if (!Number.isFinite(norm))
    throw new HersError('INVALID_VECTOR', `${called(name)} holds NaN or infinity, or is too long to measure`);
  if (metric === 'cosine') {
    if (norm === 0) throw new HersError('INVALID_VECTOR', `${called(name)} is zero, which has no direction to compare`);
  } else if (norm > bound * (1 + NORM_TOLERANCE)) {
    throw new HersError(
      'INVALID_VECTOR',
      `${called(name)} is longer than the norm bound of ${bound}; scale it, or plan with a larger bound`,
    );
  }
  return norm;
}

/**
 * A vector as single-precision floats, after all checks that encryption would make. `name` is what
 * an error calls it.
 */
export function checkVector(
  plan: Plan,
  vector: ArrayLike<number>,
  role: Role = 'gallery',
  name: string | (() => string) = 'the vector',
): Float32Array {
  const isFloats = vector instanceof Float32Array && vector.length === plan.dimension;
  const floats = isFloats ? vector : Float32Array.from(flatten([vector], plan.dimension, name).data);
  checkedNorm(plan, floats, 0, role, name);
  return floats;
}

/**
 * Checks vectors and rounds them to the integers that will be encrypted. Throws INVALID_VECTOR,
 * before anything else happens, for a wrong length, NaN, infinity, a zero vector under cosine, and
 * a norm beyond the bound.
 */
export function encodeVectors(plan: Plan, vectors: Vectors, role: Role): Encoded {
  const { dimension, width, metric, profile } = plan;
  const { data, count } = flatten(vectors, dimension);
  const exact = profile === 'exact';
  const rounded = data instanceof Int32Array;
  if (rounded && !exact) throw new HersError('INVALID_VECTOR', 'only exact takes vectors that are rounded already');
  const bound = role === 'gallery' ? plan.normBound : plan.queryNormBound;
  const scale = role === 'gallery' ? plan.galleryScale : plan.queryScale;
  const steps = exact ? plan.steps : scale;
  const values = new Int32Array(width * count);
  const squares = new Float64Array(count);
  const factors = new Float64Array(count);
  const norms = new Float64Array(count);
  const sums = squareSums(data, dimension);
  const longest = steps * (1 + NORM_TOLERANCE) + Math.sqrt(dimension) / 2;

  for (let j = 0; j < count; j++) {
    if (rounded) {
      if (!(normOf(data, j * dimension, dimension, sums[j]) <= longest))
        throw new HersError('INVALID_VECTOR', `vector ${j} is longer than any that was rounded`);
      factors[j] = 1 / steps;
      continue;
    }
    const norm = checkedNorm(plan, data, j * dimension, role, () => `vector ${j}`, sums[j]);
    norms[j] = norm / bound;
    factors[j] = metric === 'cosine' ? 1 / norm : 1 / bound;
  }
  roundTransposed(values, squares, data, factors, steps, dimension);
  if (metric === 'euclidean') {
    for (let j = 0; j < count; j++) {
      const appended =
        role === 'query'
          ? exact
            ? plan.appended / 2
            : steps / 2
          : exact
            ? plan.squares - squares[j]
            : steps * (1 - norms[j] ** 2);
      values[dimension * count + j] = appended + ROUNDER - ROUNDER;
    }
  }

  const lifts = new Array<number>(width).fill(exact ? scale : 1);
  if (exact && metric === 'euclidean' && role === 'gallery') lifts[dimension] = scale / plan.appended;
  for (let j = 0; j < count; j++) {
    squares[j] *= lifts[0] ** 2;
    if (width > dimension) squares[j] += (values[dimension * count + j] * lifts[dimension]) ** 2;
  }
  return { count, values, lifts, squares };
}

/** The integers that `exact` compares: vectors rounded to a step of the plan, vector-major. */
export function roundVectors(plan: Plan, vectors: Vectors, role: Role = 'gallery'): Int32Array {
  const { count, values } = encodeVectors(plan, vectors, role);
  const { dimension } = plan;
  const out = new Int32Array(count * dimension);
  for (let j = 0; j < count; j++) for (let i = 0; i < dimension; i++) out[j * dimension + i] = values[i * count + j];
  return out;
}

/**
 * How a decrypted step becomes a score: score = slope·step + offset, or for `exact` the integer
 * sign·step + shift times `step`.
 */
export interface Readout {
  readonly slope: number;
  readonly offset: number;
  /** `exact` only: integer = sign·decrypted + shift. */
  readonly sign: 1 | -1;
  readonly shift: number;
}

/** `query` is the encoded query: euclidean needs its squared norm, which the client knows. */
export function readout(plan: Plan, query: Encoded, norm: number): Readout {
  const { metric, profile, normBound, queryNormBound, steps, squares } = plan;
  const scale = normBound * queryNormBound;
  if (profile === 'exact') {
    const slope = scale / steps ** 2;
    if (metric !== 'euclidean') return { slope, offset: 0, sign: 1, shift: 0 };
    let square = 0;
    for (let i = 0; i < plan.dimension; i++) square += query.values[i] ** 2;
    return { slope, offset: 0, sign: -1, shift: square + squares };
  }
  if (metric !== 'euclidean') return { slope: scale, offset: 0, sign: 1, shift: 0 };
  return { slope: -2 * scale, offset: scale + norm * norm, sign: -1, shift: 0 };
}

/** The norm of a single vector that passed encodeVectors. */
export function vectorNorm(vector: ArrayLike<number>): number {
  return normOf(Float64Array.from(vector), 0, vector.length);
}

/**
 * The scores that decryption would give without noise, in plain arithmetic: of real vectors under
 * `compact`, of rounded ones under `exact`.
 */
export function plainScores(plan: Plan, gallery: Vectors, query: ArrayLike<number>): Float64Array {
  const { dimension, metric, normBound, queryNormBound, steps } = plan;
  const exact = plan.profile === 'exact';
  const { data, count } = exact
    ? { data: roundVectors(plan, gallery), count: flatten(gallery, dimension).count }
    : flatten(gallery, dimension);
  const probe = exact ? roundVectors(plan, [query], 'query') : flatten([query], dimension).data;
  const slope = exact ? (normBound * queryNormBound) / steps ** 2 : 1;
  const length = !exact && metric === 'cosine' ? normOf(probe, 0, dimension) : 1;
  const out = new Float64Array(count);
  for (let j = 0; j < count; j++) {
    let sum = 0;
    const at = j * dimension;
    if (metric === 'euclidean') for (let i = 0; i < dimension; i++) sum += (data[at + i] - probe[i]) ** 2;
    else for (let i = 0; i < dimension; i++) sum += data[at + i] * probe[i];
    if (!exact && metric === 'cosine') sum /= length * normOf(data, at, dimension);
    out[j] = slope * sum;
  }
  return out;
}

/**
 * The scores that decryption under `compact` would give without noise: of vectors as they are
 * encrypted, rounded to the scales of the plan.
 */
export function noiselessScores(plan: Plan, gallery: Vectors, query: ArrayLike<number>): Float64Array {
  const { count, values, lifts } = encodeVectors(plan, gallery, 'gallery');
  const probe = encodeVectors(plan, [query], 'query');
  const { slope, offset } = readout(plan, probe, vectorNorm(query));
  const out = new Float64Array(count);
  for (let j = 0; j < count; j++) {
    let phase = 0;
    for (let i = 0; i < plan.width; i++) phase += values[i * count + j] * lifts[i] * probe.values[i] * probe.lifts[i];
    out[j] = slope * (phase / 2 ** plan.parameters.wideBits / plan.unit) + offset;
  }
  return out;
}
