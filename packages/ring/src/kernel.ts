// Loads the WebAssembly kernel. It is carried as text inside a module so that Node, browsers,
// workers and bundlers all load it alike. And the one function of it that needs no ring.

import { type KernelExports, kernelBase64 } from '../build/kernel.ts';

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
