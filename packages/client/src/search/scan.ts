// One scan of a view: an encrypted query for each vector and each space goes out, and encrypted
// scores come back. They are decrypted on all cores while others are still on their way, and ranked
// together with the pending records. What is asked of the store does not depend on the answer.
//
// A scan never retries: the session does, with a newer view. That tells the store nothing, because
// every query is encrypted again, and whether there is a retry depends on versions alone.

import { type Plan, peekAnyResponse, plainScores } from '@hers/scheme';
import { freeBytes, groupsOf, HersError, type ShardCoverage } from '@hers/service';
import { fromHex, nameOf } from '../bytes.ts';
import { openRanking } from '../crew/accelerator.ts';
import { type DecryptTask, toDistances } from '../crew/crew.ts';
import { type Candidate, GroupedRanking, type Order, Ranking } from '../crew/ranking.ts';
import type { ManifestBlock } from '../formats/manifest.ts';
import type { PendingRecord } from '../formats/records.ts';
import type { Space } from '../keys/space.ts';
import type { CollectionSession } from '../session/session.ts';
import type { View } from '../session/view.ts';
import type { Candidates } from './candidates.ts';
import type { Choice, Choices } from './choice.ts';
import { deviceGrouping, keepOnDevice } from './kept.ts';
import { open } from './open.ts';
import {
  bySpace,
  type MakeQueries,
  type Queries,
  type Query,
  queriesFor,
  type Strategy,
  sealed,
  wipe,
} from './queries.ts';

/** A collection that is open, as searches take it. */
export interface Searching {
  readonly session: CollectionSession;
  readonly candidates: Candidates;
  readonly choices: Choices;
}

export interface ScanOptions {
  readonly limit: number;
  /** Which records count; all by default. */
  readonly choice?: Choice | undefined;
  /** The field of which only the best of each value counts. */
  readonly groupBy?: string | undefined;
  readonly threshold?: number;
  readonly signal?: AbortSignal;
  /** Blocks that the store cannot answer for are left out. */
  readonly partial?: boolean;
}

export interface ScanPart {
  readonly blocks: readonly ManifestBlock[];
  readonly pending: readonly PendingRecord[];
}

/** Where a score comes from; `Match` says what follows from it. */
export type ScoreOrigin = 'noisy' | 'exact' | 'recomputed';

export interface Found {
  readonly id: string;
  readonly version: string;
  readonly score: number;
  readonly scoreOrigin: ScoreOrigin;
  readonly space: Space;
  /** Its block; undefined if it is pending. */
  readonly block?: string;
  /** Its number among the records of its block; undefined if it is pending. */
  readonly slot?: number;
  /** The record, if it is pending: then it was compared here, and nothing was decrypted for it. */
  readonly pending?: PendingRecord;
}

/** What was found for one vector, best first, and how many records it was compared with. */
export interface Scanned {
  readonly found: readonly Found[];
  readonly searched: number;
  readonly shards?: ShardCoverage | undefined;
}

/** Responses collected before they are handed to the crew: each time, a thread must be woken. */
const BATCH = 64;
/** The last ones are shared between two threads, unless they are fewer than this. */
const SHARED = 16;

/** An answer that could not be decrypted, for the reason that the error gives. */
export class Undecryptable extends HersError {
  constructor(error: unknown) {
    const { code, message } =
      error instanceof HersError ? error : { code: 'INTEGRITY' as const, message: String(error) };
    super(code, message);
  }
}

export const orderOf = ({ metric }: Plan): Order => (metric === 'euclidean' ? 'ascending' : 'descending');

const strategyOf = ({ profile }: Plan): Strategy => (profile === 'open' ? open : sealed);

/** Compares each probe with all records of the view, or with those of one part of it. */
export async function scan(
  searching: Searching,
  view: View,
  probes: readonly Float32Array[],
  options: ScanOptions,
  part?: ScanPart,
): Promise<Scanned[]> {
  const strategy = strategyOf(searching.session.keyring.plan);
  return scanWith(searching, view, queriesFor(strategy, probes), options, part);
}

