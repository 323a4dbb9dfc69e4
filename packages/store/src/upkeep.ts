// What happens to a collection in the background: merges of its records and compactions of its blocks, after commits and when it is quiet.

import { HersError } from '@hers/service';
import type { Collection } from './collection.ts';
import { type CompactionMode, compact, planCompaction } from './compaction.ts';
import type { StoredBlock } from './stored-block.ts';

/** Without a commit for so long, a collection is tidied further. */
const QUIET_MS = 1000;

/** Records that may change during a snapshot; a few hundred megabytes of memory. */
const MAX_FRESH_WHILE_COPIED = 2 ** 21;

export class Upkeep {
  readonly #collection: Collection;
  readonly #trouble: (error: unknown) => void;
  readonly #quietMs: number;
  #timer: NodeJS.Timeout | undefined;
  #queued = false;

  constructor(collection: Collection, trouble: (error: unknown) => void, quietMs = QUIET_MS) {
    this.#collection = collection;
    this.#trouble = trouble;
    this.#quietMs = quietMs;
  }

  /** After a commit. */
  touch(): void {
    clearTimeout(this.#timer);
    const { signal } = this.#collection.ending;
    if (signal.aborted) return;
    this.#timer = setTimeout(() => this.#queue('quiet'), this.#quietMs).unref();
    if (this.#mergeIsDue() || planCompaction(this.#looseBlocks(), 'busy').length > 0) this.#queue('busy');
  }

  *#looseBlocks(): Generator<StoredBlock> {
    for (const { sealed, live } of this.#collection.sources) if (!sealed) yield* live;
  }

  /** Waits for what goes on when so much has piled up that memory would grow. */
  async ease(): Promise<void> {
    const { records, upkeep, beingCopied } = this.#collection;
    if (!records.overdue) return;
    if (!beingCopied) await upkeep.idle();
    else if (records.fresh > MAX_FRESH_WHILE_COPIED)
      this.#collection.stopSnapshots(
        new HersError('STALE', 'so much was written during this snapshot that it cannot be kept apart; take it again'),
      );
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #mergeIsDue(): boolean {
    return !this.#collection.beingCopied && this.#collection.records.ripe;
  }

  #queue(mode: CompactionMode): void {
    if (this.#queued) return;
    this.#queued = true;
    const { upkeep, records, ending } = this.#collection;
    const { signal } = ending;
    const pause = async () => {
      await new Promise(setImmediate);
      signal.throwIfAborted();
    };
    upkeep
      .take(async () => {
        this.#queued = false;
        signal.throwIfAborted();
        if (this.#mergeIsDue()) await records.merge(pause);
        await compact(this.#collection, mode, signal);
      })
      .catch((error) => {
        // A full disk, or a file that cannot be read: nothing is lost, the next commit tries again, and whoever needs the file is told.
        if (!signal.aborted) this.#trouble(error);
      });
  }
}

/** Says on standard error what went wrong where nobody waits for an answer. */
export function warn(error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof HersError ? error.code : 'ERROR';
  process.emitWarning(message, { type: 'HersWarning', code: `HERS_${code}` });
}
