import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '@hers/vectors/random';
import { part } from '../../../../tools/parts.ts';
import { checkGradients } from '../../testing/gradient-check.ts';
import { faces, synthetic } from '../../testing/identities.ts';
import { type FitOptions, fit } from '../fit.ts';
import { parameterShapes } from '../training/trainer.ts';
import { rankOne } from '../training/validation.ts';
import { drawn } from './network.ts';
import { ranking, rankingProblem } from './ranking.ts';

const data = part('data');
const { vectors, labels } = synthetic({ classes: 60, each: 4, dimension: 16, noise: 0.5 });
const short = { steps: 20, hidden: [12], batch: 40 };

test('gradients of the loss that ranks are what differences of it say, for linear maps and with hidden layers', async () => {
  for (const hidden of [[], [7], [9, 6]]) {
    const problem = rankingProblem({ ...ranking.defaults, hidden }, 8, 3, 10);
    const parameters = drawn(parameterShapes(problem), 3);
    const random = new Random(6);
    for (const { data } of Object.values(parameters))
      for (let i = 0; i < data.length; i++) data[i] += 0.1 * random.normal();
    const numbers = () => ({ data: Float32Array.from({ length: 80 }, () => random.normal()), shape: [10, 8] });
    await checkGradients(problem, { probes: numbers(), mates: numbers() }, parameters, 4);
  }
});

test('without a step the map is that of the discriminants, whatever the hidden layers', async () => {
  const options = (settings: object) => ({ dimension: 4, validation: 0, settings }) as FitOptions;
  const lda = await fit('lda', vectors, labels, options({ shrinkage: 0.2, between: 'classes' }));
  const expected = await lda.transform(vectors);
  for (const hidden of [[], [8, 8]]) {
    const untrained = await fit('ranking', vectors, labels, options({ steps: 0, hidden, inputs: 9 }));
    (await untrained.transform(vectors)).forEach((x, i) => assert.ok(Math.abs(x - expected[i]) < 1e-4));
  }
});

test('the same seed gives the same bytes, and training taken up again too', async () => {
  const options = { dimension: 4, settings: { ...short, steps: 200 }, validation: 0 } as const;
  const whole = await fit('ranking', vectors, labels, options);
  const controller = new AbortController();
  let checkpoint: Uint8Array | undefined;
  const interrupted = fit('ranking', vectors, labels, {
    ...options,
    signal: controller.signal,
    onProgress: () => controller.abort(),
    onCheckpoint: (bytes) => {
      checkpoint = bytes;
    },
  });
  await assert.rejects(interrupted, { code: 'ABORTED' });
  const resumed = await fit('ranking', vectors, labels, { ...options, resume: checkpoint! });
  assert.deepEqual(resumed.save(), whole.save());
});

test('classes fewer than the batch, and two vectors in all but one class, are enough', async () => {
  const few = synthetic({ classes: 3, each: 4, dimension: 8 });
  const compressor = await fit('ranking', few.vectors, few.labels, { dimension: 2, settings: short });
  assert.equal(compressor.outputDimension, 2);
});

test('auto takes a map between PCA and LDA by held-out identities, and says what it found', async () => {
  const compressor = await fit('auto', vectors, labels, { dimension: 4, settings: { ranking: null } });
  const { notes, figures, settings } = compressor.metadata;
  assert.match(notes[0], /full dimension \(16\): rank-1 [01]\.\d{4} on held-out identities/);
  assert.match(notes.at(-1)!, new RegExp(`chosen: ${compressor.method} at 4`));
  const rankOf = (kind: string) => Number(notes.find((note) => note.startsWith(`${kind} at 4: `))!.split(/[:,] ?/)[1]);
  assert.equal(compressor.method, 'linear');
  assert.equal(rankOf('linear').toFixed(4), figures.validationRank1.toFixed(4));
  assert.ok(figures.validationRank1 >= Math.max(rankOf('pca'), rankOf('lda')) - 0.02, notes.join('\n'));
  assert.ok((settings.shrinkage as number) > 0 && (settings.shrinkage as number) <= 1);
  assert.ok((settings.classes as number) >= 0 && (settings.classes as number) <= 1);
  assert.ok(figures.validationRank1 <= figures.fullRank1 + 0.05);
  assert.deepEqual(settings.auto, { loss: 0.01, ranking: null, dimension: 4 });
});

test('auto tries learning to rank too, from the shrinkage that served best', async () => {
  const few = synthetic({ classes: 30, each: 3, dimension: 8 });
  const { metadata, method } = await fit('auto', few.vectors, few.labels, {
    dimension: 3,
    settings: { ranking: { steps: 20, batch: 20 } },
  });
  const shown = metadata.notes
    .map((note) => /^(ranking.*|linear) at 3: ([01]\.\d{4})(?:, ahead by (-?[01]\.\d{4}) ± ([01]\.\d{4}))?/.exec(note))
    .filter((found) => found !== null)
    .map(([, kind, rank, ahead, error]) => ({ kind, rank, isAhead: Number(ahead) > Number(error) }));
  assert.deepEqual(
    shown.map(({ kind }) => kind),
    ['linear', 'ranking, linear', 'ranking'],
  );
  // What is learned is taken only where it is ahead by more than its error.
  const chosen = shown.findLast(({ isAhead }) => isAhead) ?? shown[0];
  assert.match(metadata.notes.at(-1)!, new RegExp(`^chosen: ${chosen.kind} at 3, `));
  assert.equal(method, chosen.kind.split(',')[0]);
  assert.equal(metadata.figures.validationRank1.toFixed(4), chosen.rank);
  if (method === 'ranking') assert.notEqual(metadata.settings.shrinkage, undefined);
});

test('auto without a dimension takes fewer the more may be lost, and none that lose more', async () => {
  const easy = synthetic({ classes: 60, each: 4, dimension: 24, noise: 0.25 });
  const at = async (loss: number) => fit('auto', easy.vectors, easy.labels, { settings: { loss, ranking: null } });
  const [careful, careless] = [await at(0.01), await at(0.5)];
  assert.ok(careless.outputDimension < careful.outputDimension && careful.outputDimension < 24);
  assert.ok(careful.metadata.figures.validationRank1 >= careful.metadata.figures.fullRank1 - 0.01);
  await assert.rejects(fit('lda', vectors, labels, {}), { code: 'INVALID_ARGUMENT', message: /dimension/ });
});

test('the default reaches 0.966 on the faces at 32 dimensions with what is computed at once', data, async () => {
  // Learning to rank takes minutes; `npm run lab -- faces` has its figures.
  const { learn, report } = faces(data.path!);
  const compressor = await fit('auto', learn.vectors, learn.labels, { dimension: 32, settings: { ranking: null } });
  const rank = await rankOne(await compressor.transform(report.vectors), report.labels);
  assert.ok(rank >= 0.966, `${rank}`);
});
