// What a keeper remembers, in a file beside the key: a journal of lines, each synced before the
// call returns, and written again when much of it is old. One process at a time has it.
//
//   HERS keeper 1
//   <nonce> <device> <time> begun|answered|enrolling|enrolled|refused
//   enrolled <device> <count>          first in a file that was written again
//   kept <nonce> <device> <time> …     the same as without `kept`, but not counted again

import { createReadStream } from 'node:fs';
import { type FileHandle, open, truncate } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { HersError } from '@hers/service';
import { isFileThere, replaceFile } from '@hers/service/target';
import { lockFile } from '@hers/store/file-lock';
import { type KnownNonce, lineOf, type NonceMemory, Nonces } from './memory.ts';

const FIRST = 'HERS keeper 1';
const LOCK_MS = 1000;
/** It is written again when it has this many lines more than are needed. */
const SPARE_LINES = 10_000;

/** Remembers in a file. Two keepers that share one would miss what the other has answered. */
export class NonceFile implements NonceMemory {
  readonly #path: string;
  #opened: Promise<Opened> | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  /**
   * Opens nothing yet: the file is read, and made, when it is needed.
   *
   * @param path - Of the file.
   */
  constructor(path: string) {
    this.#path = path;
  }

  async #open(): Promise<Opened> {
    const isThere = isFileThere(this.#path);
    const lock = await lockFile(`${this.#path}.lock`, LOCK_MS);
    try {
      const nonces = new Nonces();
      let lines = 0;
      const end = isThere ? await wholeLines(this.#path) : 0;
      if (end > 0) {
        for await (const line of createInterface({ input: createReadStream(this.#path, { end: end - 1 }) }))
          if (lines++ > 0) nonces.take(line);
          else if (line !== FIRST)
            throw new HersError('DAMAGED', `${this.#path} is no file of a keeper; restore a copy, or name another`);
        // Half a line, of something that was never acknowledged.
        await truncate(this.#path, end);
      } else lines = await this.#rewrite(nonces);
      return { nonces, lines, lock, file: await open(this.#path, 'a') };
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  /** Returns how many lines it has now. */
  async #rewrite(nonces: Nonces): Promise<number> {
    const lines = [FIRST, ...nonces.lines()];
    await replaceFile(this.#path, (file) => file.writeFile(`${lines.join('\n')}\n`));
    return lines.length;
  }

  #with<T>(work: (opened: Opened) => Promise<T>): Promise<T> {
    const turn = this.#turn.then(async () => {
      this.#opened ??= this.#open();
      try {
        return await work(await this.#opened);
      } catch (error) {
        if (error instanceof HersError) {
          if (error.code === 'LOCKED' || error.code === 'DAMAGED') this.#opened = undefined;
          throw error;
        }
        throw new HersError('STORAGE', `the keeper's file ${this.#path} cannot be used: ${(error as Error).message}`);
      }
    });
    this.#turn = turn.catch(() => {});
    return turn;
  }

  read(nonce: string): Promise<KnownNonce | undefined> {
    return this.#with(async ({ nonces }) => nonces.get(nonce));
  }

  write(known: KnownNonce): Promise<void> {
    return this.#with(async (opened) => {
      try {
        await opened.file.appendFile(`${lineOf(known)}\n`);
        await opened.file.datasync();
      } catch (error) {
        // Half a line may be there: opening again cuts it off.
        this.#opened = undefined;
        await opened.file.close().catch(() => {});
        opened.lock.release();
        throw error;
      }
      opened.nonces.set(known);
      opened.lines++;
    });
  }

  enrolled(device: number): Promise<number> {
    return this.#with(async ({ nonces }) => nonces.enrolled(device));
  }

  begun(): Promise<readonly KnownNonce[]> {
    return this.#with(async ({ nonces }) => nonces.begun());
  }

  forget(before: number): Promise<void> {
    return this.#with(async (opened) => {
      opened.nonces.forget(before);
      if (opened.lines < opened.nonces.size + SPARE_LINES) return;
      opened.lines = await this.#rewrite(opened.nonces);
      // Closed first: if the new one does not open, nothing goes into the one that was replaced.
      await opened.file.close();
      opened.file = await open(this.#path, 'a');
    });
  }

  /**
   * Lets others have the file.
   *
   * @throws {HersError} STORAGE: where it cannot be used.
   */
  close(): Promise<void> {
    return this.#with(async (opened) => {
      this.#opened = undefined;
      await opened.file.close();
      opened.lock.release();
    });
  }
}

interface Opened {
  readonly nonces: Nonces;
  readonly lock: { release(): void };
  file: FileHandle;
  lines: number;
}

async function wholeLines(path: string): Promise<number> {
  await using file = await open(path, 'r');
  const { size } = await file.stat();
  const tail = Buffer.alloc(Math.min(size, 4096));
  await file.read(tail, 0, tail.length, size - tail.length);
  return size - tail.length + tail.lastIndexOf(0x0a) + 1;
}
