// A thread's own area in the shared memory of the WebAssembly kernel: the state of a checksum, a
// key of the generator, a window through which it reads segments, and the sums of a slot group
// between panels. Outside the multiply-accumulate, the window is scratch space.

/**
 * With more queries the sums no longer fit the cache, and another pass over the gallery costs no
 * more.
 */
export const MAX_QUERIES = 32;

export const STATE_AT = 0;
export const KEY_AT = 64;
export const WINDOW_AT = 128;
/** Four full panels of 64 blocks. Smaller reads were slower, larger ones not faster. */
export const WINDOW_BYTES: number = 2 ** 21;
export const SUMS_AT: number = WINDOW_AT + WINDOW_BYTES;
/** Of one block and query: 16 lanes of C0 and C1, 64 bits each. */
const PAIR_BYTES = 256;
const MAX_BLOCKS = 64;
export const AREA_BYTES: number = SUMS_AT + MAX_BLOCKS * MAX_QUERIES * PAIR_BYTES;
