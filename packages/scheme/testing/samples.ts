// Shared by tests: randomness that repeats, and vectors to encrypt. Not exported by the package.

import { sha256 } from '@noble/hashes/sha2.js';

/**
 * Seeds and ids that follow from a label. Only for tests: what is encrypted with these is not
 * secret.
 */
export function repeatable(label: string): { seed(): Uint8Array; id(): Uint8Array } {
  let counter = 0;
  const seed = () => sha256(new TextEncoder().encode(`${label} ${counter++}`));
  return { seed, id: () => seed().slice(0, 16) };
}

/** Standard normal numbers that follow from a label (mulberry32 and Box-Muller). */
export function normals(label: string): () => number {
  let state = new DataView(sha256(new TextEncoder().encode(label)).buffer).getUint32(0, true);
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** `count` random vectors of a norm, one after the other. */
export function randomVectors(label: string, count: number, dimension: number, norm = 1): Float32Array {
  const normal = normals(label);
  const out = new Float32Array(count * dimension);
  for (let j = 0; j < count; j++) {
    const row = out.subarray(j * dimension, (j + 1) * dimension);
    for (let i = 0; i < dimension; i++) row[i] = normal();
    const length = Math.hypot(...row);
    for (let i = 0; i < dimension; i++) row[i] *= norm / length;
  }
  return out;
}
