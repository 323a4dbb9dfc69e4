// Searching: one scan, and, if the caller asks for it, fetching the best records afterwards, for
// payloads, or to rank by full vectors. That shows the store which records were found.
//
// Verifying compares a vector with one record, by a scan of the block that the record is in; or
// with a group of records, by a scan of everything.

import { checkVector, type Plan, plainScores } from '@hers/scheme';
import { HersError, refuseUnknown, type ShardCoverage } from '@hers/service';
import { hex } from '../bytes.ts';
import { type FieldValue, invalid, quoted } from '../fields/field.ts';
import type { Filter } from '../filter/filter.ts';
import { liveCount } from '../formats/manifest.ts';
import { type Payload, payloadOf } from '../formats/records.ts';
import type { CollectionSession } from '../session/session.ts';
import type { View } from '../session/view.ts';
import type { Wanted } from './candidates.ts';
import { checkFieldNames, checkGroupField, chosenCount, fieldsOf, inPartitions, isChosen } from './choice.ts';
import { type Asked, questions } from './open.ts';
import {
  type Found,
  orderOf,
  type ScanPart,
  type ScoreOrigin,
  type Searching,
  scan,
  scanWith,
  Undecryptable,
} from './scan.ts';
import { ScoreCheck } from './score-check.ts';

export async function search(
  searching: Searching,
  vectors: readonly ArrayLike<number>[],
  options: SearchOptions,
): Promise<SearchResult[]> {
  checkOptions(options);
  if (vectors.length === 0) return [];
  const { session } = searching;
  const toFetch = candidatesToFetch(session, options);
  const { plan } = session.keyring;
  const probes = vectors.map((vector, i) =>
    checkVector(plan, vector, 'query', vectors.length > 1 ? `vector ${i}` : 'the vector'),
  );
  const { limit = DEFAULT_LIMIT, select } = options;
  const scanning = session.read(async (view) => {
    const { part, scanOptions } = scanFor(searching, view, Math.max(limit, toFetch), options);
    return { view, part, scanned: await scan(searching, view, probes, scanOptions, part) };
  });
  const { view, part, scanned } = await (toFetch > 0 ? countUndecryptable(searching, scanning) : scanning);
  // From here on the store is shown what was found, and nothing is scanned again in this call.
  const total = liveCount(part ?? view.manifest);
  const pending = part ? part.pending.length : view.pending.size;
  const results: SearchResult[] = [];
  for (const [i, { found, searched, shards }] of scanned.entries()) {
    const answer =
      toFetch > 0
        ? await fetchMatches(searching, view, probes[i], found, options)
        : { matches: matchesOf(found), fetched: 0 };
    const matches = select ? withFields(view, answer.matches, found, select) : answer.matches;
    results.push({ ...answer, matches, coverage: { searched, total, ...(shards ? { shards } : {}) }, pending });
  }
  return results;
}

/** Checks the options that depend on the view, and turns them into those of a scan. */
function scanFor(
  { session, choices }: Searching,
  view: View,
  limit: number,
  { threshold, filter, partitions, select, groupBy, rerank, partial, signal }: SearchOptions,
) {
  const part = partitions && inPartitions(session, view, partitions);
  if (select && (!Array.isArray(select) || select.some((field) => typeof field !== 'string')))
    throw invalid("select is a list of fields, such as ['country']");
  if (select) checkFieldNames(view, select, 'select');
  const scanOptions = {
    limit,
    choice: choices.of(view, filter, Date.now()),
    groupBy: groupBy === undefined ? undefined : checkGroupField(view, groupBy, 'groupBy'),
    // A compressed or noisy score may be on the other side of the threshold than the full one.
    ...(threshold === undefined || rerank ? {} : { threshold }),
    ...(signal ? { signal } : {}),
    ...(partial ? { partial } : {}),
  };
  return { part, scanOptions };
}

const matchesOf = (found: readonly Found[]): Match[] =>
  found.map(({ id, score, scoreOrigin }) => ({ id, score, scoreOrigin }));

/** How questions of devices are answered: as searches are, without anything that fetches. */
export type AnswerOptions = Pick<
  SearchOptions,
  'limit' | 'threshold' | 'filter' | 'partitions' | 'select' | 'groupBy' | 'signal'
>;

/** Searches for questions in the inbox of the store, whose vectors were read. */
export async function answer(
  searching: Searching,
  asked: readonly Asked[],
  options: AnswerOptions,
): Promise<Pick<SearchResult, 'matches' | 'coverage'>[]> {
  const { limit = DEFAULT_LIMIT, select } = options;
  return searching.session.read(async (view) => {
    const { part, scanOptions } = scanFor(searching, view, limit, options);
    const total = liveCount(part ?? view.manifest);
    return (await scanWith(searching, view, questions(asked), scanOptions, part)).map(({ found, searched }) => {
      const matches = matchesOf(found);
      return { matches: select ? withFields(view, matches, found, select) : matches, coverage: { searched, total } };
    });
  });
}

