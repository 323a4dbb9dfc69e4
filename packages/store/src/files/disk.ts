// All writes to a folder go through here, except those of SQLite and those of segments while they
// are built. Paths are relative to the folder, and errors name files that way. Tests watch the
// steps, and replay them with everything unsynced lost.

import {
  closeSync,
  constants,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  fsync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  read,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  write,
  writeSync,
} from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { HersError } from '@hers/service';
import { damaged, kindError, storageError } from '../base/storage-errors.ts';

export type Step =
  | { readonly kind: 'create'; readonly path: string }
  | { readonly kind: 'write'; readonly path: string; readonly at: number; readonly bytes: Uint8Array }
  | { readonly kind: 'truncate'; readonly path: string; readonly length: number }
  | { readonly kind: 'sync'; readonly path: string }
  /**
   * A whole file that was written and synced elsewhere, such as a segment under its temporary name.
   */
  | { readonly kind: 'adopt'; readonly path: string }
  | { readonly kind: 'rename'; readonly path: string; readonly to: string }
  | { readonly kind: 'remove'; readonly path: string }
  | { readonly kind: 'sync-folder'; readonly path: string }
  | { readonly kind: 'commit'; readonly path: string };

/** For tests: sees every step. If `before` throws, the step does not happen. */
export interface Watcher {
  before?(step: Step): void;
  after?(step: Step): void;
}

const MODE = 0o600;
/**
 * Opening a pipe blocks until there is a writer, unless told not to. Regular files ignore the flag.
 */
const TO_READ = constants.O_RDONLY | constants.O_NONBLOCK;
const TO_WRITE = constants.O_RDWR | constants.O_NONBLOCK;
const TO_REPLACE = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NONBLOCK;
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY;
const fsyncAsync = promisify(fsync);

export class Disk {
  readonly folder: string;
  readonly #watcher: Watcher | undefined;

  constructor(folder: string, watcher?: Watcher) {
    this.folder = folder;
    this.#watcher = watcher;
  }

  path(path: string): string {
    return join(this.folder, path);
  }

