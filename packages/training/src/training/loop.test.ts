import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load, type Metadata } from '@hers/compress';
import { synthetic } from '../../testing/identities.ts';
import { type FitOptions, fit, type MethodName } from '../fit.ts';
import { encodeCompressor, linearBody } from '../methods/compressor-graph.ts';
import type { Progress } from '../methods/method.ts';
import { rankOne } from './validation.ts';

const { vectors, labels } = synthetic({ classes: 40, each: 5, dimension: 16 });
const short = { steps: 18, pool: 120, hard: [5, 20] as [number, number], random: 20 };

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
    { steps: 90 },
    {
      signal: controller.signal,
      onProgress: () => ++seen === 1 && controller.abort(),
      onCheckpoint: (bytes: Uint8Array) => (checkpoint = bytes),
    },
  );
  await assert.rejects(interrupted, { code: 'ABORTED' });
  assert.ok(checkpoint);
  const resumed = await fitted({ steps: 90 }, { resume: checkpoint });
  assert.deepEqual(resumed.save(), (await fitted({ steps: 90 })).save());
  await assert.rejects(fitted({ steps: 91 }, { resume: checkpoint }), {
    code: 'INVALID_ARGUMENT',
    message: /settings have changed/,
  });
  await assert.rejects(fitted({ steps: 90 }, { resume: checkpoint, seed: 5 }), { code: 'INVALID_ARGUMENT' });
  await assert.rejects(fitted({ steps: 90 }, { resume: checkpoint.subarray(0, 300) }), { code: 'MALFORMED' });
  const cut = Buffer.from(checkpoint);
  cut.write('X', cut.indexOf('second')); // moments that are not where they should be
  await assert.rejects(fitted({ steps: 90 }, { resume: new Uint8Array(cut) }), { code: 'MALFORMED' });
  await assert.rejects(fitted({}, { resume: whole.save() }), {
    code: 'INVALID_ARGUMENT',
    message: /not written by fit/,
  });
});

test('training ends when the function that it tells of its progress throws, with what that threw', async () => {
  let told = 0;
  const listening = fitted(
    { steps: 100_000 },
    {
      onProgress() {
        told++;
        throw new RangeError('the disk of the log is full');
      },
    },
  );
  await assert.rejects(listening, (error) => error instanceof RangeError && /the disk of the log/.test(error.message));
  const then = told;
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(told, then, 'it is told nothing more');
});

test('training says how far it is, ends where held-out identities were best, and leaves the process alone', async () => {
  const words: Progress[] = [];
  let ticks = 0;
  const clock = setInterval(() => ticks++, 5);
  const onProgress = (progress: Progress) => words.push(progress);
  const compressor = await fitted({ steps: 300, learningRate: 3e-3 }, { onProgress });
  clearInterval(clock);
  assert.ok(ticks > 5, `${ticks} ticks`);
  const last = words.at(-1)!;
  assert.equal(last.done, 1);
  assert.deepEqual([last.step, last.secondsLeft], [last.steps, 0]);
  assert.ok(last.loss! > 0 && last.loss! < 1);
  const { figures, settings } = compressor.metadata;
  assert.equal(figures.steps, figures.bestStep);
  assert.deepEqual(settings.chain, [16, 8, 4]);
  // Random weights are far below what it learns.
  const untrained = await fitted({ learningRate: 0, steps: 1 });
  const [after, before] = await Promise.all(
    [compressor, untrained].map(async (each) => rankOne(await each.transform(vectors), labels)),
  );
  assert.ok(after > before, `${after} against ${before}`);
});

test('training ends early when the held-out identities no longer gain', async () => {
  const { metadata } = await fitted({ steps: 500, learningRate: 0, patience: 40, refit: false });
  assert.equal(metadata.figures.bestStep, 20);
  assert.equal(metadata.figures.steps, 60);
});

test('a stage ends where it is told to, on the way that was planned for all steps', async () => {
  const [whole, ended] = await Promise.all([fitted({}, { validation: 0 }), fitted({ end: 7 }, { validation: 0 })]);
  const [all, some] = [whole, ended].map(({ metadata }) => metadata.curves![0].points);
  assert.deepEqual(some, all.slice(0, 7));
  assert.equal(ended.metadata.figures.steps, 7);
  assert.ok(ended.metadata.curves!.every(({ points }) => points.at(-1)!.step === 7));
});

test('without validation all vectors are learned from, and the last weights are the result', async () => {
  const { metadata } = await fitted({}, { validation: 0 });
  assert.equal(metadata.figures.vectors, 200);
  assert.equal(metadata.figures.validationRank1, undefined);
});

