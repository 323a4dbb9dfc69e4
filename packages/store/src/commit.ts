// One change of a collection: staged data becomes part of it, together with a new manifest, in one
// transaction of the catalogue.

import {
  BLOCK_ID_BYTES,
  type CallOptions,
  CHANGE_FIELDS,
  type Change,
  checkWhole,
  HANDLE_BYTES,
  HersError,
  type Ids,
  isOf,
  LIST_ID_BYTES,
  notHeld,
  type Partitions,
  refuseUnknown,
  type StageId,
  withOtherSections,
} from '@hers/service';
import { checkBytes, checkLength, handleKey, hex, sameBytes, sha256 } from './base/bytes.ts';
import { fault } from './base/faults.ts';
import { Holding } from './base/holding.ts';
import type { StoredBlock } from './blocks/source.ts';
import type { BlockRow } from './catalogue/tables.ts';
import type { Collection } from './collection.ts';
import { DELETED, encodePlace } from './files/entry.ts';
import { ROW_BYTES } from './files/vault.ts';
import { readLists, readRecords } from './reading.ts';
import { MAX_MANIFEST_BYTES } from './snapshot.ts';
import { decodeShardChange, encodeShardChange, type ShardChange, type StagedChange, stagesOf } from './stages.ts';
import { stage } from './staging.ts';

/**
 * Memory per removed record, as a row that is written and looked up until it is merged; and memory
 * per byte of a manifest on its way into catalogue and journal.
 */
const REMOVED_COST = 4 * ROW_BYTES;
const MANIFEST_COST = 3;

/** What a change means for this collection; computed before anything is done. */
interface Draft {
  readonly removed: Ids;
  /** Places of batches are read at the last moment, because a purge may move staged entries. */
  readonly records: readonly { readonly rows: Buffer }[];
  readonly added: BlockRow[];
  readonly dropped: ReadonlySet<StoredBlock>;
  readonly lists: readonly { readonly id: Uint8Array; readonly batch: { readonly rows: Buffer } }[];
  readonly droppedLists: Ids;
  readonly stages: readonly StageId[];
  readonly loses: boolean;
}

export async function commitChange(
  collection: Collection,
  change: Change,
  { hold, partitions }: CallOptions = {},
): Promise<number> {
  checkChange(change);
  // Others commit while this reads. What it finds holds for as long as the version is the same.
  const checked = partitions && (await heldNow(collection, change, partitions, hold));
  return collection.commitQueue.run(async () => {
    collection.checkUsable();
    const current = collection.tables.manifest();
    if (!partitions) checkWhole(change.manifest);
    const manifest = partitions ? withOtherSections(current.manifest, change.manifest, partitions) : change.manifest;
    // The acknowledgement of this same change was lost.
    if (manifest && sameBytes(current.manifest, manifest)) return current.version;
    checkExpected(collection, change.expected, current.version);
    if (!manifest) throw notHeld('a manifest with other sections of other partitions');
    checkLength(manifest, 'a manifest', MAX_MANIFEST_BYTES);
    const draft = draftOf(collection, change);
    if (partitions) {
      for (const stage of draft.stages) collection.stages.checkHeld(stage, partitions);
      if (checked!.version !== current.version) await checkHeld(collection, change, partitions, hold);
      else if (checked!.failure) throw checked!.failure.error;
    }
    return adopt(collection, { ...change, manifest, version: current.version + 1 }, draft, hold);
  });
}

/**
 * Stages a change of a shard, if it can be applied to what the shard is now. Returns its name, the
 * hash of its content. STALE for a shard that lags: it keeps the change all the same.
 */
export function prepareChange(
  collection: Collection,
  change: ShardChange,
  { hold, partitions }: CallOptions = {},
): Promise<StageId> {
  const { version, basis, ...rest } = change;
  checkChange(rest);
  return collection.commitQueue.run(async () => {
    collection.checkUsable();
    const encoded = encodeShardChange(change);
    const keep = () => stage(collection, { kind: 'change', encoded }, sha256(encoded));
    const { version: current } = collection.tables.current();
    // A shard that lags keeps it for when it has caught up, and does not vouch for it.
    if (change.expected > current && stagesOf(change).every((each) => collection.stages.has(each))) await keep();
    checkExpected(collection, change.expected, current);
    checkBasis(collection, basis);
    draftOf(collection, change); // throws if it cannot be applied
    if (partitions) await checkHeld(collection, change, partitions, hold);
    return keep();
  });
}

