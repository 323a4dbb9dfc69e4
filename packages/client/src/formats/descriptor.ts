// What a collection is: its random id, and the request its plan is made from. Public, authenticated
// by the client, fixed for the collection's life.

import type { PlanRequest } from '@hers/scheme';
import type { MasterSeed } from '@hers/scheme/secret';
import { HersError, otherFormat } from '@hers/service';
import { hmac } from '@noble/hashes/hmac.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { fromHex, hex } from '../bytes.ts';

export interface Descriptor {
  readonly id: Uint8Array;
  readonly request: PlanRequest;
}

const FORMAT = 1;

function macOf(seed: MasterSeed, id: Uint8Array, text: string): string {
  const key = seed.deriveKey('descriptor', id);
  try {
    return hex(hmac(sha256, key, new TextEncoder().encode(text)));
  } finally {
    key.fill(0);
  }
}

export function encodeDescriptor(seed: MasterSeed, { id, request }: Descriptor): Uint8Array {
  const text = JSON.stringify({ descriptor: FORMAT, id: hex(id), request });
  return new TextEncoder().encode(JSON.stringify({ text, mac: macOf(seed, id, text) }));
}

/**
 * Opens a descriptor; WRONG_KEY when the collection was made with another key, which is the first
 * thing to find out about it.
 */
export function openDescriptor(seed: MasterSeed, name: string, bytes: Uint8Array): Descriptor {
  const fail = (): never => {
    throw new HersError('INTEGRITY', `the description of collection ${JSON.stringify(name)} is damaged`);
  };
  try {
    const { text, mac } = JSON.parse(new TextDecoder().decode(bytes));
    const { descriptor, id, request } = JSON.parse(text);
    if (descriptor !== FORMAT) throw otherFormat(`collection ${JSON.stringify(name)}`);
    if (!/^[0-9a-f]{32}$/.test(id)) return fail();
    if (macOf(seed, fromHex(id), text) !== mac) {
      throw new HersError(
        'WRONG_KEY',
        `collection ${JSON.stringify(name)} was made with another key, or its description was altered; use the key it was made with`,
      );
    }
    return { id: fromHex(id), request };
  } catch (error) {
    if (error instanceof HersError) throw error;
    return fail();
  }
}
