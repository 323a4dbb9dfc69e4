// Whether `auto` is ever behind PCA and LDA: fitted on few identities and on many, of every data
// set, within the training half alone.

import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { keep } from '@hers/paper/data/compressors';
import { againWith, countsOf, DATA_OPTION, DIMENSIONS_OPTION, datasetOf } from '@hers/paper/data/data';
import type { DatasetName, Part } from '@hers/paper/data/datasets';
import { curvedManifold, FACE_LIKE } from '@hers/paper/data/manifold';
import { MINUTES_OPTION, minutesOf, STATE_OPTION, withState } from '@hers/paper/experiments/networks';
import { type Counts, type Data, type Experiment, type Figure, record } from '@hers/paper/lab/experiment';
import { progress } from '@hers/paper/lab/report';
import { wholeNumber, wholeNumbers } from '@hers/paper/lab/runner';
import { clusteredMean, mateRanks } from '@hers/paper/metrics/identification';
import { mean } from '@hers/paper/metrics/statistics';
import { type Compressor, fit, load } from '@hers/training';
import { matedPlaces, rowsAt } from '@hers/vectors/accuracy';
import { Random } from '@hers/vectors/random';
import { identities } from '@hers/vectors/synthetic';

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
  /** How many identities with several vectors there are to fit on, in the cut that has fewest. */
  readonly fewest: Readonly<Record<string, number>>;
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
    time: { type: 'boolean', help: 'also time a fit on 10 000 vectors of 512 dimensions, with learning to rank' },
    even: { type: 'boolean', help: 'at the end, fit on all odd labels, and look at the even ones' },
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
      const fewest: Record<string, number> = {};
      let unfinished = 0;
      for (const name of names) {
        const { source, ...whole } = await datasetOf(name, values);
        const half = halfOf(whole, 1);
        sets[name] = { source, dimension: whole.dimension, ...countsOf(half) };
        fewest[name] = Math.min(...Array.from({ length: cuts }, (_, i) => identitiesOf(half, i + 1).several.length));
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
        if (values.even === true) {
          const file = join(folder, `${name}-even-${dimensions.join('-')}.json`);
          results.push(...(await kept(file, () => lookAtEven(`${name}-even`, half, halfOf(whole, 0), dimensions))));
        }
      }
      if (values.time === true) results.push(...(await kept(join(folder, 'time.json'), () => timed(small))));
      const parameters = { sets, dimensions, sizes, cuts, fewest, unfinished };
      const { state: _, minutes: __, ...others } = values;
      return record('auto', values, { parameters, results }, againWith(others));
    });
  },
};

async function kept(file: string, measure: () => Promise<Figure[]>): Promise<Figure[]> {
  const known = await readFile(file, 'utf8').then(JSON.parse, () => undefined);
  if (known !== undefined) return known;
  const now = await measure();
  await keep(file, new TextEncoder().encode(JSON.stringify(now)));
  return now;
}

/** One fit with all defaults. The vectors are synthetic: of people, five each. */
async function timed(small: boolean): Promise<Figure[]> {
  const [people, dimension, to] = small ? [60, 24, 4] : [2000, 512, 32];
  const centres = curvedManifold(dimension, { intrinsic: small ? 6 : 24, similarity: 0.05 });
  const { vectors, labels } = identities(people, 5, dimension, { ...FACE_LIKE, centres }).gallery();
  const begun = performance.now();
  await fit('auto', vectors, labels, { dimension: to });
  const seconds = (performance.now() - begun) / 1000;
  return [
    figure('time-seconds', seconds, 'seconds'),
    figure('time-vectors', labels.length, 'vectors'),
    figure('time-people', people, 'people'),
    figure('time-dimension', dimension, 'dimensions'),
    figure('time-to', to, 'dimensions'),
  ];
}

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

/** The odd labels are to choose and to train on; the even ones are for one look at the end. */
function halfOf(whole: Part, remainder: 0 | 1): Part {
  return partAt(
    whole,
    Array.from(whole.labels.keys()).filter((i) => (whole.labels[i] & 1) === remainder),
  );
}

/** Of one cut: those to measure on, the rest, and those of the rest that have several vectors. */
function identitiesOf(half: Part, cut: number): { held: Set<number>; rest: number[]; several: number[] } {
  const names = [...new Set(half.labels)];
  const order = Array.from(new Random(cut, 0xc07).order(names.length), (i) => names[i]);
  const held = new Set(order.slice(0, Math.round(MEASURED * names.length)));
  const mated = new Set(Array.from(matedPlaces(half.labels), (place) => half.labels[place]));
  const rest = order.filter((name) => !held.has(name));
  return { held, rest, several: rest.filter((name) => mated.has(name)) };
}

