// The paper's security analysis, carried out: what comes back of a probe from its scores, when the gallery is in the clear, when it is encrypted, and when there are scores alone;
// and whether ciphertexts of the same templates under two keys can be linked.

import { blockMatrix, decodeBlock, decodeQuery, encodeResponse, expandedQuery, plan, scanBlock } from '@hers/scheme';
import { type CollectionKey, encryptBlock, encryptQuery, MasterSeed } from '@hers/scheme/secret';
import { type Part, splitByLabel } from '../datasets.ts';
import { matedPlaces, rankOfMate } from '../metrics/identification.ts';
import { eachScoreRow, rowsAt } from '../metrics/score-rows.ts';
import { machine, progress } from '../report.ts';
import { ciphertextAsGallery, ciphertextCoefficients } from '../security/ciphertext-words.ts';
import { cosine, ScoreInversion } from '../security/inversion.ts';
import { type Linking, linkingAdvantage, type Pair } from '../security/unlinkability.ts';
import { againWith, DATA_OPTION, datasetOf, SPLIT_OPTION, saidSplit, splitOf } from './data.ts';
import type { Experiment, Figure, Outcome, Values } from './experiment.ts';
import { page, table, versions } from './markdown.ts';
import { render, SCHEMA } from './plot.ts';
import { whole } from './quantities.ts';

/** What the attacker holds beside the scores. */
const LEAKS = {
  plain: 'the templates in the clear',
  encrypted: 'the templates encrypted',
  scores: 'scores alone',
} as const;
type Leak = keyof typeof LEAKS;

/** Keys, and galleries, over which the probes are spread. */
const GROUPS = 20;

interface Attack {
  readonly leak: Leak;
  readonly profile: 'exact' | 'compact';
  /** Scores that leaked, each of another template. */
  readonly known: number;
  readonly cosine: number;
  /** Standard error of it, over the groups. */
  readonly error: number;
  /** Share of the probes whose person is the first that the reconstruction finds. */
  readonly identified: number;
}

