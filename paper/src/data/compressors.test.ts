import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fit, load, type MethodName } from '@hers/training';
import { meaningless } from '../../testing/datasets.ts';
import { fittedCompressor, fittedSo } from './compressors.ts';

const training = meaningless(
  Int32Array.from({ length: 120 }, (_, i) => i % 24),
  16,
);
const QUICK: Partial<Record<MethodName, object>> = {
  auto: { ranking: null },
  ranking: { steps: 2 },
  deepmds: { steps: 2 },
  'deepmds++': { steps: 2 },
  'deepmds++authors': { steps: 2 },
};

test('a compressor that was just fitted is what fitting would make; with other settings it is not', async () => {
  for (const name of ['pca', 'lda', 'auto', 'ranking', 'deepmds', 'deepmds++', 'deepmds++authors'] as const) {
    const settings = QUICK[name] ?? {};
    const fresh = await fit(name, training.vectors, training.labels, { dimension: 4, seed: 3, settings });
    const again = await load(fresh.save());
    assert.ok(fittedSo(again, name, { dimension: 4, seed: 3, settings }), name);
    assert.ok(!fittedSo(again, name, { dimension: 5, seed: 3, settings }), name);
    assert.ok(!fittedSo(again, name, { dimension: 4, settings }), name);
    assert.ok(!fittedSo(again, name === 'pca' ? 'lda' : 'pca', { dimension: 4, seed: 3 }), name);
    // As if a default had been different when the file was made.
    if (name.startsWith('deepmds'))
      assert.ok(!fittedSo(again, name, { dimension: 4, seed: 3, settings: { ...settings, weightDecay: 1 } }), name);
  }
});

test('what is kept is taken again; what is damaged, or was fitted with other settings, is fitted again', async () => {
  const models = await mkdtemp(join(tmpdir(), 'hers-models-'));
  try {
    const fitting = { dimension: 4, models };
    const first = (await fittedCompressor('lda', training, fitting)).save();
    const [file] = await readdir(models);
    const path = join(models, file);
    assert.deepEqual((await fittedCompressor('lda', training, fitting)).save(), first);
    const other = await fit('lda', training.vectors, training.labels, {
      dimension: 4,
      settings: { between: 'classes' },
    });
    for (const wrong of [other.save(), first.subarray(0, first.length >> 1), new Uint8Array(0)]) {
      await writeFile(path, wrong);
      assert.deepEqual((await fittedCompressor('lda', training, fitting)).save(), first);
      assert.deepEqual(new Uint8Array(await readFile(path)), first);
    }
    // Any other file of that name with a matching content is accepted: the folder is trusted.
    const taken = await fit('lda', training.vectors, training.labels, { dimension: 4, settings: { shrinkage: 0.9 } });
    await writeFile(path, taken.save());
    assert.deepEqual((await fittedCompressor('lda', training, fitting)).save(), taken.save());
  } finally {
    await rm(models, { recursive: true });
  }
});
