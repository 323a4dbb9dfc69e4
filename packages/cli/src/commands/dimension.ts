// `hers dimension`: how many dimensions vectors really have.

import { type HersCommand, numberOption } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError, EXIT } from '../exit.ts';
import { addRowOptions, rowOptionsOf } from '../input/row-options.ts';
import type { RowOptions } from '../input/rows.ts';
import { readVectors } from '../input/vectors.ts';
import { count } from '../quantities.ts';

interface DimensionOptions extends RowOptions {
  readonly neighbours: number;
  readonly sample: number;
}

export function addDimension(program: HersCommand, context: () => Context): void {
  addRowOptions(
    program
      .command('dimension')
      .summary('how many dimensions vectors really have')
      .description(
        'Estimates the intrinsic dimension of vectors in three ways: from distances along a graph of neighbours, from the two nearest neighbours, and by maximum likelihood. Then recommends a dimension to try first. The intrinsic dimension is the number of coordinates that a perfect compressor would need; it is often far below the dimension of the vectors.',
      )
      .argument('<file>', 'vectors: .npy, .csv, .jsonl, or - for standard input'),
  )
    .option('--neighbours <number>', 'how many are looked at', numberOption('--neighbours', { whole: true }), 20)
    .option(
      '--sample <number>',
      'take at most so many vectors, evenly',
      numberOption('--sample', { whole: true }),
      5000,
    )
    .example('hers dimension people.npy', 'Three estimates')
    .action((file: string, options: DimensionOptions) => estimate(context(), file, options));
}

/** Shorter than this share of what there is, a compressor is worth its error. */
const WORTHWHILE = 0.75;

/**
 * The dimension to begin with: the largest estimate, rounded up to a multiple of 8; undefined where
 * that saves little.
 */
export function recommendedDimension(estimates: readonly number[], dimension: number): number | undefined {
  const least = 8 * Math.ceil(Math.max(...estimates) / 8);
  return least <= WORTHWHILE * dimension ? least : undefined;
}

async function estimate(context: Context, argument: string, options: DimensionOptions): Promise<void> {
  const { environment, out, signal } = context;
  const { neighbours: k, sample } = options;
  const { vectors, count: total, dimension } = await readVectors(environment, argument, rowOptionsOf(options));
  const taken = Math.min(total, sample);
  const part = new Float32Array(taken * dimension);
  for (let i = 0; i < taken; i++) {
    const row = Math.floor((i * total) / taken);
    part.set(vectors.subarray(row * dimension, (row + 1) * dimension), i * dimension);
  }
  const { graphDistanceDimension, likelihoodDimension, nearest, twoNearestDimension } = await import(
    '@hers/compress/dimension'
  );
  using progress = context.progress({ label: 'Finding neighbours', total: taken, unit: 'vectors' });
  let estimates: readonly (readonly [string, number])[];
  try {
    const near = await nearest(part, dimension, k, { signal, onProgress: (done) => progress.update(done) });
    estimates = [
      ['graph distance', graphDistanceDimension(near).dimension],
      ['two nearest', twoNearestDimension(near)],
      ['maximum likelihood', likelihoodDimension(near)],
    ];
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new CommandError(EXIT.input, error.message, 'give more vectors, or more of them different');
  }
  progress.end();
  const recommended = recommendedDimension(
    estimates.map(([, value]) => value),
    dimension,
  );
  if (out.json) {
    const found = { vectors: taken, dimension, estimates: Object.fromEntries(estimates) };
    out.object({ ...found, recommended: recommended ?? dimension });
    return;
  }
  out.facts([
    ['vectors', taken < total ? `${count(taken)} of ${count(total)}` : count(total)],
    ['dimension', String(dimension)],
    ...estimates.map(([name, value]) => [name, value.toFixed(1)] as const),
    [
      'recommendation',
      recommended === undefined
        ? `keep all ${dimension} dimensions: a compressor would save little`
        : `try ${recommended} dimensions (hers train --dimension ${recommended}), and measure what that loses (hers evaluate)`,
    ],
  ]);
}
