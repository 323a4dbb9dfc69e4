// What each stream of the expandable generator is for. Two uses of one seed never share a stream.

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
