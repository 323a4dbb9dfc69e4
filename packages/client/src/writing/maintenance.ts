// What a key holder does to a collection now and then: indexing pending records, making deletions
// final, changing keys. Each step is one commit, so an interrupted run continues where it stopped,
// and the collection can be searched throughout. Deleting what has expired gives a receipt that can
// be kept as evidence.

import { type OptionNames, refuseUnknown } from '@hers/service';
import { hex } from '../bytes.ts';
import { invalid } from '../fields/field.ts';
import type { Compression } from '../formats/compressors.ts';
import type { ListEntry } from '../formats/lists.ts';
import type { Manifest, ManifestBlock } from '../formats/manifest.ts';
import { PendingRecord, type PlainRecord } from '../formats/records.ts';
import { Choices, chosenRecords, EXPIRES } from '../search/choice.ts';
import { completeEvaluation, Draft } from '../session/draft.ts';
import type { CollectionSession } from '../session/session.ts';
import { isDead, partitionOf, type View } from '../session/view.ts';
import { fillBlocks, namedRecords, removeRecords } from './enrolment.ts';
import { PART_BYTES } from './upsert.ts';

/** What every longer task takes. */
export interface MaintenanceOptions {
  /**
   * Ends it when it aborts; the steps that were done stay, and the same call continues from there.
   */
  readonly signal?: AbortSignal;
  /** Called after every step with the blocks that are done, and all there are to do. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
}

export const MAINTENANCE_OPTIONS: OptionNames<MaintenanceOptions> = { signal: true, onProgress: true };

/** Blocks that are rewritten, or get columns, in one commit: bounds the memory it takes. */
export const BLOCKS_AT_ONCE = 8;

/**
 * Indexes pending records, rewrites blocks that are not full of live ones, and has the store purge.
 */
export async function optimize(session: CollectionSession, options: MaintenanceOptions): Promise<void> {
  refuseUnknown(options, MAINTENANCE_OPTIONS, 'optimize');
  const { capacity } = session.keyring.plan;
  const hasDead = ({ dead }: ManifestBlock) => dead.length > 0;
  const isDirty = (block: ManifestBlock) => hasDead(block) || block.count < capacity;
  await session.refresh();
  const view = await session.view();
  const pending = new Set([...view.pending.values()].map(({ values }) => partitionOf(view.manifest, values)));
  const dirty = Map.groupBy(view.manifest.blocks.filter(isDirty), ({ partition }) => partition);
  // A single block that is only not full stays as it is: there is nothing to put it together with.
  const isWorthIt = (blocks: readonly ManifestBlock[], partition: string | undefined) =>
    blocks.length > 1 || pending.has(partition) || blocks.some(hasDead);
  const worth = [...dirty].filter(([partition, blocks]) => isWorthIt(blocks, partition));
  if (worth.length > 0 || pending.size > 0) {
    const todo = new Set(worth.flatMap(([, blocks]) => blocks.map((block) => block.id)));
    await rewrite(session, (block) => todo.has(block.id), view.manifest.epoch, options);
  }
  // The rest is about the whole collection.
  if (session.reader.partitions) return options.signal?.throwIfAborted();
  // Repairing may have lost evaluation keys.
  await completeEvaluation(session);
  options.signal?.throwIfAborted();
  await session.service.purge(session.name, options.signal ? { signal: options.signal } : {});
}

/** Re-encrypts everything under the next epoch; an interrupted rotation is taken up again. */
export async function rotate(session: CollectionSession, options: MaintenanceOptions): Promise<number> {
  refuseUnknown(options, MAINTENANCE_OPTIONS, 'a rotation');
  session.checkWhole('rotating a key');
  const view = await session.refresh();
  const { manifest } = view;
  if (!isUnfinished(manifest)) await nextEpoch(session, ({ space }) => space.compression, options.signal);
  return finishEpoch(session, options);
}

/**
 * Indexes everything again through another compressor, or without one. The same call again takes up
 * an interrupted one.
 */
export async function reindex(
  session: CollectionSession,
  compression: Compression | undefined,
  options: MaintenanceOptions,
): Promise<void> {
  refuseUnknown(options, MAINTENANCE_OPTIONS, 'reindexing');
  session.checkWhole('another compressor');
  const { space, manifest } = await session.refresh();
  const same = space.compression?.digest === compression?.digest;
  if (same && !isUnfinished(manifest)) return;
  if (!same) await nextEpoch(session, () => compression, options.signal);
  await finishEpoch(session, options);
}

function isUnfinished({ blocks, epoch }: Manifest): boolean {
  return blocks.some((block) => block.epoch !== epoch);
}

/** Begins an epoch, with the compressor that `compressorOf` names. */
function nextEpoch(
  session: CollectionSession,
  compressorOf: (view: View) => Compression | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  return session.write(async (view) => {
    const draft = new Draft(view, view.manifest.epoch + 1);
    await session.setCompressor(draft, compressorOf(view));
    // Pending records change over together with the epoch, so that none is left behind.
    await carryOver(session, draft, [...view.pending.values()], true, signal);
    return { draft, result: undefined };
  });
}

/** Moves to the current epoch what is not there yet, and has the store forget the rest. */
async function finishEpoch(session: CollectionSession, options: MaintenanceOptions): Promise<number> {
  const { epoch } = (await session.view()).manifest;
  await rewrite(session, (block) => block.epoch !== epoch, epoch, options);
  await session.service.purge(session.name, options.signal ? { signal: options.signal } : {});
  return epoch;
}

/**
 * Puts the live records of the chosen blocks into new blocks under `epoch`, a few at a time; what
 * is left over at the end forms one that is not full.
 */
export async function rewrite(
  session: CollectionSession,
  chosen: (block: ManifestBlock) => boolean,
  epoch: number,
  { signal, onProgress }: MaintenanceOptions,
): Promise<void> {
  const total = (await session.view()).manifest.blocks.filter(chosen).length;
  let done = 0;
  for (let last = false; !last; ) {
    signal?.throwIfAborted();
    const step = await session.write(async (view) => {
      // Another client has begun a newer epoch, and moves everything there.
      if (view.manifest.epoch !== epoch) return { result: { blocks: 0, last: true } };
      const blocks = view.manifest.blocks.filter(chosen);
      const part = blocks.slice(0, BLOCKS_AT_ONCE);
      const result = { blocks: part.length, last: part.length === blocks.length };
      const draft = new Draft(view, epoch);
      await rewriteFromVault(session, draft, part, result.last, signal);
      const idle = part.length === 0 && draft.newBlocks.length === 0;
      return idle ? { result } : { draft, result };
    });
    done += step.blocks;
    last = step.last;
    onProgress?.({ done: Math.min(done, total), total });
  }
}

function liveEntries(view: View, block: ManifestBlock): ListEntry[] {
  const list = view.entries.get(block.id)!;
  return [...list.inOrder()].filter((slot) => !isDead(block, slot)).map((slot) => list.entry(slot));
}

/**
 * Reads records of these versions, and returns what blocks are made of; where asked to, seals and
 * stages them under the draft's epoch, a part at a time.
 */
async function carryOver(
  session: CollectionSession,
  draft: Draft,
  named: readonly { readonly id: string; readonly version: string }[],
  reseal: boolean,
  signal?: AbortSignal,
): Promise<PendingRecord[]> {
  const { keyring } = session;
  const kept = new Map<string, PendingRecord>();
  let part: PlainRecord[] = [];
  let bytes = 0;
  const stage = async () => {
    if (part.length === 0) return;
    draft.records.push(await session.stageRecords(draft.view.manifest, draft.space, part, signal));
    draft.countSeals(part.length);
    // What is indexed later is what was sealed now.
    for (const record of part)
      kept.set(record.id, PendingRecord.of(record, draft.fields, draft.space.projectionOf(record)));
    part = [];
    bytes = 0;
  };
  for await (const [record] of namedRecords(session, draft.view, named, signal)) {
    if (!reseal) {
      kept.set(record.id, PendingRecord.of(record, draft.fields));
      continue;
    }
    part.push(record);
    bytes += record.payload.length;
    if (part.length === keyring.plan.parameters.n || bytes >= PART_BYTES) await stage();
  }
  await stage();
  return named.map(({ id }) => kept.get(id)!);
}

async function rewriteFromVault(
  session: CollectionSession,
  draft: Draft,
  blocks: readonly ManifestBlock[],
  last: boolean,
  signal?: AbortSignal,
): Promise<void> {
  const moved: PendingRecord[] = [];
  for (const block of blocks) {
    const entries = liveEntries(draft.view, block);
    // Under a new epoch the seals change too.
    const carried = await carryOver(session, draft, entries, block.epoch !== draft.epoch, signal);
    for (const record of carried) moved.push(record);
    draft.dropBlock(block);
  }
  for (const record of moved) draft.pending.set(record.handle, record);
  await fillBlocks(session, draft, { isLast: last, signal });
}

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
    throw invalid(
      `nothing expires in this collection: it has no date field called ${EXPIRES}; addFields (hers fields add) adds one`,
    );
  const choice = new Choices().of(view, { must: { field: EXPIRES, range: { lte: time } } }, undefined);
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
