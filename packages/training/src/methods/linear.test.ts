import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from '@hers/compress';
import { part } from '../../../../tools/parts.ts';
import { faces, synthetic } from '../../testing/identities.ts';
import { fit } from '../fit.ts';
import { rankOne } from '../training/validation.ts';

const data = part('data');

test(
  'the linear methods reach the known figures on the faces, fitted on the odd half and measured on the even',
  data,
  async () => {
    const { learn, report } = faces(data.path!);
    assert.ok(Math.abs((await rankOne(report.vectors, report.labels)) - 0.9938) < 0.0005);
    const known = { pca: { 64: 0.9902, 32: 0.958, 16: 0.8052 }, lda: { 64: 0.9909, 32: 0.964, 16: 0.8546 } } as const;
    for (const method of ['pca', 'lda'] as const)
      for (const dimension of [64, 32, 16] as const) {
        const compressor = await fit(method, learn.vectors, learn.labels, { dimension });
        const rank = await rankOne(await compressor.transform(report.vectors), report.labels);
        assert.ok(Math.abs(rank - known[method][dimension]) <= 0.003, `${method} at ${dimension}: ${rank}`);
        assert.ok(compressor.metadata.figures.validationRank1 > 0.7);
      }
  },
);

test('PCA finds the plane that holds all the variance, and needs no labels', async () => {
  const { vectors } = synthetic({ dimension: 4 });
  const flat = new Float32Array((vectors.length / 4) * 6);
  for (let i = 0; i < vectors.length / 4; i++) for (let k = 0; k < 4; k++) flat[i * 6 + k] = vectors[i * 4 + k];
  const compressor = await fit('pca', flat, undefined, { dimension: 4, inputDimension: 6 });
  assert.ok(Math.abs(compressor.metadata.figures.varianceKept - 1) < 1e-5);
});

test('LDA is ahead of PCA where the noise within classes lies along the main axes', async () => {
  const { vectors, labels } = synthetic({ classes: 80, dimension: 12, noise: 0.2 });
  // A loud direction that says nothing about the class.
  const random = synthetic({ classes: 80, dimension: 12, noise: 1, seed: 9 }).vectors;
  for (let i = 0; i < labels.length; i++) for (const k of [9, 10, 11]) vectors[i * 12 + k] += 3 * random[i * 12 + k];
  const [pca, lda] = await Promise.all(
    (['pca', 'lda'] as const).map(async (method) => {
      const compressor = await fit(method, vectors, labels, { dimension: 3 });
      return rankOne(await compressor.transform(vectors), labels);
    }),
  );
  assert.ok(lda > pca + 0.2, `${lda} against ${pca}`);
});

test('the same vectors and seed give the same bytes, and a loaded model does what the fitted one did', async () => {
  const { vectors, labels } = synthetic();
  for (const method of ['pca', 'lda'] as const) {
    const first = await fit(method, vectors, labels, { dimension: 4 });
    const again = await fit(method, vectors, labels, { dimension: 4 });
    assert.deepEqual(first.save(), again.save());
    const loaded = await load(first.save());
    assert.equal(loaded.method, method);
    assert.deepEqual(loaded.metadata, first.metadata);
    assert.deepEqual(await loaded.transform(vectors), await first.transform(vectors));
  }
});

// A handful of people whose pictures lie on a line each: every matrix has a rank far below its
// size.

test('the linear methods are tried on little, and on what hardly varies', async () => {
  const [people, pictures, dimension] = [12, 5, 128];
  const vectors = new Float32Array(people * pictures * dimension);
  for (let i = 0; i < people * pictures; i++)
    for (let k = 0; k < dimension; k++) {
      const person = Math.floor(i / pictures);
      const turn = (i % pictures) / 10;
      vectors[i * dimension + k] = Math.sin((person + 1) * (k + 1) * 12.9898) + turn * Math.cos((k + 1) * 78.233);
    }
  const labels = Array.from({ length: people * pictures }, (_, i) => Math.floor(i / pictures));
  const made = await fit('auto', vectors, labels, { dimension: 8, settings: { ranking: null } });
  assert.equal(made.outputDimension, 8);
  assert.equal(made.metadata.figures.validationRank1, 1);
});
