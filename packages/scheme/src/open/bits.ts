// Residues in as many bits as their prime has, the lowest bit first, zeros up to the next byte.

import { bitLength } from '@hers/ring';
import { HersError } from '../errors.ts';

export function bitBytes(p: number, count: number): number {
  return Math.ceil((bitLength(p) * count) / 8);
}

export function packResidues(out: Uint8Array, residues: Uint32Array, p: number): void {
  const bits = bitLength(p);
  const words = new Uint32Array(Math.ceil(out.length / 4) + 1);
  let at = 0;
  for (let i = 0; i < residues.length; i++, at += bits) {
    const [word, shift] = [at >>> 5, at & 31];
    words[word] |= residues[i] << shift;
    if (shift + bits > 32) words[word + 1] = residues[i] >>> (32 - shift);
  }
  out.set(new Uint8Array(words.buffer, 0, out.length));
}

/** Refuses what `packResidues` does not make: residues that are not reduced, bits that are left. */
export function unpackResidues(bytes: Uint8Array, count: number, p: number, what: string): Uint32Array {
  const bits = bitLength(p);
  const words = new Uint32Array(Math.ceil(bytes.length / 4) + 1);
  new Uint8Array(words.buffer).set(bytes);
  const mask = 2 ** bits - 1;
  const out = new Uint32Array(count);
  let isReduced = true;
  let at = 0;
  for (let i = 0; i < count; i++, at += bits) {
    const [word, shift] = [at >>> 5, at & 31];
    let residue = words[word] >>> shift;
    if (shift + bits > 32) residue |= words[word + 1] << (32 - shift);
    residue &= mask;
    isReduced = isReduced && residue < p;
    out[i] = residue;
  }
  const left = 8 * bytes.length - at;
  if (!isReduced || left < 0 || left > 7 || (left > 0 && bytes[bytes.length - 1] >> (8 - left) !== 0))
    throw new HersError('MALFORMED', `a residue of this ${what} is not below its prime, or a bit is left over`);
  return out;
}
