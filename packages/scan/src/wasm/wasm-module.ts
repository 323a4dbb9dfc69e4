// Compiles the WebAssembly module and makes instances of it, one for each thread, over one shared
// memory.

import { kernelBase64 } from '../../build/kernel.ts';

/** The functions of assembly/kernel.ts. Pointers are byte offsets into the shared memory. */
export interface WasmExports {
  heapBase(): number;
  companions(tables: number, n: number, p: number): void;
  intt(a: number, tables: number, n: number, p: number, scale: number, last: number): void;
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
  switchShare(sums: number, a: number, h: number, T: number, n: number, p: number, first: number): void;
  switchRound(out: number, sums: number, n: number, scale: number, bits: number): void;
  packBits(out: number, a: number, n: number, bits: number): void;
  xxhStart(state: number): void;
  xxhStripes(state: number, at: number, length: number): void;
  xxhFinish(state: number, at: number, length: number, total: bigint): bigint;
  copyWords(out: number, from: number, count: number): void;
  interleave(out: number, b: number, a: number, count: number, words: number, rows: number): void;
  accumulate(
    data: number,
    slice: number,
    sums: number,
    blocks: number,
    rows: number,
    queries: number,
    queryBytes: number,
    c: number,
    first: number,
  ): void;
  accumulatePacked(
    data: number,
    slice: number,
    sums: number,
    blocks: number,
    rows: number,
    queries: number,
    queryBytes: number,
    first: number,
  ): void;
  reduce(sums: number, out: number, count: number, polyBytes: number, p: number, c: number): void;
}

/** Throws where WebAssembly has no 128-bit SIMD or no shared memory. */
export function compileModule(): WebAssembly.Module {
  return new WebAssembly.Module(Buffer.from(kernelBase64, 'base64'));
}

export function instantiate(module: WebAssembly.Module, memory: WebAssembly.Memory): WasmExports {
  return new WebAssembly.Instance(module, { env: { memory } }).exports as unknown as WasmExports;
}
