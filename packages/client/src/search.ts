// Searching: one encrypted query per vector and live epoch goes out; encrypted scores come back and are decrypted, on all cores, while others are still on their way.
// What is asked of the store does not depend on the answer. Fetching the best records afterwards does, and is therefore up to the caller.

import { checkVector, type Plan, peekResponse, plainScores } from '@hers/scheme';
import { encryptQuery, type QuerySecret } from '@hers/scheme/secret';
import { HersError } from '@hers/service';
import { fromHex, hex } from './bytes.ts';
import type { Wanted } from './candidates.ts';
import type { Changer } from './changes.ts';
import { type DecryptTask, toDistances } from './crew.ts';
import { liveCount, type ManifestBlock } from './manifest.ts';
import { type Candidate, type Order, Ranking } from './ranking.ts';
import { type Payload, payloadOf, type WaitingRecord } from './records.ts';
import { ScoreCheck } from './score-check.ts';
import type { Space } from './space.ts';
import type { View } from './view.ts';

export interface SearchOptions {
  /** How many matches at most; 10 by default. */
  readonly limit?: number;
  /** Similarities from here up, or distances up to here. */
  readonly threshold?: number;
  /**
   * Fetch this many candidates (true: four times the limit) from the vault and rank them by their full vectors, which with a compressor is the second stage of the
   * search. Off by default: it shows the store which records the candidates are. `threshold` is then about full vectors alone.
   */
  readonly rerank?: boolean | number;
  /**
   * With `rerank`, under `exact`: fetch in steps, best candidates first, and stop when as many records as the limit score this well by their full vectors. It shows the
   * store roughly how the candidates rank, and when the search was content.
   */
  readonly enough?: number;
  /** Fetch the payloads of the matches. Off by default, for the same reason. */
  readonly payload?: boolean;
  readonly signal?: AbortSignal;
}

export interface Match {
  readonly id: string;
  /** Similarity (cosine, dot) or distance (euclidean). */
  readonly score: number;
  /**
   * `noisy`: decrypted under `compact`; it must not reach anyone who sees ciphertexts. `exact`: decrypted under `exact`. `recomputed`: by the client from the
   * record's own vector.
   */
  readonly scoreOrigin: 'noisy' | 'exact' | 'recomputed';
  readonly payload?: Payload;
}

export interface SearchResult {
  /** Best first. */
  readonly matches: readonly Match[];
  /** Records that were compared, and records there are. */
  readonly coverage: { readonly searched: number; readonly total: number };
  /** Records that were fetched from the vault, which the store could see; 0 unless `rerank` or `payload` asked for it. */
  readonly fetched: number;
}

const DEFAULT_LIMIT = 10;
const MOST = 10_000;
/** Records in the first step of fetching when `enough` may end it; each step after it has twice as many. */
const FIRST_STEP = 16;
/** Responses collected before they are handed to the crew. */
const BATCH = 16;

/** An answer that could not be decrypted, for the reason that the error gives. */
class Undecryptable extends HersError {
  constructor(error: unknown) {
    const { code, message } =
      error instanceof HersError ? error : { code: 'INTEGRITY' as const, message: String(error) };
    super(code, message);
  }
}

/** A scan after which something would be fetched: that nothing is, because it could not be decrypted, is counted. */
export async function toFetch<T>(changer: Changer, scanning: Promise<T>): Promise<T> {
  try {
    return await scanning;
  } catch (error) {
    if (error instanceof Undecryptable && error.code === 'INTEGRITY') await changer.candidates.undecryptable();
    throw error;
  }
}

/** What is found for one vector: in blocks by number and slot, among waiting records by their position. */
interface Found {
  readonly candidates: Candidate[];
  readonly pending: readonly WaitingRecord[];
}

/** The number of the "block" that waiting records are in, for ranking. */
const WAITING = -1;

function checkOptions({ limit = DEFAULT_LIMIT, threshold, rerank = false, enough }: SearchOptions): void {
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= MOST))
    throw new HersError('INVALID_ARGUMENT', `limit is a whole number from 1 to ${MOST}`);
  if (threshold !== undefined && !Number.isFinite(threshold))
    throw new HersError('INVALID_ARGUMENT', 'threshold must be a number');
  if (enough === undefined) return;
  if (!Number.isFinite(enough)) throw new HersError('INVALID_ARGUMENT', 'enough must be a number');
  if (rerank === false)
    throw new HersError('INVALID_ARGUMENT', 'enough is about full vectors: it needs rerank, which fetches them');
}

