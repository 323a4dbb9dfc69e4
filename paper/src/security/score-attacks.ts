// Attacks on the scores of real encrypted searches. Every group of probes has its own gallery, key
// and block. Otherwise what the probes of one block share would look like a result. The intervals
// come from the differences between groups.

import { type Plan, type Profile, plan } from '@hers/scheme';
import { eachScoreRow, matedPlaces, rankOfMate, rowsAt } from '@hers/vectors/accuracy';
import {
  cosine,
  type Example,
  fromKnownProbes,
  fromTemplates,
  learnedFrom,
  type Reconstruct,
  SCORE_FEATURES,
  scoreFeatures,
  slotFeatures,
} from '@hers/vectors/inversion';
import { moments } from '@hers/vectors/linear-algebra';
import type { Part } from '../data/datasets.ts';
import { mean } from '../metrics/statistics.ts';
import { EncryptedBlock } from './encrypted-search.ts';
import { fromTemplatesAndPopulation, type Population, populationOf } from './known-population.ts';

/** What the attacker has besides the scores of an unknown probe, and what it does with it. */
const LEAKS = [
  // Templates in the clear: the paper's least squares, and the same with the population as a prior.
  'plain',
  'plain-population',
  // The ciphertext: its coefficients used as templates, and what was learned by rehearsing with own
  // ciphertexts.
  'encrypted',
  'encrypted-population',
  // Nothing: other people's vectors used as templates, and what was learned by rehearsing.
  'scores',
  'scores-population',
  // Known probes, and their scores against the same templates.
  'known',
] as const;
export type Leak = (typeof LEAKS)[number];

export interface Attack {
  readonly leak: Leak;
  readonly profile: Profile;
  /** Leaked scores, each of another template; for `known`, probes whose scores leaked. */
  readonly known: number;
  /** Mean over the groups, and its standard error. */
  readonly cosine: number;
  readonly error: number;
  /** How much better than a guess without observation, on the same probes. */
  readonly gain: number;
  readonly gainError: number;
  /** Share of the probes whose person the reconstruction finds first. */
  readonly identified: number;
}

export interface Guesses {
  /** Cosine of a probe and the mean of the population, and a stranger. */
  readonly mean: number;
  readonly meanError: number;
  readonly stranger: number;
  /** How often a random picture shows the same person. */
  readonly person: number;
}

/** Keys, and galleries, over which the probes are spread; the attacker rehearses with as many. */
const GROUPS = 20;

/**
 * Standard deviation of a score's error, which anyone can compute: noise where a score has some;
 * under `exact` that of rounding both unit vectors, each coordinate with a variance of 1/12 step².
 */
export function scoreError({ profile, noise, steps }: Plan): number {
  return profile === 'exact' ? 1 / (Math.sqrt(6) * steps) : noise.score;
}

/** Who is attacked with what. Counts are checked on construction, before anything is encrypted. */
export interface Campaign {
  readonly held: Part;
  readonly training: Part;
  /** Places of the probes, a list for each group. */
  readonly groups: readonly Int32Array[];
  /** Leaked scores; the largest number is the size of a gallery. */
  readonly sizes: readonly number[];
  /** The sizes for which attackers rehearse. */
  readonly rehearsed: readonly number[];
  /** Numbers of probes that are known. */
  readonly knownProbes: readonly number[];
  /** Places in the held half that galleries are made of. */
  readonly strangers: readonly number[];
  readonly rehearsals: readonly Rehearsal[];
}

/** A gallery of the attacker's own and probes that it knows, as places in the training half. */
interface Rehearsal {
  readonly probes: readonly number[];
  readonly templates: readonly number[];
}

export interface CampaignOptions {
  readonly probes: number;
  /** Templates of a gallery at most. */
  readonly templates: number;
  /** Probes of one rehearsal. */
  readonly examples: number;
  readonly rehearsals: number;
}

