// The paper's Figure 5: what a coarse search of few dimensions loses when its best K are ranked again at full dimension. The coarse search is an encrypted one.

import type { Profile } from '@hers/client';
import type { Compressor } from '@hers/compress';
import { type Dataset, type DatasetName, described, type Part, splitByLabel } from '../datasets.ts';
import { EncryptedGallery } from '../encrypted-gallery.ts';
import { cmc, matedPlaces, mateRanks } from '../metrics/identification.ts';
import { pairScores, thresholdAt } from '../metrics/open-set.ts';
import { eachScoreRow, rowsAt } from '../metrics/score-rows.ts';
import { machine, progress } from '../report.ts';
import {
  bestCompressor,
  COMPRESSORS_OPTION,
  compressed,
  compressorsOf,
  EPOCHS_OPTION,
  fittedCompressor,
  fittingOf,
  MODELS_OPTION,
} from './compressors.ts';
import { againWith, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, saidSplit, splitOf } from './data.ts';
import { type Experiment, type Figure, type Outcome, type Values, wholeNumbers } from './experiment.ts';
import { page, table, versions } from './markdown.ts';
import { render, SCHEMA } from './plot.ts';
import { signed, whole } from './quantities.ts';

const RANKS = 20;
/** Under `compact` a search may fetch 128 records, which would not do for the larger K. */
const PROFILE: Profile = 'exact';
const BATCH = 32;
const SHARES = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1];
/** What is lost without being called a loss. */
const LOSS = 0.002;
/** A full score is good enough when a stranger reaches it in this share of the searches, by the pairs of strangers among the vectors that compressors are fitted on. */
const FALSE_ALARMS = 0.01;
/** Vectors whose pairs are looked at for that. */
const PAIRED = 8000;
/** Of more probes than this, some are left out, evenly. */
const MOST_PROBES = 4500;
/** Candidates at most when the search stops by itself, as a share of the gallery. */
const CAP = 0.05;

interface Stage {
  readonly compressor: string;
  readonly dimension: number;
  /** Share found within rank 1, 2, …: by the first stage alone (K = 0), and by both. */
  readonly curves: readonly { readonly k: number; readonly curve: Float64Array }[];
  /** Through the client, which stops when it has found somebody good enough. */
  readonly stopping: { readonly rank1: number; readonly fetched: number };
}

