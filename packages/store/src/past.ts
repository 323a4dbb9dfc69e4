// What the blocks of a shard were until a short while ago. A search that began at a version of that
// time, on another machine, is still answered for it; otherwise enrolment would make every search
// STALE. Dropped blocks keep their files for as long.
//
// A plain folder does without: it answers from the moment at which the version is compared, so
// there is no time in between, and what was deleted is gone from the disk at once.

import type { StoredBlock } from './blocks/source.ts';

const KEPT_MS = 30_000;

interface Step {
  /** The versions before and after it; of those in between, the shard saw nothing. */
  readonly from: number;
  readonly to: number;
  readonly added: ReadonlySet<string>;
  readonly dropped: readonly StoredBlock[];
  readonly at: number;
}

export class Past {
  #steps: Step[] = [];
  #timer: NodeJS.Timeout | undefined;
  readonly #released: () => Promise<void>;

  /** `released` is called when blocks are no longer kept. */
  constructor(released: () => Promise<void>) {
    this.#released = released;
  }

  /** A change took the collection on from a version to another. */
  add(step: Omit<Step, 'at'>, now: number = performance.now()): void {
    for (const block of step.dropped) block.source.kept.add(block);
    this.#steps.push({ ...step, at: now });
    void this.#expire(now);
    this.#timer ??= setInterval(() => this.#expire(), KEPT_MS).unref();
  }

  #expire(now: number = performance.now()): Promise<void> {
    const young = this.#steps.findIndex(({ at }) => now - at < KEPT_MS);
    return this.#release(young < 0 ? this.#steps.length : young);
  }

  async #release(count: number): Promise<void> {
    const gone = this.#steps.splice(0, count);
    for (const { dropped } of gone) for (const block of dropped) block.source.kept.delete(block);
    if (this.#steps.length === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    if (gone.some(({ dropped }) => dropped.length > 0)) await this.#released();
  }

  /** Keeps nothing any more. Resolves when the files are gone, except those still being read. */
  clear(): Promise<void> {
    return this.#release(this.#steps.length);
  }

  /**
   * The blocks at an earlier version, of which nothing is known if it is too old. `blocks` are
   * those of now.
   */
  blocksAt(version: number, blocks: ReadonlyMap<string, StoredBlock>): Map<string, StoredBlock> | undefined {
    if (!this.#steps.some(({ from }) => from <= version)) return undefined;
    const then = new Map(blocks);
    for (const { to, added, dropped } of this.#steps.toReversed()) {
      if (to <= version) break;
      for (const name of added) then.delete(name);
      for (const block of dropped) then.set(block.name, block);
    }
    return then;
  }
}
