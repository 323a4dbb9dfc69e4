// The same seals as sealing.ts, synchronously.

import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createSecretKey,
  hash,
  type KeyObject,
  randomFillSync,
} from 'node:crypto';
import { bulkAddon } from './bulk-sealing.node.ts';
import {
  cannotOpen,
  checkHedge,
  HEDGE_HEAD_BYTES,
  hedgeHead,
  type KeyedHash,
  type ManyContents,
  NONCE_BYTES,
  SEAL_OVERHEAD,
  type Sealer,
  setLength,
  wipedKey,
} from './sealing.ts';

const TAG_BYTES = 16;
const OPTIONS = { authTagLength: TAG_BYTES };

/**
 * Random bytes are drawn for 64 seals at a time: a call for each takes more than a third of the
 * cipher's time. What is drawn ahead, an image that is resumed twice uses twice; drawing it one by
 * one would not change that, for OpenSSL's generator is in the image too. It is the hedge that
 * helps (sealing.ts).
 */
const pool = new Uint8Array(NONCE_BYTES * 64);
let used = pool.length;

/** Where in the pool there are NONCE_BYTES that nobody has used. */
function draw(): number {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += NONCE_BYTES;
  return used - NONCE_BYTES;
}

/** Contents up to about this size are hashed in one piece, which is twice as fast. */
const PIECE_BYTES = 2 ** 13;

export class NodeSealer implements Sealer {
  #key: KeyObject | undefined;
  /** The head of a hedge, and room for what follows. */
  readonly #piece = Buffer.alloc(PIECE_BYTES);
  readonly sealMany: Sealer['sealMany'];
  readonly #wipeMany: (() => void) | undefined;

  /** The key is copied. */
  constructor(key: Uint8Array) {
    this.#key = createSecretKey(key);
    const addon = bulkAddon();
    if (addon) {
      const ref = addon.makeSealKey(key);
      this.sealMany = (out, before, contents) => {
        if (!this.#key) throw wipedKey();
        const { plains, ends, associated } = contents;
        addon.sealMany(ref, noncesFor(contents), associated, plains, ends, before, out);
      };
      this.#wipeMany = () => addon.wipeSealKey(ref);
    }
    const head = hedgeHead(key);
    this.#piece.set(head);
    head.fill(0);
  }

  /** A character for each byte of the hash, because a small Buffer is slow to make. */
  #hedge(plain: Uint8Array, associatedData: Uint8Array): string {
    const piece = this.#piece;
    setLength(piece, associatedData.length);
    const plainAt = HEDGE_HEAD_BYTES + associatedData.length;
    const end = plainAt + plain.length;
    if (end > PIECE_BYTES) {
      const head = piece.subarray(0, HEDGE_HEAD_BYTES);
      return createHash('sha256').update(head).update(associatedData).update(plain).digest('binary');
    }
    piece.set(associatedData, HEDGE_HEAD_BYTES);
    piece.set(plain, plainAt);
    return hash('sha256', piece.subarray(0, end), 'binary');
  }

  sealInto(out: Uint8Array, plain: Uint8Array, associatedData: Uint8Array, hedge?: Uint8Array): void {
    if (!this.#key) throw wipedKey();
    if (hedge) {
      checkHedge(hedge);
      const at = draw();
      for (let i = 0; i < NONCE_BYTES; i++) out[i] = pool[at + i] ^ hedge[i];
    } else {
      const mixed = this.#hedge(plain, associatedData);
      const at = draw();
      for (let i = 0; i < NONCE_BYTES; i++) out[i] = pool[at + i] ^ mixed.charCodeAt(i);
    }
    const cipher = createCipheriv('aes-256-gcm', this.#key, out.subarray(0, NONCE_BYTES), OPTIONS);
    cipher.setAAD(associatedData);
    out.set(cipher.update(plain), NONCE_BYTES);
    cipher.final();
    out.set(cipher.getAuthTag(), NONCE_BYTES + plain.length);
  }

  open(sealed: Uint8Array, associatedData: Uint8Array): Uint8Array {
    if (!this.#key) throw wipedKey();
    if (sealed.length < SEAL_OVERHEAD) throw cannotOpen();
    const decipher = createDecipheriv('aes-256-gcm', this.#key, sealed.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(associatedData);
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    const plain = decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES));
    try {
      decipher.final();
    } catch {
      throw cannotOpen();
    }
    return new Uint8Array(plain.buffer, plain.byteOffset, plain.length);
  }

  wipe(): void {
    this.#key = undefined;
    this.#wipeMany?.();
    this.#piece.fill(0);
  }
}

/** Random bytes and the hedge of each, as `sealInto` does it. */
function noncesFor({ hedges, ends: { length: count } }: ManyContents): Uint8Array {
  const each = hedges.length / count;
  checkHedge(hedges.subarray(0, each));
  const nonces = randomFillSync(new Uint8Array(count * NONCE_BYTES));
  for (let i = 0; i < count; i++)
    for (let j = 0; j < NONCE_BYTES; j++) nonces[i * NONCE_BYTES + j] ^= hedges[i * each + j];
  return nonces;
}

const BLOCK_BYTES = 64;
const SCRATCH_BYTES = 2 ** 16;

/**
 * HMAC-SHA256 (RFC 2104) under one key of 32 bytes, by two plain hashes: Node makes an object for
 * every HMAC, which takes longer than hashing a vector, and none for a hash.
 */
export function nodeKeyedHash(key: Uint8Array): KeyedHash {
  const padded = (pad: number, length: number) => {
    const block = Buffer.alloc(length);
    for (let i = 0; i < BLOCK_BYTES; i++) block[i] = (key[i] ?? 0) ^ pad;
    return block;
  };
  const inner = padded(0x36, SCRATCH_BYTES);
  const outer = padded(0x5c, BLOCK_BYTES + 32);
  let usable = true;

  /**
   * The inner hash into its place behind the outer pad. As text, because a small Buffer is slow to
   * make.
   */
  const absorb = (scratch: Buffer, parts: readonly Uint8Array[]) => {
    let at = BLOCK_BYTES;
    for (const part of parts) {
      scratch.set(part, at);
      at += part.length;
    }
    outer.write(hash('sha256', scratch.subarray(0, at), 'hex'), BLOCK_BYTES, 'hex');
  };
  const digest = (...parts: readonly Uint8Array[]) => {
    if (!usable) throw wipedKey();
    let length = BLOCK_BYTES;
    for (const part of parts) length += part.length;
    if (length <= SCRATCH_BYTES) absorb(inner, parts);
    else {
      const large = Buffer.alloc(length);
      inner.copy(large, 0, 0, BLOCK_BYTES);
      absorb(large, parts);
      large.fill(0);
    }
    return Buffer.from(hash('sha256', outer, 'hex'), 'hex');
  };
  const addon = bulkAddon();
  const ref = addon?.makeHashKey(key);
  const many: KeyedHash['many'] =
    addon && ref
      ? (heads, data, starts, ends, out) => {
          if (!usable) throw wipedKey();
          addon.hashMany(ref, heads, data, starts, ends, out);
        }
      : undefined;
  const wipe = () => {
    usable = false;
    if (ref) addon?.wipeHashKey(ref);
    inner.fill(0);
    outer.fill(0);
  };
  return Object.assign(digest, { many, wipe });
}

/** SHA-256, hexadecimal. */
export function hashText(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'hex');
}

export { NodeSealer as FastestSealer, nodeKeyedHash as fastestHash };
