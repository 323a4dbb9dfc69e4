// What is held in memory for requests, all together: bodies, what they are unpacked to, what is on
// its way to clients. Whoever takes more asks first. What was given back is garbage until it is
// collected, and the engine collects when its own heap wants it, which knows little of large
// buffers: so it is told to, when there is garbage and the process has grown. Because not
// everything can be counted, a process that has grown too much all the same has half as much for
// requests until it has shrunk.

import { readFileSync } from 'node:fs';
import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { HersError } from '@hers/service';
import { returnFreedMemory } from '@hers/store';
import { Overloaded } from './gate.ts';

/** Less garbage than this is not worth a collection, which takes some ten milliseconds. */
const MIN_GARBAGE = 2 ** 25;
/** Garbage is collected when nothing was added to it for so long, and now and then in any case. */
const IDLE_MS = 1000;
const NOW_AND_THEN_MS = 10_000;
/**
 * Of what a process may grow by, so much may be held. The rest is for garbage, copies, and what the
 * scans keep for the next.
 */
const HELD = 0.6;
/** A process that has grown by this part is larger than it should be. */
const SWOLLEN = 0.6;
/** Garbage is collected when it has grown by this part. */
const LITTERED = 0.4;
/**
 * What the process keeps at rest beyond what is alive in it, a fragmented heap say, may grow by
 * this part. All beyond it counts as grown, or attack after attack would raise the limit.
 */
const KEPT = 1 / 4;
/**
 * What is kept at rest leaves less room for the rest, beyond this part. Without it a process that
 * keeps much would grow from there as far as one that keeps nothing.
 */
const KEPT_FREE = 1 / 10;
/** The part of what may be held that every caller has, whatever the others do. */
const LITTLE = 1 / 16;
/** How often the memory of the process is looked at, and something done about it. */
const LOOK_MS = 10;
const FREED_MS = 10;
const SETTLE_MS = 25;
const COLLECT_MS = 200;
const TRIM_MS = 50;
/**
 * A process that has grown by this part reads no more from clients until its garbage is collected;
 * it waits so long at most.
 */
const TIGHT = 0.6;
const TIGHT_COLLECT_MS = 50;
/** A process that has grown by this part takes nothing more, but for callers that hold little. */
const FULL = 0.7;
const WAIT_MS = 500;
const BUSY_TRUST = 1 / 8;
const PAGE_BYTES = 4096;

/**
 * Asked to end what is slow and holds so many bytes, of this caller or, without one, of anybody.
 * The room is there when that has ended, a moment later.
 */
export type MakeRoom = (bytes: number, caller?: string) => void;

let collectNow: (() => void) | undefined;

/** Makes the engine collect garbage. */
function collect(): void {
  if (!collectNow) {
    setFlagsFromString('--expose-gc');
    collectNow = runInNewContext('gc') as () => void;
  }
  collectNow();
}

/** Calls back when the engine has collected by itself, until it is disconnected. */
function watchCollections(onCollected: () => void): PerformanceObserver {
  const isMajor = (entry: PerformanceEntry & { detail?: { kind?: number } }) =>
    entry.detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR;
  const observer = new PerformanceObserver((list) => {
    if (list.getEntries().some(isMajor)) onCollected();
  });
  observer.observe({ entryTypes: ['gc'] });
  return observer;
}

/** What this process has in memory beyond mapped files, which the system can drop at any time. */
function processBytes(): number {
  try {
    const [, resident, shared] = readFileSync('/proc/self/statm', 'latin1').split(' ').map(Number);
    if (resident !== undefined && shared !== undefined) return (resident - shared) * PAGE_BYTES;
  } catch {}
  const { heapTotal, external } = process.memoryUsage();
  return heapTotal + external;
}

