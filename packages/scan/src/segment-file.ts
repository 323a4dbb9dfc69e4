// Reading and writing segment files. The system may read or write less than requested; these
// functions do not.

import type { FileHandle } from 'node:fs/promises';
import { decodeHeader, headerLength, type SegmentHeader } from './segment.ts';

/** Enough for the header of most segments. */
const FIRST_BYTES = 4096;

/**
 * The bytes from `at` on; fewer than `length` only at the end of the file. Whoever reads much gives
 * the memory for it: the system takes longer for new memory than for reading.
 */
export async function readFully(
  file: Pick<FileHandle, 'read'>,
  length: number,
  at: number,
  bytes: Uint8Array = new Uint8Array(length),
): Promise<Uint8Array> {
  let done = 0;
  while (done < length) {
    const { bytesRead } = await file.read(bytes, done, length - done, at + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return bytes.subarray(0, done);
}

export async function writeFully(file: Pick<FileHandle, 'write'>, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done);
    if (bytesWritten === 0) throw new Error('the system wrote nothing and gave no reason');
    done += bytesWritten;
  }
}

export async function readHeader(file: FileHandle, name: string): Promise<SegmentHeader> {
  const { size } = await file.stat();
  const start = await readFully(file, FIRST_BYTES, 0);
  const length = headerLength(start, name);
  return decodeHeader(length > start.length ? await readFully(file, length, 0) : start, size, name);
}