/** Compares what these queries are for with all records of the view, or with those of a part. */
export async function scanWith(
  { session, candidates }: Searching,
  view: View,
  make: MakeQueries,
  options: ScanOptions,
  part?: ScanPart,
): Promise<Scanned[]> {
  const { blocks, pending } = part ?? { blocks: view.manifest.blocks, pending: [...view.pending.values()] };
  // A client that is limited to partitions has to name their blocks.
  const isPart = part !== undefined || session.reader.partitions !== undefined;
  // Before a query is sent: the time after the answers does not depend on a filter.
  const chosen = pending.filter((record) => options.choice?.isPending(record) ?? true);
  const { plan } = session.keyring;
  const strategy = strategyOf(plan);
  await strategy.begin?.(candidates);
  const queries = await make(view, bySpace(view, blocks));
  const inBlocks = await scanBlocks(session, view, queries, blocks, isPart, options).catch(async (error) => {
    if (error instanceof Undecryptable && error.code === 'INTEGRITY') await strategy.tampered?.(candidates);
    throw error;
  });
  const all: Scanned[] = [];
  const groupOf = ({ block, slot }: Candidate) =>
    block === blocks.length
      ? chosen[slot].values.get(options.groupBy!)
      : view.columns.get(blocks[block].id)!.get(options.groupBy!)!.value(slot);
  for (const [i, { candidates, searched, shards }] of inBlocks.entries()) {
    const isGrouped = options.groupBy !== undefined;
    const ranking = new Ranking(isGrouped ? chosen.length : options.limit, orderOf(plan), options.threshold);
    if (!isGrouped) ranking.merge(candidates);
    // Pending records, which only the client can read, count as one more block.
    const indexed = pending.length > 0 ? await queries.indexed(i) : undefined;
    if (chosen.length > 0 && indexed) ranking.offer(blocks.length, 0, await scoresOf(view.space, chosen, indexed));
    const groups = new GroupedRanking(options.limit, orderOf(plan));
    if (isGrouped) for (const each of [...candidates, ...ranking.best()]) groups.offer(each, groupOf(each));
    const found = (isGrouped ? groups : ranking).best().map((candidate) => {
      const isPending = candidate.block === blocks.length;
      return isPending
        ? foundPending(plan, view, chosen[candidate.slot], candidate)
        : foundInBlock(plan, view, blocks[candidate.block], candidate);
    });
    all.push({ found, searched: searched + (indexed ? pending.length : 0), shards });
  }
  return all;
}

async function scoresOf(space: Space, pending: readonly PendingRecord[], indexed: Float32Array) {
  const { plan } = space;
  const scores = plainScores(plan, await space.projectRecords(pending), indexed);
  if (plan.metric === 'euclidean') toDistances(scores);
  return scores;
}

function foundPending({ profile }: Plan, view: View, pending: PendingRecord, { score }: Candidate): Found {
  const { id, version } = pending;
  return { id, version, score, scoreOrigin: profile === 'exact' ? 'exact' : 'recomputed', space: view.space, pending };
}

function foundInBlock({ profile }: Plan, view: View, block: ManifestBlock, { slot, score }: Candidate): Found {
  const list = view.entries.get(block.id)!;
  const [id, version] = [list.id(slot), list.version(slot)];
  return {
    id,
    version,
    score,
    scoreOrigin: profile === 'exact' ? 'exact' : 'noisy',
    space: view.spaceOf(block),
    block: block.id,
    slot,
  };
}

/** Collects what comes for one query. */
interface Progress {
  readonly query: Query;
  /** Blocks that have not been answered for, since the first answer. */
  missing: Missing | undefined;
  /** Responses that the crew has not been given yet, and memory for them. */
  readonly tasks: DecryptTask[];
  readonly gathered: Gathered;
}

/** For the responses of one batch: 64 of most profiles fit. A store may send larger ones. */
const MEMORY_BYTES = 2 ** 20;
/** Memory that is kept for the responses of other searches. */
const spares: ArrayBuffer[] = [];
const MOST_SPARES = 8;

/** Copies of some responses: those that a store hands over are gone when the next one is here. */
class Gathered {
  #memory: ArrayBuffer | undefined;
  #used = 0;

  add(response: Uint8Array): Uint8Array {
    const { length } = response;
    if (!this.#memory || this.#used + length > this.#memory.byteLength) {
      this.#memory = (length <= MEMORY_BYTES && spares.pop()) || new ArrayBuffer(Math.max(MEMORY_BYTES, length));
      this.#used = 0;
    }
    const copy = new Uint8Array(this.#memory, this.#used, length);
    copy.set(response);
    this.#used += length;
    return copy;
  }

  /** Nothing more is added to it. When nobody needs it any more, its memory is used again. */
  take(): { release(): void } {
    const memory = this.#memory;
    this.#memory = undefined;
    return {
      release() {
        if (memory?.byteLength === MEMORY_BYTES && spares.length < MOST_SPARES) spares.push(memory);
      },
    };
  }
}

/**
 * Does once what the first search would do: derives keys, starts the crew and encrypts a query,
 * which nobody gets. Asks the store for nothing but the view.
 */
export async function prepare(session: CollectionSession): Promise<void> {
  const view = await session.view();
  for (const { space } of bySpace(view, view.manifest.blocks)) {
    const starting = openRanking && space.device() ? undefined : space.crew();
    starting?.catch(() => {}); // reported below, unless something else fails first
    const { dimension, normBound } = space.plan;
    const vector = new Float32Array(dimension).fill(normBound / dimension);
    wipe(strategyOf(space.plan).encrypt(view, space, vector).secret);
    await starting;
  }
}

/** Blocks that are still to be answered for, by number. */
class Missing {
  readonly #isMissing: Uint8Array;
  count: number;

