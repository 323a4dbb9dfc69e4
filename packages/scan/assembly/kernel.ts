// The WebAssembly module of `scan`. Its memory is imported and shared: every thread has an instance
// of its own over the one memory, which src/wasm/wasm-memory.ts lays out. Transforms, sampler,
// switching, packing and checksum are the ring's.

export { companions, intt } from '../../ring/assembly/ntt';
export { uniform } from '../../ring/assembly/sample';
export { packBits, switchRound, switchShare } from '../../ring/assembly/convert';
export { xxhFinish, xxhStart, xxhStripes } from '../../ring/assembly/xxh64';
export { accumulate, accumulatePacked, copyWords, interleave, reduce } from './mac';

/** Where free memory begins. */
export function heapBase(): usize {
  return __heap_base;
}
