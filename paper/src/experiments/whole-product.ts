// The same gallery and the same compressor through the product: a folder, a key, a collection;
// enrolled in a batch and online, searched in one stage and in two.

import { type Plan, type Profile, plainScores } from '@hers/scheme';
import type { Part } from '../data/datasets.ts';
import { EncryptedGallery, type Found } from '../data/encrypted-gallery.ts';
import type { Figure } from '../lab/experiment.ts';
import { progress } from '../lab/report.ts';
import { stopwatch } from '../lab/timing.ts';
import { mean } from '../metrics/statistics.ts';
import type { BothForms, Order } from './whole-published.ts';

export interface ProductVariant {
  readonly name: string;
  readonly profile: Profile;
}

export const VARIANTS: readonly ProductVariant[] = [
  { name: 'compact', profile: 'compact' },
  { name: 'exact', profile: 'exact' },
];

export async function productWhole(
  { name, profile }: ProductVariant,
  compressor: Uint8Array,
  gallery: BothForms,
  probes: BothForms,
  k: number,
  { online }: Order,
): Promise<Figure[]> {
  const { fine, coarse } = gallery;
  const { dimension } = fine;
  const encrypted = await EncryptedGallery.open({ dimension, profile, compressor });
  try {
    const enrol = async (from: number, to: number) => {
      const begun = stopwatch();
      await encrypted.enrol(fine.vectors.subarray(from * dimension, to * dimension));
      return begun().seconds;
    };
    progress(`${name}: enrolment`);
    let batch = online[0] > 0 ? await enrol(0, online[0]) : 0;
    let single = 0;
    for (let i = online[0]; i < online[1]; i++) single += await enrol(i, i + 1);
    if (online[1] < fine.labels.length) batch += await enrol(online[1], fine.labels.length);
    const sealing = stopwatch();
    await encrypted.seal();
    batch += sealing().seconds;
    const { plan, bytes, blocks } = await encrypted.describe();
    const measured = (what: string, value: number, unit: string): Figure => ({
      ...{ name: `${name}-${what}`, value, unit, source: 'measured' as const },
    });
    const results = [
      measured('batch', batch, 's'),
      measured('online', single, 's'),
      measured('gallery-bytes', bytes, 'bytes'),
      measured('blocks', blocks, 'blocks'),
      { ...measured('query-bytes', plan.bytes.query, 'bytes'), source: 'computed' as const },
      { ...measured('stage1-bytes', blocks * plan.bytes.response, 'bytes'), source: 'computed' as const },
    ];
    for (const stage of ['one', 'two'] as const) {
      progress(`${name}: ${stage === 'one' ? 'one stage' : 'two stages'}`);
      const [times, overlap]: number[][] = [[], []];
      let [same, first, found] = [0, 0, 0];
      for (let probe = 0; probe < probes.fine.labels.length; probe++) {
        const [full, short] = [row(probes.fine, probe), row(probes.coarse, probe)];
        const begun = stopwatch();
        const [answer] = await encrypted.searchTwice(full, { limit: k, ...(stage === 'two' ? { rerank: k } : {}) });
        times.push(begun().seconds);
        const wanted = inTheClear(plan, { coarse, fine }, { full, short }, k, stage);
        // Whole steps under exact, which are smaller than EQUAL.
        const equal = stage === 'one' && plan.steps > 0 ? 0.5 / plan.steps ** 2 : EQUAL;
        if (isSameList(answer.found, wanted, { hasScores: profile !== 'compact' || stage === 'two', equal })) same++;
        overlap.push(sharedWith(answer.found, wanted, equal));
        if (wanted[answer.found[0].index] === Math.max(...wanted)) first++;
        if (fine.labels[answer.found[0].index] === probes.fine.labels[probe]) found++;
      }
      const count = probes.fine.labels.length;
      results.push(
        measured(`${stage}`, mean(times), 's'),
        measured(`${stage}-same`, same / count, 'of probes'),
        measured(`${stage}-overlap`, mean(overlap), 'of the best'),
        measured(`${stage}-first`, first / count, 'of probes'),
        measured(`${stage}-rank1`, found / count, 'rank-1'),
      );
    }
    return results;
  } finally {
    await encrypted.close();
  }
}

const row = ({ vectors, dimension }: Part, place: number) =>
  vectors.subarray(place * dimension, (place + 1) * dimension);

/** Scores of all templates in the clear; of those that are not candidates, none. */
function inTheClear(
  plan: Plan,
  { coarse, fine }: BothForms,
  { full, short }: { readonly full: Float32Array; readonly short: Float32Array },
  k: number,
  stage: 'one' | 'two',
): Float64Array {
  const scores = plainScores(plan, coarse.vectors, short);
  if (stage === 'one') return scores;
  const candidates = Array.from(scores.keys())
    .sort((a, b) => scores[b] - scores[a] || a - b)
    .slice(0, k);
  const ranked = new Float64Array(scores.length).fill(Number.NEGATIVE_INFINITY);
  for (const place of candidates) ranked[place] = row(fine, place).reduce((sum, x, i) => sum + x * full[i], 0);
  return ranked;
}

/**
 * Scores in the clear and the client's scores differ in the last bits, on which order may depend.
 */
const EQUAL = 1e-6;

/**
 * Whether a list has the best templates in their order, and, where the client's scores are those in
 * the clear, each with its score.
 */
function isSameList(
  found: readonly Found[],
  scores: Float64Array,
  { hasScores, equal }: { readonly hasScores: boolean; readonly equal: number },
): boolean {
  const best = Float64Array.from(scores).sort().reverse();
  return found.every(
    ({ index, score }, i) =>
      Math.abs(scores[index] - best[i]) < equal && (!hasScores || Math.abs(score - best[i]) < equal),
  );
}

/** How many of a list are among as many that are best in the clear. */
function sharedWith(found: readonly Found[], scores: Float64Array, equal: number): number {
  const last = Float64Array.from(scores).sort().reverse()[found.length - 1];
  return found.filter(({ index }) => scores[index] > last - equal).length / found.length;
}