test('a network is chosen on part of the identities, then trained on all of them, as far as was chosen', async () => {
  const { metadata } = await fitted({ steps: 100 });
  const { figures, curves } = metadata;
  assert.equal(figures.vectors, 200);
  assert.deepEqual(
    curves!.map(({ chain, vectors: learned }) => [chain.length, learned]),
    [
      [2, 150], // a quarter of the 40 identities is held out
      [3, 150],
      [2, 200],
      [3, 200],
    ],
  );
  // To choose, all steps are taken, and looked at; after that only those that were chosen.
  for (const stage of [0, 1]) {
    const ranks = curves![stage].points.map(({ rank1 }) => rank1!);
    const best = curves![stage].points[ranks.indexOf(Math.max(...ranks))].step;
    assert.equal(curves![stage].points.length, 25);
    assert.equal(curves![stage + 2].points.at(-1)!.step, best);
    assert.ok(curves![stage + 2].points.every(({ rank1 }) => rank1 === undefined));
    if (stage === 1) assert.deepEqual([figures.steps, figures.bestStep], [best, best]);
  }
  // Nobody's vectors are left out: without those of the held-out people, it is another network.
  const chosen = await fitted({ steps: 100, refit: false });
  assert.equal(chosen.metadata.figures.vectors, 150);
  assert.equal(chosen.metadata.figures.validationRank1, figures.validationRank1);
  assert.equal(chosen.metadata.curves!.length, 2);
});

test('each stage starts from the trained one before it, and is what training to its dimension gives', async () => {
  const files: Uint8Array[] = [];
  const whole = await fitted({}, { onStage: (bytes: Uint8Array) => files.push(bytes) });
  assert.equal(whole.outputDimension, 4);
  assert.equal(files.length, 1);
  const first = await fit('deepmds++', vectors, labels, { dimension: 8, settings: short });
  assert.deepEqual(files[0], first.save());
  // The first loss of the last stage is a drawn network's, unless the stage before has learned.
  const firstLoss = async (settings: object) =>
    (await fitted(settings, { validation: 0 })).metadata.curves!.at(-1)!.points[0].loss;
  const cold = await firstLoss({ warmStart: false });
  assert.equal(await firstLoss({ learningRate: 0 }), cold);
  assert.notEqual(await firstLoss({}), cold);
});

test('the penalty is a part of the loss that stays: the network cannot shrink its outputs to be rid of it', async () => {
  const settings = { steps: 600, schedule: 'constant', learningRate: 3e-3, warmStart: false };
  const shareOf = async (more: object) => {
    const { metadata } = await fitted({ ...settings, ...more }, { validation: 0 });
    const { points } = metadata.curves![0];
    assert.equal(points.at(-1)!.penaltyShare, metadata.figures.penaltyShare);
    return metadata.figures.penaltyShare;
  };
  const share = await shareOf({});
  assert.ok(share > 0.01 && share < 0.9, `${share}`);
  // Ten times the weight is not lost either, and no weight is no penalty.
  assert.ok((await shareOf({ covarianceWeight: 10 })) > share);
  assert.equal(await shareOf({ covarianceWeight: 0 }), undefined);
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
    ['deepmds++', { growth: 'quarters' }],
    ['deepmds++', { schedule: 'constant' }],
    ['deepmds++', { warmStart: false }],
    ['deepmds++', { weightDecay: 0.1 }],
    ['deepmds++authors', {}],
  ];
  const models: string[] = [];
  for (const [method, settings] of switches) {
    const { metadata, ...compressor } = await fitted({ steps: 8, ...settings }, { validation: 0 }, method);
    assert.ok(metadata.figures.loss > 0);
    models.push(Buffer.from((await compressor.transform(vectors)).buffer).toString('base64'));
  }
  assert.equal(new Set(models).size, switches.length);
  // DeepMDS is DeepMDS++ without mining and without the penalty.
  const [plain, stripped] = [await fitted({}, {}, 'deepmds'), await fitted({ pairs: 'balanced', covarianceWeight: 0 })];
  assert.deepEqual(await plain.transform(vectors), await stripped.transform(vectors));
});

test('a network that was saved when training was counted in epochs still loads', async () => {
  const metadata: Metadata = {
    method: 'deepmds++',
    metric: 'cosine',
    notes: [],
    settings: { epochs: 250, stepsPerEpoch: 25, growth: 'steps', schedule: 'constant', pool: 4000, seed: 1 },
    figures: { epochs: 250, bestEpoch: 240, steps: 6250, vectors: 5253 },
  };
  const map = { axes: Float64Array.of(1, 0, 0, 1), centre: new Float64Array(2), inputDimension: 2, outputDimension: 2 };
  const old = await load(encodeCompressor(linearBody(map), metadata));
  assert.deepEqual(old.metadata, metadata);
  assert.deepEqual([...(await old.transform([0, 5]))], [0, 1]);
});

test('settings that make no sense are refused, and a loss that leaves the numbers is an error', async () => {
  const refused = (settings: object) => assert.rejects(fitted(settings), { code: 'INVALID_ARGUMENT' });
  await refused({ chain: [16, 8, 5] });
  await refused({ chain: 'long' });
  await refused({ hard: [5] });
  await refused({ hard: [0, 0], random: 0 });
  await refused({ pairs: 'some' });
  await refused({ steps: 0 });
  await refused({ end: 0 });
  await refused({ steps: 5, end: 6 });
  await refused({ epochs: 5 });
  await refused({ warmStart: 'yes' });
  await refused({ learningRate: Number.NaN });
  await refused({ mining: true });
  await assert.rejects(fitted({ learningRate: 1e38 }), { code: 'DIVERGED', message: /smaller learning rate/ });
});
