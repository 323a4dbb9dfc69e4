// The key encapsulation of enrolments: ML-KEM-768 together with X25519 (draft-ietf-hpke-pq,
// MLKEM768-X25519, also known as X-Wing). Templates stay what they are for decades, so what is
// recorded today must not open when either of the two is broken.
//
// The `hpke` package has this KEM by Web Crypto, which only Node knows yet; here it is by
// @noble/post-quantum, the same bytes everywhere. A test compares the two.

import { ml_kem768_x25519 } from '@noble/post-quantum/hybrid.js';
import type { KEM, KEMFactory, Key } from 'hpke';

const SEED_BYTES = 32;

/** A key as `hpke` wants one. */
class KemKey implements Key {
  readonly algorithm: { readonly name: string } = { name: 'MLKEM768-X25519' };
  readonly type: 'public' | 'private';
  readonly extractable: boolean;
  readonly bytes: Uint8Array;

  constructor(type: 'public' | 'private', bytes: Uint8Array, extractable: boolean) {
    this.type = type;
    this.bytes = bytes;
    this.extractable = extractable;
  }

  toJSON(): string {
    return `[${this.type} key]`;
  }
}

const publicKey = (bytes: Uint8Array) => new KemKey('public', bytes, true);

function pairOf(seed: Uint8Array, extractable: boolean) {
  const { publicKey: bytes } = ml_kem768_x25519.keygen(seed);
  return { publicKey: publicKey(bytes), privateKey: new KemKey('private', new Uint8Array(seed), extractable) };
}

const kem: KEM<KemKey> = {
  id: 0x647a,
  type: 'KEM',
  name: 'MLKEM768-X25519',
  Nsecret: 32,
  Nenc: 1120,
  Npk: 1216,
  Nsk: SEED_BYTES,
  async DeriveKeyPair() {
    throw new TypeError('keys are made from their seed');
  },
  async GenerateKeyPair(extractable) {
    return pairOf(crypto.getRandomValues(new Uint8Array(SEED_BYTES)), extractable);
  },
  async SerializePublicKey({ bytes }) {
    return bytes.slice();
  },
  async DeserializePublicKey(bytes) {
    return publicKey(bytes.slice());
  },
  async SerializePrivateKey({ bytes }) {
    return bytes.slice();
  },
  async DeserializePrivateKey(bytes, extractable) {
    return pairOf(bytes, extractable).privateKey;
  },
  async Encap({ bytes }) {
    const { cipherText, sharedSecret } = ml_kem768_x25519.encapsulate(bytes);
    return { shared_secret: sharedSecret, enc: cipherText };
  },
  async Decap(enc, { bytes }) {
    const { secretKey } = ml_kem768_x25519.keygen(bytes);
    return ml_kem768_x25519.decapsulate(enc, secretKey);
  },
};

export const HYBRID_KEM: KEMFactory<KemKey> = () => kem;
export const KEM_PUBLIC_BYTES: number = kem.Npk;
export const KEM_SECRET_BYTES: number = kem.Nenc;
