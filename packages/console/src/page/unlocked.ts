// The open gallery: the key is here, and nowhere else. Locking closes it, which overwrites the key,
// and forgets all that was shown with it.

import { Database, HttpService, type MasterSeed } from '@hers/client';
import { type Signal, signal } from '@preact/signals';
import { readShelf } from './models.ts';
import { forgetShown } from './shown.ts';
import { openVersions } from './versions.ts';
import { forgetExchanges } from './wire.ts';

export interface Unlocked {
  readonly database: Database;
  /** The same connection without the key: what there is under other keys, too. */
  readonly service: HttpService;
  /** What the server lets this page in by; empty where it asks for none. */
  readonly token: string;
  /** The name of the key file. */
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
