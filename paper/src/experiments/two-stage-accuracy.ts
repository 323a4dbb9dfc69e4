// The paper's Figure 5: what a coarse search of few dimensions loses when its best K are ranked
// again at full dimension. The coarse search is an encrypted one.

import type { Profile } from '@hers/client';
import { type Compressor, type MethodName, methods } from '@hers/training';
import { eachScoreRow, matedPlaces, rowsAt, unitVectors } from '@hers/vectors/accuracy';
import {
  bestCompressor,
  COMPRESSORS_OPTION,
  compressed,
  compressorsOf,
  fittedCompressor,
  fittingOf,
  MODELS_OPTION,
  STEPS_OPTION,
  stepsOf,
} from '../data/compressors.ts';
import { againWith, countsOf, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, splitOf } from '../data/data.ts';
import { type Dataset, type DatasetName, type Part, splitByLabel } from '../data/datasets.ts';
import { EncryptedGallery } from '../data/encrypted-gallery.ts';
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
import { type Values, wholeNumber, wholeNumbers } from '../lab/runner.ts';
import { cmc, mateRanks } from '../metrics/identification.ts';
import { pairScores, thresholdAt } from '../metrics/pairs.ts';
import { type EncryptedTwice, encryptedTwice } from './two-stage-encrypted.ts';

const RANKS = 20;
/** Under the others a search may fetch 128 records, which would not do for the larger K. */
const PROFILE: Profile = 'exact';
/**
 * Profiles whose first stage is compared with it, for the default's and the paper's compressor, or
 * for the only one.
 */
const OTHERS = ['compact', 'small'] as const;
type Other = (typeof OTHERS)[number];
const BATCH = 32;
const SHARES = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1];
/**
 * A full score is good enough when a stranger reaches it in this share of the searches, by the
 * pairs of strangers among the vectors that compressors are fitted on.
 */
const FALSE_ALARMS = 0.01;
/** Vectors whose pairs are looked at for that. */
const PAIRED = 8000;
/** Of more probes than this, some are left out, evenly, unless another number is given. */
const MOST_PROBES = 4500;
/** The paper's compressor, whose curves are drawn, and whose stages run on its engine too. */
const PAPER_COMPRESSOR = 'deepmds++';
/** Candidates of the second stage on the paper's engine, as a share of the gallery. */
const TWICE = 0.01;
/** Candidates at most when the search stops by itself, as a share of the gallery. */
const CAP = 0.05;

export interface TwoStageAccuracyParameters {
  readonly split: string;
  readonly dimensions: readonly number[];
  readonly compressors: readonly string[];
  readonly profile: string;
  readonly falseAlarms: number;
  /** The most candidates of a search that stops by itself, as a share of the gallery. */
  readonly cap: number;
  /** The first stage whose curves are in the data, of the first set. */
  readonly plotted: string;
  readonly sets: readonly TwoStageSet[];
}

export interface TwoStageSet {
  readonly name: string;
  readonly source: string;
  readonly fullDimension: number;
  readonly gallery: Counts;
  readonly probes: number;
  /** Of so many that have a mate. */
  readonly mated: number;
  readonly ks: readonly number[];
  /** Both stages on the paper's engine, where that was run: the first stage, and what was asked. */
  readonly encrypted?: { readonly stage: string; readonly probes: number; readonly k: number };
  /** Of each stage of a network. */
  readonly steps: number;
  /** Of one that was measured by a run of its own. */
  readonly apart?: Apart;
}

interface Stage {
  readonly compressor: string;
  readonly dimension: number;
  /** Share found within rank 1, 2, …: by the first stage alone (K = 0), and by both. */
  readonly curves: Curves;
  /** The same under other profiles, as far as they are offered at this dimension. */
  readonly others: ReadonlyMap<Other, Curves>;
  /** Through the client, which stops when it has found somebody good enough. */
  readonly stopping: { readonly rank1: number; readonly fetched: number };
  /** Both stages on the paper's engine, where that was run. */
  readonly twice?: EncryptedTwice;
}

