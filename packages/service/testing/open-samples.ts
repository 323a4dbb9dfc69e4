// A small collection with open queries, with its keys: what a store must answer to them, computed
// by the scheme's own slow code. For tests.

import { type Block, blockMatrix, decodeBlock, HersError, type Plan, peekAnyResponse } from '@hers/scheme';
import {
  decodeEvaluation,
  decodeOpenQuery,
  Evaluator,
  encodePackedResponse,
  evaluationKeys,
  type OpenPlan,
  openPlan,
} from '@hers/scheme/open';
import { type CollectionKey, encryptBlock, MasterSeed } from '@hers/scheme/secret';
import { encryptShortQuery, makeDeviceKey, makeEvaluationKeys, ResponseSecrets } from '@hers/scheme/secret/open';
import { scanOpenBlock } from '@hers/scheme/testing/slow-open';

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

export class OpenSamples {
  readonly key: CollectionKey;
  /** Evaluation keys, in pieces. */
  readonly pieces: readonly Uint8Array[];
  readonly #evaluator: Evaluator;

  /** From 17 coordinates on, blocks of this set have several masks. */
  constructor(dimension = 20) {
    const plan = openPlan({ dimension, parameters: 'insecure_n_128_logq_30_wide_5_open', allowInsecure: true });
    using seed = MasterSeed.generate();
    this.key = seed.collectionKey(plan, crypto.getRandomValues(new Uint8Array(16)));
    this.pieces = makeEvaluationKeys(this.key);
    this.#evaluator = new Evaluator(evaluationKeys(this.pieces.map((piece) => decodeEvaluation(piece))));
  }

  get plan(): Plan {
    return this.key.plan;
  }

  vector(): Float32Array {
    return Float32Array.from({ length: this.plan.dimension }, () => Math.random() - 0.5);
  }

  block(count = 5): Block {
    const vectors = Float32Array.from({ length: count * this.plan.dimension }, () => Math.random() - 0.5);
    return decodeBlock(encryptBlock(this.key, vectors));
  }

  query(vector: Float32Array = this.vector()): Uint8Array {
    return encryptShortQuery(this.key.plan as OpenPlan, makeDeviceKey(this.key, 0), vector);
  }

  /** The response for blocks in the order in which another one names them. */
  expected(encoded: Uint8Array, blocks: ReadonlyMap<string, Block>, response: Uint8Array): Uint8Array {
    const query = decodeOpenQuery(encoded);
    const rows = this.#evaluator.expand(query);
    const results = peekAnyResponse(response).blocks.map(({ blockId }) => {
      const found = blocks.get(hex(blockId));
      if (!found) throw new HersError('INTEGRITY', 'a response names a block that is not there');
      const { block, maskRows } = blockMatrix(found);
      return scanOpenBlock(block, maskRows, query, rows);
    });
    return encodePackedResponse(this.#evaluator.pack(query, results));
  }

  /** The scores of a response, block by block. */
  scores(encoded: Uint8Array, vector: Float32Array, response: Uint8Array): Float32Array[] {
    using secrets = new ResponseSecrets(this.key);
    return secrets.decrypt(response, decodeOpenQuery(encoded).queryId, vector).map(({ scores }) => scores);
  }
}
