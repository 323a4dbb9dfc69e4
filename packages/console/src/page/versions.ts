// What this browser has seen of each collection, kept in its own database (IndexedDB): a gallery
// that is rolled back or exchanged between two visits is caught. There is nothing secret in it.

import { InMemoryVersions, type Place, type Seen, type VersionMemory } from '@hers/client';

interface Row {
  readonly place: Place;
  readonly seen: Seen;
}

const STORE = 'seen';

function answerOf<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

const keyOf = ({ gallery, name }: Place) => `${name}\n${gallery}`;

class StoredVersions implements VersionMemory {
  readonly #database: IDBDatabase;

  constructor(database: IDBDatabase) {
    this.#database = database;
  }

  #rows(mode: IDBTransactionMode): IDBObjectStore {
    return this.#database.transaction(STORE, mode, { durability: 'strict' }).objectStore(STORE);
  }

  async read(place: Place): Promise<Seen | undefined> {
    return (await answerOf<Row | undefined>(this.#rows('readonly').get(keyOf(place))))?.seen;
  }

  /** In one transaction, so two tabs cannot come between. */
  update(place: Place, change: (seen: Seen | undefined) => Seen | undefined): Promise<Seen | undefined> {
    return new Promise((resolve, reject) => {
      const rows = this.#rows('readwrite');
      const { transaction } = rows;
      let result: Seen | undefined;
      let failure: unknown;
      const reading: IDBRequest<Row | undefined> = rows.get(keyOf(place));
      reading.onsuccess = () => {
        try {
          result = change(reading.result?.seen);
          if (result === undefined) rows.delete(keyOf(place));
          else rows.put({ place, seen: result } satisfies Row, keyOf(place));
        } catch (error) {
          failure = error;
          transaction.abort();
        }
      };
      transaction.oncomplete = () => resolve(result);
      transaction.onabort = () => reject(failure ?? transaction.error);
    });
  }

  async places(id: string): Promise<readonly Row[]> {
    const all: Row[] = await answerOf(this.#rows('readonly').getAll());
    return all.filter(({ seen }) => seen.id === id || seen.deletedIds?.includes(id));
  }
}

/** Where a browser keeps nothing, what was seen is remembered until the page is closed. */
export async function openVersions(): Promise<{ readonly memory: VersionMemory; readonly isKept: boolean }> {
  try {
    const opening = indexedDB.open('hers console', 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    return { memory: new StoredVersions(await answerOf(opening)), isKept: true };
  } catch {
    return { memory: new InMemoryVersions(), isKept: false };
  }
}
