// What is wrong with an answer, if anything.

import type { Match, Payload, Plan, SearchOptions, SearchResult } from '@hers/client';
import { noiselessScores, plainScores, plan } from '@hers/scheme';
import type { Compressor } from '@hers/training';
import type { Content, HistoryNode, Plain, World } from './truth.ts';

/** What a result may be compared with. */
export interface Sight {
  /** Nodes that follow from what the client knew, newest first. */
  readonly nodes: readonly HistoryNode[];
  /** What the client's memory holds afterwards. */
  readonly after: HistoryNode | undefined;
  /**
   * By how much single scores may be wrong in what was not fetched. Zero, unless the store altered
   * some: then by anything under compact, and with checksum canaries by what they need not notice.
   */
  readonly admitted: number;
}

const samePayload = (a: Payload | undefined, b: Payload | undefined) => JSON.stringify(a) === JSON.stringify(b);
const sameVector = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  a.length === b.length && Array.from(a).every((x, i) => x === b[i]);
export const samePlain = (a: Plain | undefined, b: Plain | undefined): boolean =>
  a === b ||
  (a !== undefined && b !== undefined && sameVector(a.vector, b.vector) && samePayload(a.payload, b.payload));

/** The scheme returns squared distances. */
const asShown = ({ metric }: Plan, score: number) => (metric === 'euclidean' ? Math.sqrt(Math.max(0, score)) : score);
/** What the change of a single score may be without being noticed: README.md §8 of the scheme. */
export function leastNoticed({ profile, noise, checksumGroup }: Plan): number {
  if (profile === 'exact') return 0;
  // Twice the tolerance, and the rounding of a checksum, which is a few per cent of it.
  return checksumGroup === 0 ? Number.POSITIVE_INFINITY : 1.1 * 16 * noise.score * Math.sqrt(2 * checksumGroup);
}
/** −1 if less is better. */
const signOf = ({ plan: { metric } }: World) => (metric === 'euclidean' ? -1 : 1);

export class Scores {
  readonly #models: readonly Compressor[];

  constructor(models: readonly Compressor[]) {
    this.#models = models;
  }

  #full({ plan: settings }: World, vector: Float32Array, probe: Float32Array): number {
    return asShown(settings, plainScores({ ...settings, profile: 'compact' }, vector, probe)[0]);
  }

  /** Whether a match has the score of this record, or one that is wrong by what is admitted. */
  async fits(world: World, match: Match, { vector }: Plain, probe: Float32Array, admitted = 0): Promise<boolean> {
    const { plan: settings } = world;
    // Distances are compared as their squares, as they are decrypted.
    const isDistance = settings.metric === 'euclidean';
    const shown = isDistance ? match.score ** 2 : match.score;
    const near = (score: number, room: number) => Math.abs(shown - score) <= room;
    if (match.scoreOrigin === 'recomputed')
      return near(plainScores({ ...settings, profile: 'compact' }, vector, probe)[0], 1e-5);
    if (match.scoreOrigin === 'noisy')
      return near(noiselessScores(settings, vector, probe)[0], 7.5 * settings.noise.score + admitted);
    const all = await this.#compared(world, vector, probe);
    return all.some((score) => near(score, isDistance ? 1e-5 : 1e-6));
  }

  /** Scores that a record may have under exact; distances squared. */
  async #compared(world: World, vector: Float32Array, probe: Float32Array): Promise<number[]> {
    const scores = [plainScores(world.plan, vector, probe)[0]];
    if (world.name !== 'short') return scores;
    // Under any compressor that applies: there are two while it is being replaced.
    for (const model of this.#models) {
      const short = plan({ ...world.options, dimension: model.outputDimension });
      const [a, b] = [await model.transform(vector), await model.transform(probe)];
      scores.push(plainScores(short, a, b)[0]);
    }
    return scores;
  }

  /**
   * The least score with which each record must be found; best first. The caller allows for noise.
   */
  async least(world: World, content: Content, probe: Float32Array): Promise<number[]> {
    const sign = signOf(world);
    const scores: number[] = [];
    for (const [, { vector }] of content.entries()) {
      const exact = world.plan.profile === 'exact';
      const all = exact ? await this.#compared(world, vector, probe) : [];
      const shown = exact ? all.map((score) => asShown(world.plan, score)) : [this.#full(world, vector, probe)];
      scores.push(sign * Math.min(...shown.map((score) => sign * score)));
    }
    return scores.sort((a, b) => sign * (b - a));
  }
}

export async function wrongIn(
  scores: Scores,
  { matches }: SearchResult,
  probe: Float32Array,
  options: SearchOptions,
  { nodes, admitted }: Sight,
): Promise<string | undefined> {
  const { limit = 10, threshold, payload = false, rerank = false, enough } = options;
  const isFetched = payload || rerank !== false;
  if (matches.length > limit) return 'more matches than the limit';
  if (new Set(matches.map(({ id }) => id)).size !== matches.length) return 'a match twice';
  const sign = nodes.length > 0 ? signOf(nodes[0].world) : 1;
  const isRight = async (match: Match, { world, content }: HistoryNode): Promise<boolean> => {
    const record = content.get(match.id);
    if (!record || (payload && !samePayload(record.payload, match.payload))) return false;
    // "a server can change single scores, and as long as the record is not fetched nothing shows
    // it"
    return scores.fits(world, match, record, probe, isFetched ? 0 : admitted);
  };
  for (const [i, match] of matches.entries()) {
    if (i > 0 && sign * match.score > sign * matches[i - 1].score) return 'matches out of order';
    if (threshold !== undefined && !(sign * match.score >= sign * threshold)) return 'a match beyond the threshold';
    if (!(await isAny(nodes, (node) => isRight(match, node)))) return `a match that is wrong: ${JSON.stringify(match)}`;
  }
  if (admitted === Number.POSITIVE_INFINITY || nodes.length === 0) return undefined;
  const { world } = nodes[0];
  const exact = world.plan.profile === 'exact';
  // Under compact, noise may keep a record from being fetched; with a compressor, so may a vector
  // that is near only at full length. And with more than one node, another client may have deleted
  // some.
  const isPartial = !exact || enough !== undefined || (rerank !== false && world.name === 'short') || nodes.length > 1;
  if (isFetched && isPartial) return undefined;
  const room = !exact
    ? 8 * world.plan.noise.score + 0.01 + admitted
    : rerank !== false
      ? 0.02
      : sign < 0
        ? 0.004
        : 1e-6;
  const isWhole = async (node: HistoryNode): Promise<boolean> => {
    for (const match of matches) if (!(await isRight(match, node))) return false;
    // Everything scored correctly is ranked correctly, so the n-th match is at least as good as the
    // n-th best should be.
    const best = (await scores.least(node.world, node.content, probe)).slice(0, limit);
    return best.every((score, i) => {
      const least = sign * score - room;
      if (threshold !== undefined && least < sign * threshold) return true;
      return i < matches.length && sign * matches[i].score >= least;
    });
  };
  return (await isAny(nodes, isWhole)) ? undefined : 'an answer that leaves out better records';
}

async function isAny<T>(things: readonly T[], holds: (thing: T) => Promise<boolean>): Promise<boolean> {
  for (const thing of things) if (await holds(thing)) return true;
  return false;
}
