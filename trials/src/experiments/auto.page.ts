// The page about the default compressor against PCA and LDA.

import type { Data, Rendered } from '@hers/paper/lab/experiment';
import { Figures, page, table } from '@hers/paper/lab/markdown';
import { render as plotted, SCHEMA } from '@hers/paper/lab/plot';
import { counted, decimals, grouped, signed } from '@hers/paper/lab/quantities';
import type { AutoParameters } from './auto.ts';

/** What `auto` may be behind, beyond its standard error. */
const BAR = 0.003;

interface Ranks {
  readonly pca: number;
  readonly lda: number;
  readonly auto: number;
  readonly ahead: number;
  readonly error: number;
}

interface Row extends Ranks {
  readonly set: string;
  readonly size: number | 'all';
  readonly dimension: number;
  readonly cuts: number;
}

export async function render(data: Data<AutoParameters>): Promise<Rendered> {
  const rows = rowsOf(data);
  const { sets, cuts, unfinished } = data.parameters;
  // One cut has no error to judge it by.
  const judged = rows.some((row) => row.cuts > 1) ? rows.filter((row) => row.cuts > 1) : rows;
  const single = rows.length - judged.length;
  const least = judged.reduce((worst, row) => (row.ahead + row.error < worst.ahead + worst.error ? row : worst));
  const mean = rows.reduce((sum, { ahead }) => sum + ahead, 0) / rows.length;
  const behind = judged.filter(({ ahead, error }) => ahead + error < -BAR).length;
  const markdown = page(data, 'The default compressor: is it ever behind?', 'Rank-1 of auto minus the better one', [
    `\`auto\` is fitted on few identities and on many, beside PCA and LDA, whose shrinkage is chosen on the same identities. The table gives rank-1 on people and classes that were not fitted on, and by how much \`auto\` is ahead of the one of the two that is better on average, ± the standard error over the cuts.`,
    `On average over the ${rows.length} rows it is ahead by ${signed(mean)}. ${behind === 0 ? 'In no row' : behind === 1 ? 'In one row' : `In ${behind} rows`} it is behind by more than ${BAR} beyond its error.${single > 0 ? ` The ${single} rows of a single cut have no error, and are not judged.` : ''} The worst row is ${least.set} with ${least.size} identities at ${least.dimension} dimensions: ${signed(least.ahead)} ± ${decimals(least.error, 4)}.`,
    ...(unfinished > 0 ? [`${grouped(unfinished)} cuts are not measured yet: the same command goes on.`] : []),
    table(
      ['set', 'identities', 'dimensions', 'PCA', 'LDA', 'auto', 'auto − better', 'cuts'],
      rows.map((row) => [
        row.set,
        String(row.size),
        String(row.dimension),
        ...ranksOf(row),
        row.cuts === 1 ? signed(row.ahead) : aheadOf(row),
        String(row.cuts),
      ]),
    ),
    ...evenHalves(data),
    ...timing(data),
    '## What was measured',
    `The first table is of odd labels only, which are for training and choosing. Each of ${cuts} cuts draws a quarter of the identities to measure on, and so many others to fit on, among those with several vectors; *all* are all the rest, so cuts of *all* differ by who is measured on, and fit on three quarters of the identities each. A probe is every held-out vector whose identity has another, and the gallery is all other held-out vectors. Cuts overlap, so their standard errors are somewhat too small.`,
    ...tooLarge(data),
    'Learning to rank is left out here: it takes longer than all the rest, and `auto` takes it only where it is ahead by more than its standard error.',
    ...Object.entries(sets).map(
      ([name, { source, ...counts }]) =>
        `- ${name}: ${source}; of these ${counted(counts, 'identities')} with odd labels.`,
    ),
  ]);
  return { markdown, svg: await plot(rows) };
}

/** How long a fit takes, if that was measured. */
function timing(data: Data<AutoParameters>): string[] {
  const figures = new Figures(data);
  if (!figures.has('time-seconds')) return [];
  const of = (name: string) => grouped(Math.round(figures.value(`time-${name}`)));
  return [
    '## How long it takes',
    `A fit with all defaults, learning to rank included, of ${of('vectors')} synthetic vectors of ${of('dimension')} dimensions (${of('people')} people) to ${of('to')} took ${of('seconds')} seconds on this machine. The bar is two minutes for 10 000 × 512 on two cores.`,
  ];
}

