// The open gallery: the key is here, and nowhere else. Locking closes it, which overwrites the key,
// and forgets all that was shown with it.

import {
  Database,
  HttpService,
  InMemoryVersions,
  type MasterSeed,
  type Place,
  type Seen,
  type VersionMemory,
} from '@hers/client';
import { type Signal, signal } from '@preact/signals';
import { readShelf } from './models.ts';
import { forgetShown } from './state.ts';
import { forgetExchanges } from './wire.ts';

export interface Unlocked {
  readonly database: Database;
  /** The same connection without the key: what there is under other keys, too. */
  readonly service: HttpService;
  /** What the server lets this page in by; empty where it asks for none. */
  readonly token: string;
  readonly keyName: string;
  /** Whether what was seen is remembered after this page is closed. */
  readonly remembers: boolean;
}

export const unlocked: Signal<Unlocked | undefined> = signal(undefined);
/** Why it was locked, for the view that comes next. */
export const lockedBecause: Signal<string | undefined> = signal(undefined);
/** Minutes without a key or a pointer until it locks. */
export const idleMinutes: Signal<number> = signal(10);
/** Seconds left, once there are few. */
export const locksIn: Signal<number | undefined> = signal(undefined);

export const IDLE_CHOICES: readonly number[] = [1, 5, 10, 30, 60];
const WARN_SECONDS = 60;

/** Opens the gallery with a key, which is overwritten here in any case. */
export async function unlock(
  key: MasterSeed,
  { keyName, gallery, token }: { readonly keyName: string; readonly gallery: string; readonly token: string },
): Promise<void> {
  try {
    const service = new HttpService(location.origin, { retryMs: 5000, ...(token === '' ? {} : { token }) });
    await service.hello();
    // Without models, it is the page that it was before there were any.
    await readShelf().catch(() => {});
    const { memory, isKept } = await openVersions();
    const database = new Database(service, { key, versions: memory, gallery });
    lockedBecause.value = undefined;
    unlocked.value = { database, service, token, keyName, remembers: isKept };
    touched();
  } finally {
    key.wipe();
  }
}

export function lock(why?: string): void {
  const open = unlocked.value;
  if (!open) return;
  unlocked.value = undefined;
  locksIn.value = undefined;
  lockedBecause.value = why;
  forgetShown();
  forgetExchanges();
  // Whatever fails there fails because it is closed.
  open.database.close().catch(() => {});
}

let lastTouch = 0;

function touched(): void {
  lastTouch = Date.now();
  locksIn.value = undefined;
}

/** Locks when nobody has done anything for a while, and when the page is left. */
export function lockWhenLeft(): void {
  for (const kind of ['keydown', 'pointerdown', 'pointermove', 'wheel', 'touchstart'])
    addEventListener(kind, touched, { passive: true });
  setInterval(() => {
    if (!unlocked.value) return;
    // By the clock: a machine that slept has been idle, and timers did not run.
    const left = Math.ceil(idleMinutes.value * 60 - (Date.now() - lastTouch) / 1000);
    if (left <= 0) lock(`It locked itself after ${idleMinutes.value} min without anybody.`);
    else locksIn.value = left <= WARN_SECONDS ? left : undefined;
  }, 1000);
  // The back button may bring the page back as it was left.
  addEventListener('pagehide', () => lock('The page was left.'));
}

// What this browser has seen of each collection, kept in its own database (IndexedDB): a gallery
// that is rolled back or exchanged between two visits is caught. There is nothing secret in it.

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

function storedVersions(database: IDBDatabase): VersionMemory {
  const rowsIn = (mode: IDBTransactionMode) =>
    database.transaction(STORE, mode, { durability: 'strict' }).objectStore(STORE);
  return {
    async read(place) {
      return (await answerOf<Row | undefined>(rowsIn('readonly').get(keyOf(place))))?.seen;
    },

    /** In one transaction, so two tabs cannot come between. */
    update(place, change) {
      return new Promise((resolve, reject) => {
        const rows = rowsIn('readwrite');
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
    },

    async places(id) {
      const all: Row[] = await answerOf(rowsIn('readonly').getAll());
      return all.filter(({ seen }) => seen.id === id || seen.deletedIds?.includes(id));
    },
  };
}

/** Where a browser keeps nothing, what was seen is remembered until the page is closed. */
export async function openVersions(): Promise<{ readonly memory: VersionMemory; readonly isKept: boolean }> {
  try {
    const opening = indexedDB.open('hers console', 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    return { memory: storedVersions(await answerOf(opening)), isKept: true };
  } catch {
    return { memory: new InMemoryVersions(), isKept: false };
  }
}
