// What an inbox takes, gives and refuses, wherever it is kept: in the catalogue of a folder
// (inbox.ts), or in a shard of a cluster.

import { decodeEnvelope, type Envelope, HersError, type InboxRange, notHeld, type PostOptions } from '@hers/service';
import { sameBytes } from './bytes.ts';

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

/** Of items that are to be dropped. */
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
