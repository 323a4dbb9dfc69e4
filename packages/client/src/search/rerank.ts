// Fetching what a scan found, for payloads, or to rank by full vectors. It shows the store which
// records were found, so it is done only when the caller asks for it.

import { type Plan, plainScores } from '@hers/scheme';
import { HersError } from '@hers/service';
import { hex } from '../bytes.ts';
import { payloadOf } from '../formats/records.ts';
import type { CollectionSession } from '../session/session.ts';
import type { View } from '../session/view.ts';
import type { Wanted } from './candidates.ts';
import { type Found, orderOf, Undecryptable } from './scan.ts';
import { ScoreCheck } from './score-check.ts';
import { DEFAULT_LIMIT, MAX_LIMIT, type Match, type SearchOptions } from './search-options.ts';

/** Records in the first step when `enough` may end fetching; each later step has twice as many. */
const FIRST_STEP = 16;

/**
 * Records fetched at once. To a store that cheats, every fetch answers a question it chose, so each
 * step is checked before the next.
 */
const stepOf = ({ keyring }: CollectionSession) => keyring.plan.parameters.n / 16;

/** The error for what would fetch records because of their scores, under the profile `open`. */
export function neverFetches(option: string): HersError {
  return new HersError(
    'INVALID_ARGUMENT',
    `${option} would fetch records because of their scores, and under the profile open a store that sees which could learn the key from them: leave it out; ids, and fields by select, come without fetching`,
  );
}

/** How many candidates a search fetches; none if nothing asked for it. */
export function candidatesToFetch(session: CollectionSession, options: SearchOptions): number {
  const { limit = DEFAULT_LIMIT, rerank = false, payload = false } = options;
  const { plan } = session.keyring;
  if (rerank === false && !payload) return 0;
  if (plan.profile === 'open') throw neverFetches(rerank === false ? 'payload' : 'rerank');
  const wanted = rerank === false ? limit : rerank === true ? 4 * limit : rerank;
  if (!(Number.isInteger(wanted) && wanted >= 1))
    throw new HersError('INVALID_ARGUMENT', 'rerank is true, or how many candidates to fetch');
  const exact = plan.profile === 'exact';
  if (options.enough !== undefined && !exact)
    throw new HersError(
      'INVALID_ARGUMENT',
      'enough needs the profile exact: under compact, where fetching stops depends on noise that depends on the key',
    );
  // Under `compact`, which records are fetched depends on noise that depends on the key, so they
  // are never many (README.md).
  const most = exact ? MAX_LIMIT : stepOf(session);
  if (limit > most || (rerank !== true && wanted > most))
    throw new HersError(
      'INVALID_ARGUMENT',
      `at most ${most} records can be fetched for one search of this collection; lower ${limit > most ? 'the limit' : 'rerank'}${most < MAX_LIMIT ? `, or use the profile exact, where it is ${MAX_LIMIT}` : ''}`,
    );
  return Math.min(Math.max(wanted, limit), most);
}

/**
 * A scan after which records are fetched. If it cannot be decrypted, nothing is, and the store sees
 * that: so it is counted.
 */
export async function countUndecryptable<T>(session: CollectionSession, scanning: Promise<T>): Promise<T> {
  try {
    return await scanning;
  } catch (error) {
    if (error instanceof Undecryptable && error.code === 'INTEGRITY') await session.candidates.undecryptable();
    throw error;
  }
}

/** What fetching a record that was found takes. */
export function wantedOf(session: CollectionSession, { id, version, space, slot, score }: Found): Wanted {
  const handle = hex(session.keyring.records.handleOf(id));
  return { id, version, handle, space, ...(slot === undefined ? {} : { slot, decrypted: score }) };
}

/**
 * What is asked for at a time, ordered by handle, which says nothing. Only where fetching may stop
 * in between do the steps follow the ranking.
 */
function* stepsOf(wanted: readonly Wanted[], size: number, mayStop: boolean): Generator<Wanted[]> {
  const byHandle = (a: Wanted, b: Wanted) => (a.handle < b.handle ? -1 : a.handle > b.handle ? 1 : 0);
  const all = mayStop ? wanted : wanted.toSorted(byHandle);
  let step = mayStop ? Math.min(FIRST_STEP, size) : size;
  for (let at = 0; at < all.length; at += step, step = Math.min(2 * step, size))
    yield all.slice(at, at + step).sort(byHandle);
}

/**
 * Fetches what was found, and stops with INTEGRITY when a record does not have the score that was
 * decrypted for it: either the store mixed something up, or it uses searches to find out what
 * ciphertexts decrypt to. Each step is checked before the next is asked for.
 */
export async function fetchMatches(
  session: CollectionSession,
  view: View,
  probe: Float32Array,
  found: readonly Found[],
  options: SearchOptions,
): Promise<{ matches: Match[]; fetched: number }> {
  const { plan } = session.keyring;
  const { limit = DEFAULT_LIMIT, rerank = false, payload = false, enough, threshold } = options;
  const sign = orderOf(plan) === 'descending' ? -1 : 1;
  const reaches = (bound: number) => (match: Match) => sign * match.score <= sign * bound;
  const chosen = rerank === false ? found.slice(0, limit) : found;
  const check = new ScoreCheck(probe);
  const matches: Match[] = [];
  const away: Wanted[] = [];
  const ranks = new Map<string, number>();
  for (const [rank, each] of chosen.entries()) {
    // The vectors of pending records are here already.
    if (each.pending && !payload) {
      const score = fullScore(plan, each.pending.vector, probe);
      matches[rank] = { id: each.id, score, scoreOrigin: 'recomputed' };
      continue;
    }
    const wanted = wantedOf(session, each);
    ranks.set(wanted.handle, rank);
    away.push(wanted);
  }
  let fetched = 0;
  const isContent = () => enough !== undefined && matches.filter(reaches(enough)).length >= limit;
  for (const step of stepsOf(away, stepOf(session), enough !== undefined)) {
    if (isContent()) break;
    for (const [handle, { record, isReplaced }] of await session.candidates.fetch(view, step, check, options.signal)) {
      const rank = ranks.get(handle)!;
      const { score, scoreOrigin } = chosen[rank];
      const scored =
        rerank !== false || isReplaced
          ? { score: fullScore(plan, record.vector, probe), scoreOrigin: 'recomputed' as const }
          : { score, scoreOrigin };
      const content = payload ? payloadOf(record) : undefined;
      matches[rank] = { id: record.id, ...scored, ...(content === undefined ? {} : { payload: content }) };
    }
    fetched += step.length;
  }
  // In the order of the ranking, without the gaps of what was not fetched.
  const inOrder = Object.values(matches);
  const within = threshold === undefined ? inOrder : inOrder.filter(reaches(threshold));
  return { matches: within.sort((a, b) => sign * (a.score - b.score)).slice(0, limit), fetched };
}

/** The score of full vectors, whatever is indexed of them. */
export function fullScore(plan: Plan, vector: Float32Array, probe: Float32Array): number {
  const [score] = plainScores({ ...plan, profile: 'compact' }, vector, probe);
  return plan.metric === 'euclidean' ? Math.sqrt(Math.max(0, score)) : score;
}