/**
 * Identities to fit on, and others to measure on. Of those with a single vector there is nothing to
 * learn about what differs within an identity, so a small number is drawn among the others.
 */
function cutOf(half: Part, size: number | 'all', cut: number): { fit: Part; held: Part } | undefined {
  const { held, rest, several } = identitiesOf(half, cut);
  if (size !== 'all' && size >= several.length) return undefined;
  const fitted = new Set(size === 'all' ? rest : several.slice(0, size));
  const of = (wanted: ReadonlySet<number>) =>
    partAt(
      half,
      Array.from(half.labels.keys()).filter((i) => wanted.has(half.labels[i])),
    );
  return { fit: of(fitted), held: of(held) };
}

async function measured(parts: { fit: Part; held: Part }, dimensions: readonly number[], seed: number): Promise<Cut> {
  const { pca, lda, auto } = await hitsOf(parts, dimensions, seed);
  return { pca: pca.map(mean), lda: lda.map(mean), auto: auto.map(mean) };
}

/** For each method and dimension, which probes find their mate first. */
async function hitsOf(
  { fit: part, held }: { fit: Part; held: Part },
  dimensions: readonly number[],
  seed: number,
): Promise<Record<Method, Float64Array[]>> {
  const probes = matedPlaces(held.labels);
  const all: Record<Method, Float64Array[]> = { pca: [], lda: [], auto: [] };
  for (const method of METHODS) {
    const compressors: Compressor[] = [];
    const stages: Uint8Array[] = [];
    const last = await fit(method, part.vectors, part.labels, {
      dimension: dimensions[0],
      also: dimensions.slice(1),
      seed,
      threads: 1,
      onStage: (bytes) => void stages.push(bytes),
      // Learning to rank is taken only where it is ahead by more than its error, and takes hours
      // here.
      ...(method === 'auto' ? { settings: { ranking: null } } : {}),
    });
    compressors.push(last, ...(await Promise.all(stages.map((bytes) => load(bytes)))));
    for (const compressor of compressors) {
      const vectors = await compressor.transform(held.vectors);
      const ranks = mateRanks({ vectors, dimension: compressor.outputDimension, labels: held.labels }, probes);
      all[method].push(Float64Array.from(ranks, (rank) => Number(rank === 1)));
    }
  }
  return all;
}

/** Differences are taken probe by probe, and their standard errors over people. */
async function lookAtEven(name: string, fit: Part, held: Part, dimensions: readonly number[]): Promise<Figure[]> {
  const hits = await hitsOf({ fit, held }, dimensions, 1);
  const people = Int32Array.from(matedPlaces(held.labels), (place) => held.labels[place]);
  return dimensions.flatMap((dimension, d) => {
    const [pca, lda, auto] = METHODS.map((method) => hits[method][d]);
    const better = mean(lda) > mean(pca) ? lda : pca;
    const ahead = clusteredMean(
      auto.map((hit, i) => hit - better[i]),
      people,
    );
    return rowOf(`${name}-${dimension}`, [mean(pca), mean(lda), mean(auto)], ahead);
  });
}

const figure = (name: string, value: number, unit: string): Figure => ({ name, value, unit, source: 'measured' });

function rowOf(
  at: string,
  ranks: readonly number[],
  ahead: { readonly mean: number; readonly error: number },
): Figure[] {
  return [
    ...METHODS.map((method, i) => figure(`${at}-${method}`, ranks[i], 'rank-1')),
    figure(`${at}-ahead`, ahead.mean, 'rank-1 difference'),
    figure(`${at}-ahead-error`, ahead.error, 'standard error'),
  ];
}

function figuresOf(name: string, cuts: readonly Cut[], dimensions: readonly number[]): Figure[] {
  return dimensions.flatMap((dimension, d) => {
    const of = (method: Method) => cuts.map((cut) => cut[method][d]);
    const [pca, lda, auto] = METHODS.map(of);
    const better = mean(lda) > mean(pca) ? lda : pca;
    const differences = auto.map((x, i) => x - better[i]);
    const at = `${name}-${dimension}`;
    const ahead = { mean: mean(differences), error: errorOf(differences) };
    return [...rowOf(at, [pca, lda, auto].map(mean), ahead), figure(`${at}-cuts`, cuts.length, 'cuts')];
  });
}

/** Of the mean; zero where there is but one. */
function errorOf(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const squares = values.reduce((sum, x) => sum + (x - mean(values)) ** 2, 0);
  return Math.sqrt(squares / (values.length - 1) / values.length);
}
