// Open files of a folder. Opening and closing are synchronous: they take microseconds, and passing
// them to another thread takes many times that. Only operations that wait for the disk are
// asynchronous.

import { closeSync, fdatasync, fstatSync, read, write } from 'node:fs';
import { promisify } from 'node:util';
import { storageError } from '../storage-errors.ts';
import type { Step } from './disk.ts';

const readAsync = promisify(read);
const writeAsync = promisify(write);
const fdatasyncAsync = promisify(fdatasync);

export type Stepper = <T>(step: Step, work: () => Promise<T>) => Promise<T>;

export class DiskFile {
  readonly path: string;
  readonly #step: Stepper;
  #file: number | undefined;

  constructor(step: Stepper, file: number, path: string) {
    this.#step = step;
    this.#file = file;
    this.path = path;
  }

  write(bytes: Uint8Array, at: number): Promise<void> {
    return this.#step({ kind: 'write', path: this.path, at, bytes }, async () => {
      // A disk that is nearly full takes part of a write, and reports it only at the next call.
      for (let done = 0; done < bytes.length; )
        done += (await writeAsync(this.#file!, bytes, done, bytes.length - done, at + done)).bytesWritten;
    });
  }

  sync(): Promise<void> {
    return this.#step({ kind: 'sync', path: this.path }, () => fdatasyncAsync(this.#file!));
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }
}

export class DiskReader {
  readonly path: string;
  #file: number | undefined;

  constructor(file: number, path: string) {
    this.#file = file;
    this.path = path;
  }

  get size(): number {
    try {
      return fstatSync(this.#file!).size;
    } catch (error) {
      throw storageError(error, this.path);
    }
  }

  /**
   * The bytes from `at` on; fewer than requested at the end of the file. Whoever reads much gives
   * the memory for it: the system takes longer for new memory than for reading.
   */
  async read(
    at: number,
    length: number,
    bytes: Buffer<ArrayBuffer> = Buffer.allocUnsafeSlow(length),
  ): Promise<Buffer<ArrayBuffer>> {
    try {
      let done = 0;
      while (done < length) {
        const { bytesRead } = await readAsync(this.#file!, bytes, done, length - done, at + done);
        if (bytesRead === 0) break;
        done += bytesRead;
      }
      return bytes.subarray(0, done);
    } catch (error) {
      throw storageError(error, this.path);
    }
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }
}
