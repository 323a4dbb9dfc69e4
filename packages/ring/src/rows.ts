// The rows of blocks and queries: encryptions of small integers under ternary secrets, many of them
// with one call. What is here is slow and plain; native/rows.h does the same in one pass.

import type { Poly, Ring } from './ring.ts';

/** A 32-byte key of the expandable generator, and the word that separates its uses. */
export interface KeyedDomain {
  readonly key: Uint8Array;
  readonly domain: number;
}

/** Where uniform masks come from: residues modulo Q, and low bits where they are wide. */
export interface MaskSource extends KeyedDomain {
  readonly bitsDomain: number;
}

/** Ternary secrets in NTT form, expanded when they are first needed. */
export interface Secrets extends KeyedDomain {
  /** Those that were, one after the other, if there is room; a byte for each: 1 if it is there. */
  readonly kept: Uint32Array | undefined;
  readonly isKept: Uint8Array | undefined;
}

/** What the rows of blocks and queries have in common. */
interface RowsJob {
  /** Gets the rows in NTT form, one after the other. */
  readonly rows: Uint32Array;
  readonly values: Int32Array;
  /** Whole numbers that are not negative: what the values of each row are multiplied by. */
  readonly lifts: readonly number[];
  readonly mask: MaskSource;
  readonly errors: KeyedDomain;
  readonly secrets: Secrets;
  /** Rows are made modulo Q·2^wideBits and rounded to Q. */
  readonly wideBits: number;
}

/** Row i is lift_i·v_i + e_i − a·s_i, with one mask a. */
export interface BlockRows extends RowsJob {
  /** Values of each row, for the coefficients from `first` on. */
  readonly count: number;
  readonly first: number;
}

/**
 * Row i < values.length is W_i − a'_i·s with W_i = lift_i·v_i + e_i; the `digits` after them are
 * 2^(k·digitBits − wideBits)·U + e''_k − a''_k·s with U = Σ s_i·W_i. Where that exponent is
 * negative, the row is made modulo Q·2^wideBits and rounded.
 */
export interface QueryRows extends RowsJob {
  readonly digits: number;
  readonly digitBits: number;
  /** Where s is expanded from. */
  readonly result: KeyedDomain;
  /** Gets n words: the transform of s modulo the first prime. */
  readonly secret: Uint32Array;
}

/** Loads the transform of secret i. Uses words[5]. */
export function loadSecret(ring: Ring, into: Poly, { key, domain, kept, isKept }: Secrets, i: number): void {
  const words = into.residues.length;
  const at = i * words;
  if (kept && isKept?.[i]) {
    into.residues.set(kept.subarray(at, at + words));
    return;
  }
  const small = ring.words[5];
  ring.ternary(small, { key, domain, index: i });
  ring.embed(into, small);
  ring.ntt(into);
  if (!kept || !isKept) return;
  kept.set(into.residues, at);
  isKept[i] = 1;
}

export function blockRows(ring: Ring, job: BlockRows): void {
  const { rows, count, first, wideBits, secrets } = job;
  const [mask, row, secret, maskLow, product] = ring.polys;
  const [values, noise, bits] = ring.words;
  const words = row.residues.length;
  ring.uniform(mask, { ...job.mask, index: 0 });
  ring.uniformBits(bits, wideBits, { key: job.mask.key, domain: job.mask.bitsDomain, index: 0 });
  ring.embed(maskLow, bits);
  ring.ntt(maskLow);
  values.values.fill(0);
  for (let i = 0; i * words < rows.length; i++) {
    values.values.set(job.values.subarray(i * count, (i + 1) * count), first);
    ring.error(noise, { ...job.errors, index: i });
    const lift = BigInt(job.lifts[i]);
    ring.encode(row, values, noise, lift);
    loadSecret(ring, secret, secrets, i);
    // Modulo Q, and modulo 2^wideBits by a product that is exact modulo one prime.
    ring.multiply(product, mask, secret);
    ring.intt(product);
    ring.subtract(row, row, product);
    ring.multiply(product, maskLow, secret);
    ring.intt(product);
    ring.combineBits(bits, values, noise, product, wideBits, lift, -1);
    ring.joinWide(row, bits, wideBits);
    ring.roundWide(row, wideBits);
    ring.ntt(row);
    rows.set(row.residues, i * words);
  }
}

export function queryRows(ring: Ring, job: QueryRows): void {
  const { rows, wideBits, digitBits, secrets } = job;
  const [result, sum, row, mask, secret] = ring.polys;
  const [values, noise] = ring.words;
  const words = row.residues.length;
  const width = job.values.length;
  const send = (index: number) => {
    ring.uniform(mask, { ...job.mask, index });
    ring.multiplySubtract(row, mask, result);
    rows.set(row.residues, index * words);
  };
  ring.ternary(noise, { ...job.result, index: 0 });
  ring.embed(result, noise);
  ring.ntt(result);
  job.secret.set(result.residues.subarray(0, ring.n));
  sum.residues.fill(0);
  values.values.fill(0);
  for (let i = 0; i < width; i++) {
    values.values[0] = job.values[i];
    ring.error(noise, { ...job.errors, index: i });
    ring.encode(row, values, noise, BigInt(job.lifts[i]));
    ring.ntt(row);
    loadSecret(ring, secret, secrets, i);
    ring.multiplyAdd(sum, secret, row);
    send(i);
  }
  for (let k = 0; k < job.digits; k++) {
    ring.error(noise, { ...job.errors, index: width + k });
    if (k * digitBits < wideBits) {
      roundedRow(ring, job, width + k, k * digitBits);
      rows.set(row.residues, (width + k) * words);
      continue;
    }
    ring.embed(row, noise);
    ring.ntt(row);
    ring.scaleAdd(row, sum, 1n << BigInt(k * digitBits - wideBits));
    send(width + k);
  }
}

/**
 * −a''·s + 2^shift·U + e'' made modulo Q·2^wideBits and rounded to Q, into polys[2] and out of the
 * rest as queryRows has it: s in polys[0], U in polys[1], e'' in words[1]. U is known modulo Q and
 * its integers are below Q/2 in magnitude, so its low bits are known too.
 */
function roundedRow(ring: Ring, { mask: source, wideBits }: QueryRows, index: number, shift: number): void {
  const [result, sum, row, mask, product] = ring.polys;
  const [low, noise, bits] = ring.words;
  const scale = 1n << BigInt(shift);
  product.residues.set(sum.residues);
  ring.intt(product);
  ring.lowBits(low, product, wideBits);
  ring.embed(row, noise);
  ring.scaleAdd(row, product, scale);
  ring.uniform(mask, { ...source, index });
  ring.multiply(product, mask, result);
  ring.intt(product);
  ring.subtract(row, row, product);
  ring.uniformBits(bits, wideBits, { key: source.key, domain: source.bitsDomain, index });
  ring.embed(mask, bits);
  ring.ntt(mask);
  ring.multiply(product, mask, result);
  ring.intt(product);
  ring.combineBits(bits, low, noise, product, wideBits, scale, -1);
  ring.joinWide(row, bits, wideBits);
  ring.roundWide(row, wideBits);
  ring.ntt(row);
}