/** How many candidates are fetched; none when nothing asked for it. */
function fetched(changer: Changer, options: SearchOptions): number {
  const { limit = DEFAULT_LIMIT, rerank = false, payload = false } = options;
  if (rerank === false && !payload) return 0;
  if (changer.keyring.descriptor.enrolment !== 'vault') throw needsVault(rerank === false ? 'payloads' : 're-ranking');
  const wanted = rerank === false ? limit : rerank === true ? 4 * limit : rerank;
  if (!(Number.isInteger(wanted) && wanted >= 1))
    throw new HersError('INVALID_ARGUMENT', 'rerank is true, or how many candidates to fetch');
  const exact = changer.keyring.plan.profile === 'exact';
  if (options.enough !== undefined && !exact)
    throw new HersError(
      'INVALID_ARGUMENT',
      'enough needs the profile exact: under compact, where fetching stops depends on noise that depends on the key',
    );
  // Which records are fetched under `compact` depends on noise that depends on the key: so there are never many (README.md).
  const most = exact ? MOST : stepOf(changer);
  if (limit > most || (rerank !== true && wanted > most))
    throw new HersError(
      'INVALID_ARGUMENT',
      `at most ${most} records can be fetched for one search of this collection; lower ${limit > most ? 'the limit' : 'rerank'}${most < MOST ? `, or use the profile exact, where it is ${MOST}` : ''}`,
    );
  return Math.min(Math.max(wanted, limit), most);
}

/** Records fetched at once: against a store that cheats every fetch is an answer to a question it chose, so each step is checked before the next. */
const stepOf = (changer: Changer) => changer.keyring.plan.parameters.n / 16;

export function needsVault(what: string): HersError {
  return new HersError(
    'NEEDS_VAULT',
    `${what} needs the vault, and this collection enrols homomorphically, without one`,
  );
}

export const orderOf = (changer: Changer): Order =>
  changer.keyring.plan.metric === 'euclidean' ? 'ascending' : 'descending';

export async function search(
  changer: Changer,
  vectors: readonly ArrayLike<number>[],
  options: SearchOptions,
): Promise<SearchResult[]> {
  checkOptions(options);
  const fetch = fetched(changer, options);
  const probes = vectors.map((vector, i) =>
    checkVector(changer.keyring.plan, vector, 'query', vectors.length > 1 ? `vector ${i}` : 'the vector'),
  );
  const limit = Math.max(options.limit ?? DEFAULT_LIMIT, fetch);
  // A short or noisy score may be on the other side of the threshold than the full one.
  const { threshold: _, ...anyScore } = options;
  const scanning = scan(changer, probes, { ...(options.rerank ? anyScore : options), limit });
  const { view, found } = await (fetch > 0 ? toFetch(changer, scanning) : scanning);
  // From here on the store is shown what was found, and nothing is scanned again in this call.
  const total = liveCount(view.manifest);
  const results: SearchResult[] = [];
  for (let i = 0; i < probes.length; i++) {
    const answer =
      fetch > 0
        ? await fetchMatches(changer, view, probes[i], found[i], options)
        : { matches: plainMatches(changer, view, found[i]), fetched: 0 };
    results.push({ ...answer, coverage: { searched: total, total } });
  }
  return results;
}

/**
 * Asks the store, as often as it takes to be at the same version. `blocks` are all unless given. Repeating tells the store nothing: every query is encrypted anew, and whether
 * it is repeated depends on versions alone.
 */
export async function scan(
  changer: Changer,
  probes: readonly Float32Array[],
  options: SearchOptions & { readonly limit: number },
  only?: (view: View) => { readonly blocks: readonly ManifestBlock[]; readonly pending: readonly WaitingRecord[] },
): Promise<{ view: View; found: Found[] }> {
  return changer.steady(async (view) => {
    const { blocks, pending } = only?.(view) ?? { blocks: view.manifest.blocks, pending: [...view.pending.values()] };
    const candidates = await scanBlocks(changer, view, probes, blocks, only !== undefined, options);
    const found: Found[] = [];
    for (let i = 0; i < probes.length; i++)
      found.push(await withPending(changer, view, probes[i], candidates[i], pending, options));
    return { view, found };
  });
}

