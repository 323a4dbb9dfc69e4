// The default. It chooses one map of a continuous family, from PCA to LDA, by folds of held-out
// identities, and takes a learned one only where that is ahead by more than chance. Given no
// dimension, it takes the smallest whose rank-1 stays within a given loss of that of the full
// vectors. It says what it found.
//
// With few identities the best member of the family is a matter of chance: rank-1 of neighbours
// differs by less than its error. So three things steady the choice. The criterion is smooth: a
// probe counts by how far its mate is ahead, not only by whether it is. Differences are taken probe
// by probe, and their standard errors over people. And members are averaged, each with the weight
// that its difference to the best one, in standard errors, leaves to it.
//
// Strangers are of two kinds, and a member's weight is the product of what both leave to it. Those
// that are held out are as in use, but with few identities there are few of them. Those that were
// learned from are many, but a map that learned from few sets just these apart, and looks better
// than it is.

import { CompressError } from '@hers/compress';
import { type Fold, foldsOf, type Margins, marginsOf, overPeople } from '../training/folds.ts';
import { subset, type TrainingSet } from '../training/training-set.ts';
import { appliedLinear, type Body, encodeCompressor, linearBody, loadBody } from './compressor-graph.ts';
import { cutToAxes, type Family, fitPca, linearFamily, type Point, shortened } from './linear.ts';
import { type Context, completed, handedOver, type Method, requireShare, type Task, trialOf } from './method.ts';
import { learnRanking, type RankingSettings, ranking } from './ranking.ts';

export interface AutoSettings {
  /** The rank-1 that may be lost when no dimension is given: 0.01 is one point in a hundred. */
  loss: number;
  /**
   * Settings for learning to rank, which takes a minute; `null` for trying only what is computed at
   * once.
   */
  ranking: Partial<RankingSettings> | null;
}

/** Vectors that are used to choose, at most; the choice is then fitted on all. */
const ENOUGH = 20_000;
/** Rounds of folds, so that each identity is held out as often. */
const ROUNDS = 2;
/** A margin of this much in the cosine, divided by √dimension, counts as three quarters. */
const SOFTNESS = 0.4;

const SHRINKAGES = [0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1];
const WEIGHTS = [0, 0.5, 1];
/** The family in steps. */
const POINTS: readonly Point[] = WEIGHTS.flatMap((classes) => SHRINKAGES.map((shrinkage) => ({ shrinkage, classes })));
/** Enough of them to see at which dimension how much is lost. */
const FEW_POINTS: readonly Point[] = [
  { shrinkage: 1, classes: 0 },
  { shrinkage: 0.8, classes: 0.5 },
  { shrinkage: 0.35, classes: 1 },
];

/** 1, 2, 3, 4, 6, 8, 12, …: each a third or a half more than before, and all dimensions last. */
function ladder(most: number): number[] {
  const steps = [1, 2, 3];
  for (let i = 4; i < most; i *= 2) steps.push(i, 1.5 * i);
  return [...steps.filter((step) => step < most), most];
}

export const auto: Method<AutoSettings, number | null> = {
  defaults: { loss: 0.01, ranking: {} },
  needsLabels: false,
  check({ loss, ranking: given }) {
    requireShare('loss', loss);
    if (given !== null) ranking.check?.(completed('ranking', ranking.defaults, given));
  },
  async fit(task, context) {
    const { set, settings, threads } = task;
    const reason = whyNotMeasured(set);
    if (reason !== undefined) return principal(task, reason, context);
    const trial = await Trial.open(task, context);
    if (trial.folds.length === 0)
      return principal(task, 'too few labels have two vectors or more to choose by', context);
    const dimension = task.dimension ?? (await trial.smallest(settings.loss));
    const dimensions = [...(task.also ?? []), dimension];
    const found = await trial.chooseEach(dimensions);
    let family: Family | undefined;
    const made: Uint8Array<ArrayBuffer>[] = [];
    for (const [i, to] of dimensions.entries()) {
      const each = { ...task, dimension: to };
      const learned = settings.ranking ? await tryRankings(trial, found[i], each, context) : [];
      const chosen = learned.findLast(({ isAhead }) => isAhead);
      const kind = chosen?.kind ?? 'linear';
      context.progress({ stage: `fitting ${kind} on all vectors`, done: 0.8 });
      if (!chosen) family ??= await linearFamily(set, threads);
      const body = chosen
        ? (await learnRanking({ ...each, settings: chosen.settings }, 'learning to rank', context)).body
        : linearBody(await family!.at(found[i].point, to));
      const rank = chosen?.rank ?? found[i].rank;
      made.push(
        encodeCompressor(body, {
          method: chosen ? 'ranking' : 'linear',
          settings: { ...(chosen ? chosen.settings : found[i].point), ...said(each) },
          figures: { validationRank1: rank, fullRank1: trial.full, vectors: set.count },
          notes: notesOf(trial, set.dimension, found[i], learned, to, { kind, rank }),
        }),
      );
    }
    return handedOver(made, context);
  },
};

