// What was seen, in a file of its own beside the key file. One process at a time writes it, and all
// of it: a crash leaves the old file or the new one.

import { readFile, unlink, writeFile } from 'node:fs/promises';
import { HersError } from '@hers/service';
import { replaceFile } from '@hers/service/target';
import { lockFile } from '@hers/store/file-lock';
import { type Place, type Seen, Sightings, type VersionMemory } from './versions.ts';

const FORMAT = 1;
/** How long another process may take with the file. */
const LOCK_MS = 10_000;
const SPARE_BYTES = 2 ** 16;

type Row = Place & Seen;

/**
 * Remembers in a file, which several processes may use.
 *
 * @throws {HersError} UNSUPPORTED_VERSION: for a file in another format.
 * @throws {SyntaxError} for a file that holds something else.
 * @throws {HersError} LOCKED: where another process has held the file for ten seconds.
 * @throws {HersError} INVALID_ARGUMENT: where the path is no file.
 */
export class VersionFile implements VersionMemory {
  readonly #path: string;
  #writing: Promise<unknown> = Promise.resolve();

  /**
   * Opens nothing yet: the file is read, and made, when it is needed.
   *
   * @param path - Of the file; it is made with the first collection that is seen.
   * @example
   * const versions = new VersionFile('./seen.json');
   * const db = await connect('https://gallery.example', { key, versions });
   */
  constructor(path: string) {
    this.#path = path;
  }

  async #read(): Promise<Sightings> {
    const sightings = new Sightings();
    for (const { gallery, name, ...seen } of await rowsOf(this.#path)) sightings.set({ gallery, name }, seen);
    return sightings;
  }

  async read(place: Place): Promise<Seen | undefined> {
    return (await this.#read()).get(place);
  }

  async places(id: string): Promise<readonly { readonly place: Place; readonly seen: Seen }[]> {
    return (await this.#read()).of(id);
  }

  /** Counts the collections that were seen. */
  async count(): Promise<number> {
    const sightings = await this.#read();
    return new Set(sightings.all().map(({ place, seen: { id } }) => `${id} ${place.name}`)).size;
  }

  /**
   * Forgets everything about a gallery, for one that is made again in its place.
   *
   * @param gallery - As {@link galleryOf} names it.
   */
  forget(gallery: string): Promise<void> {
    return this.#alone(async () => {
      const sightings = await this.#read();
      const known = sightings.all().filter(({ place }) => place.gallery === gallery);
      if (known.length === 0) return;
      for (const { place } of known) sightings.set(place, undefined);
      await this.#write(sightings);
    });
  }

  update(
    place: Place,
    change: (seen: Seen | undefined) => Seen | undefined,
    { isFleeting = false }: { readonly isFleeting?: boolean } = {},
  ): Promise<Seen | undefined> {
    return this.#alone(async () => {
      const sightings = await this.#read();
      const before = sightings.get(place);
      const seen = change(before);
      if (JSON.stringify(seen) === JSON.stringify(before)) return seen;
      sightings.set(place, seen);
      await this.#write(sightings, isFleeting);
      return seen;
    });
  }

  /** One at a time in this process; a lock keeps other processes out. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#writing.then(async () => {
      const lock = await lockFile(`${this.#path}.lock`, LOCK_MS);
      try {
        return await work();
      } finally {
        lock.release();
      }
    });
    this.#writing = turn.catch(() => {});
    return turn;
  }

  async #write(sightings: Sightings, isFleeting = false): Promise<void> {
    const collections = sightings.all().map(({ place, seen }): Row => ({ ...place, ...seen }));
    const text = `${JSON.stringify({ format: FORMAT, collections }, null, 1)}\n`;
    const replace = () => replaceFile(this.#path, (file) => file.writeFile(text), { isFleeting });
    try {
      await replace();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      await unlink(this.#spare).catch(() => {
        throw error;
      });
      await replace();
    }
    await this.#keepSpare();
  }

  get #spare(): string {
    return `${this.#path}.spare`;
  }

  /**
   * Reserves room for when the disk is full: searches that fetch records write down what they show
   * before they show it.
   */
  async #keepSpare(): Promise<void> {
    try {
      await writeFile(this.#spare, Buffer.alloc(SPARE_BYTES), { flag: 'wx', mode: 0o600 });
    } catch (error) {
      const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST';
      if (!isThere) await unlink(this.#spare).catch(() => {});
    }
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function isRow(row: unknown): row is Row {
  if (!isObject(row)) return false;
  const { gallery, name, id, version, hash, unverified, stopped, deleted, deletedIds } = row;
  const isText = (value: unknown) => typeof value === 'string';
  return (
    [gallery, name, id].every(isText) &&
    Number.isSafeInteger(version) &&
    (hash === undefined || isText(hash)) &&
    [stopped, deleted].every((flag) => flag === undefined || typeof flag === 'boolean') &&
    [unverified, deletedIds].every((list) => list === undefined || (Array.isArray(list) && list.every(isText)))
  );
}

/** Nothing where there is no file; SyntaxError where it holds something else. */
async function rowsOf(path: string): Promise<readonly Row[]> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return [];
  }
  const damaged = () => Object.assign(new SyntaxError(`${path} does not hold what was seen`), { path });
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    throw damaged();
  }
  if (!isObject(content) || typeof content.format !== 'number') throw damaged();
  if (content.format !== FORMAT)
    throw new HersError('UNSUPPORTED_VERSION', `${path} is in another format; use the version that wrote it`);
  if (!Array.isArray(content.collections) || !content.collections.every(isRow)) throw damaged();
  return content.collections;
}
