// What each stream of the expandable generator is for. Two uses of one seed never share a stream.

export const BLOCK_MASK = 1;
export const QUERY_MASK = 2;
export const ERRORS = 3;
export const GALLERY_SECRETS = 4;
export const RESULT_SECRET = 5;
export const ROW_FACTORS = 6;
export const COLUMN_FACTORS = 7;
export const SCORE_WEIGHTS = 8;
/** The low bits of masks modulo Q·2^t; the residues modulo Q have the domains above. */
export const BLOCK_MASK_BITS = 9;
export const QUERY_MASK_BITS = 10;
export const CANARIES = 11;
