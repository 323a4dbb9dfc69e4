// The WebAssembly kernel: SIMD in as many threads as there are cores, over one shared memory of
// bounded size. It needs no compiler and runs wherever Node does. WebAssembly cannot map files, so
// each thread reads them through a window of fixed size.

import { type FileHandle, open } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { bitLength } from '@hers/ring';
import { HersError, type ParameterSet, type Query, refuseUnknown } from '@hers/scheme';
import type { KernelExports } from '../../build/kernel.ts';
import {
  checkComparable,
  type Kernel,
  type ScanOptions,
  type ScanResult,
  type SegmentHandle,
  type SegmentSource,
} from '../kernel.ts';
import { decodeHeader, isPacked, panelRuns, readHeader, type SegmentHeader } from '../segment.ts';
import { Crew } from './wasm-crew.ts';
import { MAXIMUM_BYTES, placeTables, WasmMemory } from './wasm-memory.ts';
import { compileModule, instantiate } from './wasm-module.ts';
import { Scan } from './wasm-scan.ts';
import { AREA_BYTES, type StageRing, type WasmTimes } from './wasm-stage.ts';

const MAX_THREADS = 64;
/** Bytes in memory are copied in pieces of this size, so that the event loop runs in between. */
const COPY_BYTES = 2 ** 24;

export interface WasmOptions {
  /**
   * How many threads compute. By default as many as the process may use. The main thread never
   * computes.
   */
  readonly threads?: number | undefined;
  /** The maximum of the shared memory: at most 1 GiB, which is the default. */
  readonly maximumBytes?: number | undefined;
}

interface Loaded {
  readonly handle: SegmentHandle;
  readonly id: number;
  readonly ring: StageRing;
  readonly file: FileHandle | undefined;
  readonly scans: Set<Scan>;
  unloading: Promise<void> | undefined;
}

export class WasmKernel implements Kernel {
  readonly name = 'wasm';
  readonly #memory: WasmMemory;
  readonly #wasm: KernelExports;
  readonly #rings = new Map<number, StageRing>();
  readonly #loaded = new Map<SegmentHandle, Loaded>();
  /** Scans that may need another stage, in the order of their turns. */
  readonly #scans: Scan[] = [];
  #crew!: Crew;
  #ids = 0;
  /** Why it accepts no more calls. */
  #out: Error | undefined;
  #closing: Promise<void> | undefined;

  private constructor(memory: WasmMemory, wasm: KernelExports) {
    this.#memory = memory;
    this.#wasm = wasm;
  }

  static async open(options: WasmOptions = {}): Promise<WasmKernel> {
    refuseUnknown(options, { threads: true, maximumBytes: true }, 'a WebAssembly kernel');
    const { threads = availableParallelism(), maximumBytes = MAXIMUM_BYTES } = options;
    if (!(Number.isInteger(threads) && threads >= 1))
      throw new HersError('INVALID_ARGUMENT', `the number of threads must be 1 or more, not ${threads}`);
    const count = Math.min(threads, MAX_THREADS);
    const least = 2 * AREA_BYTES * count;
    if (!(maximumBytes >= least && maximumBytes <= MAXIMUM_BYTES))
      throw new HersError('INVALID_ARGUMENT', `the memory of ${count} threads is ${least} to ${MAXIMUM_BYTES} bytes`);
    const module = compileModule();
    const memory = new WasmMemory(maximumBytes);
    const wasm = instantiate(module, memory.memory);
    memory.reserve(wasm.heapBase());
    const areas = Array.from({ length: count }, () => memory.take(AREA_BYTES)!);
    const kernel = new WasmKernel(memory, wasm);
    kernel.#crew = await Crew.start({ module, memory: memory.memory }, areas, (error) => kernel.#lose(error));
    return kernel;
  }

