// Training, measuring and re-indexing from the command line.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { methods } from '@hers/training';
import { hers, Prepared, writeGallery } from '../testing/cli.ts';
import { METHODS } from './commands/compress.ts';
import { EXIT } from './exit.ts';

let prepared: Prepared;
before(async () => {
  prepared = await Prepared.make(writeGallery);
});
after(() => prepared.remove());

describe('compressors', () => {
  it('every method can be asked for', () => {
    assert.deepEqual(METHODS.toSorted(), Object.keys(methods).toSorted());
  });

  it('are learnt, measured, given to a collection and taken away', async () => {
    const folder = await prepared.copy();
    const run = async (...args: string[]) => {
      const { exit, out, err } = await hers(folder, [...args, '--json']);
      assert.equal(exit, EXIT.done, err);
      return JSON.parse(out);
    };
    const made = await run('train', 'people.npy', '--labels', 'people.txt', '-m', 'lda', '-d', '6', '-o', 'lda.onnx');
    assert.equal(made.outputDimension, 6);
    const { results } = await run('evaluate', 'people.npy', '--labels', 'people.txt', 'lda.onnx');
    assert.deepEqual(
      results.map(({ compressor, dimension }: { compressor: string; dimension: number }) => [compressor, dimension]),
      [
        ['none', 128],
        ['lda.onnx', 6],
      ],
    );
    const byMean = await run('evaluate', 'people.npy', '--labels', 'people.txt', '--combine', 'mean');
    assert.deepEqual([byMean.combine, byMean.results.length], ['mean', 1]);
    assert.ok(byMean.results[0].rank1 > 0.5 && byMean.results[0].rank1 <= 1);
    assert.equal((await run('reindex', 'lda.onnx')).dimension, 6);
    assert.deepEqual((await run('collections', 'describe')).compressor, { method: 'lda', dimension: 6 });
    const { matches } = await run('search', 'probes.npy', '--row', '1', '--limit', '1', '--rerank', '4');
    assert.equal(matches[0].id, 'alan');
    assert.equal((await run('reindex', '--none')).dimension, 128);
    assert.equal('compressor' in (await run('collections', 'describe')), false);
  });

  it('what cannot be used is said in one sentence, before anything is changed', async () => {
    const folder = await prepared.copy();
    await writeFile(join(folder, 'rubbish.onnx'), 'rubbish');
    await writeFile(join(folder, 'few.txt'), 'ada\nada\n');
    for (const [exit, ...args] of [
      [EXIT.usage, 'train', 'people.npy', '-m', 'pca', '-o', 'new.onnx'],
      [EXIT.input, 'train', 'people.npy', '-m', 'lda', '-d', '4', '-o', 'new.onnx'],
      [EXIT.input, 'train', 'people.npy', '--labels', 'few.txt', '-d', '4', '-o', 'new.onnx'],
      [EXIT.usage, 'train', 'people.npy', '-m', 'pca', '-d', '129', '-o', 'new.onnx'],
      [EXIT.absent, 'train', 'people.npy', '-m', 'pca', '-d', '4', '-o', 'faces.onnx'],
      [EXIT.usage, 'evaluate', 'people.npy', 'faces.onnx'],
      [EXIT.input, 'evaluate', 'people.npy', '--labels', 'people.txt', 'rubbish.onnx'],
      [EXIT.usage, 'reindex'],
      [EXIT.usage, 'reindex', 'faces.onnx', '--none'],
      [EXIT.usage, 'reindex', 'rubbish.onnx'],
      [EXIT.absent, 'reindex', 'nowhere.onnx'],
      [EXIT.usage, 'collections', 'create', 'more', '-d', '64', '--compressor', 'faces.onnx'],
    ] as const) {
      const { exit: got, err } = await hers(folder, args);
      assert.equal(got, exit, `${args.join(' ')}: ${err}`);
      assert.match(err, /^hers: [^\n]+\.\n$/);
    }
    assert.equal(existsSync(join(folder, 'new.onnx')), false);
  });
});