  constructor(numbers: readonly number[], blocks: number) {
    this.#isMissing = new Uint8Array(blocks);
    for (const number of numbers) this.#isMissing[number] = 1;
    this.count = numbers.length;
  }

  /** Returns whether it was missing until now. */
  answered(number: number): boolean {
    if (this.#isMissing[number] !== 1) return false;
    this.#isMissing[number] = 0;
    this.count--;
    return true;
  }
}

/** By the blocks of a search: the number of each, by the name of its id. */
const numbered = new WeakMap<readonly ManifestBlock[], ReadonlyMap<string, number>>();

function numbersOf(blocks: readonly ManifestBlock[]): ReadonlyMap<string, number> {
  let numbers = numbered.get(blocks);
  if (!numbers) {
    numbers = new Map(blocks.map(({ id }, number) => [nameOf(fromHex(id)), number]));
    numbered.set(blocks, numbers);
  }
  return numbers;
}

/** A block that a response is for, by number, and its place in a packed response. */
interface Answered {
  readonly number: number;
  readonly place: number;
}

/**
 * Which query and which blocks a response is for; INTEGRITY unless they are expected, and it is the
 * first. Where a connection broke, blocks may come in packed responses together with others that
 * were answered before: these are left out, so that none is ever decrypted twice.
 */
function expectedBy(
  asked: ReadonlyMap<string, Progress>,
  numbers: ReadonlyMap<string, number>,
  blocks: readonly ManifestBlock[],
  response: Uint8Array,
): { readonly progress: Progress; readonly answered: readonly Answered[] } {
  const { queryId, blocks: named } = peekAnyResponse(response);
  const progress = asked.get(nameOf(queryId));
  if (!progress) throw notAsked();
  const { of } = progress.query;
  const missing = (progress.missing ??= new Missing(of.numbers, blocks.length));
  const answered: Answered[] = [];
  for (let place = 0; place < named.length; place++) {
    const { blockId, first, count } = named[place];
    const number = numbers.get(nameOf(blockId));
    // A block of another space is no part of what this query asks for.
    if (number === undefined || blocks[number].epoch !== of.space.epoch) throw notAsked();
    const block = blocks[number];
    if (first !== 0 || count !== of.canariesOf(block).slots)
      throw new HersError(
        'INTEGRITY',
        'the store answered for a block with another number of records than the manifest names',
      );
    if (missing.answered(number)) answered.push({ number, place });
  }
  if (answered.length === 0) throw answeredTwice();
  return { progress, answered };
}

const notAsked = () =>
  new HersError('INTEGRITY', 'the store answered for a block or a query that is not part of this search');

const answeredTwice = () => new HersError('INTEGRITY', 'the store answered twice for one block');

/** Whether shards are missing of a search that may miss some. */
const isExcused = (shards: ShardCoverage | undefined) => shards !== undefined && shards.failed + shards.timedOut > 0;

/** How long a thread evaluates ahead before it does other things. */
const AHEAD_MS = 2;

/**
 * Evaluates a choice while the store works: as long as no answer is here, one block after the
 * other, and at the latest when the answer for a block is.
 */
class ChosenSlots {
  readonly #choice: Choice;
  readonly #blocks: readonly ManifestBlock[];
  readonly #known = new Map<number, Uint32Array | undefined>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #next = 0;

  constructor(choice: Choice, blocks: readonly ManifestBlock[]) {
    this.#choice = choice;
    this.#blocks = blocks;
  }

