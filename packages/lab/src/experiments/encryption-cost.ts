// What compression, rounding and encryption each cost in answers: searches in the clear, of rounded vectors, and encrypted under both profiles, at full and reduced dimension; and
// the same against many synthetic distractors.

import type { Profile } from '@hers/client';
import { plan, roundVectors } from '@hers/scheme';
import { type Background, backgroundLike } from '../background.ts';
import { described, type Part, splitByLabel } from '../datasets.ts';
import { EncryptedGallery, type Found } from '../encrypted-gallery.ts';
import { FACE_LIKE } from '../manifold.ts';
import { matedPlaces } from '../metrics/identification.ts';
import { mean } from '../metrics/mean.ts';
import { eachScoreRow, rowsAt } from '../metrics/score-rows.ts';
import { PlaintextSearch } from '../plaintext.ts';
import { machine, progress } from '../report.ts';
import {
  bestCompressor,
  COMPRESSORS_OPTION,
  compressed,
  EPOCHS_OPTION,
  FULL,
  fitted,
  fittingOf,
  MODELS_OPTION,
} from './compressors.ts';
import { againWith, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, saidSplit, splitOf } from './data.ts';
import { type Experiment, type Figure, type Outcome, wholeNumber, wholeNumbers } from './experiment.ts';
import { page, table, versions } from './markdown.ts';
import { COLOURS, render, SCHEMA } from './plot.ts';
import { signed, templates, whole } from './quantities.ts';

const BATCH = 32;
/** Enough to hold whoever scores the same as the best. */
const DEEP = 12;

type Transform = (vectors: Float32Array) => Promise<Float32Array>;

interface Row {
  readonly name: string;
  readonly dimension: number;
  readonly plain: number;
  readonly rounded: number;
  /** With a key each: noise depends on it. */
  readonly compact: readonly number[];
  readonly exact: number;
  /** Probes for which the encrypted search under `exact` and the search of rounded vectors disagree about the best score, or about the person. */
  readonly different: number;
}

interface Crowd {
  readonly name: string;
  readonly distractors: number;
  readonly plain: number;
  readonly encrypted: number;
}

