// A few megabytes that are kept for the day on which the disk is full: given back, they let people
// delete, and let the folder be closed in good order. Reading needs no room.

import { closeSync, constants, fdatasyncSync, openSync, statfsSync, writeSync } from 'node:fs';
import type { Disk } from './disk.ts';

const RESERVE = 'reserve';
const RESERVE_BYTES = 2 ** 22;
/** So much must be left beside it: a disk that is nearly full needs what it has. */
const ROOM_BYTES = 2 ** 26;

function hasReserve(disk: Disk): boolean {
  return disk.sizeSync(RESERVE) === RESERVE_BYTES;
}

/** Makes the reserve where there is none, and so much room beside it. */
export function keepReserve(disk: Disk, room: number = ROOM_BYTES): void {
  if (hasReserve(disk)) return;
  try {
    const { bavail, bsize } = statfsSync(disk.folder);
    if (bavail * bsize < RESERVE_BYTES + room) return;
    disk.removeSync(RESERVE); // one that a crash has cut
    const file = openSync(disk.path(RESERVE), constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
    try {
      // Really written, because a file with holes reserves nothing.
      const zeros = Buffer.alloc(RESERVE_BYTES);
      for (let at = 0; at < zeros.length; ) at += writeSync(file, zeros, at, zeros.length - at, at);
      fdatasyncSync(file);
    } finally {
      closeSync(file);
    }
  } catch {
    // It is a convenience: nothing fails for want of it.
  }
}

/** Whether there was one, and now is its room. */
export function giveReserveBack(disk: Disk): boolean {
  if (disk.sizeSync(RESERVE) === undefined) return false;
  disk.removeSync(RESERVE);
  return true;
}
