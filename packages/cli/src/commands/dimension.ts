// `hers dimension`: how many dimensions vectors really have.

import type { Metric } from '@hers/scheme';
import type { GraphDistanceEstimate } from '@hers/training/dimension';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { addRowOptions, type RowOptions, rowOptionsOf } from '../input/rows.ts';
import { readVectors } from '../input/vectors.ts';
import { count } from '../output.ts';

interface DimensionOptions extends RowOptions {
  readonly metric: Metric;
  readonly neighbours: number;
  readonly sample: number;
}

export function addDimension(program: HersCommand, context: () => Context): void {
  addRowOptions(
    program
      .command('dimension')
      .summary('how many dimensions vectors really have')
      .description(
        'Estimates the intrinsic dimension of vectors in three ways: from distances along a graph of neighbours, from the two nearest neighbours, and by maximum likelihood. Then recommends dimensions to try. The intrinsic dimension is the number of coordinates that a perfect compressor would need; it is often far below the dimension of the vectors. Where distances along the graph are not those of a manifold, it says why instead of a number.',
      )
      .argument('<file>', 'vectors: .npy, .csv, .jsonl, or - for standard input'),
  )
    .choice(
      '--metric <metric>',
      'how they are compared; with cosine, angles are measured and lengths ignored',
      ['cosine', 'dot', 'euclidean'],
      'cosine',
    )
    .number('--neighbours <number>', 'how many are looked at', 'whole', 20)
    .number('--sample <number>', 'take at most so many vectors, evenly', 'whole', 5000)
    .example('hers dimension people.npy', 'Three estimates, and which dimensions to try')
    .action((file: string, options: DimensionOptions) => estimate(context(), file, options));
}

/** Neighbours in the graph: the default of the code that the paper's authors released, and ours. */
const GRAPHS = [4, 9];

async function estimate(context: Context, argument: string, options: DimensionOptions): Promise<void> {
  const { environment, out, signal } = context;
  const { neighbours: k, sample, metric } = options;
  const { vectors, count: total, dimension } = await readVectors(environment, argument, rowOptionsOf(options));
  const taken = Math.min(total, sample);
  const part = new Float32Array(taken * dimension);
  for (let i = 0; i < taken; i++) {
    const row = Math.floor((i * total) / taken);
    part.set(vectors.subarray(row * dimension, (row + 1) * dimension), i * dimension);
  }
  const { graphDistanceDimension, likelihoodDimension, nearest, recommendedDimensions, twoNearestDimension } =
    await import('@hers/training/dimension');
  const distance = metric === 'cosine' ? 'angle' : 'euclidean';
  using progress = context.progress({ label: 'Finding neighbours', total: taken, unit: 'vectors' });
  const near = await nearest(part, dimension, k, { distance, signal, onProgress: (done) => progress.update(done) });
  const graphs = [...new Set(GRAPHS.map((each) => Math.min(each, k)))].map((each) =>
    graphDistanceDimension(near, { k: each }),
  );
  const [two, likelihood] = [twoNearestDimension(near), likelihoodDimension(near)];
  progress.end();
  const byGraphs = graphs.flatMap((each) => each.dimension ?? []);
  const recommended = recommendedDimensions([...byGraphs, two, likelihood], dimension);
  const found = {
    ...{ vectors: taken, dimension, distance, neighbours: k },
    graphDistance: graphs.map(({ k, dimension, refusal, connected, residual }) => ({
      ...{ k, estimate: dimension ?? null, connected, residual: residual ?? null, refusal: refusal ?? null },
    })),
    ...{ twoNearest: two, maximumLikelihood: likelihood, recommended },
  };
  out.result(found, [
    ['vectors', taken < total ? `${count(taken)} of ${count(total)}` : count(total)],
    ['dimension', String(dimension)],
    ['compared by', distance === 'angle' ? 'angles' : 'distances'],
    ...graphs.map((each) => [`graph distance, k = ${each.k}`, saidGraph(each)] as const),
    ['two nearest', two.toFixed(1)],
    [`maximum likelihood, k = ${k}`, likelihood.toFixed(1)],
    ['recommendation', saidRecommendation(recommended, dimension)],
  ]);
}

function saidGraph({ dimension, refusal, connected, residual }: GraphDistanceEstimate): string {
  if (dimension === undefined) return `no estimate: ${refusal}`;
  return `${dimension.toFixed(1)} (${(100 * connected).toFixed(1)} % connected, residual ${residual!.toFixed(2)})`;
}

function saidRecommendation(recommended: readonly number[], dimension: number): string {
  if (recommended.length === 0) return `keep all ${dimension} dimensions: a compressor would save little`;
  const last = recommended.at(-1);
  const all = recommended.length === 1 ? last : `${recommended.slice(0, -1).join(', ')} and ${last}`;
  return `try ${all} dimensions (hers train --dimension ${recommended[0]}), and measure what each loses (hers evaluate)`;
}