/**
 * Applies a staged change of a shard, unless the shard has that version or a later one already.
 * STALE if another change has made this version, or what it is based on.
 */
export function applyChange(
  collection: Collection,
  { change: id, version, state }: StagedChange,
  { hold }: CallOptions = {},
): Promise<number> {
  return collection.commitQueue.run(async () => {
    collection.checkUsable();
    const current = collection.tables.current().version;
    if (current === version && collection.state() !== state) throw forked(collection);
    if (current >= version) return current;
    const change = decodeShardChange(collection.stages.get(id, 'change').encoded);
    if (change.version !== version)
      throw new HersError('INVALID_ARGUMENT', `this change makes version ${change.version}, not ${version}`);
    checkExpected(collection, change.expected, current);
    checkBasis(collection, change.basis);
    return adopt(collection, change, draftOf(collection, change), hold);
  });
}

function checkExpected({ name }: Collection, expected: number, version: number): void {
  if (expected !== version)
    throw new HersError(
      'STALE',
      `${name} has version ${version}, and this change is based on ${expected}; read it again`,
    );
}

function checkBasis(collection: Collection, basis: string): void {
  if (collection.state() !== basis) throw forked(collection);
}

const forked = ({ name }: Collection) =>
  new HersError('STALE', `${name} has its version by another change than others have; it is to be copied from them`);

async function adopt(
  collection: Collection,
  change: Omit<ShardChange, 'basis'>,
  draft: Draft,
  hold: CallOptions['hold'],
): Promise<number> {
  const { tables, folder, stages } = collection;
  const { manifest, version } = change;
  using holding = new Holding(hold);
  holding.become(REMOVED_COST * draft.removed.length + MANIFEST_COST * manifest.length);
  // Another change that is based on the same version or an earlier one can never be applied.
  const done = folder.holdsShards ? [...draft.stages, ...stages.changesUntil(change.expected)] : draft.stages;
  await collection.syncNames();
  fault('commit.folders');
  collection.checkUsable();
  const { number, name, id, descriptor } = collection;
  const fresh = folder.catalogue.transaction(
    () => {
      const written = write(collection, draft);
      tables.setCurrent(version, manifest);
      if (folder.holdsShards) for (const stage of done) tables.dropStage(stage);
      fault('commit.within');
      return written;
    },
    () => [{ number, seeds: draft.added }, { collection: { number, name, id, descriptor, version, manifest } }],
    { mayUseReserve: draft.loses && draft.stages.length === 0 },
  );
  fault('commit.committed');
  for (const { batch, entries } of fresh) collection.records.take(batch, entries);
  takeOver(collection, draft);
  if (folder.holdsShards)
    collection.past.add({
      from: change.expected,
      to: version,
      added: new Set(draft.added.map((row) => hex(row.id))),
      dropped: [...draft.dropped],
    });
  for (const stage of done) stages.drop(stage);
  // Files that are no longer needed are removed now, or when the folder is opened again.
  await collection.retireEmpty().catch(() => {});
  fault('commit.removed');
  return version;
}

function checkChange(change: Change): void {
  refuseUnknown(change, CHANGE_FIELDS, 'a change', 'field');
  if (!Number.isSafeInteger(change.expected))
    throw new HersError('INVALID_ARGUMENT', 'a change needs the version it is based on');
  checkBytes(change.manifest, 'a manifest');
  checkLength(change.manifest, 'a manifest', MAX_MANIFEST_BYTES);
  for (const handle of change.removed ?? []) checkBytes(handle, 'a handle', HANDLE_BYTES);
  for (const id of change.dropped ?? []) checkBytes(id, 'a block id', BLOCK_ID_BYTES);
  for (const id of change.droppedLists ?? []) checkBytes(id, 'a list id', LIST_ID_BYTES);
  const used = stagesOf(change);
  if (new Set(used).size !== used.length)
    throw new HersError('INVALID_ARGUMENT', 'a change names the same staged thing twice');
}

/** What `checkHeld` says of this version, which is the current one. */
async function heldNow(
  collection: Collection,
  change: Change,
  partitions: Partitions,
  hold: CallOptions['hold'],
): Promise<{ readonly version: number; readonly failure?: { readonly error: unknown } }> {
  collection.checkUsable();
  const { version } = collection.tables.current();
  try {
    await checkHeld(collection, change, partitions, hold);
    return { version };
  } catch (error) {
    // Not thrown yet: it may be a change that was made, and whose acknowledgement was lost.
    return { version, failure: { error } };
  }
}

