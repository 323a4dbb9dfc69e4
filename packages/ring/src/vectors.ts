// Vectors of numbers and words outside of any ring, as encryption takes them and as scores are
// checked by canaries: native where there is native code, and plain beside it (`null` asks for
// that).

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

/** Numbers that a loop moves sooner than a call of copyWithin does. */
const SHORT_RUN = 24;

/**
 * ⟨values_l, probe⟩ to out[l], for rows one after the other. Whole numbers whose sums stay below
 * 2^53, so they are exact in any order.
 */
export function products(
  out: Float64Array,
  values: Int32Array,
  probe: Float64Array,
  native: Native | null = chosenNative(),
): void {
  if (native) {
    native.addon.products(native.variant, out, values, probe);
    return;
  }
  const width = probe.length;
  let l = 0;
  // Four at a time: no sum waits for another.
  for (; l + 4 <= out.length; l += 4) {
    let [a, b, c, d] = [0, 0, 0, 0];
    for (let i = 0, at = l * width; i < width; i++, at++) {
      const x = probe[i];
      a += values[at] * x;
      b += values[at + width] * x;
      c += values[at + 2 * width] * x;
      d += values[at + 3 * width] * x;
    }
    out[l] = a;
    out[l + 1] = b;
    out[l + 2] = c;
    out[l + 3] = d;
  }
  for (; l < out.length; l++) {
    let sum = 0;
    for (let i = 0; i < width; i++) sum += values[l * width + i] * probe[i];
    out[l] = sum;
  }
}

/**
 * Closes the gaps that these slots leave, which ascend: what follows each moves down. Of `stride`
 * numbers a slot.
 */
export function closeGaps<T extends Float32Array | Int32Array>(
  values: T,
  slots: Uint32Array,
  stride = 1,
  native: Native | null = chosenNative(),
): T {
  const count = slots.length;
  const left = values.subarray(0, values.length - count * stride) as T;
  if (native && stride === 1 && values instanceof Float32Array) {
    native.addon.closeGaps(native.variant, values, slots);
    return left;
  }
  for (let l = 0; l < count; l++) {
    const end = l + 1 < count ? slots[l + 1] * stride : values.length;
    let from = (slots[l] + 1) * stride;
    let to = (slots[l] - l) * stride;
    if (end - from > SHORT_RUN) values.copyWithin(to, from, end);
    else while (from < end) values[to++] = values[from++];
  }
  return left;
}

/**
 * The weighted sum of the scores of each group, to out[c]. Groups lie side by side in `order`, slot
 * e of all of them before slot e + 1 of any: the slot with the weight −divisor, `plus` slots with
 * the sign +, and those with −. Added in this order.
 */
export function groupSums(
  out: Float64Array,
  scores: Float32Array,
  order: Uint16Array,
  plus: number,
  divisor: number,
  native: Native | null = chosenNative(),
): void {
  if (native) {
    native.addon.groupSums(native.variant, out, scores, order, plus, divisor);
    return;
  }
  const step = out.length;
  for (let c = 0; c < step; c++) out[c] = -divisor * scores[order[c]];
  const signs = plus * step + step;
  for (let at = step; at < signs; at += step) for (let c = 0; c < step; c++) out[c] += scores[order[at + c]];
  for (let at = signs; at < order.length; at += step) for (let c = 0; c < step; c++) out[c] -= scores[order[at + c]];
}
