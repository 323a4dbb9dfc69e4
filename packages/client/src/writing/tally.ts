// What an upsert did, over all of its commits: what there was before is compared with what there is
// after, id by id.

import type { Outcome } from './enrolment.ts';

/** What became of the records that were given. */
export interface UpsertResult {
  /** Records that are new or have new content: those inserted and those replaced. */
  readonly written: number;
  /** Records whose id was not there. */
  readonly inserted: number;
  /** Records whose id was there with another content. */
  readonly replaced: number;
  /** Records that were there already, exactly so. */
  readonly unchanged: number;
  /** Records given in vain, because their id came again later: the last of each id counts. */
  readonly repeated: number;
}

const FIRST_SIZE = 2 ** 10;
/** Of the table that is filled before it doubles. */
const LOAD = 0.7;
/** What has become of a record; zero is a free place. */
const INSERTED = 1;
const UNCHANGED = 2;
const REPLACED = 3;

/**
 * A table over typed arrays, because an upsert may have more records than a `Map` entries. Handles
 * and versions are keyed hashes, of which the first 64 bits are enough to count by.
 */
export class Tally {
  #handles = new Uint32Array(2 * FIRST_SIZE);
  #before = new Uint32Array(2 * FIRST_SIZE);
  #states = new Uint8Array(FIRST_SIZE);
  #size = 0;
  #given = 0;

  /** A commit: how many records it was given, and what it did to each. */
  add(given: number, outcomes: readonly Outcome[]): void {
    this.#given += given;
    for (const { handle, before, after } of outcomes) {
      const [high, low] = [wordOf(handle, 0), wordOf(handle, 1)];
      const at = this.#find(high, low);
      if (this.#states[at] === 0) {
        this.#size++;
        this.#handles[2 * at] = high;
        this.#handles[2 * at + 1] = low;
        if (before === undefined) this.#states[at] = INSERTED;
        else {
          this.#before[2 * at] = wordOf(before, 0);
          this.#before[2 * at + 1] = wordOf(before, 1);
        }
      }
      if (this.#states[at] !== INSERTED) this.#states[at] = this.#isBefore(at, after) ? UNCHANGED : REPLACED;
      if (this.#size > LOAD * this.#states.length) this.#double();
    }
  }

  #isBefore(at: number, version: string): boolean {
    return this.#before[2 * at] === wordOf(version, 0) && this.#before[2 * at + 1] === wordOf(version, 1);
  }

  /** Where it is, or would be. */
  #find(high: number, low: number): number {
    const mask = this.#states.length - 1;
    let at = high & mask;
    while (this.#states[at] !== 0 && (this.#handles[2 * at] !== high || this.#handles[2 * at + 1] !== low))
      at = (at + 1) & mask;
    return at;
  }

  #double(): void {
    const [handles, before, states] = [this.#handles, this.#before, this.#states];
    this.#handles = new Uint32Array(2 * handles.length);
    this.#before = new Uint32Array(2 * before.length);
    this.#states = new Uint8Array(2 * states.length);
    for (let from = 0; from < states.length; from++) {
      const state = states[from];
      if (state === 0) continue;
      const at = this.#find(handles[2 * from], handles[2 * from + 1]);
      for (const word of [0, 1]) {
        this.#handles[2 * at + word] = handles[2 * from + word];
        this.#before[2 * at + word] = before[2 * from + word];
      }
      this.#states[at] = state;
    }
  }

  get result(): UpsertResult {
    const counts = [0, 0, 0, 0];
    for (const state of this.#states) counts[state]++;
    const [inserted, unchanged, replaced] = [counts[INSERTED], counts[UNCHANGED], counts[REPLACED]];
    return { written: inserted + replaced, inserted, replaced, unchanged, repeated: this.#given - this.#size };
  }
}

/** Eight hexadecimal digits of many, lower case. A text of its own for each would take longer. */
function wordOf(digits: string, word: number): number {
  let value = 0;
  for (let i = 8 * word; i < 8 * word + 8; i++) {
    const code = digits.charCodeAt(i);
    value = (value << 4) | (code < 0x3a ? code - 0x30 : code - 0x57);
  }
  return value >>> 0;
}