/**
 * FORBIDDEN or NOT_FOUND unless a change replaces and drops only what is of these partitions. What
 * it brings was checked when it was staged.
 */
async function checkHeld(
  collection: Collection,
  change: Change,
  partitions: Partitions,
  hold: CallOptions['hold'],
): Promise<void> {
  const { stages, records, ending } = collection;
  for (const id of change.dropped ?? []) if (!isOf(partitions, id)) throw noBlock(id);
  const lists = [...(change.droppedLists ?? [])];
  let at = 0;
  for await (const list of readLists(collection, lists, ending.signal, { hold, partitions })) {
    if (!isOf(partitions, list)) throw noList(lists[at]);
    at++;
  }
  const handles = new Map<string, Uint8Array>();
  const take = (handle: Uint8Array) => handles.set(handleKey(handle), handle);
  for (const handle of change.removed ?? []) take(handle);
  for (const stage of change.records ?? []) {
    const { rows } = stages.get(stage, 'records').batch;
    for (let row = 0; row < rows.length; row += ROW_BYTES) take(rows.subarray(row, row + HANDLE_BYTES));
  }
  const all = [...handles.values()];
  const places = records.findMany(all);
  const there = all.filter((_, i) => places[i] !== undefined);
  for await (const { sealed } of readRecords(collection, there, ending.signal, { hold }))
    if (!isOf(partitions, sealed)) throw notHeld('a record that is in another partition');
}

const noBlock = (id: Uint8Array) => new HersError('NOT_FOUND', `there is no block ${hex(id)} to drop`);
const noList = (id: Uint8Array) => new HersError('NOT_FOUND', `there is no list ${hex(id)} to drop`);

function draftOf({ stages, blocks, tables }: Collection, change: Change): Draft {
  const droppedLists = change.droppedLists ?? [];
  for (const id of droppedLists) if (!tables.listPlace(id)) throw noList(id);
  const dropped = new Set<StoredBlock>();
  for (const id of change.dropped ?? []) {
    const block = blocks.get(hex(id));
    if (!block) throw noBlock(id);
    dropped.add(block);
  }
  const added = (change.blocks ?? []).map((stage) => stages.get(stage, 'block').row);
  const ids = added.map(({ id }) => hex(id));
  const known = new Set<string>();
  const twice = ids.find((id) => known.has(id) || (blocks.has(id) && !dropped.has(blocks.get(id)!)) || !known.add(id));
  if (twice !== undefined) throw new HersError('ALREADY_EXISTS', `there is a block ${twice} already`);
  const removed = change.removed ?? [];
  return {
    removed,
    records: (change.records ?? []).map((stage) => stages.get(stage, 'records').batch),
    added,
    dropped,
    lists: (change.lists ?? []).map((stage) => stages.get(stage, 'list')),
    droppedLists,
    stages: stagesOf(change),
    loses: removed.length + dropped.size + droppedLists.length > 0,
  };
}

/** Within the transaction. Drops come first, so that a change can replace an entry it drops. */
function write({ tables, records }: Collection, draft: Draft) {
  for (const id of draft.droppedLists) tables.dropList(id);
  for (const { id, batch } of draft.lists) {
    if (tables.listPlace(id)) continue; // the same bytes exist already
    tables.putList(id, batch.rows.subarray(HANDLE_BYTES, ROW_BYTES));
  }
  for (const block of draft.dropped) tables.dropBlock(block.id);
  for (const source of emptied(draft.dropped)) tables.dropSegment(source);
  for (const row of draft.added) tables.addBlock(row);
  if (draft.loses) tables.setStale(true);
  const deletions = Buffer.alloc(ROW_BYTES * draft.removed.length);
  let at = 0;
  for (const handle of draft.removed) {
    deletions.set(handle, at);
    encodePlace(DELETED, deletions, at + HANDLE_BYTES);
    at += ROW_BYTES;
  }
  return records.write(Buffer.concat([deletions, ...draft.records.map(({ rows }) => rows)]));
}

/** Segments that lose their last block. */
function emptied(dropped: ReadonlySet<StoredBlock>): string[] {
  const sources = new Set([...dropped].map(({ source }) => source).filter(({ inSegment }) => inSegment));
  return [...sources].filter(({ live }) => [...live].every((block) => dropped.has(block))).map(({ path }) => path);
}

/** After the transaction: applies the same changes in memory. */
function takeOver(collection: Collection, draft: Draft): void {
  for (const block of draft.dropped) {
    collection.blocks.delete(block.name);
    block.source.live.delete(block);
  }
  for (const row of draft.added) collection.addBlock(row);
}
