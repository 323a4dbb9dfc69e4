// Points on manifolds whose dimension is known, to check estimators with. For tests and for the
// experiment that shows what an estimate is worth.

/** Uniform numbers in [0, 1), the same for the same seed (mulberry32). */
export function uniform(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

function normal(random: () => number): () => number {
  return () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/**
 * Uniform on the sphere of this intrinsic dimension, in any number of coordinates above it: turned
 * by random directions when there are more.
 */
export function sphere(count: number, intrinsic: number, dimension: number, seed = 1): Float32Array {
  const gauss = normal(uniform(seed));
  return embedded(count, intrinsic + 1, dimension, gauss, (point) => {
    let squares = 0;
    for (let i = 0; i < point.length; i++) {
      point[i] = gauss();
      squares += point[i] ** 2;
    }
    for (let i = 0; i < point.length; i++) point[i] /= Math.sqrt(squares);
  });
}

/**
 * Uniform on a sheet of 21 by 4π·(about 6) that is rolled up: two dimensions in three coordinates.
 */
export function swissRoll(count: number, dimension = 3, seed = 1): Float32Array {
  const random = uniform(seed);
  return embedded(count, 3, dimension, normal(random), (point) => {
    const angle = 1.5 * Math.PI * (1 + 2 * random());
    point[0] = angle * Math.cos(angle);
    point[1] = 21 * random();
    point[2] = angle * Math.sin(angle);
  });
}

/**
 * Normally distributed in a linear subspace, with noise of a standard deviation in all coordinates.
 */
export function subspace(count: number, intrinsic: number, dimension: number, noise = 0, seed = 1): Float32Array {
  const gauss = normal(uniform(seed));
  const points = embedded(count, intrinsic, dimension, gauss, (point) => {
    for (let i = 0; i < point.length; i++) point[i] = gauss();
  });
  return noise > 0 ? points.map((x) => x + noise * gauss()) : points;
}

/**
 * Draws points in `own` coordinates and places them in `dimension` by random orthonormal
 * directions.
 */
function embedded(
  count: number,
  own: number,
  dimension: number,
  gauss: () => number,
  draw: (point: Float64Array) => void,
): Float32Array {
  if (dimension < own) throw new RangeError(`${own} coordinates are needed, not ${dimension}`);
  const axes = Array.from({ length: own }, () => new Float64Array(dimension).map(gauss));
  for (const [i, axis] of axes.entries()) {
    for (const other of axes.slice(0, i)) {
      const along = axis.reduce((sum, x, c) => sum + x * other[c], 0);
      for (let c = 0; c < dimension; c++) axis[c] -= along * other[c];
    }
    const norm = Math.hypot(...axis);
    for (let c = 0; c < dimension; c++) axis[c] /= norm;
  }
  const out = new Float32Array(count * dimension);
  const point = new Float64Array(own);
  for (let n = 0; n < count; n++) {
    draw(point);
    for (let c = 0; c < dimension; c++) {
      let sum = 0;
      for (let i = 0; i < own; i++) sum += point[i] * axes[i][c];
      out[n * dimension + c] = sum;
    }
  }
  return out;
}
