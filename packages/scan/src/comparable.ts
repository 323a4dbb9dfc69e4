// Which queries can be compared with which segments. Every kernel checks this before it starts.

import { HersError, polyWords, type Query } from '@hers/scheme';
import type { SegmentHandle } from './kernel.ts';

/** Throws unless all queries were made for the key and the plan of all segments. */
export function checkComparable(handles: readonly SegmentHandle[], queries: readonly Query[]): void {
  for (const { name, header } of handles) {
    for (const query of queries) {
      if (header.parameters.id !== query.parameters.id || Buffer.compare(header.keyId, query.keyId) !== 0) {
        throw new HersError(
          'KEY_MISMATCH',
          `${name} belongs to another key than the query: ask with the key it was made with`,
        );
      }
      if (header.width !== query.width || header.galleryScale !== query.galleryScale) {
        throw new HersError(
          'BLOCK_MISMATCH',
          `${name} was made under another plan than the query: ask with the same plan`,
        );
      }
      if (query.rows.length !== header.rows * polyWords(header.parameters)) {
        throw new HersError('MALFORMED', 'the query does not have the rows that its plan asks for');
      }
    }
  }
}
