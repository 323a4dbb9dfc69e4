// Lengths and offsets of messages (docs/formats.md), and what each stream of the expandable
// generator is for (domains). A file of its own, which imports nothing: threads that write messages
// need no more than this.

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

/** Offsets of the fields of a packed response (README.md §9). */
export const PACKED_LAYOUT = { queryId: 32, generation: 48, blocks: 52, bits0: 53, bits1: 54, body: 56 } as const;
/** Bytes of the places in it: a block's id, its first slot and the number of slots. */
export const PLACE_BYTES: number = ID_BYTES + 8;

/** Domains: two uses of one seed never share a stream. */
export const BLOCK_MASK = 1;
export const QUERY_MASK = 2;
export const ERRORS = 3;
export const GALLERY_SECRETS = 4;
export const RESULT_SECRET = 5;
export const SCORE_WEIGHTS = 6;
/** The low bits of masks modulo Q·2^t; the residues modulo Q have the domains above. */
export const BLOCK_MASK_BITS = 7;
export const QUERY_MASK_BITS = 8;
export const CANARIES = 9;
/** Of open queries (open/): chain, result and response secrets; the secret of a device. */
export const OPEN_SECRETS = 10;
export const DEVICE_SECRET = 11;
/** Masks of evaluation keys, of open queries and of public keys, and the errors of all three. */
export const EVALUATION_MASK = 12;
export const OPEN_QUERY_MASK = 13;
export const PUBLIC_KEY_MASK = 14;
export const OPEN_ERRORS = 15;
/** The secret u of a query that is made with a public key. */
export const OPEN_EPHEMERAL = 16;
