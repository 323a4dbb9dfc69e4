// What was seen, in a file of its own beside the key file. One process at a time writes it, to a
// temporary file that is synced and renamed: a crash leaves the old file or the new one.

import { randomBytes } from 'node:crypto';
import { open, readFile, unlink, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { HersError, refuseUnknown } from '@hers/service';
import { isFileThere, renameOverFile } from '@hers/service/target';
import { lockFile } from '@hers/store/file-lock';
import { type Place, type Seen, Sightings, type VersionMemory } from './versions.ts';

const FORMAT = 2;
/** How long another process may take with the file. */
const LOCK_MS = 10_000;
const SPARE_BYTES = 2 ** 16;

type Row = Place & Seen;

/** Numbers alone, by id and name: all that was remembered before there were hashes. */
type Numbers = Readonly<Record<string, number>>;

interface Content {
  readonly format: typeof FORMAT;
  readonly collections: readonly Row[];
  /** From the same file, as an older program left it. */
  readonly numbers?: Numbers;
}

/** How a file of what was seen is used. */
export interface VersionFileOptions {
  /**
   * A file of numbers, as it was written before there were hashes: it is read, and left as it is
   * for older programs.
   */
  readonly older?: string;
}

/** Remembers in a file, which several processes may use. */
export class VersionFile implements VersionMemory {
  readonly #path: string;
  readonly #older: string | undefined;
  #writing: Promise<unknown> = Promise.resolve();

  /**
   * Opens nothing yet: the file is read, and made, when it is needed.
   *
   * @param path - Of the file; it is made with the first collection that is seen.
   * @param options - An older file that counts as well.
   * @throws {HersError} INVALID_ARGUMENT: for an option that there is not.
   * @example
   * const versions = new VersionFile('./seen.json');
   * const db = await connect('https://gallery.example', { key, versions });
   */
  constructor(path: string, options: VersionFileOptions = {}) {
    refuseUnknown(options, { older: true }, 'a file of versions');
    this.#path = path;
    this.#older = options.older;
  }

  /** Throws SyntaxError where a file holds something else. */
  async #read(): Promise<{ readonly sightings: Sightings; readonly own: Numbers; readonly numbers: Numbers }> {
    const content = await contentOf(this.#path);
    const older = this.#older === undefined ? {} : await contentOf(this.#older);
    const sightings = new Sightings();
    for (const { gallery, name, ...seen } of isContent(content) ? content.collections : [])
      sightings.set({ gallery, name }, seen);
    const own = numbersOf(content);
    const numbers: Record<string, number> = { ...own };
    for (const [collection, version] of Object.entries(numbersOf(older)))
      numbers[collection] = Math.max(version, numbers[collection] ?? 0);
    return { sightings, own, numbers };
  }

  async read(place: Place): Promise<Seen | undefined> {
    const { sightings, numbers } = await this.#read();
    return atLeast(sightings.get(place), place, numbers);
  }

  async places(id: string): Promise<readonly { readonly place: Place; readonly seen: Seen }[]> {
    const { sightings, numbers } = await this.#read();
    const older = Object.entries(numbers)
      .filter(([collection]) => collection.startsWith(`${id} `))
      .map(([collection, version]) => ({
        place: { gallery: '', name: collection.slice(id.length + 1) },
        seen: { id, version },
      }));
    return [...sightings.of(id), ...older];
  }

  /**
   * How many collections were seen.
   *
   * @throws {HersError} UNSUPPORTED_VERSION: for a file of a newer version.
   * @throws {SyntaxError} for a file that holds something else.
   */
  async count(): Promise<number> {
    const { sightings, numbers } = await this.#read();
    const seen = new Set(sightings.all().map(({ place, seen: { id } }) => `${id} ${place.name}`));
    return new Set([...seen, ...Object.keys(numbers)]).size;
  }

  /**
   * Forgets everything about a gallery, for one that is made again in its place.
   *
   * @param gallery - As {@link galleryOf} names it.
   * @throws {HersError} UNSUPPORTED_VERSION: for a file of a newer version.
   * @throws {SyntaxError} for a file that holds something else.
   * @throws {HersError} LOCKED: where another process has held the file for ten seconds.
   * @throws {HersError} INVALID_ARGUMENT: where the path is no file.
   */
  forget(gallery: string): Promise<void> {
    return this.#alone(async () => {
      const { sightings, own } = await this.#read();
      const known = sightings.all().filter(({ place }) => place.gallery === gallery);
      if (known.length === 0) return;
      for (const { place } of known) sightings.set(place, undefined);
      await this.#write(sightings, own);
    });
  }

  update(
    place: Place,
    change: (seen: Seen | undefined) => Seen | undefined,
    { isFleeting = false }: { readonly isFleeting?: boolean } = {},
  ): Promise<Seen | undefined> {
    return this.#alone(async () => {
      const { sightings, own, numbers } = await this.#read();
      const before = atLeast(sightings.get(place), place, numbers);
      const changed = change(before);
      if (JSON.stringify(changed) === JSON.stringify(before)) return changed;
      // Less than an older program has seen is never written by itself: somebody meant it.
      const number = changed ? (numbers[`${changed.id} ${place.name}`] ?? 0) : 0;
      const seen = changed && number > changed.version ? { ...changed, outranked: number } : changed;
      sightings.set(place, seen);
      await this.#write(sightings, own, isFleeting);
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

  async #write(sightings: Sightings, numbers: Numbers, isFleeting = false): Promise<void> {
    const collections = sightings.all().map(({ place, seen }) => ({ ...place, ...seen }));
    const content: Content = {
      format: FORMAT,
      collections,
      ...(Object.keys(numbers).length > 0 ? { numbers } : {}),
    };
    const text = `${JSON.stringify(content, null, 1)}\n`;
    try {
      await this.#replace(text, isFleeting);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      await unlink(this.#spare).catch(() => {
        throw error;
      });
      await this.#replace(text, isFleeting);
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

  async #replace(text: string, isFleeting: boolean): Promise<void> {
    isFileThere(this.#path);
    const temporary = `${this.#path}.${randomBytes(6).toString('hex')}.tmp`;
    const file = await open(temporary, 'wx', 0o600);
    try {
      await file.writeFile(text);
      if (!isFleeting) await file.datasync();
      await file.close();
      renameOverFile(temporary, this.#path);
    } catch (error) {
      await file.close().catch(() => {});
      await unlink(temporary).catch(() => {});
      throw error;
    }
    if (isFleeting) return;
    // The new name is on the disk when its folder is; where a folder cannot be opened the rename
    // has to do.
    const folder = await open(dirname(this.#path), 'r').catch(() => undefined);
    await folder
      ?.sync()
      .catch(() => {})
      .finally(() => folder.close());
  }
}

/** What an older program has seen of the same collection counts as well. */
function atLeast(seen: Seen | undefined, { name }: Place, numbers: Numbers): Seen | undefined {
  const number = seen ? (numbers[`${seen.id} ${name}`] ?? 0) : 0;
  if (!seen || number <= Math.max(seen.version, seen.outranked ?? 0)) return seen;
  const { hash: _, ...rest } = seen;
  return { ...rest, version: number };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function isRow(row: unknown): row is Row {
  if (!isObject(row)) return false;
  const { gallery, name, id, version, hash, linked, outranked, unverified, stopped, deleted, deletedIds } = row;
  const isText = (value: unknown) => typeof value === 'string';
  return (
    [gallery, name, id].every(isText) &&
    Number.isSafeInteger(version) &&
    (outranked === undefined || Number.isSafeInteger(outranked)) &&
    (hash === undefined || isText(hash)) &&
    [linked, stopped, deleted].every((flag) => flag === undefined || typeof flag === 'boolean') &&
    [unverified, deletedIds].every((list) => list === undefined || (Array.isArray(list) && list.every(isText)))
  );
}

const isNumbers = (value: unknown): value is Numbers =>
  isObject(value) && Object.values(value).every(Number.isSafeInteger);

const isContent = (content: Content | Numbers): content is Content => Array.isArray(content.collections);

const numbersOf = (content: Content | Numbers): Numbers => (isContent(content) ? (content.numbers ?? {}) : content);

/** Nothing where there is no file; SyntaxError where it holds something else. */
async function contentOf(path: string): Promise<Content | Numbers> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return {};
  }
  const damaged = () => Object.assign(new SyntaxError(`${path} does not hold what was seen`), { path });
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    throw damaged();
  }
  if (isObject(content) && 'collections' in content) {
    const { format, collections, numbers = {} } = content;
    if (typeof format === 'number' && format > FORMAT)
      throw new HersError('UNSUPPORTED_VERSION', `${path} was written by a newer version; use that`);
    if (format === FORMAT && Array.isArray(collections) && collections.every(isRow) && isNumbers(numbers))
      return { format, collections, numbers };
  } else if (isNumbers(content)) return content;
  throw damaged();
}
