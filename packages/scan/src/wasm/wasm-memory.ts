// The one memory of the WebAssembly kernel, and its parts.
//
//   tables of each ring      16 bytes per slot and prime, kept
//   one area for each thread wasm-stage.ts, kept
//   a search's query slices  8 bytes per row and slot of each query: 2.1 MB at 128 dimensions,
//                            268 MB for the largest query (4100 rows, n = 4096, two primes), which
//                            therefore fits whole; larger batches are answered in several passes
//   a segment's results      C0 and C1 of every block and query, for each segment at work (two at
//                            most)
//
// It grows as needed up to its maximum, which does not depend on the gallery. It does not shrink:
// WebAssembly cannot.

import { type Modulus, moduliOf } from '@hers/ring';
import type { ParameterSet } from '@hers/scheme';
import type { KernelExports } from '../../build/kernel.ts';

const PAGE = 65536;
/** tools/build.ts gives the compiler the same maximum. */
export const MAXIMUM_BYTES: number = 2 ** 30;
const ALIGNMENT = 4096;

interface Extent {
  at: number;
  bytes: number;
}

/** Allocates ranges of a growing memory: first fit, with free neighbours merged. */
export class WasmMemory {
  readonly memory: WebAssembly.Memory;
  readonly #maximum: number;
  readonly #free: Extent[] = [];
  readonly #taken = new Map<number, number>();

  constructor(maximum: number = MAXIMUM_BYTES) {
    this.#maximum = maximum;
    this.memory = new WebAssembly.Memory({ initial: 1, maximum: Math.floor(maximum / PAGE), shared: true });
  }

  get bytes(): number {
    return this.memory.buffer.byteLength;
  }

  /**
   * The limit for one pass, which leaves room for other searches: its slices, and the results of a
   * segment.
   */
  get slicesBytes(): number {
    return (this.#maximum * 3) / 8;
  }
  get resultsBytes(): number {
    return this.#maximum / 16;
  }

  /** The range before `base` is the module's own. */
  reserve(base: number): void {
    const at = Math.ceil(base / ALIGNMENT) * ALIGNMENT;
    this.#put({ at, bytes: this.bytes - at });
  }

  /** A pointer to this many bytes, or undefined if there is no room. */
  take(bytes: number): number | undefined {
    const size = Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
    let index = this.#free.findIndex((range) => range.bytes >= size);
    if (index < 0) {
      if (!this.#grow(size)) return undefined;
      index = this.#free.length - 1;
    }
    const range = this.#free[index];
    const { at } = range;
    range.at += size;
    range.bytes -= size;
    if (range.bytes === 0) this.#free.splice(index, 1);
    this.#taken.set(at, size);
    return at;
  }

  give(at: number): void {
    const bytes = this.#taken.get(at);
    if (bytes === undefined) throw new RangeError('this was not taken');
    this.#taken.delete(at);
    this.#put({ at, bytes });
  }

  #put(range: Extent): void {
    const index = this.#free.findIndex(({ at }) => at > range.at);
    this.#free.splice(index < 0 ? this.#free.length : index, 0, range);
    for (let i = this.#free.length - 1; i > 0; i--) {
      const before = this.#free[i - 1];
      if (before.at + before.bytes !== this.#free[i].at) continue;
      before.bytes += this.#free[i].bytes;
      this.#free.splice(i, 1);
    }
  }

  /** Makes the last free range at least this long. */
  #grow(size: number): boolean {
    const end = this.bytes;
    const last = this.#free.at(-1);
    const held = last && last.at + last.bytes === end ? last.bytes : 0;
    const more = Math.ceil((size - held) / PAGE) * PAGE;
    if (end + more > this.#maximum) return false;
    try {
      this.memory.grow(more / PAGE);
    } catch {
      return false; // the system has no more
    }
    this.#put({ at: end, bytes: more });
    return true;
  }
}

/** One prime as the threads need it: 2^32 mod p, its tables, and the ring's constants. */
export interface WasmModulus extends Omit<Modulus, 'roots' | 'inverses'> {
  readonly fold: number;
  readonly tables: number;
}

/** Condition (1) of assembly/mac.ts. */
export function foldsEvery16(p: number): boolean {
  const prime = BigInt(p);
  const word = 2n ** 32n;
  const fold = word % prime;
  return (word - 1n) * (1n + fold) + 16n * (prime - 1n) ** 2n < word ** 2n;
}

/** Places the tables of a parameter set. */
export function placeTables(memory: WasmMemory, wasm: KernelExports, { n, primes }: ParameterSet): WasmModulus[] {
  return moduliOf(n, primes).map(({ roots, inverses, ...modulus }) => {
    const { p } = modulus;
    if (!foldsEvery16(p)) throw new RangeError(`the sums of the WebAssembly kernel would overflow with the prime ${p}`);
    const tables = memory.take(16 * n);
    if (tables === undefined) throw new RangeError('there is no memory for the tables of the transform');
    new Uint32Array(memory.memory.buffer, tables, n).set(roots);
    new Uint32Array(memory.memory.buffer, tables + 8 * n, n).set(inverses);
    wasm.companions(tables, n, p);
    return { ...modulus, fold: 2 ** 32 % p, tables };
  });
}