export const inversion: Experiment = {
  name: 'inversion',
  summary: 'what comes back of a probe from its scores; whether ciphertexts can be linked',
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    probes: { type: 'string', help: 'probes to attack (200)' },
    pairs: { type: 'string', help: 'pairs of ciphertexts to judge (400)' },
  },
  async run(values): Promise<Outcome> {
    const small = values.small === true;
    const split = splitOf(values);
    const data = await datasetOf('faces', values);
    const { training, held } = splitByLabel(data, split);
    const { dimension } = data;
    const probes = chosen(held, count(values, 'probes', small ? 6 : 200));
    const pairs = count(values, 'pairs', small ? 8 : 400);
    const profiles = ['exact', 'compact'] as const;
    const attacks = profiles.flatMap((profile) => attack(held, training, probes, profile, small));
    const guess = guesses(held, training, probes);
    const links = profiles.map((profile) => ({ profile, ...linking(held, profile, pairs) }));
    const results: Figure[] = [
      ...attacks.flatMap(({ leak, profile, known, cosine: value, identified }): Figure[] => [
        { name: `${leak}-${profile}-${known}`, value, unit: 'cosine', source: 'measured' },
        { name: `${leak}-${profile}-${known}-identified`, value: identified, unit: 'of probes', source: 'measured' },
      ]),
      { name: 'guess-mean', value: guess.mean, unit: 'cosine', source: 'measured' },
      { name: 'guess-stranger', value: guess.stranger, unit: 'cosine', source: 'measured' },
      { name: 'guess-identified', value: guess.person, unit: 'of probes', source: 'computed' },
      ...links.flatMap(({ profile, keys, control }): Figure[] => [
        { name: `linking-${profile}`, value: keys.advantage, unit: 'advantage', source: 'measured' },
        { name: `linking-${profile}-control`, value: control.advantage, unit: 'advantage', source: 'measured' },
      ]),
    ];
    const report = {
      bench: 'inversion',
      parameters: { data: data.source, split, dimension, probes: probes.length, pairs, ...versions(), small },
      machine: machine(),
      results,
    };
    const rows = attacks.filter(({ known }) => shown(known, dimension));
    const most = Math.max(...attacks.map(({ known }) => known));
    const last = (leak: Leak) => attacks.filter((each) => each.leak === leak && each.known === most);
    const figures = (each: Attack) =>
      `${each.cosine.toFixed(3)} ± ${(1.96 * each.error).toFixed(3)} under ${each.profile}`;
    const markdown = page(
      'Score inversion, and linking of ciphertexts',
      'inversion',
      [
        '![Resemblance of the reconstruction against the number of scores that leaked](inversion.svg)',
        `Somebody learns the scores of an unknown probe against m templates and solves the least-squares problem of the paper's security analysis, q = (PᵀP + λI)⁻¹Pᵀr. The figures are the mean cosine of the result and the probe: 1 is the probe itself. Scores are the decrypted ones of real encrypted searches. ${saidSplit(split)} Data: ${data.source}; ${probes.length} probes, spread over ${Math.min(GROUPS, probes.length)} galleries with a key each; ± is 95 %, from how much these differ.`,
        table(
          ['the attacker holds scores and …', 'profile', 'm', 'cosine', '±', 'person found'],
          rows.map((each) => [
            LEAKS[each.leak],
            each.profile,
            whole(each.known),
            each.cosine.toFixed(3),
            (1.96 * each.error).toFixed(3),
            each.identified.toFixed(3),
          ]),
          [0, 1],
        ),
        `Guessing without any score: a stranger's vector has a mean cosine of ${guess.stranger.toFixed(3)}, the mean of the population ${guess.mean.toFixed(3)}. "Person found" is how often the reconstruction, used as a probe, finds another picture of the same person first; a picture drawn at random is one of the same person for ${guess.person.toFixed(3)} of the probes, for some people have many.`,
        `With the templates in the clear, ${dimension} scores are as good as the probe. With the same templates encrypted, all ${whole(most)} scores give ${last('encrypted').map(figures).join(' and ')}: nothing. The attacker here is as the server would be, takes the coefficients of the ciphertext for the gallery, and knows which score belongs to which slot. With scores alone (the attacker puts vectors of other people in the place of the templates), they give ${last('scores').map(figures).join(' and ')}.`,
        "The roles can be swapped: scores of one template against as many *known* probes give the template away just as well. So can they be put together: scores of many probes against many templates determine all vectors up to a linear map, and a few known ones fix it. Least squares is the paper's attack and needs no cryptography; what it shows is that scores are as good as vectors to whoever holds vectors on the other side. And a `compact` score carries noise that depends on the key: whoever sees ciphertexts *and* scores of known vectors can attack the key itself ([SECURITY.md](../../SECURITY.md)). This table is no permission to publish scores.",
        '## Linking',
        `A judge is shown two encrypted blocks, eight coordinates each of ${whole(plan({ dimension, profile: 'compact' }).parameters.n)} (compact) or ${whole(plan({ dimension, profile: 'exact' }).parameters.n)} (exact) templates under two keys, half of the time of the same templates, and has to say which it is. It has learned from ${pairs} such pairs (correlation of the coefficients, their distances around the circle, signs, squares, equal values) and is measured on ${pairs} others. The control is the same with one mask used twice, which the scheme never does.`,
        table(
          ['profile', 'advantage, two keys', 'advantage, control', '95 % of judges that know nothing are within'],
          links.map(({ profile, keys, control }) => [
            profile,
            keys.advantage.toFixed(3),
            control.advantage.toFixed(3),
            `± ${keys.margin.toFixed(3)}`,
          ]),
        ),
      ],
      report,
      againWith(values),
    );
    return { report, markdown, svg: await plot(attacks, guess, dimension) };
  },
};

function count(values: Values, name: string, otherwise: number): number {
  if (values[name] === undefined) return otherwise;
  const number = Number(values[name]);
  if (!(Number.isInteger(number) && number >= 4 && number % 2 === 0))
    throw new RangeError(`--${name} is an even whole number, four or more`);
  return number;
}

/** Mated pictures, spread over the set. */
function chosen({ labels }: Part, wanted: number): Int32Array {
  const mated = matedPlaces(labels);
  const some = Math.min(wanted, mated.length);
  return Int32Array.from({ length: some }, (_, i) => mated[Math.floor((i * mated.length) / some)]);
}

function leakSizes(dimension: number, most: number): number[] {
  const sizes = [1 / 8, 1 / 4, 1 / 2, 3 / 4, 7 / 8, 1, 9 / 8, 3 / 2, 2, 4, 8, 16].map((x) => Math.round(x * dimension));
  return [...sizes.filter((size) => size < most), most];
}

/** In the table: a few of the sizes that the plot shows. */
const shown = (known: number, dimension: number) =>
  [1 / 4, 1 / 2, 1, 2, 16].some((x) => known === Math.round(x * dimension));

function newKey(dimension: number, profile: 'exact' | 'compact'): CollectionKey {
  const master = MasterSeed.generate();
  const key = master.collectionKey(plan({ dimension, profile }), crypto.getRandomValues(new Uint8Array(16)));
  master.wipe();
  return key;
}

/** One gallery, one key, and what the attack makes of the scores of a few probes. */
interface Group {
  readonly cosines: Map<string, number[]>;
  readonly found: Map<string, number>;
}

