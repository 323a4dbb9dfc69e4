// Requests under way, by caller: a token, or an address where there are no tokens. A caller has so many at a time; when it has more, or memory is short, the slowest gives way, so that
// clients who send or read slowly on purpose hold up nobody but themselves.

import { Overloaded, Rates } from './gate.ts';
import { Hold, Memory } from './memory.ts';
import { Pace } from './pace.ts';

export interface GuestLimits {
  readonly requests: number;
  readonly requestsPerSecond: number;
  readonly memoryBytes: number;
}

/** One request under way. */
export class Guest {
  readonly caller: string;
  readonly pace = new Pace();
  readonly hold: Hold;
  /** Ends when the client is gone, the request has taken too long, or had to make room. */
  readonly ending = new AbortController();
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

  giveWay(): void {
    this.ending.abort(new Overloaded('others need the room, and this request moves slowly', 1));
    this.leave();
  }
}

export class Guests {
  readonly memory: Memory;
  readonly #atOnce: number;
  readonly #perSecond: number;
  readonly #rates: Rates;
  readonly #callers = new Map<string, Set<Guest>>();

  constructor({ requests, requestsPerSecond, memoryBytes }: GuestLimits) {
    this.#atOnce = requests;
    this.#perSecond = requestsPerSecond;
    this.#rates = new Rates(requestsPerSecond);
    this.memory = new Memory(memoryBytes, (caller) => this.#makeRoom(caller, ({ hold }) => hold.bytes > 0));
  }

  /** Lets a request in. OVERLOADED where its caller has too many, and none of them is slow. */
  enter(caller: string): Guest {
    const seconds = this.#rates.take(caller);
    if (seconds > 0) throw new Overloaded(`this caller sends more than ${this.#perSecond} requests a second`, seconds);
    if ((this.#callers.get(caller)?.size ?? 0) >= this.#atOnce && !this.#makeRoom(caller))
      throw new Overloaded(`this caller has ${this.#atOnce} requests under way already`, 1);
    const guest = new Guest(caller, this.memory, (each) => this.#left(each));
    const guests = this.#callers.get(caller);
    if (guests) guests.add(guest);
    else this.#callers.set(caller, new Set([guest]));
    return guest;
  }

  #left(guest: Guest): void {
    const guests = this.#callers.get(guest.caller);
    guests?.delete(guest);
    if (guests?.size === 0) this.#callers.delete(guest.caller);
  }

  /** Ends the slowest request, of one caller or of all. */
  #makeRoom(caller: string | undefined, counts: (guest: Guest) => boolean = () => true): boolean {
    const sets = caller === undefined ? this.#callers.values() : [this.#callers.get(caller) ?? []];
    let slowest: Guest | undefined;
    for (const guests of sets)
      for (const guest of guests)
        if (counts(guest) && guest.pace.givesWay && !(slowest && slowest.pace.rate <= guest.pace.rate)) slowest = guest;
    slowest?.giveWay();
    return slowest !== undefined;
  }
}
