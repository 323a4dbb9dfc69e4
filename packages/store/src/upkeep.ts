// Background work on a collection: merges of its records and compactions of its blocks, after
// commits and when it is quiet.

import { HersError } from '@hers/service';
import { pausing } from './base/serial-queue.ts';
import type { StoredBlock } from './blocks/source.ts';
import type { Collection } from './collection.ts';
import { type CompactionMode, compact, planCompaction } from './compaction.ts';

/** After this long without a commit, a collection gets further upkeep. */
const QUIET_MS = 1000;
/** Fresh records that are merged when it is quiet; fewer are no burden. */
const MERGE_WHEN_QUIET = 2 ** 12;

/** Blocks that wait for a segment. Searches keep them in memory. */
const MAX_LOOSE_BYTES = 2 ** 29;
/** Records that may change during a snapshot: a few hundred megabytes of memory. */
const MAX_FRESH_WHILE_COPIED = 2 ** 21;

export class Upkeep {
  readonly #collection: Collection;
  readonly #report: (error: unknown) => void;
  readonly #quietMs: number;
  #timer: NodeJS.Timeout | undefined;
  #merging = false;
  #compacting = false;

  constructor(collection: Collection, trouble: (error: unknown) => void, quietMs: number = QUIET_MS) {
    this.#collection = collection;
    this.#report = trouble;
    this.#quietMs = quietMs;
  }

  touch(): void {
    clearTimeout(this.#timer);
    if (this.#collection.ending.signal.aborted) return;
    this.#timer = setTimeout(() => this.#tidy(), this.#quietMs).unref();
    if (this.#collection.records.ripe) this.#merge();
    if (planCompaction(this.#looseBlocks(), 'busy').length > 0) this.#compact('busy');
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Waits for running work if so much has piled up that memory would grow. */
  async ease(): Promise<void> {
    const { records, upkeepQueue: upkeep, beingCopied, sources } = this.#collection;
    let loose = 0;
    for (const { inSegment, bytes } of sources) if (!inSegment) loose += bytes;
    if (loose > MAX_LOOSE_BYTES) await upkeep.idle();
    if (!records.overdue) return;
    if (!beingCopied) await records.idle();
    else if (records.fresh > MAX_FRESH_WHILE_COPIED)
      this.#collection.stopSnapshots(
        new HersError('STALE', 'so much was written during this snapshot that it cannot be kept apart; take it again'),
      );
  }

  #tidy(): void {
    if (this.#collection.records.fresh >= MERGE_WHEN_QUIET) this.#merge();
    this.#compact('quiet');
  }

  *#looseBlocks(): Generator<StoredBlock> {
    for (const { inSegment, live } of this.#collection.sources) if (!inSegment) yield* live;
  }

  #merge(): void {
    if (this.#merging) return;
    this.#merging = true;
    const { records, ending } = this.#collection;
    this.#watch(
      records.merge(pausing(ending.signal)).finally(() => {
        this.#merging = false;
      }),
    );
  }

  #compact(mode: CompactionMode): void {
    if (this.#compacting) return;
    this.#compacting = true;
    const { upkeepQueue: upkeep, ending } = this.#collection;
    const compaction = upkeep.run(async () => {
      this.#compacting = false;
      await compact(this.#collection, mode, ending.signal);
    });
    this.#watch(compaction);
  }

  /**
   * On a full disk or an unreadable file nothing is lost: the next commit tries again, and calls
   * that need the file fail.
   */
  #watch(work: Promise<void>): void {
    work.catch((error) => {
      if (!this.#collection.ending.signal.aborted) this.#report(error);
    });
  }
}

/** Prints on standard error what went wrong where no caller waits for an answer. */
export function warn(error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof HersError ? error.code : 'ERROR';
  process.emitWarning(message, { type: 'HersWarning', code: `HERS_${code}` });
}
