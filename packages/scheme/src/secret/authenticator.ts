// A tag that adds up: tag(a + b) = tag(a) + tag(b). Whoever keeps the tags of the parts it made
// knows the tag of their sum, and with it whether a block that comes back is exactly that sum.
// README.md §6 has the bound and its proof.
//
// For each prime p and each copy c, with w[i][j] word j of row i (the last row is the mask) and
// factors u, v secret and uniform modulo p:
//
//   tag_{c,p} = Σ_j v_{c,p}[j]·(Σ_i u_{c,p}[i]·w[i][j]) mod p
//
// A tag is as secret as a key: five known ones of one key are enough to forge.

import { type Block, blockMask, checkReduced, checkSameKey, decodeBlock } from '../block.ts';
import { COLUMN_FACTORS, ROW_FACTORS } from '../domains.ts';
import { HersError } from '../errors.ts';
import { type ParameterSet, polyWords, ringOf } from '../parameters.ts';
import { SEED_BYTES, sameBytes } from '../wire.ts';
import { type CollectionKey, loadFactors } from './key.ts';

/**
 * A wrong block passes one copy with probability below 2/p ≈ 2^−29, and copies are independent:
 * four reach 2^−115.
 */
const COPIES = 4;

/** Bytes of every tag under a parameter set. */
export function tagBytes(parameters: ParameterSet): number {
  return 4 * COPIES * parameters.primes.length;
}

/**
 * The tag of a block: of its rows and its mask, however the mask is carried. It says nothing about
 * the other fields (slots, additions, id). A block of another key is refused.
 *
 * @example sameTag(authenticate(key, sum), addTags(parameters, tagOfOne, tagOfOther)) // before
 * decrypting the sum
 */
export function authenticate(key: CollectionKey, block: Uint8Array | Block): Uint8Array {
  const decoded = block instanceof Uint8Array ? decodeBlock(block) : block;
  const { parameters, width, galleryScale } = key.plan;
  checkSameKey(decoded, { parameters, keyId: key.keyId });
  if (decoded.width !== width || decoded.galleryScale !== galleryScale)
    throw new HersError('BLOCK_MISMATCH', 'this block was made under another plan');
  if (decoded === block) checkWords(decoded);

  const ring = ringOf(parameters);
  const { n, primes } = parameters;
  const words = polyWords(parameters);
  const mask = blockMask(decoded);
  const [row, factors, ...rest] = ring.polys;
  const sums = rest.slice(0, COPIES);
  const rowFactors = new Uint32Array(COPIES * words * Math.ceil((width + 1) / n));
  const tag = new Uint8Array(tagBytes(parameters));
  const view = new DataView(tag.buffer);
  try {
    for (let index = 0; index * words < rowFactors.length; index++) {
      loadFactors(key, ROW_FACTORS, index, factors);
      rowFactors.set(factors.residues, index * words);
    }
    for (const sum of sums) sum.residues.fill(0);
    for (let i = 0; i <= width; i++) {
      row.residues.set(i < width ? decoded.rows.subarray(i * words, (i + 1) * words) : mask);
      for (let c = 0; c < COPIES; c++) {
        // As a constant polynomial, not as the scalar of `scaleAdd`: that is a bigint, which
        // nothing can wipe.
        const at = (COPIES * Math.floor(i / n) + c) * words + (i % n);
        for (let k = 0; k < primes.length; k++) factors.residues.fill(rowFactors[at + k * n], k * n, (k + 1) * n);
        ring.multiplyAdd(sums[c], factors, row);
      }
    }
    for (let c = 0; c < COPIES; c++) {
      loadFactors(key, COLUMN_FACTORS, c, factors);
      ring.multiply(row, sums[c], factors);
      for (let k = 0; k < primes.length; k++) {
        let sum = 0; // below 2^43: n residues of 30 bits
        for (let j = k * n; j < (k + 1) * n; j++) sum += row.residues[j];
        view.setUint32(4 * (c * primes.length + k), sum % primes[k], true);
      }
    }
  } finally {
    rowFactors.fill(0);
    ring.wipe();
  }
  return tag;
}

/** What decoding has checked of a block that came as bytes. */
function checkWords({ parameters, width, rows, mask }: Block): void {
  const words = polyWords(parameters);
  if (
    rows.length !== width * words ||
    ('seed' in mask ? mask.seed.length !== SEED_BYTES : mask.residues.length !== words)
  )
    throw new HersError('MALFORMED', 'the fields of this block contradict each other');
  checkReduced(parameters, rows, 'block');
  if ('residues' in mask) checkReduced(parameters, mask.residues, 'block');
}

/** The tag of a sum. */
export function addTags(parameters: ParameterSet, a: Uint8Array, b: Uint8Array): Uint8Array {
  const [left, right] = [tagView(parameters, a), tagView(parameters, b)];
  const sum = new Uint8Array(tagBytes(parameters));
  const view = new DataView(sum.buffer);
  const { primes } = parameters;
  for (let at = 0; at < sum.length; at += 4)
    view.setUint32(at, (left.getUint32(at, true) + right.getUint32(at, true)) % primes[(at / 4) % primes.length], true);
  return sum;
}

/** Whether two tags are equal. Of different parameter sets they are not. */
export function sameTag(a: Uint8Array, b: Uint8Array): boolean {
  for (const tag of [a, b]) {
    // No tag is empty: two that were forgotten must not pass for equal.
    if (!(tag instanceof Uint8Array) || tag.length === 0 || tag.length % (4 * COPIES) !== 0)
      throw new HersError('INVALID_ARGUMENT', 'a tag must be given as the bytes that authenticate made');
  }
  return sameBytes(a, b);
}

/** A tag of the right length, every word below its prime. */
function tagView({ primes }: ParameterSet, tag: Uint8Array): DataView {
  if (!(tag instanceof Uint8Array))
    throw new HersError('INVALID_ARGUMENT', 'a tag must be given as the bytes that authenticate made');
  if (tag.length !== 4 * COPIES * primes.length)
    throw new HersError('MALFORMED', `a tag of this parameter set has ${4 * COPIES * primes.length} bytes`);
  const view = new DataView(tag.buffer, tag.byteOffset, tag.length);
  for (let i = 0; 4 * i < tag.length; i++) {
    if (view.getUint32(4 * i, true) >= primes[i % primes.length])
      throw new HersError('MALFORMED', 'this tag holds a residue that is not below its prime');
  }
  return view;
}
