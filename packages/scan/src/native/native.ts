// The native kernel: C++ for AVX-512, AVX2 or any machine, in its own threads, over segments that
// it maps (packages/scan/native). JavaScript copies queries into it in small pieces and takes
// batches of responses out of it. Everything else runs beside the event loop.

import { open } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { moduliOf } from '@hers/ring';
import { givenRows, HersError, type ParameterSet, type Query, refuseUnknown, responseHead } from '@hers/scheme';
import { QUERY_MASK } from '@hers/scheme/layout';
import {
  checkComparable,
  type Kernel,
  type ScanOptions,
  type ScanResult,
  type SegmentHandle,
  type SegmentSource,
} from '../kernel.ts';
import { decodeHeader, isPacked, PANEL_ROWS, readHeader, type SegmentHeader } from '../segment.ts';
import {
  type Addon,
  type Isa,
  loadAddon,
  type NativeLayout,
  type PoolRef,
  type QueryRef,
  type RingRef,
  type SegmentRef,
} from './native-addon.ts';
import { batchesFrom, cutFile, NativeRun, type NativeTimes, resultsOf } from './native-run.ts';

export type { Isa } from './native-addon.ts';
export type { NativeTimes } from './native-run.ts';

const MAX_THREADS = 256;
/** Copies are made in pieces of this size, so that the event loop runs in between. */
const PIECE_BYTES = 2 ** 22;

export interface NativeOptions {
  /**
   * How many threads compute. By default as many as the process may use. The main thread never
   * computes.
   */
  readonly threads?: number | undefined;
  /** By default the best one of the machine. */
  readonly isa?: Isa | undefined;
  /** Another file than the one that the build makes. */
  readonly addon?: string | undefined;
}

interface Loaded {
  readonly handle: SegmentHandle;
  readonly segment: SegmentRef;
  readonly ring: RingRef;
  readonly runs: Set<NativeRun>;
  unloading: Promise<void> | undefined;
}

export class NativeKernel implements Kernel {
  readonly name = 'native';
  readonly isa: Isa;
  readonly threads: number;
  readonly #addon: Addon;
  readonly #pool: PoolRef;
  readonly #rings = new Map<number, RingRef>();
  readonly #loaded = new Map<SegmentHandle, Loaded>();
  readonly #runs = new Set<NativeRun>();
  #times: NativeTimes | undefined;
  #closed: HersError | undefined;
  #closing: Promise<void> | undefined;

  private constructor(addon: Addon, isa: Isa, threads: number) {
    this.#addon = addon;
    this.isa = isa;
    this.threads = threads;
    this.#pool = addon.createPool(threads);
  }

  /**
   * Throws an error with the reason if there is no addon or the machine lacks the instruction set.
   */
  static open(options: NativeOptions = {}): NativeKernel {
    refuseUnknown(options, { threads: true, isa: true, addon: true }, 'a native kernel');
    const { threads = availableParallelism(), isa, addon: path } = options;
    if (!(Number.isInteger(threads) && threads >= 1))
      throw new HersError('INVALID_ARGUMENT', `the number of threads must be 1 or more, not ${threads}`);
    const addon = loadAddon(path);
    const variants = addon.variants();
    if (isa !== undefined && !variants.includes(isa))
      throw new Error(`this machine has no code for ${isa}; it has ${variants.join(', ')}`);
    return new NativeKernel(addon, isa ?? variants[0], Math.min(threads, MAX_THREADS));
  }

  get detail(): string {
    return `${this.isa}, ${this.threads} ${this.threads === 1 ? 'thread' : 'threads'}`;
  }

  /** How the time of the last finished scan was spent. */
  get times(): NativeTimes | undefined {
    return this.#times;
  }

  async load(source: SegmentSource): Promise<SegmentHandle> {
    this.#checkOpen();
    if ('path' in source) return this.#map(source.path);
    const { bytes, name } = source;
    const header = decodeHeader(bytes, bytes.length, name);
    const segment = this.#addon.allocateSegment(layoutOf(header));
    for (let at = header.dataAt; at < bytes.length; at += PIECE_BYTES) {
      if (at > header.dataAt) await new Promise(setImmediate);
      this.#addon.writeSegment(segment, at - header.dataAt, bytes.subarray(at, at + PIECE_BYTES));
    }
    return this.#add(name, header, segment);
  }

