// A cache of lists and columns, so that opening a collection again fetches only what is new. It
// keeps them sealed, as the store does, and so needs no key. It needs no trust either: the manifest
// names them by their SHA-256, and whoever reads them checks that. A cache never fails. What it has
// lost, or cannot keep, is fetched.

import { type OptionNames, refuseUnknown } from '@hers/service';
import { invalid } from '../fields/field.ts';

/** A list or a column, sealed, by its name in the manifest. */
export interface CachedList {
  /** What it was put under. */
  readonly name: string;
  /** As the store sent it. */
  readonly sealed: Uint8Array;
}

/** What a cache has of one collection, while somebody reads it. */
export interface CachedLists {
  /** Whatever is there and current, in any order, damaged or not, some of it perhaps twice. */
  read(): AsyncIterable<CachedList>;
  /**
   * Keeps a list that was missing or damaged.
   *
   * @param list - As the store sent it.
   */
  put(list: CachedList): Promise<void>;
  /** Writes what is not written yet, and drops what is no longer current if it is much. */
  close(): Promise<void>;
}

/**
 * Keeps lists between connections; `openListCache` opens one. No method rejects.
 *
 * @param collection - The id of a collection, hexadecimal.
 */
export interface ListCache {
  /**
   * Opens what is kept of a collection.
   *
   * @param names - Those of all current lists.
   */
  open(collection: string, names: ReadonlySet<string>): Promise<CachedLists>;
  /** Deletes everything that is kept of a collection. */
  forget(collection: string): Promise<void>;
}

/** How much a cache may keep. */
export interface ListCacheOptions {
  /**
   * How much is kept of all collections together; 1 GiB by default, which is enough for 20 million
   * records with a few fields. Collections that were not opened for longest make room.
   */
  readonly maxBytes?: number;
}

const LIST_CACHE_OPTIONS: OptionNames<ListCacheOptions> = { maxBytes: true };
const DEFAULT_MAX_BYTES = 2 ** 30;

/**
 * A cache for `connect`. In Node `where` is a folder, which is made if it is missing, and only its
 * owner can read; in browsers it is the name of a database (IndexedDB). Several processes or pages
 * may share it.
 *
 * @param where - A folder; in a browser, the name of a database.
 * @param options - How much it may keep.
 * @throws {HersError} INVALID_ARGUMENT: for no name, a size that is none, or an option that there
 *   is not.
 * @example
 * const cache = await openListCache('./lists');
 * const db = await connect('https://gallery.example', { key, cache });
 */
export async function openListCache(where: string, options: ListCacheOptions = {}): Promise<ListCache> {
  refuseUnknown(options, LIST_CACHE_OPTIONS, 'a cache of lists');
  const { maxBytes = DEFAULT_MAX_BYTES } = options;
  if (typeof where !== 'string' || where === '')
    throw invalid('a cache of lists is in a folder, or in a browser in a database: name it');
  if (!(Number.isSafeInteger(maxBytes) && maxBytes >= 0)) throw invalid('maxBytes is a number of bytes');
  const { StoredListCache } = await import('#list-cache');
  return new StoredListCache(where, maxBytes);
}
