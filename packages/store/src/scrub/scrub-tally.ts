// Checks that the records of a pack are those that the catalogue names there. A lookup in the
// B-tree for each would take longer than reading the pack. Instead a hash of every record is summed
// on both sides. The sums do not depend on the order, so both sides are read front to back.

import { HANDLE_BYTES } from '@hers/service';
import { pausing } from '../base/serial-queue.ts';
import type { Collection } from '../collection.ts';
import { encodePlace, type Place } from '../files/entry.ts';
import { ROW_BYTES } from '../files/vault.ts';

/** Rows of the catalogue read at once, which blocks the event loop for a few milliseconds. */
const SLICE = 2 ** 13;
const ROW_WORDS = ROW_BYTES / 4;
const PACK_WORD = HANDLE_BYTES / 4;
const SEEDS = [0x243f6a88, 0x13198a2e];

/** The sums of two hashes of each handle and place, modulo 2^32. */
export interface Sum {
  readonly records: number;
  readonly first: number;
  readonly second: number;
}

export class Tally implements Sum {
  readonly #row = Buffer.alloc(ROW_BYTES);
  readonly #words = new Uint32Array(this.#row.buffer, this.#row.byteOffset, ROW_WORDS);
  records = 0;
  first = 0;
  second = 0;

  add(handle: Uint8Array, place: Place): void {
    this.#row.set(handle);
    encodePlace(place, this.#row, HANDLE_BYTES);
    this.addWords(this.#words, 0);
  }

  /** The row that begins at this word. */
  addWords(words: Uint32Array, at: number): void {
    this.addAll({ records: 1, first: hash(words, at, SEEDS[0]), second: hash(words, at, SEEDS[1]) });
  }

  addAll({ records, first, second }: Sum): void {
    this.records += records;
    this.first = (this.first + first) >>> 0;
    this.second = (this.second + second) >>> 0;
  }

  get sum(): Sum {
    const { records, first, second } = this;
    return { records, first, second };
  }

  equals(other: Sum = NOTHING): boolean {
    return this.records === other.records && this.first === other.first && this.second === other.second;
  }
}

const NOTHING: Sum = { records: 0, first: 0, second: 0 };

const rotated = (word: number, bits: number) => (word << bits) | (word >>> (32 - bits));

/** MurmurHash3 (x86, 32 bits) of a row: XXH64 would take six times as long for so few bytes. */
function hash(words: Uint32Array, at: number, seed: number): number {
  let h = seed;
  for (let i = 0; i < ROW_WORDS; i++) {
    h ^= Math.imul(rotated(Math.imul(words[at + i], 0xcc9e2d51), 15), 0x1b873593);
    h = (Math.imul(rotated(h, 13), 5) + 0xe6546b64) | 0;
  }
  h ^= ROW_BYTES;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** What the catalogue names, by pack. Nothing may be merged into its B-tree during this. */
export async function talliesOf({ tables }: Collection, signal: AbortSignal): Promise<Map<number, Sum>> {
  const tallies = new Map<number, Tally>();
  const pause = pausing(signal);
  for (let part = tables.recordsAfter(new Uint8Array(0), SLICE); part; ) {
    const words = new Uint32Array(new Uint8Array(part.rows).buffer);
    for (let at = 0; at < words.length; at += ROW_WORDS) {
      const pack = words[at + PACK_WORD];
      let tally = tallies.get(pack);
      if (!tally) tallies.set(pack, (tally = new Tally()));
      tally.addWords(words, at);
    }
    await pause();
    part = tables.recordsAfter(part.last, SLICE);
  }
  return tallies;
}
