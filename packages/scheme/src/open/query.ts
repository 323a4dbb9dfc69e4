// An open query: one ciphertext modulo q·p1 that a server expands into the rows of a scan. Its
// body travels only where there are coordinates in it; its mask is a seed, or, where it was made
// with a public key, all of it. The public key is an encryption of zero modulo q·p1.

import { HersError } from '../errors.ts';
import { CHECKSUM_BYTES, FIELD_BYTES, HEAD_BYTES, OPEN_QUERY_MASK, PUBLIC_KEY_MASK } from '../layout.ts';
import { levelsOf, OPEN_SETS, type OpenSet, openSetById, rowsOf } from '../parameters.ts';
import { finishMessage, ID_BYTES, isKind, openMessage, SEED_BYTES, startMessage } from '../wire.ts';
import { EvaluationRing, P1, type Pair, putResidues, Q, type Residues, residuesBytes, takeResidues } from './ring.ts';

export interface OpenQuery {
  readonly parameters: OpenSet;
  readonly keyId: Uint8Array;
  /** Random; a response names the query that it answers. */
  readonly queryId: Uint8Array;
  readonly width: number;
  /** The scale of the blocks it can be compared with. */
  readonly galleryScale: number;
  /** Bits to which the server switches bodies and masks of responses. */
  readonly bits0: number;
  readonly bits1: number;
  /** The number of the secret that it is encrypted under, and the generation of the keys. */
  readonly device: number;
  readonly generation: number;
  /** The mask, modulo q and p1 in NTT form, or the seed that it is expanded from. */
  readonly mask: { readonly seed: Uint8Array } | { readonly residues: Residues };
  /** Coefficient i·stride of the body for every coordinate i, modulo q and p1. */
  readonly body: Residues;
}

/** How the mask is carried. */
const MASK_SEED = 0;
const MASK_RESIDUES = 1;

const MODULI = [Q, P1];
const primesOf = (parameters: OpenSet) => MODULI.map((l) => EvaluationRing.of(parameters).primes[l]);

const AT = { queryId: 32, width: 48, mask: 52, bits0: 53, bits1: 54, scale: 56, device: 64, generation: 68, body: 72 };

/** Bytes of a query with a seed, and with a whole mask. */
export function openQueryBytes(
  parameters: OpenSet,
  width: number,
): { readonly device: number; readonly public: number } {
  const frame = HEAD_BYTES + FIELD_BYTES['short query'] + CHECKSUM_BYTES;
  const sum = (count: number) => residuesBytes(primesOf(parameters), count);
  return { device: frame + SEED_BYTES + sum(width), public: frame + sum(parameters.n) + sum(width) };
}

export function encodeOpenQuery(query: OpenQuery): Uint8Array {
  const { parameters, width, mask } = query;
  const primes = primesOf(parameters);
  const sizes = openQueryBytes(parameters, width);
  const length = 'seed' in mask ? sizes.device : sizes.public;
  const draft = startMessage(
    { kind: 'short query', parameterSetId: parameters.id, keyId: query.keyId },
    length - AT.body - CHECKSUM_BYTES,
  );
  const { bytes, view } = draft;
  bytes.set(query.queryId, AT.queryId);
  view.setUint32(AT.width, width, true);
  view.setUint8(AT.mask, 'seed' in mask ? MASK_SEED : MASK_RESIDUES);
  view.setUint8(AT.bits0, query.bits0);
  view.setUint8(AT.bits1, query.bits1);
  view.setFloat64(AT.scale, query.galleryScale, true);
  view.setUint32(AT.device, query.device, true);
  view.setUint32(AT.generation, query.generation, true);
  if ('seed' in mask) bytes.set(mask.seed, AT.body);
  const at = 'seed' in mask ? AT.body + SEED_BYTES : putResidues(bytes, AT.body, mask.residues, primes);
  putResidues(bytes, at, query.body, primes);
  return finishMessage(draft);
}

export function isOpenQuery(bytes: Uint8Array): boolean {
  return isKind(bytes, 'short query');
}

/** Bytes of rows of queries that a store expands at the same time, unless one has more. */
export const EXPANDED_BYTES: number = 2 ** 26;

/**
 * Bytes that the rows of a query take once they are expanded, as it says itself; zero for what is
 * no open query, or of a set that this version does not know.
 */
export function expandedBytes(bytes: Uint8Array): number {
  if (!isOpenQuery(bytes) || bytes.length < AT.body) return 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const set = Object.values(OPEN_SETS).find(({ id }) => id === view.getUint16(6, true));
  const width = view.getUint32(AT.width, true);
  return set && width <= set.n ? 2 * 4 * set.n * rowsOf(set, width) : 0;
}

