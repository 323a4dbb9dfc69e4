// Searches take turns: so many scans at a time, so many waiting, in the order they came, and at
// most half of both for one caller. Searches of one collection that wait together are scanned
// together, because the gallery is then read once for all of them. That is why a search waits for
// the end of a scan that it could have been part of: both take all cores, so side by side neither
// would be done earlier. What a scan finds is taken off its hands even while its client reads
// slowly, up to a limit; beyond that the scan rests, and lets others go on meanwhile, so that slow
// readers do not hold up the others.

import { setTimeout as pause } from 'node:timers/promises';
import {
  encodeSearch,
  groupsOf,
  HersError,
  ITEM_KIND,
  peekQuery,
  peekResponse,
  type SearchRequest,
  type Service,
  type ShardCoverage,
} from '@hers/service';
import { Overloaded } from './errors.ts';
import { type Piece, Pieces } from './items.ts';
import { half } from './limits.ts';
import type { Hold } from './memory.ts';

export interface ScanOptions {
  /** Scans at a time, and searches that may wait. */
  readonly scans: number;
  readonly queue: number;
  readonly memoryBytes: number;
  /** For tests: how long a search waits for a scan that it could have been part of. */
  readonly patienceMs?: number;
}

/** Who searches: whose share it takes, what its answer counts for, and when it ends. */
export interface Searcher {
  readonly caller: string;
  readonly hold: Hold;
  readonly ending: AbortController;
}

/** Hears how searches went, for the metrics. Times in seconds. */
export interface ScanWatcher {
  waited(seconds: number): void;
  scanned(seconds: number, bytes: number, queries: number): void;
}

/** Found and not yet sent, per search. All together have half of the memory. */
const SPOOL_BYTES = 16 * 2 ** 20;
/**
 * Seconds; the queue may be shorter than it looks, because those that wait are scanned together.
 */
const LONGEST_RETRY = 5;
// Why each of the following is there: docs/tuning.md.

/** Queries scanned together. */
const MAX_QUERIES = 8;
/**
 * How long a search waits at most for the end of a scan that it could have been part of, in typical
 * scans and in milliseconds at least: that scan may hang, on a node of a cluster that is gone.
 */
const PATIENCE = 3;
const LEAST_PATIENCE_MS = 50;
/**
 * About what a response takes; galleries whose answers would not fit a spool are scanned for one
 * client at a time.
 */
const RESPONSE_BYTES = 8192;

/**
 * Milliseconds for which the body of a large write rests after every piece while there are
 * searches, and for a while after the last: who was answered may be back in a moment. Somebody
 * waits for a search and nobody for the end of a large write. So searches keep most of the cores,
 * and writes go on all the same, by some ten megabytes a second.
 */
const COURTESY_MS = 5;
const COURTESY_AFTER_MS = 30;

const NOTHING = new Uint8Array(0);

/** All spools together. */
class Spools {
  readonly #limit: number;
  #bytes = 0;
  readonly #waiting = new Set<() => void>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  get full(): boolean {
    return this.#bytes > this.#limit;
  }

  put(bytes: number): void {
    this.#bytes += bytes;
  }

  took(bytes: number): void {
    this.#bytes -= bytes;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  /** Resolves when something was taken out of any spool. */
  moved(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve));
  }
}

/** Between a scan and the client that reads it: the items of its answer, in pieces. */
class Spool {
  readonly #all: Spools;
  readonly #hold: Hold;
  readonly #pieces = new Pieces();
  #bytes = 0;
  #ended: { error?: unknown } | undefined;
  #cancelled = false;
  #wake: (() => void) | undefined;
  /** Anything was put in at all. */
  used = false;

  constructor(all: Spools, hold: Hold) {
    this.#all = all;
    this.#hold = hold;
  }

  get full(): boolean {
    const isShort = this.#all.full || this.#hold.isFull;
    return !this.#cancelled && (this.#bytes > SPOOL_BYTES || (this.#bytes > 0 && isShort));
  }

  get cancelled(): boolean {
    return this.#cancelled;
  }

