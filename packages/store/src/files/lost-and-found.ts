// What the catalogue does not name is not deleted when a folder is opened, but set aside: files in
// `lost+found/`, and the tails of packs where they are. A crash leaves such things, and so does a
// mistake; only time tells them apart. They go after a week, or when their collection is purged or
// deleted.
//
// The week is counted in steps of a day at most, and only forward: a clock that jumps, or goes back
// and forth, does not shorten it.

import { readFileSync, rmdirSync } from 'node:fs';
import type { Disk } from './disk.ts';

export const LOST_AND_FOUND = 'lost+found';
const LEDGER = `${LOST_AND_FOUND}/ledger.json`;
/** What was set aside: anything else in there is somebody else's. */
const OURS = /^lost\+found\/(?:\d+-[0-9a-f]+\.(?:pack|block|segment)|catalogue\.db-journal)(?:\.\d+)?$/;
const DAY_MS = 24 * 3600 * 1000;
const GRACE_MS = 7 * DAY_MS;
/** How often a folder that stays open looks whether something may go. */
export const SWEEP_MS: number = DAY_MS;

/** Something set aside, by its path; of a pack, what lies behind its last committed entry. */
export interface SetAside {
  readonly path: string;
  readonly bytes: number;
  /** Milliseconds until it goes. */
  readonly left: number;
}

interface Ledger {
  /** The latest time that was ever seen. */
  readonly seen: number;
  readonly left: Readonly<Record<string, number>>;
}

/** A pack that has more than was committed, and where that ends. */
export interface Tail {
  readonly path: string;
  readonly end: number;
}

/** Gives a file a place in `lost+found/`. */
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

/** Forgets how long these were aside: others of their names may come. */
function strike(disk: Disk, isStruck: (path: string) => boolean): void {
  const ledger = readLedger(disk);
  if (!ledger || !Object.keys(ledger.left).some(isStruck)) return;
  const left = Object.fromEntries(Object.entries(ledger.left).filter(([path]) => !isStruck(path)));
  writeLedger(disk, { ...ledger, left });
}

/** Lets go of what has been aside for long enough, and says what is left. */
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
 * What is aside now, without letting go of anything. A tail counts when the one who writes has
 * found it: it may be about to commit what is there else.
 */
export function listSetAside(disk: Disk, tails: readonly Tail[]): SetAside[] {
  const ledger = readLedger(disk);
  const known = tails.filter(({ path }) => ledger?.left[path] !== undefined);
  return found(disk, known).map(({ path, bytes }) => ({ path, bytes, left: ledger?.left[path] ?? GRACE_MS }));
}

/** Removes what is aside of the collection with this number: it was purged, or deleted. */
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

/** Nothing is in it any more that is ours. */
function removeFolder(disk: Disk): void {
  try {
    disk.removeSync(LEDGER);
    rmdirSync(disk.path(LOST_AND_FOUND));
  } catch {}
}

/** Where it cannot be read, the week begins again. */
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

/** On a full disk it stays as it was, and everything is kept longer. */
function writeLedger(disk: Disk, ledger: Ledger): void {
  try {
    if (disk.sizeSync(LOST_AND_FOUND) === undefined) disk.makeFolderSync(LOST_AND_FOUND);
    disk.replaceSync(LEDGER, Buffer.from(`${JSON.stringify(ledger)}\n`));
  } catch {}
}
