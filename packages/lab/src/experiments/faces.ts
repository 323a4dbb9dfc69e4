// The form of the paper's Table 4: rank-1 identification of faces against the dimension, for every compressor.

import { described, type Part, splitByLabel } from '../datasets.ts';
import { type ClusteredMean, clusteredMean } from '../metrics/clustered.ts';
import { matedPlaces, mateRanks, rankAccuracy } from '../metrics/identification.ts';
import { mean } from '../metrics/mean.ts';
import { fnirAtFpir, openSearches, pairScores, tarAtFar } from '../metrics/open-set.ts';
import { machine, progress } from '../report.ts';
import {
  COMPRESSORS_OPTION,
  compressed,
  compressorScale,
  compressorsOf,
  EPOCHS_OPTION,
  epochsOf,
  FULL,
  fitted,
  fittingOf,
  isNetwork,
  MODELS_OPTION,
} from './compressors.ts';
import { againWith, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, saidSplit, splitOf } from './data.ts';
import { type Experiment, type Figure, type Outcome, wholeNumber, wholeNumbers } from './experiment.ts';
import { page, table, versions } from './markdown.ts';
import { render, SCHEMA } from './plot.ts';
import { TABLE_4 } from './published.ts';
import { signed, whole } from './quantities.ts';

const FAR = 1e-4;
const FPIR = 0.01;

interface Row {
  readonly compressor: string;
  readonly dimension: number;
  /** One for each seed. */
  readonly rank1: readonly number[];
  /** For each probe, the share of the seeds with which its mate comes first. */
  readonly found: Float64Array;
  readonly rank10: number;
  readonly tar: number;
  /** Missing where everybody has several pictures, so that nobody is a stranger. */
  readonly fnir: number | undefined;
}

/** A compressor against another at the same dimension, probe by probe. */
interface Difference {
  readonly compressor: string;
  readonly baseline: string;
  readonly dimension: number;
  readonly difference: ClusteredMean;
}

