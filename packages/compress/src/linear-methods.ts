// PCA and LDA as methods: fitted on part of the identities to measure them on the others, then on all.

import { load } from './apply/compressor.ts';
import { CompressError } from './apply/errors.ts';
import { type Between, discriminants, fitPca, type LinearMap } from './linear.ts';
import { type Context, type Method, requireShare, type Task } from './method.ts';
import { encodeCompressor, linearBody } from './model.ts';
import { rankOne } from './rank.ts';
import { split, type TrainingSet } from './training-set.ts';

export const pca: Method<Record<never, never>> = {
  defaults: {},
  needsLabels: false,
  async fit({ set, dimension, seed, validation }, context) {
    const figures: Record<string, number> = { vectors: set.count };
    if (set.labelled && validation > 0) {
      context.progress({ stage: 'measuring on held-out identities', done: 0 });
      const { learn, heldOut } = split(set, validation, seed);
      if (learn.count > 0) addFigure(figures, await measured(await fitPca(learn, dimension), heldOut));
    }
    context.throwIfAborted();
    context.progress({ stage: 'principal components', done: 0.5 });
    const map = await fitPca(set, dimension);
    figures.varianceKept = map.varianceKept;
    context.progress({ stage: 'done', done: 1 });
    return encodeCompressor(linearBody(map), {
      method: 'pca',
      metric: 'cosine',
      settings: { seed, validation },
      figures,
      notes: [],
    });
  },
};

export interface LdaSettings {
  /** How far the within-class covariance is drawn towards a sphere, 0 to 1; `null`: chosen on held-out identities. */
  shrinkage: number | null;
  /** Whether each vector counts once, or each class, when the axes are chosen that tell classes apart. */
  between: Between;
}

const SHRINKAGES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9];
/** Several draws of held-out identities: one alone is too small to tell neighbouring values apart. */
const DRAWS = 5;

export const lda: Method<LdaSettings> = {
  defaults: { shrinkage: null, between: 'vectors' },
  needsLabels: true,
  check({ shrinkage, between }) {
    if (shrinkage !== null) requireShare('shrinkage', shrinkage);
    if (between !== 'vectors' && between !== 'classes')
      throw new CompressError('INVALID_ARGUMENT', "between is 'vectors' or 'classes'.");
  },
  async fit(task, context) {
    const { set, dimension, seed, validation } = task;
    const figures: Record<string, number> = { vectors: set.count };
    const { shrinkage, rank } = await chooseShrinkage(task, context);
    addFigure(figures, rank);
    context.progress({ stage: 'discriminants', done: 0.9 });
    const map = (await discriminants(set, task.settings.between))(dimension, shrinkage);
    context.progress({ stage: 'done', done: 1 });
    const settings = { ...task.settings, shrinkage, chosen: task.settings.shrinkage === null, seed, validation };
    return encodeCompressor(linearBody(map), { method: 'lda', metric: 'cosine', settings, figures, notes: [] });
  },
};

/** The shrinkage with the best rank-1 on held-out identities, and that rank-1. */
export async function chooseShrinkage(
  { set, dimension, seed, validation, settings }: Task<LdaSettings>,
  context: Context,
): Promise<{ shrinkage: number; rank: number | undefined }> {
  const candidates = settings.shrinkage === null ? SHRINKAGES : [settings.shrinkage];
  const sums = candidates.map(() => 0);
  let draws = 0;
  for (let draw = 0; draw < DRAWS && validation > 0; draw++) {
    const { learn, heldOut } = split(set, validation, seed + draw);
    if (learn.count === learn.classCount) break; // too few vectors to hold any out
    let measurable = true;
    const mapOf = await discriminants(learn, settings.between);
    for (const [i, candidate] of candidates.entries()) {
      context.throwIfAborted();
      context.progress({
        stage: `shrinkage ${candidate}`,
        done: (0.9 * (draw * candidates.length + i)) / (DRAWS * candidates.length),
      });
      const rank = await measured(mapOf(dimension, candidate), heldOut);
      if (rank === undefined) measurable = false;
      else sums[i] += rank;
    }
    if (!measurable) break;
    draws++;
  }
  if (draws === 0) return { shrinkage: settings.shrinkage ?? 0.5, rank: undefined };
  const best = sums.indexOf(Math.max(...sums));
  return { shrinkage: candidates[best], rank: sums[best] / draws };
}

/** Rank-1 on a set; undefined when it holds nothing to identify. */
export async function measured(map: LinearMap, heldOut: TrainingSet): Promise<number | undefined> {
  if (heldOut.count === heldOut.classCount) return;
  const metadata = { method: 'linear', metric: 'cosine', settings: {}, figures: {}, notes: [] } as const;
  const compressor = await load(encodeCompressor(linearBody(map), metadata));
  return rankOne(await compressor.transform(heldOut.vectors), heldOut.classes);
}

function addFigure(figures: Record<string, number>, rank: number | undefined): void {
  if (rank !== undefined) figures.validationRank1 = rank;
}
