// Matrix products in plain TypeScript, for models too small to be worth a runtime.

/**
 * `out[r][c] = Σ_k a[r][k] · b[c][k] (+ bias[c])`: rows of `a` times rows of `b`. Blocks of four
 * rows by two columns keep eight sums in registers, and doubles spare the conversions that single
 * precision would cost.
 */
export function multiplyTransposed(
  a: Float64Array,
  b: Float64Array,
  out: Float64Array,
  { rows, inner, columns, bias }: { rows: number; inner: number; columns: number; bias?: Float64Array | undefined },
): void {
  const fourRows = rows - (rows % 4);
  const twoColumns = columns - (columns % 2);
  for (let r = 0; r < fourRows; r += 4) {
    const a0 = r * inner;
    const a1 = a0 + inner;
    const a2 = a1 + inner;
    const a3 = a2 + inner;
    for (let c = 0; c < twoColumns; c += 2) {
      const b0 = c * inner;
      const b1 = b0 + inner;
      let [s00, s01, s10, s11, s20, s21, s30, s31] = [0, 0, 0, 0, 0, 0, 0, 0];
      for (let k = 0; k < inner; k++) {
        const x = b[b0 + k];
        const y = b[b1 + k];
        const p = a[a0 + k];
        const q = a[a1 + k];
        const u = a[a2 + k];
        const v = a[a3 + k];
        s00 += p * x;
        s01 += p * y;
        s10 += q * x;
        s11 += q * y;
        s20 += u * x;
        s21 += u * y;
        s30 += v * x;
        s31 += v * y;
      }
      const o = r * columns + c;
      const [first, second] = bias ? [bias[c], bias[c + 1]] : [0, 0];
      out[o] = s00 + first;
      out[o + 1] = s01 + second;
      out[o + columns] = s10 + first;
      out[o + columns + 1] = s11 + second;
      out[o + 2 * columns] = s20 + first;
      out[o + 2 * columns + 1] = s21 + second;
      out[o + 3 * columns] = s30 + first;
      out[o + 3 * columns + 1] = s31 + second;
    }
  }
  for (let r = 0; r < rows; r++) {
    const aAt = r * inner;
    let c = r < fourRows ? twoColumns : 0;
    // A single vector comes this way: four sums at a time keep it from waiting for each addition.
    for (; c + 4 <= columns; c += 4) {
      const b0 = c * inner;
      const b1 = b0 + inner;
      const b2 = b1 + inner;
      const b3 = b2 + inner;
      let [s0, s1, s2, s3] = bias ? [bias[c], bias[c + 1], bias[c + 2], bias[c + 3]] : [0, 0, 0, 0];
      for (let k = 0; k < inner; k++) {
        const x = a[aAt + k];
        s0 += x * b[b0 + k];
        s1 += x * b[b1 + k];
        s2 += x * b[b2 + k];
        s3 += x * b[b3 + k];
      }
      const o = r * columns + c;
      out[o] = s0;
      out[o + 1] = s1;
      out[o + 2] = s2;
      out[o + 3] = s3;
    }
    for (; c < columns; c++) {
      const bAt = c * inner;
      let sum = bias ? bias[c] : 0;
      for (let k = 0; k < inner; k++) sum += a[aAt + k] * b[bAt + k];
      out[r * columns + c] = sum;
    }
  }
}
