// The one call of a device: by itself, so that a page that only posts loads nothing else.

import type { CallOptions } from '@hers/service';
import type { Connection } from './connection.ts';
import { fieldsOf, isCount, SMALL_BYTES } from './http-answer.ts';
import { wholeBody } from './http-body.ts';

/**
 * Posts an envelope; returns its number. A retry does not put it there twice, because of its nonce.
 */
export async function postEnvelope(
  connection: Connection,
  path: string,
  envelope: Uint8Array,
  options?: CallOptions,
): Promise<number> {
  const expected = { bytes: SMALL_BYTES, works: true };
  const call = { operation: 'post', method: 'POST', path, body: wholeBody(envelope), expected } as const;
  const { number } = fieldsOf(await connection.json(call, options));
  if (!isCount(number)) throw connection.nonsense();
  return number;
}
