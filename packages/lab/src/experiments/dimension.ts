// Intrinsic dimension of the data sets, by three estimators, beside manifolds whose dimension is known and the estimates that the paper reports.

import { graphDistanceDimension, likelihoodDimension, nearest, twoNearestDimension } from '@hers/compress/dimension';
import type { DatasetName } from '../datasets.ts';
import { curvedManifold } from '../manifold.ts';
import { Gaussian } from '../random.ts';
import { machine, progress } from '../report.ts';
import { identities } from '../synthetic.ts';
import { againWith, DATA_OPTION, datasetOf } from './data.ts';
import { type Experiment, type Figure, type Outcome, wholeNumber } from './experiment.ts';
import { page, table, versions } from './markdown.ts';
import { render, SCHEMA } from './plot.ts';
import { INTRINSIC } from './published.ts';
import { whole } from './quantities.ts';

/** Neighbours in the graph, as Gong et al. vary them. */
const GRAPHS = [4, 7, 9, 15];
const NEIGHBOURS = 20;
const SETS: readonly DatasetName[] = ['faces', 'text', 'pictures'];

interface Estimates {
  readonly name: string;
  readonly what: string;
  readonly count: number;
  readonly dimension: number;
  /** What it is, where that is known. */
  readonly known?: number;
  /** For each k of GRAPHS. */
  readonly graph: readonly number[];
  /** The share of the vectors on the largest connected part of the graph, for the k with which it is least. */
  readonly connected: number;
  readonly two: number;
  readonly likelihood: number;
}

export const dimension: Experiment = {
  name: 'dimension',
  summary: 'intrinsic dimension of faces, texts and pictures by three estimators, checked on known manifolds',
  options: {
    data: DATA_OPTION,
    sources: { type: 'string', help: 'points from which distances along the graph are measured (500)' },
  },
  async run(values): Promise<Outcome> {
    const small = values.small === true;
    const sources = wholeNumber(values, 'sources', small ? 60 : 500);
    const rows: Estimates[] = [];
    for (const { name, what, known, vectors, dimension } of manifolds(small ? 300 : 5000))
      rows.push({ name, what, known, ...(await estimates(name, vectors, dimension, sources)) });
    for (const name of small ? SETS.slice(0, 1) : SETS) {
      const data = await datasetOf(name, values);
      rows.push({ name, what: data.source, ...(await estimates(name, data.vectors, data.dimension, sources)) });
    }
    const results: Figure[] = rows.flatMap(({ name, graph, connected, two, likelihood, known }): Figure[] => [
      ...graph.map(
        (value, i): Figure => ({ name: `${name}-graph-k${GRAPHS[i]}`, value, unit: 'dimensions', source: 'measured' }),
      ),
      { name: `${name}-connected`, value: connected, unit: 'of vectors', source: 'measured' },
      { name: `${name}-two-nearest`, value: two, unit: 'dimensions', source: 'measured' },
      { name: `${name}-likelihood`, value: likelihood, unit: 'dimensions', source: 'measured' },
      ...(known === undefined
        ? []
        : [{ name: `${name}-known`, value: known, unit: 'dimensions', source: 'computed' } as const]),
    ]);
    for (const [name, value] of Object.entries(INTRINSIC))
      results.push({ name: `published-${name}`, value, unit: 'dimensions', source: 'published' });
    const report = {
      bench: 'dimension',
      parameters: { neighbours: NEIGHBOURS, graphs: GRAPHS, sources, distance: 'angle', ...versions(), small },
      machine: machine(),
      results,
    };
    const markdown = page(
      'Intrinsic dimension',
      'dimension',
      [
        '![Estimates of intrinsic dimension](dimension.svg)',
        `How many numbers it takes to say where on its manifold a vector is. Distances are angles. "Graph" is the estimator that the paper uses (Gong et al., after Granata and Carnevale): lengths of shortest paths on a graph of the k nearest neighbours, from ${whole(sources)} points to all, whose distribution is compared with that on a sphere; here the distribution is smoothed by half an edge first, since in many dimensions it has a hump for each number of edges. Only the largest connected part of a graph is measured: "connected" is the share of the vectors that are on it, for the k with which it is least. "Two nearest" is Facco et al.'s, "likelihood" Levina and Bickel's with the average of MacKay and Ghahramani, of ${NEIGHBOURS} neighbours.`,
        table(
          [
            'set',
            'vectors',
            'in',
            'known',
            ...GRAPHS.map((k) => `graph, k = ${k}`),
            'connected (%)',
            'two nearest',
            'likelihood',
          ],
          rows.map((row) => [
            row.name,
            whole(row.count),
            whole(row.dimension),
            row.known === undefined ? '' : String(row.known),
            ...row.graph.map((value) => value.toFixed(1)),
            (100 * row.connected).toFixed(1),
            row.two.toFixed(1),
            row.likelihood.toFixed(1),
          ]),
        ),
        rows.map(({ name, what }) => `- **${name}**: ${what}`).join('\n'),
        `The paper reports ${INTRINSIC.arcface} for ArcFace faces, ${INTRINSIC['inception-resnet-v2']} for pictures by Inception-ResNet v2 and ${INTRINSIC.deepprint} for fingerprints, by the graph, without saying its k or the number of vectors. Other networks and other data were used here, so the figures need not agree.`,
        `On the manifolds of known dimension the estimates are off by ${offBy(rows)}. Noise in every coordinate is what the local estimators see first. An estimate says how many numbers would do for a map that follows the manifold, not how many a linear map or a small network needs: for that see [faces](faces.md).`,
      ],
      report,
      againWith(values),
    );
    return { report, markdown, svg: await plot(rows) };
  },
};