export function campaign(held: Part, training: Part, options: CampaignOptions): Campaign {
  const { dimension } = held;
  const mated = matedPlaces(held.labels);
  if (mated.length === 0)
    throw new RangeError(
      'nobody in the half that is measured has two vectors, so that no probe has a mate to be found',
    );
  const some = Math.min(options.probes, mated.length);
  const probes = Int32Array.from({ length: some }, (_, i) => mated[Math.floor((i * mated.length) / some)]);
  const count = Math.min(GROUPS, some);
  const groups = Array.from({ length: count }, (_, g) =>
    probes.subarray(Math.floor((g * some) / count), Math.floor(((g + 1) * some) / count)),
  );
  // Strangers to the probes: a picture of the same person would reveal more than its score.
  const people = new Set(Array.from(probes, (place) => held.labels[place]));
  const strangers = Array.from(held.labels.keys()).filter((place) => !people.has(held.labels[place]));
  const rehearsals = rehearsalsOf(training, options);
  const slots = Math.min(
    ...(['exact', 'compact'] as const).map((profile) => plan({ dimension, profile }).parameters.n),
  );
  const own = Math.min(training.labels.length, ...rehearsals.map(({ templates }) => templates.length));
  const most = Math.min(options.templates, slots, strangers.length, own);
  if (most < dimension)
    throw new RangeError(
      `an attack needs ${dimension} templates, as many as there are dimensions: there are ${strangers.length} vectors of people who are no probes, and ${own} that the attacker can rehearse with`,
    );
  const known = [1 / 8, 1 / 4, 1 / 2, 3 / 4, 7 / 8, 1, 9 / 8, 3 / 2].map((x) => Math.round(x * dimension));
  const sizes = [
    ...[...known, 2 * dimension, 4 * dimension, 8 * dimension, 16 * dimension].filter((size) => size < most),
    most,
  ];
  return {
    held,
    training,
    groups,
    sizes,
    rehearsed: sizes.filter((size) => size === most || Number.isInteger(Math.log2(size / dimension))),
    knownProbes: known.filter((size) => size <= training.labels.length),
    strangers,
    rehearsals,
  };
}

function rehearsalsOf({ labels }: Part, { rehearsals, examples }: CampaignOptions): Rehearsal[] {
  // One picture of each person is enough for a probe.
  const first = new Map<number, number>();
  for (const [place, label] of labels.entries()) if (!first.has(label)) first.set(label, place);
  const firsts = [...first.values()];
  const each = Math.min(examples, Math.floor(firsts.length / 2));
  return Array.from({ length: rehearsals }, (_, g) => {
    const probes = Array.from({ length: each }, (_, i) => firsts[(g * each + i) % firsts.length]);
    const people = new Set(probes.map((place) => labels[place]));
    return { probes, templates: Array.from(labels.keys()).filter((place) => !people.has(labels[place])) };
  });
}

/** The first places of a list that begins elsewhere for every group. */
export const turned = (places: readonly number[], count: number, group: number): number[] =>
  Array.from({ length: count }, (_, j) => places[(j + group * 311) % places.length]);

export const vectorAt = ({ vectors, dimension }: Part, place: number): Float32Array =>
  vectors.subarray(place * dimension, (place + 1) * dimension);

export function attackAll(from: Campaign, profile: Profile, onProgress: (message: string) => void): Attack[] {
  const population = populationOf(from.training.vectors, from.training.dimension);
  const learned = rehearse(from, profile, population.mean, onProgress);
  const outcomes = from.groups.map((_, group) => {
    onProgress(`inversion, ${profile}: gallery ${group + 1} of ${from.groups.length}`);
    return attackGroup(from, group, profile, population, learned);
  });
  const probes = from.groups.reduce((sum, group) => sum + group.length, 0);
  return outcomes[0].map(({ leak, known }, i) => {
    const [value, error] = meanAndError(outcomes.map((cases) => mean(cases[i].cosines)));
    const [gain, gainError] = meanAndError(outcomes.map((cases) => mean(cases[i].gains)));
    const identified = outcomes.reduce((sum, cases) => sum + cases[i].found, 0) / probes;
    return { leak, profile, known, cosine: value, error, gain, gainError, identified };
  });
}

