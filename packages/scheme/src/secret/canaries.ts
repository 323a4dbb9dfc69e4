// Canaries: records of the key holder's own in every block, whose scores it knows for every query.
// A response computed from other rows, for another query, another block or another state of it, or
// moved within its block, has other scores in their slots. README.md §7 has the probability that it
// is missed.
//
// Slots and vectors follow from the canary key and an id, which is the block's: it is drawn again
// whenever a block is made. The vectors are drawn from a distribution that is nearly the same in
// all directions, and are as long as any may be. To a store they are ciphertexts like all others.
//
// Under `integrity: 'strong'` there are checksum canaries as well: slots that hold signed sums of
// other slots' templates, so that the same sums of their scores must be zero but for noise,
// whatever the query is. A response in which a single score was changed shows. README.md §8 derives
// all of it. A group is a checksum slot and the g slots that are summed: (g + k)/2 with the sign +,
// the others with −. Its slot holds the sum divided by k, so with the weight −k all weights add up
// to zero: what all templates have in common cancels, in the sum and in its noise.

import { closeGaps, groupSums, products } from '@hers/ring';
import { hmac } from '@noble/hashes/hmac.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import { HersError } from '../errors.ts';
import { CANARIES } from '../layout.ts';
import { modulusOf, ringOf, wideFactor } from '../parameters.ts';
import { checksumsAmong, type Plan, slotsFor } from '../plan.ts';
import { type Encoded, encodeVectors, readout, vectorNorm } from '../vectors.ts';
import { ID_BYTES } from '../wire.ts';
import type { Scores } from './decrypt.ts';
import { type Canaries, type CollectionKey, cachedCanaries, canarySeed } from './key.ts';

/**
 * Standard deviations within which the score of a canary must be, or the sum of a checksum: beyond
 * with 2^−49.
 */
const AGREE_SIGMAS = 8;
/**
 * A coordinate is the sum of this many uniform numbers: close to Gaussian, and, unlike a Gaussian,
 * the same on every engine.
 */
const UNIFORMS = 4;
const ID = new RegExp(`^[0-9a-f]{${2 * ID_BYTES}}$`);

/**
 * Where the canaries of a block are: the id they follow from, and how many slots they are among.
 */
export interface CanaryPlace {
  /** 16 bytes, hexadecimal. */
  readonly id: string;
  /** Those of the block, its canaries included. */
  readonly slots: number;
}

/** Gives uniform numbers below the first prime, one at a time. Uses polys[0] of the ring. */
function uniforms({ parameters }: Plan, key: Uint8Array): () => number {
  const ring = ringOf(parameters);
  const [poly] = ring.polys;
  const { residues } = poly;
  const { n } = parameters;
  let [index, at] = [0, n];
  return () => {
    if (at === n) {
      ring.uniform(poly, { key, domain: CANARIES, index: index++ });
      at = 0;
    }
    return residues[at++];
  };
}

interface Derived extends Omit<Canaries, 'values'> {
  /** One after the other, each as long as a vector may be. */
  readonly vectors: Float32Array;
}

function derive(key: CollectionKey, { id, slots: among }: CanaryPlace): Derived {
  const { plan } = key;
  const { canaries, dimension, parameters, normBound } = plan;
  if (!ID.test(id))
    throw new HersError('INVALID_ARGUMENT', `canaries follow from an id of ${ID_BYTES} bytes, in hexadecimal`);
  if (!(Number.isInteger(among) && among >= canaries && among <= parameters.n))
    throw new HersError('INVALID_ARGUMENT', `${canaries} canaries are among at most ${parameters.n} slots`);
  const sums = checksumsAmong(plan.checksumGroup, among - canaries);
  if (slotsFor(plan, among - canaries - sums) !== among)
    throw new HersError('INVALID_ARGUMENT', `no block has ${among} slots, its canaries included`);
  const seed = hmac(sha256, canarySeed(key), hexToBytes(id));
  const next = uniforms(plan, seed);
  const half = (UNIFORMS * parameters.primes[0]) / 2;
  const chosen = new Set<number>();
  const vectors = new Float32Array(canaries * dimension);
  const vector = new Float64Array(dimension);
  try {
    // No slot is likelier than another by more than 2^−12: primes have at least 24 bits.
    while (chosen.size < canaries) chosen.add(next() % among);
    for (let l = 0; l < canaries; l++) {
      let square = 0;
      for (let i = 0; i < dimension; i++) {
        let sum = -half;
        for (let u = 0; u < UNIFORMS; u++) sum += next();
        vector[i] = sum;
        square += sum ** 2;
      }
      const factor = normBound / Math.sqrt(square);
      for (let i = 0; i < dimension; i++) vectors[l * dimension + i] = factor * vector[i];
    }
    const slots = Uint32Array.from(chosen).sort();
    if (sums === 0) return { slots, vectors, own: slots };
    const rest = new Uint16Array(among - canaries);
    for (let slot = 0, at = 0; slot < among; slot++) if (!chosen.has(slot)) rest[at++] = slot;
    const checksums = drawChecksums(rest, plan.checksumGroup, parameters.n, next);
    const own = Uint32Array.from([...slots, ...checksumSlots(checksums)]).sort();
    return { slots, vectors, checksums, own };
  } finally {
    seed.fill(0);
    vector.fill(0);
    ringOf(parameters).wipe();
  }
}

