// Intrinsic dimension of the data sets, by three estimators, beside manifolds whose dimension is
// known and the estimates that the paper reports.

import { graphDistanceDimension, likelihoodDimension, nearest, twoNearestDimension } from '@hers/compress/dimension';
import { Random } from '@hers/vectors/random';
import { identities } from '@hers/vectors/synthetic';
import type { DatasetName } from '../datasets.ts';
import { curvedManifold } from '../manifold.ts';
import { progress } from '../report.ts';
import { wholeNumber } from '../runner.ts';
import { againWith, DATA_OPTION, datasetOf } from './data.ts';
import type { Data, Experiment, Figure } from './experiment.ts';
import { INTRINSIC } from './published.ts';
import { record } from './record.ts';

/** Neighbours in the graph, as Gong et al. vary them. */
const GRAPHS = [4, 7, 9, 15];
const NEIGHBOURS = 20;
const SETS: readonly DatasetName[] = ['faces', 'text', 'pictures'];

export interface DimensionParameters {
  readonly neighbours: number;
  readonly graphs: readonly number[];
  readonly sources: number;
  readonly distance: string;
  readonly sets: readonly {
    readonly name: string;
    readonly source: string;
    readonly vectors: number;
    readonly dimension: number;
  }[];
}

interface Sample {
  readonly name: string;
  readonly source: string;
  readonly vectors: Float32Array;
  readonly dimension: number;
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
    const sets: DimensionParameters['sets'][number][] = [];
    const measure = async (sample: Sample) => {
      const { name, source, vectors, dimension } = sample;
      results.push(...(await estimates(sample, sources)));
      sets.push({ name, source, vectors: vectors.length / dimension, dimension });
    };
    for (const sample of manifolds(small ? 300 : 5000)) await measure(sample);
    for (const name of small ? SETS.slice(0, 1) : SETS) await measure(await datasetOf(name, values));
    for (const [name, value] of Object.entries(INTRINSIC))
      results.push({ name: `published-${name}`, value, unit: 'dimensions', source: 'published' });
    const parameters = { neighbours: NEIGHBOURS, graphs: GRAPHS, sources, distance: 'angle', sets };
    return record('dimension', values, { parameters, results }, againWith(values));
  },
};

async function estimates({ name, vectors, dimension, known }: Sample, sources: number): Promise<Figure[]> {
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
  const figure = (ending: string, value: number, unit = 'dimensions'): Figure => ({
    name: `${name}-${ending}`,
    value,
    unit,
    source: 'measured',
  });
  return [
    ...graphs.map(({ dimension: found }, i) => figure(`graph-k${GRAPHS[i]}`, found)),
    figure('connected', Math.min(...graphs.map(({ connected }) => connected)), 'of vectors'),
    figure('two-nearest', twoNearestDimension(neighbours)),
    figure('likelihood', likelihoodDimension(neighbours)),
    ...(known === undefined ? [] : [{ ...figure('known', known), source: 'computed' } as const]),
  ];
}

/** Unit vectors on manifolds whose dimension is known. */
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
  ];
}