type Curves = readonly { readonly k: number; readonly curve: Float64Array }[];

interface Measured extends TwoStageSet {
  readonly full: Float64Array;
  readonly enough: number;
  /**
   * The share of probes without a mate to whom somebody is good enough; undefined where everybody
   * has one.
   */
  readonly falseAlarms: number | undefined;
  readonly stages: readonly Stage[];
  readonly encrypted: EncryptedTwice & { readonly stage: string };
}

export const twoStageAccuracy: Experiment = {
  name: 'two-stage-accuracy',
  summary: 'what an encrypted coarse search loses when its best K are ranked again at full dimension',
  options: {
    data: DATA_OPTION,
    sets: { type: 'string', help: 'which data sets, with commas between (faces,text)' },
    split: SPLIT_OPTION,
    dimensions: DIMENSIONS_OPTION,
    compressors: COMPRESSORS_OPTION,
    models: MODELS_OPTION,
    steps: STEPS_OPTION,
    beside: BESIDE_OPTION,
    probes: { type: 'string', help: `probes at most, spread evenly (${MOST_PROBES})` },
    encrypted: { type: 'string', help: "probes whose second stage is encrypted too, on the paper's engine (20)" },
  },
  async measure(values): Promise<Data<TwoStageAccuracyParameters>> {
    const small = values.small === true;
    const dimensions = wholeNumbers(values.dimensions, small ? [6] : [16, 24]);
    const compressors = compressorsOf(
      values,
      small ? ['lda'] : [...new Set(['pca', 'lda', bestCompressor({}), PAPER_COMPRESSOR])],
    );
    const split = splitOf(values);
    const earlier = await besideRun<TwoStageAccuracyParameters>(values, 'two-stage-accuracy', split);
    const measured: Measured[] = [];
    for (const set of setsOf(values)) measured.push(await measureSet(set, values, dimensions, compressors));
    const results = measured.flatMap(figures);
    const sets = measured.map((set): TwoStageSet => {
      const { name, source, fullDimension, gallery, probes, mated, ks, encrypted, steps } = set;
      const { stage, probes: few, k } = encrypted;
      return { name, source, fullDimension, gallery, probes, mated, ks, steps, encrypted: { stage, probes: few, k } };
    });
    const order: readonly string[] = SET_NAMES;
    const isOf = (set: string, name: string): boolean =>
      set === order[0] ? !order.slice(1).some((other) => isOf(other, name)) : name.startsWith(`${set}-`);
    for (const set of earlier?.parameters.sets ?? []) {
      if (sets.some(({ name }) => name === set.name)) continue;
      const { date, command } = earlier!;
      sets.push({ ...set, apart: set.apart ?? { date, command } });
      results.push(...earlier!.results.filter(({ name }) => isOf(set.name, name)));
    }
    sets.sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
    const [shown] = sets;
    const drawn = measured.find(({ name }) => name === shown.name);
    const joined = <T>(own: readonly T[], others: readonly T[] = []) => [...new Set([...own, ...others])];
    const parameters = {
      split,
      dimensions: joined(dimensions, earlier?.parameters.dimensions).toSorted((a, b) => a - b),
      compressors: inOrder(joined<string>(compressors, earlier?.parameters.compressors)),
      ...{ profile: PROFILE, falseAlarms: FALSE_ALARMS, cap: CAP, sets },
      plotted: drawn ? drawn.encrypted.stage : earlier!.parameters.plotted,
    };
    const curves = drawn ? curvesOf(drawn) : earlier!.curves;
    const { beside, ...others } = values;
    const again = besideAgain(againWith(others), beside);
    return record('two-stage-accuracy', values, { parameters, results, curves }, again);
  },
};

/** As the methods are listed, so that a page has them in one order. */
const inOrder = (names: readonly string[]) => Object.keys(methods).filter((name) => names.includes(name));

/** In the names of results, the set is told unless it is the faces. */
const named = (set: string, name: string) => (set === 'faces' ? name : `${set}-${name}`);

