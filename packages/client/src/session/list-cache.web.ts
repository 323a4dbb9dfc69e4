// The cache of lists in a browser: a database of its own (IndexedDB), a value for each list under
// the collection's id and its name.

import type { CachedList, CachedLists, ListCache } from './list-cache.ts';

const STORE = 'lists';
/** Read, or written, in one transaction. */
const TOGETHER = 64;

export class StoredListCache implements ListCache {
  readonly #name: string;
  readonly #maxBytes: number;
  #database: Promise<IDBDatabase> | undefined;

  constructor(name: string, maxBytes: number) {
    this.#name = name;
    this.#maxBytes = maxBytes;
  }

  async open(collection: string, names: ReadonlySet<string>): Promise<CachedLists> {
    return new StoredLists(() => this.#opened(), collection, names, this.#maxBytes);
  }

  async forget(collection: string): Promise<void> {
    try {
      const transaction = (await this.#opened()).transaction(STORE, 'readwrite');
      transaction.objectStore(STORE).delete(allOf(collection));
      await ended(transaction);
    } catch {} // as if there were none
  }

  #opened(): Promise<IDBDatabase> {
    this.#database ??= (async () => {
      const request = indexedDB.open(this.#name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE);
      const database = await answer(request);
      // Another page may want to delete it.
      database.onversionchange = () => {
        database.close();
        this.#database = undefined;
      };
      return database;
    })();
    this.#database.catch(() => {});
    return this.#database;
  }
}

class StoredLists implements CachedLists {
  readonly #opened: () => Promise<IDBDatabase>;
  readonly #collection: string;
  readonly #names: ReadonlySet<string>;
  readonly #maxBytes: number;
  #bytes = 0;
  #waiting: CachedList[] = [];

  constructor(opened: () => Promise<IDBDatabase>, collection: string, names: ReadonlySet<string>, maxBytes: number) {
    this.#opened = opened;
    this.#collection = collection;
    this.#names = names;
    this.#maxBytes = maxBytes;
  }

  async *read(): AsyncGenerator<CachedList> {
    const names = [...this.#names];
    for (let at = 0; at < names.length; at += TOGETHER) {
      const some = names.slice(at, at + TOGETHER);
      const found = await this.#get(some).catch(() => []);
      for (const [i, sealed] of found.entries()) {
        if (!(sealed instanceof Uint8Array)) continue;
        this.#bytes += sealed.length;
        yield { name: some[i], sealed };
      }
    }
  }

  async #get(names: readonly string[]): Promise<unknown[]> {
    const lists = (await this.#opened()).transaction(STORE).objectStore(STORE);
    return Promise.all(names.map((name) => answer(lists.get([this.#collection, name]))));
  }

  async put(list: CachedList): Promise<void> {
    if (this.#bytes + list.sealed.length > this.#maxBytes) return;
    this.#bytes += list.sealed.length;
    this.#waiting.push(list);
    if (this.#waiting.length === TOGETHER) await this.#flush();
  }

  async #flush(): Promise<void> {
    const lists = this.#waiting;
    this.#waiting = [];
    if (lists.length === 0) return;
    try {
      const transaction = (await this.#opened()).transaction(STORE, 'readwrite');
      // A copy: of a part of some memory, all of it would be kept.
      for (const { name, sealed } of lists)
        transaction.objectStore(STORE).put(sealed.slice(), [this.#collection, name]);
      await ended(transaction);
    } catch {} // a full disk: what is not kept is fetched again
  }

  async close(): Promise<void> {
    await this.#flush();
    try {
      const transaction = (await this.#opened()).transaction(STORE, 'readwrite');
      const lists = transaction.objectStore(STORE);
      for (const stored of await answer(lists.getAllKeys(allOf(this.#collection)))) {
        const [, name] = stored as [string, string];
        if (!this.#names.has(name)) lists.delete(stored);
      }
      await ended(transaction);
    } catch {} // they stay
  }
}

/** Everything of a collection: names are texts, and an array comes after every text. */
const allOf = (collection: string) => IDBKeyRange.bound([collection], [collection, []]);

function answer<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function ended(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
    transaction.onerror = () => reject(transaction.error);
  });
}
