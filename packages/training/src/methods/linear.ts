// The linear methods, as affine maps on unit vectors: `y = (x − centre) · rows`, compared by
// cosine. They are one family, from PCA to LDA.

import { CompressError } from '@hers/compress';
import { product } from '../training/session.ts';
import type { TrainingSet } from '../training/training-set.ts';
import { appliedLinear } from './compressor-graph.ts';
import {
  classMeans,
  type Eigen,
  leadingEigen,
  mean,
  scatter,
  spreadOfMeans,
  symmetric,
  symmetricEigen,
} from './eigen.ts';

export interface LinearMap {
  /** One axis after the other, each as long as the input. */
  axes: Float64Array;
  centre: Float64Array;
  /** Added to the result. */
  offset?: Float64Array;
  inputDimension: number;
  outputDimension: number;
}

/**
 * Principal components: the axes along which the centred vectors vary most. Also says what share of
 * the variance the first of them keep.
 */
export async function fitPca(
  set: TrainingSet,
  dimension: number,
  threads = 1,
): Promise<LinearMap & { keptBy: (axes: number) => number }> {
  const d = set.dimension;
  const centre = mean(set);
  const spread = await scatter(set, () => centre, threads);
  let trace = 0;
  for (let i = 0; i < d; i++) trace += spread[i * (d + 1)];
  const { values, vectors } =
    d <= MOST_COORDINATES
      ? symmetricEigen(spread, d)
      : await leadingEigen(d, threads)(spread, Math.max(dimension, AXES), ITERATIONS);
  const axes = vectors.slice(0, dimension * d);
  const keptBy = (first: number) =>
    values.subarray(0, first).reduce((sum, value) => sum + Math.max(0, value), 0) / trace;
  return { axes, centre, inputDimension: d, outputDimension: dimension, keptBy };
}

/** The first axes of a map: those of PCA and LDA come in order of what they are worth. */
export function shortened(map: LinearMap, dimension: number): LinearMap {
  return { ...map, axes: map.axes.slice(0, dimension * map.inputDimension), outputDimension: dimension };
}

/**
 * Where the axes of the classes are looked for: in the scatter of all vectors, or of the classes'
 * means, where each class counts once.
 */
export type Between = 'vectors' | 'classes';

/** The weight of the classes' means that this is. */
export function weightOf(between: Between): number {
  return between === 'classes' ? 1 : 0;
}

export interface Point {
  /**
   * How far the within-class covariance is drawn towards a sphere, 0 to 1. With 1 nothing is
   * whitened: these are principal components.
   */
  readonly shrinkage: number;
  /** The weight of the classes' means where axes are chosen; the rest is that of all vectors. */
  readonly classes: number;
}

/**
 * Vectors of more coordinates are cut to some principal components first: what is beyond them is
 * small, and eigenvectors cost the cube of their length.
 */
const MOST_COORDINATES = 512;
const AXES = 256;
const ITERATIONS = 6;
/** For a map that only serves to choose; it begins where its neighbour ended. */
const FEW_ITERATIONS = 4;
/** Means of few classes span few axes: this much of all vectors' scatter says which come next. */
const FILL = 1e-3;

/** What all members of the family share, computed once from a training set. */
export interface Family {
  /** The map at a point, quickly: for choosing. */
  roughly(point: Point, dimension: number): Promise<LinearMap>;
  at(point: Point, dimension: number): Promise<LinearMap>;
}

/**
 * The linear maps from PCA to LDA. LDA whitens what varies within classes, then keeps the principal
 * components of what is left. Few vectors per class make a poor estimate of the within-class
 * covariance W, so it is drawn towards a sphere: `(1 − s) W + s · (tr W / d) · I`. With s = 1 and
 * all vectors counting alike, the map is PCA. All of them are diagonal along the axes of W, so a
 * member costs one product of matrices and the leading axes of the result.
 */
