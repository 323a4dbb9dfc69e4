// Making evaluation keys and public keys. Masks and errors are fresh at every call: errors that are
// fresh under a mask that is not would let a store average them away.

import { randomSeed } from '@hers/ring';
import { encodeEvaluation, evaluationMask, type Part, SECRETS_A_PIECE, samplesOf } from '../../open/evaluation.ts';
import { encodePublicKey, publicKeyMask } from '../../open/query.ts';
import { EvaluationRing, P1, P2, Q, type Residues } from '../../open/ring.ts';
import { LAST_LEVELS, lastExponent, stepExponent } from '../../parameters.ts';
import type { CollectionKey } from '../key.ts';
import { OpenSecrets, openPlanOf, type Secret } from './secrets.ts';

/** Gives 32 bytes that are never given out again. */
export type Seeds = () => Uint8Array;

export interface EvaluationOptions {
  /** Of the chain, the result secret and the response secrets; another one, and all are new. */
  readonly generation?: number;
  /** Numbers of the secrets that queries may be encrypted under. 0 is that of the public key. */
  readonly devices?: readonly number[];
}

/**
 * All evaluation keys of a collection, in messages of at most a few megabytes, for its store and
 * nobody else (README.md §9).
 */
export function makeEvaluationKeys(key: CollectionKey, options: EvaluationOptions = {}): Uint8Array[] {
  return makeEvaluationKeysFrom(randomSeed, key, options);
}

export function makeEvaluationKeysFrom(
  seeds: Seeds,
  key: CollectionKey,
  { generation = 0, devices = [0] }: EvaluationOptions = {},
): Uint8Array[] {
  const { parameters, levels } = openPlanOf(key);
  const ring = EvaluationRing.of(parameters);
  using secrets = new OpenSecrets(key, generation);
  const { n } = parameters;
  const { steps } = levels;
  const chain = Array.from({ length: steps }, (_, k) => secrets.chain(k + 1));
  const result = secrets.result();
  const piece = (part: Part, first: number, samples: readonly Sample[]) =>
    pieceOf(seeds, key, generation, part, first, samples);

  const out: Uint8Array[] = [];
  const last = chain[steps - 1];
  out.push(
    piece('chain', 0, [
      ...chain.slice(1).flatMap((to, k) => stepKeys(ring, chain[k], k + 1, to)),
      ...Array.from({ length: 2 ** LAST_LEVELS }, (_, c) => switching(ring, last, lastExponent(n, c), result)).flat(),
    ]),
  );
  for (const number of devices) out.push(piece('device', number, stepKeys(ring, secrets.device(number), 0, chain[0])));

  const { bases, responses } = parameters.evaluation;
  const z = Array.from({ length: responses }, (_, v) => secrets.response(v));
  out.push(
    piece(
      'packing',
      0,
      z.flatMap((_, u) =>
        z.map((under, v) => ({
          under,
          hidden: (l) => (u === v && l === Q ? ring.scale(Q, result.residues[Q], BigInt(ring.primes[P2])) : undefined),
        })),
      ),
    ),
  );

  const product = BigInt(ring.primes[P1]) * BigInt(ring.primes[P2]);
  const m = 1n << BigInt(parameters.wideBits);
  const kappas = bases.map((k) => ((product << BigInt(k * parameters.digitBits)) + m / 2n) / m);
  for (let first = 0; first < levels.secrets; first += SECRETS_A_PIECE) {
    const samples: Sample[] = [];
    for (let j = first; j < Math.min(first + SECRETS_A_PIECE, levels.secrets); j++) {
      const own = secrets.gallery(j);
      for (const kappa of kappas) {
        samples.push({ under: result, hidden: (l) => ring.scale(l, own.residues[l], kappa) });
        samples.push({
          under: result,
          hidden: (l) => ring.scale(l, ring.multiply(l, own.residues[l], result.residues[l]), kappa),
        });
      }
    }
    out.push(piece('masks', first, samples));
  }
  return out;
}

/**
 * The piece for the queries of one device alone: it goes with the other pieces of this key and
 * generation. For the store; it opens nothing of the device's queries by itself.
 */