/**
 * Real encrypted searches, and the attack on their scores. Every group of probes has a gallery, a key and a block of its own: what probes of one block have in common would
 * otherwise be taken for a result.
 */
function attack(
  held: Part,
  training: Part,
  probes: Int32Array,
  profile: 'exact' | 'compact',
  small: boolean,
): Attack[] {
  const { dimension } = held;
  const people = new Set(Array.from(probes, (place) => held.labels[place]));
  // Strangers to the probes: a picture of the same person would say more than its score.
  const strangers = Array.from(held.labels.keys()).filter((place) => !people.has(held.labels[place]));
  const { n } = plan({ dimension, profile }).parameters;
  const most = Math.min(small ? 64 : 16 * dimension, n, strangers.length, training.labels.length);
  const sizes = leakSizes(dimension, most);
  const each = Math.ceil(probes.length / GROUPS);
  const groups: Group[] = [];
  for (let at = 0; at < probes.length; at += each) {
    progress(`inversion, ${profile}: probe ${at + 1} of ${probes.length}`);
    const turned = (length: number) => Array.from({ length: most }, (_, j) => (j + at * 31) % length);
    const templates = rowsAt(
      held.vectors,
      dimension,
      turned(strangers.length).map((j) => strangers[j]),
    );
    const substitutes = rowsAt(training.vectors, dimension, turned(training.labels.length));
    groups.push(attackGroup(held, probes.subarray(at, at + each), { templates, substitutes, sizes, profile }));
  }
  return (Object.keys(LEAKS) as Leak[]).flatMap((leak) =>
    sizes.map((known) => {
      const name = `${leak}-${known}`;
      const found = groups.reduce((sum, group) => sum + group.found.get(name)!, 0);
      return {
        leak,
        profile,
        known,
        ...meanOf(groups.map((group) => mean(group.cosines.get(name)!))),
        identified: found / probes.length,
      };
    }),
  );
}

function attackGroup(
  held: Part,
  probes: Int32Array,
  {
    templates,
    substitutes,
    sizes,
    profile,
  }: { templates: Float32Array; substitutes: Float32Array; sizes: readonly number[]; profile: 'exact' | 'compact' },
): Group {
  const { dimension, labels } = held;
  const key = newKey(dimension, profile);
  const block = decodeBlock(encryptBlock(key, templates));
  const matrix = blockMatrix(block);
  const slots = Int32Array.from({ length: templates.length / dimension }, (_, j) => j);
  const words = ciphertextAsGallery(block, slots, dimension);
  // Ciphertext words are scaled to unit length like any template, or λ would mean something else for them.
  const length = Math.sqrt(words.reduce((sum, x) => sum + x * x, 0) / slots.length);
  const galleries = { plain: templates, encrypted: words.map((x) => x / length), scores: substitutes };
  // Errors of a score have variance 0.0015² (noise, or rounding to 1/250), coordinates of a probe 1/d: λ is their ratio.
  const lambda = 0.0015 ** 2 * dimension;
  const cases = (Object.keys(LEAKS) as Leak[]).flatMap((leak) =>
    sizes.map((known) => ({
      name: `${leak}-${known}`,
      known,
      inversion: new ScoreInversion(galleries[leak].subarray(0, known * dimension), dimension, lambda),
    })),
  );
  const cosines = new Map(cases.map(({ name }) => [name, [] as number[]]));
  const found = new Map(cases.map(({ name }) => [name, 0]));
  for (const place of probes) {
    const probe = held.vectors.subarray(place * dimension, (place + 1) * dimension);
    const { query, secret } = encryptQuery(key, probe);
    const { scores } = secret.decrypt(encodeResponse(scanBlock(matrix, expandedQuery(decodeQuery(query)))));
    secret.wipe();
    const reconstructions = new Float32Array(cases.length * dimension);
    for (const [i, { name, known, inversion }] of cases.entries()) {
      const reconstruction = inversion.solve(scores.subarray(0, known));
      cosines.get(name)!.push(cosine(reconstruction, probe));
      reconstructions.set(reconstruction, i * dimension);
    }
    eachScoreRow(reconstructions, held.vectors, dimension, (i, row) => {
      const { name } = cases[i];
      if (rankOfMate(row, labels, labels[place], place) === 1) found.set(name, found.get(name)! + 1);
    });
  }
  key.wipe();
  return { cosines, found };
}

const mean = (values: readonly number[]) => values.reduce((sum, x) => sum + x, 0) / values.length;

/** The mean of the groups, and its standard error. */
function meanOf(groups: readonly number[]): { cosine: number; error: number } {
  const middle = mean(groups);
  const variance = groups.reduce((sum, x) => sum + (x - middle) ** 2, 0) / (groups.length - 1);
  return { cosine: middle, error: Math.sqrt(variance / groups.length) };
}

