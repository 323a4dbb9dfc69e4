// The CUDA kernel: segments are copied to the memory of a GPU once, where their checksums are
// verified, and scanned there (cuda/scan). JavaScript hands queries to it and takes
// batches of responses out of it.
//
// A segment that does not fit its checksums is loaded all the same, without its data, and scans of
// it are refused: as every kernel does.

import { open } from 'node:fs/promises';
import { moduliOf } from '@hers/ring';
import type { DeviceUse, KeptScan, Kernel, ScanOptions, ScanResult, SegmentHandle, SegmentSource } from '@hers/scan';
import { decodeHeader, type SegmentHeader } from '@hers/scan';
import type { ScanRef } from '@hers/scan/accelerator';
import {
  batchesFrom,
  checkComparable,
  checkedHead,
  cutFile,
  damagedPart,
  layoutOf,
  NativeRun,
  readFully,
  readHeader,
  resultsOf,
} from '@hers/scan/accelerator';
import { givenRows, HersError, type ParameterSet, polyWords, type Query, refuseUnknown } from '@hers/scheme';
import { QUERY_MASK } from '@hers/scheme/layout';
import {
  type CudaAddon,
  type CudaDevice,
  type CudaQuery,
  type CudaResponsesRef,
  type CudaRingRef,
  type CudaSegmentRef,
  type DeviceRef,
  loadCudaAddon,
} from './kernel-addon.ts';

// States of cuda/scan/hers_cuda.h; and the addon's number for a scan without memory.
const OK = 0;
const NO_MEMORY = 2;
const DAMAGED = 4;
const SCAN_WITHOUT_MEMORY = 5;
/** Copies are made in pieces of this size, so that the event loop runs in between. */
const PIECE_WORDS = 2 ** 20;
/** More than the caches of a device hold. */
const COPIED_BYTES = 2 ** 28;

export interface CudaOptions {
  /** Which GPU, from 0 on; 0 by default. */
  readonly device?: number | undefined;
  /** Another file than the one that the build makes. */
  readonly addon?: string | undefined;
}

export interface CudaLoadOptions {
  /** Kept in the host's memory, and fetched for every scan; the device holds it by default. */
  readonly inTurns?: boolean | undefined;
}

interface Loaded {
  readonly handle: SegmentHandle;
  readonly inTurns: boolean;
  /** The data on the device, or why there is none. */
  readonly segment: CudaSegmentRef | HersError;
  readonly ring: CudaRingRef;
  readonly runs: Set<NativeRun>;
  unloading: Promise<void> | undefined;
}

export class CudaKernel implements Kernel {
  readonly name = 'cuda';
  readonly #addon: CudaAddon;
  readonly #device: DeviceRef;
  readonly #number: number;
  readonly #about: CudaDevice;
  readonly #rings = new Map<number, CudaRingRef>();
  readonly #loaded = new Map<SegmentHandle, Loaded>();
  readonly #runs = new Set<NativeRun>();
  readonly #kept = new Set<CudaResponsesRef>();
  /** Segments are loaded one after the other, so that only one is in the host's memory. */
  #loading: Promise<unknown> = Promise.resolve();
  #closed: HersError | undefined;
  #closing: Promise<void> | undefined;

  private constructor(addon: CudaAddon, device: number) {
    this.#addon = addon;
    this.#number = device;
    this.#device = addon.openDevice(device);
    this.#about = addon.describeDevice(this.#device);
  }

  /** Throws an error with the reason if there is no addon, no driver or no device. */
  static open(options: CudaOptions = {}): CudaKernel {
    refuseUnknown(options, { device: true, addon: true }, 'a CUDA kernel');
    const { device = 0, addon } = options;
    if (!(Number.isInteger(device) && device >= 0))
      throw new HersError('INVALID_ARGUMENT', `the number of a GPU must be 0 or more, not ${device}`);
    return new CudaKernel(loadCudaAddon(addon), device);
  }

  get detail(): string {
    const { name, memory, driver } = this.#about;
    const version = `${Math.floor(driver / 1000)}.${Math.floor((driver % 1000) / 10)}`;
    return `${name}, ${Math.round(memory / 2 ** 30)} GiB, a driver for CUDA ${version}`;
  }

