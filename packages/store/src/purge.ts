// Removes deleted and replaced data for good: rewrites the packs and segments that hold any of it,
// and the catalogue's own files.

import { HANDLE_BYTES } from '@hers/service';
import { sha256 } from './base/bytes.ts';
import { fault } from './base/faults.ts';
import { pausing } from './base/serial-queue.ts';
import { damaged } from './base/storage-errors.ts';
import type { Collection } from './collection.ts';
import { compact } from './compaction.ts';
import { decodePlace, type Entry, LIST, PACK_HEADER_BYTES, type Place, RECORD } from './files/entry.ts';
import { VAULT } from './files/layout.ts';
import { clearSetAside, type Tail } from './files/lost-and-found.ts';
import { Batch, ROW_BYTES, type VaultReader } from './files/vault.ts';
import { expireStages } from './staging.ts';

/**
 * Bytes copied per transaction of the catalogue: this bounds memory and the length of a
 * transaction.
 */
const COPY_BYTES = 2 ** 25;
/** Attempts to empty a log that another process reads. */
const MIN_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1000;

interface Moved {
  readonly kind: Entry['kind'];
  /** A handle, or the id of a list. */
  readonly id: Uint8Array;
  readonly from: Place;
  /** Whether the collection referred to it when it was copied; otherwise it was staged. */
  readonly live: boolean;
}

/** Runs in the upkeep queue. */
export async function purgeCollection(
  collection: Collection,
  signal: AbortSignal,
  tails: readonly Tail[],
): Promise<void> {
  const { tables, folder, records } = collection;
  const pause = pausing(signal);
  await collection.snapshotsEnd(signal);
  await records.merge(pause);
  clearSetAside(folder.disk, collection.number);
  for (const { path, end } of tails)
    if (path.startsWith(`${VAULT}/${collection.number}-`) && (folder.disk.sizeSync(path) ?? 0) > end)
      folder.disk.truncateSync(path, end);
  await collection.past.clear();
  await expireStages(collection);
  const packs = await rewritePacks(collection, pause);
  await compact(collection, 'purge', signal);
  await collection.filesGone();
  collection.checkUsable();
  if (tables.current().stale || packs > 0) {
    folder.catalogue.vacuum();
    folder.catalogue.transaction(() => tables.setStale(false));
  }
  // Other processes may still read the log.
  let emptied = folder.catalogue.forgetPast();
  for (let pauseMs = MIN_PAUSE_MS; !emptied; pauseMs = Math.min(MAX_PAUSE_MS, 2 * pauseMs)) {
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    signal.throwIfAborted();
    emptied = folder.catalogue.checkpoint();
  }
  fault('purge.truncated');
}

/** Bytes of packs that are not worth the trouble. */
const RECLAIMED_BYTES = 2 ** 25;

/**
 * Frees the room of records that were removed, where the packs have grown to more than twice the
 * bytes of those that are there; in the upkeep queue. Nothing else of a purge is done.
 */
export async function reclaimPacks(
  collection: Collection,
  liveBytes: (manifest: Uint8Array) => number,
  signal: AbortSignal,
  spared: number = RECLAIMED_BYTES,
): Promise<void> {
  const { tables, records, upkeepQueue } = collection;
  const isWorthIt = () => {
    const bytes = tables.packs().reduce((sum, { ends }) => sum + ends, 0) - spared;
    return bytes > 0 && !collection.beingCopied && bytes > 2 * liveBytes(tables.manifest().manifest);
  };
  if (!isWorthIt()) return;
  await upkeepQueue.run(async () => {
    collection.checkUsable();
    if (!isWorthIt()) return;
    const pause = pausing(signal);
    await records.merge(pause);
    await rewritePacks(collection, pause);
  });
}

/** Rewrites the packs that hold anything dead, and returns how many. Records are merged. */
async function rewritePacks(collection: Collection, pause: () => Promise<void>): Promise<number> {
  const { tables, vault, records } = collection;
  await vault.startNewPack();
  const last = vault.last;
  const packs = tables.packs().filter(({ ends, live }) => ends - PACK_HEADER_BYTES > live);
  {
    using reader = vault.reader();
    for (const { pack } of packs) await rewritePack(collection, reader, pack, pause);
  }
  await removeUnused(collection, last);
  await records.merge(pause);
  return packs.length;
}

/** Packs in which nothing was ever committed, and nothing is staged any more. */
async function removeUnused({ folder, tables, stages, vault }: Collection, last: number): Promise<void> {
  const used = new Set(tables.packs().map(({ pack }) => pack));
  for (let pack = 1; pack <= last; pack++)
    if (!used.has(pack) && stages.placesIn(pack).size === 0 && folder.disk.sizeSync(vault.path(pack)) !== undefined)
      await folder.disk.remove(vault.path(pack));
}

