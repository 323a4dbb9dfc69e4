// How well templates are protected, in the terms of ISO/IEC 24745: irreversibility, unlinkability,
// renewability, each measured by an attack that is named.

import {
  type Block,
  blockMatrix,
  decodeBlock,
  decodeQuery,
  encodeResponse,
  expandedQuery,
  type Profile,
  plan,
  polyWords,
  ringOf,
  scanBlock,
} from '@hers/scheme';
import { type CollectionKey, encryptBlock, encryptQuery, MasterSeed } from '@hers/scheme/secret';
import { linkability } from '@hers/vectors/accuracy';
import { LeastSquares } from '@hers/vectors/least-squares';
import { Random } from '@hers/vectors/random';

export interface Mean {
  readonly mean: number;
  /** Of the mean. */
  readonly error: number;
}

export interface Protection {
  /** Templates and their coordinates in the attacks on ciphertexts. */
  readonly templates: number;
  readonly dimension: number;
  /** The cosine of a template and what each attacker makes of it. */
  readonly irreversibility: {
    /** From the block's ciphertext, taken for templates. */
    readonly ciphertext: Mean;
    /** By the mean of all vectors, which needs no attack. */
    readonly guess: Mean;
    /** From stolen compressed vectors, by a linear map learned on other people. */
    readonly compressed?: Mean;
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
    /**
     * Probes under the new key whose best score with an old block is that of their own template.
     */
    readonly found: number;
    /** Answers that decryption refused. */
    readonly refused: number;
    /** What guessing comes to. */
    readonly chance: number;
  };
}

/** Coordinates that are encrypted in pairs for the judge: it has the same to say about all. */
const LINKED = 8;
const PAIRS = 60;
const SHUFFLES = 200;
const TEMPLATES = 200;
const PROBES = 20;

export interface ProtectionInput {
  readonly vectors: Float32Array;
  readonly dimension: number;
  readonly labels: Int32Array;
  /** What is encrypted, if there is a compressor. */
  readonly short?: { readonly vectors: Float32Array; readonly dimension: number };
  readonly profile: Profile;
  readonly seed: number;
}

export function protection(input: ProtectionInput): Protection {
  const { labels, profile, seed } = input;
  const indexed = input.short ?? input;
  const random = new Random(seed, 0x24745);
  const chosen = Array.from(random.order(labels.length).subarray(0, TEMPLATES));
  const rows = (of: { readonly vectors: Float32Array; readonly dimension: number }) =>
    chosen.map((i) => unit(of.vectors.subarray(i * of.dimension, (i + 1) * of.dimension)));
  const templates = rows(indexed);
  return {
    templates: chosen.length,
    dimension: indexed.dimension,
    irreversibility: {
      ciphertext: fromCiphertext(templates, indexed.dimension, profile),
      guess: fromMean(templates),
      ...(input.short ? { compressed: fromCompressed(input, random) } : {}),
      scores: fromScores(templates, indexed.dimension),
    },
    unlinkability: linking(templates, profile, random, input),
    renewability: renewing(templates, indexed.dimension, profile),
  };
}

function newKey(dimension: number, profile: Profile): CollectionKey {
  const master = MasterSeed.generate();
  const key = master.collectionKey(plan({ dimension, profile }), crypto.getRandomValues(new Uint8Array(16)));
  master.wipe();
  return key;
}

/** The coefficients of a block where the coordinates of its templates would stand, of −½ to ½. */
function coefficients(block: Block, slots: number, dimension: number): Float64Array[] {
  const ring = ringOf(block.parameters);
  const words = polyWords(block.parameters);
  const modulus = block.parameters.primes.reduce((product, prime) => product * prime, 1);
  const out = Array.from({ length: slots }, () => new Float64Array(dimension));
  const [row] = ring.polys;
  for (let i = 0; i < dimension; i++) {
    row!.residues.set(block.rows.subarray(i * words, (i + 1) * words));
    ring.intt(row!);
    const centred = ring.centred(row!);
    for (let j = 0; j < slots; j++) out[j]![i] = centred[j]! / modulus;
  }
  ring.wipe();
  return out;
}

function flat(rows: readonly Float32Array[]): Float32Array {
  const width = rows[0]!.length;
  const out = new Float32Array(rows.length * width);
  rows.forEach((row, i) => out.set(row, i * width));
  return out;
}

