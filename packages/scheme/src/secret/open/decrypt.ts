// Decryption of packed responses to open queries, and of the queries themselves: the key holder
// opens what a device has encrypted, to know what canaries score and that it is a query that an
// honest device makes.

import { modInverse, ResultSecret } from '@hers/ring';
import { checkSameKey } from '../../block.ts';
import { HersError } from '../../errors.ts';
import { ERROR_VARIANCE } from '../../noise.ts';
import { decodePackedResponse, type PackedResponse } from '../../open/pack.ts';
import type { OpenPlan } from '../../open/plan.ts';
import { decodeOpenQuery, openQueryMask } from '../../open/query.ts';
import { EvaluationRing, P1, Q } from '../../open/ring.ts';
import { modulusOf, ringOf } from '../../parameters.ts';
import { encodeVectors, type Readout, readout, vectorNorm } from '../../vectors.ts';
import { sameBytes } from '../../wire.ts';
import { nonsense, only, type Scores } from '../decrypt.ts';
import type { CollectionKey } from '../key.ts';
import { deviceSecret, deviceSeed, OpenSecrets, openPlanOf } from './secrets.ts';

/** Decrypts the responses to one open query; `ResponseSecrets` makes it. */
export interface QueryResponses {
  /** Checks that a response answers the query, and tells its blocks. */
  open(bytes: Uint8Array): Pick<PackedResponse, 'blocks'>;
  /**
   * The scores of one block of a response, by its place in it. Decrypt the first response for every
   * block, and no other. Who decrypts many gives the memory of n floats, which they then lie in.
   */
  decrypt(bytes: Uint8Array, room?: Float32Array, place?: number): Scores;
}

/** Decrypts the responses to open queries: one of a collection and generation. */
export class ResponseSecrets {
  readonly #plan: OpenPlan;
  readonly #keyId: Uint8Array;
  readonly #generation: number;
  /** z_0, z_1 … */
  #secrets: readonly ResultSecret[] | undefined;

  constructor(key: CollectionKey, generation = 0) {
    this.#plan = openPlanOf(key);
    this.#keyId = key.keyId;
    this.#generation = generation;
    using secrets = new OpenSecrets(key, generation);
    const { responses } = this.#plan.parameters.evaluation;
    this.#secrets = Array.from({ length: responses }, (_, v) => {
      return new ResultSecret(secrets.response(v).residues[Q].slice());
    });
  }

  /**
   * The scores of all blocks of a response. `vector` is the one that was asked for, whose length
   * euclidean scores need; decrypt only the first response for every block of a query.
   */
  decrypt(bytes: Uint8Array, queryId: Uint8Array, vector: ArrayLike<number>): Scores[] {
    const of = this.of(queryId, vector);
    const { blocks } = of.open(bytes);
    return blocks.map((_, place) => of.decrypt(bytes, undefined, place));
  }

  /** What decrypts the responses to one query, block by block. */
  of(queryId: Uint8Array, vector: ArrayLike<number>): QueryResponses {
    const made = this.#readout(vector);
    let last: { readonly bytes: Uint8Array; readonly opened: PackedResponse } | undefined;
    const open = (bytes: Uint8Array) => {
      if (last?.bytes !== bytes) last = { bytes, opened: this.#open(bytes, queryId) };
      return last.opened;
    };
    return { open, decrypt: (bytes, room, place = 0) => this.#decrypt(open(bytes), place, made, room) };
  }

  /** INTEGRITY and others unless it answers this query, under these secrets. */
  #open(bytes: Uint8Array, queryId: Uint8Array): PackedResponse {
    const { parameters, responseBits } = this.#plan;
    const response = decodePackedResponse(bytes);
    checkSameKey(response, { parameters, keyId: this.#keyId });
    if (!sameBytes(response.queryId, queryId) || response.generation !== this.#generation)
      throw new HersError('QUERY_MISMATCH', 'this response answers another query, or is under other secrets');
    if (response.bits0 !== responseBits.c0 || response.bits1 !== responseBits.c1)
      throw new HersError('MALFORMED', 'this response has other bits than the query asked for');
    return response;
  }

  #decrypt(
    { blocks, mask, bodies, bits0, bits1 }: PackedResponse,
    place: number,
    { slope, offset }: Readout,
    room: Float32Array | undefined,
  ): Scores {
    if (!this.#secrets) throw new HersError('WIPED', 'these secrets have been wiped; open the key again');
    const { parameters, unit, largestPhase } = this.#plan;
    const block = blocks[place];
    if (!block) throw new HersError('INVALID_ARGUMENT', `this response is for ${blocks.length} blocks`);
    const { blockId, first, count } = block;
    const factor = (modulusOf(parameters) / 2 ** bits1 / unit) * slope;
    const pair = { packed0: bodies[place], bits0, packed1: mask, bits1 };
    const { values, largest } = ringOf(parameters).scores(pair, this.#secrets[place], factor, offset, room);
    if (largest > largestPhase * 2 ** bits1) throw nonsense(values);
    return { blockId, first, scores: only(values, first, count) };
  }

  #readout(vector: ArrayLike<number>): Readout {
    const encoded = encodeVectors(this.#plan, [vector], 'query');
    const made = readout(this.#plan, encoded, vectorNorm(vector));
    encoded.values.fill(0);
    return made;
  }

  wipe(): void {
    for (const secret of this.#secrets ?? []) secret.wipe();
    this.#secrets = undefined;
  }

  [Symbol.dispose](): void {
    this.wipe();
  }

  toJSON(): string {
    return '[ResponseSecrets]';
  }
}

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
  return { queryId: query.queryId, device: query.device, generation, vector, isHonest: isHonest(phases, vector) };

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
  const k = ((((BigInt(b) - BigInt(a)) % bigP) + bigP) * modInverse(bigQ, bigP)) % bigP;
  const x = BigInt(a) + bigQ * k;
  return Number(2n * x > bigQ * bigP ? x - bigQ * bigP : x);
}