/** Sizes that a set cannot have. */
function tooLarge({ parameters: { sets, sizes, fewest } }: Data<AutoParameters>): string[] {
  const missing = Object.keys(sets).flatMap((set) => {
    const too = sizes.filter((size) => size !== 'all' && size >= fewest[set]);
    return too.length === 0 ? [] : [`${set} ${fewest[set]} (so there is no row of ${too.join(', ')})`];
  });
  if (missing.length === 0) return [];
  return [
    `A set has rows as far as it has identities. With a quarter to measure on, so many of the rest have several vectors, in the cut with fewest: ${missing.join('; ')}.`,
  ];
}

const ranksOf = ({ pca, lda, auto }: Ranks) => [pca, lda, auto].map((rank) => rank.toFixed(4));
const aheadOf = ({ ahead, error }: Ranks) => `${signed(ahead)} ± ${decimals(error, 4)}`;

/** The one look at what was not chosen on, if it was taken. */
function evenHalves(data: Data<AutoParameters>): string[] {
  const figures = new Figures(data);
  const { sets, dimensions } = data.parameters;
  const rows = Object.keys(sets).flatMap((set) =>
    dimensions.flatMap((dimension) => {
      const at = `${set}-even-${dimension}`;
      return figures.has(`${at}-auto`) ? [{ set, dimension, ...ranksAt(figures, at) }] : [];
    }),
  );
  if (rows.length === 0) return [];
  return [
    '## The even halves',
    'Fitted on all odd labels, and looked at once on the even ones, when everything was chosen. Standard errors are of the difference, probe by probe, over people or classes.',
    table(
      ['set', 'dimensions', 'PCA', 'LDA', 'auto', 'auto − better'],
      rows.map((row) => [row.set, String(row.dimension), ...ranksOf(row), aheadOf(row)]),
    ),
  ];
}

function ranksAt(figures: Figures, at: string): Ranks {
  const value = (ending: string) => figures.value(`${at}-${ending}`);
  return {
    ...{ pca: value('pca'), lda: value('lda'), auto: value('auto') },
    ...{ ahead: value('ahead'), error: value('ahead-error') },
  };
}

function rowsOf(data: Data<AutoParameters>): Row[] {
  const figures = new Figures(data);
  const { sets, sizes, dimensions } = data.parameters;
  return Object.keys(sets).flatMap((set) =>
    sizes.flatMap((size) =>
      dimensions.flatMap((dimension) => {
        const at = `${set}-${size}-${dimension}`;
        if (!figures.has(`${at}-auto`)) return [];
        return { set, size, dimension, ...ranksAt(figures, at), cuts: figures.value(`${at}-cuts`) };
      }),
    ),
  );
}

function plot(rows: readonly Row[]): Promise<string> {
  const values = rows.map(({ set, size, dimension, ahead, error }) => ({
    row: `${set}, ${size}`,
    dimension: `${dimension} dimensions`,
    ahead,
    low: ahead - error,
    high: ahead + error,
  }));
  const y = { field: 'row', type: 'nominal' as const, title: null, sort: null };
  return plotted({
    $schema: SCHEMA,
    title: { text: 'auto minus the better of PCA and LDA', subtitle: 'rank-1 on identities that were not fitted on' },
    data: { values },
    facet: { column: { field: 'dimension', type: 'nominal', title: null, sort: null } },
    spec: {
      width: 190,
      height: { step: 18 },
      layer: [
        { mark: { type: 'rule', color: '#999999' }, encoding: { x: { datum: 0 } } },
        {
          mark: 'rule',
          encoding: { y, x: { field: 'low', type: 'quantitative', title: 'rank-1' }, x2: { field: 'high' } },
        },
        {
          mark: { type: 'point', filled: true, size: 45 },
          encoding: { y, x: { field: 'ahead', type: 'quantitative' } },
        },
      ],
    },
  });
}
