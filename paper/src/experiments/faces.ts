// The form of the paper's Table 4: rank-1 identification of faces against the dimension, for every
// compressor.

import type { MethodName } from '@hers/training';
import { type Evaluation, evaluation, matedPlaces, scoreMatrix } from '@hers/vectors/accuracy';
import { FULL } from '../data/compressor-looks.ts';
import {
  COMPRESSORS_OPTION,
  compressed,
  compressorsOf,
  fitted,
  fittingOf,
  MODELS_OPTION,
  STEPS_OPTION,
  stepsOf,
} from '../data/compressors.ts';
import { againWith, countsOf, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, splitOf } from '../data/data.ts';
import { described, type Part, splitByLabel } from '../data/datasets.ts';
import { type Counts, type Data, type Experiment, type Figure, record } from '../lab/experiment.ts';
import { TABLE_4 } from '../lab/published.ts';
import { progress } from '../lab/report.ts';
import { type Values, wholeNumber, wholeNumbers } from '../lab/runner.ts';
import { type ClusteredMean, clusteredMean, mateRanks, rankAccuracy } from '../metrics/identification.ts';
import { mean } from '../metrics/statistics.ts';

const FAR = 1e-4;
const FPIR = 0.01;

export interface FacesParameters {
  readonly data: string;
  readonly split: string;
  /** Before compression. */
  readonly fullDimension: number;
  readonly dimensions: readonly number[];
  readonly compressors: readonly string[];
  readonly seeds: number;
  readonly training: Counts;
  readonly gallery: Counts;
  readonly probes: number;
  /** People that the probes are of, and probes of the one with the most. */
  readonly persons: number;
  readonly mostOfOne: number;
  /** People with one picture, who are no probes. */
  readonly strangers: number;
  readonly steps: number;
  readonly far: number;
  readonly fpir: number;
}

interface Row {
  readonly compressor: string;
  readonly dimension: number;
  /** One for each seed. */
  readonly rank1: readonly number[];
  /** For each probe, the share of the seeds with which its mate comes first. */
  readonly found: Float64Array;
  readonly rank10: number;
  /** These two are missing where fewer than three errors are expected at their rate. */
  readonly tar: number | undefined;
  readonly fnir: number | undefined;
}

/** A compressor against another at the same dimension, probe by probe. */
interface Difference {
  readonly compressor: string;
  readonly baseline: string;
  readonly dimension: number;
  readonly difference: ClusteredMean;
}

export const faces: Experiment = {
  name: 'faces',
  summary: 'rank-1 identification of faces against the dimension, for every compressor',
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    dimensions: DIMENSIONS_OPTION,
    compressors: COMPRESSORS_OPTION,
    models: MODELS_OPTION,
    steps: STEPS_OPTION,
    seeds: { type: 'string', help: 'how many seeds to fit with; their mean is the result (1)' },
  },
  async measure(values): Promise<Data<FacesParameters>> {
    const small = values.small === true;
    const split = splitOf(values);
    const dimensions = wholeNumbers(values.dimensions, small ? [8, 4] : [64, 32, 16]);
    const seeds = wholeNumber(values, 'seeds', 1);
    const steps = stepsOf(values);
    const compressors = compressorsOf(values, small ? ['pca', 'lda'] : undefined);
    const data = await datasetOf('faces', values);
    const { training, held } = splitByLabel(data, split);
    progress(`fitting on ${described(training, 'people')}, measuring on ${described(held, 'people')}`);
    const probes = matedPlaces(held.labels);
    const people = Int32Array.from(probes, (place) => held.labels[place]);
    const rows: Row[] = [row(FULL, held, [mateRanks(held, probes)])];
    for (const dimension of dimensions)
      for (const compressor of compressors)
        rows.push(await searched(compressor, { training, held, probes, dimension, seeds, values }));
    const parameters = {
      ...{ data: data.source, split, fullDimension: data.dimension, dimensions, compressors, seeds },
      ...{ training: countsOf(training), gallery: countsOf(held), probes: probes.length },
      ...{ persons: new Set(people).size, mostOfOne: mostOfOne(people) },
      ...{ strangers: held.labels.length - probes.length, steps, far: FAR, fpir: FPIR },
    };
    const results = [
      ...rows.flatMap((each) => figures(each, people)),
      ...comparisons(rows, people).flatMap(differenceFigures),
      ...published(),
    ];
    return record('faces', values, { parameters, results }, againWith(values));
  },
};

const measured = (name: string, value: number, unit: string): Figure => ({ name, value, unit, source: 'measured' });

