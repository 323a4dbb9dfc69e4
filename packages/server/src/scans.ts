// Searches take turns: so many scans at a time, so many waiting, in the order they came, and at
// most half of both for one caller. Searches of one collection that wait together are scanned
// together, because the gallery is then read once for all of them. What a scan finds is taken off
// its hands even while its client reads slowly, up to a limit; beyond that the scan rests, and lets
// others go on meanwhile, so that slow readers do not hold up the others.

import {
  groupsOf,
  HersError,
  peekQuery,
  peekResponse,
  type SearchRequest,
  type Service,
  type ShardCoverage,
} from '@hers/service';
import { half, Overloaded } from './gate.ts';
import type { Hold } from './memory.ts';

export interface ScanOptions {
  /** Scans at a time, and searches that may wait. */
  readonly scans: number;
  readonly queue: number;
  readonly memoryBytes: number;
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
/** Queries scanned together. */
const MAX_QUERIES = 8;
/**
 * About what a response takes; galleries whose answers would not fit a spool are scanned for one
 * client at a time.
 */
const RESPONSE_BYTES = 8192;

/**
 * Milliseconds for which the body of a large write rests at each of its pieces while there are
 * searches. Somebody waits for a search and nobody for the end of a large write. So searches keep
 * most of the cores, and writes go on all the same, by some megabytes a second.
 */
const COURTESY_MS = 20;

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

/** Between a scan and the client that reads it. */
class Spool {
  readonly #all: Spools;
  readonly #hold: Hold;
  #items: Uint8Array[] = [];
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

  put(item: Uint8Array): void {
    if (this.#cancelled) return;
    this.used = true;
    this.#items.push(item);
    this.#bytes += item.length;
    this.#all.put(item.length);
    this.#hold.add(item.length);
    this.#wake?.();
  }

  end(error?: unknown): void {
    this.#ended ??= error === undefined ? {} : { error };
    this.#wake?.();
  }

  cancel(): void {
    this.#cancelled = true;
    this.#items = [];
    this.#took(this.#bytes);
    this.#wake?.();
  }

  #took(bytes: number): void {
    this.#bytes -= bytes;
    this.#hold.add(-bytes);
    this.#all.took(bytes);
  }

