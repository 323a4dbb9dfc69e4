// What maps are worth to strangers, by folds: every identity is held out once in each round, so
// what is measured is paired, identity by identity.

import { Random } from '@hers/vectors/random';
import { largestProducts, product } from './session.ts';
import { firstColumns, gather, members, subset, type TrainingSet, unitRows } from './training-set.ts';

/** Vectors of held-out identities, and strangers in the gallery beside them, at most. */
const MOST_HELD_OUT = 1500;
const MOST_STRANGERS = 3000;
const TILE = 128;

/** One part of the identities held out. */
export interface Fold {
  learn: TrainingSet;
  /** Held-out vectors, class by class, and behind them some that are learned from. */
  gallery: Float32Array<ArrayBuffer>;
  /** How many of the gallery are held out. */
  heldOut: number;
  /** Where the mates of each held-out vector begin and end. */
  mates: { from: Int32Array; to: Int32Array };
  /** Places of the probes: held-out vectors that have a mate. */
  probes: Int32Array;
  /** The class of each probe in the whole set. */
  people: Int32Array;
}

/**
 * Rounds of identity-disjoint folds. Classes of several vectors are dealt first, so that each fold
 * has its share of probes. Folds that leave nothing to learn from or to find are left out.
 */
export function foldsOf(set: TrainingSet, parts: number, rounds: number, seed: number): Fold[] {
  const lists = members(set);
  const folds: Fold[] = [];
  for (let round = 0; round < rounds; round++) {
    const random = new Random(seed, 0xf01d, round);
    const order = Array.from(random.order(lists.length));
    const dealt = [...order.filter((c) => lists[c].length > 1), ...order.filter((c) => lists[c].length === 1)];
    const part = new Int32Array(lists.length);
    dealt.forEach((klass, i) => (part[klass] = i % parts));
    for (let p = 0; p < parts; p++) {
      const fold = foldOf(
        set,
        lists,
        dealt.filter((klass) => part[klass] === p),
        random,
      );
      if (fold) folds.push(fold);
    }
  }
  return folds;
}

function foldOf(set: TrainingSet, lists: number[][], held: number[], random: Random): Fold | undefined {
  const isHeld = new Set(held);
  const learn = subset(set, (klass) => !isHeld.has(klass));
  if (learn.classCount < 2 || learn.classCount === learn.count) return undefined;
  const rows: number[] = [];
  const [from, to, probes, people]: number[][] = [[], [], [], []];
  for (const klass of held) {
    if (rows.length + lists[klass].length > MOST_HELD_OUT && rows.length > 0) continue;
    const [first, end] = [rows.length, rows.length + lists[klass].length];
    for (const row of lists[klass]) {
      if (end - first > 1) {
        probes.push(rows.length);
        people.push(klass);
      }
      from.push(first);
      to.push(end);
      rows.push(row);
    }
  }
  if (probes.length === 0) return undefined;
  const others: number[] = [];
  for (let i = 0; i < set.count; i++) if (!isHeld.has(set.classes[i])) others.push(i);
  const strangers = Array.from(random.order(others.length).subarray(0, MOST_STRANGERS), (at) => others[at]);
  return {
    learn,
    gallery: gather(set, [...rows, ...strangers]),
    heldOut: rows.length,
    mates: { from: Int32Array.from(from), to: Int32Array.from(to) },
    probes: Int32Array.from(probes),
    people: Int32Array.from(people),
  };
}

/** For each probe, by how much its best mate is ahead of the best stranger. Above zero is found. */
export interface Margins {
  /** Among held-out vectors alone; zero where they are all of one class. */
  heldOut: Float32Array;
  /** Among all of the gallery. */
  all: Float32Array;
}

/** In cosines of the first `dimension` coordinates of a gallery that was mapped. */
export async function marginsOf(
  { heldOut, mates, probes }: Fold,
  mapped: Float32Array,
  width: number,
  dimension: number,
  threads: number,
): Promise<Margins> {
  const count = mapped.length / width;
  const unit = unitRows(firstColumns(mapped, width, dimension), dimension);
  const rowsOf = (from: number, to: number) => ({
    data: unit.subarray(from * dimension, to * dimension),
    columns: dimension,
  });
  const margins = { heldOut: new Float32Array(probes.length), all: new Float32Array(probes.length) };
  let probe = 0;
  for (let start = 0; start < heldOut; start += TILE) {
    const end = Math.min(heldOut, start + TILE);
    const tile = rowsOf(start, end);
    const best = async (from: number, to: number) =>
      from < to ? largestProducts(tile, rowsOf(from, to), threads) : new Float32Array(end - start).fill(NOBODY);
    // Held-out vectors lie class by class: outside of these columns there are strangers only.
    const [first, last] = [mates.from[start], mates.to[end - 1]];
    const near = await product(tile, rowsOf(first, last), { threads, transposed: 'second' });
    const [before, behind, learned] = [await best(0, first), await best(last, heldOut), await best(heldOut, count)];
    for (; probe < probes.length && probes[probe] < end; probe++) {
      const at = probes[probe];
      const [row, from, to] = [at - start, mates.from[at] - first, mates.to[at] - first];
      const scores = near.subarray(row * (last - first), (row + 1) * (last - first));
      let [mate, stranger] = [NOBODY, Math.max(before[row], behind[row])];
      for (let i = from; i < to; i++) if (i !== at - first && scores[i] > mate) mate = scores[i];
      for (let i = 0; i < from; i++) if (scores[i] > stranger) stranger = scores[i];
      for (let i = to; i < scores.length; i++) if (scores[i] > stranger) stranger = scores[i];
      margins.heldOut[probe] = stranger === NOBODY ? 0 : mate - stranger;
      margins.all[probe] = mate - Math.max(stranger, learned[row]);
    }
  }
  return margins;
}

/** Less than any cosine. */
const NOBODY = -2;

/**
 * The mean of paired outcomes, and its standard error over people, whose outcomes are not
 * independent (Liang and Zeger 1986).
 */
export function overPeople(outcomes: ArrayLike<number>, people: ArrayLike<number>): { mean: number; error: number } {
  let sum = 0;
  for (let i = 0; i < outcomes.length; i++) sum += outcomes[i];
  const mean = sum / outcomes.length;
  const residuals = new Map<number, number>();
  for (let i = 0; i < outcomes.length; i++)
    residuals.set(people[i], (residuals.get(people[i]) ?? 0) + outcomes[i] - mean);
  let squares = 0;
  for (const each of residuals.values()) squares += each * each;
  const g = residuals.size;
  return { mean, error: g < 2 ? Infinity : Math.sqrt((g / (g - 1)) * squares) / outcomes.length };
}
