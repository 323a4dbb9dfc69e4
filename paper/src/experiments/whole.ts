// The paper at once, on real faces (its Figure 2): estimate the intrinsic dimension, train
// DeepMDS++ towards it, encrypt, search in two stages; on the published engine, and beside it on
// the product.

import { readFile } from 'node:fs/promises';
import { PUBLISHED } from '@hers/paper';
import { type Compressor, load } from '@hers/training';
import { graphDistanceDimension, likelihoodDimension, nearest, twoNearestDimension } from '@hers/training/dimension';
import { eachScoreRow, matedPlaces, rowsAt, unitVectors } from '@hers/vectors/accuracy';
import { compressed, fittedCompressor, fittingOf, MODELS_OPTION, STEPS_OPTION } from '../data/compressors.ts';
import { againWith, countsOf, DATA_OPTION, datasetOf, SPLIT_OPTION, splitOf } from '../data/data.ts';
import { type Part, splitByLabel } from '../data/datasets.ts';
import { type Counts, type Data, type Experiment, type Figure, record } from '../lab/experiment.ts';
import { progress } from '../lab/report.ts';
import { type Values, wholeNumber } from '../lab/runner.ts';
import { loadNow } from '../lab/timing.ts';
import { productWhole, VARIANTS } from './whole-product.ts';
import { type BothForms, publishedWhole } from './whole-published.ts';

const METHOD = 'deepmds++';
/** Neighbours in the graph: the default of the authors' code, and ours. */
const GRAPHS = [4, 9];
const NEIGHBOURS = 20;
/** Templates that come one by one, around the first edge of a block where the gallery has one. */
const ONLINE = 20;

export interface WholeParameters {
  readonly data: string;
  readonly split: string;
  readonly training: Counts;
  /** Of the half that is searched, the probes left out. */
  readonly gallery: Counts;
  readonly probes: number;
  /** Candidates of the second stage. */
  readonly k: number;
  readonly dimension: number;
  /** Of the first stage, and why. */
  readonly coarse: number;
  readonly chosen: 'estimated' | 'given';
  readonly online: number;
  readonly blocks: number;
  /** What was trained, in the words of its file: steps and seed among them. */
  readonly compressor: { readonly method: string; readonly settings: object; readonly from: 'file' | 'trained' };
  /** Why there is no estimate by a graph, by its k. */
  readonly refusals: Readonly<Record<string, string>>;
  readonly seal: string;
  readonly load: number;
}

export const whole: Experiment = {
  name: 'whole',
  summary: 'faces, their dimension, DeepMDS++, both stages encrypted: the published system, and the product',
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    models: MODELS_OPTION,
    compressor: { type: 'string', help: 'the file of a trained compressor, instead of training one' },
    dimension: { type: 'string', help: 'of the first stage; the estimate, rounded to a multiple of 8, unless given' },
    steps: STEPS_OPTION,
    probes: { type: 'string', help: 'faces to search for (20)' },
    k: { type: 'string', help: 'candidates of the second stage (100)' },
  },
  async measure(values): Promise<Data<WholeParameters>> {
    const small = values.small === true;
    const load = loadNow();
    const split = splitOf(values);
    const data = await datasetOf('faces', values);
    const { training, held } = splitByLabel(data, split);
    const estimate = await estimates(training, small);
    const compressor = await trained(values, training, estimate.dimension);
    const coarse = compressor.outputDimension;
    const { gallery, probes } = apart(held, wholeNumber(values, 'probes', small ? 4 : 20));
    const forms = async (part: Part): Promise<BothForms> => ({
      fine: part,
      coarse: await compressed(part, (vectors) => compressor.transform(vectors)),
    });
    const [galleryForms, probeForms] = [await forms(gallery), await forms(probes)];
    const templates = gallery.labels.length;
    const k = Math.min(templates, wholeNumber(values, 'k', small ? 10 : 100));
    const { n } = PUBLISHED;
    const middle = templates > n + ONLINE ? n - ONLINE / 2 : Math.max(0, templates - ONLINE);
    const order = { online: [middle, Math.min(templates, middle + ONLINE)] as const };
    const results = [
      ...estimate.figures,
      { name: 'full-rank1', value: fullRank1(gallery, probes), unit: 'rank-1', source: 'measured' as const },
      ...(await publishedWhole(atUnitLength(galleryForms), atUnitLength(probeForms), k, order)),
    ];
    for (const variant of VARIANTS)
      results.push(...(await productWhole(variant, compressor.save(), galleryForms, probeForms, k, order)));
    const parameters: WholeParameters = {
      ...{ data: data.source, split, training: countsOf(training), gallery: countsOf(gallery) },
      ...{ probes: probes.labels.length, k, dimension: data.dimension, coarse, online: ONLINE },
      chosen: values.dimension === undefined && values.compressor === undefined ? 'estimated' : 'given',
      blocks: Math.ceil(templates / n),
      compressor: {
        method: compressor.method,
        settings: compressor.metadata.settings,
        from: values.compressor === undefined ? 'trained' : 'file',
      },
      refusals: estimate.refusals,
      seal: PUBLISHED.name,
      ...load,
    };
    const { compressor: file, ...others } = values;
    const again = `${againWith(others)}${file === undefined ? '' : ' --compressor <file>'}`;
    return record('whole', values, { parameters, results }, again);
  },
};

