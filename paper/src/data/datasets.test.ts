import assert from 'node:assert/strict';
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { matedPlaces } from '@hers/vectors/accuracy';
import { writeNpy } from '@hers/vectors/npy';
import { part } from '../../../tools/parts.ts';
import { npy } from '../../testing/datasets.ts';
import { mateRanks, rankAccuracy } from '../metrics/identification.ts';
import { loadDataset, splitByLabel } from './datasets.ts';

const data = part('data');

test('whole numbers are multiplied by the scale of their row, and everything comes at unit length', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-data-'));
  try {
    const base = join(folder, 'images-tinyimagenet-resnet50-2048');
    await writeFile(`${base}.u8.npy`, npy('|u1', '2, 2', Uint8Array.of(3, 4, 0, 200)));
    await writeFile(`${base}.scale.npy`, npy('<f4', '2,', new Uint8Array(Float32Array.of(0.5, 2).buffer)));
    await writeFile(`${base}.labels.npy`, npy('<i4', '2,', new Uint8Array(Int32Array.of(7, 8).buffer)));
    const { vectors, dimension, labels } = await loadDataset('pictures', folder);
    assert.equal(dimension, 2);
    assert.deepEqual([...vectors], [...Float32Array.of(0.6, 0.8, 0, 1)]);
    assert.deepEqual([...labels], [7, 8]);
    await writeFile(`${base}.labels.npy`, npy('<i4', '1,', new Uint8Array(4)));
    await assert.rejects(loadDataset('pictures', folder), { code: 'MALFORMED', message: /1 labels for 2 vectors/ });
    await assert.rejects(loadDataset('faces', folder), {
      code: 'NOT_FOUND',
      message: /faces-lfw.* is not in .*--data/,
    });
    const file = await open(join(folder, 'faces-lfw-arcface128.npy'), 'w');
    await writeNpy(file, 2, [Float32Array.of(1, 0)]);
    await file.truncate(132);
    await file.close();
    await assert.rejects(loadDataset('faces', folder), { code: 'MALFORMED', message: /truncated/ });
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('no label is on both sides of a split, and the labels of the report are touched by no other', () => {
  const labels = Int32Array.from({ length: 40 }, (_, i) => i >> 1);
  const set = { vectors: new Float32Array(40).map((_, i) => i), dimension: 1, labels };
  const [choice, report] = [splitByLabel(set, 'validation'), splitByLabel(set, 'test')];
  assert.deepEqual(
    [...report.held.labels],
    [...labels].filter((label) => label % 2 === 0),
  );
  for (const { training, held } of [choice, report]) {
    assert.ok(
      [...training.labels].every((label) => !held.labels.includes(label) && !report.held.labels.includes(label)),
    );
    for (const side of [training, held])
      for (const [i, label] of side.labels.entries()) assert.equal(label, side.vectors[i] >> 1);
  }
  assert.ok([...choice.held.labels].every((label) => !report.held.labels.includes(label)));
});

test(
  'the faces are as described: 6 211 pictures and 4 169 probes in the report, of a tenth of which 98 % are found',
  data,
  async () => {
    const faces = await loadDataset('faces', data.path!);
    assert.equal(faces.dimension, 128);
    assert.match(faces.source, /: 13 221 pictures of 5 745 people, 128 dimensions by an ArcFace/);
    const { held } = splitByLabel(faces, 'test');
    assert.equal(held.labels.length, 6211);
    const probes = matedPlaces(held.labels);
    assert.equal(probes.length, 4169);
    // A tenth of the probes is enough to see that the pictures are those of the labels.
    const some = probes.filter((_, i) => i % 10 === 0);
    assert.ok(rankAccuracy(mateRanks(held, some), 1) > 0.98);
  },
);
