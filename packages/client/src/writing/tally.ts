// What an upsert did, over all of its commits: what there was before is compared with what there is
// after, id by id.

import type { Outcome } from './enrolment.ts';

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

export class Tally {
  readonly #before = new Map<string, string | undefined>();
  readonly #after = new Map<string, string>();
  #given = 0;

  /** A commit: how many records it was given, and what it did to each id. */
  add(given: number, outcomes: readonly Outcome[]): void {
    this.#given += given;
    for (const { id, before, after } of outcomes) {
      if (!this.#after.has(id)) this.#before.set(id, before);
      this.#after.set(id, after);
    }
  }

  get result(): UpsertResult {
    let [inserted, replaced, unchanged] = [0, 0, 0];
    for (const [id, after] of this.#after) {
      const before = this.#before.get(id);
      if (before === undefined) inserted++;
      else if (before === after) unchanged++;
      else replaced++;
    }
    return { written: inserted + replaced, inserted, replaced, unchanged, repeated: this.#given - this.#after.size };
  }
}
