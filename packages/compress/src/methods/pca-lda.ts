// PCA and LDA as methods: fitted on part of the identities to measure them on the others, then on
// all.

import { CompressError } from '../apply/errors.ts';
import { draws, measured, withValidation } from '../training/validation.ts';
import { encodeCompressor, linearBody } from './compressor-graph.ts';
import { type Between, discriminants, fitPca } from './linear.ts';
import { type Context, type Method, requireShare, type Task } from './method.ts';

export const pca: Method<Record<never, never>> = {
  defaults: {},
  needsLabels: false,
  async fit({ set, dimension, seed, validation }, context) {
    const figures: Record<string, number> = { vectors: set.count };
    const { learn, heldOut } = withValidation(set, set.labelled ? validation : 0, seed);
    if (heldOut) {
      context.progress({ stage: 'measuring on held-out identities', done: 0 });
      figures.validationRank1 = await measured(linearBody(await fitPca(learn, dimension)), heldOut, learn);
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
  if (between !== 'vectors' && between !== 'classes')
    throw new CompressError('INVALID_ARGUMENT', "between is 'vectors' or 'classes'.");
}

export const SHRINKAGES: number[] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9];
const DRAWS = 3;

export const lda: Method<LdaSettings> = {
  defaults: { shrinkage: null, between: 'vectors' },
  needsLabels: true,
  check({ shrinkage, between }) {
    if (shrinkage !== null) requireShare('shrinkage', shrinkage);
    requireBetween(between);
  },
  async fit(task, context) {
    const { set, dimension, seed, validation } = task;
    const figures: Record<string, number> = { vectors: set.count };
    const { shrinkage, rank } = await chooseShrinkage(task, context);
    if (rank !== undefined) figures.validationRank1 = rank;
    context.progress({ stage: 'discriminants', done: 0.9 });
    const map = (await discriminants(set, task.settings.between))(dimension, shrinkage);
    context.progress({ stage: 'done', done: 1 });
    const settings = { ...task.settings, shrinkage, chosen: task.settings.shrinkage === null, seed, validation };
    return encodeCompressor(linearBody(map), { method: 'lda', metric: 'cosine', settings, figures, notes: [] });
  },
};

/** The shrinkage with the best rank-1 on held-out identities, and that rank-1. */
async function chooseShrinkage(
  { set, dimension, seed, validation, settings }: Task<LdaSettings>,
  context: Context,
): Promise<{ shrinkage: number; rank?: number }> {
  const candidates = settings.shrinkage === null ? SHRINKAGES : [settings.shrinkage];
  const sums = candidates.map(() => 0);
  const parts = draws(set, validation, seed, DRAWS);
  for (const [draw, { learn, heldOut }] of parts.entries()) {
    const mapOf = await discriminants(learn, settings.between);
    for (const [i, candidate] of candidates.entries()) {
      context.throwIfAborted();
      const done = (0.9 * (draw * candidates.length + i)) / (DRAWS * candidates.length);
      context.progress({ stage: `shrinkage ${candidate}`, done });
      sums[i] += await measured(linearBody(mapOf(dimension, candidate)), heldOut, learn);
    }
  }
  if (parts.length === 0) return { shrinkage: settings.shrinkage ?? 0.5 };
  const best = sums.indexOf(Math.max(...sums));
  return { shrinkage: candidates[best], rank: sums[best] / parts.length };
}
