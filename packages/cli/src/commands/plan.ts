// `hers plan`: which profile vectors need, from how close their neighbours are to one another.

import { type Integrity, type Metric, type Plan, type Profile, plan } from '@hers/scheme';
import { dot } from '@hers/vectors/linear-algebra';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { addRowOptions, type RowOptions, rowOptionsOf } from '../input/rows.ts';
import { readVectors } from '../input/vectors.ts';
import { columns, count, size } from '../output.ts';
import { scoreError } from '../score-error.ts';
import { errorOf } from './collections.ts';

interface PlanOptions extends RowOptions {
  readonly metric: Metric;
  readonly normBound?: number;
  readonly integrity: Integrity;
  readonly sample: number;
  readonly loss: number;
}

/** The cheapest first. What `open` is for, queries of a kilobyte, no vectors can tell. */
const PROFILES: readonly Profile[] = ['small', 'compact', 'exact', 'open'];
const RECOMMENDED: readonly Profile[] = ['small', 'compact', 'exact'];

export function addPlan(program: HersCommand, context: () => Context): void {
  addRowOptions(
    program
      .command('plan')
      .summary('which profile vectors need, and what each costs')
      .description(
        'Looks at how close the two nearest neighbours of each vector of a sample are to one another, and computes how often the error of each profile would put the second first. Encrypts some of them, and says how far the scores are from those of the vectors as they are: by rounding, and in all (rms); a bias shows where coordinates are smaller than a rounding step. Recommends the cheapest profile that is good enough. In a larger gallery neighbours are closer: take a sample as large as you can wait for.',
      )
      .argument('<file>', 'vectors: .npy, .csv, .jsonl, or - for standard input'),
  )
    .choice('--metric <metric>', 'how they are compared', ['cosine', 'dot', 'euclidean'], 'cosine')
    .number('--norm-bound <number>', 'the largest norm; that of the file by default')
    .choice(
      '--integrity <level>',
      'strong: with checksum canaries, which exact does without',
      ['standard', 'strong'],
      'standard',
    )
    .number('--sample <number>', 'take at most so many vectors, evenly', 'whole', 2000)
    .number('--loss <share>', 'how many of the first matches may change', 'any', 0.005)
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
  const normBound = options.normBound ?? rows.reduce((most, row) => Math.max(most, Math.sqrt(dot(row, row))), 0);
  const gaps = neighbourGaps(rows, metric);
  const found = PROFILES.map((profile) => {
    const checks = profile === 'exact' || profile === 'open' ? {} : { integrity };
    const made = plan({ dimension, metric, profile, ...checks, ...(metric === 'cosine' ? {} : { normBound }) });
    const changed =
      gaps.reduce((sum, { gap, nearest }) => sum + swapped(gap, deviation(made, nearest)), 0) /
      Math.max(1, gaps.length);
    const measured = scoreError(made, rows);
    return { profile, plan: made, changed, measured, ofFloats: made.bytes.perTemplate / (4 * dimension) };
  });
  const isSmaller = ({ profile, ofFloats }: (typeof found)[number]) => profile !== 'small' || ofFloats < 1;
  const offered = found.filter(({ profile }) => RECOMMENDED.includes(profile));
  const recommended = offered.find((each) => isSmaller(each) && each.changed <= loss) ?? offered.at(-1)!;
  if (out.json) {
    out.object({
      ...{ vectors: taken, of: total, dimension, metric, integrity, loss, recommended: recommended.profile },
      profiles: found.map(({ profile, plan: { bytes, error }, changed, measured, ofFloats }) => ({
        ...{ profile, changed, planned: error, measured, ofFloats },
        ...{ bytesPerVector: bytes.perTemplate, bytesPerScore: bytes.responsePerScore },
      })),
    });
    return;
  }
  out.table(
    columns(
      'profile',
      '>a vector',
      '>of float32',
      '>a score',
      '>error by rounding',
      '>in all',
      '>bias',
      '>first matches that change',
      '',
    ),
    found.map(({ profile, plan: { bytes }, changed, measured, ofFloats }) => [
      profile,
      size(bytes.perTemplate),
      ofFloats.toFixed(2),
      `${bytes.responsePerScore.toFixed(1)} B`,
      ...[measured.rounding, measured.total, measured.bias].map((value) => String(Number(value.toPrecision(2)))),
      `${(100 * changed).toFixed(2)} %`,
      profile === recommended.profile ? 'recommended' : '',
    ]),
  );
  out.hint(
    `Of ${count(taken)} vectors, each compared with all others. Take ${recommended.profile}: an error of ${errorOf(recommended.plan)}. Next: hers collections create <name> --dimension ${dimension} --metric ${metric} --profile ${recommended.profile}${recommended.plan.integrity === 'strong' ? ' --integrity strong' : ''}`,
  );
}

/**
 * By how much the nearest neighbour of each vector is ahead of the second, and the squared distance
 * of the nearest. Copies of one vector are as good as one another, so they are left out.
 */
export function neighbourGaps(rows: readonly Float32Array[], metric: Metric): { gap: number; nearest: number }[] {
  const squares = rows.map((row) => dot(row, row));
  const gaps: { gap: number; nearest: number }[] = [];
  rows.forEach((row, i) => {
    let [best, second, nearest] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY, 0];
    rows.forEach((other, j) => {
      if (i === j) return;
      const along = dot(row, other);
      const [square, otherSquare] = [squares[i]!, squares[j]!];
      const score =
        metric === 'dot'
          ? along
          : metric === 'cosine'
            ? along / Math.sqrt(square * otherSquare)
            : 2 * along - otherSquare;
      if (score > best) [best, second, nearest] = [score, best, Math.max(0, square + otherSquare - 2 * along)];
      else if (score > second) second = score;
    });
    if (best - second > 1e-9) gaps.push({ gap: best - second, nearest });
  });
  return gaps;
}

/**
 * Of the error of a neighbour's score. Where squared distances are exact, it is only that of
 * rounding, which grows with the distance: 2 (p − q)·(ε − δ), and ‖ε − δ‖² but for its mean, which
 * all neighbours share.
 */
export function deviation({ profile, metric, dimension, error, normBound, steps }: Plan, nearest: number): number {
  if (profile !== 'exact' || metric !== 'euclidean') return error.total;
  const v = (normBound / steps) ** 2 / 12;
  return Math.sqrt(8 * v * nearest + 5.6 * dimension * v * v);
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
