// Eigenvalues and eigenvectors of a symmetric matrix: Householder's reduction to three diagonals,
// then QL with implicit shifts (Wilkinson and Reinsch, "Handbook for Automatic Computation" II,
// contributions 2 and 3). Vectors lie in rows, so that the inner loops run along memory.

export interface Eigen {
  /** From the largest to the smallest. */
  values: Float64Array;
  /** Row i belongs to value i; rows are orthonormal. */
  vectors: Float64Array;
}

export function symmetricEigen(matrix: Float64Array, n: number): Eigen {
  const a = Float64Array.from(matrix);
  const diagonal = new Float64Array(n);
  const off = new Float64Array(n);
  const z = tridiagonalise(a, n, diagonal, off);
  implicitQl(diagonal, off, z, n);
  const order = Array.from(diagonal.keys()).sort((i, j) => diagonal[j] - diagonal[i]);
  const vectors = new Float64Array(n * n);
  order.forEach((from, to) => vectors.set(signed(z.subarray(from * n, (from + 1) * n)), to * n));
  return { values: Float64Array.from(order, (i) => diagonal[i]), vectors };
}

/**
 * An eigenvector may point either way; the one whose largest entry is positive is always the same.
 */
function signed(vector: Float64Array): Float64Array {
  let largest = 0;
  for (let i = 1; i < vector.length; i++) if (Math.abs(vector[i]) > Math.abs(vector[largest])) largest = i;
  return vector[largest] < 0 ? vector.map((x) => -x) : vector;
}

/**
 * Turns `a` into three diagonals by n − 2 reflections; returns the product of the reflections,
 * transposed: rows are the new axes.
 */
function tridiagonalise(a: Float64Array, n: number, diagonal: Float64Array, off: Float64Array): Float64Array {
  const reflections: { v: Float64Array; k: number }[] = [];
  const p = new Float64Array(n);
  for (let k = 0; k < n - 2; k++) {
    let squares = 0;
    for (let i = k + 1; i < n; i++) squares += a[k * n + i] ** 2;
    const head = a[k * n + k + 1];
    const length = Math.sqrt(squares);
    off[k] = head > 0 ? -length : length;
    if (squares - head * head <= 0) {
      off[k] = head; // nothing to remove in this row
      continue;
    }
    const v = a.slice(k * n + k + 1, k * n + n);
    v[0] -= off[k];
    let norm = 0;
    for (const x of v) norm += x * x;
    const scale = Math.sqrt(2 / norm);
    for (let i = 0; i < v.length; i++) v[i] *= scale; // the reflection is now I − v vᵀ
    reflections.push({ v, k });
    reflectBothSides(a, n, k + 1, v, p);
  }
  for (let i = 0; i < n; i++) diagonal[i] = a[i * n + i];
  if (n > 1) off[n - 2] = a[(n - 2) * n + n - 1];
  const z = new Float64Array(n * n);
  for (let i = 0; i < n; i++) z[i * n + i] = 1;
  for (const { v, k } of reflections.reverse()) reflectColumns(z, n, k + 1, v);
  return z;
}

/**
 * The lower right part of the matrix, from `start`: A ← (I − v vᵀ) A (I − v vᵀ) = A − v wᵀ − w vᵀ.
 */
function reflectBothSides(a: Float64Array, n: number, start: number, v: Float64Array, p: Float64Array): void {
  const m = n - start;
  for (let i = 0; i < m; i++) {
    const row = (start + i) * n + start;
    let sum = 0;
    for (let j = 0; j < m; j++) sum += a[row + j] * v[j];
    p[i] = sum;
  }
  let half = 0;
  for (let i = 0; i < m; i++) half += p[i] * v[i];
  half /= 2;
  for (let i = 0; i < m; i++) p[i] -= half * v[i];
  for (let i = 0; i < m; i++) {
    const row = (start + i) * n + start;
    const [vi, pi] = [v[i], p[i]];
    for (let j = 0; j < m; j++) a[row + j] -= vi * p[j] + pi * v[j];
  }
}

/** Z ← Z (I − v vᵀ) for rows of Z from `start` on, where Z is still the identity before it. */
function reflectColumns(z: Float64Array, n: number, start: number, v: Float64Array): void {
  const m = n - start;
  for (let i = 0; i < m; i++) {
    const row = (start + i) * n + start;
    let sum = 0;
    for (let j = 0; j < m; j++) sum += z[row + j] * v[j];
    for (let j = 0; j < m; j++) z[row + j] -= sum * v[j];
  }
}

/**
 * Makes the off-diagonal vanish by plane rotations, and applies each of them to two rows of `z`.
 */
function implicitQl(d: Float64Array, e: Float64Array, z: Float64Array, n: number): void {
  let size = 0;
  for (let i = 0; i < n; i++) size = Math.max(size, Math.abs(d[i]) + Math.abs(e[i]));
  // Against the whole matrix and not against its neighbours: where the rank is low, all that is
  // left there are roundings, and they never settle.
  const nothing = Number.EPSILON * size;
  for (let l = 0; l < n; l++) {
    for (let iteration = 0; ; iteration++) {
      let m = l;
      while (m < n - 1 && Math.abs(e[m]) > nothing) m++;
      if (m === l) break;
      if (iteration > 60)
        throw new Error('The eigenvalues do not converge: the matrix holds something that is no number.');
      let g = (d[l + 1] - d[l]) / (2 * e[l]);
      let r = Math.hypot(g, 1);
      g = d[m] - d[l] + e[l] / (g + (g >= 0 ? r : -r));
      let [s, c, p] = [1, 1, 0];
      let i = m - 1;
      for (; i >= l; i--) {
        const f = s * e[i];
        const b = c * e[i];
        r = Math.hypot(f, g);
        e[i + 1] = r;
        if (r === 0) {
          d[i + 1] -= p;
          e[m] = 0;
          break;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        rotateRows(z, n, i, s, c);
      }
      if (r === 0 && i >= l) continue;
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  }
}

function rotateRows(z: Float64Array, n: number, i: number, s: number, c: number): void {
  const upper = z.subarray(i * n, (i + 1) * n);
  const lower = z.subarray((i + 1) * n, (i + 2) * n);
  for (let k = 0; k < n; k++) {
    const x = upper[k];
    const y = lower[k];
    lower[k] = s * x + c * y;
    upper[k] = c * x - s * y;
  }
}
