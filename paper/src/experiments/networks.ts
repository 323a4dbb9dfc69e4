// The networks of the paper, trained for as long as its authors train theirs: learning curves on
// identities that were held out, and rank-1 of what was then trained on everybody.

import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Compressor, CurvePoint, MethodName } from '@hers/training';
import { matedPlaces } from '@hers/vectors/accuracy';
import {
  COMPRESSORS_OPTION,
  compressed,
  compressorsOf,
  fitted,
  keep,
  keptName,
  MODELS_OPTION,
  STEPS_OPTION,
  stepsOf,
} from '../data/compressors.ts';
import { againWith, countsOf, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, splitOf } from '../data/data.ts';
import { described, splitByLabel } from '../data/datasets.ts';
import { type Counts, type Data, type Experiment, type Figure, record } from '../lab/experiment.ts';
import { progress } from '../lab/report.ts';
import { type RunnerOption, UsageError, type Values, wholeNumber, wholeNumbers } from '../lab/runner.ts';
import { clusteredMean, mateRanks, rankAccuracy } from '../metrics/identification.ts';
import { mean } from '../metrics/statistics.ts';
import { compressorsIn, planOf, prepare, type Run, standingOf, trainRuns } from './network-runs.ts';

export const STATE_OPTION: RunnerOption = {
  type: 'string',
  help: 'a folder for what is trained, and for what is needed to go on; without it nothing is kept',
};
export const PARALLEL_OPTION: RunnerOption = { type: 'string', help: 'processes that train at a time (one a core)' };
export const MINUTES_OPTION: RunnerOption = {
  type: 'string',
  help: 'stop after so many, and report what there is; the same command goes on (no limit)',
};

/** Where the curve is measured: the default of `fit`. */
const HELD_OUT = 0.25;

export interface NetworksParameters {
  readonly data: string;
  readonly split: string;
  /** Before compression. */
  readonly fullDimension: number;
  readonly dimensions: readonly number[];
  readonly compressors: readonly string[];
  readonly seeds: number;
  /** Of each stage. */
  readonly steps: number;
  readonly training: Counts;
  readonly gallery: Counts;
  readonly probes: number;
  /** Of all runs together, each on so many cores of the machine that trained. */
  readonly hours: number;
  readonly trainedOn: readonly string[];
  /** Vectors that the curves are of: learned from. */
  readonly curveVectors: number;
  /** Runs that are not over, in words. */
  readonly unfinished: readonly string[];
}

export const networks: Experiment = {
  name: 'networks',
  summary: "the paper's networks trained for hours: learning curves, and rank-1 of faces over several seeds",
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    dimensions: DIMENSIONS_OPTION,
    compressors: COMPRESSORS_OPTION,
    steps: STEPS_OPTION,
    seeds: { type: 'string', help: 'how many seeds to train with; their mean is the result (3)' },
    'authors-end': {
      type: 'string',
      help: "the step at which each stage of the authors' variant ends, of those that its learning rate is planned for (the last)",
    },
    state: STATE_OPTION,
    models: MODELS_OPTION,
    parallel: PARALLEL_OPTION,
    minutes: MINUTES_OPTION,
  },
  async measure(values): Promise<Data<NetworksParameters>> {
    const small = values.small === true;
    const split = splitOf(values);
    const [parallel, minutes] = [parallelOf(values), minutesOf(values)];
    const dimensions = wholeNumbers(values.dimensions, small ? [8, 4] : [64, 32, 16]).toSorted((a, b) => b - a);
    const seeds = wholeNumber(values, 'seeds', small ? 1 : 3);
    const steps = small && values.steps === undefined ? 50 : stepsOf(values);
    const authorsEnd = values['authors-end'] === undefined ? undefined : wholeNumber(values, 'authors-end', steps);
    const compressors = compressorsOf(values, ['deepmds++authors', 'deepmds++', 'deepmds']);
    const data = await datasetOf('faces', values);
    const { training, held } = splitByLabel(data, split);
    progress(`training on ${described(training, 'people')}, measuring on ${described(held, 'people')}`);
    const probes = matedPlaces(held.labels);
    const people = Int32Array.from(probes, (place) => held.labels[place]);
    const results: Figure[] = [];
    const curves: Record<string, number[]> = {};
    const ranked = async (transform: (vectors: Float32Array) => Promise<Float32Array>) =>
      mateRanks(await compressed(held, transform), probes);
    for (const dimension of dimensions) {
      const pca = await ranked(await fitted('pca', training, { dimension }));
      results.push(figure(`pca-${dimension}`, rankAccuracy(pca, 1), 'rank-1'));
    }
    return withState(values, async (folder) => {
      const runs = runsOf(compressors, dimensions.at(-1)!, { seeds, steps, authorsEnd, parallel });
      await prepare(folder, { dimension: training.dimension, runs }, training);
      await trainRuns(folder, parallel, minutes);
      const unfinished: string[] = [];
      let [seconds, curveVectors] = [0, 0];
      const trainedOn = new Set<string>();
      const found = new Map<string, Int32Array[]>();
      // The plan of the folder says how many cores a run had: another machine may have made it.
      for (const run of (await planOf(folder)).runs) {
        const standing = await standingOf(folder, run);
        seconds += (standing?.seconds ?? 0) * run.threads;
        if (standing) trainedOn.add(standing.cpu ?? 'a machine that was not recorded');
        if ((standing?.done ?? 0) < 1) unfinished.push(`${run.name} (${Math.round(100 * (standing?.done ?? 0))} %)`);
        for (const compressor of await compressorsIn(folder, run)) {
          const { outputDimension } = compressor;
          if (!dimensions.includes(outputDimension)) continue;
          const name = `${run.method}-${outputDimension}`;
          if (run.validation > 0) {
            curveVectors = Math.max(curveVectors, compressor.metadata.figures.vectors);
            Object.assign(curves, curvesOf(name, compressor));
            continue;
          }
          if (typeof values.models === 'string') {
            // A stage that ended early has its end in its name.
            const whole = compressor.metadata.figures.steps === steps;
            const fitting = { dimension: outputDimension, seed: run.seed, settings: whole ? { steps } : run.settings };
            await mkdir(values.models, { recursive: true });
            await keep(join(values.models, keptName(run.method, training, fitting)), compressor.save());
          }
          const ranks = await ranked((vectors) => compressor.transform(vectors));
          found.set(name, [...(found.get(name) ?? []), ranks]);
          const rank1 = rankAccuracy(ranks, 1);
          progress(`${name}, seed ${run.seed}: ${rank1.toFixed(4)}`);
          results.push(
            figure(`${name}-seed${run.seed}`, rank1, 'rank-1'),
            ...ends(`${name}-seed${run.seed}`, compressor),
          );
        }
      }
      for (const [name, ranks] of found) {
        const hits = Float64Array.from(ranks[0], (_, probe) => mean(ranks.map((all) => (all[probe] === 1 ? 1 : 0))));
        const { mean: value, error } = clusteredMean(hits, people);
        results.push(figure(name, value, 'rank-1'), figure(`${name}-error`, error, 'standard error'));
        results.push(figure(`${name}-seeds`, ranks.length, 'seeds'));
      }
      const parameters = {
        ...{ data: data.source, split, fullDimension: data.dimension, dimensions, compressors, seeds, steps },
        ...{ training: countsOf(training), gallery: countsOf(held), probes: probes.length },
        ...{ hours: Number((seconds / 3600).toFixed(3)), trainedOn: [...trainedOn], curveVectors, unfinished },
      };
      const { state: _, parallel: __, minutes: ___, ...others } = values;
      return record('networks', values, { parameters, results, curves }, againWith(others));
    });
  },
};