export const encryptionCost: Experiment = {
  name: 'encryption-cost',
  summary: 'what compression, rounding and encryption each cost in answers, up to a million distractors',
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    dimensions: DIMENSIONS_OPTION,
    compressors: COMPRESSORS_OPTION,
    models: MODELS_OPTION,
    epochs: EPOCHS_OPTION,
    distractors: { type: 'string', help: 'how many synthetic distractors, with commas between (10000,100000,1000000)' },
    probes: { type: 'string', help: 'probes against the distractors (500); all are searched without' },
    keys: {
      type: 'string',
      help: 'keys under which all probes are searched for under compact, whose noise depends on the key (5)',
    },
    intrinsic: { type: 'string', help: 'dimensions of the manifold that distractors are on (16)' },
  },
  async run(values): Promise<Outcome> {
    const small = values.small === true;
    const split = splitOf(values);
    const dimensions = wholeNumbers(values.dimensions, small ? [8] : [32, 16]);
    const crowds = wholeNumbers(values.distractors, small ? [50, 300] : [10_000, 100_000, 1_000_000]);
    const crowdProbes = wholeNumber(values, 'probes', small ? 20 : 500);
    const intrinsic = wholeNumber(values, 'intrinsic', small ? 6 : FACE_LIKE.intrinsic);
    const keys = wholeNumber(values, 'keys', small ? 2 : 5);
    const compressor = bestCompressor(small ? { compressors: 'lda', ...values } : values);
    const data = await datasetOf('faces', values);
    const { training, held } = splitByLabel(data, split);
    const probes = matedPlaces(held.labels);
    const some = probes.filter(
      (_, i) => Math.floor((i * crowdProbes) / probes.length) !== Math.floor(((i - 1) * crowdProbes) / probes.length),
    );
    const cases: { name: string; transform: Transform }[] = [
      { name: `${FULL}-${data.dimension}`, transform: async (vectors) => vectors },
    ];
    for (const dimension of dimensions)
      cases.push({
        name: `${compressor}-${dimension}`,
        transform: await fitted(compressor, training, { dimension, ...fittingOf(values, compressor) }),
      });
    const background = backgroundLike(training.vectors, data.dimension, { intrinsic });
    const rows: Row[] = [];
    const among: Crowd[] = [];
    for (const { name, transform } of cases) {
      const part = await compressed(held, transform);
      rows.push(await costs(name, part, probes, keys));
      among.push(...(await amongDistractors(name, part, some, background, transform, crowds)));
    }
    const realism = compareWithReal(held, training, some, background, Math.max(...crowds));
    const results: Figure[] = [
      ...rows.flatMap(({ name, plain, rounded, compact, exact, different }): Figure[] => [
        { name, value: plain, unit: 'rank-1', source: 'measured' },
        { name: `${name}-rounded`, value: rounded, unit: 'rank-1', source: 'measured' },
        { name: `${name}-compact`, value: mean(compact), unit: 'rank-1', source: 'measured' },
        ...compact.map(
          (value, i): Figure => ({
            name: `${name}-compact-key${i + 1}`,
            value,
            unit: 'rank-1',
            source: 'measured',
          }),
        ),
        { name: `${name}-exact`, value: exact, unit: 'rank-1', source: 'measured' },
        { name: `${name}-exact-different`, value: different, unit: 'probes', source: 'measured' },
      ]),
      ...among.flatMap(({ name, distractors, plain, encrypted }): Figure[] => [
        { name: `${name}-among-${distractors}`, value: plain, unit: 'rank-1', source: 'measured' },
        { name: `${name}-among-${distractors}-compact`, value: encrypted, unit: 'rank-1', source: 'measured' },
      ]),
      { name: 'distractors-real', value: realism.real, unit: 'cosine', source: 'measured' },
      { name: 'distractors-synthetic', value: realism.synthetic, unit: 'cosine', source: 'measured' },
      ...(realism.needed === undefined
        ? []
        : [{ name: 'distractors-equal', value: realism.needed, unit: 'distractors', source: 'measured' } as const]),
    ];
    const report = {
      bench: 'encryption-cost',
      parameters: {
        data: data.source,
        split,
        compressor,
        dimensions,
        gallery: described(held, 'people'),
        probes: probes.length,
        distractors: crowds,
        distractorProbes: some.length,
        intrinsic,
        epochs: typeof values.epochs === 'string' ? Number(values.epochs) : 'as published',
        ...versions(),
        small,
      },
      machine: machine(),
      results,
    };
    const [uncompressed] = rows;
    const markdown = page(
      'What compression, rounding and encryption cost',
      'encryption-cost',
      [
        '![Rank-1 in the clear and encrypted, against the number of distractors](encryption-cost.svg)',
        `${data.source}. ${saidSplit(split)} ${described(held, 'people')}, ${whole(probes.length)} probes, each searched among all other pictures: in the clear as floating-point numbers, in the clear after rounding to 1/250 as the profile \`exact\` does, and encrypted through the client and a store in a folder.`,
        table(
          ['rank-1', 'in the clear', 'rounded', 'encrypted, exact', 'encrypted, compact'],
          rows.map(({ name, plain, rounded, exact, compact }) => [
            name,
            plain.toFixed(4),
            rounded.toFixed(4),
            exact.toFixed(4),
            `${mean(compact).toFixed(4)} (${Math.min(...compact).toFixed(4)} to ${Math.max(...compact).toFixed(4)})`,
          ]),
        ),
        'The same as differences:',
        table(
          ['', 'compression', 'rounding', 'encryption, exact', 'encryption, compact'],
          rows.map(({ name, plain, rounded, exact, compact }) => [
            name,
            name.startsWith(FULL) ? '' : signed(plain - uncompressed.plain),
            signed(rounded - plain),
            signed(exact - rounded),
            `${signed(mean(compact) - plain)} (${signed(Math.min(...compact) - plain)} to ${signed(Math.max(...compact) - plain)})`,
          ]),
        ),
        `Under \`compact\` all probes were searched for under ${keys} keys; the figures are the mean, and in brackets the lowest and the highest: noise decides between two who score almost the same, either way, and fewer dimensions make more such pairs. Compression is against ${data.dimension} dimensions, rounding and \`compact\` against floating-point numbers of the same dimension, \`exact\` against rounded ones. Under \`exact\`, ${rows.map(({ name, different }) => `${whole(different)} of ${whole(probes.length)} probes (${name})`).join(', ')} had another best score, or another person with it, than the search of rounded vectors in the clear. (Where several share the best score, a stranger counts as first, on both sides.)`,
        '## Among many',
        `The same gallery with distractors added, ${whole(some.length)} of the probes, encrypted under \`compact\`. Distractors are synthetic people on a curved manifold of ${intrinsic} dimensions, with noise, mapped so that their mean and covariance are those of the half that compressors are fitted on.`,
        table(
          ['', 'distractors', 'rank-1 in the clear', 'encrypted'],
          among.map(({ name, distractors, plain, encrypted }) => [
            name,
            templates(distractors),
            plain.toFixed(4),
            encrypted.toFixed(4),
          ]),
        ),
        `Beside real strangers, which have more look-alikes among them: the best of ${whole(realism.count)} real strangers (the training half, all dimensions) scores ${realism.real.toFixed(3)} on average, the best of as many synthetic ones ${realism.synthetic.toFixed(3)}; ${realism.needed === undefined ? 'not even all of them reach the former' : `it takes ${whole(realism.needed)} of them to reach the former`}.${realism.tails.length > 0 ? ' Scores that few strangers reach:' : ''}`,
        ...(realism.tails.length === 0
          ? []
          : [
              table(
                ['one stranger in', ...realism.tails.map(({ one }) => whole(one))],
                [
                  ['real', ...realism.tails.map(({ real }) => real.toFixed(3))],
                  ['synthetic', ...realism.tails.map(({ synthetic }) => synthetic.toFixed(3))],
                ],
              ),
            ]),
        "The table shows what noise and compression do among many, side by side. Where synthetic strangers score lower than real ones, it flatters all rows alike, and is no forecast for as many real people. The paper's figures are against a million pictures of MegaFace.",
      ],
      report,
      againWith(values),
    );
    return { report, markdown, svg: await plot(among) };
  },
};