function notesOf(
  trial: Trial,
  given: number,
  { pca, lda, rank: linear, point, equal }: Found,
  learned: readonly Learned[],
  dimension: number,
  { kind, rank }: { kind: string; rank: number },
): string[] {
  const lost = trial.full - rank;
  return [
    `full dimension (${given}): rank-1 ${shown(trial.full)} on held-out identities, over ${trial.folds.length} folds`,
    `pca at ${dimension}: ${shown(pca)}`,
    `lda at ${dimension}: ${shown(lda)}, with the shrinkage that was best here`,
    `linear at ${dimension}: ${shown(linear)}, with shrinkage ${point.shrinkage.toFixed(2)} and a weight of ${point.classes.toFixed(2)} for classes, the mean of ${equal.toFixed(1)} settings that are as good`,
    ...learned.map(
      ({ kind: name, rank: its, ahead }) =>
        `${name} at ${dimension}: ${shown(its)}, ahead by ${shown(ahead.mean)} ± ${shown(ahead.error)}`,
    ),
    `chosen: ${kind} at ${dimension}, ${shown(Math.abs(lost))} ${lost < 0 ? 'above' : 'below'} full dimension`,
  ];
}

function said({ settings, dimension, seed, validation }: Task<AutoSettings, number | null>): Record<string, unknown> {
  return { auto: { ...settings, dimension }, seed, validation };
}

/** Why nothing can be learned from labels. */
function whyNotMeasured({ labelled, classCount, count }: TrainingSet): string | undefined {
  if (!labelled) return 'there are no labels to choose by';
  if (classCount < 2) return 'all vectors have the same label';
  if (classCount === count) return 'no two vectors have the same label';
  return undefined;
}

async function principal(task: Task<AutoSettings, number | null>, reason: string, context: Context) {
  const { set, dimension, threads } = task;
  if (dimension === null)
    throw new CompressError(
      'INVALID_LABELS',
      `The dimension cannot be chosen, for ${reason}: name one, or give labels that say which vectors belong together.`,
    );
  context.progress({ stage: 'principal components', done: 0.5 });
  const dimensions = [...(task.also ?? []), dimension];
  const map = await fitPca(set, Math.max(...dimensions), threads);
  const made = dimensions.map((to) =>
    encodeCompressor(linearBody(shortened(map, to)), {
      method: 'pca',
      settings: said({ ...task, dimension: to }),
      figures: { varianceKept: map.keptBy(to), vectors: set.count },
      notes: [`chosen: pca at ${to}, because ${reason}; how much rank-1 it loses is not known`],
    }),
  );
  return handedOver(made, context);
}

interface Found {
  point: Point;
  /** Rank-1 on held-out identities. */
  rank: number;
  /** For each probe of all folds, whether it was found. */
  hits: Float64Array;
  pca: number;
  lda: number;
  /** Members of the family in the average: the inverse of the sum of squared weights. */
  equal: number;
}

/** The folds, and what members of the family come to in them. */
export class Trial {
  readonly folds: readonly Fold[];
  readonly people: Int32Array;
  /** Rank-1 of the vectors as they are given. */
  readonly full: number;
  readonly #families: readonly Family[];
  readonly #threads: number;
  readonly #context: Context;

  private constructor(folds: Fold[], full: number, families: Family[], threads: number, context: Context) {
    this.folds = folds;
    this.people = Int32Array.from(folds.flatMap((fold) => [...fold.people]));
    this.full = full;
    this.#families = families;
    this.#threads = threads;
    this.#context = context;
  }