/** The canaries of a block as they are encrypted. */
export function makeCanaries(key: CollectionKey, place: CanaryPlace): Canaries {
  const { plan } = key;
  const { width, canaries } = plan;
  const { vectors, ...rest } = derive(key, place);
  const encoded = encodeVectors(plan, vectors, 'gallery');
  const values = new Int32Array(canaries * width);
  for (let l = 0; l < canaries; l++)
    for (let i = 0; i < width; i++) values[l * width + i] = encoded.values[i * canaries + l];
  vectors.fill(0);
  encoded.values.fill(0);
  return { ...rest, values };
}

/** The same, cached. */
function canariesAt(key: CollectionKey, place: CanaryPlace): Canaries {
  // Blocks are full, nearly all of them: no name is put together for these.
  const name = place.slots === key.plan.parameters.n ? place.id : `${place.id} ${place.slots}`;
  return cachedCanaries(key, name, () => makeCanaries(key, place));
}

/** Puts the checksums of a new block into their slots, for which withCanaries has left room. */
export function sumUp(key: CollectionKey, encoded: Encoded, id: Uint8Array): void {
  if (key.plan.checksumGroup === 0) return;
  const { checksums } = canariesAt(key, { id: bytesToHex(id), slots: encoded.count });
  if (checksums) fillChecksums(encoded, checksums);
}

/**
 * The vectors of a new block with its canaries among them, as encryptBlock takes them. The id must
 * become the block's.
 *
 * @example encryptBlock(key, withCanaries(key, vectors, blockId), { blockId })
 */
export function withCanaries(key: CollectionKey, vectors: Float32Array, id: Uint8Array): Float32Array {
  const { plan } = key;
  const { dimension, capacity } = plan;
  const records = vectors.length / dimension;
  if (!(Number.isInteger(records) && records <= capacity))
    throw new HersError('INVALID_ARGUMENT', `a block takes ${capacity} vectors beside its canaries`);
  const total = slotsFor(plan, records);
  const { slots, own, vectors: made } = derive(key, { id: bytesToHex(id), slots: total });
  const out = new Float32Array(total * dimension);
  for (let slot = 0, l = 0, taken = 0; slot < total; slot++) {
    const isOwn = slot === own[taken];
    // What is in the slot of a checksum does not matter: encryptBlock puts the sum there.
    const from = isOwn ? (slot === slots[l] ? l++ : 0) : slot - taken;
    if (isOwn) taken++;
    out.set((isOwn ? made : vectors).subarray(from * dimension, (from + 1) * dimension), slot * dimension);
  }
  made.fill(0);
  return out;
}

/** What a sum of products of encoded coordinates is worth, in scores. */
export function canaryScale({ parameters, unit }: Plan, slope: number): number {
  return slope / wideFactor(parameters) / unit;
}

/** What the score of a canary may be off by, under `compact` and `small`. */
export function canaryRoom({ noise }: Plan): number {
  return AGREE_SIGMAS * noise.score;
}

/**
 * An encoded query as canaries are multiplied with it: the phase is a sum of products; under exact
 * in whole steps, if the appended coordinate has the weight that its smaller scale gives it.
 */
