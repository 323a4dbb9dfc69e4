// Lengths and offsets of messages (docs/formats.md). A file of its own, which imports nothing:
// threads that write messages need no more than this.

export { QUERY_MASK } from './domains.ts';

export const HEAD_BYTES = 32;
export const ID_BYTES = 16;
export const SEED_BYTES = 32;
export const CHECKSUM_BYTES = 8;

/** Bytes of each kind's own fields, after the head. */
export const FIELD_BYTES = {
  key: 48,
  block: 48,
  query: 64,
  response: 48,
  // Of open queries (open/).
  'short query': 40,
  'public key': 40,
  'key for evaluation': 48,
  'packed response': 24,
} as const;

type ResponseField = 'queryId' | 'blockId' | 'first' | 'count' | 'bits0' | 'bits1' | 'body';

/** Where the fields of a response are. */
export const RESPONSE_LAYOUT: Readonly<Record<ResponseField, number>> = {
  queryId: HEAD_BYTES,
  blockId: HEAD_BYTES + ID_BYTES,
  first: 64,
  count: 68,
  bits0: 72,
  bits1: 73,
  body: HEAD_BYTES + FIELD_BYTES.response,
};
