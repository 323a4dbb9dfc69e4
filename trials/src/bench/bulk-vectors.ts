// Vectors of a gallery that is too large to keep: those of each block follow from its number.

import { Random } from '@hers/vectors/random';

const GALLERY = 1;
const PROBES = 2;
/** What a probe differs from its record by: a cosine of about 0.96. */
const NOISE = 0.3;

/** Unit vectors in all directions. */
export function galleryVectors(block: number, count: number, dimension: number): Float32Array {
  const random = new Random(GALLERY, block);
  const out = new Float32Array(count * dimension);
  for (let at = 0; at < out.length; at += dimension) {
    let square = 0;
    for (let i = 0; i < dimension; i++) {
      const x = random.normal();
      out[at + i] = x;
      square += x * x;
    }
    const factor = 1 / Math.sqrt(square);
    for (let i = 0; i < dimension; i++) out[at + i] *= factor;
  }
  return out;
}

/** Which record a probe is like. */
export function recordOf(probe: number, probes: number, count: number): number {
  return Math.floor(((probe + 0.5) * count) / probes);
}

export function probeVectors(probes: number, count: number, dimension: number, perBlock: number): Float32Array {
  const out = new Float32Array(probes * dimension);
  const random = new Random(PROBES);
  for (let p = 0; p < probes; p++) {
    const record = recordOf(p, probes, count);
    const block = Math.floor(record / perBlock);
    const of = galleryVectors(block, (record % perBlock) + 1, dimension).subarray(-dimension);
    for (let i = 0; i < dimension; i++)
      out[p * dimension + i] = of[i] + (NOISE * random.normal()) / Math.sqrt(dimension);
  }
  return out;
}
