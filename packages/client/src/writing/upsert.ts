// Writing records of any number: while one batch is written, the next is gathered, sealed and
// staged.

import { HersError, type Many, refuseUnknown } from '@hers/service';
import type { VectorRecord } from '../formats/records.ts';
import type { CollectionSession } from '../session/session.ts';
import { type SealedRecords, VaultBatch } from './enrolment.ts';
import { checkRecord, gather, isRecord } from './gathering.ts';
import { optimize } from './maintenance.ts';
import { Tally, type UpsertResult } from './tally.ts';

/** How records are written. */
export interface UpsertOptions {
  /** Ends the upsert when it aborts; what is acknowledged stays. */
  readonly signal?: AbortSignal;
  /**
   * Called after every commit, with the number of records that are safe, and of all, if they were
   * given as an array.
   */
  readonly onProgress?: (progress: { readonly acknowledged: number; readonly total?: number }) => void;
  /**
   * `always`: records that do not fill a block are put into one at the end, as `optimize` does, so
   * that every search is encrypted. `never`, the default: they stay pending until there are enough,
   * and searches compare them in the client, in the clear.
   */
  readonly optimize?: 'never' | 'always';
}

/** What an upsert throws: any error, and how many records are safe all the same. */
export interface UpsertError extends Error {
  /** Records that were written and acknowledged before the error, from the first on. */
  readonly acknowledged: number;
}

export async function upsert(
  session: CollectionSession,
  records: VectorRecord | Many<VectorRecord>,
  options: UpsertOptions,
): Promise<UpsertResult> {
  refuseUnknown(options, { signal: true, onProgress: true, optimize: true }, 'an upsert');
  const { signal, onProgress, optimize: when = 'never' } = options;
  if (when !== 'never' && when !== 'always') throw new HersError('INVALID_ARGUMENT', "optimize is 'never' or 'always'");
  const input: Many<VectorRecord> = isRecord(records) ? [records] : records;
  const total = Array.isArray(input) ? input.length : undefined;
  const tally = new Tally();
  let acknowledged = 0;
  const write = async (count: number, batch: Promise<VaultBatch>) => {
    tally.add(count, await (await batch).write());
    acknowledged += count;
    onProgress?.({ acknowledged, ...(total === undefined ? {} : { total }) });
  };
  let writing: Promise<void> = Promise.resolve();
  let batch: Promise<VaultBatch> | undefined;
  try {
    // An array is checked as a whole before anything is written; a stream can only be checked as it
    // comes.
    const { manifest } = await session.view();
    if (Array.isArray(input)) for (const record of input) checkRecord(session, record, manifest);
    for await (const { count, sealed } of gather(session, input, manifest)) {
      batch = prepare(session, sealed, signal);
      batch.catch(() => {});
      await writing;
      signal?.throwIfAborted();
      writing = write(count, batch);
      writing.catch(() => {}); // reported when it is awaited
    }
    await writing;
    if (when === 'always') await optimize(session, signal ? { signal } : {});
    return tally.result;
  } catch (error) {
    await Promise.allSettled([writing, batch?.then((ahead) => ahead.idle())]);
    throw error instanceof Error ? (Object.assign(error, { acknowledged }) satisfies UpsertError) : error;
  }
}

async function prepare(
  session: CollectionSession,
  sealed: Promise<SealedRecords>,
  signal: AbortSignal | undefined,
): Promise<VaultBatch> {
  const ahead = new VaultBatch(session, await sealed, signal);
  ahead.stage(await session.view());
  return ahead;
}
