// Loads the WebAssembly kernel. It is carried as text inside a module so that Node, browsers,
// workers and bundlers all load it alike. And the one function of it that needs no ring.

import { kernelBase64 } from '../build/kernel.ts';

/** The functions of assembly/kernel.ts. Pointers are byte offsets into `memory`. */
export interface KernelExports {
  readonly memory: WebAssembly.Memory;
  heapBase(): number;
  companions(tables: number, n: number, p: number): void;
  ntt(a: number, tables: number, n: number, p: number): void;
  intt(a: number, tables: number, n: number, p: number, scale: number, last: number): void;
  add(out: number, a: number, b: number, n: number, p: number): void;
  subtract(out: number, a: number, b: number, n: number, p: number): void;
  multiply(out: number, a: number, b: number, n: number, p: number, mu: number, shift: number): void;
  multiplyAdd(out: number, a: number, b: number, n: number, p: number, mu: number, shift: number): void;
  multiplySubtract(out: number, a: number, b: number, n: number, p: number, mu: number, shift: number): void;
  scaleAdd(out: number, a: number, w: number, n: number, p: number): void;
  encode(out: number, values: number, noise: number, w: number, n: number, p: number): void;
  embed(out: number, values: number, n: number, p: number): void;
  centre(out: number, a: number, n: number, p: number): void;
  isReduced(a: number, n: number, p: number): number;
  keystream(out: number, quads: number, key: number, n0: number, n1: number, n2: number, counter: number): void;
  uniform(
    out: number,
    n: number,
    p: number,
    bytes: number,
    key: number,
    domain: number,
    index: number,
    third: number,
  ): void;
  ternary(out: number, n: number, bytes: number, key: number, domain: number, index: number): void;
  centredBinomial(out: number, n: number, bytes: number, key: number, domain: number, index: number): void;
  centrePair(out: number, a0: number, a1: number, n: number, p0: number, p1: number, inverse: number): void;
  switchShare(sums: number, a: number, h: number, T: number, n: number, p: number, first: number): void;
  switchRound(out: number, sums: number, n: number, scale: number, bits: number): void;
  packBits(out: number, a: number, n: number, bits: number): void;
  unpackBits(out: number, bytes: number, n: number, bits: number): void;
  splitCentred(low: number, high: number, a: number, n: number, bits: number, cut: number, p: number): void;
  joinPhase(
    out: number,
    c0: number,
    low: number,
    high: number,
    n: number,
    bits: number,
    bits0: number,
    cut: number,
    p: number,
  ): void;
  scaleToFloat(out: number, phase: number, n: number, factor: number, offset: number): number;
  scaleToInteger(out: number, phase: number, n: number, factor: number): number;
  uniformBits(out: number, n: number, t: number, bytes: number, key: number, domain: number, index: number): void;
  combineBits(
    out: number,
    values: number,
    noise: number,
    product: number,
    n: number,
    p: number,
    t: number,
    scale: number,
    sign: number,
  ): void;
  joinWide(out: number, a: number, bits: number, n: number, p: number, t: number): void;
  joinWidePair(
    out: number,
    a0: number,
    a1: number,
    bits: number,
    n: number,
    p0: number,
    p1: number,
    inverse: number,
    t: number,
  ): void;
  roundWide(out: number, wide: number, n: number, p: number, t: number): void;
  digitsWide(out: number, wide: number, n: number, bits: number, count: number): void;
  floatWide(wide: number, n: number): void;
  lowBits(out: number, a0: number, a1: number, n: number, p0: number, p1: number, inverse: number, t: number): void;
  xxhStart(state: number): void;
  xxhStripes(state: number, at: number, length: number): void;
  xxhFinish(state: number, at: number, length: number, total: bigint): bigint;
}

let compiled: WebAssembly.Module | undefined;

/**
 * An instance with `bytes` of memory beyond its own data, and the offset where that begins (a
 * multiple of 64).
 */
export function instantiate(bytes: number): { kernel: KernelExports; base: number } {
  if (new Uint8Array(new Uint32Array([1]).buffer)[0] !== 1) throw new Error('HERS needs a little-endian machine');
  compiled ??= new WebAssembly.Module(Uint8Array.from(atob(kernelBase64), (c) => c.charCodeAt(0)));
  const kernel = new WebAssembly.Instance(compiled).exports as unknown as KernelExports;
  const base = (kernel.heapBase() + 63) & ~63;
  const missing = base + bytes - kernel.memory.buffer.byteLength;
  if (missing > 0) kernel.memory.grow(Math.ceil(missing / 65536));
  return { kernel, base };
}

/** Bytes of memory through which a checksum sees arrays of any length. */
const WINDOW = 1 << 15;

let hasher: ReturnType<typeof instantiate> | undefined;

/** XXH64 with seed 0. Detects damage; it is no defence against an adversary. */
export function checksum(...parts: readonly Uint8Array[]): bigint {
  hasher ??= instantiate(64 + WINDOW);
  const { kernel, base } = hasher;
  const window = base + 64;
  const memory = new Uint8Array(kernel.memory.buffer);
  kernel.xxhStart(base);
  let total = 0;
  let held = 0;
  for (const part of parts) {
    for (let at = 0; at < part.length; ) {
      const take = Math.min(WINDOW - held, part.length - at);
      memory.set(part.subarray(at, at + take), window + held);
      held += take;
      at += take;
      total += take;
      if (held === WINDOW) {
        kernel.xxhStripes(base, window, WINDOW);
        held = 0;
      }
    }
  }
  const whole = held & ~31;
  if (whole > 0) kernel.xxhStripes(base, window, whole);
  const hash = kernel.xxhFinish(base, window + whole, held - whole, BigInt(total));
  memory.fill(0, window, window + Math.min(total, WINDOW)); // what is behind was never used
  return BigInt.asUintN(64, hash);
}