export const faces: Experiment = {
  name: 'faces',
  summary: 'rank-1 identification of faces against the dimension, for every compressor',
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    dimensions: DIMENSIONS_OPTION,
    compressors: COMPRESSORS_OPTION,
    models: MODELS_OPTION,
    epochs: EPOCHS_OPTION,
    seeds: { type: 'string', help: 'how many seeds to fit with; their mean is the result (1)' },
  },
  async run(values): Promise<Outcome> {
    const small = values.small === true;
    const split = splitOf(values);
    const dimensions = wholeNumbers(values.dimensions, small ? [8, 4] : [64, 32, 16]);
    const seeds = wholeNumber(values, 'seeds', 1);
    const epochs = epochsOf(values);
    const names = compressorsOf(values, small ? ['pca', 'lda'] : undefined);
    const data = await datasetOf('faces', values);
    const { training, held } = splitByLabel(data, split);
    progress(`fitting on ${described(training, 'people')}, measuring on ${described(held, 'people')}`);
    const probes = matedPlaces(held.labels);
    const people = Int32Array.from(probes, (place) => held.labels[place]);
    const rows: Row[] = [row(FULL, held, [mateRanks(held, probes)])];
    for (const dimension of dimensions)
      for (const compressor of names) {
        const ranks: Int32Array[] = [];
        let last = held;
        for (let seed = 1; seed <= seeds; seed++) {
          last = await compressed(
            held,
            await fitted(compressor, training, { dimension, seed, ...fittingOf(values, compressor) }),
          );
          ranks.push(mateRanks(last, probes));
          progress(`${compressor}-${dimension}: ${rankAccuracy(ranks.at(-1)!, 1).toFixed(4)}`);
        }
        rows.push(row(compressor, last, ranks));
      }
    const differences = comparisons(rows, people);
    const measured = (name: string, value: number, unit: string): Figure => ({ name, value, unit, source: 'measured' });
    const results: Figure[] = rows.flatMap(({ compressor, dimension, rank1, found, rank10, tar, fnir }): Figure[] => {
      const name = `${compressor}-${dimension}`;
      const { mean, error, clusterMean, clusterError } = clusteredMean(found, people);
      return [
        measured(name, mean, 'rank-1'),
        measured(`${name}-error`, error, 'standard error'),
        ...(rank1.length > 1 ? rank1.map((value, i) => measured(`${name}-seed${i + 1}`, value, 'rank-1')) : []),
        measured(`${name}-person`, clusterMean, 'rank-1, mean of people'),
        measured(`${name}-person-error`, clusterError, 'standard error'),
        measured(`${name}-rank10`, rank10, 'rank-10'),
        measured(`${name}-tar`, tar, `TAR at FAR ${FAR}`),
        ...(fnir === undefined ? [] : [measured(`${name}-fnir`, fnir, `FNIR at FPIR ${FPIR}`)]),
      ];
    });
    for (const { compressor, baseline, dimension, difference } of differences) {
      const name = `${compressor}-${dimension}-minus-${baseline}`;
      results.push(measured(name, difference.mean, 'rank-1 difference'));
      results.push(measured(`${name}-error`, difference.error, 'standard error'));
    }
    for (const { name, ranks } of TABLE_4)
      for (const [dimension, value] of ranks)
        results.push({ name: `published-${name}-${dimension}`, value, unit: 'rank-1', source: 'published' });
    const persons = new Set(people).size;
    const strangers = held.labels.length - probes.length;
    const report = {
      bench: 'faces',
      parameters: {
        data: data.source,
        split,
        dimensions,
        compressors: names,
        seeds,
        training: described(training, 'people'),
        gallery: described(held, 'people'),
        probes: probes.length,
        persons,
        epochs: epochs ?? 'as published',
        ...versions(),
        small,
      },
      machine: machine(),
      results,
    };
    const markdown = page(
      'Faces: rank-1 against the dimension',
      'faces',
      [
        '![Rank-1 against the dimension](faces.svg)',
        `${data.source}. Fitted on ${described(training, 'people')}; measured on ${described(held, 'people')}, none of them in both. ${saidSplit(split)} Each of ${whole(probes.length)} probes (every picture whose person has another one; they are of ${whole(persons)} people, the most of one ${whole(mostOfOne(people))}) is searched among all other pictures.`,
        table(
          ['rank-1', ...[...dimensions, data.dimension].toSorted((a, b) => b - a).map(String)],
          [FULL, ...names].map((name) => [
            name,
            ...[...dimensions, data.dimension]
              .toSorted((a, b) => b - a)
              .map((dimension) => {
                const row = rows.find((row) => row.compressor === name && row.dimension === dimension);
                return row ? saidMean(row.rank1) : '';
              }),
          ]),
        ),
        seeds > 1
          ? `Means over ${seeds} seeds; in brackets the lowest and the highest. One probe more or less is ${(1 / probes.length).toFixed(4)}.`
          : `One seed. One probe more or less is ${(1 / probes.length).toFixed(4)}.`,
        'How far chance may have moved these figures, had other people been drawn. Probes of one person are not independent, so standard errors are taken over people, not over pictures (cluster-robust). In the last columns each person counts once, however many pictures there are:',
        table(
          ['compressor', 'dimensions', 'rank-1', 'standard error', 'rank-1, each person once', 'standard error'],
          rows.map(({ compressor, dimension, found }) => {
            const { mean, error, clusterMean, clusterError } = clusteredMean(found, people);
            return [
              compressor,
              String(dimension),
              ...[mean, error, clusterMean, clusterError].map((x) => x.toFixed(4)),
            ];
          }),
        ),
        ...(differences.length === 0
          ? []
          : [
              'Compressors are compared on the same probes, so what they share cancels out: differences are known better than the figures themselves.',
              table(
                ['', 'dimensions', 'difference of rank-1', 'standard error'],
                differences.map(({ compressor, baseline, dimension, difference }) => [
                  `${compressor} − ${baseline}`,
                  String(dimension),
                  signed(difference.mean),
                  difference.error.toFixed(4),
                ]),
              ),
              'A difference within two standard errors may be chance. What a network owes to its seed is not in them.',
            ]),
        ...(names.some(isNetwork)
          ? [
              "The paper's text leaves open which pairs DeepMDS is trained on, among which pairs DeepMDS++ mines, and what an epoch is; which of the two is ahead depends on it, and the readings taken here were settled after figures of other readings on the even labels had been seen ([packages/compress](../../packages/compress/README.md) has them). So their order here is no confirmation of the paper's.",
            ]
          : []),
        'The same vectors by other measures (of the last seed):',
        table(
          ['compressor', 'dimensions', 'rank-10', `TAR at FAR ${FAR}`, ...(strangers ? [`FNIR at FPIR ${FPIR}`] : [])],
          rows.map(({ compressor, dimension, rank10, tar, fnir }) => [
            compressor,
            String(dimension),
            rank10.toFixed(4),
            tar.toFixed(4),
            ...(fnir === undefined ? [] : [fnir.toFixed(4)]),
          ]),
        ),
        `TAR at FAR is over all pairs of pictures. ${strangers ? `For FNIR at FPIR one picture each of the ${whole(persons)} people who have several is enrolled; their other ${whole(probes.length - persons)} pictures are probes with a mate, and the ${whole(strangers)} people with one picture are probes without.` : 'There is no FNIR at FPIR, because everybody has several pictures and nobody is left to be a stranger.'}`,
        '## What the paper reports',
        table(
          ['rank-1 (%)', 'dimensions and results'],
          TABLE_4.map(({ what, ranks }) => [
            what,
            ranks.map(([dimension, value]) => `${dimension}: ${(100 * value).toFixed(1)}`).join(', '),
          ]),
          [0, 1],
        ),
        'The figures cannot be compared with ours one by one: another network, a gallery of a million or a hundred million strangers instead of some thousands, and 100 000 vectors to train on instead of some thousands. What can be compared is the loss from one dimension to the next, and the order of the methods.',
      ],
      report,
      againWith(values),
    );
    return { report, markdown, svg: await plot(rows, names, data.dimension, probes.length) };
  },
};

