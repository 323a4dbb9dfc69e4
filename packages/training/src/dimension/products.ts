// Inner products of some vectors with all of them, in blocks: one Gemm of onnxruntime each.

import { openSession } from '../training/session.ts';

/** Products of the vectors from `first` on with all vectors, row after row. */
export type BlockProducts = (first: number, rows: number) => Promise<ArrayLike<number>>;

export async function blockProducts(vectors: Float32Array, dimension: number): Promise<BlockProducts> {
  const count = vectors.length / dimension;
  const session = await openSession({
    nodes: [{ op: 'Gemm', inputs: ['some', 'all'], outputs: ['products'], attributes: { transB: 1 } }],
    tensors: [],
    inputs: [
      { name: 'some', shape: ['rows', dimension] },
      { name: 'all', shape: ['count', dimension] },
    ],
    outputs: [{ name: 'products', shape: ['rows', 'count'] }],
  });
  const all = { data: vectors, shape: [count, dimension] };
  return async (first, rows) => {
    const some = { data: vectors.subarray(first * dimension, (first + rows) * dimension), shape: [rows, dimension] };
    return (await session({ some, all })).products.data as Float32Array;
  };
}