  /** Copies a response, which may be a view of memory that others get. */
  put(response: Uint8Array): void {
    if (this.#cancelled) return;
    this.used = true;
    this.#add(response, ITEM_KIND.item);
    if (this.#pieces.isReady) this.#wake?.();
  }

  #add(content: Uint8Array, kind: number): void {
    const bytes = this.#pieces.put([content], kind);
    this.#bytes += bytes;
    this.#all.put(bytes);
    this.#hold.add(bytes);
  }

  /** What is there goes out, though it does not fill a piece. */
  flush(): void {
    this.#pieces.finish();
    this.#wake?.();
  }

  end(error?: unknown): void {
    if (!this.#ended && !this.#cancelled && error === undefined) this.#add(NOTHING, ITEM_KIND.end);
    this.#ended ??= error === undefined ? {} : { error };
    this.#wake?.();
  }

  cancel(): void {
    this.#cancelled = true;
    this.#pieces.release();
    this.#took(this.#bytes);
    this.#wake?.();
  }

  #took(bytes: number): void {
    this.#bytes -= bytes;
    this.#hold.gave(bytes);
    this.#all.took(bytes);
  }

  /** Pieces as they are full, and the last one. Whoever takes one gives it back. */
  async *read(): AsyncGenerator<Piece> {
    let isBegun = false;
    try {
      for (;;) {
        const piece = this.#pieces.take();
        if (piece) {
          isBegun = true;
          yield piece;
          if (!this.#cancelled) this.#took(piece.length);
        } else if (this.#ended && !('error' in this.#ended && !isBegun) && this.#bytes > 0) {
          this.#pieces.finish();
        } else if (this.#ended) {
          if ('error' in this.#ended) throw this.#ended.error;
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          this.#wake = undefined;
        }
      }
    } finally {
      this.cancel();
    }
  }
}

interface Job {
  readonly name: string;
  readonly request: SearchRequest;
  readonly caller: string;
  readonly signal: AbortSignal;
  readonly spool: Spool;
  readonly since: number;
  readonly ids: readonly string[];
  /** Searches of one kind can share a scan. */
  readonly kind: string | undefined;
  /**
   * Whether it still waits for a scan that it could have been part of. Only its timer ends that: a
   * timer counts from the last time that the engine looked at the clock, so it may come before the
   * time that a clock says.
   */
  isPatient: boolean;
}

interface Running {
  readonly first: Job;
  queries: number;
  rests: boolean;
}

/** Whose response it is. Those to one query come many in a row. */
class Owners {
  readonly #spools: ReadonlyMap<string, Spool>;
  #queryId: Uint8Array = NOTHING;
  #spool: Spool | undefined;

  constructor(jobs: readonly Job[]) {
    this.#spools = new Map(jobs.flatMap((job) => job.ids.map((id) => [id, job.spool] as const)));
  }

  of(response: Uint8Array): Spool | undefined {
    const { queryId } = peekResponse(response);
    if (Buffer.compare(queryId, this.#queryId) !== 0) {
      // A copy, also of a Buffer: it stays when the response is gone.
      this.#queryId = new Uint8Array(queryId);
      this.#spool = this.#spools.get(hexOf(queryId));
    }
    return this.#spool;
  }
}

const hexOf = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');

export class Scans {
  readonly #service: Service;
  readonly #options: ScanOptions;
  readonly #watcher: ScanWatcher;
  readonly #spools: Spools;
  readonly #waiting: Job[] = [];
  /** Scans that have rested, and would go on. */
  readonly #resting: { readonly caller: string; readonly goOn: () => void }[] = [];
  readonly #running = new Map<string, number>();
  readonly #scans = new Set<Running>();
  /** When the last one ended. */
  #endedAt = Number.NEGATIVE_INFINITY;
  /** Seconds a scan took lately, for Retry-After. */
  #typicalSeconds = 0.05;

  /** Called after the first scan, when all threads and their memory are there. */
  #onStarted: (() => void) | undefined;

  constructor(service: Service, options: ScanOptions, watcher: ScanWatcher, onStarted?: () => void) {
    this.#onStarted = onStarted;
    this.#service = service;
    this.#options = options;
    this.#watcher = watcher;
    this.#spools = new Spools(options.memoryBytes / 2);
  }

  get running(): number {
    let sum = 0;
    for (const count of this.#running.values()) sum += count;
    return sum;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** The items of the answer, in pieces. OVERLOADED when too many wait already. */
  async *search(name: string, request: SearchRequest, searcher: Searcher): AsyncGenerator<Piece> {
    const { caller, hold } = searcher;
    const { signal } = searcher.ending;
    signal.throwIfAborted();
    const ids = request.queries.map((query) => hexOf(peekQuery(query).queryId));
    const refusal = this.#refusal(caller);
    if (refusal && !this.#hasSlot(caller)) throw refusal;
    const spool = new Spool(this.#spools, hold);
    const since = performance.now();
    const patience = refusal ? 0 : this.#patienceMs;
    const kind = kindOf(name, request);
    const job: Job = { name, request, caller, signal, spool, since, ids, kind, isPatient: patience > 0 };
    const stop = () => {
      const at = this.#waiting.indexOf(job);
      if (at >= 0) this.#waiting.splice(at, 1);
      job.spool.end(signal.reason);
      job.spool.cancel();
    };
    signal.addEventListener('abort', stop, { once: true });
    this.#waiting.push(job);
    this.#next();
    const lose = () => {
      job.isPatient = false;
      this.#next();
    };
    const timer = this.#waiting.includes(job) ? setTimeout(lose, patience) : undefined;
    try {
      yield* job.spool.read();
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
      const at = this.#waiting.indexOf(job);
      if (at >= 0) this.#waiting.splice(at, 1);
    }
  }

  get #patienceMs(): number {
    return this.#options.patienceMs ?? Math.max(LEAST_PATIENCE_MS, 1000 * PATIENCE * this.#typicalSeconds);
  }

  #hasSlot(caller: string): boolean {
    const { scans } = this.#options;
    return this.running < scans && (this.#running.get(caller) ?? 0) < half(scans);
  }

  /** OVERLOADED where too many wait already, or too many of this caller. */
  #refusal(caller: string): Overloaded | undefined {
    const { scans, queue } = this.#options;
    const all = this.#waiting.length;
    const own = this.#waiting.reduce((sum, job) => sum + (job.caller === caller ? 1 : 0), 0);
    const retryAfter = Math.min(LONGEST_RETRY, (this.#typicalSeconds * all) / scans);
    if (all >= queue) return new Overloaded(`${all} searches are waiting already`, retryAfter);
    if (own >= half(queue)) return new Overloaded(`${own} searches of this caller are waiting already`, retryAfter);
    return undefined;
  }

  /** Whether a search should wait for a scan that it could have been part of. */
  #shouldWait(job: Job): boolean {
    if (!job.isPatient) return false;
    const isLike = ({ first, queries, rests }: Running) => !rests && queries <= MAX_QUERIES && areAlike(first, job);
    return [...this.#scans].some(isLike);
  }

  #take(caller: string): void {
    this.#running.set(caller, (this.#running.get(caller) ?? 0) + 1);
  }

  #give(caller: string): void {
    const left = this.#running.get(caller)! - 1;
    if (left > 0) this.#running.set(caller, left);
    else this.#running.delete(caller);
    this.#next();
    this.#endedAt = performance.now();
  }

  /** While there are searches, a promise that a large write waits for before it goes on. */
  courtesy(): Promise<void> | undefined {
    const isQuiet = this.running === 0 && performance.now() - this.#endedAt > COURTESY_AFTER_MS;
    return isQuiet ? undefined : pause(COURTESY_MS);
  }

  /** Gives free slots away: first to scans that have rested, then to those that wait longest. */
  #next(): void {
    const takeOut = <T extends { caller: string }>(from: T[], isDue: (each: T) => boolean): T | undefined => {
      const at = from.findIndex((each) => this.#hasSlot(each.caller) && isDue(each));
      return at < 0 ? undefined : from.splice(at, 1)[0];
    };
    const rested = () => takeOut(this.#resting, () => true);
    for (let next = rested(); next; next = rested()) {
      this.#take(next.caller);
      next.goOn();
    }
    const due = () => takeOut(this.#waiting, (job) => !this.#shouldWait(job));
    for (let first = due(); first; first = due()) {
      const { caller } = first;
      const running = { first, queries: first.ids.length, rests: false };
      this.#take(caller);
      this.#scans.add(running);
      void this.#scan(running).finally(() => {
        this.#scans.delete(running);
        this.#give(caller);
      });
    }
  }

  /** Lets others scan until the client of a full spool has read some. */
  async #rest(running: Running, spool: Spool): Promise<void> {
    const { caller } = running.first;
    running.rests = true;
    this.#give(caller);
    spool.flush();
    while (spool.full) await this.#spools.moved();
    await new Promise<void>((goOn) => {
      this.#resting.push({ caller, goOn });
      this.#next();
    });
    running.rests = false;
  }

  async #scan(running: Running): Promise<void> {
    const jobs: [Job, ...Job[]] = [running.first, ...(await this.#companions(running.first))];
    running.queries = jobs.reduce((sum, { ids }) => sum + ids.length, 0);
    const now = performance.now();
    for (const { since } of jobs) this.#watcher.waited((now - since) / 1000);
    try {
      await this.#run(jobs, running);
    } catch (error) {
      // What is wrong with one of them must not fail the others.
      for (const job of jobs) {
        if (job.spool.used || jobs.length === 1) job.spool.end(error);
        else await this.#run([job], running).catch((own) => job.spool.end(own));
      }
    }
    const seconds = (performance.now() - now) / 1000;
    this.#typicalSeconds = 0.8 * this.#typicalSeconds + 0.2 * seconds;
  }

  /** Takes the searches that can be answered by the same scan out of the queue. */
  async #companions(first: Job): Promise<Job[]> {
    const alike = (job: Job) => areAlike(first, job);
    if (!this.#waiting.some(alike)) return [];
    const { blocks } = await this.#service
      .getCollection(first.name)
      .catch(() => ({ blocks: Number.POSITIVE_INFINITY }));
    const jobs: Job[] = [];
    const taken = new Set(first.ids);
    const fits = ({ ids }: Job) => ids.length * blocks * RESPONSE_BYTES <= SPOOL_BYTES;
    if (!fits(first)) return [];
    for (const job of [...this.#waiting]) {
      if (!alike(job) || !fits(job) || taken.size + job.ids.length > MAX_QUERIES) continue;
      if (job.ids.some((id) => taken.has(id))) continue;
      for (const id of job.ids) taken.add(id);
      this.#waiting.splice(this.#waiting.indexOf(job), 1);
      jobs.push(job);
    }
    return jobs;
  }

  async #run(jobs: readonly [Job, ...Job[]], running: Running): Promise<void> {
    const ending = new AbortController();
    // The scan ends when nobody wants it any more.
    const left = () => {
      if (jobs.every(({ spool, signal }) => spool.cancelled || signal.aborted))
        ending.abort(new HersError('UNAVAILABLE', 'the client is gone'));
    };
    for (const { signal } of jobs) signal.addEventListener('abort', left, { once: true });
    const [first] = jobs;
    const request = { ...first.request, queries: jobs.flatMap((job) => job.request.queries) };
    const owners = new Owners(jobs);
    const queryBytes = request.queries[0]?.length ?? 0;
    const began = performance.now();
    let paused = 0;
    let bytes = 0;
    try {
      left();
      const onCoverage = (coverage: ShardCoverage) => first.spool.put(Buffer.from(JSON.stringify(coverage)));
      const options = { signal: ending.signal, views: 'passing' as const, ...(request.partial ? { onCoverage } : {}) };
      for await (const responses of groupsOf(this.#service.search(first.name, request, options)))
        for (const response of responses) {
          const spool = jobs.length === 1 ? first.spool : owners.of(response);
          spool?.put(response);
          bytes += queryBytes;
          if (!spool?.full) continue;
          const since = performance.now();
          await this.#rest(running, spool);
          left();
          paused += performance.now() - since;
        }
      for (const { spool } of jobs) spool.end();
      this.#onStarted?.();
      this.#onStarted = undefined;
      this.#watcher.scanned((performance.now() - began - paused) / 1000, bytes, request.queries.length);
    } finally {
      for (const { signal } of jobs) signal.removeEventListener('abort', left);
    }
  }
}

const areAlike = (one: Job, other: Job) => one.kind !== undefined && one.kind === other.kind;

/** Bytes of ids that are worth comparing: a store takes no more lists of evaluation keys. */
const KIND_BYTES = 2 ** 16;

/** Names everything but the queries; undefined for a search that gets a scan of its own. */
function kindOf(name: string, request: SearchRequest): string | undefined {
  if (request.blocks || request.partial || request.queries.length === 0) return undefined;
  const { head, parts } = encodeSearch({ ...request, queries: [] });
  if (parts.some(({ length }) => length > KIND_BYTES)) return undefined;
  return [name, JSON.stringify(head), ...parts.map(hexOf)].join(' ');
}
