// How well templates are protected, in the terms of ISO/IEC 24745: confidentiality,
// irreversibility, unlinkability, renewability, each measured by an attack that is named. Attackers
// of scores are those of the laboratory (`npm run lab -- inversion`), which tries them at length.

import {
  type Block,
  type BlockMatrix,
  blockMatrix,
  decodeBlock,
  decodeQuery,
  type Profile,
  plan,
  polyWords,
  ringOf,
} from '@hers/scheme';
import { type CollectionKey, encryptBlock, encryptQuery } from '@hers/scheme/secret';
import { linkability, rowsAt, unitVectors } from '@hers/vectors/accuracy';
import {
  cosine,
  decompressorOf,
  type Example,
  fromKnownProbes,
  fromTemplates,
  learnedFrom,
  scoreFeatures,
  slotFeatures,
} from '@hers/vectors/inversion';
import { dot, moments } from '@hers/vectors/linear-algebra';
import { Random } from '@hers/vectors/random';
import { flat, newKey, searched } from '../score-error.ts';

export interface Mean {
  readonly mean: number;
  /** Of the mean. */
  readonly error: number;
}

export interface Protection {
  /** Templates and their coordinates in the attacks on ciphertexts. */
  readonly templates: number;
  readonly dimension: number;
  /** How evenly coefficients are spread over 256 equal parts of their range. */
  readonly confidentiality: {
    /** χ² over its 255 degrees of freedom: 1 is what uniform ones have. */
    readonly block: number;
    readonly query: number;
    /** Of the coordinates of the same templates, over their own range. */
    readonly unprotected: number;
    /** 95 % of uniform ones lie between. */
    readonly likely: readonly [number, number];
  };
  /** The cosine of a template or a probe and what each attacker makes of it. */
  readonly irreversibility: {
    /** From the block's ciphertext, taken for templates. */
    readonly ciphertext: Mean;
    /** By the mean of other people's vectors, which needs no attack. */
    readonly guess: Mean;
    /**
     * Of a probe, from the block and its decrypted scores, by an attacker that has learned from
     * blocks and searches of its own.
     */
    readonly rehearsed?: Mean;
    /** From stolen compressed vectors, by what was learned on other people. */
    readonly compressed?: Mean;
    /** Of a probe, from its decrypted scores and those of so many probes that are known. */
    readonly knownProbes?: Mean & { readonly known: number };
    /** Of a probe, from its scores with known templates. */
    readonly scores: Mean;
  };
  readonly unlinkability: {
    readonly pairs: number;
    readonly twoKeys: number;
    readonly oneKey: number;
    /** Of shuffled pairs: what so few pairs come to where there is nothing to link. */
    readonly chance: number;
    /** 95 % of them come to less. */
    readonly likely: number;
    /** Of the vectors themselves, unprotected. */
    readonly unprotected: number;
  };
  readonly renewability: {
    readonly probes: number;
    /** Queries under the new key, and an old block. */
    readonly oldBlock: Crossed;
    /** Queries under the old key, and a new block. */
    readonly newBlock: Crossed;
    /** What guessing comes to. */
    readonly chance: number;
  };
}

export interface Crossed {
  /** Probes whose best score is that of their own template. */
  readonly found: number;
  /** Responses that decryption refused. */
  readonly refused: number;
}

/** Coordinates that are encrypted in pairs for the judge: it has the same to say about all. */
const LINKED = 8;
const PAIRS = 60;
const SHUFFLES = 200;
const TEMPLATES = 200;
const PROBES = 20;
/** Galleries with keys of its own that the attacker rehearses with, each with as many probes. */
const REHEARSALS = 8;
/** Coordinates of which it sees how they go with scores, at most. */
const SLOT_COORDINATES = 128;
const BINS = 256;

interface Rows {
  readonly vectors: Float32Array;
  readonly dimension: number;
}

export interface ProtectionInput extends Rows {
  readonly labels: Int32Array;
  /** What is encrypted, if there is a compressor. */
  readonly short?: Rows;
  readonly profile: Profile;
  readonly seed: number;
}

/** Some of them, at unit length. */
const unitRows = ({ vectors, dimension }: Rows, places: readonly number[]) =>
  places.map((i) => unitVectors(vectors.subarray(i * dimension, (i + 1) * dimension), dimension));

