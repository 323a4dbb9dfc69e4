// Decryption of responses to scores, and of blocks back to vectors.

import { type RankJob, ResultSecret } from '@hers/ring';
import { blockMask, checkSameKey, decodeBlock, maskBits } from '../block.ts';
import { HersError } from '../errors.ts';
import { ID_BYTES, RESPONSE_LAYOUT } from '../layout.ts';
import { masksOf, modulusOf, polyWords, ringOf, wideFactor } from '../parameters.ts';
import type { Plan } from '../plan.ts';
import { decodeResponse, encodeResponse, type ScanResponse } from '../response.ts';
import type { Readout } from '../vectors.ts';
import { sameBytes } from '../wire.ts';
import { type CollectionKey, loadSecret } from './key.ts';

/**
 * `exact`: a decrypted value this far from an integer cannot come from a sound response (noise
 * stays below 0.5 with margin to spare).
 */
export const LARGEST_RESIDUAL = 0.45;

export interface Scores {
  readonly blockId: Uint8Array;
  /** The slot of the first score. */
  readonly first: number;
  /** Similarities (cosine, dot) or squared distances (euclidean), one per template of the block. */
  readonly scores: Float32Array;
  /**
   * `exact`: the integers they come from, inner products or squared distances of the rounded
   * vectors.
   */
  readonly integers?: Int32Array;
}

/**
 * A query's secret as plain data, to hand to a worker of the same process. As sensitive as the
 * secret itself.
 */
export interface ExposedSecret {
  readonly keyId: Uint8Array;
  readonly queryId: Uint8Array;
  readonly readout: Readout;
  readonly secret: Uint32Array;
}

/**
 * The decrypted phase of every slot in the plan's units, before any rounding: for measuring noise.
 * Tells everything; never show it.
 */
export let rawPhase: (secret: QuerySecret, response: Uint8Array) => Float64Array;

/** What `rank` takes: RankJob of ring, without what follows from the query. */
export type ResponsesToRank = Omit<RankJob, 'head' | 'bits0' | 'bits1' | 'factor' | 'offset' | 'largest'>;

/** How every response to a query begins, with zeros for what names its block. */
function responseHead({ parameters, responseBits }: Plan, keyId: Uint8Array, queryId: Uint8Array): Uint8Array {
  const { c0: bits0, c1: bits1 } = responseBits;
  const packed = (bits: number) => new Uint8Array((parameters.n * bits) / 8);
  const blockId = new Uint8Array(ID_BYTES);
  const whole = { parameters, keyId, queryId, blockId, first: 0, count: 1, bits0, bits1 };
  const bytes = encodeResponse({ ...whole, packed0: packed(bits0), packed1: packed(bits1) });
  return bytes.slice(0, RESPONSE_LAYOUT.body);
}

/** Decrypts the responses to one query, and only those. */
export class QuerySecret {
  readonly queryId: Uint8Array;
  readonly #plan: Plan;
  readonly #keyId: Uint8Array;
  readonly #readout: Readout;
  #secret: ResultSecret | undefined;