/** Ranks waiting records, which only the client can read, together with what was found in blocks. */
async function withPending(
  changer: Changer,
  { space }: View,
  probe: Float32Array,
  candidates: Candidate[],
  pending: readonly WaitingRecord[],
  { limit, threshold }: SearchOptions & { readonly limit: number },
): Promise<Found> {
  if (pending.length === 0) return { candidates, pending };
  const { plan } = space;
  const scores = plainScores(plan, await space.projectRecords(pending), await space.project(probe));
  if (plan.metric === 'euclidean') toDistances(scores);
  const ranking = new Ranking(limit, orderOf(changer), threshold);
  for (const { block, slot, score } of candidates) ranking.offer(block, slot, [score]);
  ranking.offer(WAITING, 0, scores);
  return { candidates: ranking.best(), pending };
}

async function scanBlocks(
  changer: Changer,
  view: View,
  probes: readonly Float32Array[],
  blocks: readonly ManifestBlock[],
  some: boolean,
  { limit, threshold, signal }: SearchOptions & { readonly limit: number },
): Promise<Candidate[][]> {
  const { service, name } = changer;
  const numbers = new Map(blocks.map((block, number) => [block.id, number]));
  const spaces = [...new Set(blocks.map((block) => block.epoch))].map((epoch) => view.spaces.get(epoch)!);
  const queries: { probe: number; space: Space; vector: Float32Array; query: Uint8Array; secret: QuerySecret }[] = [];
  for (const space of spaces)
    for (let i = 0; i < probes.length; i++) {
      const vector = await space.project(probes[i]);
      queries.push({ probe: i, space, vector, ...encryptQuery(space.key(), vector) });
    }
  // With no blocks there is nothing to ask, but an empty search still tells whether the version is current.
  const byId = new Map(
    queries.map((query) => [
      hex(query.secret.queryId),
      { ...query, missing: new Set(blocks.filter((b) => b.epoch === query.space.epoch).map((b) => b.id)) },
    ]),
  );
  // The plan decides how to decrypt, not the epoch: one crew serves all spaces of one dimension. What scores add up to is up to the epoch.
  const isAlike = (space: Space) =>
    space.plan.profile !== 'exact' && space.plan.dimension === view.space.plan.dimension;
  const crewOf = (space: Space) => (isAlike(space) ? view.space : space).crew();
  const options = { limit, order: orderOf(changer), ...(threshold === undefined ? {} : { threshold }) };
  const parts: { probe: number; best: Promise<Candidate[]> }[] = [];
  const waiting = new Map<string, DecryptTask[]>();
  const flush = (id: string, tasks: DecryptTask[]) => {
    waiting.delete(id);
    const { probe, space, vector, secret } = byId.get(id)!;
    const best = crewOf(space).then((crew) => crew.decrypt(secret, tasks, { ...options, query: vector }));
    best.catch(() => {}); // reported below, with the others
    parts.push({ probe, best });
  };
  try {
    const request = {
      version: view.manifest.version,
      queries: queries.map((q) => q.query),
      ...(some ? { blocks: blocks.map((b) => fromHex(b.id)) } : {}),
    };
    for await (const response of service.search(name, request, signal ? { signal } : {})) {
      const { queryId, blockId, first, count } = peekResponse(response);
      const id = hex(queryId);
      const query = byId.get(id);
      const number = numbers.get(hex(blockId));
      if (!query || number === undefined)
        throw new HersError('INTEGRITY', 'the store answered for a block or a query that is not part of this search');
      const block = blocks[number];
      if (!query.missing.delete(block.id)) throw new HersError('INTEGRITY', 'the store answered twice for one block');
      if (first !== 0 || count !== block.count)
        throw new HersError(
          'INTEGRITY',
          'the store answered for a block with another number of records than the manifest names',
        );
      const tasks = waiting.get(id) ?? [];
      tasks.push({ response, block: number, dead: block.dead, sums: view.scoreSums.get(block.id) });
      waiting.set(id, tasks);
      if (tasks.length === BATCH) flush(id, tasks);
    }
    for (const [id, tasks] of [...waiting]) flush(id, tasks);
    for (const { missing } of byId.values())
      if (missing.size > 0)
        throw new HersError('INTEGRITY', `the store left out ${missing.size} of ${blocks.length} blocks`);
    const rankings = probes.map(() => new Ranking(limit, options.order));
    for (const { probe, best } of parts) {
      const candidates = await best.catch((error) => Promise.reject(new Undecryptable(error)));
      for (const { block, slot, score } of candidates) rankings[probe].offer(block, slot, [score]);
    }
    return rankings.map((ranking) => ranking.best());
  } finally {
    await Promise.allSettled(parts.map((part) => part.best));
    for (const { secret } of queries) secret.wipe();
  }
}

