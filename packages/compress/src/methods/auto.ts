// The default: tries the methods on identities that were held out, takes the best one, and says
// what it found. Given no dimension, it takes the smallest whose rank-1 stays within a given loss
// of that of the full vectors.

import { CompressError } from '../apply/errors.ts';
import { subset, type TrainingSet } from '../training/training-set.ts';
import { draws, measured, measuredFull } from '../training/validation.ts';
import { type Body, encodeCompressor, linearBody } from './compressor-graph.ts';
import { type Between, discriminants, fitPca, type LinearMap } from './linear.ts';
import { type Context, completed, type Method, requireShare, type Task, trialOf } from './method.ts';
import { SHRINKAGES } from './pca-lda.ts';
import { learnRanking, type RankingSettings, ranking } from './ranking.ts';

export interface AutoSettings {
  /** The rank-1 that may be lost when no dimension is given: 0.01 is one point in a hundred. */
  loss: number;
  /**
   * Settings for learning to rank, which takes minutes; `null` for trying only what is computed at
   * once.
   */
  ranking: Partial<RankingSettings> | null;
}

/** Ways of holding identities out. */
const DRAWS = 3;
/** Vectors that are used to choose, at most; the choice is then fitted on all. */
const ENOUGH = 20_000;

/** What can be chosen. A fit gives a map for every dimension at once where the method allows. */
interface Candidate {
  name: string;
  settings: Record<string, unknown>;
  fit(set: TrainingSet): Promise<(dimension: number) => LinearMap>;
}

function lda(between: Between, shrinkage: number): Candidate {
  return {
    name: 'lda',
    settings: { between, shrinkage },
    async fit(set) {
      const all = (await discriminantsOnce(set, between))(set.dimension, shrinkage);
      return (dimension) => shortened(all, dimension);
    },
  };
}

/** What all shrinkages share is computed for the first of them. */
const known = new WeakMap<TrainingSet, Partial<Record<Between, ReturnType<typeof discriminants>>>>();

function discriminantsOnce(set: TrainingSet, between: Between): ReturnType<typeof discriminants> {
  const mine = known.get(set) ?? {};
  known.set(set, mine);
  return (mine[between] ??= discriminants(set, between));
}

const pca: Candidate = {
  name: 'pca',
  settings: {},
  async fit(set) {
    const all = await fitPca(set, set.dimension);
    return (dimension) => shortened(all, dimension);
  },
};

/** The first axes of a map: those of PCA and LDA come in order of what they are worth. */
function shortened(map: LinearMap, dimension: number): LinearMap {
  return { ...map, axes: map.axes.slice(0, dimension * map.inputDimension), outputDimension: dimension };
}

const linear = [pca, ...(['vectors', 'classes'] as const).flatMap((between) => SHRINKAGES.map((s) => lda(between, s)))];

/**
 * 1, 2, 3, 4, 6, 8, 12, 16, 24, …: each a third or a half more than the one before, and all
 * dimensions at last.
 */
function ladder(most: number): number[] {
  const steps = [1, 2, 3];
  for (let i = 4; i < most; i *= 2) steps.push(i, 1.5 * i);
  return [...steps.filter((step) => step < most), most];
}

export const auto: Method<AutoSettings, number | null> = {
  defaults: { loss: 0.01, ranking: {} },
  needsLabels: true,
  check({ loss, ranking: given }) {
    requireShare('loss', loss);
    if (given !== null) ranking.check?.(completed('ranking', ranking.defaults, given));
  },
  async fit(task, context) {
    const { set, seed, settings } = task;
    const parts = draws(sampled(set), task.validation || 0.25, seed, DRAWS);
    if (parts.length === 0)
      throw new CompressError(
        'INVALID_LABELS',
        'There are too few classes with two vectors or more to choose on: name a method and a dimension instead.',
      );
    const full = average(await Promise.all(parts.map(({ heldOut, learn }) => measuredFull(heldOut, learn))));
    const notes = [
      `full dimension (${set.dimension}): rank-1 ${shown(full)} on held-out identities, average of ${parts.length} draws`,
    ];
    const dimensions = task.dimension === null ? ladder(set.dimension) : [task.dimension];
    const found = await tryLinear(
      parts,
      dimensions,
      task.dimension === null ? full - settings.loss : undefined,
      context,
    );
    const { dimension } = found;
    for (const [name, rank] of found.ranks) notes.push(`${name} at ${dimension}: ${shown(rank)}`);
    const learned = settings.ranking ? await tryRankings(parts, found.shrinkage, { ...task, dimension }, context) : [];
    for (const { kind, rank } of learned) notes.push(`${kind} at ${dimension}: ${shown(rank)}`);
    // What is simpler wins a draw: linear maps that are computed come first.
    const chosen = learned.toReversed().reduce((best: Choice, each) => (each.rank > best.rank ? each : best), found);
    const lost = full - chosen.rank;
    const apart = `${shown(Math.abs(lost))} ${lost < 0 ? 'above' : 'below'} full dimension`;
    notes.push(`chosen: ${chosen.kind} at ${dimension}, ${apart}`);
    context.progress({ stage: `fitting ${chosen.name} on all vectors`, done: 0.8 });
    const body = await chosen.final({ ...task, dimension }, context);
    context.progress({ stage: 'done', done: 1 });
    return encodeCompressor(body, {
      method: chosen.name,
      metric: 'cosine',
      settings: {
        ...chosen.settings,
        auto: { ...settings, dimension: task.dimension },
        seed,
        validation: task.validation,
      },
      figures: { validationRank1: chosen.rank, fullRank1: full, vectors: set.count },
      notes,
    });
  },
};

