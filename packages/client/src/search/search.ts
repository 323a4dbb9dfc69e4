// Searching: one scan, and, if the caller asks for it, fetching the best records afterwards.

import { checkVector } from '@hers/scheme';
import { liveCount } from '../formats/manifest.ts';
import type { CollectionSession } from '../session/session.ts';
import { candidatesToFetch, countUndecryptable, fetchMatches } from './rerank.ts';
import { scan } from './scan.ts';
import { checkOptions, DEFAULT_LIMIT, type SearchOptions, type SearchResult } from './search-options.ts';

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
  const { limit = DEFAULT_LIMIT, threshold, rerank, signal } = options;
  const scanning = session.read(async (view) => ({
    view,
    scanned: await scan(session, view, probes, {
      limit: Math.max(limit, toFetch),
      // A compressed or noisy score may be on the other side of the threshold than the full one.
      ...(threshold === undefined || rerank ? {} : { threshold }),
      ...(signal ? { signal } : {}),
    }),
  }));
  const { view, scanned } = await (toFetch > 0 ? countUndecryptable(session, scanning) : scanning);
  // From here on the store is shown what was found, and nothing is scanned again in this call.
  const total = liveCount(view.manifest);
  const results: SearchResult[] = [];
  for (const [i, { found, searched }] of scanned.entries()) {
    const answer =
      toFetch > 0
        ? await fetchMatches(session, view, probes[i], found, options)
        : { matches: found.map(({ id, score, scoreOrigin }) => ({ id, score, scoreOrigin })), fetched: 0 };
    results.push({ ...answer, coverage: { searched, total } });
  }
  return results;
}