function saidMean(values: readonly number[]): string {
  const said = mean(values).toFixed(4);
  return values.length === 1 ? said : `${said} (${Math.min(...values).toFixed(4)}–${Math.max(...values).toFixed(4)})`;
}

function mostOfOne(people: Int32Array): number {
  const counts = new Map<number, number>();
  for (const person of people) counts.set(person, (counts.get(person) ?? 0) + 1);
  return Math.max(...counts.values());
}

/** Ranks by every seed, and what is known of the vectors of the last one beside them. */
function row(compressor: string, last: Part, ranks: readonly Int32Array[]): Row {
  const { genuine, impostor } = pairScores(last.vectors, last.dimension, last.labels);
  const { mated, strangers } = openSearches(last);
  return {
    compressor,
    dimension: last.dimension,
    rank1: ranks.map((each) => rankAccuracy(each, 1)),
    found: Float64Array.from(ranks[0], (_, probe) => mean(ranks.map((each) => (each[probe] === 1 ? 1 : 0)))),
    rank10: rankAccuracy(ranks.at(-1)!, 10),
    tar: tarAtFar(genuine, impostor, FAR),
    fnir: strangers.length === 0 ? undefined : fnirAtFpir(mated, strangers, FPIR),
  };
}

/** Every compressor against PCA, and the best there is against LDA. */
function comparisons(rows: readonly Row[], people: Int32Array): Difference[] {
  const pairs = (compressor: string) => (compressor === 'auto' ? ['pca', 'lda'] : ['pca']);
  return rows.flatMap(({ compressor, dimension, found }) =>
    pairs(compressor).flatMap((baseline) => {
      const other = rows.find((row) => row.compressor === baseline && row.dimension === dimension);
      if (other === undefined || compressor === baseline || compressor === FULL) return [];
      const difference = clusteredMean(
        found.map((x, probe) => x - other.found[probe]),
        people,
      );
      return [{ compressor, baseline, dimension, difference }];
    }),
  );
}

function plot(rows: readonly Row[], names: readonly string[], full: number, probes: number): Promise<string> {
  const values = rows
    .filter(({ compressor }) => compressor !== FULL)
    .map(({ compressor, dimension, rank1 }) => ({ compressor, dimension, rank1: mean(rank1) }));
  const whole = rows.find(({ compressor }) => compressor === FULL)!;
  const sizes = [...new Set(values.map(({ dimension }) => dimension))];
  const lowest = Math.min(...values.map(({ rank1 }) => rank1));
  const y = {
    field: 'rank1',
    type: 'quantitative' as const,
    scale: { domain: [Math.min(0.95, Math.floor(lowest * 20) / 20), 1], nice: false, zero: false },
    title: 'rank-1',
    axis: { format: '.2f' },
  };
  return render({
    $schema: SCHEMA,
    title: {
      text: 'Faces: rank-1 against the dimension',
      subtitle: `${probes.toLocaleString('en-GB')} probes; dashed: ${full} dimensions, uncompressed`,
    },
    width: 480,
    height: 300,
    layer: [
      {
        data: { values: [{ rank1: mean(whole.rank1) }] },
        mark: { type: 'rule', strokeDash: [5, 4], color: '#000000' },
        encoding: { y },
      },
      {
        data: { values },
        mark: { type: 'line', strokeWidth: 2.5, point: { size: 60, filled: true } },
        encoding: {
          x: {
            field: 'dimension',
            type: 'quantitative',
            scale: { type: 'log', base: 2, domain: [Math.min(...sizes), Math.max(...sizes)], nice: false, padding: 12 },
            title: 'dimensions',
            axis: { values: sizes },
          },
          y,
          color: { field: 'compressor', type: 'nominal', title: null, scale: compressorScale(names) },
        },
      },
    ],
  });
}