  /** Everything that is there, again and again: many at a time cost less than one by one. */
  async *read(): AsyncGenerator<Uint8Array[]> {
    try {
      for (;;) {
        const items = this.#items;
        if (items.length > 0) {
          const bytes = items.reduce((sum, item) => sum + item.length, 0);
          this.#items = [];
          yield items;
          if (!this.#cancelled) this.#took(bytes);
          continue;
        }
        if (this.#ended) {
          if ('error' in this.#ended) throw this.#ended.error;
          return;
        }
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        this.#wake = undefined;
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
  /** Writes that let searches go first. */
  readonly #courteous = new Set<() => void>();
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

  /** Encoded responses, several at a time. OVERLOADED when too many wait already. */
  async *search(name: string, request: SearchRequest, searcher: Searcher): AsyncGenerator<Uint8Array[]> {
    const { caller, hold } = searcher;
    const { signal } = searcher.ending;
    signal.throwIfAborted();
    const ids = request.queries.map((query) => hexOf(peekQuery(query).queryId));
    if (!this.#hasSlot(caller)) this.#checkQueue(caller);
    const spool = new Spool(this.#spools, hold);
    const job: Job = { name, request, caller, signal, spool, since: performance.now(), ids };
    const stop = () => {
      const at = this.#waiting.indexOf(job);
      if (at >= 0) this.#waiting.splice(at, 1);
      job.spool.end(signal.reason);
      job.spool.cancel();
    };
    signal.addEventListener('abort', stop, { once: true });
    this.#waiting.push(job);
    this.#next();
    try {
      yield* job.spool.read();
    } finally {
      signal.removeEventListener('abort', stop);
      const at = this.#waiting.indexOf(job);
      if (at >= 0) this.#waiting.splice(at, 1);
    }
  }

  #hasSlot(caller: string): boolean {
    const { scans } = this.#options;
    return this.running < scans && (this.#running.get(caller) ?? 0) < half(scans);
  }

  /** OVERLOADED where too many wait already, or too many of this caller. */
  #checkQueue(caller: string): void {
    const { scans, queue } = this.#options;
    const all = this.#waiting.length;
    const own = this.#waiting.reduce((sum, job) => sum + (job.caller === caller ? 1 : 0), 0);
    const retryAfter = Math.min(LONGEST_RETRY, (this.#typicalSeconds * all) / scans);
    if (all >= queue) throw new Overloaded(`${all} searches are waiting already`, retryAfter);
    if (own >= half(queue)) throw new Overloaded(`${own} searches of this caller are waiting already`, retryAfter);
  }

  #take(caller: string): void {
    this.#running.set(caller, (this.#running.get(caller) ?? 0) + 1);
  }

  #give(caller: string): void {
    const left = this.#running.get(caller)! - 1;
    if (left > 0) this.#running.set(caller, left);
    else this.#running.delete(caller);
    this.#next();
    if (this.running === 0) for (const goOn of this.#courteous) goOn();
  }

  /** While there are searches, a promise that the next piece of a large write waits for. */
  courtesy(): Promise<void> | undefined {
    if (this.running === 0) return undefined;
    return new Promise((resolve) => {
      const goOn = () => {
        clearTimeout(timer);
        this.#courteous.delete(goOn);
        resolve();
      };
      const timer = setTimeout(goOn, COURTESY_MS);
      this.#courteous.add(goOn);
    });
  }

  /** Gives free slots away: first to scans that have rested, then to those that wait longest. */
  #next(): void {
    const takeOut = <T extends { caller: string }>(from: T[]): T | undefined => {
      const at = from.findIndex(({ caller }) => this.#hasSlot(caller));
      return at < 0 ? undefined : from.splice(at, 1)[0];
    };
    for (let rested = takeOut(this.#resting); rested; rested = takeOut(this.#resting)) {
      this.#take(rested.caller);
      rested.goOn();
    }
    for (let first = takeOut(this.#waiting); first; first = takeOut(this.#waiting)) {
      const { caller } = first;
      this.#take(caller);
      void this.#scan(first).finally(() => this.#give(caller));
    }
  }

  /** Lets others scan until the client of a full spool has read some. */
  async #rest(caller: string, spool: Spool): Promise<void> {
    this.#give(caller);
    while (spool.full) await this.#spools.moved();
    await new Promise<void>((goOn) => {
      this.#resting.push({ caller, goOn });
      this.#next();
    });
  }

  async #scan(first: Job): Promise<void> {
    const jobs: [Job, ...Job[]] = [first, ...(await this.#companions(first))];
    const now = performance.now();
    for (const { since } of jobs) this.#watcher.waited((now - since) / 1000);
    try {
      await this.#run(jobs);
    } catch (error) {
      // What is wrong with one of them must not fail the others.
      for (const job of jobs) {
        if (job.spool.used || jobs.length === 1) job.spool.end(error);
        else await this.#run([job]).catch((own) => job.spool.end(own));
      }
    }
    const seconds = (performance.now() - now) / 1000;
    this.#typicalSeconds = 0.8 * this.#typicalSeconds + 0.2 * seconds;
  }

  /** Takes the searches that can be answered by the same scan out of the queue. */
  async #companions(first: Job): Promise<Job[]> {
    const alike = ({ name, request, ids }: Job) =>
      name === first.name &&
      request.version === first.request.version &&
      request.blocks === undefined &&
      sameLists(request.evaluation, first.request.evaluation) &&
      sameLists(request.devices, first.request.devices) &&
      !request.partial &&
      ids.length > 0;
    if (!alike(first) || !this.#waiting.some(alike)) return [];
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

  async #run(jobs: readonly [Job, ...Job[]]): Promise<void> {
    const ending = new AbortController();
    // The scan ends when nobody wants it any more.
    const left = () => {
      if (jobs.every(({ spool, signal }) => spool.cancelled || signal.aborted))
        ending.abort(new HersError('UNAVAILABLE', 'the client is gone'));
    };
    for (const { signal } of jobs) signal.addEventListener('abort', left, { once: true });
    const [first] = jobs;
    const request = { ...first.request, queries: jobs.flatMap((job) => job.request.queries) };
    const owner = new Map(jobs.flatMap((job) => job.ids.map((id) => [id, job.spool] as const)));
    const queryBytes = request.queries[0]?.length ?? 0;
    const began = performance.now();
    let paused = 0;
    let bytes = 0;
    try {
      left();
      const onCoverage = (coverage: ShardCoverage) => first.spool.put(Buffer.from(JSON.stringify(coverage)));
      const options = { signal: ending.signal, views: true, ...(request.partial ? { onCoverage } : {}) };
      for await (const responses of groupsOf(this.#service.search(first.name, request, options)))
        for (const response of responses) {
          const spool = jobs.length === 1 ? first.spool : owner.get(hexOf(peekResponse(response).queryId));
          spool?.put(response);
          bytes += queryBytes;
          if (!spool?.full) continue;
          const since = performance.now();
          await this.#rest(first.caller, spool);
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

/** Whether two searches name the same evaluation keys. */
function sameLists(one: readonly Uint8Array[] = [], other: readonly Uint8Array[] = []): boolean {
  return one.length === other.length && one.every((id, i) => Buffer.compare(id, other[i]!) === 0);
}