  device(): DeviceUse {
    this.#checkOpen();
    const { memory, free } = this.#ask(() => this.#addon.describeDevice(this.#device));
    let [used, turns] = [0, 0];
    for (const { handle, segment, inTurns } of this.#loaded.values())
      if (inTurns) turns++;
      else if (!(segment instanceof HersError)) used += handle.header.fileBytes - handle.header.dataAt;
    const copySpeed = () => this.#ask(() => this.#addon.copySpeed(this.#device, COPIED_BYTES));
    const linkSpeed = () => this.#ask(() => this.#addon.linkSpeed(this.#device, COPIED_BYTES));
    const segments = this.#loaded.size - turns;
    return { used, memory, free, segments, turns, elsewhere: 0, hasFailed: false, copySpeed, linkSpeed };
  }

  /** What a call of the addon gives, or a typed error. */
  #ask<T>(call: () => T): T {
    try {
      return call();
    } catch (error) {
      const { code, message } = error as { code?: unknown; message: string };
      throw deviceError(code === 'NO_MEMORY', message);
    }
  }

  load(source: SegmentSource, { inTurns = false }: CudaLoadOptions = {}): Promise<SegmentHandle> {
    const loading = this.#loading.then(() => this.#load(source, inTurns));
    this.#loading = loading.catch(() => {});
    return loading;
  }

