// The page about intrinsic dimension.

import type { DimensionParameters } from './dimension.ts';
import type { Data, Rendered } from './experiment.ts';
import { Figures } from './figures.ts';
import { page, table } from './markdown.ts';
import { bySeries, render as plotted, SCHEMA } from './plot.ts';
import { INTRINSIC } from './published.ts';
import { grouped, percent } from './quantities.ts';

/** The graph that stands for the estimator where there is room for one. */
const SHOWN = 'graph-k9';

const ESTIMATORS: readonly (readonly [string, string])[] = [
  [SHOWN, 'graph, k = 9'],
  ['two-nearest', 'two nearest'],
  ['likelihood', 'likelihood'],
];

export async function render(data: Data<DimensionParameters>): Promise<Rendered> {
  const { neighbours, graphs, sources, sets } = data.parameters;
  const figures = new Figures(data);
  const real = sets.filter(({ name }) => !figures.has(`${name}-known`));
  const one = (value: number) => value.toFixed(1);
  const markdown = page(data, 'Intrinsic dimension', 'Estimates of intrinsic dimension', [
    'How many numbers it takes to say where on its manifold a vector is.',
    table(
      [
        'set',
        'vectors',
        'in',
        'known',
        ...graphs.map((k) => `graph, k = ${k}`),
        'connected (%)',
        'two nearest',
        'likelihood',
      ],
      sets.map(({ name, vectors, dimension }) => [
        name,
        grouped(vectors),
        grouped(dimension),
        figures.cell(`${name}-known`, String),
        ...graphs.map((k) => figures.cell(`${name}-graph-k${k}`, one)),
        figures.cell(`${name}-connected`, percent),
        figures.cell(`${name}-two-nearest`, one),
        figures.cell(`${name}-likelihood`, one),
      ]),
    ),
    `On manifolds of known dimension the estimates are off by ${offBy(data)}. The local estimators see noise in every coordinate first. An estimate says how many numbers would do for a map that follows the manifold. It does not say how many a linear map or a small network needs: for that see [faces](faces.md).`,
    `The paper reports ${INTRINSIC.arcface} for ArcFace faces, ${INTRINSIC['inception-resnet-v2']} for pictures by Inception-ResNet v2 and ${INTRINSIC.deepprint} for fingerprints, by the graph. It gives neither k nor the number of vectors, and its networks and data are others, so the figures need not agree.`,
    '## The estimators',
    [
      `- **Graph** is the paper's (Gong et al., after Granata and Carnevale). It takes the lengths of shortest paths on a graph of the k nearest neighbours, from ${grouped(sources)} points to all, and compares their distribution with that on a sphere. In many dimensions the distribution has a hump for each number of edges, so it is smoothed by half an edge first. Only the largest connected part of a graph is measured: "connected" is its share of the vectors, for the k with which it is least.`,
      '- **Two nearest** is by Facco et al.',
      `- **Likelihood** is by Levina and Bickel, with the average of MacKay and Ghahramani, of ${neighbours} neighbours.`,
    ].join('\n'),
    'Distances are angles.',
    '## The sets',
    [
      '- **sphere-d**: uniform on a sphere of d dimensions; *noisy*: with noise of 0.03 in every coordinate',
      '- **curved-d**: the synthetic background, a curved manifold of d dimensions',
      ...real.map(({ name, source }) => `- **${name}**: ${source}`),
    ].join('\n'),
  ]);
  return { markdown, svg: await plot(data) };
}

/** The worst relative errors of each estimator where the dimension is known. */
function offBy(data: Data<DimensionParameters>): string {
  const figures = new Figures(data);
  const known = data.parameters.sets.filter(({ name }) => figures.has(`${name}-known`));
  const signed = (off: number) => `${off < 0 ? '−' : '+'}${Math.abs(off)} %`;
  return ESTIMATORS.map(([estimator, title]) => {
    const errors = known.map(({ name }) =>
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