  static {
    rawPhase = (secret, bytes) => {
      const ring = ringOf(secret.#plan.parameters);
      const { response, secret: row, step } = secret.#open(bytes);
      const out = Float64Array.from(ring.phase(response, row.words).values, (x) => x * step);
      ring.wipe();
      return out;
    };
  }

  constructor(plan: Plan, keyId: Uint8Array, queryId: Uint8Array, readout: Readout, secret: Uint32Array) {
    this.queryId = queryId;
    this.#plan = plan;
    this.#keyId = keyId;
    this.#readout = readout;
    this.#secret = new ResultSecret(secret);
  }

  /** For workers: see ExposedSecret. */
  expose(): ExposedSecret {
    if (!this.#secret) throw wiped();
    return { keyId: this.#keyId, queryId: this.queryId, readout: this.#readout, secret: this.#secret.words.slice() };
  }

  static from(plan: Plan, { keyId, queryId, readout, secret }: ExposedSecret): QuerySecret {
    return new QuerySecret(plan, keyId, queryId, readout, secret);
  }

  /**
   * Checks that a response answers this query; `step` is the unit of its phase in the plan's units.
   */
  #open(bytes: Uint8Array): { response: ScanResponse; secret: ResultSecret; step: number } {
    if (!this.#secret) throw wiped();
    const response = decodeResponse(bytes);
    const { parameters, responseBits, unit } = this.#plan;
    checkSameKey(response, { parameters, keyId: this.#keyId });
    if (!sameBytes(response.queryId, this.queryId))
      throw new HersError('QUERY_MISMATCH', 'this response answers another query');
    const { bits0, bits1 } = response;
    if (bits0 !== responseBits.c0 || bits1 !== responseBits.c1)
      throw new HersError('MALFORMED', 'this response has other bits than the query asked for');
    return { response, secret: this.#secret, step: modulusOf(parameters) / 2 ** bits1 / unit };
  }

  /**
   * The scores of one block. Nothing of them may go back to the server, and `compact` ones to
   * nobody who sees ciphertexts (SECURITY.md). Who decrypts many gives the memory of n floats,
   * which the scores under `compact` and `small` then lie in.
   */
  decrypt(bytes: Uint8Array, room?: Float32Array): Scores {
    const plan = this.#plan;
    const ring = ringOf(plan.parameters);
    const { response, secret, step } = this.#open(bytes);
    const { blockId, first, count, bits1 } = response;
    const { slope, offset, sign, shift } = this.#readout;
    if (plan.profile !== 'exact') {
      const { values, largest } = ring.scores(response, secret, step * slope, offset, room);
      // The score of a checksum canary may be larger, or wrap around.
      if (plan.checksumGroup === 0 && largest > plan.largestPhase * 2 ** bits1) throw nonsense(values);
      return { blockId, first, scores: only(values, first, count) };
    }
    const { values, residual } = ring.integers(response, secret, step);
    if (residual > LARGEST_RESIDUAL) throw nonsense(values);
    const integers = only(values, first, count);
    if (sign !== 1) for (let j = 0; j < count; j++) integers[j] = shift - integers[j];
    const scores = new Float32Array(count);
    for (let j = 0; j < count; j++) scores[j] = integers[j] * slope;
    return { blockId, first, scores, integers };
  }

  /**
   * Decrypts and ranks responses on a thread of its own: for each of the best
   * the number of its response, of its record, and its score. Undefined where that cannot be done
   * here, or a response is not as it should be: then `decrypt` says what is wrong. Neither the
   * responses nor this secret may change before the promise settles.
   */
  async rank(job: ResponsesToRank): Promise<Float64Array | undefined> {
    if (!this.#secret) throw wiped();
    const { parameters, responseBits, unit, largestPhase } = this.#plan;
    const { slope, offset } = this.#readout;
    const { c0: bits0, c1: bits1 } = responseBits;
    const factor = (modulusOf(parameters) / 2 ** bits1 / unit) * slope;
    const head = responseHead(this.#plan, this.#keyId, this.queryId);
    const largest = largestPhase * 2 ** bits1;
    return ringOf(parameters).rank({ ...job, head, bits0, bits1, factor, offset, largest }, this.#secret);
  }

  wipe(): void {
    this.#secret?.wipe();
    this.#secret = undefined;
  }

  [Symbol.dispose](): void {
    this.wipe();
  }

  toJSON(): string {
    return '[QuerySecret]';
  }
}

function wiped(): HersError {
  return new HersError('WIPED', 'the secret of this query has been wiped; send a new query');
}

/** Part of an array, the rest of which is overwritten: what other slots decrypt to is nobody's. */
function only<T extends Float32Array | Int32Array>(values: T, first: number, count: number): T {
  values.fill(0, 0, first).fill(0, first + count);
  return values.subarray(first, first + count) as T;
}

/** What was decrypted is overwritten. */
function nonsense(...decrypted: readonly (Float32Array | Float64Array | Int32Array)[]): HersError {
  for (const values of decrypted) values.fill(0);
  return new HersError(
    'INTEGRITY',
    'this decrypts to values no score can have: it was altered, or comes from another block or key',
  );
}

/** The coordinates of a block in the order of their masks, with the secret of each. */
function byMask(masks: number, dimension: number) {
  const order: { readonly i: number; readonly m: number; readonly own: number; readonly isNew: boolean }[] = [];
  for (let m = 0; m < masks; m++)
    for (let i = m; i < dimension; i += masks) order.push({ i, m, own: Math.floor(i / masks), isNew: i === m });
  return order;
}

export interface DecryptedVectors {
  readonly first: number;
  /**
   * One vector after the other. `compact`: with the block's own error of about 0.001 per
   * coordinate; `exact`: as they were rounded.
   */
  readonly vectors: Float32Array;
  /** `exact`: the integers, of the plan's steps. */
  readonly integers?: Int32Array;
}

/**
 * A block back to its vectors: 2^wideBits·b_i + a·s_i = Δ_g·P_i + e_i.
 */
export function decryptBlock(key: CollectionKey, bytes: Uint8Array): DecryptedVectors {
  const block = decodeBlock(bytes);
  const { plan } = key;
  checkSameKey(block, { parameters: plan.parameters, keyId: key.keyId });
  if (block.width !== plan.width || block.galleryScale !== plan.galleryScale)
    throw new HersError('BLOCK_MISMATCH', 'this block was made under another plan');
  const { parameters, dimension, profile, normBound, steps, galleryScale } = plan;
  const { first, count } = block;
  const exact = profile === 'exact';
  const ring = ringOf(parameters);
  const words = polyWords(parameters);
  const order = byMask(masksOf(parameters, block.width), dimension);
  const vectors = new Float32Array(count * dimension);
  const integers = exact ? new Int32Array(count * dimension) : undefined;
  const { wideBits } = parameters;
  const [row, mask, secret, maskLow, product] = ring.polys;
  const [zero, bits] = ring.words;
  try {
    zero.values.fill(0);
    for (let at = 0; at < dimension; at++) {
      // Those of one mask after the other: coordinate i has mask i mod masks and secret ⌊i/masks⌋.
      const { i, m, own, isNew } = order[at];
      if (isNew) {
        mask.residues.set(blockMask(block, m));
        maskBits(block, bits, m);
        ring.embed(maskLow, bits);
        ring.ntt(maskLow);
      }
      row.residues.set(block.rows.subarray(i * words, (i + 1) * words));
      loadSecret(key, own, secret);
      product.residues.set(row.residues);
      ring.scaleAdd(row, product, BigInt(wideFactor(parameters) - 1));
      ring.multiplyAdd(row, mask, secret);
      ring.intt(row);
      ring.multiply(product, maskLow, secret);
      ring.intt(product);
      ring.combineBits(bits, zero, zero, product, wideBits, 0n, 1);
      ring.joinWide(row, bits, wideBits);
      const centred = ring.centredWide();
      for (let j = 0; j < count; j++) {
        const value = centred[first + j] / galleryScale;
        if (integers) {
          const nearest = Math.round(value) + 0; // never −0, which would tell the sign of the noise
          if (Math.abs(value - nearest) > LARGEST_RESIDUAL || Math.abs(nearest) > 2 * steps)
            throw nonsense(centred, vectors, integers);
          integers[j * dimension + i] = nearest;
          vectors[j * dimension + i] = (nearest * normBound) / steps;
        } else {
          vectors[j * dimension + i] = value * normBound;
        }
      }
      centred.fill(0);
    }
  } finally {
    ring.wipe();
  }
  return integers ? { first, vectors, integers } : { first, vectors };
}
