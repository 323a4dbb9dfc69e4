// The paper's Table 6: precision at 10 with and without the ingredients of DeepMDS++, by its
// protocol.

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { FULL } from '../data/compressor-looks.ts';
import { compressed, keep, keptName, MODELS_OPTION, STEPS_OPTION, stepsOf } from '../data/compressors.ts';
import { againWith, countsOf, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, splitOf } from '../data/data.ts';
import { type Part, splitByLabel } from '../data/datasets.ts';
import { type Counts, type Data, type Experiment, earlierRun, type Figure, record } from '../lab/experiment.ts';
import { TABLE_6 } from '../lab/published.ts';
import { progress } from '../lab/report.ts';
import { type Values, wholeNumber, wholeNumbers } from '../lab/runner.ts';
import { fifths, type Retrieval, retrieval } from '../metrics/retrieval.ts';
import { mean } from '../metrics/statistics.ts';
import { compressorsIn, prepare, type Run, standingOf, trainRuns } from './network-runs.ts';
import { MINUTES_OPTION, minutesOf, PARALLEL_OPTION, parallelOf, STATE_OPTION, withState } from './networks.ts';
import { FIRST_AXES, firstAxes } from './pictures.ts';

/** The column that Table 6 does not have. */
const OURS = 'without-covariance';

/** The columns of Table 6, and ours. */
const VARIANTS = [
  { name: 'deepmds++', method: 'deepmds++', settings: {} },
  { name: 'without-mining', method: 'deepmds++', settings: { pairs: 'balanced' } },
  { name: OURS, method: 'deepmds++', settings: { covarianceWeight: 0 } },
  { name: 'deepmds', method: 'deepmds', settings: {} },
] as const;

/** Networks that begin with the same principal axes. */
export interface Beginning {
  readonly axes: number;
  /** That they compress to, the most first. */
  readonly dimensions: readonly number[];
}

export interface AblationParameters {
  readonly data: string;
  readonly split: string;
  /** Before compression. */
  readonly fullDimension: number;
  readonly beginnings: readonly Beginning[];
  readonly dimensions: readonly number[];
  /** Of each stage. */
  readonly steps: number;
  readonly seeds: number;
  readonly training: Counts;
  readonly measured: Counts;
  readonly probes: number;
  /** CPU time of all training. */
  readonly hours: number;
  /** Runs that are not over, in words. */
  readonly unfinished: readonly string[];
  /** Runs with fewer steps, the fewest first; their results begin with `steps<number>-`. */
  readonly shorter: readonly Shorter[];
}

export interface Shorter {
  readonly steps: number;
  readonly date: string;
  readonly command: string;
}

export const ablation: Experiment = {
  name: 'ablation',
  summary: 'precision at 10 with and without hard mining and the covariance penalty',
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    dimensions: DIMENSIONS_OPTION,
    axes: {
      type: 'string',
      help: `principal axes that networks begin with (${FIRST_AXES}); half as many again as the dimension where that is more`,
    },
    models: MODELS_OPTION,
    steps: STEPS_OPTION,
    seeds: { type: 'string', help: 'how many seeds to train with; their mean is the result (3)' },
    shorter: {
      type: 'string',
      help: 'the data of such a run with fewer steps (ablation.json), whose first seed is to stand beside this one',
    },
    state: STATE_OPTION,
    parallel: PARALLEL_OPTION,
    minutes: MINUTES_OPTION,
  },
  async measure(values): Promise<Data<AblationParameters>> {
    const small = values.small === true;
    const split = splitOf(values);
    const [parallel, minutes] = [parallelOf(values), minutesOf(values)];
    const dimensions = wholeNumbers(values.dimensions, small ? [8] : [256, 128, 64, 32, 16]).toSorted((a, b) => b - a);
    const steps = small && values.steps === undefined ? 50 : stepsOf(values);
    const seeds = wholeNumber(values, 'seeds', small ? 1 : 3);
    const shorter = await shorterRuns(values, steps);
    const data = await datasetOf('pictures', values);
    const { training, held } = splitByLabel(data, split);
    const probes = fifths(held.labels);
    const searched = (part: Part) => retrieval(part, probes, { apart: true });
    const results = figures(`${FULL}-${data.dimension}`, [searched(held)]);
    const unfinished: string[] = [];
    let seconds = 0;
    return withState(values, async (state) => {
      const until = Date.now() + minutes * 60_000;
      const beginnings: Beginning[] = [];
      for (const begun of beginningsOf(dimensions, wholeNumber(values, 'axes', FIRST_AXES))) {
        const axes = await firstAxes(training, held, values, begun.axes);
        const beginning = { ...begun, axes: axes.held.dimension };
        beginnings.push(beginning);
        if (axes.held !== held) results.push(...figures(`pca-${beginning.axes}`, [searched(axes.held)]));
        const folder = join(state, String(beginning.axes));
        const runs = runsOf(beginning.dimensions.at(-1)!, seeds, steps);
        await prepare(folder, { dimension: beginning.axes, runs }, axes.training);
        await trainRuns(folder, parallel, Math.max(0, until - Date.now()) / 60_000);
        const found = new Map<string, Retrieval[]>();
        for (const run of runs) {
          const { done = 0, cpuSeconds = 0 } = (await standingOf(folder, run)) ?? {};
          seconds += cpuSeconds;
          if (done < 1)
            unfinished.push(`${run.name} to ${beginning.dimensions.join(', ')} (${Math.round(100 * done)} %)`);
          const variant = run.name.replace(/-seed\d+$/, '');
          for (const compressor of await compressorsIn(folder, run)) {
            const { outputDimension, metadata } = compressor;
            if (!beginning.dimensions.includes(outputDimension)) continue;
            const name = `${variant}-${outputDimension}`;
            if (typeof values.models === 'string' && run.method === variant) {
              const fitting = { dimension: outputDimension, seed: run.seed, settings: run.settings };
              await mkdir(values.models, { recursive: true });
              await keep(join(values.models, keptName(run.method, axes.training, fitting)), compressor.save());
            }
            const one = searched(await compressed(axes.held, (vectors) => compressor.transform(vectors)));
            progress(`${name}, seed ${run.seed}: ${one.precisionAt10.toFixed(4)}`);
            found.set(name, [...(found.get(name) ?? []), one]);
            results.push(...seedFigures(`${name}-seed${run.seed}`, one, metadata.figures.penaltyShare));
          }
        }
        for (const [name, each] of found) results.push(...figures(name, each));
      }
      const parameters = {
        ...{ data: data.source, split, fullDimension: data.dimension, beginnings, dimensions, steps, seeds },
        ...{ training: countsOf(training), measured: countsOf(held), probes: probes.length },
        ...{ hours: Number((seconds / 3600).toFixed(3)), unfinished, shorter: shorter.runs },
      };
      const { state: _, parallel: __, minutes: ___, shorter: file, ...others } = values;
      const again = `${againWith(others)}${file === undefined ? '' : ' --shorter <file>'}`;
      const measured = { parameters, results: [...results, ...shorter.figures, ...published()] };
      return record('ablation', values, measured, again);
    });
  },
};

