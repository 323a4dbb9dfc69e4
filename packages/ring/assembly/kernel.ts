// The WebAssembly module of `ring`: every function works on pointers into its one memory, which
// ring.ts lays out.

export { companions, intt, ntt } from './ntt';
export { add, embed, encode, isReduced, multiply, multiplyAdd, multiplySubtract, scaleAdd, subtract } from './pointwise';
export { centredBinomial, ternary, uniform } from './sample';
export { keystream } from './chacha';
export {
  centre, joinPhase, packBits, scaleToFloat, scaleToInteger, splitCentred, switchRound,
  switchShare, unpackBits,
} from './convert';
export {
  combineBits, digitsWide, floatWide, joinWide, lowBits, roundWide, uniformBits,
} from './wide';
export { xxhFinish, xxhStart, xxhStripes } from './xxh64';

/** Where free memory begins. */
export function heapBase(): usize {
  return __heap_base;
}
