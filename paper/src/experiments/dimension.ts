// Intrinsic dimension of the data sets, by three estimators, beside manifolds whose dimension is
// known, sets that are no manifolds, and the estimates that the paper reports.

import {
  type Distance,
  graphDistanceDimension,
  likelihoodDimension,
  nearest,
  recommendedDimensions,
  twoNearestDimension,
} from '@hers/training/dimension';
import { Random } from '@hers/vectors/random';
import { identities } from '@hers/vectors/synthetic';
import { againWith, DATA_OPTION, datasetOf } from '../data/data.ts';
import type { DatasetName } from '../data/datasets.ts';
import { curvedManifold } from '../data/manifold.ts';
import { type Data, type Experiment, type Figure, record } from '../lab/experiment.ts';
import { INTRINSIC } from '../lab/published.ts';
import { progress } from '../lab/report.ts';
import { wholeNumber } from '../lab/runner.ts';

/** Neighbours in the graph, as Gong et al. vary them; 4 is the default of their code, 9 is ours. */
const GRAPHS = [4, 7, 9, 15];
const NEIGHBOURS = 20;
const SETS: readonly DatasetName[] = ['faces', 'text', 'pictures'];

export interface DimensionParameters {
  readonly neighbours: number;
  readonly graphs: readonly number[];
  readonly sources: number;
  readonly sets: readonly {
    readonly name: string;
    readonly source: string;
    readonly distance: Distance;
    readonly vectors: number;
    readonly dimension: number;
    /** The dimensions to try. */
    readonly recommended: readonly number[];
    /** Why there is no estimate by a graph, by its k. */
    readonly refusals: Readonly<Record<string, string>>;
  }[];
}

type MeasuredSet = DimensionParameters['sets'][number];

interface Sample {
  readonly name: string;
  readonly source: string;
  readonly vectors: Float32Array;
  readonly dimension: number;
  /** Angles unless given. */
  readonly distance?: Distance;
  /** Its intrinsic dimension, where that is known. */
  readonly known?: number;
}

export const dimension: Experiment = {
  name: 'dimension',
  summary: 'intrinsic dimension of faces, texts and pictures by three estimators, checked on known manifolds',
  options: {
    data: DATA_OPTION,
    sources: { type: 'string', help: 'points from which distances along the graph are measured (500)' },
  },
  async measure(values): Promise<Data<DimensionParameters>> {
    const small = values.small === true;
    const sources = wholeNumber(values, 'sources', small ? 60 : 500);
    const results: Figure[] = [];
    const sets: MeasuredSet[] = [];
    const measure = async (sample: Sample) => {
      const { figures, set } = await estimates(sample, sources);
      results.push(...figures);
      sets.push(set);
    };
    for (const sample of manifolds(small ? 300 : 5000)) await measure(sample);
    for (const name of small ? SETS.slice(0, 1) : SETS) await measure(await datasetOf(name, values));
    for (const [name, value] of Object.entries(INTRINSIC))
      results.push({ name: `published-${name}`, value, unit: 'dimensions', source: 'published' });
    const parameters = { neighbours: NEIGHBOURS, graphs: GRAPHS, sources, sets };
    return record('dimension', values, { parameters, results }, againWith(values));
  },
};

async function estimates(sample: Sample, sources: number): Promise<{ figures: Figure[]; set: MeasuredSet }> {
  const { name, source, vectors, dimension, distance = 'angle', known } = sample;
  progress(`${name}: neighbours`);
  let said = performance.now();
  const neighbours = await nearest(vectors, dimension, NEIGHBOURS, {
    distance,
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
  const local = { 'two-nearest': twoNearestDimension(neighbours), likelihood: likelihoodDimension(neighbours) };
  const figure = (ending: string, value: number | undefined, unit = 'dimensions'): Figure[] =>
    value === undefined ? [] : [{ name: `${name}-${ending}`, value, unit, source: 'measured' }];
  const figures = [
    ...graphs.flatMap((graph) => {
      const { k } = graph;
      return [
        ...figure(`graph-k${k}`, graph.dimension),
        ...figure(`connected-k${k}`, graph.connected, 'of vectors'),
        ...figure(`residual-k${k}`, graph.residual, 'of log p'),
        ...figure(`longest-edge-k${k}`, graph.longestEdge, 'distance'),
        ...figure(`mode-k${k}`, graph.mode, 'distance'),
        ...figure(`mean-k${k}`, graph.mean, 'distance'),
        ...figure(`deviation-k${k}`, graph.deviation, 'distance'),
      ];
    }),
    ...Object.entries(local).flatMap(([ending, value]) => figure(ending, value)),
    ...figure('known', known).map((each) => ({ ...each, source: 'computed' as const })),
  ];
  const found = [...graphs.flatMap((graph) => graph.dimension ?? []), ...Object.values(local)];
  return {
    figures,
    set: {
      ...{ name, source, distance, vectors: vectors.length / dimension, dimension },
      recommended: recommendedDimensions(found, dimension),
      refusals: Object.fromEntries(graphs.flatMap(({ k, refusal }) => (refusal === undefined ? [] : [[k, refusal]]))),
    },
  };
}

/**
 * Vectors on manifolds whose dimension is known; the last two sets are no manifolds as they are
 * compared.
 */
function manifolds(count: number): Sample[] {
  const dimension = 64;
  const sphere = (intrinsic: number, noise: number) => {
    const random = new Random();
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
  const normal = (intrinsic: number) => {
    const random = new Random();
    random.seed(intrinsic, 8);
    const own = new Float64Array(count * intrinsic);
    random.fill(own, 1);
    const out = new Float32Array(count * dimension);
    for (let i = 0; i < own.length; i++) out[Math.floor(i / intrinsic) * dimension + (i % intrinsic)] = own[i];
    return out;
  };
  const scaled = (vectors: Float32Array, length: (gauss: number, place: number) => number) => {
    const random = new Random();
    random.seed(1, 9);
    const gauss = new Float64Array(count);
    random.fill(gauss, 1);
    return vectors.map((x, i) => x * length(gauss[Math.floor(i / dimension)], Math.floor(i / dimension)));
  };
  const curved = (intrinsic: number) =>
    identities(count, 1, dimension, {
      noise: 0,
      centres: curvedManifold(dimension, { intrinsic, similarity: 0.2 }),
    }).gallery().vectors;
  return [
    ...[4, 8, 16].map((known) => ({
      name: `sphere-${known}`,
      source: `uniform on a sphere of ${known} dimensions`,
      known,
      vectors: sphere(known, 0),
      dimension,
    })),
    {
      name: 'sphere-8-noisy',
      source: 'uniform on a sphere of 8 dimensions, with noise of 0.03 in every coordinate',
      known: 8,
      vectors: sphere(8, 0.03),
      dimension,
    },
    ...[4, 8].map((known) => ({
      name: `curved-${known}`,
      source: `the synthetic background: a curved manifold of ${known} dimensions`,
      known,
      vectors: curved(known),
      dimension,
    })),
    {
      name: 'lengths-8',
      source: 'uniform on a sphere of 8 dimensions, with log-normal lengths, compared by distance',
      known: 8,
      vectors: scaled(sphere(8, 0), (gauss) => Math.exp(gauss)),
      dimension,
      distance: 'euclidean',
    },
    {
      name: 'halo-16',
      source: 'normal in 16 dimensions, every fifth vector 20 times as far out, compared by distance',
      known: 16,
      vectors: scaled(normal(16), (_, place) => (place % 5 === 0 ? 20 : 1)),
      dimension,
      distance: 'euclidean',
    },
  ];
}
