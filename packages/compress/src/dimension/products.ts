// Inner products of some vectors with all of them, in blocks.

/** Products of the vectors from `first` on with all vectors, row after row; valid until the next call. */
export type BlockProducts = (first: number, rows: number) => Promise<Float32Array>;

export async function blockProducts(vectors: Float32Array, dimension: number): Promise<BlockProducts> {
  const count = vectors.length / dimension;
  let products = new Float32Array(0);
  return async (first, rows) => {
    if (products.length < rows * count) products = new Float32Array(rows * count);
    multiply(vectors.subarray(first * dimension, (first + rows) * dimension), vectors, dimension, products);
    return products;
  };
}

function multiply(a: Float32Array, b: Float32Array, d: number, out: Float32Array): void {
  const rows = a.length / d;
  const count = b.length / d;
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < count; j++) {
      let sum = 0;
      for (let c = 0; c < d; c++) sum += a[i * d + c] * b[j * d + c];
      out[i * count + j] = sum;
    }
}
