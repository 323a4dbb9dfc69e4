// The inbox of a collection: what devices have posted and the keeper has not dropped yet. It is in
// the catalogue, so it is on disk when a post is acknowledged and is checked as the rest of it is.
// It is part of no snapshot: a copy that comes back later must not ask again what was answered.

import {
  decodeEnvelope,
  type Envelope,
  HersError,
  type InboxItem,
  type InboxRange,
  notHeld,
  type PostOptions,
  questionIn,
} from '@hers/service';
import { sameBytes } from './base/bytes.ts';
import { fault } from './base/faults.ts';
import type { Tables } from './catalogue/tables.ts';
import type { Collection } from './collection.ts';

/** Read at a time. */
const PAGE = 16;

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
  if (numbers.length === 0) return;
  change(collection, (tables) => {
    tables.dropInbox(numbers);
    // A purge overwrites what is left of them in the catalogue's files.
    tables.setStale(true);
  });
}

/** Makes a change that frees room, or takes none to speak of. */
function change({ tables, folder }: Collection, work: (tables: Tables) => void): void {
  const within = () => {
    work(tables);
    fault('inbox.within');
  };
  folder.catalogue.transaction(within, undefined, { mayUseReserve: true });
  fault('inbox.committed');
}

export function refuse(collection: Collection, devices: readonly number[]): void {
  collection.checkUsable();
  const wanted = checkDevices(devices);
  if (!sameDevices(wanted, collection.tables.inbox().refused))
    change(collection, (tables) => tables.setRefused(wanted));
}

/** The queries of questions; NOT_FOUND where there is no such item, or it is no question. */
export function questionsOf(collection: Collection, numbers: readonly number[]): Uint8Array[] {
  return numbers.map((number) => questionIn(collection.tables.inboxItem(number), number));
}

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

/** The envelope in these bytes, if it is for this collection, of this time, and of this device. */
export function checkEnvelope(
  bytes: Uint8Array,
  { id, name }: { readonly id: Uint8Array; readonly name: string },
  { device, partitions }: PostOptions = {},
): Envelope {
  if (partitions) throw notHeld('a post');
  const envelope = decodeEnvelope(bytes);
  if (device !== undefined && envelope.device !== device)
    throw new HersError('FORBIDDEN', `this token is for device ${device}, and the envelope is of another`);
  if (!sameBytes(envelope.collection, id))
    throw new HersError('KEY_MISMATCH', `this envelope is for another collection than ${name}; renew the device`);
  if (Math.abs(envelope.time - Date.now()) > CLOCK_MS)
    throw new HersError('WRONG_CLOCK', 'the clock of this device is wrong by more than a quarter of an hour; set it');
  return envelope;
}

export function checkAllowed(refused: readonly number[], device: number): void {
  if (refused.includes(device)) throw new HersError('FORBIDDEN', `device ${device} was revoked`);
}

/** How much there is in an inbox, or of one device in it. */
export interface InboxSize {
  readonly items: number;
  readonly bytes: number;
}

/** INBOX_FULL if so many bytes more are too many, of a device or of all. */
export function checkRoom(
  name: string,
  { device, bytes }: { readonly device: number; readonly bytes: number },
  has: { readonly own: InboxSize; readonly all: InboxSize },
  limits: Required<InboxLimits>,
): void {
  const isFull = (size: InboxSize, shares: number) =>
    size.items + 1 > shares * limits.items || size.bytes + bytes > shares * limits.bytes;
  const { own, all } = has;
  if (isFull(own, 1))
    throw new HersError(
      'INBOX_FULL',
      `device ${device} has ${own.items} items of ${own.bytes} bytes in the inbox of ${name}, and may have no more until the keeper takes some`,
    );
  if (isFull(all, SHARES)) throw inboxFull(name);
}

export const inboxFull = (name: string): HersError =>
  new HersError('INBOX_FULL', `the inbox of ${name} is full until the keeper takes some`);

const isNumber = (x: unknown): x is number => Number.isSafeInteger(x) && (x as number) >= 0;

export function checkRange({ after = 0, limit = DEFAULT_RANGE }: InboxRange = {}): Required<InboxRange> {
  if (!isNumber(after) || !(isNumber(limit) && limit >= 1 && limit <= MAX_RANGE))
    throw new HersError('INVALID_ARGUMENT', `an inbox is read after a number, and by 1 to ${MAX_RANGE} items`);
  return { after, limit };
}

export function checkNumbers(numbers: readonly number[]): void {
  if (!(Array.isArray(numbers) && numbers.length <= MAX_RANGE && numbers.every(isNumber)))
    throw new HersError('INVALID_ARGUMENT', `items are dropped by their numbers, ${MAX_RANGE} at a time`);
}

/** Devices that are to be refused: each once, in order. */
export function checkDevices(devices: readonly number[]): number[] {
  const isDevice = (x: unknown) => isNumber(x) && x <= LARGEST_DEVICE;
  if (!(Array.isArray(devices) && devices.length <= MAX_REFUSED && devices.every(isDevice)))
    throw new HersError('INVALID_ARGUMENT', `devices are refused by their numbers, ${MAX_REFUSED} at most`);
  return [...new Set(devices)].sort((a, b) => a - b);
}

export const sameDevices = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((device, i) => device === b[i]);
