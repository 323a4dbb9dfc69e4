// Checksum canaries: slots that hold signed sums of other slots' templates, so that the same sums
// of their scores must be zero but for noise, whatever the query is. A response in which a single
// score was changed shows. README.md §9 derives all of it.
//
// A group is a checksum slot and the g slots that are summed: (g + k)/2 with the sign +, the others
// with −. Its slot holds the sum divided by k, so with the weight −k all weights add up to zero:
// what all templates have in common cancels, in the sum and in its noise.

import type { Encoded } from '../vectors.ts';

/** How often the slots of a group are put in another order, at most. */
const MAX_ATTEMPTS = 64;

/** The groups of a block: runs of a secret order of its slots. */
export interface Checksums {
  /** For each group the checksum slot, those with the sign +, and those with −. */
  readonly order: Uint16Array;
  /** Slots that are summed in a group; in the last one fewer, if there are no more. */
  readonly group: number;
}

/** What a group of g slots looks like. */
interface Shape {
  /** k, what the sum is divided by: at least √g, and odd or even as g is. */
  readonly divisor: number;
  /** How many have the sign +. */
  readonly plus: number;
  /** g + k², the sum of the squared weights. */
  readonly squares: number;
}

function shapeOf(size: number): Shape {
  const root = Math.ceil(Math.sqrt(size));
  const divisor = root + ((root + size) % 2);
  return { divisor, plus: (size + divisor) / 2, squares: size + divisor ** 2 };
}

/** The groups, by where they begin and end in the order. */
function eachGroup({ order, group }: Checksums, visit: (at: number, end: number, shape: Shape) => void): void {
  const whole = shapeOf(group);
  for (let at = 0; at < order.length; at += group + 1) {
    const end = Math.min(at + group + 1, order.length);
    visit(at, end, end - at - 1 === group ? whole : shapeOf(end - at - 1));
  }
}

/**
 * Puts slots into groups. `next` gives uniform numbers, much larger than the number of slots. A
 * group is drawn again where templates that are all alike would give its sum more noise than a full
 * block of n others does.
 */
export function drawChecksums(slots: Uint16Array, group: number, n: number, next: () => number): Checksums {
  const order = slots.slice();
  shuffle(order, next);
  const checksums = { order, group };
  eachGroup(checksums, (at, end, shape) => {
    const own = order.subarray(at, end);
    for (let attempt = 1; attempt < MAX_ATTEMPTS && spread(own, shape) > n * shape.squares; attempt++)
      shuffle(own, next);
  });
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
    eachGroup(checksums, (at, end, { divisor, plus }) => {
      let sum = 0;
      for (let j = at + 1; j <= at + plus; j++) sum += row[order[j]];
      for (let j = at + 1 + plus; j < end; j++) sum -= row[order[j]];
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
export function checksumsFit({ order, group }: Checksums, scores: Float32Array, room: ChecksumRoom): boolean {
  const last = order.length - (order.length % (group + 1));
  const fits = groupsFit(order.subarray(0, last), group, scores, room);
  return last === order.length ? fits : groupsFit(order.subarray(last), order.length - last - 1, scores, room) && fits;
}

/** The same for groups of one size. */
function groupsFit(order: Uint16Array, size: number, scores: Float32Array, room: ChecksumRoom): boolean {
  const { divisor, plus, squares } = shapeOf(size);
  const limit = room.noise * Math.sqrt(squares) + room.rounding * divisor;
  let fits = true;
  for (let at = 0; at < order.length; at += size + 1) {
    const minus = at + plus;
    const end = at + size + 1;
    // Four sums, none of which waits for another.
    let [a, b, c, d] = [-divisor * scores[order[at]], 0, 0, 0];
    let j = at + 1;
    for (; j < minus; j += 2) {
      a += scores[order[j]];
      b += scores[order[j + 1]];
    }
    if (j === minus) a += scores[order[j++]];
    for (; j + 1 < end; j += 2) {
      c += scores[order[j]];
      d += scores[order[j + 1]];
    }
    if (j < end) c += scores[order[j]];
    const sum = a + b - c - d;
    const off = sum - room.period * Math.round(sum / room.period);
    if (!(Math.abs(off) <= limit)) fits = false;
  }
  return fits;
}