function figures({ name: set, fullDimension, full, enough, falseAlarms, stages, encrypted }: Measured): Figure[] {
  const measured = (name: string, value: number, unit: string): Figure => ({
    name: named(set, name),
    value,
    unit,
    source: 'measured',
  });
  return [
    measured(`full-${fullDimension}`, full[0], 'rank-1'),
    measured(`${encrypted.stage}-encrypted`, encrypted.rank1, 'rank-1'),
    measured(`${encrypted.stage}-encrypted-same`, encrypted.same, 'probes'),
    measured(`${encrypted.stage}-encrypted-stage1`, encrypted.seconds[0], 's'),
    measured(`${encrypted.stage}-encrypted-stage2`, encrypted.seconds[1], 's'),
    measured('enough', enough, 'cosine'),
    ...(falseAlarms === undefined ? [] : [measured('enough-false', falseAlarms, 'share')]),
    ...stages.flatMap(({ compressor, dimension, curves, others, stopping }) => [
      ...Array.from(others).flatMap(([profile, those]) =>
        those.map(({ k, curve }) => measured(`${nameOf(compressor, dimension, k)}-${profile}`, curve[0], 'rank-1')),
      ),
      ...curves.flatMap(({ k, curve }) => {
        const name = nameOf(compressor, dimension, k);
        return [
          measured(name, curve[0], 'rank-1'),
          measured(`${name}-rank${RANKS}`, curve[RANKS - 1], `rank-${RANKS}`),
        ];
      }),
      measured(`${compressor}-${dimension}-enough`, stopping.rank1, 'rank-1'),
      measured(`${compressor}-${dimension}-enough-fetched`, stopping.fetched, 'records on average'),
    ]),
  ];
}

const nameOf = (compressor: string, dimension: number, k: number) =>
  `${compressor}-${dimension}${k === 0 ? '' : `-k${k}`}`;

/** The share of probes found within rank 1, 2 and so on. */
function curvesOf({ fullDimension, full, stages, encrypted }: Measured) {
  const { compressor, dimension, curves } = stages.find(
    (stage) => nameOf(stage.compressor, stage.dimension, 0) === encrypted.stage,
  )!;
  return Object.fromEntries([
    ...curves.map(({ k, curve }) => [nameOf(compressor, dimension, k), [...curve]]),
    [`full-${fullDimension}`, [...full]],
  ]) as Record<string, number[]>;
}

const SET_NAMES: readonly DatasetName[] = ['faces', 'text'];

function setsOf({ sets, small }: Values): DatasetName[] {
  const names = typeof sets === 'string' ? [...new Set(sets.split(','))] : small ? ['faces'] : SET_NAMES;
  for (const name of names)
    if (!SET_NAMES.some((known) => known === name))
      throw new RangeError(
        `${JSON.stringify(name)} is not a data set of this experiment: there are ${SET_NAMES.join(', ')}`,
      );
  return names as DatasetName[];
}

async function measureSet(
  set: DatasetName,
  values: Values,
  dimensions: readonly number[],
  names: readonly MethodName[],
): Promise<Measured> {
  const data = await datasetOf(set, values);
  const { training, held } = splitByLabel(data, splitOf(values));
  const mated = matedPlaces(held.labels);
  const every = Math.ceil(mated.length / wholeNumber(values, 'probes', MOST_PROBES));
  const probes = mated.filter((_, i) => i % every === 0);
  const count = held.labels.length;
  const ks = SHARES.map((share) => Math.max(1, Math.floor(share * count))).filter(
    (k, i, all) => k > 1 && all.indexOf(k) === i,
  );
  if (ks.length === 0) ks.push(8);
  const full = cmc(mateRanks(held, probes), RANKS);
  const enough = goodEnough(training, count);
  const shown = names.find((name) => name === PAPER_COMPRESSOR) ?? names[0];
  const least = Math.min(...dimensions);
  const stages: Stage[] = [];
  for (const dimension of dimensions)
    for (const name of names) {
      // A network takes hours, and the paper has it at one dimension.
      if (name === PAPER_COMPRESSOR && dimension !== least && values.compressors === undefined) continue;
      const twice = name === shown && dimension === least;
      const isCompared = names.length === 1 || name === PAPER_COMPRESSOR || name === bestCompressor({});
      const given = { data, training, held, probes, ks, enough, values, twice, isCompared };
      stages.push(await stageOf(name, dimension, given));
    }
  const { twice } = stages.find((stage) => stage.twice !== undefined)!;
  return {
    ...{ name: set, source: data.source, fullDimension: data.dimension, gallery: countsOf(held) },
    ...{ probes: probes.length, mated: mated.length, ks, full, enough, stages },
    steps: stepsOf(values),
    encrypted: { stage: nameOf(shown, least, 0), ...twice! },
    falseAlarms: alarms(held, mated, enough),
  };
}

