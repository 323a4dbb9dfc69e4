// Closed-set identification: every probe has a mate in the gallery. The rank is the number of
// strangers that score higher than the best mate, plus one.

export interface Labelled {
  /** One after the other, at unit length. */
  readonly vectors: Float32Array;
  readonly dimension: number;
  readonly labels: ArrayLike<number>;
}

/** Places of vectors whose label occurs again: the probes of leave-one-out identification. */
export function matedPlaces(labels: ArrayLike<number>): Int32Array {
  const counts = new Map<number, number>();
  for (let i = 0; i < labels.length; i++) counts.set(labels[i], (counts.get(labels[i]) ?? 0) + 1);
  const places: number[] = [];
  for (let i = 0; i < labels.length; i++) if (counts.get(labels[i])! > 1) places.push(i);
  return Int32Array.from(places);
}

/** The rank of the best template with this label, without `except`, the probe itself. */
export function rankOfMate(
  scores: ArrayLike<number>,
  labels: ArrayLike<number>,
  label: number,
  except: number,
): number {
  let best = Number.NEGATIVE_INFINITY;
  for (let j = 0; j < scores.length; j++) if (labels[j] === label && j !== except && scores[j] > best) best = scores[j];
  if (best === Number.NEGATIVE_INFINITY) throw new RangeError('a probe has no mate in the gallery');
  let rank = 1;
  for (let j = 0; j < scores.length; j++) if (labels[j] !== label && j !== except && scores[j] >= best) rank++;
  return rank;
}

// Scores of many probes against a gallery, one row per probe, without holding all of them at once.

/** Probes pass over the gallery together: each load of a template serves four products. */
const TOGETHER = 4;

/**
 * Calls `visit` with the inner products of each probe and all templates, in the order of the
 * probes. The row is valid during the call. Products are added in double precision.
 */
export function eachScoreRow(
  probes: Float32Array,
  gallery: Float32Array,
  dimension: number,
  visit: (probe: number, scores: Float64Array) => void,
): void {
  const [count, templates] = [probes.length / dimension, gallery.length / dimension];
  if (!Number.isInteger(count) || !Number.isInteger(templates))
    throw new RangeError(`probes and gallery must hold whole vectors of dimension ${dimension}`);
  const rows = Array.from({ length: TOGETHER }, () => new Float64Array(templates));
  const lanes = new Float64Array(TOGETHER * dimension);
  for (let first = 0; first < count; first += TOGETHER) {
    const used = Math.min(TOGETHER, count - first);
    lanes.fill(0);
    for (let lane = 0; lane < used; lane++)
      for (let c = 0; c < dimension; c++) lanes[c * TOGETHER + lane] = probes[(first + lane) * dimension + c];
    multiply(lanes, gallery, dimension, rows);
    for (let lane = 0; lane < used; lane++) visit(first + lane, rows[lane]);
  }
}

function multiply(lanes: Float64Array, gallery: Float32Array, dimension: number, rows: Float64Array[]): void {
  const [r0, r1, r2, r3] = rows;
  for (let j = 0, at = 0; j < r0.length; j++) {
    let [s0, s1, s2, s3] = [0, 0, 0, 0];
    for (let p = 0; p < TOGETHER * dimension; p += TOGETHER, at++) {
      const x = gallery[at];
      s0 += x * lanes[p];
      s1 += x * lanes[p + 1];
      s2 += x * lanes[p + 2];
      s3 += x * lanes[p + 3];
    }
    r0[j] = s0;
    r1[j] = s1;
    r2[j] = s2;
    r3[j] = s3;
  }
}

/** Cosines of every vector with every other, one row after the other. */
export function scoreMatrix(vectors: Float32Array, dimension: number): Float32Array {
  const unit = unitVectors(vectors, dimension);
  const count = unit.length / dimension;
  const scores = new Float32Array(count * count);
  eachScoreRow(unit, unit, dimension, (i, row) => scores.set(row, i * count));
  return scores;
}

/** The vectors at unit length, so that inner products are cosines. */
export function unitVectors(vectors: Float32Array, dimension: number): Float32Array {
  const out = new Float32Array(vectors.length);
  for (let at = 0; at < vectors.length; at += dimension) {
    let squares = 0;
    for (let i = at; i < at + dimension; i++) squares += vectors[i] * vectors[i];
    if (squares === 0) throw new RangeError(`vector ${at / dimension} is zero and has no direction`);
    if (!Number.isFinite(squares)) throw new RangeError(`vector ${at / dimension} holds something that is no number`);
    const scale = 1 / Math.sqrt(squares);
    for (let i = at; i < at + dimension; i++) out[i] = vectors[i] * scale;
  }
  return out;
}

/** Rows of a matrix, by number. */
export function rowsAt(vectors: Float32Array, dimension: number, places: ArrayLike<number>): Float32Array {
  const out = new Float32Array(places.length * dimension);
  for (let i = 0; i < places.length; i++)
    out.set(vectors.subarray(places[i] * dimension, (places[i] + 1) * dimension), i * dimension);
  return out;
}