  async #map(path: string): Promise<SegmentHandle> {
    const file = await open(path, 'r');
    try {
      const header = await readHeader(file, path);
      return this.#add(path, header, this.#addon.mapSegment(file.fd, layoutOf(header)));
    } catch (error) {
      throw (error as { code?: unknown }).code === 'ENODATA' ? cutFile(path) : error;
    } finally {
      await file.close();
    }
  }

  #add(name: string, header: SegmentHeader, segment: SegmentRef): SegmentHandle {
    this.#checkOpen();
    const handle: SegmentHandle = { name, header };
    const ring = this.#ring(header.parameters);
    this.#loaded.set(handle, { handle, segment, ring, runs: new Set(), unloading: undefined });
    return handle;
  }

  #ring({ id, n, primes }: ParameterSet): RingRef {
    let ring = this.#rings.get(id);
    if (!ring) this.#rings.set(id, (ring = this.#addon.createRing(this.isa, n, moduliOf(n, primes))));
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
    { signal, passing }: ScanOptions = {},
  ): AsyncIterable<readonly ScanResult[]> {
    signal?.throwIfAborted();
    const run = await this.#start(handles, queries, false, signal);
    if (!run) return;
    yield* batchesFrom(run, handles, () => this.#checkOpen(), signal, passing);
  }

  /** For measurements: everything up to the sums of products, without responses. */
  async multiplyOnly(handles: readonly SegmentHandle[], queries: readonly Query[]): Promise<NativeTimes> {
    const run = await this.#start(handles, queries, true);
    if (!run) throw new HersError('INVALID_ARGUMENT', 'there is nothing to multiply');
    await run.next();
    return run.times!;
  }

  async #start(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    multiplyOnly: boolean,
    signal?: AbortSignal,
  ): Promise<NativeRun | undefined> {
    this.#checkOpen();
    const find = () => handles.map((handle) => this.#find(handle));
    find();
    checkComparable(handles, queries);
    if (handles.length === 0 || queries.length === 0) return undefined;
    const refs: QueryRef[] = [];
    for (const query of queries) refs.push(await this.#copy(query, refs.length > 0, signal));
    // A segment may have been unloaded while they were copied.
    const segments = find();
    const names = handles.map(({ name }) => name);
    const run = new NativeRun(this.#addon, names, (deliver) =>
      this.#addon.startScan(
        this.#pool,
        segments[0].ring,
        segments.map(({ segment }) => segment),
        refs,
        QUERY_MASK,
        multiplyOnly,
        deliver,
      ),
    );
    this.#runs.add(run);
    for (const { runs } of segments) runs.add(run);
    void run.ended.then(() => {
      this.#times = run.times;
      this.#runs.delete(run);
      for (const { runs } of segments) runs.delete(run);
    });
    return run;
  }

  #find(handle: SegmentHandle): Loaded {
    const loaded = this.#loaded.get(handle);
    if (loaded && !loaded.unloading) return loaded;
    throw new HersError('INVALID_ARGUMENT', `${handle.name} is not loaded in this kernel`);
  }

  async #copy(query: Query, yieldFirst: boolean, signal?: AbortSignal): Promise<QueryRef> {
    const { rows, bits0, bits1, seed } = query;
    const head = checkedHead(query);
    const { first, words } = givenRows(query);
    const ref = this.#addon.createQuery(this.#pool, rows.length + words.length, first, bits0, bits1, seed, head);
    let begun = yieldFirst;
    const write = async (from: number, part: Uint32Array) => {
      for (let at = 0; at < part.length; at += PIECE_BYTES / 4) {
        if (begun) await new Promise(setImmediate);
        begun = true;
        signal?.throwIfAborted();
        this.#checkOpen();
        this.#addon.writeQuery(ref, from + at, part.subarray(at, at + PIECE_BYTES / 4));
      }
    };
    await write(0, rows);
    // Rounded rows are few, and take no turn of their own.
    if (query.masks) await write(rows.length, words);
    else this.#addon.writeQuery(ref, rows.length, words);
    return ref;
  }

  async unload(handle: SegmentHandle): Promise<void> {
    const loaded = this.#loaded.get(handle);
    if (loaded) await (loaded.unloading ??= this.#unload(loaded));
  }

  async #unload({ handle, segment, runs }: Loaded): Promise<void> {
    await Promise.all(Array.from(runs, (run) => run.ended));
    this.#addon.freeSegment(this.#pool, segment);
    this.#loaded.delete(handle);
  }

  async close(): Promise<void> {
    await (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#closed = new HersError('INVALID_ARGUMENT', 'this kernel is closed');
    for (const run of this.#runs) run.stop(this.#closed);
    await Promise.all(Array.from(this.#loaded.keys(), (handle) => this.unload(handle)));
    await Promise.all(Array.from(this.#runs, (run) => run.ended));
    this.#addon.closePool(this.#pool);
  }

  #checkOpen(): void {
    if (this.#closed) throw this.#closed;
  }
}

export function layoutOf({ parameters, rows, blocks, dataAt, partChecksums }: SegmentHeader): NativeLayout {
  const table = new Uint8Array(24 * blocks.length);
  blocks.forEach(({ blockId, first, count }, i) => {
    table.set(blockId, 24 * i);
    new Uint32Array(table.buffer, 24 * i + 16, 2).set([first, count]);
  });
  return { rows, panelRows: PANEL_ROWS, packed: isPacked(parameters), dataAt, table, partChecksums };
}

/** The beginning of the responses to a query. The addon fills in the fields of the block. */
export function checkedHead(query: Query): Uint8Array {
  const { bits0, bits1, seed } = query;
  const isBits = (bits: number) => Number.isInteger(bits) && bits >= 1 && bits <= 32;
  if (!(isBits(bits0) && isBits(bits1) && bits0 <= bits1 && seed.length === 32))
    throw new HersError('MALFORMED', 'the fields of this query contradict each other');
  return responseHead(query);
}