function withFields(
  view: View,
  matches: readonly Match[],
  found: readonly Found[],
  fields: readonly string[],
): Match[] {
  const byId = new Map(found.map((each) => [each.id, each]));
  return matches.map((match) => ({ ...match, fields: fieldsOf(view, byId.get(match.id)!, fields) }));
}

/** Records in the first step when `enough` may end fetching; each later step has twice as many. */
const FIRST_STEP = 16;

/**
 * Records fetched at once. To a store that cheats, every fetch answers a question it chose, so each
 * step is checked before the next.
 */
const stepOf = ({ keyring }: CollectionSession) => keyring.plan.parameters.n / 16;

function neverFetches(option: string): HersError {
  return invalid(
    `${option} would fetch records because of their scores, and under the profile open a store that sees which could learn the key from them: leave it out; ids, and fields by select, come without fetching`,
  );
}

/** None, unless something asked for it. */
function candidatesToFetch(session: CollectionSession, options: SearchOptions): number {
  const { limit = DEFAULT_LIMIT, rerank = false, payload = false } = options;
  const { plan } = session.keyring;
  if (rerank === false && !payload) return 0;
  if (plan.profile === 'open') throw neverFetches(rerank === false ? 'payload' : 'rerank');
  const wanted = rerank === false ? limit : rerank === true ? 4 * limit : rerank;
  if (!(Number.isInteger(wanted) && wanted >= 1)) throw invalid('rerank is true, or how many candidates to fetch');
  const exact = plan.profile === 'exact';
  if (options.enough !== undefined && !exact)
    throw invalid(
      'enough needs the profile exact: under compact, where fetching stops depends on noise that depends on the key',
    );
  // Under `compact`, which records are fetched depends on noise that depends on the key, so they
  // are never many (README.md).
  const most = exact ? MAX_LIMIT : stepOf(session);
  if (limit > most || (rerank !== true && wanted > most))
    throw invalid(
      `at most ${most} records can be fetched for one search of this collection; lower ${limit > most ? 'the limit' : 'rerank'}${most < MAX_LIMIT ? `, or use the profile exact, where it is ${MAX_LIMIT}` : ''}`,
    );
  return Math.min(Math.max(wanted, limit), most);
}

/** Counts a scan that cannot be decrypted: the store sees that nothing is fetched after it. */
async function countUndecryptable<T>({ candidates }: Searching, scanning: Promise<T>): Promise<T> {
  try {
    return await scanning;
  } catch (error) {
    if (error instanceof Undecryptable && error.code === 'INTEGRITY') await candidates.undecryptable();
    throw error;
  }
}

