// `hers plan`: which profile vectors need, from how close their neighbours are to one another.

import { type Integrity, isExact, type Metric, type Plan, type Profile, plan } from '@hers/scheme';
import { Option } from 'commander';
import { type HersCommand, numberOption } from '../command.ts';
import type { Context } from '../context.ts';
import { addRowOptions, rowOptionsOf } from '../input/row-options.ts';
import type { RowOptions } from '../input/rows.ts';
import { readVectors } from '../input/vectors.ts';
import { count, size } from '../quantities.ts';
import { errorOf } from './collections.ts';

interface PlanOptions extends RowOptions {
  readonly metric: Metric;
  readonly normBound?: number;
  readonly integrity: Integrity;
  readonly sample: number;
  readonly loss: number;
}

/** The cheapest first. */
const PROFILES: readonly Profile[] = ['small', 'compact', 'exact'];

export function addPlan(program: HersCommand, context: () => Context): void {
  addRowOptions(
    program
      .command('plan')
      .summary('which profile vectors need, and what each costs')
      .description(
        'Looks at how close the two nearest neighbours of each vector of a sample are to one another, and computes how often the error of each profile would put the second first. Recommends the cheapest profile that is good enough. In a larger gallery neighbours are closer: take a sample as large as you can wait for.',
      )
      .argument('<file>', 'vectors: .npy, .csv, .jsonl, or - for standard input'),
  )
    .addOption(
      new Option('--metric <metric>', 'how they are compared')
        .choices(['cosine', 'dot', 'euclidean'])
        .default('cosine'),
    )
    .option('--norm-bound <number>', 'the largest norm; that of the file by default', numberOption('--norm-bound'))
    .addOption(
      new Option('--integrity <level>', 'strong: with checksum canaries, which exact does without')
        .choices(['standard', 'strong'])
        .default('standard'),
    )
    .option(
      '--sample <number>',
      'take at most so many vectors, evenly',
      numberOption('--sample', { whole: true }),
      2000,
    )
    .option('--loss <share>', 'how many of the first matches may change', numberOption('--loss'), 0.005)
    .example('hers plan people.npy', 'What each profile costs, and which to take')
    .example('hers plan people.npy --metric euclidean --loss 0.001', 'Distances, and one first match in a thousand')
    .action((file: string, options: PlanOptions) => recommend(context(), file, options));
}

async function recommend(context: Context, argument: string, options: PlanOptions): Promise<void> {
  const { environment, out } = context;
  const { metric, sample, loss, integrity } = options;
  const { vectors, count: total, dimension } = await readVectors(environment, argument, rowOptionsOf(options));
  const taken = Math.min(total, sample);
  const rows = Array.from({ length: taken }, (_, i) => {
    const at = Math.floor((i * total) / taken) * dimension;
    return vectors.subarray(at, at + dimension);
  });
  const normBound = options.normBound ?? rows.reduce((most, row) => Math.max(most, norm(row)), 0);
  const gaps = neighbourGaps(rows, metric);
  const found = PROFILES.map((profile) => {
    const checks = isExact(profile) ? {} : { integrity };
    const made = plan({ dimension, metric, profile, ...checks, ...(metric === 'cosine' ? {} : { normBound }) });
    const changed = gaps.reduce((sum, gap) => sum + swapped(gap, deviation(made)), 0) / Math.max(1, gaps.length);
    return { profile, plan: made, changed, ofFloats: made.bytes.perTemplate / (4 * dimension) };
  });
  const isSmaller = ({ profile, ofFloats }: (typeof found)[number]) => profile !== 'small' || ofFloats < 1;
  const recommended = found.find((each) => isSmaller(each) && each.changed <= loss) ?? found.at(-1)!;
  if (out.json) {
    out.object({
      ...{ vectors: taken, of: total, dimension, metric, integrity, loss, recommended: recommended.profile },
      profiles: found.map(({ profile, plan: { bytes }, changed, ofFloats }) => ({
        ...{ profile, changed, ofFloats, bytesPerVector: bytes.perTemplate, bytesPerScore: bytes.responsePerScore },
      })),
    });
    return;
  }
  out.table(
    [
      { title: 'profile' },
      { title: 'a vector', right: true },
      { title: 'of float32', right: true },
      { title: 'a score', right: true },
      { title: 'first matches that change', right: true },
      { title: '' },
    ],
    found.map(({ profile, plan: { bytes }, changed, ofFloats }) => [
      profile,
      size(bytes.perTemplate),
      ofFloats.toFixed(2),
      `${bytes.responsePerScore.toFixed(1)} B`,
      `${(100 * changed).toFixed(2)} %`,
      profile === recommended.profile ? 'recommended' : '',
    ]),
  );
  out.hint(
    `Of ${count(taken)} vectors, each compared with all others. Take ${recommended.profile}: an error of ${errorOf(recommended.plan)}. Next: hers collections create <name> --dimension ${dimension} --metric ${metric} --profile ${recommended.profile}${recommended.plan.integrity === 'strong' ? ' --integrity strong' : ''}`,
  );
}

function norm(row: Float32Array): number {
  return Math.sqrt(product(row, row));
}

function product(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

/**
 * For each vector, by how much its nearest neighbour is ahead of the second. Copies of one vector
 * are as good as one another, so they are left out.
 */
export function neighbourGaps(rows: readonly Float32Array[], metric: Metric): number[] {
  const squares = rows.map((row) => product(row, row));
  const gaps: number[] = [];
  rows.forEach((row, i) => {
    let [best, second] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
    rows.forEach((other, j) => {
      if (i === j) return;
      const dot = product(row, other);
      const [square, otherSquare] = [squares[i]!, squares[j]!];
      const score =
        metric === 'dot' ? dot : metric === 'cosine' ? dot / Math.sqrt(square * otherSquare) : 2 * dot - otherSquare;
      if (score > best) [best, second] = [score, best];
      else if (score > second) second = score;
    });
    if (best - second > 1e-9) gaps.push(best - second);
  });
  return gaps;
}

/** Of the error of one score. Rounding errs by a uniform half step in each coordinate of both. */
function deviation({ profile, noise, steps, metric, normBound, queryNormBound }: Plan): number {
  if (!isExact(profile)) return noise.score;
  return ((metric === 'euclidean' ? 2 : 1) * normBound * queryNormBound) / (Math.sqrt(6) * steps);
}

/** The probability that errors of this deviation in both scores outweigh the gap. */
export function swapped(gap: number, sigma: number): number {
  return normalTail(gap / (Math.SQRT2 * sigma));
}

/** P(X > x) of a standard normal X, x ≥ 0: Abramowitz and Stegun 26.2.17, within 7.5e-8. */
function normalTail(x: number): number {
  const t = 1 / (1 + 0.2316419 * x);
  const series = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  return (Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI)) * series;
}