export function decodeOpenQuery(input: Uint8Array): OpenQuery {
  const { bytes, parameterSetId, keyId, view } = openMessage(input, 'short query');
  const parameters = openSetById(parameterSetId);
  const { n } = parameters;
  const width = view.getUint32(AT.width, true);
  const maskKind = view.getUint8(AT.mask);
  const hasSeed = maskKind === MASK_SEED;
  const bits0 = view.getUint8(AT.bits0);
  const bits1 = view.getUint8(AT.bits1);
  const galleryScale = view.getFloat64(AT.scale, true);
  if (
    maskKind > MASK_RESIDUES ||
    view.getUint8(55) !== 0 ||
    width < 1 ||
    width > n ||
    bits0 < 1 ||
    bits0 > bits1 ||
    bits1 > 32 ||
    !(galleryScale >= 1 && Number.isSafeInteger(galleryScale)) ||
    bytes.length !== openQueryBytes(parameters, width)[hasSeed ? 'device' : 'public']
  ) {
    throw new HersError('MALFORMED', 'the fields of this query contradict each other');
  }
  const take = (at: number, count: number) => takeResidues(bytes, at, count, primesOf(parameters), 'short query');
  return {
    parameters,
    keyId,
    queryId: bytes.slice(AT.queryId, AT.queryId + ID_BYTES),
    width,
    galleryScale,
    bits0,
    bits1,
    device: view.getUint32(AT.device, true),
    generation: view.getUint32(AT.generation, true),
    mask: hasSeed ? { seed: bytes.slice(AT.body, AT.body + SEED_BYTES) } : { residues: take(AT.body, n) },
    body: take(AT.body + (hasSeed ? SEED_BYTES : residuesBytes(primesOf(parameters), n)), width),
  };
}

/** The mask of a query that is made with a secret, modulo q and p1 in NTT form. */
export function openQueryMask(parameters: OpenSet, seed: Uint8Array): Residues {
  return EvaluationRing.of(parameters).uniform(MODULI, seed, OPEN_QUERY_MASK);
}

/**
 * The ciphertext that is expanded, modulo q and p1 in NTT form. What does not travel of the body is
 * zero: there the phase is garbage, which the first steps of an expansion cancel exactly.
 */
export function queryPair({ parameters, width, mask, body }: OpenQuery): Pair {
  const ring = EvaluationRing.of(parameters);
  const { stride } = levelsOf(parameters, width);
  const whole = body.map((coefficients, l) => {
    const words = new Uint32Array(parameters.n);
    coefficients.forEach((x, i) => {
      words[i * stride] = x;
    });
    return ring.ntt(l, words);
  });
  return [whole, 'seed' in mask ? openQueryMask(parameters, mask.seed) : mask.residues];
}

export interface PublicKey {
  readonly parameters: OpenSet;
  readonly keyId: Uint8Array;
  readonly generation: number;
  /** What the mask is expanded from. */
  readonly seed: Uint8Array;
  /** Modulo q and p1, in NTT form. */
  readonly body: Residues;
}

const KEY_AT = { generation: 32, zero: 36, seed: 40, body: 40 + SEED_BYTES };

export function encodePublicKey({ parameters, keyId, generation, seed, body }: PublicKey): Uint8Array {
  const primes = primesOf(parameters);
  const draft = startMessage(
    { kind: 'public key', parameterSetId: parameters.id, keyId },
    residuesBytes(primes, parameters.n),
  );
  const { bytes, view } = draft;
  view.setUint32(KEY_AT.generation, generation, true);
  bytes.set(seed, KEY_AT.seed);
  putResidues(bytes, KEY_AT.body, body, primes);
  return finishMessage(draft);
}

export function decodePublicKey(input: Uint8Array): PublicKey {
  const { bytes, parameterSetId, keyId, view, bodyAt, bodyBytes } = openMessage(input, 'public key');
  const parameters = openSetById(parameterSetId);
  const { n } = parameters;
  const primes = primesOf(parameters);
  if (view.getUint32(KEY_AT.zero, true) !== 0 || bodyBytes !== residuesBytes(primes, n))
    throw new HersError('MALFORMED', 'the fields of this public key contradict each other');
  const body = takeResidues(bytes, bodyAt, n, primes, 'public key');
  const seed = bytes.slice(KEY_AT.seed, KEY_AT.seed + SEED_BYTES);
  return { parameters, keyId, generation: view.getUint32(KEY_AT.generation, true), seed, body };
}

/** The mask of a public key, modulo q and p1 in NTT form. */
export function publicKeyMask(parameters: OpenSet, seed: Uint8Array): Residues {
  return EvaluationRing.of(parameters).uniform(MODULI, seed, PUBLIC_KEY_MASK);
}
