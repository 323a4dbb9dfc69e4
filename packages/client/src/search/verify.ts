// Comparing a vector with one record: a scan of the block that the record is in. Or with a group of
// records: a scan of everything.

import { checkVector } from '@hers/scheme';
import { HersError, refuseUnknown } from '@hers/service';
import { hex } from '../bytes.ts';
import { quoted } from '../fields/field.ts';
import type { CollectionSession } from '../session/session.ts';
import type { View } from '../session/view.ts';
import { checkGroupField, chosenCount, isChosen } from './choice.ts';
import { inPartitions } from './partitions.ts';
import { countUndecryptable, fullScore, neverFetches, wantedOf } from './rerank.ts';
import { orderOf, type ScanPart, type ScoreOrigin, scan } from './scan.ts';
import { ScoreCheck } from './score-check.ts';

/** All records that have the same value in a field of type keyword: the templates of one person. */
export interface Group {
  /** The name of the field. */
  readonly field: string;
  /** The value that its records have in common. */
  readonly value: string;
}

/** How a probe is compared with one record, or with the records of a group. */
export interface VerifyOptions {
  /**
   * For a group: whether its best score counts, the default, or the mean of all.
   */
  readonly combine?: 'best' | 'mean';
  /**
   * For a group: scan only the blocks that it is in, which shows the store which these are. By
   * default everything is scanned.
   */
  readonly showBlocks?: boolean;
  /**
   * In a collection with partitions: only records of these. A group is then looked for in their
   * blocks alone, and the store sees which these are.
   */
  readonly partitions?: readonly string[];
  /** The similarity to reach, or the distance not to exceed, for `match` to be true. */
  readonly threshold?: number;
  /**
   * Fetch the record and compare the full vectors. Off by default, because it shows the store which
   * record of the block it is.
   */
  readonly rerank?: boolean;
  /** Ends the comparison when it aborts. */
  readonly signal?: AbortSignal;
}

/** What `verify` found. */
export interface Verification {
  /** Similarity (cosine, dot) or distance (euclidean). */
  readonly score: number;
  /** Whether the score reaches the threshold; only when one was given. */
  readonly match?: boolean;
  /** As in {@link Match}. */
  readonly scoreOrigin: ScoreOrigin;
}

export async function verify(
  session: CollectionSession,
  of: string | Group,
  vector: ArrayLike<number>,
  options: VerifyOptions,
): Promise<Verification> {
  refuseUnknown(
    options,
    { threshold: true, rerank: true, combine: true, showBlocks: true, partitions: true, signal: true },
    'a verification',
  );
  const { plan } = session.keyring;
  const probe = checkVector(plan, vector, 'query');
  const { threshold, rerank = false } = options;
  if (rerank && plan.profile === 'open') throw neverFetches('rerank');
  const { score, scoreOrigin } =
    typeof of === 'string'
      ? await verifyRecord(session, of, probe, options)
      : await verifyGroup(session, of, probe, options);
  if (threshold === undefined) return { score, scoreOrigin };
  return { score, scoreOrigin, match: orderOf(plan) === 'descending' ? score >= threshold : score <= threshold };
}

async function verifyRecord(
  session: CollectionSession,
  id: string,
  probe: Float32Array,
  { rerank = false, combine, showBlocks, partitions, signal }: VerifyOptions,
): Promise<Verification> {
  if (combine !== undefined || showBlocks !== undefined)
    throw new HersError('INVALID_ARGUMENT', 'combine and showBlocks are for a group: { field, value }');
  const { plan } = session.keyring;
  const scanOptions = { limit: plan.parameters.n, ...(signal ? { signal } : {}) };
  const scanning = session.read(async (view) => {
    const part = partWith(session, view, id);
    if (partitions && !isPartOf(inPartitions(session, view, partitions), part)) throw notFound(id);
    const [{ found }] = await scan(session, view, [probe], scanOptions, part);
    return { view, found };
  });
  const { view, found } = await (rerank ? countUndecryptable(session, scanning) : scanning);
  if (!isChosen(view, session.choices.of(view, undefined, Date.now()), id)) throw notFound(id);
  const compared = found.find((each) => each.id === id);
  if (!compared) throw new HersError('INTEGRITY', 'the store did not answer for this record');
  if (!rerank) return compared;
  const wanted = wantedOf(session, compared);
  const fetched = await session.candidates.fetch(view, [wanted], new ScoreCheck(probe), signal);
  const current = fetched.get(wanted.handle);
  if (!current) throw notFound(id);
  return { score: fullScore(plan, current.record.vector, probe), scoreOrigin: 'recomputed' };
}

async function verifyGroup(
  session: CollectionSession,
  { field, value, ...rest }: Group,
  probe: Float32Array,
  { rerank = false, combine = 'best', showBlocks = false, partitions, signal }: VerifyOptions,
): Promise<Verification> {
  refuseUnknown(rest, {}, 'a group');
  if (rerank) throw new HersError('INVALID_ARGUMENT', 'rerank compares with one record; a group has several');
  if (combine !== 'best' && combine !== 'mean')
    throw new HersError('INVALID_ARGUMENT', 'combine is best, the default, or mean');
  const found = await session.read(async (view) => {
    checkGroupField(view, field, 'verify');
    const choice = session.choices.of(view, { must: { field, match: value } }, Date.now())!;
    const named = inPartitions(session, view, partitions);
    const limit = Math.max(1, chosenCount(view, choice, named));
    const blocks = named.blocks.filter((block) => choice.slots(block)!.some((word) => word !== 0));
    const part = showBlocks ? { ...named, blocks } : partitions && named;
    const [scanned] = await scan(session, view, [probe], { limit, choice, ...(signal ? { signal } : {}) }, part);
    return scanned.found;
  });
  // Only now: the store must not learn whether there is such a group.
  if (found.length === 0)
    throw new HersError('NOT_FOUND', `there is no record whose field ${quoted(field)} is ${quoted(value)}`);
  const { scoreOrigin } = found.find((each) => each.scoreOrigin === 'noisy') ?? found[0];
  const mean = found.reduce((sum, { score }) => sum + score, 0) / found.length;
  return { score: combine === 'best' ? found[0].score : mean, scoreOrigin };
}

/** What has to be scanned to compare one record. */
function partWith({ keyring }: CollectionSession, view: View, id: string): ScanPart {
  const place = view.locate(id);
  if (place === undefined) throw notFound(id);
  return place === 'pending'
    ? { blocks: [], pending: [view.pending.get(hex(keyring.records.handleOf(id)))!] }
    : { blocks: [place.block], pending: [] };
}

function isPartOf({ blocks, pending }: ScanPart, part: ScanPart): boolean {
  return (
    part.blocks.every((block) => blocks.includes(block)) && part.pending.every((record) => pending.includes(record))
  );
}

function notFound(id: string): HersError {
  return new HersError('NOT_FOUND', `there is no record ${JSON.stringify(id)}; list() yields the ids there are`);
}
