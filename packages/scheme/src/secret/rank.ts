// The best of many responses to one query, decrypted and checked together by native code. What it
// gives is what decrypting, checking and ranking one by one gives.

import { ALL_RECORDS } from '@hers/ring';
import { RESPONSE_LAYOUT } from '../layout.ts';
import { ringOf } from '../parameters.ts';
import { RESPONSE_OVERHEAD } from '../wire.ts';
import { type CanaryPlace, expectedCanaries } from './canaries.ts';
import type { QuerySecret } from './decrypt.ts';
import { type CollectionKey, hasRoomForCanaries } from './key.ts';

/** One response to rank. */
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