type Learned = ReadonlyMap<string, (seen: Float64Array) => Float64Array>;

/** What an attacker who uses the ciphertext sees. */
const seenOf = (scores: Float64Array, words: Float64Array, dimension: number) =>
  Float64Array.from([...scoreFeatures(scores), ...slotFeatures(scores, words, dimension)]);

/**
 * The attacker makes galleries of vectors it knows, encrypts them under its own keys, searches
 * them, and learns from the results.
 */
function rehearse(
  from: Campaign,
  profile: Profile,
  mean: Float64Array,
  onProgress: (message: string) => void,
): Learned {
  const { training, sizes, rehearsed, rehearsals } = from;
  const { dimension } = training;
  const most = sizes[sizes.length - 1];
  const examples = new Map<string, Example[][]>();
  for (const [group, { probes, templates }] of rehearsals.entries()) {
    onProgress(`inversion, ${profile}: rehearsal ${group + 1} of ${rehearsals.length}`);
    const gallery = rowsAt(training.vectors, dimension, turned(templates, most, group));
    const block = new EncryptedBlock(gallery, dimension, profile);
    for (const probe of probes.map((place) => vectorAt(training, place))) {
      const scores = block.search(probe);
      for (const size of rehearsed) {
        const leaked = scores.subarray(0, size);
        const seen = { scores: scoreFeatures(leaked), encrypted: seenOf(leaked, block.words, dimension) };
        for (const [leak, features] of Object.entries(seen)) {
          const name = `${leak}-${size}`;
          const all = examples.get(name) ?? [];
          all[group] = [...(all[group] ?? []), { seen: features, probe }];
          examples.set(name, all);
        }
      }
    }
    block.wipe();
  }
  return new Map(
    Array.from(examples, ([name, galleries]) => {
      onProgress(`inversion, ${profile}: learning from ${name}`);
      // An attacker who sees the ciphertext may find that scores alone reveal as much.
      const widths = new Set([SCORE_FEATURES, galleries[0][0].seen.length]);
      return [name, learnedFrom(galleries, mean, [...widths])];
    }),
  );
}

interface Case {
  readonly leak: Leak;
  readonly known: number;
  /** From the scores of the whole gallery. */
  readonly reconstruct: Reconstruct;
}

/** The attacks on the scores of the probes of one group. */
function attackGroup(from: Campaign, group: number, profile: Profile, population: Population, learned: Learned) {
  const { held } = from;
  const { dimension, labels } = held;
  const { block, cases } = casesOf(from, group, profile, population, learned);
  const outcomes = cases.map(({ leak, known }) => ({
    leak,
    known,
    cosines: [] as number[],
    gains: [] as number[],
    found: 0,
  }));
  for (const place of from.groups[group]) {
    const probe = vectorAt(held, place);
    const scores = block.search(probe);
    const guessed = cosine(population.mean, probe);
    const reconstructions = new Float32Array(cases.length * dimension);
    for (const [i, { reconstruct }] of cases.entries()) {
      const reconstruction = reconstruct(scores);
      const reached = cosine(reconstruction, probe);
      outcomes[i].cosines.push(reached);
      outcomes[i].gains.push(reached - guessed);
      reconstructions.set(reconstruction, i * dimension);
    }
    eachScoreRow(reconstructions, held.vectors, dimension, (i, row) => {
      if (rankOfMate(row, labels, labels[place], place) === 1) outcomes[i].found++;
    });
  }
  block.wipe();
  return outcomes;
}

