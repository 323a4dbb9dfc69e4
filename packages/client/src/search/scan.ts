// One scan of a view: an encrypted query for each vector and each space goes out, and encrypted
// scores come back. They are decrypted on all cores while others are still on their way, and ranked
// together with the pending records. What is asked of the store does not depend on the answer.
//
// A scan never retries: the session does, with a newer view. That tells the store nothing, because
// every query is encrypted again, and whether there is a retry depends on versions alone.

import { type Plan, peekQuery, plainScores } from '@hers/scheme';
import { type OpenPlan, peekAnyResponse } from '@hers/scheme/open';
import { encryptQuery, QuerySecret } from '@hers/scheme/secret';
import { encryptShortQuery, makeDeviceKey } from '@hers/scheme/secret/open';
import { freeBytes, groupsOf, HersError, type KeptResponses, type ShardCoverage } from '@hers/service';
import { fromHex, nameOf } from '../bytes.ts';
import { type Decryption, type DecryptTask, toDistances } from '../crew/crew.ts';
import type { ManifestBlock } from '../formats/manifest.ts';
import type { PendingRecord } from '../formats/records.ts';
import { deviceLists, evaluationLists, evaluationOf, OWN_DEVICE } from '../session/draft.ts';
import type { CollectionSession } from '../session/session.ts';
import type { Space } from '../session/space.ts';
import type { View } from '../session/view.ts';
import type { DeviceBlocks } from './accelerator.ts';
import type { Choice } from './choice.ts';
import { type Candidate, GroupedRanking, type Order, Ranking } from './ranking.ts';

/** A question of a device, which lies in the inbox of the store; its vector is the probe. */
export interface Asked {
  /** Its number there. */
  readonly number: number;
  /** Of the space that it was made for. */
  readonly epoch: number;
  readonly queryId: Uint8Array;
  readonly generation: number;
  /** The number of the secret that it is under. */
  readonly device: number;
  /**
   * Scanned as others are, so that the store sees no difference, but what comes back is not
   * decrypted.
   */
  readonly isIgnored: boolean;
}

export interface ScanOptions {
  /** For every probe, in place of a query of our own. The probes are then as they are indexed. */
  readonly asked?: readonly Asked[] | undefined;
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

/** Compares each probe with all records of the view, or with those of one part of it. */
export async function scan(
  session: CollectionSession,
  view: View,
  probes: readonly Float32Array[],
  options: ScanOptions,
  part?: ScanPart,
): Promise<Scanned[]> {
  const { blocks, pending } = part ?? { blocks: view.manifest.blocks, pending: [...view.pending.values()] };
  // Who is limited to partitions has to name their blocks.
  const isPart = part !== undefined || session.reader.partitions !== undefined;
  // Before a query is sent: the time after the answers does not depend on a filter.
  const chosen = pending.filter((record) => options.choice?.isPending(record) ?? true);
  const isOpen = session.keyring.plan.profile === 'open';
  if (isOpen) await session.candidates.checkSearching();
  const inBlocks = await scanBlocks(session, view, probes, blocks, isPart, options).catch(async (error) => {
    if (isOpen && error instanceof Undecryptable && error.code === 'INTEGRITY')
      await session.candidates.stopSearching();
    throw error;
  });
  const { plan } = session.keyring;
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
    const compared = canCompare(view.space, options.asked?.[i]) ? pending.length : 0;
    if (chosen.length > 0 && compared > 0)
      ranking.offer(blocks.length, 0, await scoresOf(view.space, chosen, probes[i], options.asked !== undefined));
    const groups = new GroupedRanking(options.limit, orderOf(plan));
    if (isGrouped) for (const each of [...candidates, ...ranking.best()]) groups.offer(each, groupOf(each));
    const found = (isGrouped ? groups : ranking).best().map((candidate) => {
      const isPending = candidate.block === blocks.length;
      return isPending
        ? foundPending(plan, view, chosen[candidate.slot], candidate)
        : foundInBlock(plan, view, blocks[candidate.block], candidate);
    });
    all.push({ found, searched: searched + compared, shards });
  }
  return all;
}

/** Whether a probe can be compared with the pending records of a space: questions are projected. */
function canCompare(space: Space, asked: Asked | undefined): boolean {
  return !asked || (!asked.isIgnored && (asked.epoch === space.epoch || !space.compression));
}

