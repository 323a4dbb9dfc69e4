// A file with blocks, as the kernel scans it: a segment, or a single encoded block, which is laid
// out in memory on first use. A running search keeps the sources it started with. So a file that is
// no longer needed is removed at once, and the kernel's copy is released with the last search that
// uses it.

import { type Kernel, type SegmentBlock, type SegmentHandle, type SegmentHeader, segmentBytes } from '@hers/scan';
import { type Block, blockMatrix, HersError, parameterSetById } from '@hers/scheme';
import { hex, sameBytes } from '../base/bytes.ts';
import { damaged, storageError } from '../base/storage-errors.ts';
import type { BlockRow } from '../catalogue/tables.ts';
import type { Disk } from '../files/disk.ts';
import { keptBlock, readKeptBlock, readSegmentHeader } from './rebuild.ts';

export class Source {
  readonly path: string;
  readonly inSegment: boolean;
  readonly bytes: number;
  /** The number of blocks in the file, and those of them that belong to the collection. */
  readonly total: number;
  readonly live: Set<StoredBlock> = new Set();
  /** Those that were dropped and are kept for a while (past.ts). */
  readonly kept: Set<StoredBlock> = new Set();
  readonly #disk: Disk;
  readonly #kernel: () => Promise<Kernel>;
  #handle: Promise<SegmentHandle> | undefined;
  /** Released when no search uses it any more. */
  #distrusted: Promise<SegmentHandle>[] = [];
  #scans = 0;
  #readers = 0;
  #retired: (() => void) | undefined;
  #retiring: Promise<void> | undefined;

  constructor(
    disk: Disk,
    kernel: () => Promise<Kernel>,
    file: { readonly path: string; readonly inSegment: boolean; readonly bytes: number; readonly total: number },
  ) {
    this.#disk = disk;
    this.#kernel = kernel;
    this.path = file.path;
    this.inSegment = file.inSegment;
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
      this.#handle = undefined; // so that a repaired file can be loaded again
      this.release();
      // This file was valid once, so any error that the kernel reports about it is damage.
      const odd = error instanceof HersError && (error.code === 'MALFORMED' || error.code === 'UNSUPPORTED_VERSION');
      throw odd ? damaged(this.path, error.message) : storageError(error, this.path);
    }
  }

  release(): void {
    this.#scans--;
    this.#settle();
  }

  /** A scan found it damaged. The next scan loads it again, in case it has been repaired. */
  distrust(): void {
    if (this.#handle !== undefined) this.#distrusted.push(this.#handle);
    this.#handle = undefined;
  }

  /** Keeps the file from being removed until the returned function is called. */
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

  async reading<T>(work: () => Promise<T>): Promise<T> {
    const letGo = this.hold();
    try {
      return await work();
    } finally {
      letGo();
    }
  }

  async #load(): Promise<SegmentHandle> {
    // Before the first `await`: afterwards blocks may have been dropped or moved.
    const blocks = [...this.live, ...this.kept].map((block) => ({ ...block }));
    const kept = keptBlock(blocks[0]);
    const kernel = await this.#kernel();
    if (this.inSegment) {
      await this.#checkHeader(blocks);
      return kernel.load({ path: this.#disk.path(this.path) });
    }
    const { block } = await readKeptBlock(this.#disk, kept);
    return kernel.load({ bytes: segmentBytes([blockMatrix(block)]), name: this.path });
  }

  /** A kernel does not know the catalogue: it would scan any segment. */
  async #checkHeader(blocks: readonly StoredBlock[]): Promise<void> {
    using file = this.#disk.openToRead(this.path);
    const header = await readSegmentHeader(file);
    for (const block of blocks)
      if (!isAt(header, block)) throw damaged(this.path, `block ${block.name} is not in it where the catalogue says`);
  }

  /** Removes the file; resolves when it is gone. */
  retire(): Promise<void> {
    this.#retiring ??= new Promise<void>((resolve) => {
      this.#retired = resolve;
    }).then(() => this.#disk.remove(this.path));
    this.#settle();
    return this.#retiring;
  }

  /** It is no longer needed, but another process owns its file. */
  letGo(): void {
    this.#retired ??= () => {};
    this.#settle();
  }

  #settle(): void {
    if (this.#readers === 0) this.#retired?.();
    if (this.#scans > 0) return;
    if (this.#retired) this.distrust();
    for (const handle of this.#distrusted.splice(0))
      handle.then(async (loaded) => (await this.#kernel()).unload(loaded)).catch(() => {});
  }
}

/** Whether the segment has the block where the catalogue says, under the same key and plan. */
export function isAt(header: SegmentHeader, block: StoredBlock): boolean {
  const entry: SegmentBlock | undefined = header.blocks[block.position];
  return (
    entry !== undefined &&
    sameBytes(entry.blockId, block.id) &&
    hex(header.keyId) === block.keyId &&
    header.parameters.id === block.parametersId &&
    header.width === block.width &&
    header.galleryScale === block.galleryScale
  );
}

export interface StoredBlock {
  readonly name: string; // its id in hexadecimal
  readonly id: Uint8Array;
  /** The id of its key, in hexadecimal. Only queries under this key are compared with it. */
  readonly keyId: string;
  /** Blocks of one kind share a key and a plan, and may share a segment. */
  readonly kind: string;
  readonly parametersId: number;
  readonly width: number;
  readonly galleryScale: number;
  readonly first: number;
  readonly count: number;
  readonly hash: Uint8Array;
  readonly seed: Uint8Array;
  readonly bytes: number;
  /** Where it is; compaction moves it. */
  source: Source;
  position: number;
}

export function storedBlock(row: BlockRow, source: Source): StoredBlock {
  const keyId = hex(row.key_id);
  return {
    name: hex(row.id),
    id: row.id,
    keyId,
    kind: `${keyId} ${row.parameters} ${row.width} ${row.gallery_scale}`,
    parametersId: row.parameters,
    width: row.width,
    galleryScale: row.gallery_scale,
    first: row.first,
    count: row.count,
    hash: row.hash,
    seed: row.seed,
    bytes: row.bytes,
    source,
    position: row.position ?? 0,
  };
}

/** The row of a new block in a file of its own. */
export function newBlockRow(block: Block, encoded: { hash: Uint8Array; bytes: number }, file: string): BlockRow {
  return {
    id: block.blockId,
    key_id: block.keyId,
    parameters: block.parameters.id,
    width: block.width,
    gallery_scale: block.galleryScale,
    first: block.first,
    count: block.count,
    hash: encoded.hash,
    seed: block.seed,
    bytes: encoded.bytes,
    file,
    position: null,
  };
}

/** Whether every slot is taken. A block that is not full is likely to be replaced soon. */
export function isFull(block: StoredBlock): boolean {
  return block.first === 0 && block.count === parameterSetById(block.parametersId).n;
}