  of(number: number): Uint32Array | undefined {
    if (!this.#known.has(number)) this.#known.set(number, this.#choice.slots(this.#blocks[number]));
    return this.#known.get(number);
  }

  /** Begins once the request that is being made has been sent. */
  evaluateAhead(): void {
    this.#timer = setTimeout(() => {
      const end = performance.now() + AHEAD_MS;
      try {
        while (this.#next < this.#blocks.length && performance.now() < end) this.of(this.#next++);
      } catch {
        return; // It fails again when the answer for that block is here, and is reported then.
      }
      if (this.#next < this.#blocks.length) this.evaluateAhead();
    });
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

async function scanBlocks(
  { service, name }: CollectionSession,
  view: View,
  queries: Queries,
  blocks: readonly ManifestBlock[],
  isPart: boolean,
  { limit, threshold, choice, groupBy, signal, partial }: ScanOptions,
): Promise<
  { readonly candidates: Candidate[]; readonly searched: number; readonly shards: ShardCoverage | undefined }[]
> {
  const chosen = choice && new ChosenSlots(choice, blocks);
  const slotsOf = chosen && ((number: number) => chosen.of(number));
  const codesOf = (number: number) => view.columns.get(blocks[number].id)!.get(groupBy!)!.codes;
  const progress = queries.all.map(
    (query): Progress => ({ query, missing: undefined, tasks: [], gathered: new Gathered() }),
  );
  const byId = new Map(progress.map((each) => [nameOf(each.query.queryId), each]));
  const options = { limit, order: orderOf(view.space.plan), ...(threshold === undefined ? {} : { threshold }) };
  const decrypted: { readonly probe: number; readonly records: number; readonly best: Promise<Candidate[]> }[] = [];
  const decrypt = async ({ query: { probe, of, vector, secret }, tasks, gathered }: Progress, parts = 1) => {
    const all = tasks.splice(0);
    const { release } = gathered.take();
    const crew = await of.space.crew();
    const size = Math.ceil(all.length / parts);
    const ranked = Array.from({ length: parts }, (_, i) => {
      const batch = all.slice(i * size, (i + 1) * size);
      const records = batch.reduce((sum, { block, dead }) => sum + blocks[block].count - dead.length, 0);
      const best = crew.decrypt(secret!, batch, { ...options, query: vector });
      decrypted.push({ probe, records, best });
      return best;
    });
    void Promise.allSettled(ranked).then(release); // what fails is reported below, with the others
  };
  const keep = () =>
    keepOnDevice(queries.all, {
      ...{ slotsOf, options },
      grouping: groupBy === undefined ? undefined : deviceGrouping(view, blocks, groupBy),
      claim({ queryId }) {
        const answered = byId.get(nameOf(queryId))!;
        if (answered.missing) throw answeredTwice();
        answered.missing = new Missing([], 0);
      },
      ranks: ({ probe, of }, best) => decrypted.push({ probe, records: of.records, best }),
    });
  try {
    // With no blocks there is nothing to ask, but an empty search still tells whether the version
    // is current.
    const request = {
      version: view.manifest.version,
      ...queries.request,
      ...(isPart ? { blocks: blocks.map((block) => fromHex(block.id)) } : {}),
      ...(partial ? { partial } : {}),
    };
    let shards: ShardCoverage | undefined;
    const onCoverage = (coverage: ShardCoverage) => {
      shards = coverage;
    };
    const kept = openRanking && !isPart ? keep() : undefined;
    const calling = {
      ...(signal ? { signal } : {}),
      ...(kept ? { keep: kept } : {}),
      ...(partial ? { onCoverage } : {}),
      views: 'passing' as const,
    };
    // Starts threads while the store works. If that fails, so does decrypting.
    if (!kept) for (const { of } of queries.all) of.space.crew().catch(() => {});
    chosen?.evaluateAhead();
    for await (const responses of groupsOf(service.search(name, request, calling)))
      for (const response of responses) {
        const { progress, answered } = expectedBy(byId, numbersOf(blocks), blocks, response);
        const { query, tasks, gathered } = progress;
        if (!query.secret) continue;
        const copy = gathered.add(response);
        for (const { number, place } of answered) {
          const { id, dead } = blocks[number];
          const canaries = query.of.canariesOf(blocks[number]);
          const groups = groupBy === undefined ? undefined : codesOf(number);
          const sums = view.scoreSums.get(id);
          const slots = slotsOf?.(number);
          tasks.push({ response: copy, place, block: number, canaries, dead, slots, groups, sums });
        }
        if (tasks.length >= BATCH) await decrypt(progress);
      }
    // All is answered, and a query is large: it would wait for the engine to look through its heap.
    // (Of a partial search, a store may still be asking shards that were too late.)
    if (!partial) for (const query of request.queries) freeBytes(query);
    for (const each of progress) if (each.tasks.length > 0) await decrypt(each, each.tasks.length < SHARED ? 1 : 2);
    for (const { missing, query } of progress) {
      const count = missing?.count ?? query.of.numbers.length;
      if (count > 0 && !isExcused(shards))
        throw new HersError('INTEGRITY', `the store left out ${count} of ${blocks.length} blocks`);
    }
    const results = Array.from({ length: queries.probes }, () => ({
      ...{ ranking: new Ranking(limit, options.order), grouped: [] as Candidate[], searched: 0 },
    }));
    for (const { probe, records, best } of decrypted) {
      const candidates = await best.catch((error) => Promise.reject(new Undecryptable(error)));
      const result = results[probe];
      if (groupBy === undefined) result.ranking.merge(candidates);
      else for (const each of candidates) result.grouped.push(each);
      result.searched += records;
    }
    return results.map(({ ranking, grouped, searched }) => ({
      candidates: groupBy === undefined ? ranking.best() : grouped,
      searched,
      shards,
    }));
  } finally {
    chosen?.stop();
    await Promise.allSettled(decrypted.map(({ best }) => best));
    for (const { secret } of queries.all) wipe(secret);
  }
}
