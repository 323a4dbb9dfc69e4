// The chains of the paper's appendix, trained on data from the dimensions that it starts from: 512,
// 192 and 1536. Our faces have 128 dimensions, so these start from sentences and pictures, on their
// principal axes where they have more dimensions than the chain.

import { join } from 'node:path';
import { matedPlaces, unitVectors } from '@hers/vectors/accuracy';
import { compressed, fitted, fittingOf, MODELS_OPTION } from '../data/compressors.ts';
import { againWith, countsOf, DATA_OPTION, datasetOf, SPLIT_OPTION, splitOf } from '../data/data.ts';
import { type DatasetName, type Part, splitByLabel } from '../data/datasets.ts';
import {
  type Apart,
  BESIDE_OPTION,
  besideAgain,
  besideRun,
  type Counts,
  type Data,
  type Experiment,
  type Figure,
  record,
} from '../lab/experiment.ts';
import { progress } from '../lab/report.ts';
import { type Values, wholeNumber } from '../lab/runner.ts';
import { mateRanks, rankAccuracy } from '../metrics/identification.ts';
import { retrieval } from '../metrics/retrieval.ts';
import { compressorsIn, prepare, type Run, standingOf, trainRuns } from './network-runs.ts';
import { MINUTES_OPTION, minutesOf, STATE_OPTION, withState } from './networks.ts';

const METHOD = 'deepmds++';
/** Of more probes than this, some are left out, evenly. */
const MOST_PROBES = 500;

interface Chain {
  readonly name: string;
  readonly set: DatasetName;
  readonly dimensions: readonly number[];
  /** Of each stage, so that each chain takes some minutes of one core. */
  readonly steps: number;
}

const CHAINS: readonly Chain[] = [
  { name: '512', set: 'text', dimensions: [512, 256, 128, 64, 32, 16], steps: 500 },
  { name: '192', set: 'text', dimensions: [192, 128, 64, 32, 16], steps: 1000 },
  { name: '1536', set: 'pictures', dimensions: [1536, 1024, 512, 256, 128, 64, 32, 16], steps: 35 },
];

const SMALL: readonly Chain[] = [{ name: '24', set: 'text', dimensions: [24, 16, 8], steps: 3 }];

export interface ChainsParameters {
  readonly split: string;
  readonly chains: readonly TrainedChain[];
}

export interface TrainedChain extends Chain {
  readonly source: string;
  /** Before the principal axes. */
  readonly fullDimension: number;
  readonly training: Counts;
  readonly measured: Counts;
  readonly probes: number;
  /** The share of the training that is done, where the time was over before it was. */
  readonly done: number;
  /** Of one that was measured by a run of its own. */
  readonly apart?: Apart;
}

export const chains: Experiment = {
  name: 'chains',
  summary: "the paper's chains from 512, 192 and 1536 dimensions, trained on sentences and pictures",
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    chains: { type: 'string', help: 'which, by their first dimension, with commas between them (512,192,1536)' },
    steps: { type: 'string', help: 'steps of every stage, instead of what takes some minutes for each chain' },
    beside: BESIDE_OPTION,
    models: MODELS_OPTION,
    state: STATE_OPTION,
    minutes: MINUTES_OPTION,
  },
  async measure(values): Promise<Data<ChainsParameters>> {
    const until = Date.now() + minutesOf(values) * 60_000;
    const split = splitOf(values);
    const earlier = await besideRun<ChainsParameters>(values, 'chains', split);
    return withState(values, async (state) => {
      const results: Figure[] = [];
      const trained: TrainedChain[] = [];
      for (const chain of chainsOf(values)) {
        const outcome = await measureChain(chain, values, join(state, chain.name), until);
        trained.push(outcome.chain);
        results.push(...outcome.figures);
      }
      for (const chain of earlier?.parameters.chains ?? []) {
        if (trained.some(({ name }) => name === chain.name)) continue;
        const { date, command } = earlier!;
        trained.push({ ...chain, apart: chain.apart ?? { date, command } });
        results.push(...earlier!.results.filter(({ name }) => name.startsWith(`${chain.name}-`)));
      }
      const order = CHAINS.map(({ name }) => name);
      trained.sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
      const parameters = { split, chains: trained };
      const { state: _, minutes: __, beside, ...others } = values;
      return record('chains', values, { parameters, results }, besideAgain(againWith(others), beside));
    });
  },
};