function casesOf(from: Campaign, group: number, profile: Profile, population: Population, learned: Learned) {
  const { held, training, sizes, rehearsed, knownProbes, strangers } = from;
  const { dimension } = held;
  const most = sizes[sizes.length - 1];
  const templates = rowsAt(held.vectors, dimension, turned(strangers, most, group));
  const block = new EncryptedBlock(templates, dimension, profile);
  const others = Array.from(training.labels.keys());
  const substitutes = rowsAt(training.vectors, dimension, turned(others, most, group));
  // Errors of a score have this variance, coordinates of a probe 1/d: λ is their ratio.
  const variance = scoreError(plan({ dimension, profile })) ** 2;
  const lambda = variance * dimension;
  const cases: Case[] = [];
  for (const size of sizes) {
    const first = (gallery: ArrayLike<number> & { subarray(from: number, to: number): ArrayLike<number> }) =>
      gallery.subarray(0, size * dimension);
    const attacks = {
      plain: fromTemplates(first(templates), dimension, lambda),
      'plain-population': fromTemplatesAndPopulation(first(templates), population, variance),
      encrypted: fromTemplates(first(block.words), dimension, lambda),
      scores: fromTemplates(first(substitutes), dimension, lambda),
    };
    for (const [leak, solve] of Object.entries(attacks))
      cases.push({ leak: leak as Leak, known: size, reconstruct: (scores) => solve(leading(scores, size)) });
  }
  for (const size of rehearsed) {
    const [encrypted, scoresAlone] = [learned.get(`encrypted-${size}`)!, learned.get(`scores-${size}`)!];
    cases.push(
      {
        leak: 'encrypted-population',
        known: size,
        reconstruct: (scores) => encrypted(seenOf(leading(scores, size), block.words, dimension)),
      },
      {
        leak: 'scores-population',
        known: size,
        reconstruct: (scores) => scoresAlone(scoreFeatures(leading(scores, size))),
      },
    );
  }
  // Known probes are of other people, spread over the training half.
  const asked = Math.max(...knownProbes);
  const own = rowsAt(
    training.vectors,
    dimension,
    Array.from({ length: asked }, (_, i) => (Math.floor((i * others.length) / asked) + group) % others.length),
  );
  const rows = Array.from({ length: asked }, (_, i) => block.search(own.subarray(i * dimension, (i + 1) * dimension)));
  const compared = block.compared(own);
  for (const size of knownProbes)
    cases.push({
      leak: 'known',
      known: size,
      reconstruct: fromKnownProbes(compared.subarray(0, size * dimension), dimension, rows.slice(0, size), variance),
    });
  return { block, cases };
}

const leading = (scores: ArrayLike<number>, count: number) => Float64Array.from(scores).subarray(0, count);

/** What an attacker reaches who knows the population and no score. */
export function guesses({ held, training, groups }: Campaign): Guesses {
  const { labels } = held;
  const pictures = new Map<number, number>();
  for (const label of labels) pictures.set(label, (pictures.get(label) ?? 0) + 1);
  const { mean: centre } = moments(training.vectors, training.dimension);
  const [value, error] = meanAndError(
    groups.map((places) => mean(Array.from(places, (place) => cosine(vectorAt(held, place), centre)))),
  );
  const probes = groups.flatMap((places) => [...places]);
  const another = (n: number) => Math.floor((n * training.labels.length) / probes.length);
  return {
    mean: value,
    meanError: error,
    stranger: mean(probes.map((place, n) => cosine(vectorAt(held, place), vectorAt(training, another(n))))),
    person: mean(probes.map((place) => (pictures.get(labels[place])! - 1) / (labels.length - 1))),
  };
}

/** The mean of the groups, and its standard error. */
export function meanAndError(groups: readonly number[]): [mean: number, error: number] {
  const middle = mean(groups);
  const variance = groups.reduce((sum, x) => sum + (x - middle) ** 2, 0) / (groups.length - 1);
  return [middle, Math.sqrt(variance / groups.length)];
}
