// What another processor needs to decrypt responses and to check their canaries, as numbers: a GPU
// does what decrypt.ts, canaries.ts and score-sums.ts of scheme do, to the last bit. All of it is
// as secret as the key.

import { moduliOf } from '@hers/ring';
import { type ParameterSet, responseHead } from '@hers/scheme';
import type { CanaryPlace, CollectionKey, QuerySecret } from '@hers/scheme/secret';
import {
  canaryProbe,
  canaryRoom,
  canaryScale,
  checksumRoom,
  decodeScoreSums,
  encodeVectors,
  LARGEST_RESIDUAL,
  largestInteger,
  limitOf,
  makeCanaries,
  modulusOf,
  primeBits,
  readout,
  scoreWeights,
  shapeOf,
  squareOf,
  vectorNorm,
  WEIGHT_COPIES,
} from '@hers/scheme/secret/accelerator';

/** The ring that a phase is computed in: modulo the first prime of a parameter set. */
export interface DeviceRing {
  readonly n: number;
  readonly p: number;
  readonly scale: number;
  readonly last: number;
  readonly roots: Uint32Array;
  readonly inverses: Uint32Array;
}

/** What decrypts and checks the responses to one query. */
export interface DeviceQuery {
  /** What every response to it begins with; id, first and count of the block are left open. */
  readonly head: Uint8Array;
  readonly bits0: number;
  readonly bits1: number;
  /** Bits of C1 that one product with the secret takes. */
  readonly cut: number;
  /** The transform of the secret modulo the first prime. */
  readonly secret: Uint32Array;
  /** Not `exact`: score = phase·factor + offset, in single precision. */
  readonly factor: number;
  readonly offset: number;
  /** What no |phase| exceeds; under `exact`, no distance of phase·step from an integer. */
  readonly largest: number;
  /** Whether integer = sign·phase·step + shift, and score = integer·slope. */
  readonly exact: boolean;
  readonly step: number;
  readonly slope: number;
  readonly sign: 1 | -1;
  readonly shift: number;
  /**
   * A canary's score is scale·⟨values, probe⟩ + offset, give or take `room`. Under `exact` its
   * integer is sign·⟨values, probe⟩ + shift.
   */
  readonly probe: Int32Array;
  readonly scale: number;
  readonly room: number;
  /**
   * `exact`: what `scoreChecker` compares the sums of scores with takes ‖probe‖² of a distance; and
   * no |integer| exceeds the largest one.
   */
  readonly square: number;
  readonly largestInteger: number;
  /** For checksum canaries that sum up so many slots, from 0 on, and the period of scores. */
  readonly plus: Uint32Array;
  readonly divisors: Float64Array;
  readonly rooms: Float64Array;
  readonly period: number;
}

export function deviceRing({ n, primes }: ParameterSet): DeviceRing {
  const [{ p, scale, last, roots, inverses }] = moduliOf(n, primes);
  return { n, p, scale, last, roots, inverses };
}

/** `query` is the vector that was encrypted. The caller wipes `secret` and `probe`. */
export function deviceQuery(key: CollectionKey, secret: QuerySecret, query: ArrayLike<number>): DeviceQuery {
  const { plan, keyId } = key;
  const { parameters, responseBits, unit, largestPhase, checksumGroup, profile } = plan;
  const { c0: bits0, c1: bits1 } = responseBits;
  const encoded = encodeVectors(plan, [query], 'query');
  const { slope, offset, sign, shift } = readout(plan, encoded, vectorNorm(query));
  const exact = profile === 'exact';
  const step = modulusOf(parameters) / 2 ** bits1 / unit;
  const probe = Int32Array.from(canaryProbe(plan, encoded));
  const shapes = Array.from({ length: checksumGroup + 1 }, (_, size) => shapeOf(size));
  const room = checksumRoom(plan, encoded, slope);
  const square = exact ? squareOf(plan, encoded) : 0;
  encoded.values.fill(0);
  return {
    head: responseHead({ parameters, keyId, queryId: secret.queryId, bits0, bits1 }),
    bits0,
    bits1,
    // As `phase` of the ring cuts it.
    cut: Math.min(bits1, primeBits(parameters) - 1 - Math.log2(parameters.n)),
    secret: secret.expose().secret,
    factor: step * slope,
    offset,
    // The score of a checksum canary may be larger, or wrap around.
    largest: exact ? LARGEST_RESIDUAL : checksumGroup > 0 ? Number.POSITIVE_INFINITY : largestPhase * 2 ** bits1,
    ...{ exact, step, slope, sign, shift, probe, square },
    scale: canaryScale(plan, slope),
    room: canaryRoom(plan),
    largestInteger: exact ? largestInteger(plan) : 0,
    plus: Uint32Array.from(shapes, ({ plus }) => plus),
    divisors: Float64Array.from(shapes, ({ divisor }) => divisor),
    rooms: Float64Array.from(shapes, (shape) => limitOf(shape, room)),
    period: room.period,
  };
}

/** What is known of blocks, one after the other. As secret as the key; the caller wipes it. */
export interface DeviceRows {
  /** Canaries: `canaries` slots a block, ascending, and their coordinates. */
  readonly slots: Uint32Array;
  readonly values: Int32Array;
  /** Checksum canaries: n slots a block in the order of their groups, and how many there are. */
  readonly orders: Uint16Array;
  readonly ordered: Uint32Array;
  /** `exact`: whether it is known what the scores of a block add up to, and then that. */
  readonly summed: Uint32Array;
  readonly sums: Float64Array;
}

/** Room for so many blocks. */
export function deviceRows({ plan }: CollectionKey, blocks: number): DeviceRows {
  const { canaries, width, dimension, parameters, checksumGroup, profile } = plan;
  const exact = profile === 'exact';
  return {
    slots: new Uint32Array(blocks * canaries),
    values: new Int32Array(blocks * canaries * width),
    orders: new Uint16Array(checksumGroup > 0 ? blocks * parameters.n : 0),
    ordered: new Uint32Array(checksumGroup > 0 ? blocks : 0),
    summed: new Uint32Array(exact ? blocks : 0),
    sums: new Float64Array(exact ? blocks * WEIGHT_COPIES * (dimension + 2) : 0),
  };
}

/** Fills in block number i; `sums` as `encodeScoreSums` made them, where they are known. */
export function fillDeviceRow(
  key: CollectionKey,
  rows: DeviceRows,
  i: number,
  place: CanaryPlace,
  sums: Uint8Array | undefined,
): void {
  const { canaries, width, dimension, parameters, profile } = key.plan;
  const { slots, values, checksums, own } = makeCanaries(key, place);
  rows.slots.set(slots, i * canaries);
  rows.values.set(values, i * canaries * width);
  if (checksums) {
    rows.orders.set(checksums.order, i * parameters.n);
    rows.ordered[i] = checksums.order.length;
    checksums.order.fill(0);
  }
  for (const each of [slots, values, own]) each.fill(0);
  if (sums && profile === 'exact') {
    const { s, t, w } = decodeScoreSums(key.plan, sums);
    const at = i * WEIGHT_COPIES * (dimension + 2);
    rows.summed[i] = 1;
    rows.sums.set(s, at);
    rows.sums.set(t, at + WEIGHT_COPIES);
    rows.sums.set(w, at + 2 * WEIGHT_COPIES);
    for (const each of [s, t, w]) each.fill(0);
  }
}

/** `exact`: what scores are weighed with. The caller wipes it. */
export function deviceWeights(key: CollectionKey): Uint32Array | undefined {
  return key.plan.profile === 'exact' ? Uint32Array.from(scoreWeights(key)) : undefined;
}
