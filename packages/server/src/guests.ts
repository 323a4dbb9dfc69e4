// Requests under way, by caller: a token, or an address where there are no tokens. A caller has so
// many at a time; when it has more, or memory is short, the slowest gives way, so that clients who
// send or read slowly on purpose hold up nobody but themselves.

import { Pace } from './body.ts';
import { Overloaded } from './errors.ts';
import { half } from './limits.ts';
import { Hold, Memory } from './memory.ts';

/** Callers that are remembered before the quiet ones are forgotten. */
const MANY = 1024;
const QUIET_MS = 2000;

/**
 * How fast requests of each caller come: a bucket that fills with `perSecond` and holds twice that.
 */
export class Rates {
  readonly #perSecond: number;
  readonly #buckets = new Map<string, { left: number; since: number }>();

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** Zero when one more may come, else the seconds until then. */
  take(caller: string, now: number = performance.now()): number {
    const most = 2 * this.#perSecond;
    if (this.#buckets.size >= MANY) this.#forget(now);
    const bucket = this.#buckets.get(caller) ?? { left: most, since: now };
    // Whoever has been quiet for longest comes first.
    this.#buckets.delete(caller);
    this.#buckets.set(caller, bucket);
    bucket.left = Math.min(most, bucket.left + ((now - bucket.since) / 1000) * this.#perSecond);
    bucket.since = now;
    if (bucket.left < 1) return (1 - bucket.left) / this.#perSecond;
    bucket.left--;
    return 0;
  }

  /** Callers that have been quiet for long enough are as good as new. */
  #forget(now: number): void {
    for (const [caller, { since }] of this.#buckets) {
      if (now - since <= QUIET_MS) return;
      this.#buckets.delete(caller);
    }
  }
}

export interface GuestLimits {
  readonly scans: number;
  readonly requests: number;
  readonly requestsPerSecond: number;
  readonly memoryBytes: number;
}

/** What the process takes; of its own, unless a test says otherwise. */
export type Measure = () => number;

export class Guest {
  readonly caller: string;
  readonly pace: Pace = new Pace();
  isHeavy = false;
  readonly hold: Hold;
  /** Ends when the client is gone, the request has taken too long, or had to make room. */
  readonly ending: AbortController = new AbortController();
  readonly #leave: (guest: Guest) => void;

  constructor(caller: string, memory: Memory, leave: (guest: Guest) => void = () => {}) {
    this.caller = caller;
    this.hold = new Hold(memory, caller);
    this.#leave = leave;
  }

  /** It is over, and holds nothing any more. */
  leave(): void {
    this.hold.end();
    this.#leave(this);
  }

  /** Ends it. What it holds counts until it is over, because it is still there. */
  giveWay(): void {
    this.ending.abort(new Overloaded('others need the room, and this request moves slowly', 1));
    this.#leave(this);
  }
}

export class Guests {
  readonly memory: Memory;
  readonly #scans: number;
  readonly #atOnce: number;
  readonly #perSecond: number;
  readonly #rates: Rates;
  readonly #callers = new Map<string, Set<Guest>>();

  constructor({ scans, requests, requestsPerSecond, memoryBytes }: GuestLimits, measure?: Measure) {
    this.#scans = scans;
    this.#atOnce = requests;
    this.#perSecond = requestsPerSecond;
    this.#rates = new Rates(requestsPerSecond);
    const makeRoom = (bytes: number, caller?: string) => {
      for (let left = bytes; left > 0; ) {
        const freed = this.#endSlowest(caller, ({ hold }) => hold.bytes > 0)?.hold.bytes;
        if (freed === undefined) return;
        left -= freed;
      }
    };
    this.memory = new Memory(memoryBytes, makeRoom, measure);
  }

  /** Lets a request in. OVERLOADED where its caller has too many, and none of them is slow. */
  enter(caller: string): Guest {
    const seconds = this.#rates.take(caller);
    if (seconds > 0) throw new Overloaded(`this caller sends more than ${this.#perSecond} requests a second`, seconds);
    if ((this.#callers.get(caller)?.size ?? 0) >= this.#atOnce && !this.#endSlowest(caller))
      throw new Overloaded(`this caller has ${this.#atOnce} requests under way already`, 1);
    const guest = new Guest(caller, this.memory, (each) => this.#left(each));
    const guests = this.#callers.get(caller);
    if (guests) guests.add(guest);
    else this.#callers.set(caller, new Set([guest]));
    return guest;
  }

  /**
   * Makes a guest a heavy one. OVERLOADED where there are too many; the slowest of them makes room
   * for the next.
   */
  load(guest: Guest): void {
    const heavy = (caller: string) => [...(this.#callers.get(caller) ?? [])].filter(({ isHeavy }) => isHeavy).length;
    let all = 0;
    for (const caller of this.#callers.keys()) all += heavy(caller);
    const isOwn = heavy(guest.caller) >= half(this.#scans);
    if (isOwn || all >= this.#scans) {
      this.#endSlowest(isOwn ? guest.caller : undefined, ({ isHeavy }) => isHeavy);
      throw new Overloaded('as many snapshots as may be are read or restored already', 1);
    }
    guest.isHeavy = true;
  }

  #left(guest: Guest): void {
    const guests = this.#callers.get(guest.caller);
    guests?.delete(guest);
    if (guests?.size === 0) this.#callers.delete(guest.caller);
  }

  /** Ends the slowest request, of one caller or of all, if one is slow. */
  #endSlowest(caller: string | undefined, counts: (guest: Guest) => boolean = () => true): Guest | undefined {
    const sets = caller === undefined ? this.#callers.values() : [this.#callers.get(caller) ?? []];
    let slowest: Guest | undefined;
    for (const guests of sets)
      for (const guest of guests)
        if (counts(guest) && guest.pace.givesWay && !(slowest && slowest.pace.rate <= guest.pace.rate)) slowest = guest;
    slowest?.giveWay();
    return slowest;
  }
}
