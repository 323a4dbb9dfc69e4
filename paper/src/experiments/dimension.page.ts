// The page about intrinsic dimension.

import type { Data, Rendered } from '../lab/experiment.ts';
import { Figures, page, table } from '../lab/markdown.ts';
import { bySeries, render as plotted, SCHEMA } from '../lab/plot.ts';
import { INTRINSIC } from '../lab/published.ts';
import { grouped, percent } from '../lab/quantities.ts';
import type { DimensionParameters } from './dimension.ts';

/** The graph that stands for the estimator where there is room for one. */
const SHOWN = 'graph-k9';

const ESTIMATORS: readonly (readonly [string, string])[] = [
  [SHOWN, 'graph, k = 9'],
  ['two-nearest', 'two nearest'],
  ['likelihood', 'likelihood'],
];

/** The graphs of which more is told: the default of the authors' code, and ours. */
const TOLD = [4, 9];

export async function render(data: Data<DimensionParameters>): Promise<Rendered> {
  const { neighbours, graphs, sources, sets } = data.parameters;
  const figures = new Figures(data);
  const real = sets.filter(({ name }) => !figures.has(`${name}-known`));
  const one = (value: number) => value.toFixed(1);
  const markdown = page(data, 'Intrinsic dimension', 'Estimates of intrinsic dimension', [
    'How many numbers it takes to say where on its manifold a vector is.',
    table(
      ['set', 'vectors', 'in', 'known', ...graphs.map((k) => `graph, k = ${k}`), 'two nearest', 'likelihood', 'to try'],
      sets.map(({ name, vectors, dimension, recommended, refusals }) => [
        name,
        grouped(vectors),
        grouped(dimension),
        figures.cell(`${name}-known`, String),
        ...graphs.map((k) => (Object.hasOwn(refusals, k) ? 'none' : figures.cell(`${name}-graph-k${k}`, one))),
        figures.cell(`${name}-two-nearest`, one),
        figures.cell(`${name}-likelihood`, one),
        recommended.length === 0 ? 'all' : recommended.join(', '),
      ]),
    ),
    `On manifolds of known dimension the estimates are off by ${offBy(data)}. The local estimators see noise in every coordinate first. An estimate says how many numbers would do for a map that follows the manifold. It does not say how many a linear map or a small network needs: for that see [faces](faces.md). So "to try" is the largest estimate, rounded up to a multiple of 8, then its double, then twice that, as far as they are at most three quarters of the dimension. \`hers dimension\` says the same about vectors of your own.`,
    `The paper reports ${INTRINSIC.arcface} for ArcFace faces, ${INTRINSIC['inception-resnet-v2']} for pictures by Inception-ResNet v2 and ${INTRINSIC.deepprint} for fingerprints, by the graph. It gives neither k nor the number of vectors; k = 4 is the default of the code that its authors released. Its networks and data are others, so the figures need not agree.`,
    '## How well the sphere fits',
    table(
      ['set', 'k', 'connected (%)', 'longest edge', 'most frequent', 'mean', 'deviation', 'residual'],
      sets.flatMap(({ name }) =>
        TOLD.map((k) => {
          const cell = (what: string, show: (value: number) => string) => figures.cell(`${name}-${what}-k${k}`, show);
          const lengths = ['longest-edge', 'mode', 'mean', 'deviation'].map((what) => cell(what, short));
          return [
            name,
            String(k),
            cell('connected', percent),
            ...lengths,
            cell('residual', (x) => x.toFixed(2)) || 'none',
          ];
        }),
      ),
    ),
    'Distances along the graph, in radians where angles are compared. Only the largest connected part of a graph is measured: "connected" is its share of the vectors. The residual is the root mean square of what the fit leaves of log p.',
    "There is no estimate where distances are not distributed as on a sphere. That is so if the most frequent distance is no longer than the longest edge, if it is more than a standard deviation from the mean, if less than half of the vectors hang together (these are the safeguards of the authors' code), or if the highest peak is less than half as wide as the whole (ours: two clouds). Near its peak the fit is 1 + (4/π²)·(r/σ)², so that without the safeguards such sets get 2 or 3, or far too much, whatever their dimension.",
    refusedSets(data),
    '## The estimators',
    [
      `- **Graph** is the paper's (Gong et al., after Granata and Carnevale). It takes the lengths of shortest paths on a graph of the k nearest neighbours, from ${grouped(sources)} points to all, and compares their distribution with that on a sphere, from two standard deviations of the peak below the most frequent distance up to it, and not below the longest edge. In many dimensions the distribution has a hump for each number of edges, so it is smoothed by half an edge first; the authors' code does not smooth.`,
      '- **Two nearest** is by Facco et al.',
      `- **Likelihood** is by Levina and Bickel, with the average of MacKay and Ghahramani, of ${neighbours} neighbours.`,
    ].join('\n'),
    'Distances are angles, except where a set says otherwise.',
    '## The sets',
    [
      '- **sphere-d**: uniform on a sphere of d dimensions; *noisy*: with noise of 0.03 in every coordinate',
      '- **curved-d**: the synthetic background, a curved manifold of d dimensions',
      ...sets.filter(({ distance }) => distance !== 'angle').map(({ name, source }) => `- **${name}**: ${source}`),
      ...real.map(({ name, source }) => `- **${name}**: ${source}`),
    ].join('\n'),
  ]);
  return { markdown, svg: await plot(data) };
}