interface Measured {
  readonly data: Dataset;
  readonly held: Part;
  readonly probes: number;
  /** Of so many that have a mate. */
  readonly mated: number;
  readonly full: Float64Array;
  readonly ks: readonly number[];
  readonly enough: number;
  /** The share of probes without a mate to whom somebody is good enough; undefined where everybody has one. */
  readonly falseAlarms: number | undefined;
  readonly stages: readonly Stage[];
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
    epochs: EPOCHS_OPTION,
  },
  async run(values): Promise<Outcome> {
    const small = values.small === true;
    const split = splitOf(values);
    const dimensions = wholeNumbers(values.dimensions, small ? [6] : [16, 24]);
    const names = compressorsOf(values, small ? ['lda'] : [...new Set(['pca', 'lda', bestCompressor({})])]);
    const sets: Measured[] = [];
    for (const set of setsOf(values)) sets.push(await measure(set, values, dimensions, names));
    const results: Figure[] = sets.flatMap(({ data, full, enough, falseAlarms, stages }) => {
      const named = (name: string) => (data.name === 'faces' ? name : `${data.name}-${name}`);
      const rank1 = (name: string, value: number): Figure => ({
        name: named(name),
        value,
        unit: 'rank-1',
        source: 'measured',
      });
      return [
        rank1(`full-${data.dimension}`, full[0]),
        { name: named('enough'), value: enough, unit: 'cosine', source: 'measured' },
        ...(falseAlarms === undefined
          ? []
          : [{ name: named('enough-false'), value: falseAlarms, unit: 'share', source: 'measured' } as const]),
        ...stages.flatMap(({ compressor, dimension, curves, stopping }): Figure[] => [
          ...curves.flatMap(({ k, curve }): Figure[] => {
            const name = `${compressor}-${dimension}${k === 0 ? '' : `-k${k}`}`;
            return [
              rank1(name, curve[0]),
              {
                name: named(`${name}-rank${RANKS}`),
                value: curve[RANKS - 1],
                unit: `rank-${RANKS}`,
                source: 'measured',
              },
            ];
          }),
          rank1(`${compressor}-${dimension}-enough`, stopping.rank1),
          {
            name: named(`${compressor}-${dimension}-enough-fetched`),
            value: stopping.fetched,
            unit: 'records on average',
            source: 'measured',
          },
        ]),
      ];
    });
    const report = {
      bench: 'two-stage-accuracy',
      parameters: {
        data: sets.map(({ data }) => data.source).join('; '),
        split,
        dimensions,
        compressors: names,
        profile: PROFILE,
        galleries: sets.map(({ held }) => held.labels.length),
        probes: sets.map(({ probes }) => probes),
        epochs: typeof values.epochs === 'string' ? Number(values.epochs) : 'as published',
        ...versions(),
        small,
      },
      machine: machine(),
      results,
    };
    const [shown] = sets;
    const markdown = page(
      'Two stages: few dimensions, then the best K again',
      'two-stage-accuracy',
      [
        '![Share of probes found against the rank, by one stage and by two](two-stage-accuracy.svg)',
        `${saidSplit(split)} Each probe is searched among all others. The first stage is an encrypted search (${PROFILE}) of compressed vectors through the client; the second ranks its best K by their full vectors. The figures are rank-1.`,
        ...sets.flatMap((measured) => told(measured)),
        '## Stopping early',
        `Most probes need few candidates, and a few need many. With \`rerank\` and \`enough\` the client fetches 16 candidates, then 32, 64 and so on, and stops when somebody scores well enough by the full vectors. Good enough is here what a stranger should reach in one of ${1 / FALSE_ALARMS} searches, going by the pairs of strangers in the training half; no search fetches more than ${100 * CAP} % of the gallery. End to end through the client:`,
        table(
          ['', 'good enough', 'records fetched, mean', 'of the gallery', 'rank-1', 'against full vectors'],
          sets.flatMap(({ data, held, full, enough, stages }) =>
            stages.map(({ compressor, dimension, stopping }) => [
              `${data.name}, ${compressor}-${dimension}`,
              enough.toFixed(3),
              stopping.fetched.toFixed(1),
              `${((100 * stopping.fetched) / held.labels.length).toFixed(2)} %`,
              stopping.rank1.toFixed(4),
              signed(stopping.rank1 - full[0]),
            ]),
          ),
        ),
        `All of these probes have a mate. A probe without one fetches as many candidates as it may, unless a stranger is good enough: ${sets.map(({ data, falseAlarms }) => (falseAlarms === undefined ? `among the ${data.name} everybody has a mate` : `that is so for ${(100 * falseAlarms).toFixed(1)} % of those without a mate among the ${data.name}`)).join(', ')}. Whoever keeps the gallery sees how many were fetched, and in which steps.`,
        '## Beside the paper',
        `The paper's Figure 5 has DeepPrint fingerprints against 100 million: 16 dimensions, then the best K = 10 000 (0.01 %) at 192, "nearly identical" to 192 throughout. Its fingerprints have an intrinsic dimension of 5 by its own estimate; faces have more, and 16 numbers hold less of them ([dimension](dimension.md)). Fetching candidates shows the store who they are: in this project it is an option of the caller (\`rerank\`), never done unasked; under \`compact\` at most 128 are fetched.`,
      ],
      report,
      againWith(values),
    );
    const best = shown.stages.find(({ compressor }) => compressor === bestCompressor({})) ?? shown.stages[0];
    return { report, markdown, svg: await plot(best, shown) };
  },
};

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

