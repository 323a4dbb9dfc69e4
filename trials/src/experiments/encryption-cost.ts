// What compression, rounding and encryption each cost in answers: searches in the clear, of rounded
// vectors, and encrypted under each profile, at full and reduced dimension; and the same against
// many synthetic distractors.

import { FULL } from '@hers/paper/data/compressor-looks';
import {
  bestCompressor,
  COMPRESSORS_OPTION,
  compressed,
  compressorsOf,
  fitted,
  fittingOf,
  MODELS_OPTION,
  STEPS_OPTION,
  stepsOf,
} from '@hers/paper/data/compressors';
import {
  againWith,
  countsOf,
  DATA_OPTION,
  DIMENSIONS_OPTION,
  datasetOf,
  SPLIT_OPTION,
  splitOf,
} from '@hers/paper/data/data';
import { type Part, splitByLabel } from '@hers/paper/data/datasets';
import { EncryptedGallery, type Found } from '@hers/paper/data/encrypted-gallery';
import { FACE_LIKE } from '@hers/paper/data/manifold';
import { type Counts, type Data, type Experiment, type Figure, record } from '@hers/paper/lab/experiment';
import { progress } from '@hers/paper/lab/report';
import { type Values, wholeNumber, wholeNumbers } from '@hers/paper/lab/runner';
import { mean } from '@hers/paper/metrics/statistics';
import { plan, roundVectors } from '@hers/scheme';
import { eachScoreRow, matedPlaces, rowsAt } from '@hers/vectors/accuracy';
import { PlaintextSearch } from '@hers/vectors/testing/plaintext';
import { type Background, backgroundLike } from './background.ts';

const BATCH = 32;
/** Enough to hold whoever scores the same as the best. */
const DEEP = 12;

/** Profiles whose scores have noise, which depends on the key. */
const NOISY = ['compact', 'small'] as const;
export type Noisy = (typeof NOISY)[number];

type Transform = (vectors: Float32Array) => Promise<Float32Array>;

export interface EncryptionCostParameters {
  readonly data: string;
  readonly split: string;
  readonly compressors: readonly string[];
  /** Steps that `exact` rounds a unit to: at full dimension, then at `dimensions`. */
  readonly rounding: readonly number[];
  /** Before compression. */
  readonly fullDimension: number;
  readonly dimensions: readonly number[];
  readonly gallery: Counts;
  readonly probes: number;
  /** Of so many that have a mate. */
  readonly mated: number;
  /** Keys under which all probes are searched for, under each profile with noise. */
  readonly keys: number;
  readonly distractors: readonly number[];
  readonly distractorProbes: number;
  readonly intrinsic: number;
  /** Real ones that synthetic distractors are compared with. */
  readonly strangers: number;
  /** What one stranger in so many reaches is in the results. */
  readonly tails: readonly number[];
  readonly steps: number;
}

interface Row {
  readonly name: string;
  readonly dimension: number;
  readonly plain: number;
  readonly rounded: number;
  /** With a key each. `small` is not offered where it is no smaller than the vectors. */
  readonly noisy: ReadonlyMap<Noisy, readonly number[]>;
  readonly exact: number;
  /**
   * Probes for which the encrypted search under `exact` and the search of rounded vectors disagree
   * about the best score, or about the person.
   */
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
    steps: STEPS_OPTION,
    distractors: { type: 'string', help: 'how many synthetic distractors, with commas between (10000,100000,1000000)' },
    probes: { type: 'string', help: 'probes against the distractors (500)' },
    alone: { type: 'string', help: 'probes without distractors, spread evenly (all that have a mate)' },
    keys: {
      type: 'string',
      help: 'keys under which all probes are searched for under compact and small, whose noise depends on the key (5)',
    },
    intrinsic: { type: 'string', help: 'dimensions of the manifold that distractors are on (16)' },
  },
  async measure(values): Promise<Data<EncryptionCostParameters>> {
    const { small, split, dimensions, distractors, crowdProbes, alone, intrinsic, keys } = settingsOf(values);
    const compressors = compressorsOf(values, small ? ['lda'] : [bestCompressor({}), 'deepmds++']);
    const data = await datasetOf('faces', values);
    const { training, held } = splitByLabel(data, split);
    const mated = matedPlaces(held.labels);
    const probes = evenly(mated, alone ?? mated.length);
    const some = evenly(mated, crowdProbes);
    const cases: { name: string; transform: Transform }[] = [
      { name: `${FULL}-${data.dimension}`, transform: async (vectors) => vectors },
    ];
    for (const compressor of compressors)
      for (const dimension of dimensions) {
        const transform = await fitted(compressor, training, { dimension, ...fittingOf(values, compressor) });
        cases.push({ name: `${compressor}-${dimension}`, transform });
      }
    const background = backgroundLike(training.vectors, data.dimension, { intrinsic });
    const rows: Row[] = [];
    const among: Crowd[] = [];
    for (const { name, transform } of cases) {
      const part = await compressed(held, transform);
      rows.push(await costs(name, part, probes, keys));
      among.push(...(await amongDistractors(name, part, some, background, transform, distractors)));
    }
    const realism = compareWithReal(held, training, some, background, Math.max(...distractors));
    const parameters = {
      ...{ data: data.source, split, compressors, fullDimension: data.dimension, dimensions },
      ...{
        gallery: countsOf(held),
        probes: probes.length,
        mated: mated.length,
        keys,
        distractors,
        distractorProbes: some.length,
      },
      rounding: [data.dimension, ...dimensions].map((dimension) => plan({ dimension, profile: 'exact' }).steps),
      ...{ intrinsic, strangers: realism.count, tails: realism.tails.map(({ one }) => one) },
      steps: stepsOf(values),
    };
    const results = [...rows.flatMap(costFigures), ...among.flatMap(crowdFigures), ...realismFigures(realism)];
    return record('encryption-cost', values, { parameters, results }, againWith(values));
  },
};