export function canaryProbe({ profile, metric, width, appended }: Plan, { values }: Encoded): Float64Array {
  const probe = Float64Array.from(values);
  if (profile === 'exact' && metric === 'euclidean') {
    for (let i = 0; i < width; i++) probe[i] *= 2;
    probe[width - 1] /= appended;
  }
  return probe;
}

/** What the sums of scores may differ from zero by, of an encoded query. */
export function checksumRoom(plan: Plan, { values }: Encoded, slope: number): ChecksumRoom {
  let square = 0;
  for (const x of values) square += x ** 2;
  // Rounding moves no coordinate of a checksum by more than a half.
  const rounding = (Math.abs(canaryScale(plan, slope)) * Math.sqrt(plan.width * square)) / 2;
  return { noise: canaryRoom(plan), rounding, period: Math.abs((slope * modulusOf(plan.parameters)) / plan.unit) };
}

/** What canaries are checked with, of one query. */
function canaryQuery(plan: Plan, query: ArrayLike<number>) {
  const encoded = encodeVectors(plan, [query], 'query');
  const { slope, offset, sign, shift } = readout(plan, encoded, vectorNorm(query));
  const probe = canaryProbe(plan, encoded);
  return { encoded, probe, slope, offset, sign, shift, scale: canaryScale(plan, slope), room: canaryRoom(plan) };
}

/** The scores that canaries must have, of one query: for those who check many blocks at once. */
export interface ExpectedCanaries {
  /** What they may be off by. */
  readonly room: number;
  /** Writes the slots of the canaries of a block, ascending, and their scores. */
  fill(place: CanaryPlace, slots: Uint32Array, scores: Float64Array): void;
}

/** Under `compact` and `small`, without checksums. */
export function expectedCanaries(key: CollectionKey, query: ArrayLike<number>): ExpectedCanaries {
  const { probe, offset, scale, room } = canaryQuery(key.plan, query);
  return {
    room,
    fill(place, slots, scores) {
      const known = canariesAt(key, place);
      slots.set(known.slots);
      products(scores, known.values, probe);
      for (let l = 0; l < scores.length; l++) scores[l] = scale * scores[l] + offset;
    },
  };
}

/**
 * Checks responses to one query, which is encoded once. For each it gives the scores of the
 * records, canaries left out, in the same memory; or nothing, where a canary has another score than
 * it must have, or scores do not fit a checksum. As secret as the query: let go of it with the
 * responses. Whoever answers may learn only that a response was refused.
 *
 * @example const checked = canaryChecker(key, query); // then, for every block: const scores =
 * checked(place, secret.decrypt(response)) ?? refuse()
 */
export function canaryChecker(
  key: CollectionKey,
  query: ArrayLike<number>,
): (place: CanaryPlace, decrypted: Scores) => Float32Array | undefined {
  const { plan } = key;
  const { canaries } = plan;
  const { encoded, probe, slope, offset, sign, shift, scale, room } = canaryQuery(plan, query);
  const sums = new Float64Array(canaries);
  const ofSums = checksumRoom(plan, encoded, slope);
  const fit = (checksums: Checksums, scores: Float32Array) => checksumsFit(checksums, scores, ofSums);

  return (place, { first, scores, integers }) => {
    if (first !== 0 || scores.length < place.slots) return undefined;
    const { slots, values, checksums, own } = canariesAt(key, place);
    products(sums, values, probe);
    let agrees = true;
    for (let l = 0; l < canaries; l++) {
      const slot = slots[l];
      if (integers) agrees = integers[slot] === sign * sums[l] + shift && agrees;
      else agrees = Math.abs(scores[slot] - (scale * sums[l] + offset)) <= room && agrees;
    }
    sums.fill(0);
    return agrees && (!checksums || fit(checksums, scores)) ? closeGaps(scores, own) : undefined;
  };
}

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
function drawChecksums(slots: Uint16Array, group: number, n: number, next: () => number): Checksums {
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
function checksumSlots(checksums: Checksums): number[] {
  const slots: number[] = [];
  eachGroup(checksums, (at) => slots.push(checksums.order[at]));
  return slots;
}

/** Puts the sums of encoded vectors into their slots, rounded to whole numbers. */
function fillChecksums({ count, values, lifts }: Encoded, checksums: Checksums): void {
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
function checksumsFit(checksums: Checksums, scores: Float32Array, room: ChecksumRoom): boolean {
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
