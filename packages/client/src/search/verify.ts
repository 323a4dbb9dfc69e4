// Comparing a vector with one record: a scan of the block that the record is in.

import { checkVector } from '@hers/scheme';
import { HersError, refuseUnknown } from '@hers/service';
import { hex } from '../bytes.ts';
import { needsVault } from '../formats/descriptor.ts';
import type { CollectionSession } from '../session/session.ts';
import type { View } from '../session/view.ts';
import { countUndecryptable, fullScore, wantedOf } from './rerank.ts';
import { orderOf, type ScanPart, type ScoreOrigin, scan } from './scan.ts';
import { ScoreCheck } from './score-check.ts';

export interface VerifyOptions {
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
  id: string,
  vector: ArrayLike<number>,
  options: VerifyOptions,
): Promise<Verification> {
  refuseUnknown(options, { threshold: true, rerank: true, signal: true }, 'a verification');
  const { threshold, rerank = false, signal } = options;
  const { plan, descriptor } = session.keyring;
  if (rerank && descriptor.enrolment !== 'vault') throw needsVault('comparing full vectors');
  const probe = checkVector(plan, vector, 'query');
  const scanOptions = { limit: plan.parameters.n, ...(signal ? { signal } : {}) };
  const scanning = session.read(async (view) => {
    const [{ found }] = await scan(session, view, [probe], scanOptions, partWith(session, view, id));
    return { view, found };
  });
  const { view, found } = await (rerank ? countUndecryptable(session, scanning) : scanning);
  const compared = found.find((each) => each.id === id);
  if (!compared) throw new HersError('INTEGRITY', 'the store did not answer for this record');
  let { score, scoreOrigin } = compared;
  if (rerank) {
    const wanted = wantedOf(session, compared);
    const fetched = await session.candidates.fetch(view, [wanted], new ScoreCheck(probe), signal);
    const current = fetched.get(wanted.handle);
    if (!current) throw notFound(id);
    score = fullScore(plan, current.record.vector, probe);
    scoreOrigin = 'recomputed';
  }
  if (threshold === undefined) return { score, scoreOrigin };
  return { score, scoreOrigin, match: orderOf(plan) === 'descending' ? score >= threshold : score <= threshold };
}

/** What has to be scanned to compare one record. */
function partWith({ keyring }: CollectionSession, view: View, id: string): ScanPart {
  const place = view.locate(id);
  if (place === undefined) throw notFound(id);
  return place === 'pending'
    ? { blocks: [], pending: [view.pending.get(hex(keyring.records.handleOf(id)))!] }
    : { blocks: [place.block], pending: [] };
}

function notFound(id: string): HersError {
  return new HersError('NOT_FOUND', `there is no record ${JSON.stringify(id)}; list() yields the ids there are`);
}
