// Open queries from the vector to the score: errors, bytes, and what is refused.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { predictedOpenNoise } from '../../../testing/measure.ts';
import { openCollection, SMALL } from '../../../testing/open.ts';
import { normals, randomVectors } from '../../../testing/samples.ts';
import { expandOpenQuery, packResults, scanOpenBlock } from '../../../testing/slow-open.ts';
import { decodeBlock, encodeBlock, maskRows } from '../../block.ts';
import { HersError } from '../../errors.ts';
import { decodeEvaluation, evaluationKeys } from '../../open/evaluation.ts';
import { encodePackedResponse } from '../../open/pack.ts';
import { openPlan } from '../../open/plan.ts';
import { encodeOpenQuery } from '../../open/query.ts';
import { plan as plainPlan } from '../../plan.ts';
import { plainScores } from '../../vectors.ts';
import { canaryChecker, withCanaries } from '../canaries.ts';
import { encryptBlock } from '../encrypt.ts';
import { MasterSeed } from '../key.ts';
import { ResponseSecrets } from './decrypt.ts';
import { encryptPublicQuery, encryptShortQuery, makeDeviceKey } from './encrypt.ts';
import { makeEvaluationKeys, makePublicKey } from './evaluation.ts';
import { deviceSeed } from './secrets.ts';

const refused = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;

/** Root mean square and largest of the errors of scores. */
function errorsOf(scores: readonly Float32Array[], truth: Float64Array): { rms: number; largest: number } {
  let [squares, count, largest] = [0, 0, 0];
  for (const list of scores)
    list.forEach((score, j) => {
      const error = Math.abs(score - truth[j]);
      squares += error ** 2;
      largest = Math.max(largest, error);
      count++;
    });
  return { rms: Math.sqrt(squares / count), largest };
}

describe('scores of open queries', () => {
  for (const dimension of [32, 128, 512]) {
    it(`d = ${dimension}: errors as planned, in both forms, and messages as small as promised`, () => {
      const c = openCollection({ dimension });
      const { plan } = c;
      const { n } = plan.parameters;
      const gallery = randomVectors(`open gallery ${dimension}`, n, dimension);
      const blocks = [0, 1].map(() => c.block(gallery));
      for (const form of ['short', 'public'] as const) {
        const probe = randomVectors(`open probe ${form}`, 1, dimension);
        const query = c[form](probe);
        const truth = plainScores(plan, gallery, probe);
        const { rms, largest } = errorsOf(c.scores(query, blocks, probe), truth);
        const predicted = predictedOpenNoise(plan, gallery, probe);
        assert.ok(rms <= 0.0012, `${form}: ${rms} rms`);
        assert.ok(Math.abs(rms / predicted - 1) < 0.1, `${form}: ${rms} rms, predicted ${predicted}`);
        assert.ok(largest < 6.5 * predicted, `${form}: largest ${largest}`);
        const bytes = encodeOpenQuery(query).length;
        assert.equal(bytes, form === 'short' ? plan.bytes.query : plan.bytes.publicQuery);
        if (dimension === 128) assert.ok(bytes <= (form === 'short' ? 1000 : 30_000), `${form}: ${bytes} bytes`);
      }
      const eight = Array.from({ length: 8 }, () => blocks[0]);
      const response = c.answer(c.short(new Float32Array(dimension).fill(1)), eight);
      assert.ok(response.length / (8 * n) <= 1.9, `${response.length / (8 * n)} bytes a score`);
      assert.equal(response.length / 8, plan.bytes.response);
    });
  }
  it('dot and euclidean scores, several masks, half-empty blocks', () => {
    for (const metric of ['dot', 'euclidean', 'cosine'] as const)
      for (const dimension of [3, 30, 127]) {
        const c = openCollection({ ...SMALL, dimension, metric, ...(metric === 'cosine' ? {} : { normBound: 3 }) });
        const gallery = randomVectors(`gallery ${metric}`, 50, dimension, 2.5);
        const probe = randomVectors(`probe ${metric}`, 1, dimension, 1.5);
        const scores = c.scores(c.public(probe), [c.block(gallery)], probe);
        assert.equal(scores[0].length, 50);
        const { largest } = errorsOf(scores, plainScores(c.plan, gallery, probe));
        const { noise } = c.plan;
        const unit = noise.score / noise.bound;
        assert.ok(largest < 6 * unit * noise.total + unit * noise.worstRounding, `${metric} ${dimension}: ${largest}`);
      }
  });
  it('are the same by the slow way', () => {
    const c = openCollection({ ...SMALL, dimension: 20 });
    const gallery = randomVectors('slow', 100, 20);
    const block = decodeBlock(encodeBlock(c.block(gallery)));
    const probe = randomVectors('slow probe', 1, 20);
    const query = c.short(probe);
    const result = scanOpenBlock(block, maskRows(block), query, expandOpenQuery(c.keys, query));
    assert.deepEqual(encodePackedResponse(packResults(c.keys, query, [result])), c.answer(query, [block]));
  });
});