const figure = (name: string, value: number, unit: string): Figure => ({ name, value, unit, source: 'measured' });

/** What training ended with. */
function ends(name: string, { metadata: { figures } }: Compressor): Figure[] {
  return [
    figure(`${name}-steps`, figures.steps, 'steps'),
    figure(`${name}-loss`, figures.loss, 'loss'),
    ...(figures.penaltyShare === undefined
      ? []
      : [figure(`${name}-penalty`, figures.penaltyShare, 'share of the loss')]),
  ];
}

/** The points of the stage that ends at this dimension, and the steps that they are at. */
function curvesOf(name: string, { metadata, outputDimension }: Compressor): Record<string, number[]> {
  const points = metadata.curves?.find(({ chain }) => chain.at(-1) === outputDimension)?.points ?? [];
  const of = (value: (point: CurvePoint) => number | undefined) =>
    points.flatMap((point) => {
      const found = value(point);
      return found === undefined ? [] : [Number(found.toPrecision(5))];
    });
  const all = {
    [`${name}-step`]: of(({ step }) => step),
    [`${name}-rank1`]: of(({ rank1 }) => rank1),
    [`${name}-loss`]: of(({ loss }) => loss),
    [`${name}-penalty`]: of(({ penaltyShare }) => penaltyShare),
  };
  return Object.fromEntries(Object.entries(all).filter(([, numbers]) => numbers.length > 0));
}

/** A curve for each method, and a network trained on everybody for each method and seed. */
function runsOf(
  compressors: readonly MethodName[],
  dimension: number,
  {
    seeds,
    steps,
    authorsEnd,
    parallel,
  }: { seeds: number; steps: number; authorsEnd: number | undefined; parallel: number },
): Run[] {
  const count = compressors.length * (seeds + 1);
  // The authors' variant takes three times as long as the others: it gets the cores that are left.
  const threads = (method: string) => (method === 'deepmds++authors' && parallel > count ? 2 : 1);
  return compressors.flatMap((method) => {
    const run = { method, dimension, threads: threads(method) };
    const ended = method === 'deepmds++authors' && authorsEnd !== undefined && { end: authorsEnd };
    const settings = { steps, ...ended };
    return [
      { ...run, name: `${method}-curve`, seed: 1, validation: HELD_OUT, settings: { ...settings, refit: false } },
      ...Array.from({ length: seeds }, (_, i) => {
        return { ...run, name: `${method}-seed${i + 1}`, seed: i + 1, validation: 0, settings };
      }),
    ];
  });
}

export const parallelOf = (values: Values): number => wholeNumber(values, 'parallel', availableParallelism());

/** Without a limit, twenty days: a timer of Node knows no more than 24. */
export function minutesOf({ minutes }: Values): number {
  if (minutes === undefined) return 28_800;
  if (Number(minutes) >= 0) return Number(minutes);
  throw new UsageError(`--minutes is a number, 0 or more, not ${JSON.stringify(minutes)}`);
}

/** In the folder that is named, or in one that goes away. */
export async function withState<T>({ state }: Values, work: (folder: string) => Promise<T>): Promise<T> {
  if (typeof state === 'string') return work(state);
  const folder = await mkdtemp(join(tmpdir(), 'hers-networks-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}
