// onnxruntime behind one function: a graph becomes something to call. Blocks the thread that calls
// it; training therefore has a thread of its own. And products of matrices by it.

import { CompressError } from '@hers/compress';
import { encodeModel, type OnnxModel } from '@hers/compress/onnx';
import type * as ort from 'onnxruntime-node';

export interface Matrix {
  data: Float32Array | Float64Array;
  shape: readonly number[];
}

export type Matrices = Record<string, Matrix>;

/** Whole numbers, to gather by. */
export interface Places {
  data: BigInt64Array;
  shape: readonly number[];
}

export type Feeds = Record<string, Matrix | Places>;

/** Below 2³²; each is the low word of 64 bits, which spares the detour by way of BigInt. */
export function placesOf(...lists: readonly (readonly number[])[]): Places {
  const length = lists.reduce((sum, list) => sum + list.length, 0);
  const data = new BigInt64Array(length);
  const words = new Int32Array(data.buffer);
  let at = 0;
  for (const list of lists) for (const place of list) words[2 * at++] = place;
  return { data, shape: [length] };
}

/** Runs a graph. Outputs go into the arrays given for them; others are new, to be kept. */
export type Session = (feeds: Feeds, into?: Matrices) => Promise<Matrices>;

export interface SessionOptions {
  threads?: number;
  /** 64-bit floats, for checking gradients; feeds have to be of them. */
  double?: boolean;
}

export async function openSession(
  model: OnnxModel,
  { threads = 1, double = false }: SessionOptions = {},
): Promise<Session> {
  const { InferenceSession, Tensor } = await runtime();
  const session = await InferenceSession.create(encodeModel(model, { double }), {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    logSeverityLevel: 3,
    // Threads that have nothing to do sleep: graphs here are small, and there are many of them.
    extra: { session: { intra_op: { allow_spinning: '0' } } },
  });
  return async (feeds, into = {}) => {
    const fetches: Record<string, ort.Tensor | null> = {};
    for (const name of session.outputNames) fetches[name] = into[name] ? tensorOf(Tensor, into[name]) : null;
    const given = mapped(feeds, (matrix) => tensorOf(Tensor, matrix));
    return mapped(await session.run(given, fetches), ({ data, dims }) => ({ data: data as Float32Array, shape: dims }));
  };
}

/** What `of` makes of every value of a record. */
export function mapped<A, B>(
  record: Readonly<Record<string, A>>,
  of: (value: A, name: string) => B,
): Record<string, B> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, of(value, name)]));
}

/** An optional part: who only applies compressors does without. */
async function runtime(): Promise<typeof ort> {
  try {
    return await import('onnxruntime-node');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    throw new CompressError('NO_RUNTIME', 'This needs onnxruntime-node: install it beside hers, and try again.', {
      cause,
    });
  }
}

function tensorOf(Tensor: typeof ort.Tensor, { data, shape }: Matrix | Places): ort.Tensor {
  if (data instanceof BigInt64Array) return new Tensor('int64', data, shape as number[]);
  return data instanceof Float32Array
    ? new Tensor('float32', data, shape as number[])
    : new Tensor('float64', data, shape as number[]);
}

// Products of matrices in onnxruntime, which are what fitting a linear map costs. Rows follow one
// another. The result does not depend on the number of threads.

type Floats = Float32Array | Float64Array;

/** A matrix of so many columns. */
export interface Rows<F extends Floats = Floats> {
  readonly data: F;
  readonly columns: number;
}

interface ProductOptions {
  readonly threads?: number;
  /** `aᵀ b` or `a bᵀ` instead of `a b`. */
  readonly transposed?: 'first' | 'second';
}

const sessions = new Map<string, Promise<Session>>();

const shaped = ({ data, columns }: Rows) => ({ data, shape: [data.length / columns, columns] });

/** One session for each kind of product: opening one takes longer than a small product. */
async function run<F extends Floats>(
  a: Rows<F>,
  b: Rows<F>,
  { threads = 1, transposed }: ProductOptions,
  largest: boolean,
): Promise<F> {
  const double = a.data instanceof Float64Array;
  const name = `${transposed} ${threads} ${double} ${largest}`;
  if (!sessions.has(name)) sessions.set(name, openSession(graphOf(transposed, largest), { threads, double }));
  const session = await sessions.get(name)!;
  const { y } = await session({ a: shaped(a), b: shaped(b) });
  return y.data as F;
}

function graphOf(transposed: ProductOptions['transposed'], largest: boolean): OnnxModel {
  const attributes = { transA: Number(transposed === 'first'), transB: Number(transposed === 'second') };
  const gemm = { op: 'Gemm', inputs: ['a', 'b'], outputs: [largest ? 'scores' : 'y'], attributes };
  const max = { op: 'ReduceMax', inputs: ['scores'], outputs: ['y'], attributes: { axes: [1], keepdims: 0 } };
  return {
    nodes: largest ? [gemm, max] : [gemm],
    tensors: [],
    inputs: ['a', 'b'].map((each) => ({ name: each, shape: [`${each}Rows`, `${each}Columns`] })),
    outputs: [{ name: 'y', shape: largest ? ['rows'] : ['rows', 'columns'] }],
  };
}

/** `a b`; the two are of the same precision, and so is the result. */
export function product<F extends Floats>(a: Rows<F>, b: Rows<F>, options: ProductOptions = {}): Promise<F> {
  return run(a, b, options, false);
}

/** The largest entry of each row of `a bᵀ`. */
export function largestProducts(a: Rows<Float32Array>, b: Rows<Float32Array>, threads: number): Promise<Float32Array> {
  return run(a, b, { threads, transposed: 'second' }, true);
}