function chainsOf(values: Values): Chain[] {
  const known = values.small === true ? SMALL : CHAINS;
  const names = typeof values.chains === 'string' ? values.chains.split(',') : known.map(({ name }) => name);
  const missing = names.find((name) => !known.some((chain) => chain.name === name));
  if (missing !== undefined)
    throw new RangeError(`There is no chain from '${missing}': there are ${known.map(({ name }) => name).join(', ')}`);
  return known
    .filter(({ name }) => names.includes(name))
    .map((chain) => ({ ...chain, steps: wholeNumber(values, 'steps', chain.steps) }));
}

async function measureChain(
  chain: Chain,
  values: Values,
  folder: string,
  until: number,
): Promise<{ chain: TrainedChain; figures: Figure[] }> {
  const { name, set, dimensions, steps } = chain;
  const data = await datasetOf(set, values);
  const split = splitByLabel(data, splitOf(values));
  const axes = (dimension: number) => fitted('pca', split.training, { dimension, ...fittingOf(values, 'pca') });
  const isWhole = data.dimension === dimensions[0];
  const { training, held } = isWhole ? split : await onAxes(split, await axes(dimensions[0]));
  const every = Math.ceil(matedPlaces(held.labels).length / MOST_PROBES);
  const probes = matedPlaces(held.labels).filter((_, i) => i % every === 0);
  const figures = [...measured(`${name}-full`, split.held, probes), ...measured(`${name}-first`, held, probes)];
  const run = runOf(chain);
  await prepare(folder, { dimension: dimensions[0], runs: [run] }, training);
  await trainRuns(folder, 1, (until - Date.now()) / 60_000);
  const { done = 0, cpuSeconds = 0 } = (await standingOf(folder, run)) ?? {};
  figures.push({ name: `${name}-training`, value: cpuSeconds, unit: 's', source: 'measured' });
  for (const network of await compressorsIn(folder, run)) {
    const short = await compressed(held, (vectors) => network.transform(vectors));
    figures.push(...measured(`${name}-${METHOD}-${network.outputDimension}`, short, probes));
  }
  // Fewer axes are the first of more, so that one fit serves all.
  const most = isWhole ? await compressed(held, await axes(dimensions[1])) : held;
  for (const dimension of dimensions.slice(1))
    figures.push(...measured(`${name}-pca-${dimension}`, firstOf(most, dimension), probes));
  return {
    chain: {
      ...{ name, set, dimensions, steps, source: data.source, fullDimension: data.dimension, done },
      ...{ training: countsOf(training), measured: countsOf(held), probes: probes.length },
    },
    figures,
  };
}

/** Both parts on principal axes of the one to train on. */
async function onAxes(
  { training, held }: { training: Part; held: Part },
  axes: (vectors: Float32Array) => Promise<Float32Array>,
): Promise<{ training: Part; held: Part }> {
  return { training: await compressed(training, axes), held: await compressed(held, axes) };
}

/** The first coordinates of every vector, at unit length. */
function firstOf({ vectors, dimension, labels }: Part, count: number): Part {
  const short = new Float32Array(labels.length * count);
  for (let i = 0; i < labels.length; i++) short.set(vectors.subarray(i * dimension, i * dimension + count), i * count);
  return { vectors: unitVectors(short, count), dimension: count, labels };
}

/** To the last dimension, and the others on its way. Nothing is chosen, so it learns from all. */
function runOf({ dimensions, steps }: Chain): Run {
  const settings = { chain: dimensions, steps };
  return { name: METHOD, method: METHOD, dimension: dimensions.at(-1)!, seed: 1, validation: 0, settings, threads: 1 };
}

function measured(name: string, part: Part, probes: Int32Array): Figure[] {
  progress(`measuring ${name}`);
  const { precisionAt10, meanAveragePrecision } = retrieval(part, probes);
  const figure = (ending: string, value: number, unit: string): Figure => {
    return { name: `${name}${ending}`, value, unit, source: 'measured' };
  };
  return [
    figure('', rankAccuracy(mateRanks(part, probes), 1), 'rank-1'),
    figure('-precision10', precisionAt10, 'precision at 10'),
    figure('-map', meanAveragePrecision, 'mAP of retrieval'),
  ];
}