/** What those reach who know the population and no score. */
function guesses(held: Part, training: Part, probes: Int32Array): { mean: number; stranger: number; person: number } {
  const { dimension, labels } = held;
  const pictures = new Map<number, number>();
  for (const label of labels) pictures.set(label, (pictures.get(label) ?? 0) + 1);
  const centre = new Float64Array(dimension);
  for (let i = 0; i < training.vectors.length; i++) centre[i % dimension] += training.vectors[i];
  let [mean, stranger, person] = [0, 0, 0];
  for (const [n, place] of probes.entries()) {
    const probe = held.vectors.subarray(place * dimension, (place + 1) * dimension);
    const other = Math.floor((n * training.labels.length) / probes.length);
    mean += cosine(probe, centre) / probes.length;
    person += (pictures.get(labels[place])! - 1) / (labels.length - 1) / probes.length;
    stranger += cosine(probe, training.vectors.subarray(other * dimension, (other + 1) * dimension)) / probes.length;
  }
  return { mean, stranger, person };
}

/** Blocks full of templates, in an order that differs from pair to pair. */
function linking(held: Part, profile: 'exact' | 'compact', pairs: number): { keys: Linking; control: Linking } {
  const dimension = Math.min(8, held.dimension);
  const { n } = plan({ dimension, profile }).parameters;
  let turn = 0;
  const templates = () => {
    turn += 1009;
    const out = new Float32Array(n * dimension);
    for (let j = 0; j < n; j++)
      for (let c = 0; c < dimension; c++)
        out[j * dimension + c] = held.vectors[((j * 7 + turn) % held.labels.length) * held.dimension + c];
    return out;
  };
  const encrypted = (vectors: Float32Array) => {
    const key = newKey(dimension, profile);
    const coefficients = ciphertextCoefficients(decodeBlock(encryptBlock(key, vectors)));
    key.wipe();
    return coefficients;
  };
  const said = (what: string) => (done: number, total: number) => {
    if (done % 200 === 0) progress(`linking, ${profile}, ${what}: ${done} of ${total} pairs`);
  };
  const keys: Pair = (same) => {
    const vectors = templates();
    return { a: encrypted(vectors), b: encrypted(same ? vectors : templates()) };
  };
  const mask = encrypted(templates());
  const masked = (vectors: Float32Array) =>
    Float64Array.from(vectors, (x, i) => {
      const value = x / 8 + mask[i];
      return value - Math.round(value);
    });
  const reused: Pair = (same) => {
    const vectors = templates();
    return { a: masked(vectors), b: masked(same ? vectors : templates()) };
  };
  return {
    keys: linkingAdvantage(keys, pairs, said('two keys')),
    control: linkingAdvantage(reused, Math.min(pairs, 40), said('control')),
  };
}

const LEAK_COLOURS = ['#D55E00', '#0072B2', '#009E73'];

function plot(attacks: readonly Attack[], guess: { mean: number }, dimension: number): Promise<string> {
  const values = attacks
    .filter(({ profile }) => profile === 'compact')
    .map(({ leak, known, cosine: value }) => ({ leak: LEAKS[leak], known, cosine: value }));
  const sizes = [...new Set(values.map(({ known }) => known))];
  const y = {
    field: 'cosine',
    type: 'quantitative' as const,
    scale: { domain: [-0.1, 1], nice: false },
    title: 'cosine of reconstruction and probe',
  };
  return render({
    $schema: SCHEMA,
    title: {
      text: 'What comes back of a probe from its scores',
      subtitle: `${dimension} dimensions, profile compact; dashed: a guess that knows the population and no score`,
    },
    width: 520,
    height: 300,
    layer: [
      {
        data: { values: [{ cosine: guess.mean }] },
        mark: { type: 'rule', strokeDash: [5, 4], color: '#666666' },
        encoding: { y },
      },
      {
        data: { values },
        mark: { type: 'line', strokeWidth: 2.5, point: { size: 50, filled: true } },
        encoding: {
          x: {
            field: 'known',
            type: 'quantitative',
            scale: { type: 'log', base: 2, domain: [Math.min(...sizes), Math.max(...sizes)], nice: false },
            title: 'scores that leaked, each of another template',
            axis: { values: sizes.filter((size) => Number.isInteger(Math.log2(size / dimension))) },
          },
          y,
          color: {
            field: 'leak',
            type: 'nominal',
            title: 'the attacker holds scores and …',
            scale: { domain: Object.values(LEAKS), range: LEAK_COLOURS },
          },
        },
      },
    ],
  });
}
