// The chains of the paper's appendix, trained on data from the dimensions that it starts from: 512,
// 192 and 1536. Our faces have 128 dimensions, so these start from sentences and pictures, on their
// principal axes where they have more dimensions than the chain.

import { type Compressor, fit, load } from '@hers/compress';
import { type DatasetName, type Part, splitByLabel } from '../datasets.ts';
import { matedPlaces, mateRanks, rankAccuracy } from '../metrics/identification.ts';
import { retrieval } from '../metrics/retrieval.ts';
import { progress } from '../report.ts';
import { type Values, wholeNumber } from '../runner.ts';
import { stopwatch } from './clock.ts';
import { compressed, fitted } from './compressors.ts';
import { againWith, countsOf, DATA_OPTION, datasetOf, SPLIT_OPTION, splitOf } from './data.ts';
import type { Counts, Data, Experiment, Figure } from './experiment.ts';
import { record } from './record.ts';

const METHOD = 'deepmds++';
/** Of more probes than this, some are left out, evenly. */
const MOST_PROBES = 500;

interface Chain {
  readonly name: string;
  readonly set: DatasetName;
  readonly dimensions: readonly number[];
  /** Of each stage, so that all chains take a quarter of an hour of one core. */
  readonly steps: number;
}

const CHAINS: readonly Chain[] = [
  { name: '512', set: 'text', dimensions: [512, 256, 128, 64], steps: 500 },
  { name: '192', set: 'text', dimensions: [192, 128, 64, 32, 16], steps: 500 },
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
}

export const chains: Experiment = {
  name: 'chains',
  summary: "the paper's chains from 512, 192 and 1536 dimensions, trained on sentences and pictures",
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    chains: { type: 'string', help: 'which, by their first dimension, with commas between them (512,192,1536)' },
    steps: { type: 'string', help: 'steps of every stage, instead of what fits into a quarter of an hour' },
  },
  async measure(values): Promise<Data<ChainsParameters>> {
    const results: Figure[] = [];
    const trained: TrainedChain[] = [];
    for (const chain of chainsOf(values)) {
      const outcome = await measureChain(chain, values);
      trained.push(outcome.chain);
      results.push(...outcome.figures);
    }
    const parameters = { split: splitOf(values), chains: trained };
    return record('chains', values, { parameters, results }, againWith(values));
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

async function measureChain(chain: Chain, values: Values): Promise<{ chain: TrainedChain; figures: Figure[] }> {
  const { name, set, dimensions, steps } = chain;
  const data = await datasetOf(set, values);
  const split = splitByLabel(data, splitOf(values));
  const { training, held } = await onAxes(split.training, split.held, dimensions[0]);
  const every = Math.ceil(matedPlaces(held.labels).length / MOST_PROBES);
  const probes = matedPlaces(held.labels).filter((_, i) => i % every === 0);
  const figures = [...measured(`${name}-full`, split.held, probes), ...measured(`${name}-first`, held, probes)];
  const elapsed = stopwatch();
  const networks = await train(chain, training);
  // Others use the machine too, so the time of its own threads says more than the clock.
  const { cpu: seconds } = elapsed();
  figures.push({ name: `${name}-training`, value: seconds, unit: 's', source: 'measured' });
  for (const network of networks) {
    const dimension = network.outputDimension;
    const axes = await fitted('pca', training, { dimension });
    const short = await compressed(held, (vectors) => network.transform(vectors));
    figures.push(...measured(`${name}-${METHOD}-${dimension}`, short, probes));
    figures.push(...measured(`${name}-pca-${dimension}`, await compressed(held, axes), probes));
  }
  return {
    chain: {
      ...{ name, set, dimensions, steps, source: data.source, fullDimension: data.dimension },
      ...{ training: countsOf(training), measured: countsOf(held), probes: probes.length },
    },
    figures,
  };
}

/** Both parts on so many principal axes of the one to train on, where they have more dimensions. */
async function onAxes(training: Part, held: Part, axes: number): Promise<{ training: Part; held: Part }> {
  if (held.dimension === axes) return { training, held };
  const transform = await fitted('pca', training, { dimension: axes });
  return { training: await compressed(training, transform), held: await compressed(held, transform) };
}

/** The networks to every dimension of the chain, the longest last. */
async function train({ name, dimensions, steps }: Chain, { vectors, labels }: Part): Promise<Compressor[]> {
  const stages: Uint8Array[] = [];
  let said = performance.now();
  const last = await fit(METHOD, vectors, labels, {
    dimension: dimensions.at(-1)!,
    seed: 1,
    // On all of them: how long is given, and nothing is chosen.
    validation: 0,
    settings: { chain: dimensions, steps },
    onStage: (bytes) => stages.push(bytes),
    onProgress({ stage, done }) {
      if (performance.now() - said < 10_000) return;
      said = performance.now();
      progress(`chain from ${name}: ${stage}, ${Math.round(100 * done)} %`);
    },
  });
  return [...(await Promise.all(stages.map((bytes) => load(bytes)))), last];
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