function figures({ compressor, dimension, rank1, found, rank10, tar, fnir }: Row, people: Int32Array): Figure[] {
  const name = `${compressor}-${dimension}`;
  const { mean, error, clusterMean, clusterError } = clusteredMean(found, people);
  return [
    measured(name, mean, 'rank-1'),
    measured(`${name}-error`, error, 'standard error'),
    ...(rank1.length > 1 ? rank1.map((value, i) => measured(`${name}-seed${i + 1}`, value, 'rank-1')) : []),
    measured(`${name}-person`, clusterMean, 'rank-1, mean of people'),
    measured(`${name}-person-error`, clusterError, 'standard error'),
    measured(`${name}-rank10`, rank10, 'rank-10'),
    ...(tar === undefined ? [] : [measured(`${name}-tar`, tar, `TAR at FAR ${FAR}`)]),
    ...(fnir === undefined ? [] : [measured(`${name}-fnir`, fnir, `FNIR at FPIR ${FPIR}`)]),
  ];
}

function differenceFigures({ compressor, baseline, dimension, difference }: Difference): Figure[] {
  const name = `${compressor}-${dimension}-minus-${baseline}`;
  return [
    measured(name, difference.mean, 'rank-1 difference'),
    measured(`${name}-error`, difference.error, 'standard error'),
  ];
}

function published(): Figure[] {
  return TABLE_4.flatMap(({ name, ranks }) =>
    ranks.map(([dimension, value]): Figure => {
      return { name: `published-${name}-${dimension}`, value, unit: 'rank-1', source: 'published' };
    }),
  );
}

interface Search {
  readonly training: Part;
  readonly held: Part;
  readonly probes: Int32Array;
  readonly dimension: number;
  readonly seeds: number;
  readonly values: Values;
}

/** Fitted with every seed, and searched. */
async function searched(compressor: MethodName, search: Search): Promise<Row> {
  const { training, held, probes, dimension, seeds, values } = search;
  const ranks: Int32Array[] = [];
  let last = held;
  for (let seed = 1; seed <= seeds; seed++) {
    const fitting = { dimension, seed, ...fittingOf(values, compressor) };
    last = await compressed(held, await fitted(compressor, training, fitting));
    ranks.push(mateRanks(last, probes));
    progress(`${compressor}-${dimension}: ${rankAccuracy(ranks.at(-1)!, 1).toFixed(4)}`);
  }
  return row(compressor, last, ranks);
}

function mostOfOne(people: Int32Array): number {
  const counts = new Map<number, number>();
  for (const person of people) counts.set(person, (counts.get(person) ?? 0) + 1);
  return Math.max(...counts.values());
}

/** Ranks by every seed, and what is known of the vectors of the last one beside them. */
function row(compressor: string, last: Part, ranks: readonly Int32Array[]): Row {
  const { openSet, verification } = evaluated(last);
  const missedAt = (at: Evaluation['openSet']['at'], rate: number) =>
    at.find((each) => each.rate === rate)?.missed?.value;
  const fnmr = missedAt(verification.at, FAR);
  return {
    compressor,
    dimension: last.dimension,
    rank1: ranks.map((each) => rankAccuracy(each, 1)),
    found: Float64Array.from(ranks[0], (_, probe) => mean(ranks.map((each) => (each[probe] === 1 ? 1 : 0)))),
    rank10: rankAccuracy(ranks.at(-1)!, 10),
    tar: fnmr === undefined ? undefined : 1 - fnmr,
    fnir: missedAt(openSet.at, FPIR),
  };
}

/** As `hers report` counts, over all pairs. */
function evaluated({ vectors, dimension, labels }: Part): Evaluation {
  return evaluation(scoreMatrix(vectors, dimension), labels, {
    draws: 0,
    ranks: 1,
    impostors: Number.POSITIVE_INFINITY,
  });
}

/** Every compressor against PCA, and the best there is against LDA. */
function comparisons(rows: readonly Row[], people: Int32Array): Difference[] {
  const pairs = (compressor: string) => (compressor === 'auto' ? ['pca', 'lda'] : ['pca']);
  return rows.flatMap(({ compressor, dimension, found }) =>
    pairs(compressor).flatMap((baseline) => {
      const other = rows.find((row) => row.compressor === baseline && row.dimension === dimension);
      if (other === undefined || compressor === baseline || compressor === FULL) return [];
      const difference = clusteredMean(
        found.map((x, probe) => x - other.found[probe]),
        people,
      );
      return [{ compressor, baseline, dimension, difference }];
    }),
  );
}
