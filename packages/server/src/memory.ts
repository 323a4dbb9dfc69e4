// What is held in memory for requests, all together: bodies, what they are unpacked to, what is on its way to clients. Whoever takes more asks first.

import { HersError } from '@hers/service';
import { Overloaded } from './gate.ts';

/** Asked to end something that holds memory, for this caller or, without one, for anybody; says whether it could. */
export type MakeRoom = (caller?: string) => boolean;

export class Memory {
  readonly limit: number;
  readonly makeRoom: MakeRoom;
  readonly #callers = new Map<string, number>();
  #held = 0;

  constructor(limit: number, makeRoom: MakeRoom = () => false) {
    this.limit = limit;
    this.makeRoom = makeRoom;
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

  /** Counts what is there already, or is gone. */
  add(caller: string, bytes: number): void {
    this.#held += bytes;
    const held = this.heldBy(caller) + bytes;
    if (held > 0) this.#callers.set(caller, held);
    else this.#callers.delete(caller);
  }
}

/** What one request holds. */
export class Hold {
  readonly #memory: Memory;
  readonly #caller: string;
  #bytes = 0;
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

  /** Bytes that are about to be taken; below zero, given back. One caller has at most half of all; but whoever holds nothing else may have one thing of any size. */
  take(bytes: number): void {
    // One that has ended counts for nothing any more.
    if (this.#ended) {
      if (bytes > 0) throw new Overloaded('this request had to make room for others', 1);
      return;
    }
    const { limit, makeRoom } = this.#memory;
    while (bytes > 0 && this.#memory.held + bytes > limit && this.#memory.held > this.#bytes)
      if (!makeRoom()) throw new Overloaded('the server holds as much in memory as it may', 1);
    while (bytes > 0 && this.#callersOwn + bytes > limit / 2 && this.#callersOwn > this.#bytes)
      if (!makeRoom(this.#caller)) throw new Overloaded('this caller holds as much memory as one may', 1);
    this.add(bytes);
  }

  /** The same for what a request only unpacks to: never more than the limit, not even for one that is alone. */
  takeWithin(bytes: number, what: string): void {
    if (this.#bytes + bytes > this.#memory.limit)
      throw new HersError(
        'TOO_LARGE',
        `${what} are more than fit into the memory of this server; send fewer at a time`,
      );
    this.take(bytes);
  }

  get #callersOwn(): number {
    return this.#memory.heldBy(this.#caller);
  }

  /** Counts without asking. */
  add(bytes: number): void {
    if (this.#ended) return;
    this.#bytes += bytes;
    this.#memory.add(this.#caller, bytes);
  }

  /** All of it is given back. */
  end(): void {
    if (this.#ended) return;
    this.#memory.add(this.#caller, -this.#bytes);
    this.#bytes = 0;
    this.#ended = true;
  }
}