/** The worst relative errors of each estimator where the dimension is known. */
function offBy(rows: readonly Estimates[]): string {
  const known = rows.filter((row) => row.known !== undefined);
  const range = (name: string, of: (row: Estimates) => number) => {
    const errors = known.map((row) => Math.round(100 * (of(row) / row.known! - 1)));
    const signed = (percent: number) => `${percent < 0 ? '−' : '+'}${Math.abs(percent)} %`;
    return `${signed(Math.min(...errors))} to ${signed(Math.max(...errors))} (${name})`;
  };
  return [
    range('graph, k = 9', ({ graph }) => graph[GRAPHS.indexOf(9)]),
    range('two nearest', ({ two }) => two),
    range('likelihood', ({ likelihood }) => likelihood),
  ].join(', ');
}

async function estimates(name: string, vectors: Float32Array, dimension: number, sources: number) {
  progress(`${name}: neighbours`);
  let said = performance.now();
  const neighbours = await nearest(vectors, dimension, NEIGHBOURS, {
    distance: 'angle',
    onProgress(done, total) {
      if (performance.now() - said < 5000) return;
      said = performance.now();
      progress(`  ${done} of ${total}`);
    },
  });
  const graphs = GRAPHS.map((k) => {
    progress(`${name}: distances along the graph, k = ${k}`);
    return graphDistanceDimension(neighbours, { k, sources });
  });
  return {
    count: neighbours.count,
    dimension,
    graph: graphs.map(({ dimension: found }) => found),
    connected: Math.min(...graphs.map(({ connected }) => connected)),
    two: twoNearestDimension(neighbours),
    likelihood: likelihoodDimension(neighbours),
  };
}

/** Unit vectors on manifolds whose dimension is known. */
function manifolds(count: number) {
  const dimension = 64;
  const sphere = (intrinsic: number, noise: number) => {
    const random = new Gaussian();
    random.seed(intrinsic, 7);
    const vectors = new Float64Array(count * dimension);
    random.fill(vectors, noise);
    const own = new Float64Array(intrinsic + 1);
    const out = new Float32Array(count * dimension);
    for (let at = 0; at < out.length; at += dimension) {
      random.fill(own, 1);
      const norm = Math.hypot(...own);
      for (let c = 0; c < dimension; c++) out[at + c] = vectors[at + c] + (c <= intrinsic ? own[c] / norm : 0);
    }
    return out;
  };
  const curved = (intrinsic: number) =>
    identities(count, 1, dimension, {
      noise: 0,
      centres: curvedManifold(dimension, { intrinsic, similarity: 0.2 }),
    }).gallery().vectors;
  return [
    ...[4, 8, 16].map((known) => ({
      name: `sphere-${known}`,
      what: `uniform on a sphere of ${known} dimensions`,
      known,
      vectors: sphere(known, 0),
      dimension,
    })),
    {
      name: 'sphere-8-noisy',
      what: 'uniform on a sphere of 8 dimensions, with noise of 0.03 in every coordinate',
      known: 8,
      vectors: sphere(8, 0.03),
      dimension,
    },
    ...[4, 8].map((known) => ({
      name: `curved-${known}`,
      what: `the synthetic background: a curved manifold of ${known} dimensions`,
      known,
      vectors: curved(known),
      dimension,
    })),
  ];
}

function plot(rows: readonly Estimates[]): Promise<string> {
  const names = ['graph, k = 9', 'two nearest', 'likelihood', 'known'];
  const values = rows.flatMap(({ name, known, graph, two, likelihood }) => [
    { set: name, estimator: names[0], value: graph[GRAPHS.indexOf(9)] },
    { set: name, estimator: names[1], value: two },
    { set: name, estimator: names[2], value: likelihood },
    ...(known === undefined ? [] : [{ set: name, estimator: names[3], value: known }]),
  ]);
  return render({
    $schema: SCHEMA,
    title: {
      text: 'Intrinsic dimension by three estimators',
      subtitle: 'manifolds of known dimension (black bars), and real embeddings',
    },
    width: 460,
    height: { step: 34 },
    data: { values },
    encoding: {
      y: { field: 'set', type: 'nominal', sort: rows.map(({ name }) => name), title: null, axis: { grid: true } },
      x: {
        field: 'value',
        type: 'quantitative',
        title: 'dimensions',
        scale: { domain: [0, Math.ceil(Math.max(...values.map(({ value }) => value)) / 5) * 5] },
      },
      color: {
        field: 'estimator',
        type: 'nominal',
        title: null,
        scale: { domain: names, range: ['#0072B2', '#E69F00', '#009E73', '#000000'] },
      },
      shape: {
        field: 'estimator',
        type: 'nominal',
        title: null,
        scale: { domain: names, range: ['circle', 'square', 'triangle-up', 'M0,-1.6L0,1.6'] },
      },
    },
    mark: { type: 'point', size: 90, strokeWidth: 2.5, opacity: 1 },
  });
}
