// Byte strings in a stream of bytes, each after its length, a u32. Snapshots and HTTP bodies are
// made of them.

import { HersError } from '@hers/scheme';
import type { Many } from './service.ts';

/** Length and bytes, as one piece. */
export function frame(bytes: Uint8Array): Uint8Array {
  const out = new Uint8Array(4 + bytes.length);
  new DataView(out.buffer).setUint32(0, bytes.length, true);
  out.set(bytes, 4);
  return out;
}

/** Memory reserved because of a stated length; beyond that, only as bytes come. */
const AT_ONCE_BYTES = 2 ** 20;

/** The same bytes with more capacity. If the engine can, the old memory is released at once. */
export function grown(bytes: Uint8Array<ArrayBuffer>, room: number): Uint8Array<ArrayBuffer> {
  const { buffer } = bytes;
  if (typeof buffer.transfer === 'function' && bytes.length === buffer.byteLength)
    return new Uint8Array(buffer.transfer(room));
  const larger = new Uint8Array(room);
  larger.set(bytes);
  return larger;
}

/**
 * Gives the memory of arrays back at once, where nobody needs them any more. Otherwise the engine
 * looks through its whole heap for such memory whenever some 64 MB of it have come. They are empty
 * afterwards. Arrays that share their memory with others stay as they are, and all do on an engine
 * that cannot. Says whether it was done for all.
 */
export function freeBytes(...arrays: readonly ArrayBufferView[]): boolean {
  let isDone = true;
  for (const { buffer, byteLength } of arrays)
    if (buffer instanceof ArrayBuffer && byteLength === buffer.byteLength && canFree) buffer.transfer(0);
    else isDone = false;
  return isDone;
}

/** Since Node 21. */
const canFree = 'transfer' in ArrayBuffer.prototype;

/** Frames up to this size are put together in memory that is used again, if nobody keeps them. */
const SCRATCH_BYTES = 2 ** 16;

/** How frames are handed out. */
type Handing = 'copies' | 'views' | 'passing';

/** Decodes frames, piece by piece. */
class FrameReader {
  readonly #limit: number;
  readonly #hold: (bytes: number) => void;
  readonly #handing: Handing;
  readonly #head = new Uint8Array(4);
  /** Two: while one is in use, the next frame may begin. */
  readonly #scratch: Uint8Array<ArrayBuffer>[] = [];
  #turn = 0;
  #headFilled = 0;
  #content: Uint8Array<ArrayBuffer> | undefined;
  #wanted = 0;
  #filled = 0;
  #held = 0;

  constructor(limit: number, hold: (bytes: number) => void, handing: Handing) {
    this.#limit = limit;
    this.#hold = hold;
    this.#handing = handing;
  }

  /** Memory for a frame that does not lie in one piece. */
  #room(bytes: number): Uint8Array<ArrayBuffer> {
    if (this.#handing !== 'passing' || bytes > SCRATCH_BYTES) return new Uint8Array(bytes);
    this.#turn = 1 - this.#turn;
    return (this.#scratch[this.#turn] ??= new Uint8Array(SCRATCH_BYTES)).subarray(0, bytes);
  }

  #become(bytes: number): void {
    this.#hold(bytes - this.#held);
    this.#held = bytes;
  }

