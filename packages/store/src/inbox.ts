// The inbox of a collection: what devices have posted and the keeper has not dropped yet. It is in
// the catalogue, so it is on disk when a post is acknowledged and is checked as the rest of it is.
// It is part of no snapshot: a copy that comes back later must not ask again what was answered.

import { type InboxItem, type InboxRange, type PostOptions, questionIn } from '@hers/service';
import type { Collection } from './collection.ts';
import { fault } from './faults.ts';
import {
  checkAllowed,
  checkDevices,
  checkEnvelope,
  checkNumbers,
  checkRange,
  checkRoom,
  type InboxLimits,
  sameDevices,
} from './inbox-rules.ts';

/** Read at a time. */
const PAGE = 16;

/** Puts an envelope into the inbox. */
export function postTo(
  collection: Collection,
  bytes: Uint8Array,
  limits: Required<InboxLimits>,
  options: PostOptions = {},
): number {
  const { tables, folder, name } = collection;
  collection.checkUsable();
  const { device, nonce } = checkEnvelope(bytes, collection, options);
  checkAllowed(tables.inbox().refused, device);
  const known = tables.inboxNumber(device, nonce);
  if (known !== undefined) return known;
  const now = Date.now();
  let number = 0;
  folder.catalogue.transaction(() => {
    tables.expireInbox(now - 1000 * limits.age);
    checkRoom(name, { device, bytes: bytes.length }, { own: tables.inboxOf(device), all: tables.inbox() }, limits);
    number = tables.putInbox({ device, nonce, posted: now, envelope: bytes });
    fault('inbox.within');
  });
  fault('inbox.committed');
  return number;
}

/** The items of an inbox, in the order of their numbers. */
export async function* takeFrom(
  collection: Collection,
  range: InboxRange | undefined,
  { age }: Required<InboxLimits>,
  signal: AbortSignal,
): AsyncGenerator<InboxItem> {
  const { after, limit } = checkRange(range);
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
  checkNumbers(numbers);
  const { tables, folder } = collection;
  if (numbers.length === 0) return;
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
  const wanted = checkDevices(devices);
  const { tables, folder } = collection;
  if (sameDevices(wanted, tables.inbox().refused)) return;
  folder.catalogue.transaction(
    () => {
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
  return numbers.map((number) => questionIn(collection.tables.inboxItem(number), number));
}
