// Products of matrices in onnxruntime, which are what fitting a linear map costs. Rows follow one
// another. The result does not depend on the number of threads.

import type { OnnxNode } from '@hers/compress/onnx';
import { openSession, type Session } from './session.ts';

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

/** One session for each kind of product: opening one takes longer than a small product. */
function sessionOf(
  transposed: ProductOptions['transposed'],
  threads: number,
  double: boolean,
  largest: boolean,
): Promise<Session> {
  const name = `${transposed} ${threads} ${double} ${largest}`;
  const known = sessions.get(name);
  if (known) return known;
  const attributes = { transA: Number(transposed === 'first'), transB: Number(transposed === 'second') };
  const nodes: OnnxNode[] = [
    { op: 'Gemm', inputs: ['a', 'b'], outputs: [largest ? 'scores' : 'y'], attributes },
    ...(largest
      ? [{ op: 'ReduceMax', inputs: ['scores'], outputs: ['y'], attributes: { axes: [1], keepdims: 0 } }]
      : []),
  ];
  const made = openSession(
    {
      nodes,
      tensors: [],
      inputs: ['a', 'b'].map((each) => ({ name: each, shape: [`${each}Rows`, `${each}Columns`] })),
      outputs: [{ name: 'y', shape: largest ? ['rows'] : ['rows', 'columns'] }],
    },
    { threads, double },
  );
  sessions.set(name, made);
  return made;
}

const shaped = ({ data, columns }: Rows) => ({ data, shape: [data.length / columns, columns] });

async function run<F extends Floats>(
  a: Rows<F>,
  b: Rows<F>,
  { threads = 1, transposed }: ProductOptions,
  largest: boolean,
): Promise<F> {
  const session = await sessionOf(transposed, threads, a.data instanceof Float64Array, largest);
  const { y } = await session({ a: shaped(a), b: shaped(b) });
  return y.data as F;
}

/** `a b`; the two are of the same precision, and so is the result. */
export function product<F extends Floats>(a: Rows<F>, b: Rows<F>, options: ProductOptions = {}): Promise<F> {
  return run(a, b, options, false);
}

/** The largest entry of each row of `a bᵀ`. */
export function largestProducts(a: Rows<Float32Array>, b: Rows<Float32Array>, threads: number): Promise<Float32Array> {
  return run(a, b, { threads, transposed: 'second' }, true);
}