/** What the engine knows to be in use; right after a collection, what is alive. */
function liveBytes(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

export class Memory {
  readonly makeRoom: MakeRoom;
  /** What the process may grow by. */
  readonly #growth: number;
  /** What may be held when all is well. */
  readonly most: number;
  readonly #measure: () => number;
  readonly #live: () => number;
  /** What the process needs to be there beyond what the engine knows to be alive. */
  #dead: number;
  readonly #callers = new Map<string, number>();
  readonly #observer: PerformanceObserver;
  #held = 0;
  #garbage = 0;
  /** What the process has when nothing is held. */
  #rest: number;
  /** What of that it does not need: a fragmented heap, say. */
  #kept = 0;
  #lookedAt = 0;
  #collectedAt = 0;
  #trimmedAt = 0;
  /** Since it was at rest. */
  #grown = 0;
  #idle: NodeJS.Timeout | undefined;
  #later: NodeJS.Timeout | undefined;

  constructor(
    growth: number,
    makeRoom: MakeRoom = () => {},
    measure: () => number = processBytes,
    live: () => number = liveBytes,
  ) {
    this.#growth = growth;
    this.most = HELD * growth;
    this.makeRoom = makeRoom;
    this.#measure = measure;
    this.#live = live;
    this.#rest = measure();
    this.#dead = this.#rest - live();
    this.#observer = watchCollections(() => {
      this.#garbage = 0;
    });
  }

  close(): void {
    this.#observer.disconnect();
    clearTimeout(this.#idle);
    clearTimeout(this.#later);
  }

  /**
   * Something has started that stays: threads, the memory of a kernel. What the engine does not
   * know of that is counted as needed.
   */
  started(): void {
    this.#dead = Math.max(this.#dead, this.#measure() - this.#live());
  }

  /**
   * So many bytes have come to stay for a while, or, negative, are gone, which are none of the
   * requests' and have a limit of their own: evaluation keys.
   */
  keep(bytes: number): void {
    this.#rest += bytes;
    this.#dead += bytes;
  }

  /** What may be held at the moment. */
  get limit(): number {
    return this.#isSwollen ? this.most / 2 : this.most;
  }

  /** Garbage that is not held by anybody: what was copied, say. */
  litter(bytes: number): void {
    this.#garbage += bytes;
    this.#later ??= setTimeout(() => {
      this.#later = undefined;
      this.#tidy(BUSY_TRUST);
    }, NOW_AND_THEN_MS).unref();
    if (this.#garbage < MIN_GARBAGE) return;
    if (this.#idle) this.#idle.refresh();
    else this.#idle = setTimeout(() => this.#tidy(1), IDLE_MS).unref();
  }

  #tidy(trust: number): void {
    clearTimeout(this.#idle);
    if (this.#garbage >= MIN_GARBAGE) this.#collect();
    else this.#trim();
    // Freed buffers are gone a moment later.
    this.#idle = setTimeout(() => this.#settle(trust), SETTLE_MS).unref();
  }

  /**
   * What is left when little is held is what the process needs to be there. How far that may be
   * more than before depends on how quiet it is: under load some of it is garbage.
   */
  #settle(trust: number): void {
    this.#idle = undefined;
    if (this.#held < this.most / 8) {
      this.#trim();
      const more = this.#measure() - this.#held - this.#rest;
      this.#rest += more > 0 ? trust * more : more;
      const needed = this.#dead + this.#live() - this.#held;
      this.#rest = Math.min(this.#rest, needed + KEPT * this.#growth);
      this.#kept = Math.max(0, this.#rest - needed);
    }
    this.#look();
  }

  #collect(): void {
    collect();
    this.#garbage = 0;
    this.#collectedAt = performance.now();
    // Buffers are freed a moment later.
    setTimeout(() => this.#trim(), FREED_MS).unref();
  }

  #look(): void {
    const now = performance.now();
    this.#lookedAt = now;
    this.#grown = this.#measure() - this.#rest;
    if (this.#grown <= LITTERED * this.#growth || now - this.#trimmedAt < TRIM_MS) return;
    // The engine frees what it collects by itself, but the allocator keeps it.
    this.#trim();
    this.#grown = this.#measure() - this.#rest;
  }

  #trim(): void {
    returnFreedMemory();
    this.#trimmedAt = performance.now();
  }

  /**
   * Before something is taken: collects where the process has grown too much, and there is garbage.
   */
  prepare(): void {
    const now = performance.now();
    if (now - this.#lookedAt < LOOK_MS) return;
    this.#look();
    const isLittered = this.#garbage >= MIN_GARBAGE && this.#grown > LITTERED * this.#growth;
    if (!(isLittered || this.#isSwollen) || now - this.#collectedAt < COLLECT_MS) return;
    this.#collect();
    this.#idle ??= setTimeout(() => this.#settle(0), SETTLE_MS).unref();
  }

  /** So many bytes, less what is kept. */
  #part(share: number): number {
    return Math.min(share * this.#growth, (share + KEPT_FREE) * this.#growth - this.#kept);
  }

  /**
   * Whether reading more should wait until garbage has been collected, where so many bytes are
   * about to be taken.
   */
  isTight(bytes: number): boolean {
    if (performance.now() - this.#lookedAt >= LOOK_MS) this.#look();
    if (this.#grown + bytes <= this.#part(TIGHT)) return false;
    // What was collected a moment ago is on its way out; where there is nothing to collect, waiting
    // does not help.
    return this.#garbage >= MIN_GARBAGE || performance.now() - this.#collectedAt < TIGHT_COLLECT_MS;
  }

  /**
   * Whether the process has no room for so many bytes. It collects what it can, for the next time.
   */
  isOver(bytes: number): boolean {
    if (this.#grown + bytes <= this.#part(FULL)) return false;
    const isDue = performance.now() - this.#collectedAt >= TIGHT_COLLECT_MS;
    if (isDue && this.#garbage >= MIN_GARBAGE) this.#collect();
    return true;
  }

  /** Collects garbage until the process is smaller, or there is nothing left to collect. */
  async relax(bytes: number): Promise<void> {
    for (const until = performance.now() + WAIT_MS; this.isTight(bytes) && performance.now() < until; ) {
      const isDue = performance.now() - this.#collectedAt >= TIGHT_COLLECT_MS;
      if (isDue && this.#garbage >= MIN_GARBAGE) this.#collect();
      await pause(SETTLE_MS);
    }
  }

  get #isSwollen(): boolean {
    return this.#grown > SWOLLEN * this.#growth;
  }

  get held(): number {
    return this.#held;
  }

  get isFull(): boolean {
    return this.#held > this.limit;
  }

  heldBy(caller: string): number {
    return this.#callers.get(caller) ?? 0;
  }

  /** Counts what is there already, or is gone: garbage then, unless it never was the engine's. */
  add(caller: string, bytes: number, isEngines = true): void {
    this.#held += bytes;
    if (bytes < 0 && isEngines) this.litter(-bytes);
    const held = this.heldBy(caller) + bytes;
    if (held > 0) this.#callers.set(caller, held);
    else this.#callers.delete(caller);
  }
}

export class Hold {
  readonly #memory: Memory;
  readonly #caller: string;
  #bytes = 0;
  #reserved = 0;
  #ended = false;

  constructor(memory: Memory, caller: string) {
    this.#memory = memory;
    this.#caller = caller;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * To be waited for before more is read from a client; undefined when there is room. What is large
   * grows by being copied, and is copied again where it goes.
   */
  room(): Promise<void> | undefined {
    const coming = 3 * this.#bytes;
    return this.#memory.isTight(coming) ? this.#memory.relax(coming) : undefined;
  }

  /** Whether all requests together hold too much. */
  get isFull(): boolean {
    return this.#memory.isFull;
  }

  /**
   * Bytes that are about to be taken; below zero, given back. One caller has at most half of all;
   * but whoever holds nothing else may have one thing of any size.
   */
  take(bytes: number): void {
    // One that has ended counts for nothing any more.
    if (this.#ended) {
      if (bytes > 0) throw new Overloaded('this request is over', 1);
      return;
    }
    if (bytes > 0) this.#memory.prepare();
    const { limit, makeRoom } = this.#memory;
    const { held } = this.#memory;
    const callersOwn = this.#memory.heldBy(this.#caller);
    if (bytes > 0 && callersOwn + bytes > limit / 2 && callersOwn > this.#bytes) {
      makeRoom(callersOwn + bytes - limit / 2, this.#caller);
      throw new Overloaded('this caller holds as much memory as one may', 1);
    }
    // Who holds little is served however much the others hold.
    const isLittle = callersOwn + bytes <= LITTLE * this.#memory.most;
    if (bytes > 0 && !isLittle && held + bytes > limit && held > this.#bytes) {
      makeRoom(held + bytes - limit);
      throw new Overloaded('the server holds as much in memory as it may', 1);
    }
    // What cannot be counted counts here: the process as it is.
    if (bytes > 0 && !isLittle && held > this.#bytes && this.#memory.isOver(bytes))
      throw new Overloaded('the server has as much in memory as it may', 1);
    this.add(bytes);
  }

  /**
   * The same for what is not the engine's, and for what is used again: it leaves no garbage. It is
   * given back in the end.
   */
  reserve(bytes: number): void {
    this.take(bytes);
    this.#reserved += bytes;
  }

  /**
   * The same for what a request only unpacks to: never more than the limit, not even for one that
   * is alone.
   */
  takeWithin(bytes: number, what: string): void {
    if (this.#bytes + bytes > this.#memory.most)
      throw new HersError(
        'TOO_LARGE',
        `${what} are more than fit into the memory of this server; send fewer at a time`,
      );
    this.take(bytes);
  }

  litter(bytes: number): void {
    this.#memory.litter(bytes);
  }

  /** Counts without asking. */
  add(bytes: number): void {
    if (this.#ended) return;
    this.#bytes += bytes;
    this.#memory.add(this.#caller, bytes);
  }

  /** So much of what was added is used again by others: it leaves no garbage. */
  gave(bytes: number): void {
    if (this.#ended) return;
    this.#bytes -= bytes;
    this.#memory.add(this.#caller, -bytes, false);
  }

  /** All of it is given back. */
  end(): void {
    if (this.#ended) return;
    this.#memory.add(this.#caller, -this.#reserved, false);
    this.#memory.add(this.#caller, this.#reserved - this.#bytes);
    this.#bytes = 0;
    this.#ended = true;
  }
}

/**
 * Keeps a process small that does nothing but serve: what was freed goes back to the system, and
 * the engine's space for young objects stays as it is, where it would grow to a hundred megabytes
 * under load and stay so. The heap may double between two collections: by itself the engine lets
 * one of some ten megabytes grow by a tenth, buffers included, so that every fifth query of a
 * megabyte made it mark all of it, which took half of the CPU of a small search. For the whole
 * process, so `hers serve` calls it, and `startServer` does not.
 */
export function keepProcessSmall(): void {
  returnFreedMemory();
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=100');
}
