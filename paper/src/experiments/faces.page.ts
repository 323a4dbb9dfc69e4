// The page about faces.

import { compressorColours, compressorName, FULL, saidSplit } from '../data/compressor-looks.ts';
import type { Data, Rendered } from '../lab/experiment.ts';
import { Figures, page, table } from '../lab/markdown.ts';
import { bySeries, linesWithErrors, render as plotted, SCHEMA } from '../lab/plot.ts';
import { TABLE_4 } from '../lab/published.ts';
import { counted, decimals, grouped, percent, plusMinus, signed } from '../lab/quantities.ts';
import type { FacesParameters } from './faces.ts';

export async function render(data: Data<FacesParameters>): Promise<Rendered> {
  const { data: source, split, training, gallery, probes, persons, mostOfOne, compressors } = data.parameters;
  const markdown = page(data, 'Faces: rank-1 against the dimension', 'Rank-1 against the dimension', [
    'How often the first match is the same person, ± the standard error:',
    rankTable(data),
    `Standard errors are over people, not over pictures, because probes of one person are not independent. ${saidSeeds(data)}`,
    ...differences(data),
    ...(compressors.some((name) => name.startsWith('deepmds'))
      ? [
          "The paper's text leaves open which pairs DeepMDS is trained on, among which pairs DeepMDS++ mines, and how many steps an epoch has. The order of the two depends on it. The readings taken here were settled after figures of other readings on the even labels had been seen ([packages/training](../../packages/training/README.md) has them), so their order here does not confirm the paper's.",
        ]
      : []),
    '## What was searched',
    `${source}. ${saidSplit(split)} Fitted on ${counted(training, 'people')}, measured on ${counted(gallery, 'people')}; nobody is in both. Each of ${grouped(probes)} probes is searched among all other pictures. The probes are all pictures whose person has another one. They are of ${grouped(persons)} people; the most of one are ${grouped(mostOfOne)}.`,
    '## Other measures',
    otherTable(data),
    saidOpenSet(data.parameters),
    '## What the paper reports',
    table(
      ['rank-1 (%)', 'dimensions and results'],
      TABLE_4.map(({ what, ranks }) => [
        what,
        ranks.map(([dimension, value]) => `${dimension}: ${percent(value)}`).join(', '),
      ]),
      [0, 1],
    ),
    'These cannot be compared with ours one by one: it is another network, the gallery has a million or a hundred million strangers instead of some thousands, and there are 100 000 vectors to train on instead of some thousands. What can be compared is the loss from one dimension to the next, and the order of the methods.',
  ]);
  return { markdown, svg: await plot(data) };
}

/** The dimensions of the first table, the largest first. */
const columns = ({ dimensions, fullDimension }: FacesParameters) =>
  [...dimensions, fullDimension].toSorted((a, b) => b - a);

function rankTable(data: Data<FacesParameters>): string {
  const figures = new Figures(data);
  const shown = columns(data.parameters);
  return table(
    ['rank-1', ...shown.map(String)],
    [FULL, ...data.parameters.compressors].map((compressor) => [
      compressorName(compressor),
      ...shown.map((dimension) => {
        const name = `${compressor}-${dimension}`;
        return figures.has(name) ? plusMinus(figures.value(name), figures.value(`${name}-error`), 3) : '';
      }),
    ]),
  );
}

function saidSeeds({ parameters: { seeds } }: Data<FacesParameters>): string {
  return seeds === 1
    ? 'One seed: what a network owes to its seed is not in the errors ([networks](networks.md) has several).'
    : `Means over ${seeds} seeds: what a network owes to its seed is not in the errors.`;
}

