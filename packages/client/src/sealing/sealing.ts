// Sealing by AES-256-GCM: records, lists and manifests. The associated data binds every seal to
// what it is.
//
// Nonces are hedged: random bytes, XORed with a keyed hash of what is sealed. A process or a
// machine whose image is resumed twice draws the same random bytes twice (Ristenpart and Yilek,
// NDSS 2010), and GCM does not survive one nonce for two contents. With the hash, different
// contents still have different nonces, and equal ones the equal seal, which tells that they are
// equal and nothing else. The hash does not depend on the random bytes, so the nonce is as uniform
// as they are.
//
// Web Crypto does it everywhere; in Node `sealing.node.ts` does the same without a promise per
// record, which is ten times as fast.

import { HersError } from '@hers/service';
import { hmac } from '@noble/hashes/hmac.js';
import { sha256 } from '@noble/hashes/sha2.js';

export const NONCE_BYTES = 12;
const TAG_BYTES = 16;
export const SEAL_OVERHEAD: number = NONCE_BYTES + TAG_BYTES;

/** What is sealed at once; entry i of each belongs to content i. */
export interface ManyContents {
  /** One after the other. */
  readonly plains: Uint8Array;
  /** Where each ends. */
  readonly ends: Uint32Array;
  /** All of one length. */
  readonly associated: Uint8Array;
  /** A keyed hash of each, all of one length, NONCE_BYTES or more. */
  readonly hedges: Uint8Array;
}

/** One AES key. A seal is nonce, ciphertext and tag. */
export interface Sealer {
  /**
   * Seals into `out`, which has exactly SEAL_OVERHEAD bytes more than `plain`. The caller leaves
   * all arguments unchanged until it is done.
   *
   * @param hedge A keyed hash of `plain` and `associatedData`, NONCE_BYTES or more, if the caller
   * has one already; made here otherwise.
   */
  sealInto(out: Uint8Array, plain: Uint8Array, associatedData: Uint8Array, hedge?: Uint8Array): void | Promise<void>;
  /**
   * Seals many contents at once, where the platform can: the same seals as `sealInto` makes. In
   * `out`, every seal comes after `before` bytes, which are left as they are.
   */
  readonly sealMany?: ((out: Uint8Array, before: number, contents: ManyContents) => void) | undefined;
  /** INTEGRITY when it was sealed with another key or other associated data, or altered. */
  open(sealed: Uint8Array, associatedData: Uint8Array): Uint8Array | Promise<Uint8Array>;
  /**
   * Releases the key, which the platform overwrites when it collects it, and overwrites what was
   * derived from it. WIPED from then on.
   */
  wipe(): void;
}

export function cannotOpen(): HersError {
  return new HersError(
    'INTEGRITY',
    'sealed data does not open: it was altered, belongs elsewhere, or was sealed with another key',
  );
}

export function wipedKey(): HersError {
  return new HersError('WIPED', 'this key has been wiped; open the collection again');
}

/** A hedge that is too short would leave part of the nonce to chance alone. */
export function checkHedge(hedge: Uint8Array): Uint8Array {
  if (hedge.length < NONCE_BYTES) throw new RangeError(`a hedge has ${NONCE_BYTES} bytes or more`);
  return hedge;
}

const HEDGE = new TextEncoder().encode('hers nonces');
export const HEDGE_HEAD_BYTES: number = 32 + 4;

/**
 * What hedges begin with: a key of their own, and room for the length of the associated data, which
 * follows with the contents. The first bytes of SHA-256 of all that are a keyed hash, for a cut
 * hash has no use for its inner state (Coron, Dodis, Malinaud and Puniya, CRYPTO 2005). Without
 * a key, nonces would reveal contents that are easily guessed.
 */
export function hedgeHead(key: Uint8Array): Uint8Array {
  const own = hmac(sha256, key, HEDGE);
  const head = new Uint8Array(HEDGE_HEAD_BYTES);
  head.set(own);
  own.fill(0);
  return head;
}

export function setLength(head: Uint8Array, length: number): void {
  for (let i = 0; i < 4; i++) head[32 + i] = length >>> (8 * i);
}

/** A seal in memory of its own. */
export async function seal(sealer: Sealer, plain: Uint8Array, associatedData: Uint8Array): Promise<Uint8Array> {
  const out = new Uint8Array(plain.length + SEAL_OVERHEAD);
  await sealer.sealInto(out, plain, associatedData);
  return out;
}

