// A file with blocks, as the kernel scans it: a segment, or an encoded block of its own, which is laid out in memory when it is first needed. Searches hold
// on to what they began with, so a file that is no longer needed disappears at once, and what the kernel has of it when the last search lets go.

import { type Kernel, type SegmentHandle, segmentBytes } from '@hers/scan';
import { blockMatrix, HersError } from '@hers/scheme';
import type { Disk } from './disk.ts';
import { keptBlock, readKeptBlock } from './rebuild.ts';
import { damaged, storageError } from './storage-errors.ts';
import type { StoredBlock } from './stored-block.ts';

export class Source {
  readonly path: string;
  /** Whether it is a segment. */
  readonly sealed: boolean;
  readonly bytes: number;
  /** Blocks in the file, and those of them that belong to the collection. */
  readonly total: number;
  readonly live = new Set<StoredBlock>();
  readonly #disk: Disk;
  readonly #kernel: () => Promise<Kernel>;
  #handle: Promise<SegmentHandle> | undefined;
  #scans = 0;
  /** Who needs the file itself. */
  #readers = 0;
  #retired: (() => void) | undefined;
  #retiring: Promise<void> | undefined;

  constructor(
    disk: Disk,
    kernel: () => Promise<Kernel>,
    file: { readonly path: string; readonly sealed: boolean; readonly bytes: number; readonly total: number },
  ) {
    this.#disk = disk;
    this.#kernel = kernel;
    this.path = file.path;
    this.sealed = file.sealed;
    this.bytes = file.bytes;
    this.total = file.total;
  }

  /** The kernel's handle, until `release`. */
  async acquire(): Promise<SegmentHandle> {
    this.#scans++;
    this.#handle ??= this.reading(() => this.#load());
    try {
      return await this.#handle;
    } catch (error) {
      this.#handle = undefined; // so that a repaired file can be tried again
      this.release();
      // Whatever a kernel dislikes about a file that was whole once, it is damage.
      const odd = error instanceof HersError && (error.code === 'MALFORMED' || error.code === 'UNSUPPORTED_VERSION');
      throw odd ? damaged(this.path, error.message) : storageError(error, this.path);
    }
  }

  release(): void {
    this.#scans--;
    this.#settle();
  }

  /** Keeps the file where it is until the function is called that this returns. */
  hold(): () => void {
    this.#readers++;
    return () => {
      this.#readers--;
      this.#settle();
    };
  }

  get beingRead(): boolean {
    return this.#readers > 0;
  }

  /** Keeps the file where it is while `work` reads it. */
  async reading<T>(work: () => Promise<T>): Promise<T> {
    const letGo = this.hold();
    try {
      return await work();
    } finally {
      letGo();
    }
  }

  async #load(): Promise<SegmentHandle> {
    const [stored] = this.live;
    const kept = keptBlock(stored); // before the first pause, after which it may have been dropped
    const kernel = await this.#kernel();
    if (this.sealed) return kernel.load({ path: this.#disk.path(this.path) });
    const { block } = await readKeptBlock(this.#disk, kept);
    return kernel.load({ bytes: segmentBytes([blockMatrix(block)]), name: this.path });
  }

  /** The file goes; resolves when it is gone. */
  retire(): Promise<void> {
    this.#retiring ??= new Promise<void>((resolve) => {
      this.#retired = resolve;
    }).then(() => this.#disk.remove(this.path));
    this.#settle();
    return this.#retiring;
  }

  #settle(): void {
    if (!this.#retired) return;
    if (this.#readers === 0) this.#retired();
    if (this.#scans > 0 || !this.#handle) return;
    const handle = this.#handle;
    this.#handle = undefined;
    handle.then(async (loaded) => (await this.#kernel()).unload(loaded)).catch(() => {});
  }
}
