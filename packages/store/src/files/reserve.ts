// A few megabytes kept for a full disk: releasing them makes room to delete records and to close
// the folder properly. Reading needs no room.

import { closeSync, constants, fdatasyncSync, openSync, statfsSync, writeSync } from 'node:fs';
import type { Disk } from './disk.ts';

const RESERVE = 'reserve';
const RESERVE_BYTES = 2 ** 22;
/** This much must stay free beside it: a disk that is nearly full needs what it has. */
const ROOM_BYTES = 2 ** 26;

function hasReserve(disk: Disk): boolean {
  return disk.sizeSync(RESERVE) === RESERVE_BYTES;
}

/** Creates the reserve if there is none, and if enough stays free. */
export function keepReserve(disk: Disk, room: number = ROOM_BYTES): void {
  if (hasReserve(disk)) return;
  try {
    const { bavail, bsize } = statfsSync(disk.folder);
    if (bavail * bsize < RESERVE_BYTES + room) return;
    disk.removeSync(RESERVE); // one that a crash truncated
    const file = openSync(disk.path(RESERVE), constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
    try {
      // Written in full, because a sparse file reserves nothing.
      const zeros = Buffer.alloc(RESERVE_BYTES);
      for (let at = 0; at < zeros.length; ) at += writeSync(file, zeros, at, zeros.length - at, at);
      fdatasyncSync(file);
    } finally {
      closeSync(file);
    }
  } catch {
    // The reserve is a convenience: no call fails without it.
  }
}

/** Releases the reserve; returns whether there was one. */
export function giveReserveBack(disk: Disk): boolean {
  if (disk.sizeSync(RESERVE) === undefined) return false;
  disk.removeSync(RESERVE);
  return true;
}