describe('galleries with structure', () => {
  const dimension = 32;
  const c = openCollection({ dimension });
  const { n } = c.plan.parameters;
  const normal = normals('structure');
  const direction = randomVectors('direction', 1, dimension);
  const kinds: Record<string, (j: number, row: Float32Array) => void> = {
    identical: (_, row) => row.set(direction),
    alternating: (j, row) => row.set(direction.map((x) => (j % 2 ? -x : x))),
    'one-hot': (j, row) => {
      row[j % dimension] = 1;
    },
    'a common mean': (_, row) => row.set(direction.map((x) => x + 0.1 * normal())),
    'a slow wave': (j, row) => row.set(direction.map((x) => x * Math.sign(Math.cos((Math.PI * (j + 0.5)) / n)))),
  };
  for (const [name, fill] of Object.entries(kinds))
    it(`${name}: within the bound that holds for every gallery`, () => {
      const gallery = new Float32Array(n * dimension);
      for (let j = 0; j < n; j++) fill(j, gallery.subarray(j * dimension, (j + 1) * dimension));
      const block = c.block(gallery);
      let squares = 0;
      for (let k = 0; k < 6; k++) {
        const probe = randomVectors(`${name} ${k}`, 1, dimension);
        const { rms } = errorsOf(c.scores(c.short(probe), [block], probe), plainScores(c.plan, gallery, probe));
        squares += rms ** 2 / 6;
      }
      assert.ok(Math.sqrt(squares) < c.plan.noise.bound, `${Math.sqrt(squares)} rms, bound ${c.plan.noise.bound}`);
    });
  it('canaries agree with what the key holder expects, and not with a response for another block', () => {
    const records = randomVectors('records', 1000, dimension);
    const [one, two] = [0, 1].map(() => {
      const blockId = c.entropy.id();
      const bytes = encryptBlock(c.key, withCanaries(c.key, records, blockId), { blockId });
      return { bytes, place: { id: Buffer.from(blockId).toString('hex'), slots: 1000 + c.plan.canaries } };
    });
    const probe = randomVectors('canary probe', 1, dimension);
    const query = c.short(probe);
    using secrets = new ResponseSecrets(c.key);
    const blocks = [one, two].map(({ bytes }) => decodeBlock(bytes));
    const check = canaryChecker(c.key, probe);
    const fresh = () => secrets.decrypt(c.answer(query, blocks), query.queryId, probe);
    const scores = check(one.place, fresh()[0]);
    assert.equal(scores?.length, 1000);
    const { largest } = errorsOf([scores!], plainScores(c.plan, records, probe));
    assert.ok(largest < 0.01);
    assert.equal(check(one.place, fresh()[1]), undefined);
    assert.equal(check(two.place, fresh()[0]), undefined);
  });
});

