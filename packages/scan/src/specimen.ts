// Blocks and queries of chosen residues, made without a key, for testing kernels, which cannot tell
// them from real ones.

import { type BlockMatrix, type ParameterSet, polyWords, type Query, rowsOf } from '@hers/scheme';

/** Residue `index` modulo p. */
export type Residue = (p: number, index: number) => number;

/** The worst case for overflow: every residue is p − 1. */
export const largest: Residue = (p) => p - 1;

/** Pseudo-random, the same on every run, with the extremes 0, 1 and p − 1 among them. */
export function mixed(seed: number): Residue {
  return (p, index) => {
    let x = Math.imul(index ^ (seed << 20), 0x9e3779b1);
    x = Math.imul(x ^ (x >>> 15), 0x85ebca6b);
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
    x = (x ^ (x >>> 16)) >>> 0;
    const kind = x % 16;
    return kind === 0 ? 0 : kind === 1 ? 1 : kind < 5 ? p - 1 : (x >>> 2) % p;
  };
}

export interface Specimen {
  readonly parameters: ParameterSet;
  readonly width: number;
  /** A running number, which goes into the ids. */
  readonly index: number;
  readonly residue: Residue;
}

const GALLERY_SCALE = 1024;
const KEY_ID = new Uint8Array(16).fill(0x5e);

function polys({ parameters, residue }: Specimen, from: number, count: number): Uint32Array {
  const { n, primes } = parameters;
  const words = polyWords(parameters);
  const out = new Uint32Array(words * count);
  for (let at = 0; at < out.length; at += n) {
    const p = primes[(at % words) / n];
    for (let i = at; i < at + n; i++) out[i] = residue(p, words * from + i);
  }
  return out;
}

function id(index: number): Uint8Array {
  return Uint8Array.from({ length: 16 }, (_, i) => 31 * i + index);
}

export function specimenBlock(specimen: Specimen): BlockMatrix {
  const { parameters, width, index } = specimen;
  const block = {
    parameters,
    keyId: KEY_ID,
    blockId: id(index),
    width,
    first: index % parameters.n,
    count: parameters.n - (index % parameters.n),
    galleryScale: GALLERY_SCALE,
    seed: new Uint8Array(32),
    rows: polys(specimen, 0, width),
  };
  return { block, maskRows: polys(specimen, width, rowsOf(parameters, width) - width) };
}

/** Its uniform halves come from a seed, as in every query, and are not chosen. */
export function specimenQuery(specimen: Specimen, bits0 = 11, bits1 = 16): Query {
  const { parameters, width, index } = specimen;
  return {
    parameters,
    keyId: KEY_ID,
    queryId: id(index),
    width,
    galleryScale: GALLERY_SCALE,
    bits0,
    bits1,
    seed: Uint8Array.from({ length: 32 }, (_, i) => 7 * i + index),
    rows: polys(specimen, 0, rowsOf(parameters, width)),
  };
}
