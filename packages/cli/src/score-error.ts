// Measures how far scores are from those of the vectors as they are, on a sample.

import {
  type BlockMatrix,
  blockMatrix,
  decodeBlock,
  decodeQuery,
  encodeResponse,
  expandedQuery,
  noiselessScores,
  type Plan,
  plainScores,
  scanBlock,
} from '@hers/scheme';
import {
  decodeEvaluation,
  decodeOpenQuery,
  Evaluator,
  encodePackedResponse,
  evaluationKeys,
  type OpenPlan,
  resultOf,
  scannedQuery,
} from '@hers/scheme/open';
import { type CollectionKey, encryptBlock, encryptQuery, MasterSeed } from '@hers/scheme/secret';
import { encryptShortQuery, makeDeviceKey, makeEvaluationKeys, ResponseSecrets } from '@hers/scheme/secret/open';

export interface ScoreError {
  /** Root mean square, by rounding alone and in all. */
  readonly rounding: number;
  readonly total: number;
  /** The mean of all errors: far from zero where coordinates are smaller than a rounding step. */
  readonly bias: number;
  /** Scores that were compared. */
  readonly scores: number;
}

const TEMPLATES = 200;
const PROBES = 8;

/** Encrypts one block, searches it, and compares; the key is thrown away. */
export function scoreError(plan: Plan, rows: readonly Float32Array[]): ScoreError {
  const step = Math.max(1, Math.floor(rows.length / TEMPLATES));
  const templates = rows.filter((_, i) => i % step === 0).slice(0, TEMPLATES);
  const gallery = flat(templates);
  const key = newKey(plan);
  const matrix = blockMatrix(decodeBlock(encryptBlock(key, gallery)));
  const unrounded = { ...plan, profile: 'compact' as const };
  const scoresOf =
    plan.profile === 'open' ? openScores(key, matrix) : (probe: Float32Array) => searched(key, matrix, probe);
  let [rounding, total, sum, n] = [0, 0, 0, 0];
  for (const probe of templates.slice(0, PROBES)) {
    const truth = plainScores(unrounded, gallery, probe);
    const rounded =
      plan.profile === 'exact' ? plainScores(plan, gallery, probe) : noiselessScores(plan, gallery, probe);
    const scores = scoresOf(probe);
    truth.forEach((score, j) => {
      rounding += (rounded[j]! - score) ** 2;
      total += (scores[j]! - score) ** 2;
      sum += scores[j]! - score;
      n++;
    });
  }
  key.wipe();
  return { rounding: Math.sqrt(rounding / n), total: Math.sqrt(total / n), bias: sum / n, scores: n };
}

/** A key that is used for nothing else. */
export function newKey(plan: Plan): CollectionKey {
  using master = MasterSeed.generate();
  return master.collectionKey(plan, crypto.getRandomValues(new Uint8Array(16)));
}

/** Rows, one after the other. */
export function flat(rows: readonly Float32Array[]): Float32Array {
  const width = rows[0]!.length;
  const out = new Float32Array(rows.length * width);
  rows.forEach((row, i) => out.set(row, i * width));
  return out;
}

/** Scores of a probe, encrypted and decrypted under this key. */
export function searched(key: CollectionKey, matrix: BlockMatrix, probe: Float32Array): Float32Array {
  const { query, secret } = encryptQuery(key, probe);
  using _ = secret;
  return secret.decrypt(encodeResponse(scanBlock(matrix, expandedQuery(decodeQuery(query))))).scores;
}

/** As a store does it, with evaluation keys that are thrown away. */
function openScores(key: CollectionKey, matrix: BlockMatrix): (probe: Float32Array) => Float32Array {
  const evaluator = new Evaluator(evaluationKeys(makeEvaluationKeys(key).map((piece) => decodeEvaluation(piece))));
  return (probe) => {
    const query = decodeOpenQuery(encryptShortQuery(key.plan as OpenPlan, makeDeviceKey(key, 0), probe));
    const scanned = expandedQuery(scannedQuery(query, evaluator.expand(query)));
    const result = resultOf(encodeResponse(scanBlock(matrix, scanned)));
    using secrets = new ResponseSecrets(key);
    const packed = encodePackedResponse(evaluator.pack(query, [result]));
    return secrets.of(query.queryId, probe).decrypt(packed).scores;
  };
}