async function measure(
  set: DatasetName,
  values: Values,
  dimensions: readonly number[],
  names: ReturnType<typeof compressorsOf>,
): Promise<Measured> {
  const data = await datasetOf(set, values);
  const { training, held } = splitByLabel(data, splitOf(values));
  const mated = matedPlaces(held.labels);
  const every = Math.ceil(mated.length / MOST_PROBES);
  const probes = mated.filter((_, i) => i % every === 0);
  const count = held.labels.length;
  const ks = SHARES.map((share) => Math.max(1, Math.floor(share * count))).filter(
    (k, i, all) => k > 1 && all.indexOf(k) === i,
  );
  if (ks.length === 0) ks.push(8);
  const most = Math.max(RANKS, Math.floor(CAP * count));
  const full = cmc(mateRanks(held, probes), RANKS);
  const enough = goodEnough(training, count);
  const stages: Stage[] = [];
  for (const dimension of dimensions)
    for (const name of names) {
      const compressor = await fittedCompressor(name, training, { dimension, ...fittingOf(values, name) });
      const about = `${set}, ${name}-${dimension}`;
      const candidates = await coarse(held, compressor, probes, Math.max(RANKS, ...ks), about);
      const curves = [0, ...ks].map((k) => ({
        k,
        curve: cmc(
          candidates.map((found, n) =>
            rankAmong(held, probes[n], k === 0 ? found : again(held, probes[n], found.slice(0, k))),
          ),
          RANKS,
        ),
      }));
      const stopping = await untilEnough(held, compressor, probes, enough, most, about);
      progress(`${about}: ${curves.map(({ curve }) => curve[0].toFixed(4)).join(' ')}; ${JSON.stringify(stopping)}`);
      stages.push({ compressor: name, dimension, curves, stopping });
    }
  const falseAlarms = alarms(held, mated, enough);
  return { data, held, probes: probes.length, mated: mated.length, full, ks, enough, falseAlarms, stages };
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

/** The section of one data set. */
function told({ data, held, probes, mated, full, ks, stages }: Measured): string[] {
  const percent = (k: number) => `K = ${k} (${((100 * k) / held.labels.length).toFixed(1)} %)`;
  const within = stages.map(({ compressor, dimension, curves }) => {
    const first = curves.find(({ k, curve }) => k > 0 && curve[0] >= full[0] - LOSS);
    return `${compressor}-${dimension} ${first ? `from K = ${first.k} on` : 'for no K of these'}`;
  });
  return [
    `## ${data.name === 'faces' ? 'Faces' : 'Sentences'}`,
    `${data.source}. A gallery of ${described(held, data.name === 'faces' ? 'people' : 'intents')}, ${whole(probes)} probes${probes < mated ? ` (of ${whole(mated)}, evenly)` : ''}. At ${data.dimension} dimensions in the clear, rank-1 is **${full[0].toFixed(4)}**; one probe is ${(1 / probes).toFixed(4)}.`,
    table(
      ['rank-1', 'first stage alone', ...ks.map(percent)],
      stages.map(({ compressor, dimension, curves }) => [
        `${compressor}-${dimension}`,
        ...curves.map(({ curve }) => curve[0].toFixed(4)),
      ]),
    ),
    `Within ${LOSS} of the full dimension are: ${within.join(', ')}.`,
  ];
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

/** The best of every probe by an encrypted search, itself left out. */
async function coarse(
  held: Part,
  compressor: Compressor,
  probes: Int32Array,
  deep: number,
  about: string,
): Promise<number[][]> {
  const short = await compressed(held, (vectors) => compressor.transform(vectors));
  const gallery = await EncryptedGallery.open({ dimension: short.dimension, profile: PROFILE });
  try {
    await gallery.enrol(short.vectors);
    await gallery.seal();
    const found = await eachProbe(short, probes, (vectors) => gallery.search(vectors, deep + 1), about);
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

function plot({ compressor, dimension: short, curves }: Stage, { data, held, full }: Measured): Promise<string> {
  const label = (k: number) => (k === 0 ? `${short} dimensions alone` : `${short}, then the best ${k}`);
  const series = [
    ...curves.map(({ k, curve }) => ({ label: label(k), curve })),
    { label: `${data.dimension} dimensions`, curve: full },
  ];
  const values = series.flatMap(({ label, curve }) => Array.from(curve, (found, i) => ({ label, rank: i + 1, found })));
  const lowest = Math.min(...values.map(({ found }) => found));
  return render({
    $schema: SCHEMA,
    title: {
      text: `Found within rank r: ${compressor} to ${short} dimensions, encrypted, then ranked again`,
      subtitle: `${data.name}, a gallery of ${held.labels.length.toLocaleString('en-GB')}`,
    },
    width: 460,
    height: 300,
    data: { values },
    mark: { type: 'line', strokeWidth: 2.5 },
    encoding: {
      x: {
        field: 'rank',
        type: 'quantitative',
        title: 'rank r',
        scale: { domain: [1, RANKS], nice: false },
        axis: { values: [1, 5, 10, 15, 20], grid: true },
      },
      y: {
        field: 'found',
        type: 'quantitative',
        title: 'share of probes',
        scale: { domain: [Math.floor(lowest * 20) / 20, 1], nice: false },
        axis: { format: '.2f' },
      },
      color: {
        field: 'label',
        type: 'nominal',
        title: null,
        sort: series.map(({ label }) => label),
        scale: {
          domain: series.map(({ label }) => label),
          range: ['#D55E00', '#E69F00', '#F0C060', '#56B4E9', '#0072B2', '#CC79A7', '#009E73', '#999999']
            .slice(0, series.length - 1)
            .concat('#000000'),
        },
      },
    },
  });
}
