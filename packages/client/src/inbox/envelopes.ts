// Envelopes as their two ends see them: a device signs, and seals enrolments to the keeper; the
// keeper checks and opens. What travels in the clear is in @hers/service, envelope.ts.

import { HersError } from '@hers/scheme';
import { type Envelope, type EnvelopeHead, encodeEnvelopeHead, joinEnvelope } from '@hers/service';
import { ed25519 } from '@noble/curves/ed25519.js';
import { AEAD_AES_256_GCM, CipherSuite, KDF_HKDF_SHA256 } from 'hpke';
import { concat, u32 } from '../bytes.ts';
import { padme } from '../fields/padme.ts';
import { HYBRID_KEM, KEM_SECRET_BYTES } from './hybrid-kem.ts';

/** RFC 9180, base mode: who sealed it is said by the signature around it. */
const suite = new CipherSuite(HYBRID_KEM, KDF_HKDF_SHA256, AEAD_AES_256_GCM);
const INFO = new TextEncoder().encode('HERS enrolment v1');

export const SIGNING_KEY_BYTES = 32;

export function verifyingKey(signingKey: Uint8Array): Uint8Array {
  return ed25519.getPublicKey(signingKey);
}

/** An envelope around these bytes, signed. */
export function signEnvelope(signingKey: Uint8Array, about: EnvelopeHead, body: Uint8Array): Uint8Array {
  const head = encodeEnvelopeHead(about, body);
  return joinEnvelope(head, body, ed25519.sign(head, signingKey));
}

/**
 * Whether this device signed it. The head holds the hash of the body, which decoding has checked.
 */
export function isSignedBy(key: Uint8Array, { head, signature }: Envelope): boolean {
  try {
    return ed25519.verify(signature, head, key, { zip215: false });
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
  try {
    return ed25519.verify(signature, concat(BUNDLE_LABEL, new TextEncoder().encode(text)), key, { zip215: false });
  } catch {
    return false;
  }
}

/** A record on its way to the keeper. */
export interface EnrolledRecord {
  readonly id: string;
  readonly vector: Float32Array;
  readonly payload?: unknown;
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
  { id, vector, payload }: EnrolledRecord,
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

/**
 * Opens what a device has sealed; INTEGRITY where it was sealed to another, or for another head.
 */
export async function openRecord(secret: Uint8Array, about: EnvelopeHead, sealed: Uint8Array): Promise<EnrolledRecord> {
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
export async function sealingKeyOf(seed: Uint8Array): Promise<Uint8Array> {
  const { ml_kem768_x25519 } = await import('@noble/post-quantum/hybrid.js');
  return ml_kem768_x25519.keygen(seed).publicKey;
}