/** Whether the best of a list is a mate, strangers first among those that score the same. */
function isFound(found: readonly Found[], labels: Int32Array, probe: number): boolean {
  const others = found.filter(({ index }) => index !== probe);
  const best = others[0].score;
  return others.every(({ index, score }) => score < best || labels[index] === labels[probe]);
}

async function costs(name: string, part: Part, probes: Int32Array, keys: number): Promise<Row> {
  const { vectors, dimension, labels } = part;
  progress(`${name}: in the clear`);
  const rounded = Float32Array.from(roundVectors(plan({ dimension, profile: 'exact' }), vectors));
  const clear = plainBest(vectors, dimension, labels, probes);
  const integers = plainBest(rounded, dimension, labels, probes);
  const share = (count: number) => count / probes.length;
  const searched = async (
    profile: Profile,
    about: string,
    look: (i: number, list: readonly Found[]) => void = () => {},
  ) => {
    const gallery = await EncryptedGallery.open({ dimension, profile });
    let found = 0;
    try {
      await gallery.enrol(vectors);
      await gallery.seal();
      for (let at = 0; at < probes.length; at += BATCH) {
        if (at % (BATCH * 32) === 0) progress(`${name}: encrypted, ${about}, ${at} of ${probes.length}`);
        const places = probes.subarray(at, at + BATCH);
        for (const [i, list] of (await gallery.search(rowsAt(vectors, dimension, places), DEEP)).entries()) {
          if (isFound(list, labels, places[i])) found++;
          look(at + i, list);
        }
      }
    } finally {
      await gallery.close();
    }
    return share(found);
  };
  const compact: number[] = [];
  for (let key = 1; key <= keys; key++) compact.push(await searched('compact', `compact, key ${key} of ${keys}`));
  let different = 0;
  const exact = await searched('exact', 'exact', (n, list) => {
    const best = list.find(({ index }) => index !== probes[n])!;
    const wanted = integers[n];
    if (isFound(list, labels, probes[n]) !== wanted.right || Math.round(best.score * 250 ** 2) !== wanted.score)
      different++;
  });
  return {
    name,
    dimension,
    plain: share(clear.filter(({ right }) => right).length),
    rounded: share(integers.filter(({ right }) => right).length),
    compact,
    exact,
    different,
  };
}