  static async open(task: Task<AutoSettings, number | null>, context: Context): Promise<Trial> {
    const { set, seed, validation, threads } = task;
    const some = sampled(set);
    context.progress({ stage: 'folds of held-out identities', done: 0 });
    // Principal components of all of them, not of each fold: they know no labels.
    const { set: short } = await cutToAxes(some, threads);
    const parts = Math.max(2, Math.round(1 / (validation || 0.25)));
    const folds = foldsOf(short, parts, ROUNDS, seed);
    const families: Family[] = [];
    let [hits, probes] = [0, 0];
    for (const [i, fold] of folds.entries()) {
      context.throwIfAborted();
      context.progress({ stage: 'folds of held-out identities', done: (0.1 * i) / folds.length });
      families.push(await linearFamily(fold.learn, threads));
    }
    // The same identities are held out of the vectors as they are.
    for (const fold of foldsOf(some, parts, ROUNDS, seed)) {
      const { all } = await marginsOf(fold, fold.gallery, some.dimension, some.dimension, threads);
      for (const margin of all) if (margin > 0) hits++;
      probes += all.length;
    }
    return new Trial(folds, hits / probes, families, threads, context);
  }

  /** Margins of all probes, at each point and dimension. */
  async #margins(points: readonly Point[], dimensions: readonly number[]): Promise<Margins[][]> {
    const widest = Math.max(...dimensions);
    const empty = () => new Float32Array(this.people.length);
    const found = points.map(() => dimensions.map(() => ({ heldOut: empty(), all: empty() })));
    let start = 0;
    for (const [f, fold] of this.folds.entries()) {
      for (const [p, point] of points.entries()) {
        this.#context.throwIfAborted();
        const done = 0.1 + (0.4 * (f + p / points.length)) / this.folds.length;
        this.#context.progress({ stage: `trying ${dimensions.join(', ')} dimensions`, done });
        const map = await this.#families[f].roughly(point, Math.min(widest, fold.learn.dimension));
        const mapped = await appliedLinear(map, fold.gallery, this.#threads);
        for (const [d, dimension] of dimensions.entries()) {
          const width = map.outputDimension;
          const margins = await marginsOf(fold, mapped, width, Math.min(dimension, width), this.#threads);
          found[p][d].heldOut.set(margins.heldOut, start);
          found[p][d].all.set(margins.all, start);
        }
      }
      start += fold.probes.length;
    }
    return found;
  }

  /** Which probes of a fold are found through a compressor that was learned on it. */
  async hitsOf(body: Body, fold: Fold): Promise<Float64Array> {
    const compressor = await loadBody(body);
    const width = compressor.outputDimension;
    const mapped = await compressor.transform(fold.gallery);
    const { all } = await marginsOf(fold, mapped, width, width, this.#threads);
    return Float64Array.from(all, (margin) => Number(margin > 0));
  }

  /** The smallest dimension at which the best of a few members loses no more than this. */
  async smallest(loss: number): Promise<number> {
    const steps = ladder(this.folds[0].learn.dimension);
    const losesLittle = async (dimension: number) => {
      const margins = await this.#margins(FEW_POINTS, [dimension]);
      return Math.max(...margins.map(([each]) => hitShare(each))) >= this.full - loss;
    };
    // More dimensions are better, but for chance: halve the ladder.
    let [low, high] = [0, steps.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (await losesLittle(steps[middle])) high = middle;
      else low = middle + 1;
    }
    // What is chosen in the end is another member, which may lose a little more.
    while (low < steps.length - 1 && (await this.choose(steps[low])).rank < this.full - loss) low++;
    return steps[low];
  }

  async choose(dimension: number): Promise<Found> {
    return (await this.chooseEach([dimension]))[0];
  }

  /** The choice at each dimension; maps are computed once for all of them. */
  async chooseEach(dimensions: readonly number[]): Promise<Found[]> {
    const margins = await this.#margins(POINTS, dimensions);
    const found: Found[] = [];
    for (const [d, dimension] of dimensions.entries()) {
      const here = margins.map((each) => each[d]);
      const { point, equal } = averaged(here, this.people, dimension);
      const [[own]] = await this.#margins([point], [dimension]);
      const ranks = here.map(hitShare);
      found.push({
        point,
        equal,
        rank: hitShare(own),
        hits: Float64Array.from(own.all, (margin) => Number(margin > 0)),
        pca: ranks[POINTS.findIndex(({ shrinkage, classes }) => shrinkage === 1 && classes === 0)],
        lda: Math.max(...ranks.filter((_, p) => POINTS[p].shrinkage < 1)),
      });
    }
    return found;
  }
}

/** The mean of the family's members, each with the weight that is left to it. */
export function averaged(
  margins: readonly Margins[],
  people: Int32Array,
  dimension: number,
): { point: Point; equal: number } {
  const among = (kind: keyof Margins) =>
    weightsOf(
      margins.map((each) => each[kind]),
      people,
      dimension,
    );
  const ofAll = among('all');
  const weights = among('heldOut').map((weight, p) => weight * ofAll[p]);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  // Steps of the family, so that the mean of 0.05 and 1 is not what differs little from 1.
  let [step, classes] = [0, 0];
  weights.forEach((weight, p) => {
    step += (weight / total) * SHRINKAGES.indexOf(POINTS[p].shrinkage);
    classes += (weight / total) * POINTS[p].classes;
  });
  const [below, share] = [Math.floor(step), step - Math.floor(step)];
  const shrinkage = SHRINKAGES[below] + share * ((SHRINKAGES[below + 1] ?? 1) - SHRINKAGES[below]);
  return { point: { shrinkage, classes }, equal: total ** 2 / weights.reduce((sum, weight) => sum + weight ** 2, 0) };
}

/** exp(−z²/2), where a member is z standard errors of the difference behind the best one. */
function weightsOf(margins: readonly Float32Array[], people: Int32Array, dimension: number): number[] {
  const softness = SOFTNESS / Math.sqrt(dimension);
  const outcomes = margins.map((each) => Float64Array.from(each, (margin) => 1 / (1 + Math.exp(-margin / softness))));
  const means = outcomes.map((each) => overPeople(each, people).mean);
  const best = means.indexOf(Math.max(...means));
  return outcomes.map((each) => {
    const { mean, error } = overPeople(
      each.map((x, i) => outcomes[best][i] - x),
      people,
    );
    return mean === 0 ? 1 : Math.exp(-((mean / error) ** 2) / 2);
  });
}

function hitShare({ all }: Margins): number {
  let hits = 0;
  for (const margin of all) if (margin > 0) hits++;
  return hits / all.length;
}

/** The linear map alone, with fewer steps and no vectors that are moved; a residual network. */
const RANKINGS: readonly Partial<RankingSettings>[] = [{ hidden: [], smoothing: 0, steps: 600 }, {}];
const RANKING_FOLDS = 2;

interface Learned {
  kind: string;
  settings: RankingSettings;
  rank: number;
  /** Of the best one before it, the linear map at first, probe by probe. */
  ahead: { mean: number; error: number };
  isAhead: boolean;
}

/**
 * From the simplest to the largest, each against what is best before it. Where the first fold does
 * not put it ahead by more than its error, there is no second.
 */
async function tryRankings(trial: Trial, found: Found, task: Task<AutoSettings>, context: Context): Promise<Learned[]> {
  const all: Learned[] = [];
  const given = task.settings.ranking ?? {};
  let best: { rank: number; hits: ArrayLike<number> } = found;
  const start = {
    shrinkage: found.point.shrinkage,
    between: found.point.classes < 0.5 ? 'vectors' : 'classes',
  } as const;
  for (const variant of given.hidden ? [{}] : RANKINGS) {
    const settings: RankingSettings = { ...ranking.defaults, ...start, ...variant, ...given };
    const kind = settings.hidden.length > 0 ? 'ranking' : 'ranking, linear';
    const [hits, differences, people]: number[][] = [[], [], []];
    let ahead = { mean: 0, error: Infinity };
    for (const [i, fold] of trial.folds.slice(0, RANKING_FOLDS).entries()) {
      const set = fold.learn;
      const part: Task<RankingSettings> = { ...task, set, settings, resume: undefined };
      const { body } = await learnRanking(part, `learning to rank, fold ${i + 1}`, trialOf(context));
      (await trial.hitsOf(body, fold)).forEach((hit, probe) => {
        // Folds follow one another, and so do the probes of all of them.
        differences.push(hit - best.hits[people.length]);
        hits.push(hit);
        people.push(fold.people[probe]);
      });
      ahead = overPeople(differences, people);
      if (!(ahead.mean > ahead.error)) break;
    }
    const [rank, isAhead] = [best.rank + ahead.mean, ahead.mean > ahead.error];
    all.push({ kind, settings, rank, ahead, isAhead });
    if (isAhead) best = { rank, hits };
  }
  return all;
}

function shown(rank: number): string {
  return rank.toFixed(4);
}

/** Whole classes, in the order they come, until there are enough vectors. */
function sampled(set: TrainingSet): TrainingSet {
  if (set.count <= ENOUGH) return set;
  const sizes = new Int32Array(set.classCount);
  for (const klass of set.classes) sizes[klass]++;
  let [classes, vectors] = [0, 0];
  while (classes < 2 || vectors < ENOUGH) vectors += sizes[classes++];
  return subset(set, (klass) => klass < classes);
}