export class WebSealer implements Sealer {
  #key: Promise<CryptoKey> | undefined;
  readonly #head: Uint8Array;

  /** The key is copied before this returns. */
  constructor(key: Uint8Array) {
    const own = new Uint8Array(key);
    this.#key = crypto.subtle
      .importKey('raw', own, 'AES-GCM', false, ['encrypt', 'decrypt'])
      .finally(() => own.fill(0));
    this.#head = hedgeHead(key);
  }

  #hedge(plain: Uint8Array, associatedData: Uint8Array): Uint8Array {
    setLength(this.#head, associatedData.length);
    return sha256.create().update(this.#head).update(associatedData).update(plain).digest();
  }

  async sealInto(out: Uint8Array, plain: Uint8Array, associatedData: Uint8Array, hedge?: Uint8Array): Promise<void> {
    if (!this.#key) throw wipedKey();
    const key = this.#key;
    const mixed = hedge ? checkHedge(hedge) : this.#hedge(plain, associatedData);
    const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
    for (let i = 0; i < NONCE_BYTES; i++) nonce[i] ^= mixed[i];
    const algorithm = { name: 'AES-GCM', iv: nonce, additionalData: associatedData as Uint8Array<ArrayBuffer> };
    const body = await crypto.subtle.encrypt(algorithm, await key, plain as Uint8Array<ArrayBuffer>);
    out.set(nonce);
    out.set(new Uint8Array(body), NONCE_BYTES);
  }

  async open(sealed: Uint8Array, associatedData: Uint8Array): Promise<Uint8Array> {
    if (!this.#key) throw wipedKey();
    if (sealed.length < SEAL_OVERHEAD) throw cannotOpen();
    const key = await this.#key;
    const iv = sealed.slice(0, NONCE_BYTES) as Uint8Array<ArrayBuffer>;
    const algorithm = { name: 'AES-GCM', iv, additionalData: associatedData as Uint8Array<ArrayBuffer> };
    try {
      return new Uint8Array(
        await crypto.subtle.decrypt(algorithm, key, sealed.slice(NONCE_BYTES) as Uint8Array<ArrayBuffer>),
      );
    } catch {
      throw cannotOpen();
    }
  }

  wipe(): void {
    this.#key = undefined;
    this.#head.fill(0);
  }
}

/** Copies the key and overwrites the caller's, which is refused when it comes a second time. */
function takeOver(key: Uint8Array): Uint8Array {
  if (key.every((byte) => byte === 0)) throw wipedKey();
  const own = new Uint8Array(key);
  key.fill(0);
  return own;
}

/**
 * The fastest sealer there is for this platform. It takes ownership of the key: its memory is
 * zero when this returns, before the promise resolves.
 */
export async function makeSealer(key: Uint8Array): Promise<Sealer> {
  const own = takeOver(key);
  try {
    return new (await import('#sealing')).FastestSealer(own);
  } finally {
    own.fill(0);
  }
}

export interface KeyedHash {
  (...parts: readonly Uint8Array[]): Uint8Array;
  /**
   * The hashes of many, where the platform can: of head i and of the data from start i to end i.
   * All heads have one length, and so have the hashes in `out`, which are cut to it.
   */
  readonly many?:
    | ((heads: Uint8Array, data: Uint8Array, starts: Uint32Array, ends: Uint32Array, out: Uint8Array) => void)
    | undefined;
  /** Overwrites what was made from the key; WIPED from then on. */
  wipe(): void;
}

/** HMAC-SHA256 whose key is absorbed once. */
export function webKeyedHash(key: Uint8Array): KeyedHash {
  const start = hmac.create(sha256, key);
  let usable = true;
  const digest = (...parts: readonly Uint8Array[]) => {
    if (!usable) throw wipedKey();
    const state = start.clone();
    for (const part of parts) state.update(part);
    return state.digest();
  };
  const wipe = () => {
    usable = false;
    start.destroy();
  };
  return Object.assign(digest, { wipe });
}

/** The fastest one. It takes ownership of the key, 32 bytes, as makeSealer does. */
export async function makeKeyedHash(key: Uint8Array): Promise<KeyedHash> {
  const own = takeOver(key);
  try {
    return (await import('#sealing')).fastestHash(own);
  } finally {
    own.fill(0);
  }
}
