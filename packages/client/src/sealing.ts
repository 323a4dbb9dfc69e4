// Sealing by AES-256-GCM: records, lists and manifests. The associated data binds every seal to what it is; nonces are random.
//
// Web Crypto does it everywhere; in Node `sealing.node.ts` does the same without a promise per record, which is ten times as fast.

import { HersError } from '@hers/service';
import { hmac } from '@noble/hashes/hmac.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { inNode } from './platform.ts';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
export const SEAL_OVERHEAD = NONCE_BYTES + TAG_BYTES;

/** One AES key. A seal is nonce, ciphertext and tag. */
export interface Sealer {
  /** Seals into `out`, which has room for exactly that: SEAL_OVERHEAD bytes more than `plain`. All three stay as they are until it is done. */
  sealInto(out: Uint8Array, plain: Uint8Array, about: Uint8Array): void | Promise<void>;
  /** INTEGRITY when it was sealed with another key, about something else, or altered. */
  open(sealed: Uint8Array, about: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

export function cannotOpen(): HersError {
  return new HersError(
    'INTEGRITY',
    'sealed data does not open: it was altered, belongs elsewhere, or was sealed with another key',
  );
}

/** A seal in memory of its own. */
export async function seal(sealer: Sealer, plain: Uint8Array, about: Uint8Array): Promise<Uint8Array> {
  const out = new Uint8Array(plain.length + SEAL_OVERHEAD);
  await sealer.sealInto(out, plain, about);
  return out;
}

export class WebSealer implements Sealer {
  readonly #key: Promise<CryptoKey>;

  constructor(key: Uint8Array) {
    this.#key = crypto.subtle.importKey('raw', key.slice() as Uint8Array<ArrayBuffer>, 'AES-GCM', false, [
      'encrypt',
      'decrypt',
    ]);
  }

  async sealInto(out: Uint8Array, plain: Uint8Array, about: Uint8Array): Promise<void> {
    const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
    const algorithm = { name: 'AES-GCM', iv: nonce, additionalData: about as Uint8Array<ArrayBuffer> };
    const body = await crypto.subtle.encrypt(algorithm, await this.#key, plain as Uint8Array<ArrayBuffer>);
    out.set(nonce);
    out.set(new Uint8Array(body), NONCE_BYTES);
  }

  async open(sealed: Uint8Array, about: Uint8Array): Promise<Uint8Array> {
    if (sealed.length < SEAL_OVERHEAD) throw cannotOpen();
    const iv = sealed.slice(0, NONCE_BYTES) as Uint8Array<ArrayBuffer>;
    const algorithm = { name: 'AES-GCM', iv, additionalData: about as Uint8Array<ArrayBuffer> };
    try {
      return new Uint8Array(
        await crypto.subtle.decrypt(algorithm, await this.#key, sealed.slice(NONCE_BYTES) as Uint8Array<ArrayBuffer>),
      );
    } catch {
      throw cannotOpen();
    }
  }
}

/** The fastest sealer there is for this platform. */
export async function makeSealer(key: Uint8Array): Promise<Sealer> {
  return inNode ? new (await import('./sealing.node.ts')).NodeSealer(key) : new WebSealer(key);
}

export type KeyedHash = (...parts: readonly Uint8Array[]) => Uint8Array;

/** HMAC-SHA256 whose key is absorbed once. */
export async function makeKeyedHash(key: Uint8Array): Promise<KeyedHash> {
  if (inNode) return (await import('./sealing.node.ts')).nodeKeyedHash(key);
  const start = hmac.create(sha256, key);
  return (...parts) => {
    const state = start.clone();
    for (const part of parts) state.update(part);
    return state.digest();
  };
}
