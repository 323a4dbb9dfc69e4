import assert from 'node:assert/strict';
import { test } from 'node:test';
import { synthetic } from '../../testing/identities.ts';
import { type FitOptions, fit } from '../fit.ts';
import type { MethodName } from '../methods/index.ts';
import type { Progress } from '../methods/method.ts';
import { rankOne } from './rank-one.ts';

const { vectors, labels } = synthetic({ classes: 40, each: 5, dimension: 16 });
const short = { epochs: 6, stepsPerEpoch: 3, pool: 120, hard: [5, 20] as [number, number], random: 20 };

function fitted(settings: object = {}, options: object = {}, method: MethodName = 'deepmds++') {
  return fit(method, vectors, labels, { dimension: 4, settings: { ...short, ...settings }, ...options } as FitOptions);
}

test('the same seed gives the same bytes, on one core or two; another seed gives others', async () => {
  const [first, again, other] = await Promise.all([
    fitted({}, { threads: 1 }),
    fitted({}, { threads: 2 }),
    fitted({}, { seed: 2 }),
  ]);
  assert.deepEqual(first.save(), again.save());
  assert.notDeepEqual(first.save(), other.save());
});

test('training that was interrupted and taken up again ends with the bytes of training that was not', async () => {
  const whole = await fitted();
  const controller = new AbortController();
  let checkpoint: Uint8Array | undefined;
  let seen = 0;
  const interrupted = fitted(
    { epochs: 60 },
    {
      signal: controller.signal,
      onProgress: () => ++seen === 1 && controller.abort(),
      onCheckpoint: (bytes: Uint8Array) => (checkpoint = bytes),
    },
  );
  await assert.rejects(interrupted, { code: 'ABORTED' });
  assert.ok(checkpoint);
  const resumed = await fitted({ epochs: 60 }, { resume: checkpoint });
  assert.deepEqual(resumed.save(), (await fitted({ epochs: 60 })).save());
  await assert.rejects(fitted({ epochs: 61 }, { resume: checkpoint }), {
    code: 'INVALID_ARGUMENT',
    message: /settings have changed/,
  });
  await assert.rejects(fitted({ epochs: 60 }, { resume: checkpoint, seed: 5 }), { code: 'INVALID_ARGUMENT' });
  await assert.rejects(fitted({ epochs: 60 }, { resume: checkpoint.subarray(0, 300) }), { code: 'MALFORMED' });
  const cut = Buffer.from(checkpoint);
  cut.write('X', cut.indexOf('stage0.0.relu.weight')); // a weight that is not where it should be
  await assert.rejects(fitted({ epochs: 60 }, { resume: new Uint8Array(cut) }), { code: 'MALFORMED' });
  await assert.rejects(fitted({}, { resume: whole.save() }), {
    code: 'INVALID_ARGUMENT',
    message: /not written by fit/,
  });
});

test('training says how far it is, holds identities out, keeps the best weights, and leaves the process alone', async () => {
  const words: Progress[] = [];
  let ticks = 0;
  const clock = setInterval(() => ticks++, 5);
  const compressor = await fitted({ epochs: 100 }, { onProgress: (progress: Progress) => words.push(progress) });
  clearInterval(clock);
  assert.ok(ticks > 5, `${ticks} ticks`);
  const last = words.at(-1)!;
  assert.equal(last.done, 1);
  assert.deepEqual([last.epoch, last.epochs, last.secondsLeft], [100, 100, 0]);
  assert.ok(last.loss! > 0 && last.loss! < 1);
  const { figures, settings } = compressor.metadata;
  assert.equal(last.validation, figures.validationRank1);
  assert.equal(figures.vectors, 150); // a quarter of the 40 identities is held out
  assert.equal(figures.steps, 300);
  assert.deepEqual(settings.chain, [16, 8, 4]);
  // Random weights are far below what it learns.
  const untrained = await fitted({ learningRate: 0, epochs: 1 });
  const [after, before] = await Promise.all(
    [compressor, untrained].map(async (each) => rankOne(await each.transform(vectors), labels)),
  );
  assert.ok(after > before, `${after} against ${before}`);
});

test('training ends early when the held-out identities no longer gain', async () => {
  const { metadata } = await fitted({ epochs: 500, stepsPerEpoch: 1, learningRate: 0, patience: 40 });
  assert.equal(metadata.figures.bestEpoch, 20);
  assert.equal(metadata.figures.epochs, 60);
});

test('without validation all vectors are learned from, and the last weights are the result', async () => {
  const { metadata } = await fitted({}, { validation: 0 });
  assert.equal(metadata.figures.vectors, 200);
  assert.equal(metadata.figures.validationRank1, undefined);
});

test('each ingredient can be switched, and each switch changes what is learned', async () => {
  const switches: [MethodName, object][] = [
    ['deepmds++', {}],
    ['deepmds++', { pairs: 'balanced' }],
    ['deepmds++', { pairs: 'natural' }],
    ['deepmds++', { covarianceWeight: 0 }],
    ['deepmds++', { error: 'absolute' }],
    ['deepmds++', { residual: true }],
    ['deepmds++', { normaliseStages: true }],
    ['deepmds++', { layers: 2 }],
    ['deepmds++', { chain: [16, 4] }],
    ['deepmds++', { candidates: 'all' }],
    ['deepmds++', { growth: 'steps' }],
    ['deepmds++', { schedule: 'steps' }],
    ['deepmds++', { weightDecay: 0.1 }],
    ['deepmds++authors', {}],
  ];
  const models: string[] = [];
  for (const [method, settings] of switches) {
    const { metadata, ...compressor } = await fitted(
      { epochs: 4, stepsPerEpoch: 2, ...settings },
      { validation: 0 },
      method,
    );
    assert.ok(metadata.figures.loss > 0);
    models.push(Buffer.from((await compressor.transform(vectors)).buffer).toString('base64'));
  }
  assert.equal(new Set(models).size, switches.length);
  // DeepMDS is DeepMDS++ without mining and without the penalty.
  const [plain, stripped] = [await fitted({}, {}, 'deepmds'), await fitted({ pairs: 'balanced', covarianceWeight: 0 })];
  assert.deepEqual(await plain.transform(vectors), await stripped.transform(vectors));
});

test('settings that make no sense are refused, and a loss that leaves the numbers is an error', async () => {
  const refused = (settings: object) => assert.rejects(fitted(settings), { code: 'INVALID_ARGUMENT' });
  await refused({ chain: [16, 8, 5] });
  await refused({ chain: 'long' });
  await refused({ hard: [5] });
  await refused({ hard: [0, 0], random: 0 });
  await refused({ pairs: 'some' });
  await refused({ epochs: 0 });
  await refused({ learningRate: Number.NaN });
  await refused({ mining: true });
  await assert.rejects(fitted({ learningRate: 1e38 }), { code: 'DIVERGED', message: /smaller learning rate/ });
});
