// Decryption of responses to scores: one by one, or many together by native code, which also checks
// and ranks them and gives what doing so one by one gives.

import { ALL_RECORDS, type RankJob, ResultSecret } from '@hers/ring';
import { checkSameKey } from '../block.ts';
import { HersError } from '../errors.ts';
import { RESPONSE_LAYOUT } from '../layout.ts';
import { modulusOf, ringOf } from '../parameters.ts';
import type { Plan } from '../plan.ts';
import { decodeResponse, responseHead, type ScanResponse } from '../response.ts';
import type { Readout } from '../vectors.ts';
import { RESPONSE_OVERHEAD, sameBytes } from '../wire.ts';
import { type CanaryPlace, expectedCanaries } from './canaries.ts';
import { type CollectionKey, hasRoomForCanaries } from './key.ts';

/**
 * `exact`: a decrypted value this far from an integer cannot come from a sound response (noise
 * stays below 0.5 with margin to spare).
 */
export const LARGEST_RESIDUAL = 0.45;

export interface Scores {
  readonly blockId: Uint8Array;
  /** The slot of the first score. */
  readonly first: number;
  /** Similarities (cosine, dot) or squared distances (euclidean), one per template of the block. */
  readonly scores: Float32Array;
  /**
   * `exact`: the integers they come from, inner products or squared distances of the rounded
   * vectors.
   */
  readonly integers?: Int32Array;
}

/**
 * A query's secret as plain data, to hand to a worker of the same process. As sensitive as the
 * secret itself.
 */
export interface ExposedSecret {
  readonly keyId: Uint8Array;
  readonly queryId: Uint8Array;
  readonly readout: Readout;
  readonly secret: Uint32Array;
}

/**
 * The decrypted phase of every slot in the plan's units, before any rounding: for measuring noise.
 * Tells everything; never show it.
 */
export let rawPhase: (secret: QuerySecret, response: Uint8Array) => Float64Array;

/** What `rank` takes: RankJob of ring, without what follows from the query. */
export type ResponsesToRank = Omit<RankJob, 'head' | 'bits0' | 'bits1' | 'factor' | 'offset' | 'largest'>;

/** Decrypts the responses to one query, and only those. */
export class QuerySecret {
  readonly queryId: Uint8Array;
  readonly #plan: Plan;
  readonly #keyId: Uint8Array;
  readonly #readout: Readout;
  #secret: ResultSecret | undefined;