/** The best of all others for every probe, and whether it is a mate. */
function plainBest(vectors: Float32Array, dimension: number, labels: Int32Array, probes: Int32Array) {
  const out: { score: number; right: boolean }[] = [];
  eachScoreRow(rowsAt(vectors, dimension, probes), vectors, dimension, (n, scores) => {
    let [mate, stranger] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (let j = 0; j < scores.length; j++) {
      if (j === probes[n]) continue;
      if (labels[j] === labels[probes[n]]) mate = Math.max(mate, scores[j]);
      else stranger = Math.max(stranger, scores[j]);
    }
    out.push({ score: Math.max(mate, stranger), right: mate > stranger });
  });
  return out;
}

/** The gallery and more and more distractors, searched in the clear and encrypted. */
async function amongDistractors(
  name: string,
  part: Part,
  probes: Int32Array,
  background: Background,
  transform: Transform,
  crowds: readonly number[],
): Promise<Crowd[]> {
  const { vectors, dimension, labels } = part;
  const asked = rowsAt(vectors, dimension, probes);
  const gallery = await EncryptedGallery.open({ dimension, profile: 'compact' });
  try {
    await gallery.enrol(vectors);
    const alone = plainBest(vectors, dimension, labels, probes);
    const clear = new PlaintextSearch(asked, dimension);
    const out: Crowd[] = [];
    const sizes = crowds.toSorted((a, b) => a - b);
    let enrolled = 0;
    for (const chunk of background.chunks(sizes.at(-1)!, 4096)) {
      // A chunk may reach beyond a size that is asked for.
      let short = await transform(chunk);
      while (short.length > 0) {
        const next = sizes[out.length];
        const part = short.subarray(0, (next - enrolled) * dimension);
        await gallery.enrol(part);
        clear.scan(part);
        enrolled += part.length / dimension;
        short = short.subarray(part.length);
        if (enrolled < next) continue;
        await gallery.seal();
        const best = clear.best().score;
        const plain = alone.filter(({ right, score }, i) => right && score > best[i]).length;
        let encrypted = 0;
        for (let at = 0; at < probes.length; at += BATCH) {
          progress(`${name}: encrypted, among ${whole(enrolled)}, ${at} of ${probes.length}`);
          const places = probes.subarray(at, at + BATCH);
          const found = await gallery.search(asked.subarray(at * dimension, (at + places.length) * dimension), DEEP);
          for (const [i, list] of found.entries()) if (isFound(list, labels, places[i])) encrypted++;
        }
        out.push({ name, distractors: enrolled, plain: plain / probes.length, encrypted: encrypted / probes.length });
      }
    }
    return out;
  } finally {
    await gallery.close();
  }
}

/** What one stranger in so many reaches. */
const TAILS = [1000, 10_000, 100_000];

