// The paper's Table 6: precision at 10 with and without the ingredients of DeepMDS++, by its
// protocol.

import { join } from 'node:path';
import { splitByLabel } from '../datasets.ts';
import { mean } from '../metrics/mean.ts';
import { fifths, type Retrieval, retrieval } from '../metrics/retrieval.ts';
import { progress } from '../report.ts';
import { wholeNumber, wholeNumbers } from '../runner.ts';
import { FULL } from './compressor-looks.ts';
import { compressed, keep, keptName, MODELS_OPTION, STEPS_OPTION, stepsOf } from './compressors.ts';
import { againWith, countsOf, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, splitOf } from './data.ts';
import type { Counts, Data, Experiment, Figure } from './experiment.ts';
import { compressorsIn, prepare, type Run, standingOf, trainRuns } from './network-runs.ts';
import { MINUTES_OPTION, minutesOf, PARALLEL_OPTION, parallelOf, STATE_OPTION, withState } from './networks.ts';
import { FIRST_AXES, firstAxes } from './pictures.ts';
import { TABLE_6 } from './published.ts';
import { record } from './record.ts';

/** The columns of Table 6, and one it does not have. */
const VARIANTS = [
  { name: 'deepmds++', method: 'deepmds++', settings: {} },
  { name: 'without-mining', method: 'deepmds++', settings: { pairs: 'balanced' } },
  { name: 'without-covariance', method: 'deepmds++', settings: { covarianceWeight: 0 } },
  { name: 'deepmds', method: 'deepmds', settings: {} },
] as const;

export interface AblationParameters {
  readonly data: string;
  readonly split: string;
  /**
   * Before compression, and after the principal axes that networks are trained on, where there are
   * fewer.
   */
  readonly fullDimension: number;
  readonly firstAxes: number;
  readonly dimensions: readonly number[];
  /** Of each stage. */
  readonly steps: number;
  readonly seeds: number;
  readonly training: Counts;
  readonly measured: Counts;
  readonly probes: number;
  /** Runs that are not over, in words. */
  readonly unfinished: readonly string[];
  /** A run with fewer steps, whose results have `shorter-` before their names. */
  readonly shorter?: { readonly steps: number; readonly date: string; readonly command: string };
}

export const ablation: Experiment = {
  name: 'ablation',
  summary: 'precision at 10 with and without hard mining and the covariance penalty',
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    dimensions: DIMENSIONS_OPTION,
    axes: { type: 'string', help: `principal axes that networks begin with (${FIRST_AXES})` },
    models: MODELS_OPTION,
    steps: STEPS_OPTION,
    seeds: { type: 'string', help: 'how many seeds to train with; their mean is the result (3)' },
    state: STATE_OPTION,
    parallel: PARALLEL_OPTION,
    minutes: MINUTES_OPTION,
  },
  async measure(values): Promise<Data<AblationParameters>> {
    const small = values.small === true;
    const split = splitOf(values);
    const [parallel, minutes] = [parallelOf(values), minutesOf(values)];
    const dimensions = wholeNumbers(values.dimensions, small ? [8] : [128, 64, 32, 16]).toSorted((a, b) => b - a);
    const steps = small && values.steps === undefined ? 50 : stepsOf(values);
    const seeds = wholeNumber(values, 'seeds', small ? 1 : 3);
    const data = await datasetOf('pictures', values);
    const { training, held } = splitByLabel(data, split);
    const axes = await firstAxes(training, held, values, wholeNumber(values, 'axes', FIRST_AXES));
    const probes = fifths(held.labels);
    const searched = (part: typeof held) => retrieval(part, probes, { apart: true });
    const results = figures(`${FULL}-${data.dimension}`, [searched(held)]);
    if (axes.held !== held) results.push(...figures(`pca-${axes.held.dimension}`, [searched(axes.held)]));
    return withState(values, async (folder) => {
      const runs = runsOf(dimensions.at(-1)!, seeds, steps);
      await prepare(folder, { dimension: axes.training.dimension, runs }, axes.training);
      await trainRuns(folder, parallel, minutes);
      const found = new Map<string, Retrieval[]>();
      const unfinished: string[] = [];
      for (const run of runs) {
        const done = (await standingOf(folder, run))?.done ?? 0;
        if (done < 1) unfinished.push(`${run.name} (${Math.round(100 * done)} %)`);
        for (const compressor of await compressorsIn(folder, run)) {
          const { outputDimension, metadata } = compressor;
          if (!dimensions.includes(outputDimension)) continue;
          const name = `${run.name.replace(/-seed\d+$/, '')}-${outputDimension}`;
          if (typeof values.models === 'string' && run.method === run.name.replace(/-seed\d+$/, '')) {
            const fitting = { dimension: outputDimension, seed: run.seed, settings: run.settings };
            await keep(join(values.models, keptName(run.method, axes.training, fitting)), compressor.save());
          }
          const one = searched(await compressed(axes.held, (vectors) => compressor.transform(vectors)));
          progress(`${name}, seed ${run.seed}: ${one.precisionAt10.toFixed(4)}`);
          found.set(name, [...(found.get(name) ?? []), one]);
          results.push(...seedFigures(`${name}-seed${run.seed}`, one, metadata.figures.penaltyShare));
        }
      }
      for (const [name, each] of found) results.push(...figures(name, each));
      const parameters = {
        ...{ data: data.source, split, fullDimension: data.dimension, firstAxes: axes.held.dimension },
        ...{ dimensions, steps, seeds, training: countsOf(training), measured: countsOf(held) },
        ...{ probes: probes.length, unfinished },
      };
      const { state: _, parallel: __, minutes: ___, ...others } = values;
      return record('ablation', values, { parameters, results: [...results, ...published()] }, againWith(others));
    });
  },
};

function runsOf(dimension: number, seeds: number, steps: number): Run[] {
  return Array.from({ length: seeds }, (_, i) => i + 1).flatMap((seed) =>
    VARIANTS.map(({ name, method, settings }): Run => {
      const own = { settings: { ...settings, steps }, threads: 1 };
      return { name: `${name}-seed${seed}`, method, dimension, seed, validation: 0, ...own };
    }),
  );
}

const measured = (name: string, value: number, unit: string): Figure => ({ name, value, unit, source: 'measured' });

/** Means over the seeds. */
function figures(name: string, found: readonly Retrieval[]): Figure[] {
  return [
    measured(name, mean(found.map(({ precisionAt10 }) => precisionAt10)), 'precision at 10'),
    measured(`${name}-map`, mean(found.map(({ meanAveragePrecision }) => meanAveragePrecision)), 'mAP of retrieval'),
  ];
}

function seedFigures(name: string, { precisionAt10 }: Retrieval, penaltyShare: number | undefined): Figure[] {
  return [
    measured(name, precisionAt10, 'precision at 10'),
    ...(penaltyShare === undefined ? [] : [measured(`${name}-penalty`, penaltyShare, 'share of the loss')]),
  ];
}

/** Table 6 has no column without the penalty alone. */
function published(): Figure[] {
  const names = VARIANTS.map(({ name }) => name).filter((name) => name !== 'without-covariance');
  return Object.entries(TABLE_6.rows).flatMap(([dimension, found]) =>
    found.map((value, i): Figure => {
      return { name: `published-${names[i]}-${dimension}`, value, unit: 'precision at 10', source: 'published' };
    }),
  );
}
