// Envelopes as their two ends see them: a device signs, and seals enrolments to the keeper; the
// keeper checks and opens. What travels in the clear is in @hers/service, envelope.ts.
//
// The key encapsulation of enrolments is ML-KEM-768 together with X25519 (draft-ietf-hpke-pq,
// MLKEM768-X25519, also known as X-Wing). Templates stay what they are for decades, so what is
// recorded today must not open when either of the two is broken. The `hpke` package has this KEM by
// Web Crypto, which only Node knows yet; here it is by @noble/post-quantum, the same bytes
// everywhere. A test compares the two.

import { HersError } from '@hers/scheme';
import { type Envelope, type EnvelopeHead, encodeEnvelopeHead, joinEnvelope } from '@hers/service';
import { ed25519 } from '@noble/curves/ed25519.js';
import { ml_kem768_x25519 } from '@noble/post-quantum/hybrid.js';
import { AEAD_AES_256_GCM, CipherSuite, KDF_HKDF_SHA256, type KEM, type KEMFactory, type Key } from 'hpke';
import { concat, padme, u32 } from '../bytes.ts';
import type { StoredRecord } from '../formats/records.ts';

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
const KEM_SECRET_BYTES: number = kem.Nenc;

/** RFC 9180, base mode: who sealed it is said by the signature around it. */
const suite = new CipherSuite(HYBRID_KEM, KDF_HKDF_SHA256, AEAD_AES_256_GCM);
const INFO = new TextEncoder().encode('HERS enrolment v1');

export const SIGNING_KEY_BYTES = 32;

export function verifyingKey(signingKey: Uint8Array): Uint8Array {
  return ed25519.getPublicKey(signingKey);
}

export function signEnvelope(signingKey: Uint8Array, about: EnvelopeHead, body: Uint8Array): Uint8Array {
  const head = encodeEnvelopeHead(about, body);
  return joinEnvelope(head, body, ed25519.sign(head, signingKey));
}

/**
 * Whether this device signed it. The head holds the hash of the body, which decoding has checked.
 */
export function isSignedBy(key: Uint8Array, { head, signature }: Envelope): boolean {
  return isValid(signature, head, key);
}

function isValid(signature: Uint8Array, message: Uint8Array, key: Uint8Array): boolean {
  try {
    return ed25519.verify(signature, message, key, { zip215: false });
  } catch {
    return false;
  }
}

/** What the keeper signs for its devices. */
const BUNDLE_LABEL = new TextEncoder().encode('HERS device bundle v1\n');

export function signText(signingKey: Uint8Array, text: string): Uint8Array {
  return ed25519.sign(concat(BUNDLE_LABEL, new TextEncoder().encode(text)), signingKey);
}

export function isTextSignedBy(key: Uint8Array, text: string, signature: Uint8Array): boolean {
  return isValid(signature, concat(BUNDLE_LABEL, new TextEncoder().encode(text)), key);
}

/** The associated data of a seal: what the envelope says but the hash of its body. */
function aboutBytes(about: EnvelopeHead): Uint8Array {
  return encodeEnvelopeHead(about, new Uint8Array(0));
}

/**
 * Seals a record to the keeper: the length of its JSON, the JSON, the vector, padded so that the
 * store learns little from the length.
 */
export async function sealRecord(
  keeper: Uint8Array,
  about: EnvelopeHead,
  { id, vector, payload }: StoredRecord,
): Promise<Uint8Array> {
  const json = new TextEncoder().encode(JSON.stringify({ id, ...(payload === undefined ? {} : { payload }) }));
  const plain = new Uint8Array(padme(8 + json.length + 4 * vector.length));
  const view = new DataView(plain.buffer);
  plain.set(u32(json.length));
  plain.set(u32(vector.length), 4);
  plain.set(json, 8);
  vector.forEach((x, i) => {
    view.setFloat32(8 + json.length + 4 * i, x, true);
  });
  const key = await suite.DeserializePublicKey(keeper);
  const { encapsulatedSecret, ciphertext } = await suite.Seal(key, plain, { info: INFO, aad: aboutBytes(about) });
  plain.fill(0);
  return concat(encapsulatedSecret, ciphertext);
}

/** INTEGRITY where it was sealed to another keeper, or for another head. */
export async function openRecord(secret: Uint8Array, about: EnvelopeHead, sealed: Uint8Array): Promise<StoredRecord> {
  const broken = () => new HersError('INTEGRITY', 'an enrolment does not open: it was sealed to another keeper');
  let plain: Uint8Array;
  try {
    const key = await suite.DeserializePrivateKey(secret, false);
    const enc = sealed.slice(0, KEM_SECRET_BYTES);
    const aad = aboutBytes(about);
    plain = await suite.Open(key, enc, sealed.slice(KEM_SECRET_BYTES), { info: INFO, aad });
  } catch {
    throw broken();
  }
  const view = new DataView(plain.buffer, plain.byteOffset, plain.length);
  const malformed = () => new HersError('MALFORMED', 'an enrolment holds no record');
  if (plain.length < 8) throw malformed();
  const [jsonBytes, dimension] = [view.getUint32(0, true), view.getUint32(4, true)];
  if (8 + jsonBytes + 4 * dimension > plain.length) throw malformed();
  const vector = Float32Array.from({ length: dimension }, (_, i) => view.getFloat32(8 + jsonBytes + 4 * i, true));
  try {
    const { id, payload } = JSON.parse(
      new TextDecoder('utf-8', { fatal: true }).decode(plain.subarray(8, 8 + jsonBytes)),
    );
    if (typeof id !== 'string') throw malformed();
    return { id, vector, ...(payload === undefined ? {} : { payload }) };
  } catch {
    throw malformed();
  }
}

/** The public key that enrolments are sealed to, from the seed of the secret one. */
export function sealingKeyOf(seed: Uint8Array): Uint8Array {
  return ml_kem768_x25519.keygen(seed).publicKey;
}
