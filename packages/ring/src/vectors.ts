// What encryption does to vectors of numbers and to words outside of any ring: native where there
// is native code, and plain beside it (`null` asks for that).

import { chosenNative } from './choose.ts';
import type { Native } from './native.ts';

type Numbers = Float32Array | Float64Array | Int32Array;

const ROUNDER = 1.5 * 2 ** 52;
const TILE = 16;

/** Σ x_i² of each of the vectors, which lie one after the other. */
export function squareSums(data: Numbers, dimension: number, native: Native | null = chosenNative()): Float64Array {
  const out = new Float64Array(data.length / dimension);
  if (native && data instanceof Float32Array) {
    native.addon.squareSums(native.variant, out, data, dimension);
    return out;
  }
  for (let j = 0; j < out.length; j++) {
    let sum = 0;
    for (let i = j * dimension; i < (j + 1) * dimension; i++) sum += data[i] * data[i];
    out[j] = sum;
  }
  return out;
}

/**
 * Coordinate i of vector j, times its factor, times `steps`, rounded to the nearest integer with
 * ties to even, to out[i·count + j]; and the sums of squares of these integers. Rounding adds and
 * subtracts 1.5·2^52: symmetric, and free of branches.
 */
export function roundVectors(
  out: Int32Array,
  squares: Float64Array,
  data: Numbers,
  factors: Float64Array,
  steps: number,
  dimension: number,
  native: Native | null = chosenNative(),
): void {
  const count = squares.length;
  if (native && data instanceof Float32Array) {
    native.addon.roundVectors(native.variant, out, squares, data, factors, steps, dimension);
    return;
  }
  squares.fill(0);
  // In tiles: vectors lie one after the other, and coordinates are written one after the other.
  for (let first = 0; first < count; first += TILE) {
    const last = Math.min(first + TILE, count);
    for (let i = 0; i < dimension; i++) {
      for (let j = first; j < last; j++) {
        // Two factors, because one alone can overflow a double when multiplied by the other first.
        const x = data[j * dimension + i] * factors[j] * steps;
        const nearest = x + ROUNDER - ROUNDER;
        out[i * count + j] = nearest;
        squares[j] += nearest * nearest;
      }
    }
  }
}

/** Words below 2^24 to three bytes each. */
export function packThree(out: Uint8Array, words: Uint32Array, native: Native | null = chosenNative()): void {
  if (native) {
    native.addon.packThree(native.variant, out, words);
    return;
  }
  for (let i = 0, to = 0; i < words.length; i++, to += 3) {
    const x = words[i];
    out[to] = x;
    out[to + 1] = x >>> 8;
    out[to + 2] = x >>> 16;
  }
}

/** The inverse. */
export function unpackThree(out: Uint32Array, bytes: Uint8Array, native: Native | null = chosenNative()): void {
  if (native) {
    native.addon.unpackThree(native.variant, out, bytes);
    return;
  }
  for (let i = 0, from = 0; i < out.length; i++, from += 3)
    out[i] = bytes[from] | (bytes[from + 1] << 8) | (bytes[from + 2] << 16);
}