interface Given {
  readonly data: Dataset;
  readonly training: Part;
  readonly held: Part;
  readonly probes: Int32Array;
  readonly ks: readonly number[];
  readonly enough: number;
  readonly values: Values;
  /** Whether it runs on the paper's engine too. */
  readonly twice: boolean;
  /** Whether it runs under the other profiles too. */
  readonly isCompared: boolean;
}

async function stageOf(name: MethodName, dimension: number, given: Given): Promise<Stage> {
  const { data, training, held, probes, ks, enough, values } = given;
  const compressor = await fittedCompressor(name, training, { dimension, ...fittingOf(values, name) });
  const about = `${data.name}, ${name}-${dimension}`;
  const curvesUnder = async (profile: Profile): Promise<Curves | undefined> => {
    const candidates = await coarse(held, compressor, probes, Math.max(RANKS, ...ks), profile, about);
    return candidates && curvesOver(given, candidates);
  };
  const curves = (await curvesUnder(PROFILE))!;
  const others = new Map<Other, Curves>();
  for (const profile of given.isCompared ? OTHERS : []) {
    const those = await curvesUnder(profile);
    if (those) others.set(profile, those);
  }
  const most = Math.max(RANKS, Math.floor(CAP * held.labels.length));
  const stopping = await untilEnough(held, compressor, probes, enough, most, about);
  progress(`${about}: ${curves.map(({ curve }) => curve[0].toFixed(4)).join(' ')}; ${JSON.stringify(stopping)}`);
  const stage = { compressor: name, dimension, curves, others, stopping };
  return given.twice ? { ...stage, twice: await onPaperEngine(compressor, given, about) } : stage;
}

/** Ranks after the first stage alone, and after both for every K. */
function curvesOver({ held, probes, ks }: Given, candidates: readonly number[][]): Curves {
  const ranksAt = (k: number) =>
    candidates.map((found, n) =>
      rankAmong(held, probes[n], k === 0 ? found : again(held, probes[n], found.slice(0, k))),
    );
  return [0, ...ks].map((k) => ({ k, curve: cmc(ranksAt(k), RANKS) }));
}

/** Both stages encrypted, for some of the probes. */
async function onPaperEngine(
  compressor: Compressor,
  { held, probes, values }: Given,
  about: string,
): Promise<EncryptedTwice> {
  const few = wholeNumber(values, 'encrypted', values.small ? 2 : 20);
  const every = Math.ceil(probes.length / few);
  const { vectors, dimension, labels } = await compressed(held, (given) => compressor.transform(given));
  const short = { vectors: unitVectors(vectors, dimension), dimension, labels };
  const k = Math.max(2, Math.floor(TWICE * labels.length));
  return encryptedTwice(
    short,
    held,
    probes.filter((_, i) => i % every === 0),
    k,
    about,
  );
}

/** The score that somebody in a gallery of strangers reaches in few searches. */
function goodEnough({ vectors, dimension, labels }: Part, gallery: number): number {
  const step = Math.max(1, labels.length / PAIRED);
  const places = Array.from({ length: Math.min(PAIRED, labels.length) }, (_, i) => Math.floor(i * step));
  const { impostor } = pairScores(
    rowsAt(vectors, dimension, places),
    dimension,
    places.map((place) => labels[place]),
  );
  return thresholdAt(impostor, FALSE_ALARMS / gallery);
}