/** How real strangers and synthetic ones score against the same probes, and how many synthetic ones are as hard as all the real ones. */
function compareWithReal(held: Part, training: Part, probes: Int32Array, background: Background, most: number) {
  const { dimension } = held;
  const asked = rowsAt(held.vectors, dimension, probes);
  const count = training.labels.length;
  const [same] = background.chunks(count, count);
  const scores = [training.vectors, same].map((strangers) => {
    const all = new Float64Array(probes.length * count);
    let best = 0;
    eachScoreRow(asked, strangers, dimension, (n, row) => {
      all.set(row, n * count);
      best += row.reduce((a, b) => Math.max(a, b)) / probes.length;
    });
    return { best, all: all.sort() };
  });
  const [real, synthetic] = scores;
  const reached = ({ all }: { all: Float64Array }, one: number) => all[all.length - Math.ceil(all.length / one)];
  const tails = TAILS.filter((one) => 10 * one <= real.all.length).map((one) => ({
    one,
    real: reached(real, one),
    synthetic: reached(synthetic, one),
  }));
  return {
    count,
    real: real.best,
    synthetic: synthetic.best,
    needed: asHardAs(real.best, asked, dimension, background, most),
    tails,
  };
}

/** How many distractors it takes until the best of them score this well on average. */
function asHardAs(
  wanted: number,
  asked: Float32Array,
  dimension: number,
  background: Background,
  most: number,
): number | undefined {
  const search = new PlaintextSearch(asked, dimension);
  let count = 0;
  for (const chunk of background.chunks(most, 1000)) {
    search.scan(chunk);
    count += chunk.length / dimension;
    const { score } = search.best();
    if (score.reduce((sum, x) => sum + x, 0) / score.length >= wanted) return count;
  }
  return undefined;
}

function plot(among: readonly Crowd[]): Promise<string> {
  const values = among.flatMap(({ name, distractors, plain, encrypted }) => [
    { name, distractors, search: 'in the clear', rank1: plain },
    { name, distractors, search: 'encrypted, compact', rank1: encrypted },
  ]);
  const names = [...new Set(among.map(({ name }) => name))];
  const sizes = [...new Set(among.map(({ distractors }) => distractors))];
  const colours = [COLOURS.published, COLOURS['this project, exact'], COLOURS['HERS, SEAL'], '#009E73', '#E69F00'];
  return render({
    $schema: SCHEMA,
    title: {
      text: 'Faces among synthetic distractors: rank-1 in the clear and encrypted',
      subtitle: 'lines: in the clear; rings: encrypted (compact), end to end',
    },
    width: 480,
    height: 300,
    encoding: {
      x: {
        field: 'distractors',
        type: 'quantitative',
        scale: { type: 'log', domain: [Math.min(...sizes), Math.max(...sizes)], nice: false, padding: 14 },
        title: 'distractors',
        axis: {
          values: sizes,
          labelExpr: "datum.value < 1e6 ? format(datum.value, ',') : format(datum.value / 1e6, ',') + ' million'",
        },
      },
      y: {
        field: 'rank1',
        type: 'quantitative',
        title: 'rank-1',
        scale: { domain: [Math.floor(Math.min(...values.map(({ rank1 }) => rank1)) * 10) / 10, 1], nice: false },
        axis: { format: '.2f' },
      },
      color: {
        field: 'name',
        type: 'nominal',
        title: null,
        scale: { domain: names, range: names.map((_, i) => colours[i % colours.length]) },
      },
    },
    layer: [
      {
        data: { values: values.filter(({ search }) => search === 'in the clear') },
        mark: { type: 'line', strokeWidth: 2 },
      },
      {
        data: { values: values.filter(({ search }) => search !== 'in the clear') },
        mark: { type: 'point', size: 110, strokeWidth: 2.2, opacity: 1 },
      },
    ],
  });
}