function describe(
  view: View,
  { block, slot }: Candidate,
  pending: readonly WaitingRecord[],
): { id: string; version: string } {
  return block === WAITING ? pending[slot] : view.entries.get(view.manifest.blocks[block].id)![slot];
}

function originOf(changer: Changer, { block }: Candidate): Match['scoreOrigin'] {
  if (changer.keyring.plan.profile === 'exact') return 'exact';
  return block === WAITING ? 'recomputed' : 'noisy';
}

function plainMatches(changer: Changer, view: View, { candidates, pending }: Found): Match[] {
  return candidates.map((candidate) => ({
    id: describe(view, candidate, pending).id,
    score: candidate.score,
    scoreOrigin: originOf(changer, candidate),
  }));
}

/** What is asked for at a time. The order of handles says nothing; only where fetching may stop in between do the steps follow the ranking. */
function* stepsOf(wanted: readonly Wanted[], size: number, mayStop: boolean): Generator<Wanted[]> {
  const byHandle = (a: Wanted, b: Wanted) => (a.handle < b.handle ? -1 : a.handle > b.handle ? 1 : 0);
  const all = mayStop ? wanted : wanted.toSorted(byHandle);
  let step = mayStop ? Math.min(FIRST_STEP, size) : size;
  for (let at = 0; at < all.length; at += step, step = Math.min(2 * step, size))
    yield all.slice(at, at + step).sort(byHandle);
}

/**
 * Fetches candidates, and stops with INTEGRITY when one does not have the score that was decrypted for it: either the store mixed something up, or it is using searches to find out
 * what ciphertexts decrypt to. Each step is checked before the next is asked for.
 */
async function fetchMatches(
  changer: Changer,
  view: View,
  probe: Float32Array,
  { candidates, pending }: Found,
  options: SearchOptions,
): Promise<{ matches: Match[]; fetched: number }> {
  const { plan, records } = changer.keyring;
  const { limit = DEFAULT_LIMIT, rerank = false, payload = false, enough, threshold } = options;
  const sign = orderOf(changer) === 'descending' ? -1 : 1;
  const reaches = (bound: number) => (match: Match) => sign * match.score <= sign * bound;
  const chosen = rerank === false ? candidates.slice(0, limit) : candidates;
  const check = new ScoreCheck(probe);
  const matches: Match[] = [];
  const away: Wanted[] = [];
  const ranks = new Map<string, number>();
  for (const [rank, candidate] of chosen.entries()) {
    const { id, version } = describe(view, candidate, pending);
    const isWaiting = candidate.block === WAITING;
    // The vectors of waiting records are here already.
    if (isWaiting && !payload) {
      const score = fullScore(plan, pending[candidate.slot].vector, probe);
      matches[rank] = { id, score, scoreOrigin: 'recomputed' };
      continue;
    }
    const handle = hex(records.handleOf(id));
    const decrypted = isWaiting ? {} : { slot: candidate.slot, decrypted: candidate.score };
    ranks.set(handle, rank);
    away.push({ id, version, handle, space: spaceOf(view, candidate), ...decrypted });
  }
  let fetched = 0;
  const isContent = () => enough !== undefined && matches.filter(reaches(enough)).length >= limit;
  for (const step of stepsOf(away, stepOf(changer), enough !== undefined)) {
    if (isContent()) break;
    for (const [handle, { record, isReplaced }] of await changer.candidates.fetch(view, step, check, options.signal)) {
      const rank = ranks.get(handle)!;
      const isFull = rerank !== false || isReplaced;
      const scored = isFull
        ? { score: fullScore(plan, record.vector, probe), scoreOrigin: 'recomputed' as const }
        : { score: chosen[rank].score, scoreOrigin: originOf(changer, chosen[rank]) };
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

/** The space in which a candidate was compared. */
function spaceOf(view: View, { block }: Candidate): Space {
  return block === WAITING ? view.space : view.spaces.get(view.manifest.blocks[block].epoch)!;
}

/** The score of full vectors, whatever is indexed of them. */
export function fullScore(plan: Plan, vector: Float32Array, probe: Float32Array): number {
  const [score] = plainScores({ ...plan, profile: 'compact' }, vector, probe);
  return plan.metric === 'euclidean' ? Math.sqrt(Math.max(0, score)) : score;
}