export function makeDeviceEvaluation(key: CollectionKey, number: number, generation = 0): Uint8Array {
  return makeDeviceEvaluationFrom(randomSeed, key, number, generation);
}

export function makeDeviceEvaluationFrom(
  seeds: Seeds,
  key: CollectionKey,
  number: number,
  generation: number,
): Uint8Array {
  const ring = EvaluationRing.of(openPlanOf(key).parameters);
  using secrets = new OpenSecrets(key, generation);
  const samples = stepKeys(ring, secrets.device(number), 0, secrets.chain(1));
  return pieceOf(seeds, key, generation, 'device', number, samples);
}

/** A message with these bodies, in their order; `hidden` is added to −mask·under + error. */
function pieceOf(
  seeds: Seeds,
  key: CollectionKey,
  generation: number,
  part: Part,
  first: number,
  samples: readonly Sample[],
): Uint8Array {
  const { parameters, width } = openPlanOf(key);
  const ring = EvaluationRing.of(parameters);
  const seed = seeds();
  const errors = seeds();
  const head = { parameters, keyId: key.keyId, generation, width, part, first, seed };
  const { masks, bodies: each, primes } = samplesOf(parameters, width, part, first);
  if (samples.length !== masks * each) throw new Error(`${part} has ${masks * each} bodies, not ${samples.length}`);
  let mask: Residues = [];
  const bodies = samples.map(({ under, hidden }, at) => {
    if (at % each === 0) mask = evaluationMask(head, at / each);
    return encryption(ring, primes, mask, under, { key: errors, index: at }, hidden);
  });
  errors.fill(0);
  return encodeEvaluation({ ...head, bodies });
}

/** KSK(from(x^exponent) → to): p2·from in residue j of the digit modulo prime j. */
function switching(ring: EvaluationRing, from: Secret, exponent: number, to: Secret): Sample[] {
  return [Q, P1].map((digit) => ({
    under: to,
    hidden: (l) => (l === digit ? ring.scale(l, turned(ring, l, from, exponent), BigInt(ring.primes[P2])) : undefined),
  }));
}

function stepKeys(ring: EvaluationRing, from: Secret, k: number, to: Secret): Sample[] {
  return [...switching(ring, from, 1, to), ...switching(ring, from, stepExponent(ring.n, k), to)];
}

/** What a body hides: in NTT form, modulo prime l; undefined for zero. */
interface Sample {
  readonly under: Secret;
  readonly hidden: (l: number) => Uint32Array | undefined;
}

/** −mask·secret + error + hidden, modulo these primes, in NTT form. */
function encryption(
  ring: EvaluationRing,
  primes: readonly number[],
  mask: Residues,
  under: Secret,
  errors: { readonly key: Uint8Array; readonly index: number },
  hidden: Sample['hidden'],
): Residues {
  const small = ring.errors(errors.key, errors.index);
  const body = primes.map((l, i) => {
    const noise = ring.ntt(l, ring.embed(l, small));
    const plain = ring.subtract(l, noise, ring.multiply(l, mask[i], under.residues[l]));
    const message = hidden(l);
    return message ? ring.add(l, plain, message) : plain;
  });
  small.fill(0);
  return body;
}

/** The residues of s(x^exponent) in NTT form. */
function turned(ring: EvaluationRing, l: number, { small }: Secret, exponent: number): Uint32Array {
  return ring.ntt(l, ring.automorphism(l, ring.embed(l, small), exponent));
}

/** A public key, for everyone. Whoever uses it must know that it is the key holder's. */
export function makePublicKey(key: CollectionKey, generation = 0): Uint8Array {
  return makePublicKeyFrom(randomSeed, key, generation);
}

export function makePublicKeyFrom(seeds: Seeds, key: CollectionKey, generation = 0): Uint8Array {
  const { parameters } = openPlanOf(key);
  const ring = EvaluationRing.of(parameters);
  using secrets = new OpenSecrets(key, generation);
  const seed = seeds();
  const errors = seeds();
  const mask = publicKeyMask(parameters, seed);
  const body = encryption(ring, [Q, P1], mask, secrets.device(0), { key: errors, index: 0 }, () => undefined);
  errors.fill(0);
  return encodePublicKey({ parameters, keyId: key.keyId, generation, seed, body });
}
