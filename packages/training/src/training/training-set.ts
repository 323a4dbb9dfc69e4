// What a compressor is fitted on: unit vectors with classes, checked once. Cosine similarity is
// what compression has to keep, so lengths go.

import { CompressError } from '@hers/compress';
import { checkVectors } from '@hers/compress/compressor';
import { Random } from '@hers/vectors/random';
import { invalid } from '../methods/method.ts';

export type Labels = ArrayLike<number | string>;

export interface TrainingSet {
  /** Unit vectors, one after the other. */
  vectors: Float32Array<ArrayBuffer>;
  dimension: number;
  count: number;
  /**
   * The class of each vector, numbered from 0 in order of appearance; every vector is a class of
   * its own when there were no labels.
   */
  classes: Int32Array<ArrayBuffer>;
  classCount: number;
  labelled: boolean;
}

/** Checks vectors and labels. `inputDimension` is needed only without labels. */
export function trainingSet(given: Float32Array, labels: Labels | undefined, inputDimension?: number): TrainingSet {
  if (!(given instanceof Float32Array))
    throw new CompressError('INVALID_VECTOR', 'Vectors come as one Float32Array, one after the other.');
  const dimension = inputDimension ?? (labels ? given.length / labels.length : Number.NaN);
  if (inputDimension === undefined && !labels)
    throw invalid('Without labels, inputDimension has to say how long a vector is.');
  if (inputDimension !== undefined && !(Number.isInteger(inputDimension) && inputDimension > 0))
    throw invalid('inputDimension is the number of dimensions of a vector: a whole number above 0.');
  if (given.length === 0) throw new CompressError('INVALID_VECTOR', 'There are no vectors to learn from.');
  if (labels && given.length !== labels.length * dimension)
    throw new CompressError(
      'INVALID_LABELS',
      `There are ${labels.length} labels for ${given.length / dimension} vectors of ${dimension} dimensions: each vector needs one.`,
    );
  if (!Number.isInteger(dimension))
    throw new CompressError(
      'INVALID_LABELS',
      `${given.length} numbers cannot be shared among ${labels!.length} labels: each vector needs one, and all have the same length.`,
    );
  checkVectors(given, dimension);
  const vectors = unitRows(given, dimension);
  const count = vectors.length / dimension;
  const { classes, classCount } = labels
    ? numbered(labels)
    : { classes: Int32Array.from({ length: count }, (_, i) => i), classCount: count };
  return { vectors, dimension, count, classes, classCount, labelled: labels !== undefined };
}

function numbered(labels: Labels): { classes: Int32Array<ArrayBuffer>; classCount: number } {
  const numbers = new Map<number | string, number>();
  const classes = new Int32Array(labels.length);
  for (let i = 0; i < labels.length; i++) {
    const label = labels[i];
    if (typeof label !== 'string' && !Number.isFinite(label))
      throw new CompressError('INVALID_LABELS', `The label of vector ${i} is neither a number nor a string.`);
    if (!numbers.has(label)) numbers.set(label, numbers.size);
    classes[i] = numbers.get(label)!;
  }
  return { classes, classCount: numbers.size };
}

/** Each at unit length; one without a direction stays as it is. */
export function unitRows(given: Float32Array, dimension: number): Float32Array<ArrayBuffer> {
  const vectors = Float32Array.from(given);
  for (let at = 0; at < vectors.length; at += dimension) {
    let squares = 0;
    for (let i = at; i < at + dimension; i++) squares += vectors[i] * vectors[i];
    const scale = 1 / (Math.sqrt(squares) || 1);
    for (let i = at; i < at + dimension; i++) vectors[i] *= scale;
  }
  return vectors;
}

export function requireClasses(set: TrainingSet, method: string): void {
  if (!set.labelled) throw new CompressError('INVALID_LABELS', `${method} learns from labels, and there are none.`);
  if (set.classCount < 2)
    throw new CompressError('INVALID_LABELS', `All vectors have the same label: ${method} needs two classes or more.`);
  if (set.classCount === set.count)
    throw new CompressError(
      'INVALID_LABELS',
      `No two vectors have the same label: ${method} needs classes with two vectors or more.`,
    );
}

/** The vectors of some classes, in the order they had; classes get new numbers. */
export function subset(set: TrainingSet, keep: (klass: number) => boolean): TrainingSet {
  const rows: number[] = [];
  const numbers = new Map<number, number>();
  const classes: number[] = [];
  for (let i = 0; i < set.count; i++) {
    const klass = set.classes[i];
    if (!keep(klass)) continue;
    if (!numbers.has(klass)) numbers.set(klass, numbers.size);
    rows.push(i);
    classes.push(numbers.get(klass)!);
  }
  return {
    ...set,
    vectors: gather(set, rows),
    count: rows.length,
    classes: Int32Array.from(classes),
    classCount: numbers.size,
  };
}

/** These rows, one after the other. */
export function gather(
  { vectors, dimension }: { readonly vectors: Float32Array; readonly dimension: number },
  rows: ArrayLike<number>,
): Float32Array<ArrayBuffer> {
  const result = new Float32Array(rows.length * dimension);
  for (let i = 0; i < rows.length; i++)
    result.set(vectors.subarray(rows[i] * dimension, (rows[i] + 1) * dimension), i * dimension);
  return result;
}

export function firstColumns(rows: Float32Array, columns: number, kept: number): Float32Array {
  if (kept >= columns) return rows;
  const out = new Float32Array((rows.length / columns) * kept);
  for (let from = 0, to = 0; from < rows.length; from += columns, to += kept)
    out.set(rows.subarray(from, from + kept), to);
  return out;
}

export function members({ classes, classCount }: TrainingSet): number[][] {
  const lists: number[][] = Array.from({ length: classCount }, () => []);
  for (let i = 0; i < classes.length; i++) lists[classes[i]].push(i);
  return lists;
}

/** Holds out a share of the classes: whole identities, to measure what strangers will see. */
export function split(set: TrainingSet, share: number, seed: number): { learn: TrainingSet; heldOut: TrainingSet } {
  const order = new Random(seed, 0x5517).order(set.classCount);
  const held = new Set(order.subarray(0, Math.round(share * set.classCount)));
  return { learn: subset(set, (klass) => !held.has(klass)), heldOut: subset(set, (klass) => held.has(klass)) };
}