type Part = ReturnType<typeof draws>[number];

interface Choice {
  name: string;
  /** The name, and what of its settings matters to a reader. */
  kind: string;
  settings: object;
  rank: number;
  final(task: Task<AutoSettings>, context: Context): Promise<Body>;
}

/** The best linear map at the smallest dimension where one is good enough, or at the only one. */
async function tryLinear(parts: Part[], dimensions: number[], enough: number | undefined, context: Context) {
  // A fit of each candidate to each draw serves all dimensions.
  const fits: ((dimension: number) => LinearMap)[][] = [];
  for (const [i, candidate] of linear.entries()) {
    context.throwIfAborted();
    context.progress({ stage: `trying ${candidate.name}`, done: (0.3 * i) / linear.length });
    fits.push(await Promise.all(parts.map(({ learn }) => candidate.fit(learn))));
  }
  const rankAt = async (candidate: number, dimension: number) => {
    const ranks = [];
    for (const [p, { heldOut, learn }] of parts.entries())
      ranks.push(await measured(linearBody(fits[candidate][p](dimension)), heldOut, learn));
    return average(ranks);
  };
  const bestAt = async (dimension: number) => {
    context.throwIfAborted();
    context.progress({ stage: `trying ${dimension} dimensions`, done: 0.4 });
    const ranks: number[] = [];
    for (const i of linear.keys()) ranks.push(await rankAt(i, dimension));
    const best = ranks.indexOf(Math.max(...ranks));
    const { name, settings, fit } = linear[best];
    const choice: Choice = {
      name,
      kind: name,
      settings,
      rank: ranks[best],
      final: async (task) => linearBody((await fit(task.set))(task.dimension)),
    };
    return { ...choice, dimension, ranks: bestOfEach(ranks), shrinkage: bestShrinkage(ranks) };
  };
  if (enough === undefined) return bestAt(dimensions[0]);
  // More dimensions are better, but for chance: halve the ladder.
  let [low, high] = [0, dimensions.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((await bestAt(dimensions[middle])).rank >= enough) high = middle;
    else low = middle + 1;
  }
  return bestAt(dimensions[low]);
}

/**
 * The shrinkage that served the discriminants of the class means best: learning to rank starts from
 * them.
 */
function bestShrinkage(ranks: number[]): number {
  let best = -1;
  linear.forEach(({ settings }, i) => {
    if (settings.between === 'classes' && !(ranks[i] <= ranks[best])) best = i;
  });
  return linear[best].settings.shrinkage as number;
}

/** The best figure of each kind of candidate. */
function bestOfEach(ranks: number[]): Map<string, number> {
  const best = new Map<string, number>();
  ranks.forEach((rank, i) => {
    const { name, settings } = linear[i];
    const kind = settings.between === undefined ? name : `${name} between ${settings.between}`;
    best.set(kind, Math.max(rank, best.get(kind) ?? 0));
  });
  return best;
}

/**
 * A residual network, and the linear map alone: the latter needs fewer steps, and no vectors that
 * are moved.
 */
const RANKINGS: readonly Partial<RankingSettings>[] = [{}, { hidden: [], smoothing: 0, steps: 600 }];

async function tryRankings(
  parts: Part[],
  shrinkage: number,
  task: Task<AutoSettings>,
  context: Context,
): Promise<Choice[]> {
  const choices: Choice[] = [];
  const given = task.settings.ranking ?? {};
  for (const variant of given.hidden ? [{}] : RANKINGS) {
    const settings: RankingSettings = { ...ranking.defaults, shrinkage, ...variant, ...given };
    const kind = settings.hidden.length > 0 ? 'ranking' : 'ranking, linear';
    const ranks: number[] = [];
    for (const [i, { learn, heldOut }] of parts.entries()) {
      const trial: Task<RankingSettings> = { ...task, set: learn, settings, resume: undefined };
      const { body } = await learnRanking(
        trial,
        `learning to rank, draw ${i + 1} of ${parts.length}`,
        trialOf(context),
      );
      ranks.push(await measured(body, heldOut, learn));
    }
    const final: Choice['final'] = async (whole, within) =>
      (await learnRanking({ ...whole, settings }, 'learning to rank', within)).body;
    choices.push({ name: 'ranking', kind, settings, rank: average(ranks), final });
  }
  return choices;
}

function average(numbers: number[]): number {
  return numbers.reduce((sum, x) => sum + x, 0) / numbers.length;
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
