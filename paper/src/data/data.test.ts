// Experiments on data made to expose them: vectors without meaning, and labels with gaps.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { meaningless, writeDatasets } from '../../testing/datasets.ts';
import { measureAndRender, type Outcome } from '../../testing/small-runs.ts';
import { EXPERIMENTS } from '../experiments/index.ts';
import type { Values } from '../lab/runner.ts';
import type { Part } from './datasets.ts';

async function run(name: string, part: Part, values: Values = {}): Promise<Outcome> {
  const data = await mkdtemp(join(tmpdir(), 'hers-data-'));
  try {
    await writeDatasets(data, part);
    const given = { small: true, data, split: 'test', dimensions: '8', ...values };
    return await measureAndRender(EXPERIMENTS, name, given);
  } finally {
    await rm(data, { recursive: true });
  }
}

const figuresOf = ({ data }: Outcome) => new Map(data.results.map(({ name, value }) => [name, value]));
const labels = (count: number, of: (i: number) => number) => Int32Array.from({ length: count }, (_, i) => of(i));

describe('on vectors that mean nothing', () => {
  // 20 classes of 20 to fit on, and as many to measure on: enough dimensions to memorize any of
  // them, and in `wide` enough for pictures to use principal axes first.
  const classes = 20;
  const part = meaningless(
    labels(40 * classes, (i) => i % 40),
    64,
  );
  const wide = meaningless(part.labels, 257);
  /**
   * Five standard deviations of a share of this many trials above chance, which is one class in
   * twenty.
   */
  const most = (trials: number) => 1 / classes + 5 * Math.sqrt(1 / classes / trials);

  it('pictures: neither the SVM nor a compressor knows what it is asked about', async () => {
    for (const [given, compressors, names] of [
      [part, 'pca,lda', ['full-64', 'pca-8', 'lda-8']],
      [wide, 'lda', ['full-257', 'pca-256', 'lda-8']],
    ] as const) {
      const figures = figuresOf(await run('pictures', given, { compressors }));
      for (const name of names) {
        assert.ok(figures.get(name)! < most(200), `${name}: top-1 ${figures.get(name)}`);
        const precision = figures.get(`${name}-precision10`)!;
        assert.ok(precision < most(400), `${name}: precision ${precision}`);
      }
    }
  });

  it('faces: nor here', async () => {
    const figures = figuresOf(await run('faces', part));
    for (const name of ['full-64', 'pca-8', 'lda-8'])
      assert.ok(figures.get(name)! < most(400), `${name}: ${figures.get(name)}`);
  });
});

describe('odd data', () => {
  it('what leaves nothing to fit on or to find is refused in a sentence', async () => {
    for (const name of ['faces', 'pictures', 'ablation', 'two-stage-accuracy', 'inversion']) {
      const values = ['inversion'].includes(name) ? { dimensions: undefined } : {};
      for (const [given, message] of [
        [labels(40, (i) => i), /of its 20 vectors to measure on, no two have the same label/],
        [labels(40, (i) => (i < 6 ? 0 : i)), /of its 2. vectors to measure on, only those of one label have a mate/],
        [labels(40, (i) => 2 * (i % 10)), /nothing to fit on: there are no vectors with a label that is odd/],
        [labels(40, (i) => 2 * (i % 10) + 1), /nothing to measure on: there are no vectors with a label that is even/],
      ] as const)
        await assert.rejects(run(name, meaningless(given, 16), values), (error) => {
          assert.ok(error instanceof RangeError, String(error));
          assert.match(error.message, message);
          return true;
        });
    }
    await assert.rejects(
      run(
        'faces',
        meaningless(
          labels(40, (i) => 4 * (i % 10) + 1),
          16,
        ),
        { split: 'validation' },
      ),
      /no vectors with a label that is 4n \+ 3/,
    );
  });

  it('faces: where nobody is a stranger there is no FNIR, and everything else', async () => {
    const { data, markdown } = await run(
      'faces',
      meaningless(
        labels(120, (i) => i % 20),
        16,
      ),
    );
    assert.ok(!data.results.some(({ name }) => name.endsWith('-fnir')));
    assert.ok(data.results.some(({ name }) => name === 'lda-8'));
    // Of 60 vectors there are too few pairs for that, and enough of them elsewhere.
    assert.ok(!data.results.some(({ name }) => name === 'lda-8-tar'));
    const more = await run(
      'faces',
      meaningless(
        labels(640, (i) => i % 20),
        16,
      ),
      { compressors: 'lda' },
    );
    assert.ok(more.data.results.some(({ name }) => name === 'lda-8-tar'));
    assert.match(markdown, /There is no FNIR at FPIR/);
    assert.doesNotMatch(markdown, /FNIR at FPIR 0/);
  });

  it('faces: vectors that are all found are plotted too', async () => {
    const part = meaningless(
      labels(120, (i) => i % 40),
      16,
    );
    // Every vector of a label is the same.
    part.vectors.copyWithin(40 * 16, 0, 40 * 16);
    part.vectors.copyWithin(80 * 16, 0, 40 * 16);
    const figures = figuresOf(await run('faces', part, { compressors: 'pca' }));
    assert.equal(figures.get('pca-8'), 1);
    assert.equal(figures.get('pca-8-error'), 0);
  });

  it('a page says how many vectors there were', async () => {
    const { markdown } = await run(
      'faces',
      meaningless(
        labels(1200, (i) => i % 200),
        12,
      ),
    );
    assert.match(markdown, /Labeled Faces in the Wild: 1 200 pictures of 200 people, 12 dimensions/);
  });
});