export function protection(input: ProtectionInput): Protection {
  const { labels, profile, seed } = input;
  const indexed = input.short ?? input;
  const random = new Random(seed, 0x24745);
  const chosen = Array.from(random.order(labels.length).subarray(0, TEMPLATES));
  const templates = unitRows(indexed, chosen);
  const attackers = attackersOf(indexed, labels, random);
  return {
    templates: chosen.length,
    dimension: indexed.dimension,
    confidentiality: spreading(templates, profile),
    irreversibility: {
      ciphertext: fromCiphertext(templates, profile),
      guess: fromMean(templates),
      ...(attackers ? fromRehearsals(attackers, profile) : {}),
      ...(input.short ? { compressed: fromCompressed(input, random) } : {}),
      scores: fromScores(templates, indexed.dimension),
    },
    unlinkability: linking(templates, profile, random, input),
    renewability: renewing(templates, profile),
  };
}

/**
 * The coefficients of the first rows of a ciphertext, slot by slot, of −½ to ½. In a block this is
 * where the coordinates of templates would stand.
 */
function coefficients({ parameters, rows }: Pick<Block, 'parameters' | 'rows'>, slots: number, width: number) {
  const ring = ringOf(parameters);
  const words = polyWords(parameters);
  const modulus = parameters.primes.reduce((product, prime) => product * prime, 1);
  const out = Array.from({ length: slots }, () => new Float64Array(width));
  const [row] = ring.polys;
  for (let i = 0; i < width; i++) {
    row!.residues.set(rows.subarray(i * words, (i + 1) * words));
    ring.intt(row!);
    const centred = ring.centred(row!);
    for (let j = 0; j < slots; j++) out[j]![i] = centred[j]! / modulus;
  }
  ring.wipe();
  return out;
}

/** One block of templates under a key that is used for nothing else. */
class Enrolled {
  readonly key: CollectionKey;
  readonly block: Block;
  readonly #matrix: BlockMatrix;

  constructor(templates: readonly Float32Array[], profile: Profile) {
    this.key = newKey(plan({ dimension: templates[0]!.length, profile }));
    this.block = decodeBlock(encryptBlock(this.key, flat(templates)));
    this.#matrix = blockMatrix(this.block);
  }

