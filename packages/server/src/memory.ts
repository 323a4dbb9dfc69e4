// What is held in memory for requests, all together: bodies, what they are unpacked to, what is on
// its way to clients. Whoever takes more asks first. Not everything can be counted, so the process
// is measured as well: one that has grown too much collects its garbage, and takes nothing more
// until it has shrunk. Why each of it is there: docs/tuning.md.

import { readFileSync } from 'node:fs';
import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { HersError } from '@hers/service';
import { returnFreedMemory } from '@hers/store';
import { Overloaded } from './errors.ts';

/** Bytes of garbage that are worth a collection, which takes some ten milliseconds. */
const MIN_GARBAGE = 2 ** 25;
/** Milliseconds between two collections at least: nothing else runs meanwhile. */
const COLLECT_MS = 100;
/** Milliseconds after which what was collected can be given back to the system. */
const FREED_MS = 25;
/** Milliseconds between two looks at the memory of the process: they are calls of the system. */
const LOOK_MS = 10;

// Shares of what the process may grow by: held, grown so far that garbage is collected, and so far
// that nothing more is taken. The rest is for copies, and for what the scans keep for the next.
const HELD = 0.6;
const LITTERED = 0.5;
const FULL = 0.75;

// Shares of what may be held: for each caller, whatever the others do; and so little that all else
// in the process is what it needs to be there.
const LITTLE = 1 / 16;
const QUIET = 1 / 8;

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
  /** The limit of reservations. */
  readonly limit: number;
  readonly #measure: () => number;
  readonly #live: () => number;
  readonly #callers = new Map<string, number>();
  readonly #observer: PerformanceObserver;
  /** Bytes that the process needs beyond what the engine knows to be alive. */
  #dead: number;
  /** What it needs in all; beyond that it has grown. */
  #needed: number;
  #grown = 0;
  #held = 0;
  #garbage = 0;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #collectedAt = Number.NEGATIVE_INFINITY;
  #freed: NodeJS.Timeout | undefined;

  constructor(
    growth: number,
    makeRoom: MakeRoom = () => {},
    measure?: () => number,
    live: () => number = measure ?? liveBytes,
  ) {
    this.#growth = growth;
    this.limit = HELD * growth;
    this.makeRoom = makeRoom;
    this.#measure = measure ?? processBytes;
    this.#live = live;
    this.#needed = this.#measure();
    this.#dead = this.#needed - live();
    this.#observer = watchCollections(() => this.#collected());
  }

  close(): void {
    this.#observer.disconnect();
    clearTimeout(this.#freed);
  }

  /**
   * Something has started that stays: threads, the memory of a kernel. What the engine does not
   * know of that is counted as needed.
   */
  started(): void {
    this.#dead = Math.max(this.#dead, this.#measure() - this.#live());
    this.#settle();
  }

  /**
   * So many bytes have come to stay for a while, or, negative, are gone, which are none of the
   * requests' and have a limit of their own: evaluation keys.
   */
  keep(bytes: number): void {
    this.#needed += bytes;
    this.#dead += bytes;
  }

  /** Garbage that is not held by anybody: what was copied, say. */
  litter(bytes: number): void {
    this.#garbage += bytes;
  }

  #collect(): void {
    const now = performance.now();
    if (this.#garbage < MIN_GARBAGE || now - this.#collectedAt < COLLECT_MS) return;
    this.#collectedAt = now;
    collect();
    this.#collected();
  }

  #collected(): void {
    this.#garbage = 0;
    this.#freed ??= setTimeout(() => {
      this.#freed = undefined;
      this.#settle();
    }, FREED_MS).unref();
  }

  /** Learns what the process needs: right after a collection, all that is not held or garbage. */
  #settle(): void {
    // The engine frees what it collects, but the allocator keeps it.
    returnFreedMemory();
    const bytes = this.#measure();
    const isQuiet = this.#held < QUIET * this.limit && this.#garbage < MIN_GARBAGE;
    if (isQuiet) this.#needed = Math.min(bytes, this.#dead + this.#live()) - this.#held;
    this.#grown = bytes - this.#needed;
  }

  #look(): void {
    const now = performance.now();
    if (now - this.#lookedAt < LOOK_MS) return;
    this.#lookedAt = now;
    this.#grown = this.#measure() - this.#needed;
  }

  /** Before something is taken: collects garbage where the process has grown too much. */
  prepare(): void {
    this.#look();
    if (this.#grown > LITTERED * this.#growth) this.#collect();
  }

  /**
   * Whether the process has no room for so many bytes. It collects what it can, for the next time.
   */
  isOver(bytes: number): boolean {
    if (this.#grown + bytes <= FULL * this.#growth) return false;
    this.#collect();
    return true;
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
    const isLittle = callersOwn + bytes <= LITTLE * limit;
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
    if (this.#bytes + bytes > this.#memory.limit)
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
 * the engine's space for young objects stays as it is, where it would grow under load and stay so.
 * For the whole process, so `hers serve` calls it, and `startServer` does not (docs/tuning.md).
 */
export function keepProcessSmall(): void {
  returnFreedMemory();
  setFlagsFromString('--semi-space-growth-factor=1');
}