/** Every compressor against PCA, and the default against LDA, too. */
function differences(data: Data<FacesParameters>): string[] {
  const { compressors, dimensions } = data.parameters;
  const figures = new Figures(data);
  const pairs = compressors
    .flatMap((compressor) => ['pca', 'lda'].map((baseline) => [compressor, baseline] as const))
    .filter(([compressor, baseline]) => figures.has(`${compressor}-${dimensions[0]}-minus-${baseline}`));
  if (pairs.length === 0) return [];
  return [
    'Compressors are compared on the same probes, so their differences are known better than the figures themselves. A difference within two standard errors may be chance:',
    table(
      ['difference of rank-1', ...dimensions.map(String)],
      pairs.map(([compressor, baseline]) => [
        `${compressorName(compressor)} − ${compressorName(baseline)}`,
        ...dimensions.map((dimension) => {
          const name = `${compressor}-${dimension}-minus-${baseline}`;
          return `${signed(figures.value(name), 3)} ± ${decimals(figures.value(`${name}-error`), 3)}`;
        }),
      ]),
    ),
  ];
}

function otherTable(data: Data<FacesParameters>): string {
  const { compressors, dimensions, fullDimension, far, fpir } = data.parameters;
  const figures = new Figures(data);
  const rows = [
    [FULL, fullDimension] as const,
    ...dimensions.flatMap((dimension) => compressors.map((compressor) => [compressor, dimension] as const)),
  ];
  // Where fewer than three errors are expected at a rate, there is no figure.
  const endings = ['rank10', 'tar', 'fnir'].filter((ending) => figures.has(`${FULL}-${fullDimension}-${ending}`));
  const heads: Record<string, string> = { rank10: 'rank-10', tar: `TAR at FAR ${far}`, fnir: `FNIR at FPIR ${fpir}` };
  return table(
    ['compressor', 'dimensions', ...endings.map((ending) => heads[ending])],
    rows.map(([compressor, dimension]) => [
      compressorName(compressor),
      String(dimension),
      ...endings.map((ending) => figures.value(`${compressor}-${dimension}-${ending}`).toFixed(4)),
    ]),
  );
}

function saidOpenSet({ strangers, persons, probes, seeds }: FacesParameters): string {
  const last = seeds > 1 ? ' These are of the last seed.' : '';
  const fnir =
    strangers > 0
      ? `For FNIR at FPIR, one picture each of the ${grouped(persons)} people with several is enrolled. Their other ${grouped(probes - persons)} pictures are probes with a mate, and the ${grouped(strangers)} people with one picture are probes without.`
      : 'There is no FNIR at FPIR, because everybody has several pictures and nobody is left to be a stranger.';
  return `TAR at FAR is over all pairs of pictures. ${fnir}${last}`;
}

function plot(data: Data<FacesParameters>): Promise<string> {
  const { compressors, dimensions, fullDimension, probes } = data.parameters;
  const figures = new Figures(data);
  const values = dimensions.flatMap((dimension) =>
    compressors.map((compressor) => {
      const name = `${compressor}-${dimension}`;
      const [rank1, error] = [figures.value(name), figures.value(`${name}-error`)];
      return { compressor: compressorName(compressor), dimension, rank1, low: rank1 - error, high: rank1 + error };
    }),
  );
  const lowest = Math.min(...values.map(({ low }) => low));
  const scale = { domain: [Math.max(0, Math.min(0.95, Math.floor(lowest * 20) / 20)), 1], nice: false, zero: false };
  const y = { field: 'rank1', type: 'quantitative' as const, scale, title: 'rank-1', axis: { format: '.2f' } };
  const domain = [Math.min(...dimensions), Math.max(...dimensions)];
  const log2 = { type: 'log' as const, base: 2, domain, nice: false, padding: 14 };
  const axis = { values: [...dimensions] };
  const x = { field: 'dimension', type: 'quantitative' as const, scale: log2, title: 'dimensions', axis };
  const series = bySeries('compressor', compressors.map(compressorName), { colours: compressorColours(compressors) });
  return plotted({
    $schema: SCHEMA,
    title: {
      text: 'Faces: rank-1 against the dimension',
      subtitle: `${grouped(probes)} probes; bars: ± one standard error; dashed: ${fullDimension} dimensions, uncompressed`,
    },
    width: 480,
    height: 300,
    layer: [
      {
        data: { values: [{ rank1: figures.value(`${FULL}-${fullDimension}`) }] },
        mark: { type: 'rule', strokeDash: [5, 4], color: '#000000' },
        encoding: { y },
      },
      ...linesWithErrors(values, { x, y, series, size: 60 }),
    ],
  });
}