async function rewritePack(
  collection: Collection,
  reader: VaultReader,
  pack: number,
  pause: () => Promise<void>,
): Promise<void> {
  const { vault, stages, folder, tables, records } = collection;
  // As it is now: entries that were staged when the purge began may have been committed since.
  const ends = tables.packs().find((each) => each.pack === pack)?.ends ?? 0;
  const staged = stages.placesIn(pack);
  const end = [...staged.values()].reduce((last, { offset, length }) => Math.max(last, offset + length), ends);
  let moved: Moved[] = [];
  let bytes = 0;
  let seen = records.lastBatch;
  let batch = new Batch(vault);
  const flush = async () => {
    if (moved.length > 0) {
      await batch.finish();
      fault('purge.copied');
      await vault.syncNames();
      collection.checkUsable();
      repoint(collection, pack, moved, batch.rows, seen);
    }
    moved = [];
    bytes = 0;
    seen = records.lastBatch;
    batch = new Batch(vault);
  };
  try {
    for await (const found of reader.entries(pack, end)) {
      await pause();
      for (const { id, entry, place, live } of withUse(collection, found)) {
        if (!live && !staged.has(place.offset)) continue;
        const full = batch.add(entry.kind, id.subarray(0, HANDLE_BYTES), entry.content);
        if (full !== undefined) await full;
        moved.push({ kind: entry.kind, id, from: place, live });
        bytes += place.length;
      }
      if (bytes >= COPY_BYTES) await flush();
    }
    await flush();
  } finally {
    await batch.end();
  }
  // An entry that the catalogue names but that was not found would be lost with the pack.
  await records.merge(pause);
  if (tables.isNamed(pack)) throw damaged(vault.path(pack), 'records or lists that the catalogue names are not in it');
  folder.catalogue.transaction(() => {
    tables.dropPack(pack);
    fault('purge.within');
  });
  fault('purge.committed');
  await folder.disk.remove(vault.path(pack));
  fault('purge.removed');
}

const samePlace = (a: Place | undefined, b: Place) => a?.pack === b.pack && a.offset === b.offset;

interface Found {
  readonly entry: Entry;
  readonly place: Place;
}

/** Entries with their handle or list id, and whether the collection refers to them. */
function withUse(
  { records, tables }: Collection,
  found: readonly Found[],
): (Found & { readonly id: Uint8Array; readonly live: boolean })[] {
  const all = found.map(({ entry, place }) => ({ entry, place, id: idOf(entry) }));
  const handles = all.filter(({ entry }) => entry.kind === RECORD).map(({ id }) => id);
  const places = records.findMany(handles);
  let next = 0;
  return all.map(({ entry, place, id }) => {
    const named = entry.kind === RECORD ? places[next++] : tables.listPlace(id);
    return { entry, place, id, live: samePlace(named, place) };
  });
}

function idOf({ kind, content }: Entry): Uint8Array {
  return kind === RECORD ? new Uint8Array(content.subarray(0, HANDLE_BYTES)) : sha256(content);
}

/**
 * Entries that are still where they were copied from get their new place. The others changed in the
 * meantime, and stay as they are.
 */
function repoint(
  { folder, tables, records, stages }: Collection,
  pack: number,
  moved: readonly Moved[],
  rows: Buffer,
  seen: number,
): void {
  const to = new Map<number, Place>();
  const changes: Uint8Array[] = [];
  const fresh = folder.catalogue.transaction(() => {
    const handles = moved.filter(({ kind }) => kind === RECORD).map(({ id }) => id);
    const places = records.lastBatch === seen ? undefined : records.findMany(handles);
    let next = 0;
    moved.forEach(({ kind, id, from, live }, i) => {
      const row = rows.subarray(ROW_BYTES * i, ROW_BYTES * (i + 1));
      const place = decodePlace(row, HANDLE_BYTES);
      to.set(from.offset, place);
      if (kind === LIST) {
        if (!samePlace(tables.listPlace(id), from)) return;
        tables.putList(id, row.subarray(HANDLE_BYTES));
      } else if (places ? samePlace(places[next++], from) : live) changes.push(row);
    });
    if (folder.holdsShards) stages.moveKept(tables, pack, to);
    return records.write(Buffer.concat(changes));
  });
  for (const { batch, entries } of fresh) records.take(batch, entries);
  stages.move(pack, to);
}