  static {
    rawPhase = (secret, bytes) => {
      const ring = ringOf(secret.#plan.parameters);
      const { response, secret: row, step } = secret.#open(bytes);
      const out = Float64Array.from(ring.phase(response, row.words).values, (x) => x * step);
      ring.wipe();
      return out;
    };
  }

  constructor(plan: Plan, keyId: Uint8Array, queryId: Uint8Array, readout: Readout, secret: Uint32Array) {
    this.queryId = queryId;
    this.#plan = plan;
    this.#keyId = keyId;
    this.#readout = readout;
    this.#secret = new ResultSecret(secret);
  }

  /** For workers: see ExposedSecret. */
  expose(): ExposedSecret {
    if (!this.#secret) throw wiped();
    return { keyId: this.#keyId, queryId: this.queryId, readout: this.#readout, secret: this.#secret.words.slice() };
  }

  static from(plan: Plan, { keyId, queryId, readout, secret }: ExposedSecret): QuerySecret {
    return new QuerySecret(plan, keyId, queryId, readout, secret);
  }

  /**
   * Checks that a response answers this query; `step` is the unit of its phase in the plan's units.
   */
  #open(bytes: Uint8Array): { response: ScanResponse; secret: ResultSecret; step: number } {
    if (!this.#secret) throw wiped();
    const response = decodeResponse(bytes);
    const { parameters, responseBits, unit } = this.#plan;
    checkSameKey(response, { parameters, keyId: this.#keyId });
    if (!sameBytes(response.queryId, this.queryId))
      throw new HersError('QUERY_MISMATCH', 'this response answers another query');
    const { bits0, bits1 } = response;
    if (bits0 !== responseBits.c0 || bits1 !== responseBits.c1)
      throw new HersError('MALFORMED', 'this response has other bits than the query asked for');
    return { response, secret: this.#secret, step: modulusOf(parameters) / 2 ** bits1 / unit };
  }

  /**
   * The scores of one block. Nothing of them may go back to the server, and `compact` ones to
   * nobody who sees ciphertexts (SECURITY.md). Who decrypts many gives the memory of n floats,
   * which the scores under `compact` and `small` then lie in.
   */
  decrypt(bytes: Uint8Array, room?: Float32Array): Scores {
    const plan = this.#plan;
    const ring = ringOf(plan.parameters);
    const { response, secret, step } = this.#open(bytes);
    const { blockId, first, count, bits1 } = response;
    const { slope, offset, sign, shift } = this.#readout;
    if (plan.profile !== 'exact') {
      const { values, largest } = ring.scores(response, secret, step * slope, offset, room);
      // The score of a checksum canary may be larger, or wrap around.
      if (plan.checksumGroup === 0 && largest > plan.largestPhase * 2 ** bits1) throw nonsense(values);
      return { blockId, first, scores: only(values, first, count) };
    }
    const { values, residual } = ring.integers(response, secret, step);
    if (residual > LARGEST_RESIDUAL) throw nonsense(values);
    const integers = only(values, first, count);
    if (sign !== 1) for (let j = 0; j < count; j++) integers[j] = shift - integers[j];
    const scores = new Float32Array(count);
    for (let j = 0; j < count; j++) scores[j] = integers[j] * slope;
    return { blockId, first, scores, integers };
  }

  /**
   * Decrypts and ranks responses on a thread of its own: for each of the best
   * the number of its response, of its record, and its score. Undefined where that cannot be done
   * here, or a response is not as it should be: then `decrypt` says what is wrong. Neither the
   * responses nor this secret may change before the promise settles.
   */
  async rank(job: ResponsesToRank): Promise<Float64Array | undefined> {
    if (!this.#secret) throw wiped();
    const { parameters, responseBits, unit, largestPhase } = this.#plan;
    const { slope, offset } = this.#readout;
    const { c0: bits0, c1: bits1 } = responseBits;
    const factor = (modulusOf(parameters) / 2 ** bits1 / unit) * slope;
    const head = responseHead({ parameters, keyId: this.#keyId, queryId: this.queryId, bits0, bits1 });
    const largest = largestPhase * 2 ** bits1;
    return ringOf(parameters).rank({ ...job, head, bits0, bits1, factor, offset, largest }, this.#secret);
  }

  wipe(): void {
    this.#secret?.wipe();
    this.#secret = undefined;
  }

  [Symbol.dispose](): void {
    this.wipe();
  }

  toJSON(): string {
    return '[QuerySecret]';
  }
}

function wiped(): HersError {
  return new HersError('WIPED', 'the secret of this query has been wiped; send a new query');
}

/** Part of an array, the rest of which is overwritten: what other slots decrypt to is nobody's. */
export function only<T extends Float32Array | Int32Array>(values: T, first: number, count: number): T {
  values.fill(0, 0, first).fill(0, first + count);
  return values.subarray(first, first + count) as T;
}

/** What was decrypted is overwritten. */
export function nonsense(...decrypted: readonly (Float32Array | Float64Array | Int32Array)[]): HersError {
  for (const values of decrypted) values.fill(0);
  return new HersError(
    'INTEGRITY',
    'this decrypts to values no score can have: it was altered, or comes from another block or key',
  );
}

export interface RankTask {
  readonly response: Uint8Array;
  readonly canaries: CanaryPlace;
  /** Records to leave out. */
  readonly dead: readonly number[];
  /** Records that count, if not all do: bit j & 31 of word j >> 5 for record j. */
  readonly slots?: Uint32Array | undefined;
}

export interface RankBy {
  readonly limit: number;
  /** What a score, or the negative of a distance, must exceed. */
  readonly floor: number;
  /** The vector that was searched for. */
  readonly query: ArrayLike<number>;
}

/** By the number of its task; a distance is no longer squared. */
export interface Ranked {
  readonly task: number;
  readonly slot: number;
  readonly score: number;
}

/** Whether native code can rank the responses to queries of this key. */
export function canRank({ plan }: CollectionKey): boolean {
  return (
    plan.profile !== 'exact' && plan.profile !== 'open' && plan.checksumGroup === 0 && ringOf(plan.parameters).canRank
  );
}

/**
 * Best first. Undefined where this has to be done one by one: there is no native code for it, a
 * response is not as it should be, or more blocks are searched than canaries are kept for. The
 * responses lie in `memory`, which may not change before the promise settles; nor may the secret.
 */
export async function rankTogether(
  key: CollectionKey,
  secret: QuerySecret,
  memory: ArrayBuffer,
  tasks: readonly RankTask[],
  { limit, floor, query }: RankBy,
): Promise<Ranked[] | undefined> {
  const { plan } = key;
  const { canaries, parameters } = plan;
  const count = tasks.length;
  if (!canRank(key) || !hasRoomForCanaries(key)) return undefined;
  const { c0, c1 } = plan.responseBits;
  const bytes = RESPONSE_OVERHEAD + (parameters.n * (c0 + c1)) / 8;
  const at = new Uint32Array(count);
  const slots = new Uint32Array(count * canaries);
  const expected = new Float64Array(count * canaries);
  const deadEnds = new Uint32Array(count);
  const chosenAt = new Uint32Array(count).fill(ALL_RECORDS);
  const words = Math.ceil(parameters.n / 32);
  const chosen = new Uint32Array(words * tasks.filter((task) => task.slots).length);
  const dead: number[] = [];
  const check = expectedCanaries(key, query);
  let filters = 0;
  for (let i = 0; i < count; i++) {
    const { response, canaries: place, dead: own, slots: counted } = tasks[i];
    if (response.buffer !== memory || response.length !== bytes || countOf(response) < place.slots) return undefined;
    at[i] = response.byteOffset;
    if (canaries > 0) {
      const [from, until] = [i * canaries, (i + 1) * canaries];
      check.fill(place, slots.subarray(from, until), expected.subarray(from, until));
    }
    if (own.length > 0) dead.push(...own.toSorted((a, b) => a - b));
    deadEnds[i] = dead.length;
    if (counted) {
      chosen.set(counted, filters);
      chosenAt[i] = filters;
      filters += words;
    }
  }
  try {
    const best = await secret.rank({
      ...{ memory: new Uint8Array(memory), at, canaries, slots, expected, room: check.room },
      ...{ dead: Uint32Array.from(dead), deadEnds, chosen, chosenAt },
      ...{ areDistances: plan.metric === 'euclidean', floor, limit },
    });
    if (!best) return undefined;
    const ranked = Array.from({ length: best.length / 3 }, (_, i) => ({
      ...{ task: best[3 * i], slot: best[3 * i + 1], score: best[3 * i + 2] },
    }));
    best.fill(0);
    return ranked;
  } finally {
    expected.fill(0);
  }
}

/** How many slots a response says that it is about. */
function countOf(response: Uint8Array): number {
  return new DataView(response.buffer, response.byteOffset).getUint32(RESPONSE_LAYOUT.count, true);
}