describe('what belongs together', () => {
  const c = openCollection({ ...SMALL, dimension: 8 });
  const probe = randomVectors('probe', 1, 8);
  const gallery = randomVectors('gallery', 20, 8);
  const block = c.block(gallery);

  it('queries and responses of other keys, generations, devices and widths are refused', () => {
    const query = c.short(probe);
    const response = c.answer(query, [block]);
    const expand = (other: object) => () => c.evaluator.expand({ ...query, ...other });
    assert.throws(expand({ keyId: c.entropy.id() }), refused('KEY_MISMATCH'));
    assert.throws(expand({ generation: 1 }), refused('QUERY_MISMATCH'));
    assert.throws(expand({ width: 9 }), refused('QUERY_MISMATCH'));
    assert.throws(expand({ device: 1 }), refused('KEY_MISMATCH'));
    using other = new ResponseSecrets(c.key, 1);
    assert.throws(() => other.decrypt(response, query.queryId, probe), refused('QUERY_MISMATCH'));
    using own = new ResponseSecrets(c.key);
    assert.throws(() => own.decrypt(response, c.entropy.id(), probe), refused('QUERY_MISMATCH'));
    using another = new ResponseSecrets(openCollection({ ...SMALL, dimension: 8 }, 'another').key);
    assert.throws(() => another.decrypt(response, query.queryId, probe), refused('KEY_MISMATCH'));
    assert.throws(
      () => scanOpenBlock({ ...block, keyId: c.entropy.id() }, maskRows(block), query, c.evaluator.expand(query)),
      refused('KEY_MISMATCH'),
    );
  });
  it('a query under the secret of another device decrypts to nothing', () => {
    const truth = plainScores(c.plan, gallery, probe);
    for (let i = 0; i < 8; i++) {
      const query = { ...c.short(probe, 7), device: 0 };
      let scores: readonly Float32Array[] = [];
      try {
        scores = c.scores(query, [block], probe);
      } catch (error) {
        assert.ok(refused('INTEGRITY')(error));
        continue;
      }
      assert.ok(errorsOf(scores, truth).largest > 0.2, 'scores of noise');
    }
  });
  it('evaluation keys of which a piece is missing or of another key are refused', () => {
    const pieces = c.pieces.map((piece) => decodeEvaluation(piece));
    for (const left of pieces.filter(({ part }) => part !== 'device'))
      assert.throws(() => evaluationKeys(pieces.filter((piece) => piece !== left)), refused('KEY_MISMATCH'));
    assert.throws(() => evaluationKeys([]), refused('KEY_MISMATCH'));
    const other = decodeEvaluation(makeEvaluationKeys(c.key, { generation: 1 })[0]);
    assert.throws(() => evaluationKeys([...pieces.slice(1), other]), refused('KEY_MISMATCH'));
    assert.throws(() => c.evaluator.expand(c.short(probe, 3)), refused('KEY_MISMATCH'));
  });
  it('responses of no block and of too many are refused', () => {
    const query = c.short(probe);
    assert.throws(() => c.answer(query, []), refused('INVALID_ARGUMENT'));
    assert.throws(
      () =>
        c.answer(
          query,
          Array.from({ length: 9 }, () => block),
        ),
      refused('INVALID_ARGUMENT'),
    );
  });
  it('keys of other plans have no open queries', () => {
    const key = MasterSeed.generate().collectionKey(plainPlan({ dimension: 8 }), c.entropy.id());
    assert.throws(() => makeEvaluationKeys(key), refused('UNSUPPORTED_PLAN'));
    assert.throws(() => makePublicKey(key), refused('UNSUPPORTED_PLAN'));
    assert.throws(() => makeDeviceKey(key, 1), refused('UNSUPPORTED_PLAN'));
  });
  it('plans that cannot be are refused', () => {
    assert.throws(() => openPlan({ dimension: 128, parameters: SMALL.parameters }), refused('INSECURE_PARAMETERS'));
    assert.throws(() => openPlan({ dimension: 4097 }), refused('UNSUPPORTED_PLAN'));
    assert.throws(() => openPlan({ dimension: 4096, metric: 'euclidean' }), refused('UNSUPPORTED_PLAN'));
    assert.throws(() => openPlan({ dimension: 8, normBound: 2 }), refused('UNSUPPORTED_PLAN'));
    assert.throws(() => openPlan({ dimension: 8, parameters: 'n_2048_logq_30_wide_5' }), refused('UNSUPPORTED_PLAN'));
    assert.equal(openPlan({ dimension: 4096 }).levels.masks, 32);
    assert.ok(openPlan({ dimension: 128 }).security.secure);
  });
});

describe('rules', () => {
  const c = openCollection({ ...SMALL, dimension: 8 });
  const probe = randomVectors('probe', 1, 8);
  /** How many bytes of two messages are equal: the frame, and one byte in 256. */
  const isFresh = (a: Uint8Array, b: Uint8Array) =>
    a.length === b.length && a.reduce((sum, x, i) => sum + Number(x === b[i]), 0) < 80 + a.length / 20;

  it('every message is fresh: seeds, masks, errors', () => {
    const [one, two] = [0, 1].map(() => makeEvaluationKeys(c.key));
    one.forEach((piece, i) => {
      assert.ok(isFresh(piece, two[i]));
    });
    assert.ok(isFresh(makePublicKey(c.key), makePublicKey(c.key)));
    const device = makeDeviceKey(c.key, 7);
    assert.ok(isFresh(encryptShortQuery(c.plan, device, probe), encryptShortQuery(c.plan, device, probe)));
    const ask = () => encryptPublicQuery(c.plan, c.publicKey, probe);
    assert.ok(isFresh(ask(), ask()));
    const block = () => encryptBlock(c.key, probe);
    assert.ok(isFresh(block(), block()));
  });
  it('devices and generations have secrets of their own', () => {
    const seeds = [0, 1, 7].flatMap((number) => [0, 1].map((generation) => deviceSeed(c.key, generation, number)));
    assert.equal(new Set(seeds.map((seed) => Buffer.from(seed).toString('hex'))).size, seeds.length);
    for (const number of [-1, 0.5, 2 ** 32, Number.NaN]) {
      assert.throws(() => makeDeviceKey(c.key, number), refused('INVALID_ARGUMENT'));
      assert.throws(() => makeDeviceKey(c.key, 1, number), refused('INVALID_ARGUMENT'));
    }
  });
  it('secrets do not print, and are gone when wiped', () => {
    const secrets = new ResponseSecrets(c.key);
    assert.equal(JSON.stringify({ secrets }), '{"secrets":"[ResponseSecrets]"}');
    const query = c.short(probe);
    const response = c.answer(query, [c.block(probe)]);
    secrets.decrypt(response, query.queryId, probe);
    secrets.wipe();
    assert.throws(() => secrets.decrypt(response, query.queryId, probe), refused('WIPED'));
    const key = MasterSeed.generate().collectionKey(c.plan, c.entropy.id());
    key.wipe();
    assert.throws(() => makeEvaluationKeys(key), refused('WIPED'));
    assert.throws(() => makeDeviceKey(key, 1), refused('WIPED'));
  });
});
