// What SEAL's heap can hold. It is a WebAssembly memory of at most 4 GiB; where that ends, near 31
// 000 ciphertexts, an allocation fails or never returns, depending on who asked. So everything asks
// here before.

import { PaperError } from './errors.ts';
import { ciphertextBytes, type Parameters } from './parameters.ts';

/**
 * SEAL's pools take memory in chunks of which each is 5 % larger than the one before, and the last
 * one may be nearly empty.
 */
const POOL_GROWTH = 1.05;
/** Keys, tables and the intermediate results of one multiplication. */
const FIXED_BYTES = 64 * 2 ** 20;
/**
 * The whole heap, less a tenth: between what a pool asks for and what the heap grows by there is
 * some slack that cannot be computed.
 */
export const HEAP_BYTES: number = 0.9 * 2 ** 32;

export interface MemoryNeed {
  readonly ciphertexts: number;
  /** Bytes of the heap, growth of the pools included. */
  readonly bytes: number;
}

export function memoryNeed(parameters: Parameters, ciphertexts: number): MemoryNeed {
  return { ciphertexts, bytes: FIXED_BYTES + Math.ceil(POOL_GROWTH * ciphertexts * ciphertextBytes(parameters)) };
}

/** How many ciphertexts may be alive at once. */
export function ciphertextCapacity(parameters: Parameters, heapBytes: number = HEAP_BYTES): number {
  return Math.floor((heapBytes - FIXED_BYTES) / (POOL_GROWTH * ciphertextBytes(parameters)));
}

/**
 * Throws OUT_OF_MEMORY when the heap, or what the machine has left, cannot hold so many.
 * `heldBytes` of it are taken from the machine already.
 */
export function checkMemory(
  parameters: Parameters,
  ciphertexts: number,
  {
    heapBytes = HEAP_BYTES,
    heldBytes = 0,
    what = 'this',
  }: { heapBytes?: number; heldBytes?: number; what?: string } = {},
): MemoryNeed {
  const need = memoryNeed(parameters, ciphertexts);
  if (need.bytes > heapBytes) {
    throw new PaperError(
      'OUT_OF_MEMORY',
      `${what} needs ${whole(ciphertexts)} ciphertexts at once, ${gigabytes(need.bytes)}, and SEAL's heap holds ${whole(ciphertextCapacity(parameters, heapBytes))} safely, ${gigabytes(heapBytes)}; take fewer templates or dimensions, or measure a sample and extrapolate`,
    );
  }
  // Asking the system takes a while, so only when the heap has to grow.
  const growth = need.bytes - heldBytes;
  if (growth <= 0) return need;
  const left = process.availableMemory();
  if (growth > left) {
    throw new PaperError(
      'OUT_OF_MEMORY',
      `${what} needs ${gigabytes(growth)} more memory, and this machine has ${gigabytes(left)} left; take fewer templates or dimensions`,
    );
  }
  return need;
}

function whole(count: number): string {
  return count.toLocaleString('en-GB');
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}
