// The inbox of a collection: what devices have posted and the keeper has not dropped yet. It is in
// the catalogue, so it is on disk when a post is acknowledged and is checked as the rest of it is.
// It is part of no snapshot: a copy that comes back later must not ask again what was answered.

import {
  decodeEnvelope,
  HersError,
  type InboxItem,
  type InboxRange,
  notHeld,
  type PostOptions,
  questionIn,
} from '@hers/service';
import { sameBytes } from './bytes.ts';
import type { Collection } from './collection.ts';
import { fault } from './faults.ts';

/** What an inbox takes. */
export interface InboxLimits {
  /** Items of one device; 1000 by default. */
  readonly items?: number;
  /** Bytes of one device; 32 MiB by default. */
  readonly bytes?: number;
  /** Seconds after which an item is removed; seven days by default. */
  readonly age?: number;
}

/** Of one device. All devices together have SHARES times as much. */
const INBOX_LIMITS: Required<InboxLimits> = { items: 1000, bytes: 2 ** 25, age: 7 * 86_400 };
const SHARES = 64;
/** How far the clock of a device may be from ours. */
const CLOCK_MS = 15 * 60_000;
const DEFAULT_RANGE = 100;
/** Items that are taken or dropped in one call. */
const MAX_RANGE = 1000;
/** Read at a time. */
const PAGE = 16;
/** Of one collection. */
const MAX_REFUSED = 100_000;
const LARGEST_DEVICE = 0xffffffff;

export function checkInboxLimits(given: InboxLimits = {}): Required<InboxLimits> {
  const limits = { ...INBOX_LIMITS, ...given };
  for (const [name, value] of Object.entries(limits)) {
    if (!Object.hasOwn(INBOX_LIMITS, name)) throw new HersError('INVALID_ARGUMENT', `an inbox has no limit ${name}`);
    if (!(Number.isSafeInteger(value) && value >= 1))
      throw new HersError('INVALID_ARGUMENT', `the limit ${name} of an inbox is a whole number from 1`);
  }
  return limits;
}

/** Puts an envelope into the inbox. */
export function postTo(
  collection: Collection,
  bytes: Uint8Array,
  limits: Required<InboxLimits>,
  { device, partitions }: PostOptions = {},
): number {
  if (partitions) throw notHeld('a post');
  const { tables, folder, id, name } = collection;
  collection.checkUsable();
  const envelope = decodeEnvelope(bytes);
  if (device !== undefined && envelope.device !== device)
    throw new HersError('FORBIDDEN', `this token is for device ${device}, and the envelope is of another`);
  if (!sameBytes(envelope.collection, id))
    throw new HersError('KEY_MISMATCH', `this envelope is for another collection than ${name}; renew the device`);
  const now = Date.now();
  if (Math.abs(envelope.time - now) > CLOCK_MS)
    throw new HersError('WRONG_CLOCK', 'the clock of this device is wrong by more than a quarter of an hour; set it');
  if (tables.hasInbox()) {
    if (tables.inbox().refused.includes(envelope.device))
      throw new HersError('FORBIDDEN', `device ${envelope.device} was revoked`);
    const known = tables.inboxNumber(envelope.device, envelope.nonce);
    if (known !== undefined) return known;
  }
  let number = 0;
  folder.catalogue.transaction(() => {
    tables.makeInbox();
    tables.expireInbox(now - 1000 * limits.age);
    const own = tables.inboxOf(envelope.device);
    const all = tables.inbox();
    const isFull = (has: { items: number; bytes: number }, shares: number) =>
      has.items + 1 > shares * limits.items || has.bytes + bytes.length > shares * limits.bytes;
    if (isFull(own, 1) || isFull(all, SHARES))
      throw new HersError(
        'INBOX_FULL',
        isFull(own, 1)
          ? `device ${envelope.device} has ${own.items} items of ${own.bytes} bytes in the inbox of ${name}, and may have no more until the keeper takes some`
          : `the inbox of ${name} is full until the keeper takes some`,
      );
    number = tables.putInbox({ device: envelope.device, nonce: envelope.nonce, posted: now, envelope: bytes });
    fault('inbox.within');
  });
  fault('inbox.committed');
  return number;
}

const isNumber = (x: unknown): x is number => Number.isSafeInteger(x) && (x as number) >= 0;

/** The items of an inbox, in the order of their numbers. */
export async function* takeFrom(
  collection: Collection,
  range: InboxRange = {},
  { age }: Required<InboxLimits>,
  signal: AbortSignal,
): AsyncGenerator<InboxItem> {
  const { after = 0, limit = DEFAULT_RANGE } = range;
  if (!isNumber(after) || !(isNumber(limit) && limit >= 1 && limit <= MAX_RANGE))
    throw new HersError('INVALID_ARGUMENT', `an inbox is read after a number, and by 1 to ${MAX_RANGE} items`);
  if (!collection.tables.hasInbox()) return;
  let last = after;
  for (let left = limit; left > 0; ) {
    const since = Date.now() - 1000 * age;
    const items = collection.tables.inboxAfter(last, Math.min(left, PAGE));
    for (const item of items) {
      signal.throwIfAborted();
      last = item.number;
      if (item.posted < since) continue;
      left--;
      yield item;
    }
    if (items.length === 0) return;
  }
}

export function dropFrom(collection: Collection, numbers: readonly number[]): void {
  collection.checkUsable();
  if (!(Array.isArray(numbers) && numbers.length <= MAX_RANGE && numbers.every(isNumber)))
    throw new HersError('INVALID_ARGUMENT', `items are dropped by their numbers, ${MAX_RANGE} at a time`);
  const { tables, folder } = collection;
  if (numbers.length === 0 || !tables.hasInbox()) return;
  folder.catalogue.transaction(
    () => {
      tables.dropInbox(numbers);
      // A purge overwrites what is left of them in the catalogue's files.
      tables.setStale(true);
      fault('inbox.within');
    },
    undefined,
    { mayUseReserve: true },
  );
  fault('inbox.committed');
}

/** From now on these devices are refused, and no others. */
export function refuse(collection: Collection, devices: readonly number[]): void {
  collection.checkUsable();
  const isDevice = (x: unknown) => isNumber(x) && x <= LARGEST_DEVICE;
  if (!(Array.isArray(devices) && devices.length <= MAX_REFUSED && devices.every(isDevice)))
    throw new HersError('INVALID_ARGUMENT', `devices are refused by their numbers, ${MAX_REFUSED} at most`);
  const { tables, folder } = collection;
  const wanted = [...new Set(devices)].sort((a, b) => a - b);
  const known = tables.hasInbox() ? tables.inbox().refused : [];
  if (wanted.length === known.length && wanted.every((device, i) => device === known[i])) return;
  folder.catalogue.transaction(
    () => {
      tables.makeInbox();
      tables.setRefused(wanted);
      fault('inbox.within');
    },
    undefined,
    { mayUseReserve: true },
  );
  fault('inbox.committed');
}

/** The queries of questions; NOT_FOUND where there is no such item, or it is no question. */
export function questionsOf(collection: Collection, numbers: readonly number[]): Uint8Array[] {
  const { tables } = collection;
  const hasInbox = tables.hasInbox();
  return numbers.map((number) => questionIn(hasInbox ? tables.inboxItem(number) : undefined, number));
}