export async function linearFamily(set: TrainingSet, threads = 1): Promise<Family> {
  const reduced = await cutToAxes(set, threads);
  const { dimension: d, count, classCount } = reduced.set;
  const { means, sizes } = classMeans(reduced.set);
  const scatterWithin = await scatter(reduced.set, (row) => means[reduced.set.classes[row]], threads);
  const within = symmetricEigen(
    scatterWithin.map((x) => x / (count - classCount)),
    d,
  );
  if (!(within.values[0] > 0))
    throw new CompressError(
      'INVALID_LABELS',
      'All vectors of a class are the same, in every class: there is nothing to learn from.',
    );
  const ofVectors = await spreadOfMeans(means, sizes, d, threads);
  const ofClasses = await spreadOfMeans(
    means,
    sizes.map(() => 1),
    d,
    threads,
  );
  const total = ofVectors.spread.map((x, i) => (x * count + scatterWithin[i]) / count);
  const vectors = await congruence(within.vectors, total, d, threads);
  const classes = await congruence(within.vectors, ofClasses.spread, d, threads);
  const leading = leadingEigen(d, threads);

  const whitened = ({ shrinkage, classes: weight }: Point) => {
    const scale = shrunk(within, shrinkage).values.map((value) => 1 / Math.sqrt(value));
    const matrix = new Float64Array(d * d);
    const rest = 1 - weight + weight * FILL;
    for (let i = 0, at = 0; i < d; i++)
      for (let j = 0; j < d; j++, at++) matrix[at] = scale[i] * scale[j] * (rest * vectors[at] + weight * classes[at]);
    return { scale, matrix };
  };
  const mapOf = async ({ classes: weight }: Point, scale: Float64Array, found: Eigen, dimension: number) => {
    const scaled = found.vectors.slice(0, dimension * d);
    for (let i = 0; i < scaled.length; i++) scaled[i] *= scale[i % d];
    const axes = await product({ data: scaled, columns: d }, { data: within.vectors, columns: d }, { threads });
    const centre = ofVectors.centre.map((x, k) => (1 - weight) * x + weight * ofClasses.centre[k]);
    return reduced.lift({ axes, centre, inputDimension: d, outputDimension: dimension });
  };
  return {
    async roughly(point, dimension) {
      const { scale, matrix } = whitened(point);
      return mapOf(point, scale, await leading(matrix, dimension, FEW_ITERATIONS), dimension);
    },
    async at(point, dimension) {
      const { scale, matrix } = whitened(point);
      return mapOf(point, scale, symmetricEigen(matrix, d), dimension);
    },
  };
}

/** The set along its leading principal components, and the way back for maps of that. */
export async function cutToAxes(
  set: TrainingSet,
  threads: number,
): Promise<{ set: TrainingSet; lift: (map: LinearMap) => Promise<LinearMap> }> {
  const d = set.dimension;
  if (d <= MOST_COORDINATES) return { set, lift: async (map) => map };
  const cut = await fitPca(set, AXES, threads);
  const axes = { data: cut.axes, columns: d };
  return {
    set: { ...set, vectors: await appliedLinear(cut, set.vectors, threads), dimension: AXES },
    lift: async (map) => {
      const back = await product({ data: map.centre, columns: AXES }, axes, { threads });
      return {
        ...map,
        axes: await product({ data: map.axes, columns: AXES }, axes, { threads }),
        centre: cut.centre.map((x, k) => x + back[k]),
        inputDimension: d,
      };
    },
  };
}

export function shrunk({ values, vectors }: Eigen, shrinkage: number): Eigen {
  const positive = values.map((value) => Math.max(0, value));
  const average = positive.reduce((sum, value) => sum + value, 0) / values.length;
  // Never quite zero: a direction without any noise would get an infinite weight.
  return {
    values: positive.map((value) => Math.max(1e-9 * average, (1 - shrinkage) * value + shrinkage * average)),
    vectors,
  };
}

/** `r m rᵀ` for a matrix m that is symmetric, along the rows of r; symmetric to the last digit. */
async function congruence(r: Float64Array, m: Float64Array, n: number, threads: number): Promise<Float64Array> {
  const along = { data: r, columns: n };
  const half = await product(along, { data: m, columns: n }, { threads });
  return symmetric(await product({ data: half, columns: n }, along, { threads, transposed: 'second' }), n);
}
