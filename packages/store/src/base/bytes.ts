// Byte strings as keys of maps, and as arguments.

import { createHash } from 'node:crypto';
import { HersError } from '@hers/service';

/** The same bytes, with the methods of Node. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

export function hex(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('hex');
}

/** A handle as a map's key: shorter than hexadecimal, and faster. */
export function handleKey(handle: Uint8Array): string {
  return asBuffer(handle).toString('latin1');
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

export function sha256(...parts: readonly Uint8Array[]): Uint8Array {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return new Uint8Array(hash.digest());
}

/** Refuses bytes that are too long for a snapshot. */
export function checkLength({ length }: Uint8Array, what: string, most: number): void {
  if (length > most)
    throw new HersError('INVALID_ARGUMENT', `${what} has at most ${most} bytes, and this one has ${length}`);
}

export function checkBytes(value: unknown, what: string, length?: number): asserts value is Uint8Array {
  if (!(value instanceof Uint8Array)) throw new HersError('INVALID_ARGUMENT', `${what} must be given as bytes`);
  if (length !== undefined && value.length !== length)
    throw new HersError('INVALID_ARGUMENT', `${what} has ${length} bytes, not ${value.length}`);
}
