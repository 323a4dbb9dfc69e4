// Parses the catalogue's write-ahead log as SQLite does
// (https://sqlite.org/fileformat.html#the_write_ahead_log), to learn which pages it holds and
// whether it is damaged. SQLite takes the first frame that does not match for the end of the log.
// After a crash that is right. In a damaged log it would silently drop acknowledged commits.

import { readSync } from 'node:fs';

const HEADER = 32;
const FRAME_HEADER = 24;
// Checksums over little-endian words, as on every machine HERS runs on.
const MAGIC = 0x377f0682;

export interface WalContent {
  /** Offsets of the last committed content of each page. */
  readonly pages: ReadonlyMap<number, number>;
  /** Pages of the database after the last commit; 0 if the log is empty. */
  readonly databasePages: number;
  /** What is wrong with it, apart from what a crash explains. */
  readonly damage?: string;
}

export const EMPTY_WAL: WalContent = { pages: new Map(), databasePages: 0 };

/** SQLite's checksum, continued over pieces. */
class Sum {
  a = 0;
  b = 0;

  add(words: Uint32Array, from: number, to: number): void {
    let { a, b } = this;
    for (let i = from; i < to; i += 2) {
      a = (a + words[i] + b) | 0;
      b = (b + words[i + 1] + a) | 0;
    }
    this.a = a;
    this.b = b;
  }

  /** The stored words have the other byte order. */
  fits(view: DataView, at: number): boolean {
    return view.getInt32(at) === this.a && view.getInt32(at + 4) === this.b;
  }
}

/** The log in the open file `file` of `size` bytes; at most `most` of its frames. */
export function readWal(file: number, size: number, most: number = Number.POSITIVE_INFINITY): WalContent {
  if (size <= HEADER || most === 0) return EMPTY_WAL;
  const head = new DataView(new ArrayBuffer(HEADER));
  readSync(file, head, 0, HEADER, 0);
  const sum = new Sum();
  sum.add(new Uint32Array(head.buffer), 0, 6);
  // The header is on disk before the first frame is written.
  if (head.getUint32(0) !== MAGIC || !sum.fits(head, 24)) return { ...EMPTY_WAL, damage: 'its header does not fit' };

  const length = FRAME_HEADER + head.getUint32(8);
  const ahead = new ReadAhead(file, size, length);
  const { words, view } = ahead;
  const isOurs = (frame: number) =>
    view.getUint32(frame + 8) === head.getUint32(16) && view.getUint32(frame + 12) === head.getUint32(20);
  const pages = new Map<number, number>();
  let waiting: [number, number][] = []; // pages of a transaction that has not ended yet
  let databasePages = 0;
  let at = HEADER;
  for (; at + length <= size && (at - HEADER) / length < most; at += length) {
    const frame = ahead.at(at);
    sum.add(words, frame / 4, frame / 4 + 2);
    sum.add(words, (frame + FRAME_HEADER) / 4, (frame + length) / 4);
    if (!isOurs(frame) || !sum.fits(view, frame + 16)) break;
    waiting.push([view.getUint32(frame), at + FRAME_HEADER]);
    const after = view.getUint32(frame + 4);
    if (after === 0) continue;
    for (const [page, where] of waiting) pages.set(page, where);
    waiting = [];
    databasePages = after;
  }

  // Frames after the end of a transaction are written only once that transaction is on disk. If the
  // mismatch is before such an end, it is not due to a crash.
  let ended = false;
  for (; at + length <= size; at += length) {
    const frame = ahead.at(at);
    if (!isOurs(frame)) continue;
    if (ended) return { pages, databasePages, damage: 'commits that were acknowledged cannot be read' };
    ended = view.getUint32(frame + 4) !== 0;
  }
  return { pages, databasePages };
}

// Small pieces of an open file, which are read in about their order: one call for each would take
// longer than what is done with them.

const AHEAD_BYTES = 2 ** 20;

export class ReadAhead {
  readonly bytes: Uint8Array;
  readonly words: Uint32Array;
  readonly view: DataView;
  readonly #file: number;
  readonly #size: number;
  readonly #piece: number;
  #from = 0;
  #until = 0;

  /** Of a file of `size` bytes, in pieces of `piece` bytes, a multiple of four. */
  constructor(file: number, size: number, piece: number) {
    this.#file = file;
    this.#size = size;
    this.#piece = piece;
    const together = Math.max(1, Math.floor(Math.min(AHEAD_BYTES, size) / piece));
    const buffer = new ArrayBuffer(together * piece);
    this.bytes = new Uint8Array(buffer);
    this.words = new Uint32Array(buffer);
    this.view = new DataView(buffer);
  }

  /** Where the piece at `position` of the file lies in `bytes`, until another is asked for. */
  at(position: number): number {
    if (position < this.#from || position + this.#piece > this.#until || (position - this.#from) % 4 !== 0) {
      const length = Math.min(this.bytes.length, this.#size - position);
      // What the file no longer holds must not look like what was read before.
      const got = readSync(this.#file, this.bytes, 0, Math.max(0, length), position);
      this.bytes.fill(0, got);
      this.#from = position;
      this.#until = position + this.bytes.length;
    }
    return position - this.#from;
  }
}
