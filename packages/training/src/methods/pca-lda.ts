// PCA and LDA: fitted on part of the identities to measure them on the others, then on all.

import { draws, measured, measuredAlong, withValidation } from '../training/validation.ts';
import { encodeCompressor, linearBody } from './compressor-graph.ts';
import { type Between, cutToAxes, fitPca, linearFamily, shortened, weightOf } from './linear.ts';
import { type Context, handedOver, invalid, type Method, requireShare, type Task } from './method.ts';

export const pca: Method<Record<never, never>> = {
  defaults: {},
  needsLabels: false,
  async fit({ set, dimension, also = [], seed, validation, threads }, context) {
    const widest = Math.max(dimension, ...also);
    const { learn, heldOut } = withValidation(set, set.labelled ? validation : 0, seed);
    context.progress({ stage: 'measuring on held-out identities', done: 0 });
    const trial = heldOut && (await fitPca(learn, widest, threads));
    context.throwIfAborted();
    context.progress({ stage: 'principal components', done: 0.5 });
    const map = await fitPca(set, widest, threads);
    const made: Uint8Array<ArrayBuffer>[] = [];
    for (const to of [...also, dimension]) {
      const figures: Record<string, number> = { vectors: set.count };
      if (trial) figures.validationRank1 = await measured(linearBody(shortened(trial, to)), heldOut!, learn);
      figures.varianceKept = map.keptBy(to);
      const about = { method: 'pca', settings: { seed, validation }, figures };
      made.push(encodeCompressor(linearBody(shortened(map, to)), about));
    }
    return handedOver(made, context);
  },
};

export interface LdaSettings {
  /**
   * How far the within-class covariance is drawn towards a sphere, 0 to 1; `null`: chosen on
   * held-out identities.
   */
  shrinkage: number | null;
  /**
   * Whether each vector counts once, or each class, when the axes are chosen that tell classes
   * apart.
   */
  between: Between;
}

export function requireBetween(between: unknown): void {
  if (between !== 'vectors' && between !== 'classes') throw invalid("between is 'vectors' or 'classes'.");
}

const SHRINKAGES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9];
const DRAWS = 3;

export const lda: Method<LdaSettings> = {
  defaults: { shrinkage: null, between: 'vectors' },
  needsLabels: true,
  check({ shrinkage, between }) {
    if (shrinkage !== null) requireShare('shrinkage', shrinkage);
    requireBetween(between);
  },
  async fit(task, context) {
    const { set, dimension, also = [], seed, validation, threads } = task;
    const dimensions = [...also, dimension];
    const chosen = await chooseShrinkages(task, dimensions, context);
    context.progress({ stage: 'discriminants', done: 0.9 });
    const family = await linearFamily(set, threads);
    const made: Uint8Array<ArrayBuffer>[] = [];
    for (const [i, to] of dimensions.entries()) {
      const { shrinkage, rank } = chosen[i];
      const map = await family.at({ shrinkage, classes: weightOf(task.settings.between) }, to);
      const settings = { ...task.settings, shrinkage, chosen: task.settings.shrinkage === null, seed, validation };
      const figures = { vectors: set.count, ...(rank === undefined ? {} : { validationRank1: rank }) };
      made.push(encodeCompressor(linearBody(map), { method: 'lda', settings, figures }));
    }
    return handedOver(made, context);
  },
};

/** The shrinkage with the best rank-1 on held-out identities, and that, for each dimension. */
async function chooseShrinkages(
  { set, seed, validation, threads, settings }: Task<LdaSettings>,
  dimensions: readonly number[],
  context: Context,
): Promise<{ shrinkage: number; rank?: number }[]> {
  const candidates = settings.shrinkage === null ? SHRINKAGES : [settings.shrinkage];
  const sums = dimensions.map(() => candidates.map(() => 0));
  // Principal components of all of them, not of each draw: they know no labels.
  const { set: short } = await cutToAxes(set, threads);
  const parts = draws(short, validation, seed, DRAWS);
  for (const [draw, { learn, heldOut }] of parts.entries()) {
    const family = await linearFamily(learn, threads);
    for (const [i, candidate] of candidates.entries()) {
      context.throwIfAborted();
      const done = (0.9 * (draw * candidates.length + i)) / (DRAWS * candidates.length);
      context.progress({ stage: `shrinkage ${candidate}`, done });
      const point = { shrinkage: candidate, classes: weightOf(settings.between) };
      const map = await family.roughly(point, Math.min(learn.dimension, Math.max(...dimensions)));
      const ranks = await measuredAlong(map, dimensions, heldOut, learn, threads);
      for (const [d, rank] of ranks.entries()) sums[d][i] += rank;
    }
  }
  if (parts.length === 0) return dimensions.map(() => ({ shrinkage: settings.shrinkage ?? 0.5 }));
  return sums.map((each) => {
    const best = each.indexOf(Math.max(...each));
    return { shrinkage: candidates[best], rank: each[best] / parts.length };
  });
}
