// `npm run bench -- open`: what a server does for an open query beside the scan, that is, expansion
// on one thread and on two, and packing beside what the responses of other queries take; how many
// bytes travel; how far scores are off; and whole searches over HTTP beside those of `compact`
// (open-service.ts).

import { compared, progress, type Report, type Result } from '@hers/paper/lab/report';
import { minimum } from '@hers/paper/lab/timing';
import { blockMatrix, decodeBlock, HersError, ringCode, ringOf } from '@hers/scheme';
import {
  decodeEvaluation,
  decodeOpenQuery,
  Evaluator,
  encodePackedResponse,
  evaluationKeys,
  openPlan,
} from '@hers/scheme/open';
import { encryptBlock, MasterSeed } from '@hers/scheme/secret';
import { encryptShortQuery, makeDeviceKey, makeEvaluationKeys, ResponseSecrets } from '@hers/scheme/secret/open';
import { predictedOpenNoise } from '@hers/scheme/testing/measure';
import { scanOpenBlock } from '@hers/scheme/testing/slow-open';
import { machine } from '@hers/vectors/machine';
import { identities } from '@hers/vectors/synthetic';
import { searched } from './open-service.ts';

/** Blocks whose results share a response. */
const BLOCKS = 8;

export interface OpenBenchOptions {
  readonly count?: string;
  readonly dimension?: string;
  readonly searches?: string;
  readonly folder?: string;
  readonly quick?: boolean;
}

export async function run(options: OpenBenchOptions): Promise<Report> {
  const { quick = false, folder } = options;
  const numbers = [options.count ?? '1000000', options.dimension ?? '128', options.searches ?? '40'];
  const [count, dimension, searches] = numbers.map(Number);
  if (!(Number.isInteger(count) && count > 0 && Number.isInteger(searches) && searches > 0))
    throw new HersError('INVALID_ARGUMENT', '--count and --searches take whole numbers from 1 on');
  if (!(Number.isInteger(dimension) && dimension > 1))
    throw new HersError('INVALID_ARGUMENT', '--dimension takes a whole number from 2 on');
  const effort = quick
    ? { atLeastMs: 0, atLeastRuns: 1, warmups: 0 }
    : { atLeastMs: 3000, atLeastRuns: 40, warmups: 5 };
  const plan = openPlan({ dimension });
  const { n } = plan.parameters;
  using seed = MasterSeed.generate();
  const key = seed.collectionKey(plan, crypto.getRandomValues(new Uint8Array(16)));
  progress('evaluation keys');
  const pieces = makeEvaluationKeys(key);
  const evaluator = new Evaluator(evaluationKeys(pieces.map((piece) => decodeEvaluation(piece))));
  progress(`${BLOCKS} blocks`);
  const { vectors } = identities(n, 1, dimension).gallery();
  const { block, maskRows } = blockMatrix(decodeBlock(encryptBlock(key, vectors)));

  const probe = vectors.slice(0, dimension);
  const short = encryptShortQuery(plan, makeDeviceKey(key, 0), probe);
  const query = decodeOpenQuery(short);
  progress('expansion');
  const [one, two] = [1, 2].map((threads) => minimum(() => evaluator.expand(query, threads), effort).min);
  const rows = evaluator.expand(query);
  const results = Array.from({ length: BLOCKS }, () => scanOpenBlock(block, maskRows, query, rows));
  progress('packing');
  const packed = minimum(() => evaluator.pack(query, results), effort).min / BLOCKS;
  // What every response takes that is not packed: both halves out of NTT form, switched, in bits.
  const ring = ringOf(plan.parameters);
  const [body, mask] = ring.polys;
  const { c0, c1 } = plan.responseBits;
  const [out0, out1] = [c0, c1].map((bits) => new Uint8Array(ring.packedBytes(bits)));
  const plain =
    minimum(() => {
      for (const result of results) {
        body.residues.set(result.body);
        mask.residues.set(result.mask);
        ring.intt(body);
        ring.intt(mask);
        ring.switchAndPack(out0, body, c0);
        ring.switchAndPack(out1, mask, c1);
      }
    }, effort).min / BLOCKS;

  const response = encodePackedResponse(evaluator.pack(query, results));
  using secrets = new ResponseSecrets(key);
  const [{ scores }] = secrets.decrypt(response, query.queryId, probe);
  let squares = 0;
  for (let j = 0; j < n; j++) {
    let [product, own, other] = [0, 0, 0];
    for (let i = 0; i < dimension; i++) {
      const x = vectors[j * dimension + i]!;
      product += x * probe[i]!;
      own += x * x;
      other += probe[i]! ** 2;
    }
    squares += (scores[j]! - product / Math.sqrt(own * other)) ** 2;
  }
  const error: Result = { name: 'score-error', value: Math.sqrt(squares / n), unit: 'rms' };
  const predicted: Result = { name: 'predicted-error', value: predictedOpenNoise(plan, vectors, probe), unit: 'rms' };
  const post: Result = { name: 'plain-us', value: 1000 * plain, unit: 'µs/block' };
  const slowSearches = Math.min(searches, quick ? 2 : 11);
  const whole = await searched({ count, dimension, searches, slowSearches, folder });
  return {
    bench: 'open',
    parameters: { count, dimension, searches, code: ringCode(), blocks: BLOCKS, quick },
    machine: machine(),
    results: [
      { name: 'response-bytes', value: response.length / (BLOCKS * n), unit: 'bytes/score' },
      { name: 'evaluation-bytes', value: pieces.reduce((sum, { length }) => sum + length, 0), unit: 'bytes' },
      { name: 'evaluation-memory', value: evaluator.bytes, unit: 'bytes' },
      predicted,
      compared(error, predicted),
      { name: 'expand-1-ms', value: one, unit: 'ms' },
      { name: 'expand-2-ms', value: two, unit: 'ms' },
      post,
      compared({ name: 'pack-us', value: 1000 * packed, unit: 'µs/block' }, post),
      ...whole,
    ],
  };
}