  async #load(source: SegmentSource, inTurns: boolean): Promise<SegmentHandle> {
    this.#checkOpen();
    if (!('path' in source)) {
      const header = decodeHeader(source.bytes, source.bytes.length, source.name);
      return this.#add(source.name, header, source.bytes.subarray(header.dataAt), inTurns);
    }
    const { path } = source;
    const file = await open(path, 'r');
    try {
      const header = await readHeader(file, path);
      const length = header.fileBytes - header.dataAt;
      const data = await readFully(file, length, header.dataAt);
      if (data.length < length) throw cutFile(path);
      return await this.#add(path, header, data, inTurns);
    } finally {
      await file.close();
    }
  }

  async #add(name: string, header: SegmentHeader, data: Uint8Array, inTurns: boolean): Promise<SegmentHandle> {
    const ring = this.#ring(header.parameters);
    const [state, part, message, segment] = await this.#addon.loadSegment(ring, layoutOf(header), data, inTurns);
    if (state !== OK && state !== DAMAGED) throw deviceError(state === NO_MEMORY, message);
    const handle: SegmentHandle = { name, header };
    const kept = segment ?? damagedPart(name, part);
    this.#loaded.set(handle, { handle, inTurns, segment: kept, ring, runs: new Set(), unloading: undefined });
    if (this.#closed) {
      await this.unload(handle);
      throw this.#closed;
    }
    return handle;
  }

  #ring({ id, n, primes }: ParameterSet): CudaRingRef {
    const known = this.#rings.get(id);
    if (known) return known;
    const ring = this.#ask(() => this.#addon.createRing(this.#device, n, moduliOf(n, primes)));
    this.#rings.set(id, ring);
    return ring;
  }

  scan(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    options: ScanOptions = {},
  ): AsyncIterable<ScanResult> {
    return resultsOf(this.batches(handles, queries, options), () => this.#checkOpen(), options.signal);
  }

  async *batches(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    { signal }: ScanOptions = {},
  ): AsyncIterable<readonly ScanResult[]> {
    signal?.throwIfAborted();
    const started = await this.#start(handles, queries, false, signal);
    if (!started) return;
    yield* batchesFrom(started.run, handles, () => this.#checkOpen(), signal);
  }

  async keep(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    { signal }: ScanOptions = {},
  ): Promise<KeptScan> {
    signal?.throwIfAborted();
    const started = await this.#start(handles, queries, true, signal);
    if (!started) throw new HersError('INVALID_ARGUMENT', 'there is nothing to scan');
    for await (const _ of batchesFrom(started.run, handles, () => this.#checkOpen(), signal));
    signal?.throwIfAborted();
    const handle = this.#addon.takeResponses(started.scan());
    this.#kept.add(handle);
    const forget = () => {
      if (this.#kept.delete(handle)) this.#addon.forgetResponses(handle);
    };
    return { handle, device: this.#number, forget };
  }

  async #start(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    keeps: boolean,
    signal?: AbortSignal,
  ): Promise<{ readonly run: NativeRun; readonly scan: () => ScanRef } | undefined> {
    this.#checkOpen();
    const find = () => handles.map((handle) => this.#find(handle));
    find();
    checkComparable(handles, queries);
    if (handles.length === 0 || queries.length === 0) return undefined;
    const copies: CudaQuery[] = [];
    for (const query of queries) copies.push(await this.#copy(query, signal));
    // A segment may have been unloaded while they were copied.
    const found = find();
    const segments = found.map(({ segment, handle }) => {
      if (segment instanceof HersError) throw segment;
      return { segment, blocks: handle.header.blocks.length };
    });
    const words = polyWords(queries[0].parameters);
    let scan: ScanRef | undefined;
    const run: NativeRun = new NativeRun(
      this.#addon,
      handles.map(({ name }) => name),
      (deliver) => (scan = this.#addon.startScan(found[0].ring, segments, copies, words, QUERY_MASK, deliver, keeps)),
      (outcome) => deviceError(outcome === SCAN_WITHOUT_MEMORY, this.#addon.messageOf(scan!)),
    );
    this.#runs.add(run);
    for (const { runs } of found) runs.add(run);
    void run.ended.then(() => {
      this.#runs.delete(run);
      for (const { runs } of found) runs.delete(run);
    });
    return { run, scan: () => scan! };
  }

  #find(handle: SegmentHandle): Loaded {
    const loaded = this.#loaded.get(handle);
    if (loaded && !loaded.unloading) return loaded;
    throw new HersError('INVALID_ARGUMENT', `${handle.name} is not loaded in this kernel`);
  }

  /** Copied, since the device reads it while its owner may change it. */
  async #copy(query: Query, signal?: AbortSignal): Promise<CudaQuery> {
    const { rows: from, bits0, bits1, parameters } = query;
    const head = checkedHead(query);
    const { first: width, words: given } = givenRows(query);
    const rows = new Uint32Array(from.length);
    for (let at = 0; at < rows.length; at += PIECE_WORDS) {
      if (at > 0) await new Promise(setImmediate);
      signal?.throwIfAborted();
      this.#checkOpen();
      rows.set(from.subarray(at, at + PIECE_WORDS), at);
    }
    const words = polyWords(parameters);
    const seed = new Uint8Array(query.seed);
    return {
      bits0,
      bits1,
      seed,
      head,
      rowCount: rows.length / words,
      rows,
      width,
      givenCount: given.length / words,
      given,
    };
  }

  async unload(handle: SegmentHandle): Promise<void> {
    const loaded = this.#loaded.get(handle);
    if (loaded) await (loaded.unloading ??= this.#unload(loaded));
  }

  async #unload({ handle, segment, runs }: Loaded): Promise<void> {
    await Promise.all(Array.from(runs, (run) => run.ended));
    if (!(segment instanceof HersError)) this.#addon.freeSegment(segment);
    this.#loaded.delete(handle);
  }

  async close(): Promise<void> {
    await (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#closed = new HersError('INVALID_ARGUMENT', 'this kernel is closed');
    for (const run of this.#runs) run.stop(this.#closed);
    await this.#loading;
    await Promise.all(Array.from(this.#loaded.keys(), (handle) => this.unload(handle)));
    await Promise.all(Array.from(this.#runs, (run) => run.ended));
    for (const responses of this.#kept) this.#addon.forgetResponses(responses);
    this.#kept.clear();
    this.#addon.closeDevice(this.#device);
  }

  #checkOpen(): void {
    if (this.#closed) throw this.#closed;
  }
}

function deviceError(withoutMemory: boolean, message: string): HersError {
  return withoutMemory
    ? new HersError('UNSUPPORTED_PLAN', `${message}; use a smaller gallery, or another kernel`)
    : new HersError('UNAVAILABLE', `${message}; open the kernel again, or use another one`);
}