async function scoresOf(space: Space, pending: readonly PendingRecord[], probe: Float32Array, isIndexed: boolean) {
  const { plan } = space;
  const indexed = isIndexed ? probe : await space.project(probe);
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

interface SpaceBlocks extends DeviceBlocks {
  readonly space: Space;
  readonly records: number;
}

/** By the blocks of a search: of a view, or of a part of one. */
const sorted = new WeakMap<readonly ManifestBlock[], readonly SpaceBlocks[]>();

/** The same objects for the same array: of many blocks, making them takes longer than a search. */
function bySpace(view: View, blocks: readonly ManifestBlock[]): readonly SpaceBlocks[] {
  let all = sorted.get(blocks);
  if (!all) {
    const numbers = new Map<Space, number[]>();
    for (const [number, block] of blocks.entries()) {
      const space = view.spaceOf(block);
      const own = numbers.get(space);
      if (own) own.push(number);
      else numbers.set(space, [number]);
    }
    all = [...numbers].map(([space, own]) => {
      const ownBlocks = own.map((number) => blocks[number]);
      const records = ownBlocks.reduce((sum, { count, dead }) => sum + count - dead.length, 0);
      return {
        ...{ space, numbers: own, blocks: ownBlocks, records },
        canariesOf: (block) => space.canariesOf(block),
        sumsOf: ({ id }) => view.scoreSums.get(id),
      };
    });
    sorted.set(blocks, all);
  }
  return all;
}

interface Query {
  readonly probe: number;
  readonly of: SpaceBlocks;
  readonly space: Space;
  readonly vector: Float32Array;
  /** What is sent: the query, or the number of a question in the inbox. */
  readonly encrypted: Uint8Array | number;
  /** The number of the secret that it is under. */
  readonly device: number;
  readonly isIgnored: boolean;
  readonly secret: Decryption;
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

async function encryptQueries(
  view: View,
  probes: readonly Float32Array[],
  blocks: readonly ManifestBlock[],
  asked?: readonly Asked[],
): Promise<Query[]> {
  const queries: Query[] = [];
  for (const of of bySpace(view, blocks)) {
    const { space } = of;
    const add = (query: Pick<Query, 'probe' | 'vector' | 'encrypted' | 'device' | 'isIgnored' | 'secret'>) =>
      queries.push({ ...query, of, space, missing: undefined, tasks: [], gathered: new Gathered() });
    for (const [probe, given] of probes.entries()) {
      if (asked) {
        const { number, epoch, isIgnored, queryId, generation, device } = asked[probe];
        if (epoch !== space.epoch) continue;
        add({ probe, vector: given, encrypted: number, device, isIgnored, secret: { queryId, generation } });
        continue;
      }
      const vector = await space.project(given);
      const { query: encrypted, secret } = encryptIn(view, space, vector);
      add({ probe, vector, encrypted, device: OWN_DEVICE, isIgnored: false, secret });
    }
  }
  return queries;
}

function encryptIn(
  { manifest }: View,
  space: Space,
  vector: Float32Array,
): { readonly query: Uint8Array; readonly secret: Decryption } {
  const { plan } = space;
  const key = space.key();
  if (plan.profile !== 'open') return encryptQuery(key, vector);
  const generation = evaluationOf(manifest, space)?.generation ?? 0;
  const device = makeDeviceKey(key, OWN_DEVICE, generation);
  try {
    const query = encryptShortQuery(plan as OpenPlan, device, vector);
    return { query, secret: { queryId: new Uint8Array(peekQuery(query).queryId), generation } };
  } finally {
    device.seed.fill(0);
  }
}

/**
 * Does once what the first search would do: derives keys, starts the crew and encrypts a query,
 * which nobody gets. Asks the store for nothing but the view.
 */
export async function prepare(session: CollectionSession): Promise<void> {
  const view = await session.view();
  for (const { space } of bySpace(view, view.manifest.blocks)) {
    const starting = space.device() ? undefined : space.crew();
    starting?.catch(() => {}); // reported below, unless something else fails first
    const { dimension, normBound } = space.plan;
    wipe(encryptIn(view, space, new Float32Array(dimension).fill(normBound / dimension)).secret);
    await starting;
  }
}

function wipe(secret: Decryption): void {
  if (secret instanceof QuerySecret) secret.wipe();
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
  queries: ReadonlyMap<string, Query>,
  numbers: ReadonlyMap<string, number>,
  blocks: readonly ManifestBlock[],
  response: Uint8Array,
): { readonly query: Query; readonly answered: readonly Answered[] } {
  const { queryId, blocks: named } = peekAnyResponse(response);
  const query = queries.get(nameOf(queryId));
  if (!query) throw notAsked();
  const missing = (query.missing ??= new Missing(query.of.numbers, blocks.length));
  const answered: Answered[] = [];
  for (let place = 0; place < named.length; place++) {
    const { blockId, first, count } = named[place];
    const number = numbers.get(nameOf(blockId));
    if (number === undefined) throw notAsked();
    const block = blocks[number];
    if (first !== 0 || count !== query.space.canariesOf(block).slots)
      throw new HersError(
        'INTEGRITY',
        'the store answered for a block with another number of records than the manifest names',
      );
    if (missing.answered(number)) answered.push({ number, place });
  }
  if (answered.length === 0) throw new HersError('INTEGRITY', 'the store answered twice for one block');
  return { query, answered };
}

const notAsked = () =>
  new HersError('INTEGRITY', 'the store answered for a block or a query that is not part of this search');

/** Whether shards are missing of a search that may miss some. */
const isExcused = (shards: ShardCoverage | undefined) => shards !== undefined && shards.failed + shards.timedOut > 0;

/** Tells by the number of a block which of its slots count; undefined where all do. */
type SlotsOf = (number: number) => Uint32Array | undefined;

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

type Rank = (
  query: Query,
  kept: KeptResponses,
  number: number,
  slots: readonly (Uint32Array | undefined)[] | undefined,
) => Promise<unknown>;

/** Takes kept responses, if all of them can be decrypted where they are. */
function keeper(
  queries: readonly Query[],
  slotsOf: SlotsOf | undefined,
  rank: Rank,
): ((kept: KeptResponses) => Promise<void>) | undefined {
  if (queries.length === 0 || !queries.every(({ space }) => space.device())) return undefined;
  return async (kept) => {
    for (const [i, number] of kept.queries.entries()) {
      const query = queries[number];
      if (query.missing) throw new HersError('INTEGRITY', 'the store answered twice for one block');
      query.missing = new Missing([], 0);
      const chosen = slotsOf && query.of.numbers.map(slotsOf);
      // An error is reported with those of other queries.
      await rank(query, kept, i, chosen).catch(() => {});
    }
  };
}

async function scanBlocks(
  { service, name }: CollectionSession,
  view: View,
  probes: readonly Float32Array[],
  blocks: readonly ManifestBlock[],
  some: boolean,
  { limit, threshold, choice, groupBy, signal, partial, asked }: ScanOptions,
): Promise<
  { readonly candidates: Candidate[]; readonly searched: number; readonly shards: ShardCoverage | undefined }[]
> {
  const chosen = choice && new ChosenSlots(choice, blocks);
  const slotsOf = chosen && ((number: number) => chosen.of(number));
  const columnOf = (number: number) => view.columns.get(blocks[number].id)!.get(groupBy!)!;
  const grouping =
    groupBy === undefined
      ? undefined
      : {
          field: groupBy,
          source: view.columns,
          codesOf: (number: number) => columnOf(number).codes,
          groupOf: ({ block, slot }: Candidate) => columnOf(block).value(slot),
        };
  const queries = await encryptQueries(view, probes, blocks, asked);
  const evaluation = evaluationLists(view, new Set(queries.map(({ space }) => space)));
  const devices = deviceLists(
    view,
    queries.map(({ space, device }) => [space, device] as const),
  );
  const byId = new Map(queries.map((query) => [nameOf(query.secret.queryId), query]));
  const options = { limit, order: orderOf(view.space.plan), ...(threshold === undefined ? {} : { threshold }) };
  const decrypted: { readonly probe: number; readonly records: number; readonly best: Promise<Candidate[]> }[] = [];
  const decrypt = async ({ probe, space, vector, secret, tasks, gathered }: Query, parts = 1) => {
    const all = tasks.splice(0);
    const { release } = gathered.take();
    const crew = await space.crew();
    const size = Math.ceil(all.length / parts);
    const ranked = Array.from({ length: parts }, (_, i) => {
      const batch = all.slice(i * size, (i + 1) * size);
      const records = batch.reduce((sum, { block, dead }) => sum + blocks[block].count - dead.length, 0);
      const best = crew.decrypt(secret, batch, { ...options, query: vector });
      decrypted.push({ probe, records, best });
      return best;
    });
    void Promise.allSettled(ranked).then(release); // what fails is reported below, with the others
  };
  const rank: Rank = ({ probe, space, of, secret, vector }, kept, number, slots) => {
    const best = space
      .device()!
      .rank(kept, number, secret as QuerySecret, of, slots, { ...options, query: vector }, grouping)
      .finally(() => wipe(secret));
    decrypted.push({ probe, records: of.records, best });
    return best;
  };
  try {
    // With no blocks there is nothing to ask, but an empty search still tells whether the version
    // is current.
    const request = {
      version: view.manifest.version,
      queries: queries.flatMap(({ encrypted }) => (typeof encrypted === 'number' ? [] : [encrypted])),
      ...(asked ? { inbox: queries.map(({ encrypted }) => encrypted as number) } : {}),
      ...(some ? { blocks: blocks.map((block) => fromHex(block.id)) } : {}),
      ...(evaluation.length > 0 ? { evaluation } : {}),
      ...(devices.length > 0 ? { devices } : {}),
      ...(partial ? { partial } : {}),
    };
    let shards: ShardCoverage | undefined;
    const onCoverage = (coverage: ShardCoverage) => {
      shards = coverage;
    };
    // Where the store can leave responses on a device, and the client can decrypt them there.
    const keep = some || asked ? undefined : keeper(queries, slotsOf, rank);
    const calling = {
      ...(signal ? { signal } : {}),
      ...(keep ? { keep } : {}),
      ...(partial ? { onCoverage } : {}),
      views: 'passing' as const,
    };
    // Those that are still to be started start while the store works; what fails, fails below.
    if (!keep) for (const { space } of queries) space.crew().catch(() => {});
    chosen?.evaluateAhead();
    for await (const responses of groupsOf(service.search(name, request, calling)))
      for (const response of responses) {
        const { query, answered } = expectedBy(byId, numbersOf(blocks), blocks, response);
        if (query.isIgnored) continue;
        const copy = query.gathered.add(response);
        for (const { number, place } of answered) {
          const { id, dead } = blocks[number];
          const canaries = query.space.canariesOf(blocks[number]);
          const groups = grouping?.codesOf(number);
          const sums = view.scoreSums.get(id);
          const slots = slotsOf?.(number);
          query.tasks.push({ response: copy, place, block: number, canaries, dead, slots, groups, sums });
        }
        if (query.tasks.length >= BATCH) await decrypt(query);
      }
    // All is answered, and a query is large: it would wait for the engine to look through its heap.
    // (Of a partial search, a store may still be asking shards that were too late.)
    if (!partial) for (const { encrypted } of queries) if (typeof encrypted !== 'number') freeBytes(encrypted);
    for (const query of queries) if (query.tasks.length > 0) await decrypt(query, query.tasks.length < SHARED ? 1 : 2);
    for (const { missing, of } of queries) {
      const count = missing?.count ?? of.numbers.length;
      if (count > 0 && !isExcused(shards))
        throw new HersError('INTEGRITY', `the store left out ${count} of ${blocks.length} blocks`);
    }
    const rankings = probes.map(() => new Ranking(limit, options.order));
    const grouped = probes.map((): Candidate[] => []);
    const searched = probes.map(() => 0);
    for (const { probe, records, best } of decrypted) {
      const candidates = await best.catch((error) => Promise.reject(new Undecryptable(error)));
      if (groupBy === undefined) rankings[probe].merge(candidates);
      else for (const each of candidates) grouped[probe].push(each);
      searched[probe] += records;
    }
    return rankings.map((ranking, probe) => ({
      candidates: groupBy === undefined ? ranking.best() : grouped[probe],
      searched: searched[probe],
      shards,
    }));
  } finally {
    chosen?.stop();
    await Promise.allSettled(decrypted.map(({ best }) => best));
    for (const { secret } of queries) wipe(secret);
  }
}
