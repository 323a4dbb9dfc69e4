// What tests of open queries share: a collection with all its keys, from randomness that repeats,
// and the whole way of a query. Not exported by the package.

import { Expansion } from '@hers/ring';
import { type Block, maskRows } from '../src/block.ts';
import { decodeEvaluation, type EvaluationKeys, evaluationKeys } from '../src/open/evaluation.ts';
import { Evaluator, expansionShape } from '../src/open/fast.ts';
import { encodePackedResponse } from '../src/open/pack.ts';
import { type OpenPlan, openPlan } from '../src/open/plan.ts';
import type { OpenQuery } from '../src/open/query.ts';
import type { PlanRequest } from '../src/plan.ts';
import { encryptBlockFrom } from '../src/secret/encrypt.ts';
import { type CollectionKey, MasterSeed } from '../src/secret/key.ts';
import { ResponseSecrets } from '../src/secret/open/decrypt.ts';
import { encryptPublicQueryFrom, encryptShortQueryFrom, makeDeviceKey } from '../src/secret/open/encrypt.ts';
import { makeEvaluationKeysFrom, makePublicKeyFrom } from '../src/secret/open/evaluation.ts';
import type { Vectors } from '../src/vectors.ts';
import { repeatable } from './samples.ts';
import { scanOpenBlock } from './slow-open.ts';

/** The set that tests can follow. */
export const SMALL = { parameters: 'insecure_n_128_logq_30_wide_5_open', allowInsecure: true } as const;

export interface OpenCollection {
  readonly plan: OpenPlan;
  readonly key: CollectionKey;
  readonly pieces: readonly Uint8Array[];
  readonly keys: EvaluationKeys;
  readonly evaluator: Evaluator;
  readonly publicKey: Uint8Array;
  readonly entropy: ReturnType<typeof repeatable>;
  block(vectors: Vectors): Block;
  short(vector: ArrayLike<number>, device?: number): OpenQuery;
  public(vector: ArrayLike<number>): OpenQuery;
  /** The message that answers for these blocks. */
  answer(query: OpenQuery, blocks: readonly Block[]): Uint8Array;
  scores(query: OpenQuery, blocks: readonly Block[], vector: ArrayLike<number>): readonly Float32Array[];
}

/** Devices 0 and 7 have evaluation keys. */
export function openCollection(request: Omit<PlanRequest, 'profile'>, label = JSON.stringify(request)): OpenCollection {
  const plan = openPlan(request);
  const entropy = repeatable(label);
  const key = MasterSeed.from(entropy.seed()).collectionKey(plan, entropy.id());
  const pieces = makeEvaluationKeysFrom(entropy.seed, key, { devices: [0, 7] });
  const keys = evaluationKeys(pieces.map((piece) => decodeEvaluation(piece)));
  const evaluator = new Evaluator(keys, new Expansion(expansionShape(plan.parameters, plan.width)));
  const publicKey = makePublicKeyFrom(entropy.seed, key);
  const answer = (query: OpenQuery, blocks: readonly Block[]) => {
    const rows = evaluator.expand(query);
    const results = blocks.map((block) => scanOpenBlock(block, maskRows(block), query, rows));
    return encodePackedResponse(evaluator.pack(query, results));
  };
  return {
    plan,
    key,
    pieces,
    keys,
    evaluator,
    publicKey,
    entropy,
    block: (vectors) => encryptBlockFrom(entropy, key, vectors),
    short: (vector, device = 7) => encryptShortQueryFrom(entropy, plan, makeDeviceKey(key, device), vector),
    public: (vector) => encryptPublicQueryFrom(entropy, plan, publicKey, vector),
    answer,
    scores(query, blocks, vector) {
      using secrets = new ResponseSecrets(key);
      return secrets.decrypt(answer(query, blocks), query.queryId, vector).map(({ scores }) => scores);
    },
  };
}
