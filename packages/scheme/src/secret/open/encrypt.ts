// Open queries, with the secret of a device or with a public key. Every call draws fresh
// randomness.

import { HersError } from '../../errors.ts';
import { OPEN_EPHEMERAL } from '../../layout.ts';
import type { OpenPlan } from '../../open/plan.ts';
import { decodePublicKey, encodeOpenQuery, type OpenQuery, openQueryMask, publicKeyMask } from '../../open/query.ts';
import { EvaluationRing, P1, Q, type Residues } from '../../open/ring.ts';
import { encodeVectors } from '../../vectors.ts';
import { SEED_BYTES } from '../../wire.ts';
import { type Entropy, platform } from '../encrypt.ts';
import type { CollectionKey } from '../key.ts';
import { deviceSecret, deviceSeed } from './secrets.ts';

const MODULI = [Q, P1];

/** What a device needs to ask, and nothing that opens the gallery. The seed is secret. */
export interface DeviceKey {
  readonly keyId: Uint8Array;
  readonly generation: number;
  /** Of the device; there must be evaluation keys for it. */
  readonly number: number;
  readonly seed: Uint8Array;
}

/**
 * The key of a device. Whoever holds it reads all queries that are made with it; so each device has
 * its own.
 */
export function makeDeviceKey(key: CollectionKey, number: number, generation = 0): DeviceKey {
  return { keyId: key.keyId, generation, number, seed: deviceSeed(key, generation, number) };
}

/** Encrypts a query of a kilobyte with the key of a device. */
export function encryptShortQuery(plan: OpenPlan, device: DeviceKey, vector: ArrayLike<number>): Uint8Array {
  return encodeOpenQuery(encryptShortQueryFrom(platform, plan, device, vector));
}

export function encryptShortQueryFrom(
  entropy: Entropy,
  plan: OpenPlan,
  { keyId, generation, number, seed: deviceSeed }: DeviceKey,
  vector: ArrayLike<number>,
): OpenQuery {
  if (deviceSeed.length !== SEED_BYTES)
    throw new HersError('INVALID_ARGUMENT', `the seed of a device key has ${SEED_BYTES} bytes`);
  const { parameters } = plan;
  const ring = EvaluationRing.of(parameters);
  const message = encodeMessage(plan, vector);
  const queryId = entropy.id();
  const seed = entropy.seed();
  const errors = entropy.seed();
  const secret = deviceSecret(parameters, deviceSeed);
  try {
    const mask = openQueryMask(parameters, seed);
    const noise = draw(ring, errors, 0);
    const body = MODULI.map((l) => {
      const product = ring.intt(l, ring.multiply(l, mask[l], secret.residues[l]));
      return coordinates(plan, ring.subtract(l, ring.add(l, noise[l], message[l]), product));
    });
    return { ...headOf(plan, keyId, queryId), device: number, generation, mask: { seed }, body };
  } finally {
    errors.fill(0);
    secret.small.fill(0);
    for (const words of [...secret.residues, ...message]) words.fill(0);
    ring.wipe();
  }
}

/** Encrypts a query with a public key, which is its bytes: 29 kilobytes at 128 dimensions. */
export function encryptPublicQuery(plan: OpenPlan, publicKey: Uint8Array, vector: ArrayLike<number>): Uint8Array {
  return encodeOpenQuery(encryptPublicQueryFrom(platform, plan, publicKey, vector));
}

export function encryptPublicQueryFrom(
  entropy: Entropy,
  plan: OpenPlan,
  publicKey: Uint8Array,
  vector: ArrayLike<number>,
): OpenQuery {
  const { parameters } = plan;
  const { keyId, generation, seed: keySeed, ...decoded } = decodePublicKey(publicKey);
  if (decoded.parameters.id !== parameters.id)
    throw new HersError('KEY_MISMATCH', 'this public key belongs to another parameter set than the plan');
  const ring = EvaluationRing.of(parameters);
  const message = encodeMessage(plan, vector);
  const queryId = entropy.id();
  const errors = entropy.seed();
  try {
    const small = ring.ring(Q);
    small.ternary(small.words[0], { key: errors, domain: OPEN_EPHEMERAL, index: 0 });
    const u = small.words[0].values.slice();
    const [noise, maskNoise] = [draw(ring, errors, 0), draw(ring, errors, 1)];
    const keyMask = publicKeyMask(parameters, keySeed);
    const ephemeral = MODULI.map((l) => ring.ntt(l, ring.embed(l, u)));
    const body = MODULI.map((l) => {
      const product = ring.intt(l, ring.multiply(l, decoded.body[l], ephemeral[l]));
      return coordinates(plan, ring.add(l, ring.add(l, noise[l], message[l]), product));
    });
    const residues = MODULI.map((l) =>
      ring.add(l, ring.ntt(l, maskNoise[l]), ring.multiply(l, keyMask[l], ephemeral[l])),
    );
    u.fill(0);
    for (const words of ephemeral) words.fill(0);
    return { ...headOf(plan, keyId, queryId), device: 0, generation, mask: { residues }, body };
  } finally {
    errors.fill(0);
    for (const words of message) words.fill(0);
    ring.wipe();
  }
}

function headOf({ parameters, width, galleryScale, responseBits }: OpenPlan, keyId: Uint8Array, queryId: Uint8Array) {
  return { parameters, keyId, queryId, width, galleryScale, bits0: responseBits.c0, bits1: responseBits.c1 };
}

/** round(Δ_q·q[i]·p1/(2^t·n)) at coefficient i·stride: expansion multiplies it by n. */
function encodeMessage(plan: OpenPlan, vector: ArrayLike<number>): Residues {
  const { parameters, levels, width } = plan;
  const { n, wideBits } = parameters;
  const ring = EvaluationRing.of(parameters);
  const encoded = encodeVectors(plan, [vector], 'query');
  const factor = ring.primes[P1] / (n * 2 ** wideBits);
  const small = new Float64Array(n);
  for (let i = 0; i < width; i++) small[i * levels.stride] = Math.round(encoded.values[i] * factor);
  const message = MODULI.map((l) => {
    const p = ring.primes[l];
    return Uint32Array.from(small, (x) => ((x % p) + p) % p);
  });
  encoded.values.fill(0);
  small.fill(0);
  return message;
}

/** The coefficients that are sent. */
function coordinates({ levels, width }: OpenPlan, words: Uint32Array): Uint32Array {
  const out = Uint32Array.from({ length: width }, (_, i) => words[i * levels.stride]);
  words.fill(0);
  return out;
}

function draw(ring: EvaluationRing, key: Uint8Array, index: number): Residues {
  const values = ring.errors(key, index);
  const out = MODULI.map((l) => ring.embed(l, values));
  values.fill(0);
  return out;
}
