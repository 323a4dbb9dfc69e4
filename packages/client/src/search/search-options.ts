// What a search can be asked for, and what it answers.

import { HersError, refuseUnknown, type ShardCoverage } from '@hers/service';
import type { FieldValue } from '../fields/field.ts';
import type { Filter } from '../filter/filter.ts';
import type { Payload } from '../formats/records.ts';
import type { ScoreOrigin } from './scan.ts';

/** What a search returns, and from where. */
export interface SearchOptions {
  /** The largest number of matches; 10 by default. */
  readonly limit?: number;
  /** Only similarities of at least this, or distances of at most this. */
  readonly threshold?: number;
  /**
   * Fetch this many candidates (true: four times the limit) from the vault and rank them by their
   * full vectors; with a compressor that is the second stage of the search. Off by default, because
   * it shows the store which records the candidates are. `threshold` then applies to full vectors
   * alone.
   */
  readonly rerank?: boolean | number;
  /**
   * With `rerank`, under `exact`: fetch in steps, best candidates first, and stop when as many
   * records as the limit score this well by their full vectors. It shows the store the approximate
   * order of the candidates, and where the search stopped.
   */
  readonly enough?: number;
  /**
   * Only records that pass. The client leaves the others out before it ranks, so the results are
   * the best of those that pass, and the store does not learn that there is a filter
   * (docs/filters.md).
   *
   * @example { must: [{ field: 'country', match: 'NL' }, { field: 'age', range: { gte: 18 } }] }
   */
  readonly filter?: Filter;
  /**
   * In a collection with partitions: search only in these. Their blocks alone are scanned, which
   * costs less, and the store sees which blocks these are.
   */
  readonly partitions?: readonly string[];
  /** Fields of the matches to return. The client has them, so nothing is fetched for it. */
  readonly select?: readonly string[];
  /**
   * A field of type keyword: of the records that have the same value, only the best is a match.
   * Records without a value are matches of their own.
   */
  readonly groupBy?: string;
  /**
   * Fetch the payloads of the matches. Off by default, because it shows the store which they are.
   */
  readonly payload?: boolean;
  /**
   * On a cluster of which too many nodes are gone: search what can be reached, instead of
   * UNAVAILABLE. `coverage` says how much that was. A record that is not a match may then be one.
   */
  readonly partial?: boolean;
  /** Ends the search when it aborts. */
  readonly signal?: AbortSignal;
}

/** A record that was found. */
export interface Match {
  /** The id of the record. */
  readonly id: string;
  /** Similarity (cosine, dot) or distance (euclidean). */
  readonly score: number;
  /**
   * `noisy`: decrypted under `compact`; it must not reach anyone who sees ciphertexts. `exact`:
   * decrypted under `exact`. `recomputed`: by the client from the record's own vector.
   */
  readonly scoreOrigin: ScoreOrigin;
  /** The payload, if it was asked for and the record has one. */
  readonly payload?: Payload;
  /** The fields that `select` asked for, as far as the record has them. */
  readonly fields?: { readonly [name: string]: FieldValue };
}

/** What a search found. */
export interface SearchResult {
  /** Best first. */
  readonly matches: readonly Match[];
  /**
   * How many records the store's answers and the pending records covered, and how many there are,
   * whether they pass a filter or not. They differ only with `partial`; `shards` are then those of
   * a cluster.
   */
  readonly coverage: {
    readonly searched: number;
    readonly total: number;
    readonly shards?: ShardCoverage;
  };
  /**
   * How many of the records searched are pending: in no block yet, so that this client compared
   * them itself, in the clear. `optimize` puts them into blocks.
   */
  readonly pending: number;
  /**
   * Records that were fetched from the vault, which the store could see; 0 unless `rerank` or
   * `payload` asked for it.
   */
  readonly fetched: number;
}

export const DEFAULT_LIMIT = 10;
export const MAX_LIMIT = 10_000;

export function checkOptions(options: SearchOptions): void {
  refuseUnknown(
    options,
    {
      ...{ limit: true, threshold: true, filter: true, partitions: true, select: true, groupBy: true },
      ...{ rerank: true, enough: true, payload: true, partial: true, signal: true },
    },
    'a search',
  );
  const { limit = DEFAULT_LIMIT, threshold, rerank = false, enough, groupBy } = options;
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT))
    throw new HersError('INVALID_ARGUMENT', `limit is a whole number from 1 to ${MAX_LIMIT}`);
  if (threshold !== undefined && !Number.isFinite(threshold))
    throw new HersError('INVALID_ARGUMENT', 'threshold must be a number');
  if (groupBy !== undefined && rerank !== false)
    throw new HersError(
      'INVALID_ARGUMENT',
      'groupBy keeps the best of each group by what is indexed, and rerank might find another: leave one of them out',
    );
  if (enough === undefined) return;
  if (!Number.isFinite(enough)) throw new HersError('INVALID_ARGUMENT', 'enough must be a number');
  if (rerank === false)
    throw new HersError('INVALID_ARGUMENT', 'enough is about full vectors: it needs rerank, which fetches them');
}
