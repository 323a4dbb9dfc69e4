// The public key: an encryption of zero modulo q·p1, from which anyone makes queries.

import { PUBLIC_KEY_MASK } from '../domains.ts';
import { HersError } from '../errors.ts';
import { finishMessage, openMessage, SEED_BYTES, startMessage } from '../wire.ts';
import { bitBytes, packResidues, unpackResidues } from './bits.ts';
import { type OpenSet, openSetById } from './parameters.ts';
import { EvaluationRing, P1, Q, type Residues } from './ring.ts';

export interface PublicKey {
  readonly parameters: OpenSet;
  readonly keyId: Uint8Array;
  readonly generation: number;
  /** What the mask is expanded from. */
  readonly seed: Uint8Array;
  /** Modulo q and p1, in NTT form. */
  readonly body: Residues;
}

const MODULI = [Q, P1];
const AT = { generation: 32, zero: 36, seed: 40, body: 40 + SEED_BYTES };

export function encodePublicKey({ parameters, keyId, generation, seed, body }: PublicKey): Uint8Array {
  const { primes } = EvaluationRing.of(parameters);
  const sizes = MODULI.map((l) => bitBytes(primes[l], parameters.n));
  const draft = startMessage({ kind: 'public key', parameterSetId: parameters.id, keyId }, sizes[0] + sizes[1]);
  const { bytes, view } = draft;
  view.setUint32(AT.generation, generation, true);
  bytes.set(seed, AT.seed);
  packResidues(bytes.subarray(AT.body, AT.body + sizes[0]), body[0], primes[Q]);
  packResidues(bytes.subarray(AT.body + sizes[0], AT.body + sizes[0] + sizes[1]), body[1], primes[P1]);
  return finishMessage(draft);
}

export function decodePublicKey(input: Uint8Array): PublicKey {
  const { bytes, parameterSetId, keyId, view, bodyAt, bodyBytes } = openMessage(input, 'public key');
  const parameters = openSetById(parameterSetId);
  const { n } = parameters;
  const { primes } = EvaluationRing.of(parameters);
  const sizes = MODULI.map((l) => bitBytes(primes[l], n));
  if (view.getUint32(AT.zero, true) !== 0 || bodyBytes !== sizes[0] + sizes[1])
    throw new HersError('MALFORMED', 'the fields of this public key contradict each other');
  let at = bodyAt;
  const body = MODULI.map((l, i) => {
    at += sizes[i];
    return unpackResidues(bytes.subarray(at - sizes[i], at), n, primes[l], 'public key');
  });
  const seed = bytes.slice(AT.seed, AT.seed + SEED_BYTES);
  return { parameters, keyId, generation: view.getUint32(AT.generation, true), seed, body };
}

/** The mask of a public key, modulo q and p1 in NTT form. */
export function publicKeyMask(parameters: OpenSet, seed: Uint8Array): Residues {
  const ring = EvaluationRing.of(parameters);
  return MODULI.map((l) => {
    const [poly] = ring.ring(l).polys;
    ring.ring(l).uniform(poly, { key: seed, domain: PUBLIC_KEY_MASK, index: l });
    return poly.residues.slice();
  });
}