function wantedOf(session: CollectionSession, { id, version, space, slot, score }: Found): Wanted {
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
async function fetchMatches(
  { session, candidates }: Searching,
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
    for (const [handle, { record, isReplaced }] of await candidates.fetch(view, step, check, options.signal)) {
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
function fullScore(plan: Plan, vector: Float32Array, probe: Float32Array): number {
  const [score] = plainScores({ ...plan, profile: 'compact' }, vector, probe);
  return plan.metric === 'euclidean' ? Math.sqrt(Math.max(0, score)) : score;
}

/** What a search returns, and from where. */
export interface SearchOptions {
  /** The largest number of matches; 10 by default. */
  readonly limit?: number;
  /** Only similarities of at least this, or distances of at most this. */
  readonly threshold?: number;
  /**
   * Fetch this many candidates (true: four times the limit) from the vault and rank them by their
   * full vectors; with a compressor that is the second stage of the search. Off by default, because
   * it shows the store which records the candidates are. `threshold` then applies to full vectors
   * alone.
   */
  readonly rerank?: boolean | number;
  /**
   * With `rerank`, under `exact`: fetch in steps, best candidates first, and stop when as many
   * records as the limit score this well by their full vectors. It shows the store the approximate
   * order of the candidates, and where the search stopped.
   */
  readonly enough?: number;
  /**
   * Only records that pass. The client leaves the others out before it ranks, so the results are
   * the best of those that pass, and the store does not learn that there is a filter
   * (docs/filters.md).
   *
   * @example { must: [{ field: 'country', match: 'NL' }, { field: 'age', range: { gte: 18 } }] }
   */
  readonly filter?: Filter;
  /**
   * In a collection with partitions: search only in these. Their blocks alone are scanned, which
   * costs less, and the store sees which blocks these are.
   */
  readonly partitions?: readonly string[];
  /** Fields of the matches to return. The client has them, so nothing is fetched for it. */
  readonly select?: readonly string[];
  /**
   * A field of type keyword: of the records that have the same value, only the best is a match.
   * Records without a value are matches of their own.
   */
  readonly groupBy?: string;
  /**
   * Fetch the payloads of the matches. Off by default, because it shows the store which they are.
   */
  readonly payload?: boolean;
  /**
   * On a cluster of which too many nodes are gone: search what can be reached, instead of
   * UNAVAILABLE. `coverage` says how much that was. A record that is not a match may then be one.
   */
  readonly partial?: boolean;
  /** Ends the search when it aborts. */
  readonly signal?: AbortSignal;
}

/** A record that was found. */
export interface Match {
  /** The id of the record. */
  readonly id: string;
  /** Similarity (cosine, dot) or distance (euclidean). */
  readonly score: number;
  /**
   * `noisy`: decrypted under `compact`; it must not reach anyone who sees ciphertexts. `exact`:
   * decrypted under `exact`. `recomputed`: by the client from the record's own vector.
   */
  readonly scoreOrigin: ScoreOrigin;
  /** The payload, if it was asked for and the record has one. */
  readonly payload?: Payload;
  /** The fields that `select` asked for, as far as the record has them. */
  readonly fields?: { readonly [name: string]: FieldValue };
}

/** What a search found. */
export interface SearchResult {
  /** Best first. */
  readonly matches: readonly Match[];
  /**
   * How many records the store's answers and the pending records covered, and how many there are,
   * whether they pass a filter or not. They differ only with `partial`; `shards` are then those of
   * a cluster.
   */
  readonly coverage: {
    readonly searched: number;
    readonly total: number;
    readonly shards?: ShardCoverage;
  };
  /**
   * How many of the records searched are pending: in no block yet, so that this client compared
   * them itself, in the clear. `optimize` puts them into blocks.
   */
  readonly pending: number;
  /**
   * Records that were fetched from the vault, which the store could see; 0 unless `rerank` or
   * `payload` asked for it.
   */
  readonly fetched: number;
}

const DEFAULT_LIMIT = 10;
const MAX_LIMIT = 10_000;

export function checkOptions(options: SearchOptions): void {
  refuseUnknown(
    options,
    {
      ...{ limit: true, threshold: true, filter: true, partitions: true, select: true, groupBy: true },
      ...{ rerank: true, enough: true, payload: true, partial: true, signal: true },
    },
    'a search',
  );
  const { limit = DEFAULT_LIMIT, threshold, rerank = false, enough, groupBy } = options;
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT))
    throw invalid(`limit is a whole number from 1 to ${MAX_LIMIT}`);
  if (threshold !== undefined && !Number.isFinite(threshold)) throw invalid('threshold must be a number');
  if (groupBy !== undefined && rerank !== false)
    throw invalid(
      'groupBy keeps the best of each group by what is indexed, and rerank might find another: leave one of them out',
    );
  if (enough === undefined) return;
  if (!Number.isFinite(enough)) throw invalid('enough must be a number');
  if (rerank === false) throw invalid('enough is about full vectors: it needs rerank, which fetches them');
}

/** All records that have the same value in a field of type keyword: the templates of one person. */
export interface Group {
  /** The name of the field. */
  readonly field: string;
  /** The value that its records have in common. */
  readonly value: string;
}

/** How a probe is compared with one record, or with the records of a group. */
export interface VerifyOptions {
  /** For a group: whether its best score counts, the default, or the mean of all. */
  readonly combine?: 'best' | 'mean';
  /**
   * For a group: scan only the blocks that it is in, which shows the store which these are. By
   * default everything is scanned.
   */
  readonly showBlocks?: boolean;
  /**
   * In a collection with partitions: only records of these. A group is then looked for in their
   * blocks alone, and the store sees which these are.
   */
  readonly partitions?: readonly string[];
  /** The similarity to reach, or the distance not to exceed, for `match` to be true. */
  readonly threshold?: number;
  /**
   * Fetch the record and compare the full vectors. Off by default, because it shows the store which
   * record of the block it is.
   */
  readonly rerank?: boolean;
  /** Ends the comparison when it aborts. */
  readonly signal?: AbortSignal;
}

/** What `verify` found. */
export interface Verification {
  /** Similarity (cosine, dot) or distance (euclidean). */
  readonly score: number;
  /** Whether the score reaches the threshold; only when one was given. */
  readonly match?: boolean;
  /** As in {@link Match}. */
  readonly scoreOrigin: ScoreOrigin;
}

export async function verify(
  searching: Searching,
  of: string | Group,
  vector: ArrayLike<number>,
  options: VerifyOptions,
): Promise<Verification> {
  refuseUnknown(
    options,
    { threshold: true, rerank: true, combine: true, showBlocks: true, partitions: true, signal: true },
    'a verification',
  );
  const { plan } = searching.session.keyring;
  const probe = checkVector(plan, vector, 'query');
  const { threshold, rerank = false } = options;
  if (rerank && plan.profile === 'open') throw neverFetches('rerank');
  const { score, scoreOrigin } =
    typeof of === 'string'
      ? await verifyRecord(searching, of, probe, options)
      : await verifyGroup(searching, of, probe, options);
  if (threshold === undefined) return { score, scoreOrigin };
  return { score, scoreOrigin, match: orderOf(plan) === 'descending' ? score >= threshold : score <= threshold };
}

async function verifyRecord(
  searching: Searching,
  id: string,
  probe: Float32Array,
  { rerank = false, combine, showBlocks, partitions, signal }: VerifyOptions,
): Promise<Verification> {
  if (combine !== undefined || showBlocks !== undefined)
    throw invalid('combine and showBlocks are for a group: { field, value }');
  const { session, candidates, choices } = searching;
  const { plan } = session.keyring;
  const scanOptions = { limit: plan.parameters.n, ...(signal ? { signal } : {}) };
  const scanning = session.read(async (view) => {
    const part = partWith(session, view, id);
    if (partitions && !isPartOf(inPartitions(session, view, partitions), part)) throw notFound(id);
    const [{ found }] = await scan(searching, view, [probe], scanOptions, part);
    return { view, found };
  });
  const { view, found } = await (rerank ? countUndecryptable(searching, scanning) : scanning);
  if (!isChosen(view, choices.of(view, undefined, Date.now()), id)) throw notFound(id);
  const compared = found.find((each) => each.id === id);
  if (!compared) throw new HersError('INTEGRITY', 'the store did not answer for this record');
  if (!rerank) return compared;
  const wanted = wantedOf(session, compared);
  const fetched = await candidates.fetch(view, [wanted], new ScoreCheck(probe), signal);
  const current = fetched.get(wanted.handle);
  if (!current) throw notFound(id);
  return { score: fullScore(plan, current.record.vector, probe), scoreOrigin: 'recomputed' };
}

async function verifyGroup(
  searching: Searching,
  { field, value, ...rest }: Group,
  probe: Float32Array,
  { rerank = false, combine = 'best', showBlocks = false, partitions, signal }: VerifyOptions,
): Promise<Verification> {
  refuseUnknown(rest, {}, 'a group');
  if (rerank) throw invalid('rerank compares with one record; a group has several');
  if (combine !== 'best' && combine !== 'mean') throw invalid('combine is best, the default, or mean');
  const { session, choices } = searching;
  const found = await session.read(async (view) => {
    checkGroupField(view, field, 'verify');
    const choice = choices.of(view, { must: { field, match: value } }, Date.now())!;
    const named = inPartitions(session, view, partitions);
    const limit = Math.max(1, chosenCount(view, choice, named));
    const blocks = named.blocks.filter((block) => choice.slots(block)!.some((word) => word !== 0));
    const part = showBlocks ? { ...named, blocks } : partitions && named;
    const [scanned] = await scan(searching, view, [probe], { limit, choice, ...(signal ? { signal } : {}) }, part);
    return scanned.found;
  });
  // Only now: the store must not learn whether there is such a group.
  if (found.length === 0)
    throw new HersError('NOT_FOUND', `there is no record whose field ${quoted(field)} is ${quoted(value)}`);
  const { scoreOrigin } = found.find((each) => each.scoreOrigin === 'noisy') ?? found[0];
  const mean = found.reduce((sum, { score }) => sum + score, 0) / found.length;
  return { score: combine === 'best' ? found[0].score : mean, scoreOrigin };
}

function partWith({ keyring }: CollectionSession, view: View, id: string): ScanPart {
  const place = view.locate(id);
  if (place === undefined) throw notFound(id);
  return place === 'pending'
    ? { blocks: [], pending: [view.pending.get(hex(keyring.records.handleOf(id)))!] }
    : { blocks: [place.block], pending: [] };
}

function isPartOf({ blocks, pending }: ScanPart, part: ScanPart): boolean {
  return (
    part.blocks.every((block) => blocks.includes(block)) && part.pending.every((record) => pending.includes(record))
  );
}

function notFound(id: string): HersError {
  return new HersError('NOT_FOUND', `there is no record ${JSON.stringify(id)}; list() yields the ids there are`);
}
