// Whether `auto` is ever behind PCA and LDA: fitted on few identities and on many, of every data
// set, within the training half alone.

import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Compressor, fit, load } from '@hers/compress';
import { matedPlaces, mateRanks, rankAccuracy, rowsAt } from '@hers/vectors/accuracy';
import { Random } from '@hers/vectors/random';
import type { DatasetName, Part } from '../datasets.ts';
import { progress } from '../report.ts';
import { wholeNumber, wholeNumbers } from '../runner.ts';
import { keep } from './compressors.ts';
import { againWith, countsOf, DATA_OPTION, DIMENSIONS_OPTION, datasetOf } from './data.ts';
import type { Counts, Data, Experiment, Figure } from './experiment.ts';
import { MINUTES_OPTION, minutesOf, STATE_OPTION, withState } from './networks.ts';
import { record } from './record.ts';

const METHODS = ['pca', 'lda', 'auto'] as const;
type Method = (typeof METHODS)[number];

/** A part of the identities is measured on, in every cut another. */
const MEASURED = 0.25;

export interface AutoParameters {
  /** What each data set is, and how much of it is in the training half. */
  readonly sets: Readonly<Record<string, Counts & { readonly source: string; readonly dimension: number }>>;
  readonly dimensions: readonly number[];
  /** Identities to fit on; `all` are all that are not measured on. */
  readonly sizes: readonly (number | 'all')[];
  readonly cuts: number;
  /** What is not measured yet. */
  readonly unfinished: number;
}

/** Rank-1 by each method at each dimension, for one cut. */
type Cut = Readonly<Record<Method, readonly number[]>>;

export const autoExperiment: Experiment = {
  name: 'auto',
  summary: 'the default compressor against PCA and LDA, fitted on few identities and on many',
  options: {
    data: DATA_OPTION,
    dimensions: DIMENSIONS_OPTION,
    sets: { type: 'string', help: 'which data sets, with commas between them (faces,text,pictures)' },
    sizes: { type: 'string', help: 'identities to fit on, with commas between them (20,40,80,160,640); and all' },
    cuts: { type: 'string', help: 'how often identities are drawn (10)' },
    state: STATE_OPTION,
    minutes: MINUTES_OPTION,
  },
  async measure(values): Promise<Data<AutoParameters>> {
    const small = values.small === true;
    const dimensions = wholeNumbers(values.dimensions, small ? [8, 4] : [64, 32, 16]).toSorted((a, b) => b - a);
    const sizes = [...wholeNumbers(values.sizes, small ? [8] : [20, 40, 80, 160, 640]), 'all' as const];
    const cuts = wholeNumber(values, 'cuts', small ? 2 : 10);
    const names = setsOf(values.sets, small);
    const end = performance.now() + minutesOf(values) * 60_000;
    return withState(values, async (folder) => {
      await mkdir(folder, { recursive: true });
      const results: Figure[] = [];
      const sets: Record<string, AutoParameters['sets'][string]> = {};
      let unfinished = 0;
      for (const name of names) {
        const { source, ...whole } = await datasetOf(name, values);
        const half = trainingHalf(whole);
        sets[name] = { source, dimension: whole.dimension, ...countsOf(half) };
        for (const size of sizes) {
          const found: Cut[] = [];
          for (let cut = 1; cut <= cuts; cut++) {
            const parts = cutOf(half, size, cut);
            if (parts === undefined) break;
            const file = join(folder, `${name}-${size}-${cut}-${dimensions.join('-')}.json`);
            const known = await readFile(file, 'utf8').then(JSON.parse, () => undefined);
            if (known === undefined && performance.now() > end) {
              unfinished++;
              continue;
            }
            const now: Cut = known ?? (await measured(parts, dimensions, cut));
            if (known === undefined) {
              await keep(file, new TextEncoder().encode(JSON.stringify(now)));
              progress(`${name}, ${size} identities, cut ${cut}: ${JSON.stringify(now)}`);
            }
            found.push(now);
          }
          if (found.length > 0) results.push(...figuresOf(`${name}-${size}`, found, dimensions));
        }
      }
      const parameters = { sets, dimensions, sizes, cuts, unfinished };
      const { state: _, minutes: __, ...others } = values;
      return record('auto', values, { parameters, results }, againWith(others));
    });
  },
};

