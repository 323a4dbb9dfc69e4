// The page about the default compressor against PCA and LDA.

import type { AutoParameters } from './auto.ts';
import type { Data, Rendered } from './experiment.ts';
import { Figures } from './figures.ts';
import { page, table } from './markdown.ts';
import { render as plotted, SCHEMA } from './plot.ts';
import { counted, decimals, grouped, signed } from './quantities.ts';

/** What `auto` may be behind, beyond its standard error. */
const BAR = 0.003;

interface Row {
  readonly set: string;
  readonly size: number | 'all';
  readonly dimension: number;
  readonly pca: number;
  readonly lda: number;
  readonly auto: number;
  readonly ahead: number;
  readonly error: number;
  readonly cuts: number;
}

export async function render(data: Data<AutoParameters>): Promise<Rendered> {
  const rows = rowsOf(data);
  const { sets, cuts, unfinished } = data.parameters;
  const least = rows.reduce((worst, row) => (row.ahead + row.error < worst.ahead + worst.error ? row : worst));
  const mean = rows.reduce((sum, { ahead }) => sum + ahead, 0) / rows.length;
  const behind = rows.filter(({ ahead, error }) => ahead + error < -BAR).length;
  const markdown = page(data, 'The default compressor: is it ever behind?', 'Rank-1 of auto minus the better one', [
    `\`auto\` is fitted on few identities and on many, beside PCA and LDA, whose shrinkage is chosen on the same identities. The table gives rank-1 on people and classes that were not fitted on, and by how much \`auto\` is ahead of the one of the two that is better on average, ± the standard error over the cuts.`,
    `On average over the ${rows.length} rows it is ahead by ${signed(mean)}. ${behind === 0 ? 'In no row' : behind === 1 ? 'In one row' : `In ${behind} rows`} it is behind by more than ${BAR} beyond its error. The worst row is ${least.set} with ${least.size} identities at ${least.dimension} dimensions: ${signed(least.ahead)} ± ${decimals(least.error, 4)}.`,
    ...(unfinished > 0 ? [`${grouped(unfinished)} cuts are not measured yet: the same command goes on.`] : []),
    table(
      ['set', 'identities', 'dimensions', 'PCA', 'LDA', 'auto', 'auto − better', 'cuts'],
      rows.map((row) => [
        row.set,
        String(row.size),
        String(row.dimension),
        ...[row.pca, row.lda, row.auto].map((rank) => rank.toFixed(4)),
        `${signed(row.ahead)} ± ${decimals(row.error, 4)}`,
        String(row.cuts),
      ]),
    ),
    '## What was measured',
    `Odd labels only, which are for training and choosing; even ones stay unseen. Each of ${cuts} cuts draws a quarter of the identities to measure on, and so many others to fit on, among those with several vectors; *all* are all the rest. A probe is every held-out vector whose identity has another, and the gallery is all other held-out vectors. Cuts overlap, so their standard errors are somewhat too small.`,
    'Learning to rank is left out here: it takes minutes for each fit, and `auto` takes it only where it is ahead by more than its standard error.',
    ...Object.entries(sets).map(
      ([name, { source, ...counts }]) =>
        `- ${name}: ${source}; of these ${counted(counts, 'identities')} with odd labels.`,
    ),
  ]);
  return { markdown, svg: await plot(rows) };
}

function rowsOf(data: Data<AutoParameters>): Row[] {
  const figures = new Figures(data);
  const { sets, sizes, dimensions } = data.parameters;
  return Object.keys(sets).flatMap((set) =>
    sizes.flatMap((size) =>
      dimensions.flatMap((dimension) => {
        const at = `${set}-${size}-${dimension}`;
        if (!figures.has(`${at}-auto`)) return [];
        const value = (ending: string) => figures.value(`${at}-${ending}`);
        return {
          ...{ set, size, dimension, pca: value('pca'), lda: value('lda'), auto: value('auto') },
          ...{ ahead: value('ahead'), error: value('ahead-error'), cuts: value('cuts') },
        };
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