  /**
   * The frames that end in this piece: copies, because a stream of single bytes would keep a large
   * buffer alive for each; or views of the piece, of those that lie in it.
   */
  *frames(piece: Uint8Array): Generator<Uint8Array> {
    const isView = this.#handing !== 'copies';
    for (let at = 0; at < piece.length; ) {
      if (!this.#content) {
        if (this.#headFilled === 0 && piece.length - at >= 4)
          this.#wanted = (piece[at]! | (piece[at + 1]! << 8) | (piece[at + 2]! << 16) | (piece[at + 3]! << 24)) >>> 0;
        const isWhole = this.#headFilled === 0 && this.#wanted <= piece.length - at - 4;
        if (isView && isWhole && piece.length - at >= 4) {
          this.#checkWanted();
          at += 4 + this.#wanted;
          yield piece.subarray(at - this.#wanted, at);
          continue;
        }
        const use = Math.min(this.#head.length - this.#headFilled, piece.length - at);
        this.#head.set(piece.subarray(at, at + use), this.#headFilled);
        this.#headFilled += use;
        at += use;
        if (this.#headFilled < this.#head.length) break;
        this.#wanted = new DataView(this.#head.buffer).getUint32(0, true);
        this.#checkWanted();
        const room = Math.min(this.#wanted, Math.max(AT_ONCE_BYTES, piece.length - at));
        this.#become(room);
        this.#content = this.#room(room);
        this.#filled = 0;
      }
      const use = Math.min(this.#wanted - this.#filled, piece.length - at);
      if (this.#filled + use > this.#content.length) {
        const room = Math.min(this.#wanted, Math.max(2 * this.#content.length, this.#filled + use));
        this.#become(this.#content.length + room);
        this.#content = grown(this.#content, room);
        this.#become(room);
      }
      this.#content.set(piece.subarray(at, at + use), this.#filled);
      this.#filled += use;
      at += use;
      if (this.#filled < this.#wanted) break;
      const whole = this.#content;
      this.#content = undefined;
      this.#headFilled = 0;
      yield whole;
      this.#become(0);
    }
  }

  #checkWanted(): void {
    if (this.#wanted > this.#limit)
      throw new HersError(
        'MALFORMED',
        `a part of this stream claims ${this.#wanted} bytes; at most ${this.#limit} are allowed`,
      );
  }

  checkEnd(): void {
    if (this.#headFilled > 0)
      throw new HersError('MALFORMED', 'this stream ends in the middle of a part; was it cut off?');
  }

  release(): void {
    this.#become(0);
  }
}

/**
 * Decodes frames from pieces cut anywhere. A frame that is longer than `limit`, or truncated, is
 * MALFORMED. `hold` is called with the memory that a frame takes, and, negative, when it is
 * released.
 */
export async function* unframe(
  pieces: Many<Uint8Array>,
  limit: number = 2 ** 28,
  hold: (bytes: number) => void = () => {},
): AsyncGenerator<Uint8Array> {
  const reader = new FrameReader(limit, hold, 'copies');
  try {
    for await (const piece of pieces) yield* reader.frames(piece);
  } finally {
    reader.release();
  }
  reader.checkEnd();
}

/**
 * The same frames, all that end in one piece together, without a promise and memory of its own for
 * each. Many are views of the piece: the caller copies what it keeps before it asks for more. With
 * `passing` the others are overwritten later, too.
 */
export async function* unframeGroups(
  pieces: Many<Uint8Array>,
  limit: number = 2 ** 28,
  hold: (bytes: number) => void = () => {},
  passing: boolean = false,
): AsyncGenerator<Uint8Array[]> {
  const reader = new FrameReader(limit, hold, passing ? 'passing' : 'views');
  try {
    for await (const piece of pieces) {
      let group: Uint8Array[] = [];
      for (const frame of reader.frames(piece)) {
        group.push(frame);
        if (frame.length <= AT_ONCE_BYTES) continue;
        // What is large counts as held until the caller is done with it.
        yield group;
        group = [];
      }
      if (group.length > 0) yield group;
    }
  } finally {
    reader.release();
  }
  reader.checkEnd();
}

/** Things that come in groups: whoever takes whole groups needs no promise for each thing. */
export class Grouped<T> implements AsyncIterable<T> {
  readonly groups: () => AsyncIterable<readonly T[]>;
  readonly #check: () => void;

  /** `check` throws when no more of a group may be given out. */
  constructor(groups: () => AsyncIterable<readonly T[]>, check: () => void = () => {}) {
    this.groups = groups;
    this.#check = check;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for await (const group of this.groups())
      for (const each of group) {
        yield each;
        this.#check();
      }
  }
}

/**
 * Returns things as they come, so that one loop in another takes them all without a promise for
 * each that is there already: in their groups if they have any, those of an iterable together, and
 * those of a stream one by one.
 */
export function groupsOf<T>(things: AsyncIterable<T>): AsyncIterable<readonly T[]>;
export function groupsOf<T>(things: Many<T>): AsyncIterable<Iterable<T>>;
export async function* groupsOf<T>(things: Many<T>): AsyncIterable<Iterable<T>> {
  if (things instanceof Grouped) yield* things.groups();
  else if (Symbol.asyncIterator in things) for await (const thing of things) yield [thing];
  else yield things;
}

/** Things that can be had again: whoever iterates once more gets the same from the start. */
export class Renewable<T> implements Iterable<T> {
  readonly #make: () => Iterable<T>;

  constructor(make: () => Iterable<T>) {
    this.#make = make;
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#make()[Symbol.iterator]();
  }
}

/** Things whose frames are there already, whole frames in each piece. */
export class Framed<T> extends Renewable<T> {
  readonly frames: () => Iterable<Uint8Array>;

  constructor(make: () => Iterable<T>, frames: () => Iterable<Uint8Array>) {
    super(make);
    this.frames = frames;
  }
}