function setsOf(given: unknown, small: boolean): DatasetName[] {
  const all: DatasetName[] = ['faces', 'text', 'pictures'];
  if (typeof given !== 'string') return small ? ['faces'] : all;
  return given.split(',').map((name) => {
    const found = all.find((each) => each === name);
    if (found === undefined) throw new RangeError(`There is no data set '${name}': there are ${all.join(', ')}`);
    return found;
  });
}

function partAt({ vectors, dimension, labels }: Part, places: readonly number[]): Part {
  return {
    vectors: rowsAt(vectors, dimension, places),
    dimension,
    labels: Int32Array.from(places, (place) => labels[place]),
  };
}

/** The odd labels. The others stay unseen. */
function trainingHalf(whole: Part): Part {
  return partAt(
    whole,
    Array.from(whole.labels.keys()).filter((i) => (whole.labels[i] & 1) === 1),
  );
}

/**
 * Identities to fit on, and others to measure on. Of those with a single vector there is nothing to
 * learn about what differs within an identity, so a small number is drawn among the others.
 */
function cutOf(half: Part, size: number | 'all', cut: number): { fit: Part; held: Part } | undefined {
  const names = [...new Set(half.labels)];
  const order = Array.from(new Random(cut, 0xc07).order(names.length), (i) => names[i]);
  const held = new Set(order.slice(0, Math.round(MEASURED * names.length)));
  const mated = new Set(Array.from(matedPlaces(half.labels), (place) => half.labels[place]));
  const rest = order.filter((name) => !held.has(name));
  const several = rest.filter((name) => mated.has(name));
  if (size !== 'all' && size >= several.length) return undefined;
  const fitted = new Set(size === 'all' ? rest : several.slice(0, size));
  const of = (wanted: ReadonlySet<number>) =>
    partAt(
      half,
      Array.from(half.labels.keys()).filter((i) => wanted.has(half.labels[i])),
    );
  return { fit: of(fitted), held: of(held) };
}

async function measured(
  { fit: part, held }: { fit: Part; held: Part },
  dimensions: readonly number[],
  seed: number,
): Promise<Cut> {
  const probes = matedPlaces(held.labels);
  const all: Record<Method, number[]> = { pca: [], lda: [], auto: [] };
  for (const method of METHODS) {
    const compressors: Compressor[] = [];
    const stages: Uint8Array[] = [];
    const last = await fit(method, part.vectors, part.labels, {
      dimension: dimensions[0],
      also: dimensions.slice(1),
      seed,
      onStage: (bytes) => void stages.push(bytes),
      // Learning to rank is taken only where it is ahead by more than its error, and takes hours
      // here.
      ...(method === 'auto' ? { settings: { ranking: null } } : {}),
    });
    compressors.push(last, ...(await Promise.all(stages.map((bytes) => load(bytes)))));
    for (const compressor of compressors) {
      const vectors = await compressor.transform(held.vectors);
      const ranks = mateRanks({ vectors, dimension: compressor.outputDimension, labels: held.labels }, probes);
      all[method].push(rankAccuracy(ranks, 1));
    }
  }
  return all;
}

function figuresOf(name: string, cuts: readonly Cut[], dimensions: readonly number[]): Figure[] {
  const figure = (of: string, value: number, unit: string): Figure => ({ name: of, value, unit, source: 'measured' });
  return dimensions.flatMap((dimension, d) => {
    const of = (method: Method) => cuts.map((cut) => cut[method][d]);
    const [pca, lda, auto] = METHODS.map(of);
    const better = average(lda) > average(pca) ? lda : pca;
    const differences = auto.map((x, i) => x - better[i]);
    const at = `${name}-${dimension}`;
    return [
      figure(`${at}-pca`, average(pca), 'rank-1'),
      figure(`${at}-lda`, average(lda), 'rank-1'),
      figure(`${at}-auto`, average(auto), 'rank-1'),
      figure(`${at}-ahead`, average(differences), 'rank-1 difference'),
      figure(`${at}-ahead-error`, errorOf(differences), 'standard error'),
      figure(`${at}-cuts`, cuts.length, 'cuts'),
    ];
  });
}

const average = (values: readonly number[]) => values.reduce((sum, x) => sum + x, 0) / values.length;

/** Of the mean; zero where there is but one. */
function errorOf(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const squares = values.reduce((sum, x) => sum + (x - average(values)) ** 2, 0);
  return Math.sqrt(squares / (values.length - 1) / values.length);
}
