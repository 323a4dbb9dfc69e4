// When a folder is opened, data that the catalogue does not name is kept, not deleted: files move
// to `lost+found/`, and the tails of packs stay in place. Crashes leave such data, and so do bugs;
// only time tells them apart. It is deleted after a week, or when its collection is purged or
// deleted.
//
// The week is counted in steps of at most a day, and only forward: a clock that jumps or runs
// backwards does not shorten it.

import { readFileSync, rmdirSync } from 'node:fs';
import type { Disk } from './disk.ts';

export const LOST_AND_FOUND = 'lost+found';
const LEDGER = `${LOST_AND_FOUND}/ledger.json`;
/** Names of kept files. Any other file in there is foreign. */
const OURS = /^lost\+found\/(?:\d+-[0-9a-f]+\.(?:pack|block|segment)|catalogue\.db-journal)(?:\.\d+)?$/;
const DAY_MS = 24 * 3600 * 1000;
const GRACE_MS = 7 * DAY_MS;
/** How often an open folder checks whether something can be deleted. */
export const SWEEP_MS: number = DAY_MS;

/** Something kept, by its path; for a pack, the bytes after its last committed entry. */
export interface SetAside {
  readonly path: string;
  readonly bytes: number;
  /** Milliseconds until it is deleted. */
  readonly left: number;
}

interface Ledger {
  readonly seen: number;
  readonly left: Readonly<Record<string, number>>;
}

/** A pack that is longer than committed, and where its committed part ends. */
export interface Tail {
  readonly path: string;
  readonly end: number;
}

export function setAside(disk: Disk, path: string): void {
  if (disk.sizeSync(LOST_AND_FOUND) === undefined) {
    disk.makeFolderSync(LOST_AND_FOUND);
    disk.syncFolderSync('.');
  }
  const name = path.slice(path.lastIndexOf('/') + 1);
  let free = `${LOST_AND_FOUND}/${name}`;
  for (let i = 1; disk.sizeSync(free) !== undefined; i++) free = `${LOST_AND_FOUND}/${name}.${i}`;
  disk.renameSync(path, free);
  strike(disk, (known) => known === free);
}

/** Forgets how long these have been kept: new files may get their names. */
function strike(disk: Disk, isStruck: (path: string) => boolean): void {
  const ledger = readLedger(disk);
  if (!ledger || !Object.keys(ledger.left).some(isStruck)) return;
  const left = Object.fromEntries(Object.entries(ledger.left).filter(([path]) => !isStruck(path)));
  writeLedger(disk, { ...ledger, left });
}

/** Deletes what has been kept long enough, and returns the rest. */
export function sweep(disk: Disk, tails: readonly Tail[], now: number = Date.now()): SetAside[] {
  const there = found(disk, tails);
  if (disk.sizeSync(LOST_AND_FOUND) === undefined && there.length === 0) return [];
  const ledger = readLedger(disk);
  const passed = ledger ? Math.min(DAY_MS, Math.max(0, now - ledger.seen)) : 0;
  const kept: SetAside[] = [];
  for (const { path, bytes, end } of there) {
    const before = ledger?.left[path];
    const left = before === undefined ? GRACE_MS : before - passed;
    if (left > 0) kept.push({ path, bytes, left });
    else if (end === undefined) disk.removeSync(path);
    else disk.truncateSync(path, end);
  }
  if (kept.length === 0) {
    removeFolder(disk);
    return kept;
  }
  writeLedger(disk, {
    seen: Math.max(now, ledger?.seen ?? 0),
    left: Object.fromEntries(kept.map(({ path, left }) => [path, left])),
  });
  return kept;
}

/**
 * What is kept now, without deleting anything. A tail counts once the writer has recorded it:
 * otherwise the writer may be about to commit it.
 */
export function listSetAside(disk: Disk, tails: readonly Tail[]): SetAside[] {
  const ledger = readLedger(disk);
  const known = tails.filter(({ path }) => ledger?.left[path] !== undefined);
  return found(disk, known).map(({ path, bytes }) => ({ path, bytes, left: ledger?.left[path] ?? GRACE_MS }));
}

/** Deletes what is kept of the collection with this number, because it was purged or deleted. */
export function clearSetAside(disk: Disk, collectionNumber: number): void {
  if (disk.sizeSync(LOST_AND_FOUND) === undefined) return;
  for (const file of disk.listSync(LOST_AND_FOUND))
    if (file.startsWith(`${collectionNumber}-`)) disk.removeSync(`${LOST_AND_FOUND}/${file}`);
  disk.syncFolderSync(LOST_AND_FOUND);
  strike(disk, (path) => path.startsWith(`${LOST_AND_FOUND}/${collectionNumber}-`));
}

function found(disk: Disk, tails: readonly Tail[]): { path: string; bytes: number; end?: number }[] {
  const files = disk.sizeSync(LOST_AND_FOUND) === undefined ? [] : disk.listSync(LOST_AND_FOUND);
  return [
    ...files
      .map((file) => `${LOST_AND_FOUND}/${file}`)
      .filter((path) => OURS.test(path) && disk.isFileSync(path))
      .map((path) => ({ path, bytes: disk.sizeSync(path) ?? 0 })),
    ...tails
      .map(({ path, end }) => ({ path, end, bytes: (disk.sizeSync(path) ?? 0) - end }))
      .filter(({ bytes }) => bytes > 0),
  ];
}

/** Nothing of ours is left in it. */
function removeFolder(disk: Disk): void {
  try {
    disk.removeSync(LEDGER);
    rmdirSync(disk.path(LOST_AND_FOUND));
  } catch {}
}

/** If it cannot be read, the week starts again. */
function readLedger(disk: Disk): Ledger | undefined {
  try {
    disk.checkKindSync(LEDGER, 'file');
    const { seen, left } = JSON.parse(readFileSync(disk.path(LEDGER), 'utf8'));
    if (!Number.isSafeInteger(seen) || typeof left !== 'object' || left === null) return undefined;
    return {
      seen,
      left: Object.fromEntries(Object.entries(left).filter(([, ms]) => Number.isFinite(ms))) as Record<string, number>,
    };
  } catch {
    return undefined;
  }
}

/** On a full disk it stays unchanged, and everything is kept longer. */
function writeLedger(disk: Disk, ledger: Ledger): void {
  try {
    if (disk.sizeSync(LOST_AND_FOUND) === undefined) disk.makeFolderSync(LOST_AND_FOUND);
    disk.replaceSync(LEDGER, Buffer.from(`${JSON.stringify(ledger)}\n`));
  } catch {}
}