function fromCiphertext(templates: readonly Float32Array[], dimension: number, profile: Profile): Mean {
  const key = newKey(dimension, profile);
  const block = decodeBlock(encryptBlock(key, flat(templates)));
  key.wipe();
  const words = coefficients(block, templates.length, dimension);
  return meanOf(templates.map((template, j) => cosine(template, words[j]!)));
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

/** x ≈ y M for full x and compressed y, learned by least squares on half of the people. */
function fromCompressed({ vectors, dimension, labels, short }: ProtectionInput, random: Random): Mean {
  const people = [...new Set(labels)];
  const order = random.order(people.length);
  const known = new Set(Array.from(order.subarray(0, people.length >> 1), (at) => people[at]!));
  const places = Array.from(labels.keys());
  const learn = places.filter((i) => known.has(labels[i]!));
  const attacked = places.filter((i) => !known.has(labels[i]!)).slice(0, TEMPLATES);
  const width = short!.dimension + 1;
  const rowOf = (i: number) => [...short!.vectors.subarray(i * short!.dimension, (i + 1) * short!.dimension), 1];
  const problem = new LeastSquares(Float64Array.from(learn.flatMap(rowOf)), width, 1e-3 * learn.length);
  const full = places.map((i) => unit(vectors.subarray(i * dimension, (i + 1) * dimension)));
  const columns = Array.from({ length: dimension }, (_, k) => problem.solve(learn.map((i) => full[i]![k]!)));
  return meanOf(
    attacked.map((i) => {
      const row = rowOf(i);
      return cosine(
        full[i]!,
        columns.map((weights) => row.reduce((sum, y, c) => sum + y * weights[c]!, 0)),
      );
    }),
  );
}

/** Whoever has the templates and the scores of a probe solves for the probe. */
function fromScores(templates: readonly Float32Array[], dimension: number): Mean {
  const [known, probes] = [templates.slice(PROBES), templates.slice(0, PROBES)];
  const problem = new LeastSquares(Float64Array.from(known.flatMap((row) => [...row])), dimension, 1e-3);
  return meanOf(
    probes.map((probe) =>
      cosine(probe, problem.solve(known.map((template) => template.reduce((sum, x, k) => sum + x * probe[k]!, 0)))),
    ),
  );
}

/** The linking function: the correlation of the coefficients of two ciphertexts. */
function linking(
  templates: readonly Float32Array[],
  profile: Profile,
  random: Random,
  { vectors, dimension, labels }: ProtectionInput,
): Protection['unlinkability'] {
  const width = Math.min(LINKED, templates[0]!.length);
  const cut = templates.map((template) => template.subarray(0, width));
  const block = () => flat(Array.from(random.order(cut.length), (i) => cut[i]!));
  const seen = (key: CollectionKey, vectors: Float32Array) =>
    coefficients(decodeBlock(encryptBlock(key, vectors)), cut.length, width).flatMap((row) => [...row]);
  const scored = (isSame: boolean, isOneKey: boolean) =>
    Array.from({ length: PAIRS }, () => {
      const first = newKey(width, profile);
      const second = isOneKey ? first : newKey(width, profile);
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
function plainPairs(
  vectors: Float32Array,
  dimension: number,
  labels: Int32Array,
  random: Random,
): [number[], number[]] {
  const row = (i: number) => vectors.subarray(i * dimension, (i + 1) * dimension);
  const [mated, strangers]: [number[], number[]] = [[], []];
  const order = Array.from(random.order(labels.length));
  for (const i of order) {
    const mate = order.find((j) => j !== i && labels[j] === labels[i]);
    if (mate !== undefined && mated.length < PAIRS) mated.push(cosine(row(i), row(mate)));
    const other = order[random.below(order.length)]!;
    if (labels[other] !== labels[i] && strangers.length < PAIRS) strangers.push(cosine(row(i), row(other)));
  }
  return [mated, strangers];
}

/** Queries of a new key against a block of the old one. */
function renewing(templates: readonly Float32Array[], dimension: number, profile: Profile): Protection['renewability'] {
  const [old, renewed] = [newKey(dimension, profile), newKey(dimension, profile)];
  const matrix = blockMatrix(decodeBlock(encryptBlock(old, flat(templates))));
  let [found, refused] = [0, 0];
  const probes = templates.slice(0, PROBES);
  probes.forEach((probe, i) => {
    const { query, secret } = encryptQuery(renewed, probe);
    try {
      const { scores } = secret.decrypt(encodeResponse(scanBlock(matrix, expandedQuery(decodeQuery(query)))));
      if (scores.subarray(0, templates.length).indexOf(Math.max(...scores.subarray(0, templates.length))) === i)
        found++;
    } catch {
      refused++;
    } finally {
      secret.wipe();
    }
  });
  old.wipe();
  renewed.wipe();
  return { probes: probes.length, found, refused, chance: 1 / templates.length };
}

function unit(row: Float32Array): Float32Array {
  const length = Math.sqrt(row.reduce((sum, x) => sum + x * x, 0)) || 1;
  return row.map((x) => x / length);
}

function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    ab += a[i]! * b[i]!;
    aa += a[i]! * a[i]!;
    bb += b[i]! * b[i]!;
  }
  return aa === 0 || bb === 0 ? 0 : ab / Math.sqrt(aa * bb);
}

function meanOf(values: readonly number[]): Mean {
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  const squares = values.reduce((sum, x) => sum + (x - mean) ** 2, 0);
  return { mean, error: Math.sqrt(squares / Math.max(1, values.length - 1) / values.length) };
}
