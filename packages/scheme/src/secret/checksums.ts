// Checksum canaries: slots that hold signed sums of other slots' templates, so that the same sums
// of their scores must be zero but for noise, whatever the query is. A response in which a single
// score was changed shows. README.md §8 derives all of it.
//
// A group is a checksum slot and the g slots that are summed: (g + k)/2 with the sign +, the others
// with −. Its slot holds the sum divided by k, so with the weight −k all weights add up to zero:
// what all templates have in common cancels, in the sum and in its noise.

import { groupSums } from '@hers/ring';
import type { Encoded } from '../vectors.ts';

/** How often the slots of a group are put in another order, at most. */
const MAX_ATTEMPTS = 64;

/** The groups of a block: runs of a secret order of its slots. */
export interface Checksums {
  /**
   * A group is its checksum slot, those with the sign +, and those with −. Whole groups lie side by
   * side, slot e of all of them before slot e + 1 of any, so that several are summed at a time. The
   * last follows by itself, if it is shorter.
   */
  readonly order: Uint16Array;
  /** Slots that are summed in a group; in the last one fewer, if there are no more. */
  readonly group: number;
}

/** What a group of g slots looks like. */
interface Shape {
  /** g. */
  readonly size: number;
  /** k, what the sum is divided by: at least √g, and odd or even as g is. */
  readonly divisor: number;
  /** How many have the sign +. */
  readonly plus: number;
  /** g + k², the sum of the squared weights. */
  readonly squares: number;
}

export function shapeOf(size: number): Shape {
  const root = Math.ceil(Math.sqrt(size));
  const divisor = root + ((root + size) % 2);
  return { size, divisor, plus: (size + divisor) / 2, squares: size + divisor ** 2 };
}

const wholeGroups = (slots: number, group: number): number => Math.floor(slots / (group + 1));

/** The groups, by where they begin in the order, and how far their slots are apart there. */
function eachGroup({ order, group }: Checksums, visit: (at: number, step: number, shape: Shape) => void): void {
  const whole = wholeGroups(order.length, group);
  const shape = shapeOf(group);
  for (let c = 0; c < whole; c++) visit(c, whole, shape);
  const last = whole * (group + 1);
  if (last < order.length) visit(last, 1, shapeOf(order.length - last - 1));
}

/**
 * Puts slots into groups. `next` gives uniform numbers, much larger than the number of slots. A
 * group is drawn again where templates that are all alike would give its sum more noise than a full
 * block of n others does.
 */
export function drawChecksums(slots: Uint16Array, group: number, n: number, next: () => number): Checksums {
  const drawn = slots.slice();
  shuffle(drawn, next);
  const checksums = { order: new Uint16Array(drawn.length), group };
  let first = 0;
  eachGroup(checksums, (at, step, shape) => {
    const own = drawn.subarray(first, (first += shape.size + 1));
    for (let attempt = 1; attempt < MAX_ATTEMPTS && spread(own, shape) > n * shape.squares; attempt++)
      shuffle(own, next);
    for (let e = 0; e <= shape.size; e++) checksums.order[at + e * step] = own[e];
  });
  drawn.fill(0);
  return checksums;
}

function shuffle(order: Uint16Array, next: () => number): void {
  for (let left = order.length; left > 1; left--) {
    const chosen = next() % left;
    const slot = order[chosen];
    order[chosen] = order[left - 1];
    order[left - 1] = slot;
  }
}

/** 4·Σ_l (sum of the weights of slots below l)². Whole numbers, the same on every engine. */
function spread(slots: Uint16Array, { divisor, plus }: Shape): number {
  // Slots are sorted with their weights in the low byte, where none is negative.
  const bias = 128;
  const sorted = new Int32Array(slots.length);
  for (let i = 0; i < slots.length; i++) sorted[i] = 256 * slots[i] + bias + (i === 0 ? -divisor : i <= plus ? 1 : -1);
  sorted.sort();
  let [sum, below] = [0, 0];
  for (let i = 0; i + 1 < sorted.length; i++) {
    below += (sorted[i] & 255) - bias;
    sum += below ** 2 * ((sorted[i + 1] >> 8) - (sorted[i] >> 8));
  }
  return 4 * sum;
}

/** Where the checksums are, in the order of their groups. */
export function checksumSlots(checksums: Checksums): number[] {
  const slots: number[] = [];
  eachGroup(checksums, (at) => slots.push(checksums.order[at]));
  return slots;
}

/** Puts the sums of encoded vectors into their slots, rounded to whole numbers. */
export function fillChecksums({ count, values, lifts }: Encoded, checksums: Checksums): void {
  const { order } = checksums;
  for (let i = 0; i < lifts.length; i++) {
    const row = values.subarray(i * count, (i + 1) * count);
    eachGroup(checksums, (at, step, { size, divisor, plus }) => {
      let sum = 0;
      let e = 1;
      for (; e <= plus; e++) sum += row[order[at + e * step]];
      for (; e <= size; e++) sum -= row[order[at + e * step]];
      row[order[at]] = Math.round(sum / divisor);
    });
  }
}

/** What the sums of scores may differ from zero by. */
export interface ChecksumRoom {
  /** For the noise: of one score with the weight 1. */
  readonly noise: number;
  /** For the rounding of a checksum: of one that is divided by 1. */
  readonly rounding: number;
  /** Scores that differ by this have the same phase. A checksum's own score may wrap around. */
  readonly period: number;
}

/** Whether the scores of a block, in the order of its slots, fit its checksums. */
export function checksumsFit(checksums: Checksums, scores: Float32Array, room: ChecksumRoom): boolean {
  const { order, group } = checksums;
  const whole = wholeGroups(order.length, group);
  const last = whole * (group + 1);
  let fits = true;
  const check = (slots: Uint16Array, groups: number, shape: Shape) => {
    const sums = new Float64Array(groups);
    groupSums(sums, scores, slots, shape.plus, shape.divisor);
    const limit = limitOf(shape, room);
    for (const sum of sums) fits = isWithin(limit, sum, room) && fits;
    sums.fill(0);
  };
  if (whole > 0) check(order.subarray(0, last), whole, shapeOf(group));
  if (last < order.length) check(order.subarray(last), 1, shapeOf(order.length - last - 1));
  return fits;
}

/** What the sum of a group may differ from zero by. */
export const limitOf = ({ divisor, squares }: Shape, { noise, rounding }: ChecksumRoom): number =>
  noise * Math.sqrt(squares) + rounding * divisor;

/** Not so of what is no number. */
const isWithin = (limit: number, sum: number, { period }: ChecksumRoom): boolean =>
  Math.abs(sum - period * Math.round(sum / period)) <= limit;