const short = (length: number) => length.toPrecision(3);

/** What is said instead of a number. */
function refusedSets({ parameters: { sets } }: Data<DimensionParameters>): string {
  const said = sets.flatMap(({ name, refusals }) =>
    Object.entries(refusals)
      .filter(([k]) => TOLD.includes(Number(k)))
      .map(([k, why]) => `- **${name}**, k = ${k}: ${why}`),
  );
  return said.length === 0 ? 'Here every set has an estimate.' : said.join('\n');
}

/** The worst relative errors of each estimator where the dimension is known. */
function offBy(data: Data<DimensionParameters>): string {
  const figures = new Figures(data);
  const known = data.parameters.sets.filter(
    ({ name, distance }) => figures.has(`${name}-known`) && distance === 'angle',
  );
  const signed = (off: number) => `${off < 0 ? '−' : '+'}${Math.abs(off)} %`;
  return ESTIMATORS.map(([estimator, title]) => {
    const errors = known
      .filter(({ name }) => figures.has(`${name}-${estimator}`))
      .map(({ name }) =>
        Math.round(100 * (figures.value(`${name}-${estimator}`) / figures.value(`${name}-known`) - 1)),
      );
    return `${signed(Math.min(...errors))} to ${signed(Math.max(...errors))} (${title})`;
  }).join(', ');
}

function plot(data: Data<DimensionParameters>): Promise<string> {
  const { sets } = data.parameters;
  const figures = new Figures(data);
  const estimators = [...ESTIMATORS, ['known', 'known'] as const];
  const values = sets.flatMap(({ name }) =>
    estimators
      .filter(([estimator]) => figures.has(`${name}-${estimator}`))
      .map(([estimator, title]) => ({ set: name, estimator: title, value: figures.value(`${name}-${estimator}`) })),
  );
  return plotted({
    $schema: SCHEMA,
    title: {
      text: 'Intrinsic dimension by three estimators',
      subtitle: 'manifolds of known dimension (black bars), and real embeddings',
    },
    width: 460,
    height: { step: 34 },
    data: { values },
    encoding: {
      y: { field: 'set', type: 'nominal', sort: sets.map(({ name }) => name), title: null, axis: { grid: true } },
      x: {
        field: 'value',
        type: 'quantitative',
        title: 'dimensions',
        scale: { domain: [0, Math.ceil(Math.max(...values.map(({ value }) => value)) / 5) * 5] },
      },
      ...bySeries(
        'estimator',
        estimators.map(([, title]) => title),
        {
          colours: ['#0072B2', '#E69F00', '#009E73', '#000000'],
          shapes: ['circle', 'square', 'triangle-up', 'M0,-1.6L0,1.6'],
        },
      ),
    },
    mark: { type: 'point', size: 90, strokeWidth: 2.5, opacity: 1 },
  });
}
