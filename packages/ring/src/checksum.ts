// XXH64 over byte arrays of any length, through a small window of WebAssembly memory.

import { instantiate } from './kernel.ts';

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
