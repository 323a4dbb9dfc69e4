// Decryption of packed responses to open queries.

import { ResultSecret } from '@hers/ring';
import { checkSameKey } from '../../block.ts';
import { HersError } from '../../errors.ts';
import { decodePackedResponse, type PackedResponse } from '../../open/pack.ts';
import type { OpenPlan } from '../../open/plan.ts';
import { Q } from '../../open/ring.ts';
import { modulusOf, ringOf } from '../../parameters.ts';
import { encodeVectors, type Readout, readout, vectorNorm } from '../../vectors.ts';
import { sameBytes } from '../../wire.ts';
import type { Scores } from '../decrypt.ts';
import type { CollectionKey } from '../key.ts';
import { OpenSecrets, openPlanOf } from './secrets.ts';

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
    if (largest > largestPhase * 2 ** bits1) {
      values.fill(0);
      throw new HersError(
        'INTEGRITY',
        'this decrypts to values no score can have: it was altered, or comes from another block or key',
      );
    }
    values.fill(0, 0, first).fill(0, first + count);
    return { blockId, first, scores: values.subarray(first, first + count) };
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