function settingsOf(values: Values) {
  const small = values.small === true;
  return {
    small,
    split: splitOf(values),
    dimensions: wholeNumbers(values.dimensions, small ? [8] : [32, 16]),
    distractors: wholeNumbers(values.distractors, small ? [50, 300] : [10_000, 100_000, 1_000_000]),
    crowdProbes: wholeNumber(values, 'probes', small ? 20 : 500),
    alone: values.alone === undefined ? undefined : wholeNumber(values, 'alone', 0),
    intrinsic: wholeNumber(values, 'intrinsic', small ? 6 : FACE_LIKE.intrinsic),
    keys: wholeNumber(values, 'keys', small ? 2 : 5),
  };
}

/** So many of them, spread evenly. */
function evenly(probes: Int32Array, count: number): Int32Array {
  return probes.filter(
    (_, i) => Math.floor((i * count) / probes.length) !== Math.floor(((i - 1) * count) / probes.length),
  );
}

const measured = (name: string, value: number, unit: string): Figure => ({ name, value, unit, source: 'measured' });

function costFigures({ name, plain, rounded, noisy, exact, different }: Row): Figure[] {
  return [
    measured(name, plain, 'rank-1'),
    measured(`${name}-rounded`, rounded, 'rank-1'),
    ...Array.from(noisy).flatMap(([profile, byKey]) => [
      measured(`${name}-${profile}`, mean(byKey), 'rank-1'),
      ...byKey.map((value, i) => measured(`${name}-${profile}-key${i + 1}`, value, 'rank-1')),
    ]),
    measured(`${name}-exact`, exact, 'rank-1'),
    measured(`${name}-exact-different`, different, 'probes'),
  ];
}

function crowdFigures({ name, distractors, plain, encrypted }: Crowd): Figure[] {
  return [
    measured(`${name}-among-${distractors}`, plain, 'rank-1'),
    measured(`${name}-among-${distractors}-compact`, encrypted, 'rank-1'),
  ];
}

function realismFigures({ real, synthetic, needed, tails }: ReturnType<typeof compareWithReal>): Figure[] {
  return [
    measured('distractors-real', real, 'cosine'),
    measured('distractors-synthetic', synthetic, 'cosine'),
    ...(needed === undefined ? [] : [measured('distractors-equal', needed, 'distractors')]),
    ...tails.flatMap(({ one, real, synthetic }) => [
      measured(`distractors-real-one-in-${one}`, real, 'cosine'),
      measured(`distractors-synthetic-one-in-${one}`, synthetic, 'cosine'),
    ]),
  ];
}

/** Whether the best of a list is a mate, strangers first among those that score the same. */
function isFound(found: readonly Found[], labels: Int32Array, probe: number): boolean {
  const others = found.filter(({ index }) => index !== probe);
  const best = others[0].score;
  return others.every(({ index, score }) => score < best || labels[index] === labels[probe]);
}

async function costs(name: string, part: Part, probes: Int32Array, keys: number): Promise<Row> {
  const { vectors, dimension, labels } = part;
  progress(`${name}: in the clear`);
  const exactly = plan({ dimension, profile: 'exact' });
  const rounded = Float32Array.from(roundVectors(exactly, vectors));
  const clear = plainBest(vectors, dimension, labels, probes);
  const integers = plainBest(rounded, dimension, labels, probes);
  const share = (count: number) => count / probes.length;
  const searched = async (
    gallery: EncryptedGallery,
    about: string,
    look: (i: number, list: readonly Found[]) => void = () => {},
  ) => {
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
  const noisy = new Map<Noisy, number[]>();
  for (const profile of NOISY)
    for (let key = 1; key <= keys; key++) {
      const gallery = await EncryptedGallery.openOffered({ dimension, profile });
      if (!gallery) continue;
      const rank1 = await searched(gallery, `${profile}, key ${key} of ${keys}`);
      noisy.set(profile, [...(noisy.get(profile) ?? []), rank1]);
    }
  let different = 0;
  const whole = await EncryptedGallery.open({ dimension, profile: 'exact' });
  const exact = await searched(whole, 'exact', (n, list) => {
    const best = list.find(({ index }) => index !== probes[n])!;
    const wanted = integers[n];
    if (
      isFound(list, labels, probes[n]) !== wanted.right ||
      Math.round(best.score * exactly.steps ** 2) !== wanted.score
    )
      different++;
  });
  return {
    name,
    dimension,
    plain: share(clear.filter(({ right }) => right).length),
    rounded: share(integers.filter(({ right }) => right).length),
    noisy,
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
          progress(`${name}: encrypted, among ${enrolled}, ${at} of ${probes.length}`);
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

/**
 * How real strangers and synthetic ones score against the same probes, and how many synthetic ones
 * are as hard as all the real ones.
 */
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
