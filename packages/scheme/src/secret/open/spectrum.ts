// The largest |ŝ(ζ)|² of a secret over the roots ζ of x^n + 1. It decides whether a secret is drawn
// again, so it must be the same on every machine: the roots come from square roots, which IEEE 754
// rounds exactly, and not from the sines of a library.

/** cos and sin of π·j/n for j = 0 … n−1. */
function rootsOf(n: number): { readonly re: Float64Array; readonly im: Float64Array } {
  const re = new Float64Array(n).fill(1);
  const im = new Float64Array(n);
  // The root of angle π/2, halved until it is π/n: bit b of j stands for the angle π·2^b/n.
  let [c, s] = [0, 1];
  for (let bit = n / 2; bit >= 1; bit /= 2) {
    for (let j = 0; j < n; j++) {
      if ((j & bit) === 0) continue;
      const [x, y] = [re[j], im[j]];
      re[j] = x * c - y * s;
      im[j] = x * s + y * c;
    }
    const half = Math.sqrt((1 + c) / 2);
    s /= 2 * half;
    c = half;
  }
  return { re, im };
}

/** max |ŝ(ζ)|², divided by its mean 2n/3 for uniform ternary coefficients. */
export function spectralPeak(secret: Int32Array): number {
  const n = secret.length;
  const roots = rootsOf(n);
  const re = Float64Array.from(secret, (x, j) => x * roots.re[j]);
  const im = Float64Array.from(secret, (x, j) => x * roots.im[j]);
  // Decimation in frequency: the order of the outputs does not matter.
  for (let size = n; size > 1; size /= 2) {
    const half = size / 2;
    const step = (2 * n) / size;
    for (let from = 0; from < n; from += size)
      for (let j = 0; j < half; j++) {
        const [u, v] = [from + j, from + j + half];
        const [x, y] = [re[u] - re[v], im[u] - im[v]];
        re[u] += re[v];
        im[u] += im[v];
        const [c, s] = [roots.re[j * step], roots.im[j * step]];
        re[v] = x * c - y * s;
        im[v] = x * s + y * c;
      }
  }
  let largest = 0;
  for (let j = 0; j < n; j++) largest = Math.max(largest, re[j] * re[j] + im[j] * im[j]);
  re.fill(0);
  im.fill(0);
  return largest / ((2 * n) / 3);
}