  /** Scores of a probe that is encrypted and decrypted under this key or another. */
  search(probe: Float32Array, key: CollectionKey = this.key): Float64Array {
    return Float64Array.from(searched(key, this.#matrix, probe));
  }

  wipe(): void {
    this.key.wipe();
  }
}

/** χ² of values from 0 to below 1 in equal parts, over its degrees of freedom. */
function unevenness(values: Iterable<number>): number {
  const counts = new Float64Array(BINS);
  let n = 0;
  for (const value of values) {
    counts[Math.min(BINS - 1, Math.max(0, Math.floor(value * BINS)))]!++;
    n++;
  }
  return counts.reduce((sum, seen) => sum + (seen - n / BINS) ** 2 / (n / BINS), 0) / (BINS - 1);
}

function spreading(templates: readonly Float32Array[], profile: Profile) {
  const dimension = templates[0]!.length;
  const enrolled = new Enrolled(templates, profile);
  const { query, secret } = encryptQuery(enrolled.key, templates[0]!);
  secret.wipe();
  enrolled.wipe();
  const asked = decodeQuery(query);
  const spreadOf = (...seen: Parameters<typeof coefficients>) =>
    unevenness(coefficients(...seen).flatMap((row) => Array.from(row, (x) => x + 0.5)));
  const clear = templates.flatMap((row) => [...row]);
  const [low, high] = [clear.reduce((a, x) => Math.min(a, x), Infinity), clear.reduce((a, x) => Math.max(a, x), 0)];
  // χ² of many degrees of freedom k is nearly normal, with a variance of 2k.
  const spread = 1.96 * Math.sqrt(2 / (BINS - 1));
  return {
    block: spreadOf(enrolled.block, templates.length, dimension),
    query: spreadOf(asked, asked.parameters.n, Math.min(LINKED, dimension)),
    unprotected: unevenness(clear.map((x) => (x - low) / (high - low))),
    likely: [1 - spread, 1 + spread] as const,
  };
}

function fromCiphertext(templates: readonly Float32Array[], profile: Profile): Mean {
  const enrolled = new Enrolled(templates, profile);
  enrolled.wipe();
  const words = coefficients(enrolled.block, templates.length, templates[0]!.length);
  return meanOf(templates.map((template, j) => cosine(template, words[j]!)));
}

interface Attackers {
  /** Vectors of people whom the attacker knows, and of the others. */
  readonly own: readonly Float32Array[];
  readonly others: readonly Float32Array[];
}

/** Half of the people are the attacker's own, where there are enough vectors to learn from. */
function attackersOf(indexed: Rows, labels: Int32Array, random: Random): Attackers | undefined {
  const known = halfOf(labels, random);
  const rows = (isKnown: boolean) =>
    unitRows(
      indexed,
      Array.from(random.order(labels.length)).filter((i) => known.has(labels[i]!) === isKnown),
    );
  const [own, others] = [rows(true), rows(false)];
  return own.length >= 3 * PROBES && others.length >= 3 * PROBES ? { own, others } : undefined;
}

function halfOf(labels: Int32Array, random: Random): Set<number> {
  const people = [...new Set(labels)];
  return new Set(Array.from(random.order(people.length).subarray(0, people.length >> 1), (at) => people[at]!));
}

/**
 * The attacker enrols vectors of its own under keys of its own, searches, and learns what block and
 * scores say about a probe. Then it is shown a block and scores of people it does not know. Beside
 * it one who knows some probes of that gallery, and their scores.
 */
function fromRehearsals({ own, others }: Attackers, profile: Profile) {
  const dimension = own[0]!.length;
  const most = plan({ dimension, profile }).capacity;
  const width = Math.min(dimension, SLOT_COORDINATES);
  const gallery = (of: readonly Float32Array[], turn: number, size: number) =>
    Array.from({ length: Math.min(size, of.length - PROBES, most) }, (_, j) => of[(turn + PROBES + j) % of.length]!);
  const size = Math.max(TEMPLATES, 2 * dimension);
  /** What the attacker sees of a search: scores, and how they go with the block's coefficients. */
  const seenIn = (enrolled: Enrolled, templates: number) => {
    const words = coefficients(enrolled.block, templates, width).flatMap((row) => [...row]);
    return (scores: Float64Array) =>
      Float64Array.from([...scoreFeatures(scores), ...slotFeatures(scores, words, width)]);
  };
  const rehearsals = Array.from({ length: REHEARSALS }, (_, r): Example[] => {
    const turn = r * PROBES;
    const templates = gallery(own, turn, size);
    const enrolled = new Enrolled(templates, profile);
    const seen = seenIn(enrolled, templates.length);
    const examples = Array.from({ length: PROBES }, (_, i) => {
      const probe = own[(turn + i) % own.length]!;
      return { seen: seen(enrolled.search(probe).subarray(0, templates.length)), probe };
    });
    enrolled.wipe();
    return examples;
  });
  const { mean } = moments(flat(own), dimension);
  const guess = learnedFrom(rehearsals, mean);
  const templates = gallery(others, 0, size);
  const attacked = new Enrolled(templates, profile);
  const seen = seenIn(attacked, templates.length);
  const probes = others.slice(0, PROBES);
  const rows = (of: readonly Float32Array[]) => of.map((probe) => attacked.search(probe).subarray(0, templates.length));
  const asked = rows(probes);
  const rehearsed = meanOf(probes.map((probe, i) => cosine(probe, guess(seen(asked[i]!)))));
  const known = own.slice(0, Math.min(dimension, templates.length));
  const reconstruct = fromKnownProbes(flat(known), dimension, rows(known), attacked.key.plan.error.total ** 2);
  attacked.wipe();
  const knownProbes = meanOf(probes.map((probe, i) => cosine(probe, reconstruct(asked[i]!))));
  return { rehearsed, knownProbes: { ...knownProbes, known: known.length } };
}

function fromMean(templates: readonly Float32Array[]): Mean {
  const mean = new Float64Array(templates[0]!.length);
  for (const template of templates) for (let k = 0; k < mean.length; k++) mean[k]! += template[k]!;
  // Without the template itself, which the attacker does not have.
  return meanOf(
    templates.map((template) =>
      cosine(
        template,
        mean.map((x, k) => x - template[k]!),
      ),
    ),
  );
}

/** Learned on half of the people, from coordinates, their squares and products. */
function fromCompressed({ vectors, dimension, labels, short }: ProtectionInput, random: Random): Mean {
  const known = halfOf(labels, random);
  const places = Array.from(labels.keys());
  const learn = places.filter((i) => known.has(labels[i]!));
  const attacked = places.filter((i) => !known.has(labels[i]!)).slice(0, TEMPLATES);
  const whose = learn.map((i) => labels[i]!);
  const full = unitVectors(vectors, dimension);
  const lift = decompressorOf(
    { vectors: rowsAt(full, dimension, learn), dimension, labels: whose },
    { vectors: rowsAt(short!.vectors, short!.dimension, learn), dimension: short!.dimension, labels: whose },
  );
  return meanOf(
    attacked.map((i) =>
      cosine(
        full.subarray(i * dimension, (i + 1) * dimension),
        lift(short!.vectors.subarray(i * short!.dimension, (i + 1) * short!.dimension)),
      ),
    ),
  );
}

/** Whoever has the templates and the scores of a probe solves for the probe. */
function fromScores(templates: readonly Float32Array[], dimension: number): Mean {
  const [known, probes] = [templates.slice(PROBES), templates.slice(0, PROBES)];
  const reconstruct = fromTemplates(Float64Array.from(known.flatMap((row) => [...row])), dimension, 1e-3);
  return meanOf(probes.map((probe) => cosine(probe, reconstruct(known.map((template) => dot(template, probe))))));
}

/** The linking function: the correlation of the coefficients of two ciphertexts. */
function linking(
  templates: readonly Float32Array[],
  profile: Profile,
  random: Random,
  { vectors, dimension, labels }: ProtectionInput,
) {
  const width = Math.min(LINKED, templates[0]!.length);
  const cut = templates.map((template) => template.subarray(0, width));
  const block = () => flat(Array.from(random.order(cut.length), (i) => cut[i]!));
  const seen = (key: CollectionKey, vectors: Float32Array) =>
    coefficients(decodeBlock(encryptBlock(key, vectors)), cut.length, width).flatMap((row) => [...row]);
  const scored = (isSame: boolean, isOneKey: boolean) =>
    Array.from({ length: PAIRS }, () => {
      const first = newKey(plan({ dimension: width, profile }));
      const second = isOneKey ? first : newKey(plan({ dimension: width, profile }));
      const a = block();
      const score = cosine(seen(first, a), seen(second, isSame ? a : block()));
      first.wipe();
      if (!isOneKey) second.wipe();
      return score;
    });
  const [same, other] = [scored(true, false), scored(false, false)];
  const all = [...same, ...other];
  const shuffled = Array.from({ length: SHUFFLES }, () => {
    const order = Array.from(random.order(all.length), (i) => all[i]!);
    return linkability(order.slice(0, PAIRS), order.slice(PAIRS));
  });
  const [mated, strangers] = plainPairs(vectors, dimension, labels, random);
  return {
    pairs: PAIRS,
    twoKeys: linkability(same, other),
    oneKey: linkability(scored(true, true), scored(false, true)),
    chance: shuffled.reduce((sum, x) => sum + x, 0) / shuffled.length,
    likely: shuffled.toSorted((a, b) => a - b)[Math.ceil(0.95 * SHUFFLES) - 1]!,
    unprotected: linkability(mated, strangers),
  };
}

/** Cosines of pairs of vectors of one person, and of two. */
function plainPairs(vectors: Float32Array, dimension: number, labels: Int32Array, random: Random) {
  const row = (i: number) => vectors.subarray(i * dimension, (i + 1) * dimension);
  const [mated, strangers]: [number[], number[]] = [[], []];
  const order = Array.from(random.order(labels.length));
  for (const i of order) {
    const mate = order.find((j) => j !== i && labels[j] === labels[i]);
    if (mate !== undefined && mated.length < PAIRS) mated.push(cosine(row(i), row(mate)));
    const other = order[random.below(order.length)]!;
    if (labels[other] !== labels[i] && strangers.length < PAIRS) strangers.push(cosine(row(i), row(other)));
  }
  return [mated, strangers] as const;
}

/** Two enrolments of the same templates, and queries of each against the other. */
function renewing(templates: readonly Float32Array[], profile: Profile) {
  const [old, renewed] = [new Enrolled(templates, profile), new Enrolled(templates, profile)];
  const probes = templates.slice(0, PROBES);
  const crossed = (enrolled: Enrolled, key: CollectionKey): Crossed => {
    let [found, refused] = [0, 0];
    probes.forEach((probe, i) => {
      try {
        const scores = enrolled.search(probe, key).subarray(0, templates.length);
        if (scores.indexOf(Math.max(...scores)) === i) found++;
      } catch {
        refused++;
      }
    });
    return { found, refused };
  };
  const [oldBlock, newBlock] = [crossed(old, renewed.key), crossed(renewed, old.key)];
  old.wipe();
  renewed.wipe();
  return { probes: probes.length, oldBlock, newBlock, chance: 1 / templates.length };
}

function meanOf(values: readonly number[]): Mean {
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  const squares = values.reduce((sum, x) => sum + (x - mean) ** 2, 0);
  return { mean, error: Math.sqrt(squares / Math.max(1, values.length - 1) / values.length) };
}
