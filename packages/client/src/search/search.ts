// Searching: one scan, and, if the caller asks for it, fetching the best records afterwards.

import { checkVector } from '@hers/scheme';
import { HersError } from '@hers/service';
import { liveCount } from '../formats/manifest.ts';
import type { CollectionSession } from '../session/session.ts';
import type { View } from '../session/view.ts';
import { checkFieldNames, checkGroupField, fieldsOf } from './choice.ts';
import { inPartitions } from './partitions.ts';
import { candidatesToFetch, countUndecryptable, fetchMatches } from './rerank.ts';
import { type Asked, type Found, scan } from './scan.ts';
import { checkOptions, DEFAULT_LIMIT, type Match, type SearchOptions, type SearchResult } from './search-options.ts';

export async function search(
  session: CollectionSession,
  vectors: readonly ArrayLike<number>[],
  options: SearchOptions,
): Promise<SearchResult[]> {
  checkOptions(options);
  if (vectors.length === 0) return [];
  const toFetch = candidatesToFetch(session, options);
  const { plan } = session.keyring;
  const probes = vectors.map((vector, i) =>
    checkVector(plan, vector, 'query', vectors.length > 1 ? `vector ${i}` : 'the vector'),
  );
  const { limit = DEFAULT_LIMIT, threshold, filter, partitions, select, groupBy, rerank, partial, signal } = options;
  const scanning = session.read(async (view) => {
    const part = partitions && inPartitions(session, view, partitions);
    if (select) checkSelected(view, select);
    const scanOptions = {
      limit: Math.max(limit, toFetch),
      choice: session.choices.of(view, filter, Date.now()),
      groupBy: groupBy === undefined ? undefined : checkGroupField(view, groupBy, 'groupBy'),
      // A compressed or noisy score may be on the other side of the threshold than the full one.
      ...(threshold === undefined || rerank ? {} : { threshold }),
      ...(signal ? { signal } : {}),
      ...(partial ? { partial } : {}),
    };
    return { view, part, scanned: await scan(session, view, probes, scanOptions, part) };
  });
  const { view, part, scanned } = await (toFetch > 0 ? countUndecryptable(session, scanning) : scanning);
  // From here on the store is shown what was found, and nothing is scanned again in this call.
  const total = liveCount(part ?? view.manifest);
  const pending = part ? part.pending.length : view.pending.size;
  const results: SearchResult[] = [];
  for (const [i, { found, searched, shards }] of scanned.entries()) {
    const answer =
      toFetch > 0
        ? await fetchMatches(session, view, probes[i], found, options)
        : { matches: found.map(({ id, score, scoreOrigin }) => ({ id, score, scoreOrigin })), fetched: 0 };
    const matches = select ? withFields(view, answer.matches, found, select) : answer.matches;
    results.push({ ...answer, matches, coverage: { searched, total, ...(shards ? { shards } : {}) }, pending });
  }
  return results;
}

function checkSelected(view: View, select: readonly string[]): void {
  if (!Array.isArray(select) || select.some((field) => typeof field !== 'string'))
    throw new HersError('INVALID_ARGUMENT', "select is a list of fields, such as ['country']");
  checkFieldNames(view, select, 'select');
}

/** How questions of devices are answered: as searches are, without anything that fetches. */
export type AnswerOptions = Pick<
  SearchOptions,
  'limit' | 'threshold' | 'filter' | 'partitions' | 'select' | 'groupBy' | 'signal'
>;

/** Searches for questions in the inbox of the store, whose vectors were read. */
export async function answer(
  session: CollectionSession,
  asked: readonly (Asked & { readonly vector: Float32Array })[],
  options: AnswerOptions,
): Promise<Pick<SearchResult, 'matches' | 'coverage'>[]> {
  const { limit = DEFAULT_LIMIT, threshold, filter, partitions, select, groupBy, signal } = options;
  return session.read(async (view) => {
    const part = partitions && inPartitions(session, view, partitions);
    if (select) checkSelected(view, select);
    const scanOptions = {
      asked,
      limit,
      choice: session.choices.of(view, filter, Date.now()),
      groupBy: groupBy === undefined ? undefined : checkGroupField(view, groupBy, 'groupBy'),
      ...(threshold === undefined ? {} : { threshold }),
      ...(signal ? { signal } : {}),
    };
    const probes = asked.map(({ vector }) => vector);
    const total = liveCount(part ?? view.manifest);
    return (await scan(session, view, probes, scanOptions, part)).map(({ found, searched }) => {
      const matches = found.map(({ id, score, scoreOrigin }) => ({ id, score, scoreOrigin }));
      return { matches: select ? withFields(view, matches, found, select) : matches, coverage: { searched, total } };
    });
  });
}

/** Adds what the columns have of these fields. */
function withFields(
  view: View,
  matches: readonly Match[],
  found: readonly Found[],
  fields: readonly string[],
): Match[] {
  const byId = new Map(found.map((each) => [each.id, each]));
  return matches.map((match) => ({ ...match, fields: fieldsOf(view, byId.get(match.id)!, fields) }));
}
