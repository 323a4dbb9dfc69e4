// The only way files of a folder are written (the catalogue's own excepted, which SQLite writes, and segments while they are built). Paths are relative to
// the folder, which is how errors name them. Tests watch the steps, and replay them with everything unsynced lost.

import {
  closeSync,
  fdatasyncSync,
  fsync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { HersError } from '@hers/service';
import { DiskFile, DiskReader } from './disk-file.ts';
import { storageError } from './storage-errors.ts';

export type Step =
  | { readonly kind: 'create'; readonly path: string }
  | { readonly kind: 'write'; readonly path: string; readonly at: number; readonly bytes: Uint8Array }
  | { readonly kind: 'truncate'; readonly path: string; readonly length: number }
  | { readonly kind: 'sync'; readonly path: string }
  /** A whole file that others wrote and synced, such as a segment under its temporary name. */
  | { readonly kind: 'adopt'; readonly path: string }
  | { readonly kind: 'rename'; readonly path: string; readonly to: string }
  | { readonly kind: 'remove'; readonly path: string }
  | { readonly kind: 'sync-folder'; readonly path: string }
  | { readonly kind: 'commit'; readonly path: string };

/** For tests: sees every step. What `before` throws happens instead of the step. */
export interface Watcher {
  before?(step: Step): void;
  after?(step: Step): void;
}

const MODE = 0o600;
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
      throw storageError(error, this.#name(step.path));
    }
  }

  #stepSync<T>(step: Step, work: () => T): T {
    try {
      this.#watcher?.before?.(step);
      const result = work();
      this.#watcher?.after?.(step);
      return result;
    } catch (error) {
      throw storageError(error, this.#name(step.path));
    }
  }

  /** Tells a watcher what happened elsewhere: a segment was built, the catalogue committed. */
  note(step: Step): void {
    this.#watcher?.after?.(step);
  }

  /** A new file. */
  create(path: string): DiskFile {
    const file = this.#stepSync({ kind: 'create', path }, () => openSync(this.path(path), 'wx', MODE));
    return new DiskFile(this.#step.bind(this), file, path);
  }

  /** A file that is there, to write more into it. */
  reopen(path: string): DiskFile {
    return new DiskFile(this.#step.bind(this), this.#open(path, 'r+'), path);
  }

  openToRead(path: string): DiskReader {
    return new DiskReader(this.#open(path, 'r'), path);
  }

  #open(path: string, flags: string): number {
    try {
      return openSync(this.path(path), flags);
    } catch (error) {
      throw storageError(error, path);
    }
  }

  /** A whole file. */
  async read(path: string): Promise<Buffer<ArrayBuffer>> {
    const file = this.openToRead(path);
    try {
      return await file.read(0, file.size);
    } finally {
      file.close();
    }
  }

  rename(path: string, to: string): Promise<void> {
    return this.#step({ kind: 'rename', path, to }, () => rename(this.path(path), this.path(to)));
  }

  /** Removes a file, if it is there. */
  remove(path: string): Promise<void> {
    return this.#step({ kind: 'remove', path }, () => rm(this.path(path), { force: true }));
  }

  syncFolder(path: string): Promise<void> {
    return this.#step({ kind: 'sync-folder', path }, async () => {
      const folder = openSync(this.path(path), 'r');
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
      // The name of each new folder is in the one above it.
      for (let made = folder; first !== undefined; made = dirname(made)) {
        syncFolder(dirname(made));
        if (made === first) break;
      }
    } catch (error) {
      // So Node says it of a read-only disk.
      if ((error as { code?: string }).code === 'ENOENT')
        throw new HersError(
          'STORAGE',
          `${this.#name(path)} cannot be made: the disk is read-only, or the name is wrong`,
        );
      throw storageError(error, this.#name(path));
    }
  }

  listSync(path: string): string[] {
    try {
      return readdirSync(this.path(path));
    } catch (error) {
      throw storageError(error, path);
    }
  }

  /** The length of a file, or undefined when there is none. */
  sizeSync(path: string): number | undefined {
    return statSync(this.path(path), { throwIfNoEntry: false })?.size;
  }

  removeSync(path: string): void {
    this.#stepSync({ kind: 'remove', path }, () => rmSync(this.path(path), { force: true }));
  }

  truncateSync(path: string, length: number): void {
    this.#stepSync({ kind: 'truncate', path, length }, () => {
      const file = openSync(this.path(path), 'r+');
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

  /** A whole file, new or in place of another: afterwards it is there entirely, before not at all. */
  replaceSync(path: string, bytes: Uint8Array, written?: () => void): void {
    const temporary = `${path}.tmp`;
    this.#stepSync({ kind: 'write', path: temporary, at: 0, bytes }, () => {
      const file = openSync(this.path(temporary), 'w', MODE);
      try {
        for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at, bytes.length - at, at);
        fdatasyncSync(file);
      } finally {
        closeSync(file);
      }
    });
    this.note({ kind: 'sync', path: temporary });
    written?.();
    this.#stepSync({ kind: 'rename', path: temporary, to: path }, () =>
      renameSync(this.path(temporary), this.path(path)),
    );
    this.syncFolderSync(dirname(path));
  }
}

function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