  get detail(): string {
    const { threads } = this.#crew;
    return `WebAssembly SIMD, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;
  }

  /** How the threads have spent their time since the kernel was opened. */
  get times(): WasmTimes {
    return this.#crew.times;
  }

  get memoryBytes(): number {
    return this.#memory.bytes;
  }

  async load(source: SegmentSource): Promise<SegmentHandle> {
    this.#checkOpen();
    if ('bytes' in source) {
      const header = decodeHeader(source.bytes, source.bytes.length, source.name);
      const bytes = new Uint8Array(new SharedArrayBuffer(source.bytes.length));
      for (let at = 0; at < bytes.length; at += COPY_BYTES) {
        if (at > 0) await new Promise(setImmediate);
        bytes.set(source.bytes.subarray(at, at + COPY_BYTES), at);
      }
      return this.#add(source.name, header, bytes);
    }
    const file = await open(source.path, 'r');
    try {
      return this.#add(source.path, await readHeader(file, source.path), file);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  #add(name: string, header: SegmentHeader, source: FileHandle | Uint8Array): SegmentHandle {
    this.#checkOpen();
    const handle: SegmentHandle = { name, header };
    const ring = this.#ring(header.parameters);
    const id = this.#ids++;
    const { rows, blocks, dataAt, partBytes, partChecksums } = header;
    const file = source instanceof Uint8Array ? undefined : source;
    this.#crew.load({
      id,
      ring,
      rows,
      panels: panelRuns(header.parameters, rows, blocks.length, 0),
      packed: isPacked(header.parameters),
      blocks,
      source: source instanceof Uint8Array ? source : source.fd,
      dataAt,
      partBytes,
      partChecksums,
      verified: new Uint8Array(new SharedArrayBuffer(partChecksums.length)),
    });
    this.#loaded.set(handle, { handle, id, ring, file, scans: new Set(), unloading: undefined });
    return handle;
  }

  #ring(parameters: ParameterSet): StageRing {
    const { id, n, primes } = parameters;
    let ring = this.#rings.get(id);
    if (!ring) {
      ring = { n, bits: bitLength(primes[0]), moduli: placeTables(this.#memory, this.#wasm, parameters) };
      this.#rings.set(id, ring);
    }
    return ring;
  }

  async *scan(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    { signal }: ScanOptions = {},
  ): AsyncIterable<ScanResult> {
    this.#checkOpen();
    signal?.throwIfAborted();
    const segments = handles.map((handle) => {
      const loaded = this.#loaded.get(handle);
      if (loaded && !loaded.unloading) return loaded;
      throw new HersError('INVALID_ARGUMENT', `${handle.name} is not loaded in this kernel`);
    });
    checkComparable(handles, queries);
    if (segments.length === 0 || queries.length === 0) return;
    const scan = this.#start(segments, queries);
    const abort = () => scan.stop(signal!.reason);
    signal?.addEventListener('abort', abort, { once: true });
    try {
      for (let result: ScanResult | undefined; (result = await scan.next()); ) {
        yield result;
        this.#pump();
      }
    } finally {
      signal?.removeEventListener('abort', abort);
      scan.stop();
    }
  }

  #start(segments: readonly Loaded[], queries: readonly Query[]): Scan {
    const scan = new Scan(this.#crew, this.#memory, segments, queries, () => this.#pump());
    if (this.#scans.length === 0) this.#crew.ref();
    this.#scans.push(scan);
    for (const { scans } of segments) scans.add(scan);
    void scan.ended.then(() => {
      for (const { scans } of segments) scans.delete(scan);
      this.#scans.splice(this.#scans.indexOf(scan), 1);
      if (this.#scans.length === 0) this.#crew.unref();
      this.#pump();
    });
    this.#pump();
    return scan;
  }

  /** Sends the threads as many stages as there is room for, one of each scan in turn. */
  #pump(): void {
    for (let turns = this.#scans.length; turns > 0 && this.#crew.hasRoom; turns--) {
      const scan = this.#scans.shift()!;
      this.#scans.push(scan);
      const outcome = scan.advance();
      if (outcome === 'sent' || (outcome === 'starved' && this.#makeRoom(scan))) turns = this.#scans.length + 1;
    }
  }

  /**
   * Takes memory from a scan whose consumer is slow. A scan that has too little memory though it is
   * alone is refused.
   */
  #makeRoom(starved: Scan): boolean {
    const others = this.#scans.filter((scan) => scan !== starved);
    if (others.some((scan) => scan.yieldSlices())) return true;
    if (!others.some((scan) => scan.isBusy))
      starved.stop(new HersError('UNSUPPORTED_PLAN', 'there is not enough memory for this search; ask less at once'));
    return false;
  }

  async unload(handle: SegmentHandle): Promise<void> {
    const loaded = this.#loaded.get(handle);
    if (loaded) await (loaded.unloading ??= this.#unload(loaded));
  }

  async #unload({ handle, id, file, scans }: Loaded): Promise<void> {
    await Promise.all(Array.from(scans, (scan) => scan.ended));
    this.#crew.unload(id);
    await file?.close();
    this.#loaded.delete(handle);
  }

  async close(): Promise<void> {
    await (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#out ??= new HersError('INVALID_ARGUMENT', 'this kernel is closed');
    for (const scan of [...this.#scans]) scan.stop(this.#out);
    await Promise.all(Array.from(this.#loaded.keys(), (handle) => this.unload(handle)));
    await this.#crew.close();
  }

  /** A thread has died: no running scan can end by itself. */
  #lose(error: Error): void {
    this.#out ??= new Error(`the WebAssembly kernel lost a thread and must be opened again: ${error.message}`);
    for (const scan of [...this.#scans]) {
      scan.stop(this.#out);
      scan.end();
    }
  }

  #checkOpen(): void {
    if (this.#out) throw this.#out;
  }
}
