// Reading an open query: the key holder opens what a device has encrypted, to know what canaries
// score and that it is a query that an honest device makes.

import { checkSameKey } from '../../block.ts';
import { HersError } from '../../errors.ts';
import { ERROR_VARIANCE } from '../../noise.ts';
import { decodeOpenQuery, openQueryMask } from '../../open/query.ts';
import { EvaluationRing, P1, Q } from '../../open/ring.ts';
import { encodeVectors } from '../../vectors.ts';
import type { CollectionKey } from '../key.ts';
import { deviceSecret, deviceSeed, openPlanOf } from './secrets.ts';

/** How many deviations of its noise a coordinate may be away from what an honest device encodes. */
const SIGMAS = 9;

export interface ReadQuery {
  /** What responses name it by. */
  readonly queryId: Uint8Array;
  /** The number of the secret that it is under. */
  readonly device: number;
  readonly generation: number;
  /** The vector that was asked for, as it is indexed: under cosine of length 1. */
  readonly vector: Float32Array;
  /**
   * Whether it is what encryption makes of a vector: of length 1 within its noise under cosine, and
   * within the bounds of the plan under other metrics.
   */
  readonly isHonest: boolean;
}

/**
 * Reads an open query of this key and generation. KEY_MISMATCH for one of another. Whoever sees
 * ciphertexts must not learn `isHonest`, nor anything that depends on the vector: scan the query
 * whatever it says, and keep back the answer.
 */
export function readOpenQuery(key: CollectionKey, bytes: Uint8Array, generation = 0): ReadQuery {
  const plan = openPlanOf(key);
  const { parameters, levels, width, dimension } = plan;
  const query = decodeOpenQuery(bytes);
  checkSameKey(query, { parameters, keyId: key.keyId });
  if (
    query.width !== width ||
    query.galleryScale !== plan.galleryScale ||
    query.bits0 !== plan.responseBits.c0 ||
    query.bits1 !== plan.responseBits.c1 ||
    query.generation !== generation
  )
    throw new HersError('KEY_MISMATCH', 'this query was made for another plan, or other evaluation keys');
  const ring = EvaluationRing.of(parameters);
  const [q, p1] = [ring.primes[Q], ring.primes[P1]];
  const seed = deviceSeed(key, generation, query.device);
  const secret = deviceSecret(parameters, seed);
  const mask = 'seed' in query.mask ? openQueryMask(parameters, query.mask.seed) : query.mask.residues;
  const products = [Q, P1].map((l) => ring.intt(l, ring.multiply(l, mask[l], secret.residues[l])));
  const residues = products.map((product, l) =>
    Uint32Array.from({ length: width }, (_, i) => {
      return (query.body[l][i] + product[i * levels.stride]) % ring.primes[l];
    }),
  );
  const phases = Float64Array.from({ length: width }, (_, i) => centred(residues[0][i], residues[1][i], q, p1));
  seed.fill(0);
  secret.small.fill(0);
  for (const words of [...secret.residues, ...products, ...residues]) words.fill(0);
  ring.wipe();

  const factor = p1 / (parameters.n * 2 ** parameters.wideBits);
  const scale = (plan.queryScale * factor) / plan.queryNormBound;
  const vector = Float32Array.from(phases.subarray(0, dimension), (x) => x / scale);
  return {
    queryId: query.queryId,
    device: query.device,
    generation,
    vector,
    isHonest: isHonest(phases, vector),
  };

  function isHonest(found: Float64Array, read: Float32Array): boolean {
    let encoded: Int32Array;
    try {
      encoded = encodeVectors(plan, [read], 'query').values;
    } catch {
      return false; // Too long, of no length, or not even numbers.
    }
    // A public key adds e·u + e2·t_0 to the error of a device key; both rounded to integers twice.
    const isPublic = 'residues' in query.mask;
    const noise = Math.sqrt(ERROR_VARIANCE * (isPublic ? 1 + (4 / 3) * parameters.n : 1));
    const furthest = SIGMAS * noise + factor + 1;
    const isNear = encoded.every((x, i) => Math.abs(x * factor - found[i]) <= furthest);
    encoded.fill(0);
    return isNear;
  }
}

/** The integer between −q·p1/2 and q·p1/2 with these residues, as a float. */
function centred(a: number, b: number, q: number, p1: number): number {
  const [bigQ, bigP] = [BigInt(q), BigInt(p1)];
  let inverse = 1n;
  for (let e = bigP - 2n, base = bigQ % bigP; e > 0n; e >>= 1n, base = (base * base) % bigP)
    if (e & 1n) inverse = (inverse * base) % bigP;
  const k = ((((BigInt(b) - BigInt(a)) % bigP) + bigP) * inverse) % bigP;
  const x = BigInt(a) + bigQ * k;
  return Number(2n * x > bigQ * bigP ? x - bigQ * bigP : x);
}