/** By all estimators; the dimension is the paper's, with its authors' k, where there is one. */
async function estimates(training: Part, small: boolean) {
  progress('estimating the intrinsic dimension');
  const near = await nearest(training.vectors, training.dimension, NEIGHBOURS, { distance: 'angle' });
  const graphs = GRAPHS.map((k) => graphDistanceDimension(near, { k, sources: small ? 60 : 500 }));
  const local = [twoNearestDimension(near), likelihoodDimension(near)];
  const figure = (name: string, value: number | undefined): Figure[] =>
    value === undefined ? [] : [{ name, value, unit: 'dimensions', source: 'measured' }];
  const found = graphs.find(({ dimension }) => dimension !== undefined)?.dimension ?? Math.max(...local);
  return {
    dimension: Math.max(8, 8 * Math.round(found / 8)),
    figures: [
      ...graphs.flatMap(({ k, dimension }) => figure(`graph-k${k}`, dimension)),
      ...figure('two-nearest', local[0]),
      ...figure('likelihood', local[1]),
    ],
    refusals: Object.fromEntries(graphs.flatMap(({ k, refusal }) => (refusal === undefined ? [] : [[k, refusal]]))),
  };
}

/** Trained, here or before (`--models`); or from a file. */
async function trained(values: Values, training: Part, estimated: number): Promise<Compressor> {
  if (typeof values.compressor === 'string') {
    const compressor = await load(await readFile(values.compressor));
    if (compressor.inputDimension !== training.dimension)
      throw new RangeError(
        `the compressor in ${values.compressor} takes vectors of ${compressor.inputDimension} dimensions, and faces have ${training.dimension}`,
      );
    return compressor;
  }
  const dimension = wholeNumber(values, 'dimension', estimated);
  const fitting = fittingOf({ ...(values.small ? { steps: '20' } : {}), ...values }, METHOD);
  return fittedCompressor(METHOD, training, { dimension, ...fitting });
}

/** The published system takes inner products as they are; the product normalises by itself. */
function atUnitLength({ fine, coarse }: BothForms): BothForms {
  return { fine, coarse: { ...coarse, vectors: unitVectors(coarse.vectors, coarse.dimension) } };
}

/** Some pictures of people who have others are probes; all others are the gallery. */
function apart({ vectors, dimension, labels }: Part, count: number): { gallery: Part; probes: Part } {
  // One of each person, so that everybody who is looked for is there.
  const people = new Map<number, number>();
  for (const place of matedPlaces(labels)) people.set(labels[place], place);
  const mated = [...people.values()];
  const some = Math.min(count, mated.length);
  const chosen = new Set(Array.from({ length: some }, (_, i) => mated[Math.floor((i * mated.length) / some)]));
  const part = (places: readonly number[]): Part => ({
    vectors: rowsAt(vectors, dimension, places),
    dimension,
    labels: Int32Array.from(places, (place) => labels[place]),
  });
  const all = Array.from(labels.keys());
  return { gallery: part(all.filter((place) => !chosen.has(place))), probes: part([...chosen]) };
}

/** What a search at full dimension, in the clear, finds. */
function fullRank1(gallery: Part, probes: Part): number {
  let found = 0;
  eachScoreRow(probes.vectors, gallery.vectors, gallery.dimension, (probe, scores) => {
    const best = scores.indexOf(Math.max(...scores));
    if (gallery.labels[best] === probes.labels[probe]) found++;
  });
  return found / probes.labels.length;
}