/** In the clear, which finds no fewer than two stages do. */
function alarms({ vectors, dimension, labels }: Part, mated: Int32Array, enough: number): number | undefined {
  const others = new Set(mated);
  const alone = Array.from(labels.keys()).filter((place) => !others.has(place));
  if (alone.length === 0) return undefined;
  let count = 0;
  eachScoreRow(rowsAt(vectors, dimension, alone), vectors, dimension, (n, scores) => {
    if (scores.some((score, j) => j !== alone[n] && score >= enough)) count++;
  });
  return count / alone.length;
}

/** Searches with every probe of a gallery it is part of. */
async function eachProbe<T>(
  { vectors, dimension }: Part,
  probes: Int32Array,
  search: (vectors: Float32Array) => Promise<readonly T[]>,
  about: string,
): Promise<T[]> {
  const out: T[] = [];
  for (let at = 0; at < probes.length; at += BATCH) {
    if (at % (BATCH * 32) === 0) progress(`${about}: encrypted search ${at} of ${probes.length}`);
    out.push(...(await search(rowsAt(vectors, dimension, probes.subarray(at, at + BATCH)))));
  }
  return out;
}

/**
 * The best of every probe by an encrypted search, itself left out; undefined where the profile is
 * not offered.
 */
async function coarse(
  held: Part,
  compressor: Compressor,
  probes: Int32Array,
  deep: number,
  profile: Profile,
  about: string,
): Promise<number[][] | undefined> {
  const short = await compressed(held, (vectors) => compressor.transform(vectors));
  const gallery = await EncryptedGallery.openOffered({ dimension: short.dimension, profile });
  if (!gallery) return undefined;
  try {
    await gallery.enrol(short.vectors);
    await gallery.seal();
    const search = (vectors: Float32Array) => gallery.search(vectors, deep + 1);
    const found = await eachProbe(short, probes, search, `${about}, ${profile}`);
    return found.map((matches, i) =>
      matches
        .map(({ index }) => index)
        .filter((index) => index !== probes[i])
        .slice(0, deep),
    );
  } finally {
    await gallery.close();
  }
}

/** Both stages by the client, from a collection that carries the compressor. */
async function untilEnough(
  held: Part,
  compressor: Compressor,
  probes: Int32Array,
  enough: number,
  most: number,
  about: string,
): Promise<Stage['stopping']> {
  const gallery = await EncryptedGallery.open({
    dimension: held.dimension,
    profile: PROFILE,
    compressor: compressor.save(),
  });
  try {
    await gallery.enrol(held.vectors);
    await gallery.seal();
    // Two, for the probe itself is in the gallery and good enough.
    const options = { limit: 2, rerank: Math.min(most + 1, gallery.size), enough };
    const results = await eachProbe(
      held,
      probes,
      (vectors) => gallery.searchTwice(vectors, options),
      `${about}, stopping`,
    );
    const right = results.filter(({ found }, i) => {
      const best = found.find(({ index }) => index !== probes[i]);
      return best !== undefined && held.labels[best.index] === held.labels[probes[i]];
    });
    const fetched = results.reduce((sum, each) => sum + each.fetched - 1, 0);
    return { rank1: right.length / probes.length, fetched: fetched / probes.length };
  } finally {
    await gallery.close();
  }
}

/** Candidates in the order of their full vectors. */
function again({ vectors, dimension }: Part, probe: number, candidates: readonly number[]): number[] {
  const score = (place: number) => {
    let sum = 0;
    for (let c = 0; c < dimension; c++) sum += vectors[place * dimension + c] * vectors[probe * dimension + c];
    return sum;
  };
  return candidates
    .map((place) => ({ place, score: score(place) }))
    .sort((a, b) => b.score - a.score)
    .map(({ place }) => place);
}

/** Where the first mate stands; beyond all ranks when it is not among them. */
function rankAmong({ labels }: Part, probe: number, found: readonly number[]): number {
  const at = found.findIndex((place) => labels[place] === labels[probe]);
  return at < 0 ? Number.MAX_SAFE_INTEGER : at + 1;
}
