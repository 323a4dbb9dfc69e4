// Deleting what has expired, with a receipt that can be kept as evidence.

import { HersError, refuseUnknown } from '@hers/service';
import { hex } from '../bytes.ts';
import { chosenRecords, EXPIRES } from '../search/choice.ts';
import type { CollectionSession } from '../session/session.ts';
import type { View } from '../session/view.ts';
import { removeRecords } from './enrolment.ts';

/** What `expire` does, and what it reports. */
export interface ExpireOptions {
  /** Say what would be deleted, and delete nothing. */
  readonly isDryRun?: boolean;
  /** Name the records by their ids in the receipt, and not by their handles. */
  readonly withIds?: boolean;
  /** Ends it when it aborts; what was deleted by then stays deleted. */
  readonly signal?: AbortSignal;
}

/**
 * What was deleted, and when. Handles are keyed hashes of ids: whoever has the key can tell later
 * whether a person was among them, and nobody else.
 */
export interface ExpiryReceipt {
  /** The name of the collection. */
  readonly collection: string;
  /** The collection's own id, which no other has. */
  readonly collectionId: string;
  /** By the clock of this client, in UTC. */
  readonly time: string;
  /** Whether nothing was deleted, because that was asked for. */
  readonly isDryRun: boolean;
  /** Of the manifest without these records, or as it is where nothing was deleted. */
  readonly version: number;
  /** Of that manifest as it is sealed. */
  readonly manifestHash: string;
  /** How many records had expired. */
  readonly count: number;
  /** Of these records, in hexadecimal digits; without `withIds`. */
  readonly handles?: readonly string[];
  /** Of these records, with `withIds`. */
  readonly ids?: readonly string[];
}

/** What `expire` throws once records were deleted: any error, and the receipt of those. */
export interface ExpiryError extends Error {
  /** Of the records that were deleted before it failed. */
  readonly receipt: ExpiryReceipt;
}

export async function expire(session: CollectionSession, options: ExpireOptions): Promise<ExpiryReceipt> {
  refuseUnknown(options, { isDryRun: true, withIds: true, signal: true }, 'expire');
  const { isDryRun = false, withIds = false, signal } = options;
  const { keyring } = session;
  const time = new Date().toISOString();
  let view = await session.refresh();
  if (view.manifest.fields[EXPIRES] !== 'date')
    throw new HersError(
      'INVALID_ARGUMENT',
      `nothing expires in this collection: it has no date field called ${EXPIRES}; addFields (hers fields add) adds one`,
    );
  const choice = session.choices.of(view, { must: { field: EXPIRES, range: { lte: time } } }, undefined);
  const over = Array.from(chosenRecords(view, choice), ({ id }) => id);
  const receiptOf = ({ manifest, hash }: View, ids: readonly string[]): ExpiryReceipt => ({
    collection: session.name,
    collectionId: hex(keyring.id),
    time,
    isDryRun,
    version: manifest.version,
    manifestHash: hash,
    count: ids.length,
    ...(withIds ? { ids } : { handles: ids.map((id) => hex(keyring.records.handleOf(id))) }),
  });
  if (isDryRun || over.length === 0) return receiptOf(view, over);
  const before = view;
  const gone = (now: View) => over.filter((id) => now.locate(id) === undefined);
  // Another writer may give one of them a new date meanwhile: that is kept.
  const isSame = (id: string, now: View) => now === before || now.versionOf(id) === before.versionOf(id);
  try {
    await removeRecords(session, over, isSame, signal);
  } catch (error) {
    view = await session.view().catch(() => before);
    if (view === before || !(error instanceof Error)) throw error;
    throw Object.assign(error, { receipt: receiptOf(view, gone(view)) }) satisfies ExpiryError;
  }
  view = await session.view();
  return receiptOf(view, gone(view));
}