  #name(path: string): string {
    return path === '.' ? this.folder : path;
  }

  async #step<T>(step: Step, work: () => Promise<T>): Promise<T> {
    try {
      this.#watcher?.before?.(step);
      const result = await work();
      this.#watcher?.after?.(step);
      return result;
    } catch (error) {
      throw storageError(error, this.#name(step.kind === 'rename' ? step.to : step.path));
    }
  }

  #stepSync<T>(step: Step, work: () => T): T {
    try {
      this.#watcher?.before?.(step);
      const result = work();
      this.#watcher?.after?.(step);
      return result;
    } catch (error) {
      throw storageError(error, this.#name(step.kind === 'rename' ? step.to : step.path));
    }
  }

  /** Tells a watcher about a step done elsewhere: a segment was built, the catalogue committed. */
  note(step: Step): void {
    this.#watcher?.after?.(step);
  }

  create(path: string): DiskFile {
    const file = this.#stepSync({ kind: 'create', path }, () => openSync(this.path(path), 'wx', MODE));
    return new DiskFile(this.#step.bind(this), file, path);
  }

  /** An existing file, to append to. */
  reopen(path: string): DiskFile {
    return new DiskFile(this.#step.bind(this), this.openSync(path, TO_WRITE), path);
  }

  openToRead(path: string): DiskReader {
    return new DiskReader(this.openSync(path, TO_READ), path);
  }

  /** A whole file of at most this many bytes. */
  async read(path: string, most: number): Promise<Buffer<ArrayBuffer>> {
    using file = this.openToRead(path);
    const { size } = file;
    if (size > most) throw damaged(path, `it has ${size} bytes, more than were ever written`);
    return await file.read(0, size);
  }

  rename(path: string, to: string): Promise<void> {
    return this.#step({ kind: 'rename', path, to }, () => rename(this.path(path), this.path(to)));
  }

  remove(path: string): Promise<void> {
    return this.#step({ kind: 'remove', path }, () => rm(this.path(path), { force: true }));
  }

  syncFolder(path: string): Promise<void> {
    return this.#step({ kind: 'sync-folder', path }, async () => {
      const folder = openSync(this.path(path), FOLDER);
      try {
        await fsyncAsync(folder);
      } finally {
        closeSync(folder);
      }
    });
  }

  // — what opening and the catalogue do, where nothing else may happen in between —

  makeFolderSync(path: string): void {
    try {
      const folder = resolve(this.path(path));
      const first = mkdirSync(folder, { recursive: true, mode: 0o700 });
      // The name of each new folder is in its parent.
      for (let made = folder; first !== undefined; made = dirname(made)) {
        syncFolder(dirname(made));
        if (made === first) break;
      }
    } catch (error) {
      // Node reports a read-only disk this way.
      if ((error as { code?: string }).code === 'ENOENT')
        throw new HersError(
          'STORAGE',
          `${this.#name(path)} cannot be made: the disk is read-only, or the name is wrong`,
        );
      throw storageError(error, this.#name(path));
    }
  }

  /**
   * An existing file. If it is not a regular file, the error is DAMAGED, without waiting for it.
   */
  openSync(path: string, flags: number = TO_READ): number {
    let file: number | undefined;
    try {
      file = openSync(this.path(path), flags);
      const wrong = kindError(fstatSync(file), 'file', path);
      if (wrong) throw wrong;
      return file;
    } catch (error) {
      if (file !== undefined) closeSync(file);
      throw storageError(error, path);
    }
  }

  /** Refuses an existing path that is not a file, or not a folder. */
  checkKindSync(path: string, wanted: 'file' | 'folder'): void {
    const name = this.#name(path);
    try {
      const itself = lstatSync(this.path(path), { throwIfNoEntry: false });
      if (!itself) return;
      const kind = statSync(this.path(path), { throwIfNoEntry: false });
      const wrong = kind
        ? kindError(kind, wanted, name)
        : damaged(name, 'a symbolic link that leads nowhere is in its place');
      if (wrong) throw wrong;
    } catch (error) {
      throw storageError(error, name);
    }
  }

  isFileSync(path: string): boolean {
    return lstatSync(this.path(path), { throwIfNoEntry: false })?.isFile() ?? false;
  }

  isLinkSync(path: string): boolean {
    return lstatSync(this.path(path), { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
  }

  listSync(path: string): string[] {
    try {
      return readdirSync(this.path(path));
    } catch (error) {
      throw storageError(error, this.#name(path));
    }
  }

  /** The length of a file, 0 for anything else, or undefined if nothing is there. */
  sizeSync(path: string): number | undefined {
    try {
      const kind = statSync(this.path(path), { throwIfNoEntry: false });
      return kind?.isFile() ? kind.size : kind && 0;
    } catch (error) {
      if ((error as { code?: string }).code === 'ELOOP') return 0;
      throw storageError(error, this.#name(path));
    }
  }

  removeSync(path: string): void {
    this.#stepSync({ kind: 'remove', path }, () => rmSync(this.path(path), { force: true }));
  }

  renameSync(path: string, to: string): void {
    this.#stepSync({ kind: 'rename', path, to }, () => renameSync(this.path(path), this.path(to)));
  }

  truncateSync(path: string, length: number): void {
    this.#stepSync({ kind: 'truncate', path, length }, () => {
      const file = this.openSync(path, TO_WRITE);
      try {
        ftruncateSync(file, length);
        fdatasyncSync(file);
      } finally {
        closeSync(file);
      }
    });
  }

  syncFolderSync(path: string): void {
    this.#stepSync({ kind: 'sync-folder', path }, () => syncFolder(this.path(path)));
  }

  createSync(path: string): number {
    return this.#stepSync({ kind: 'create', path }, () => openSync(this.path(path), 'wx+', MODE));
  }

  writeSync(path: string, file: number, bytes: Uint8Array, at: number): void {
    this.#stepSync({ kind: 'write', path, at, bytes }, () => {
      for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done, bytes.length - done, at + done);
    });
  }

  syncSync(path: string, file: number): void {
    this.#stepSync({ kind: 'sync', path }, () => fdatasyncSync(file));
  }

  /**
   * Writes a whole file, new or as a replacement, atomically: it is there completely or not at all.
   */
  replaceSync(path: string, bytes: Uint8Array, written?: () => void): void {
    const temporary = `${path}.tmp`;
    this.#stepSync({ kind: 'write', path: temporary, at: 0, bytes }, () => {
      const file = openSync(this.path(temporary), TO_REPLACE, MODE);
      try {
        for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at, bytes.length - at, at);
        fdatasyncSync(file);
      } finally {
        closeSync(file);
      }
    });
    this.note({ kind: 'sync', path: temporary });
    written?.();
    this.renameSync(temporary, path);
    this.syncFolderSync(dirname(path));
  }
}

function syncFolder(path: string): void {
  const folder = openSync(path, FOLDER);
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/**
 * Keeps files readable even if another process removes them: they are opened in advance, and read
 * through their descriptors.
 */
export class PinnedDisk extends Disk {
  readonly #pinned = new Map<string, number>();

  /** A file that is already missing shows when it is read. */
  pinIfThere(path: string): boolean {
    if (this.#pinned.has(path)) return true;
    if (this.sizeSync(path) === undefined) return false;
    this.#pinned.set(path, this.openSync(path));
    return true;
  }

  override path(path: string): string {
    const file = this.#pinned.get(path);
    return file === undefined ? super.path(path) : `/dev/fd/${file}`;
  }

  [Symbol.dispose](): void {
    for (const file of this.#pinned.values()) closeSync(file);
    this.#pinned.clear();
  }
}

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

/** Reads `length` bytes from `at` on into `bytes`; fewer at the end of the file. */
export async function readFully<T extends Buffer>(file: number, bytes: T, at: number, length: number): Promise<T> {
  let done = 0;
  while (done < length) {
    const { bytesRead } = await readAsync(file, bytes, done, length - done, at + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return bytes.subarray(0, done) as T;
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
      return await readFully(this.#file!, bytes, at, length);
    } catch (error) {
      throw storageError(error, this.path);
    }
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