/** Networks to more dimensions begin with more of them. */
export function beginningsOf(dimensions: readonly number[], axes: number): Beginning[] {
  const [fewer, more] = [dimensions.filter((each) => each < axes), dimensions.filter((each) => each >= axes)];
  return [
    ...(fewer.length > 0 ? [{ axes, dimensions: fewer }] : []),
    ...(more.length > 0 ? [{ axes: Math.ceil(1.5 * Math.max(...more)), dimensions: more }] : []),
  ];
}

/** What the first seed reached after fewer steps, by earlier runs of this experiment. */
async function shorterRuns({ shorter }: Values, steps: number): Promise<{ runs: Shorter[]; figures: Figure[] }> {
  if (typeof shorter !== 'string') return { runs: [], figures: [] };
  const { date, command, parameters, results } = await earlierRun<AblationParameters>(shorter, 'ablation');
  if (!(parameters.steps < steps)) throw new RangeError(`${shorter} is no run with fewer than ${steps} steps`);
  const own = VARIANTS.flatMap(({ name }) =>
    results
      .filter((figure) => new RegExp(`^${name.replaceAll('+', '\\+')}-\\d+-seed1$`).test(figure.name))
      .map((figure) => ({ ...figure, name: shorterName(parameters.steps, figure.name.replace('-seed1', '')) })),
  );
  return {
    runs: [...parameters.shorter, { steps: parameters.steps, date, command }],
    figures: [...results.filter(({ name }) => name.startsWith(SHORTER)), ...own],
  };
}

const SHORTER = 'steps';
export const shorterName = (steps: number, name: string): string => `${SHORTER}${steps}-${name}`;

/** The columns of the paper with every seed, then ours: time may be over before all is trained. */
function runsOf(dimension: number, seeds: number, steps: number): Run[] {
  const numbers = Array.from({ length: seeds }, (_, i) => i + 1);
  const runs = numbers.flatMap((seed) =>
    VARIANTS.map(({ name, method, settings }): Run => {
      const own = { settings: { ...settings, steps }, threads: 1 };
      return { name: `${name}-seed${seed}`, method, dimension, seed, validation: 0, ...own };
    }),
  );
  const isOurs = ({ name }: Run) => name.startsWith(OURS);
  return [...runs.filter((run) => !isOurs(run)), ...runs.filter(isOurs)];
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

function published(): Figure[] {
  const names = VARIANTS.map(({ name }) => name).filter((name) => name !== OURS);
  return Object.entries(TABLE_6.rows).flatMap(([dimension, found]) =>
    found.map((value, i): Figure => {
      return { name: `published-${names[i]}-${dimension}`, value, unit: 'precision at 10', source: 'published' };
    }),
  );
}
