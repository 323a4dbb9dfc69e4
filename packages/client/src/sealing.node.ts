// The same seals as sealing.ts, synchronously.

import { createCipheriv, createDecipheriv, createSecretKey, hash, type KeyObject, randomFillSync } from 'node:crypto';
import { cannotOpen, SEAL_OVERHEAD, type Sealer } from './sealing.ts';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const OPTIONS = { authTagLength: TAG_BYTES };

/** Random nonces are drawn in bulk: a system call for each would cost more than the cipher. */
const pool = new Uint8Array(NONCE_BYTES * 1024);
let used = pool.length;

/** Good until the next one. */
function takeNonce(): Uint8Array {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += NONCE_BYTES;
  return pool.subarray(used - NONCE_BYTES, used);
}

export class NodeSealer implements Sealer {
  readonly #key: KeyObject;

  constructor(key: Uint8Array) {
    this.#key = createSecretKey(key);
  }

  sealInto(out: Uint8Array, plain: Uint8Array, about: Uint8Array): void {
    const nonce = takeNonce();
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce, OPTIONS);
    cipher.setAAD(about);
    out.set(nonce);
    out.set(cipher.update(plain), NONCE_BYTES);
    cipher.final();
    out.set(cipher.getAuthTag(), NONCE_BYTES + plain.length);
  }

  open(sealed: Uint8Array, about: Uint8Array): Uint8Array {
    if (sealed.length < SEAL_OVERHEAD) throw cannotOpen();
    const decipher = createDecipheriv('aes-256-gcm', this.#key, sealed.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(about);
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    const plain = decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES));
    try {
      decipher.final();
    } catch {
      throw cannotOpen();
    }
    return new Uint8Array(plain.buffer, plain.byteOffset, plain.length);
  }
}

const BLOCK_BYTES = 64;
const SCRATCH_BYTES = 2 ** 16;

/**
 * HMAC-SHA256 (RFC 2104) under one key of 32 bytes, by two plain hashes: Node makes an object for every HMAC, which takes longer than hashing a vector, and none for a hash.
 */
export function nodeKeyedHash(key: Uint8Array): (...parts: readonly Uint8Array[]) => Uint8Array {
  const padded = (pad: number, length: number) => {
    const block = Buffer.alloc(length, 0);
    for (let i = 0; i < BLOCK_BYTES; i++) block[i] = (key[i] ?? 0) ^ pad;
    return block;
  };
  const inner = padded(0x36, SCRATCH_BYTES);
  const outer = padded(0x5c, BLOCK_BYTES + 32);
  return (...parts) => {
    let length = BLOCK_BYTES;
    for (const part of parts) length += part.length;
    const scratch = length <= SCRATCH_BYTES ? inner : padded(0x36, length);
    let at = BLOCK_BYTES;
    for (const part of parts) {
      scratch.set(part, at);
      at += part.length;
    }
    // As text, because a small Buffer is slow to make.
    outer.write(hash('sha256', scratch.subarray(0, length), 'hex'), BLOCK_BYTES, 'hex');
    return Buffer.from(hash('sha256', outer, 'hex'), 'hex');
  };
}
