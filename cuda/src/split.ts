// A gallery on a device, and what does not fit there on the next one, in turns through the device's
// memory, or on the CPU: all scan at the same time. Where the device fails, the scan that saw it
// ends with its error, and everything goes on without it.
//
// In turns means that a segment stays in pinned memory of the host, and that every scan fetches it.
// Whether that is faster than the CPU depends on the bus and on the cores, so it is measured: both
// scan the first segment that does not fit, and the faster one gets the rest. It is not tried where
// that memory is short.

import {
  batchesOf,
  type DeviceUse,
  type KeptScan,
  type Kernel,
  type ScanOptions,
  type ScanResult,
  type SegmentHandle,
  type SegmentSource,
} from '@hers/scan';
import { mixed, resultsOf, specimenQuery } from '@hers/scan/accelerator';
import { HersError, type Query } from '@hers/scheme';
import type { CudaKernel } from './kernel.ts';

export interface SplitOptions {
  /** Bytes of segments that the device may hold; by default as many as fit. */
  readonly memory?: number | undefined;
  /**
   * Whether segments that it cannot hold go through it in turns. By default the faster way is
   * measured.
   */
  readonly turns?: boolean | undefined;
  /** Opens the kernel for the rest, when it is needed. */
  readonly openOther: () => Promise<Kernel>;
  /** Called once, when the device fails, and when it has to give memory back. */
  readonly warn: (message: string) => void;
}

interface Part {
  readonly source: SegmentSource;
  /** Of the device's memory, or, in turns, of the host's. */
  bytes: number;
  inTurns: boolean;
  kernel: Kernel;
  handle: SegmentHandle;
}

/** Segments in turns have at most this share of the memory that the process could use without. */
const TURN_SHARE = 0.5;
/** Scans of the first segment that decide, after one that warms up. */
const TRIALS = 3;

/** A device that failed. */
const LOST: DeviceUse = {
  used: 0,
  memory: 0,
  free: 0,
  segments: 0,
  turns: 0,
  elsewhere: 0,
  hasFailed: true,
  copySpeed: () => 0,
  linkSpeed: () => 0,
};

export class SplitKernel implements Kernel {
  readonly name = 'cuda';
  readonly #device: CudaKernel;
  readonly #options: SplitOptions;
  readonly #parts = new Map<SegmentHandle, Part>();
  /** Bytes on the device, and of the host for segments in turns. */
  #used = 0;
  #turnBytes = 0;
  #hasFailed = false;
  #other: Promise<Kernel> | undefined;
  #opened: Kernel | undefined;
  /** Whether what does not fit goes through the device in turns, once that is known. */
  #turns: Promise<boolean> | undefined;
  /** Segments are moved one after the other. */
  #moving: Promise<void> = Promise.resolve();

  constructor(device: CudaKernel, options: SplitOptions) {
    this.#device = device;
    this.#options = options;
  }

  get detail(): string {
    if (this.#hasFailed)
      return `${this.#device.detail}, which failed: ${this.#opened?.device ? this.#opened.detail : 'the CPU scans'}`;
    const [elsewhere, turns] = [this.#elsewhere(), this.#count(({ inTurns }) => inTurns)];
    const all = this.#parts.size;
    const where = this.#opened?.device ? this.#opened.detail : 'the CPU';
    const rest = [
      ...(turns > 0 ? [`; ${turns} of ${all} segments in turns`] : []),
      ...(elsewhere > 0 ? [`; ${elsewhere} of ${all} segments on ${where}`] : []),
    ];
    return `${this.#device.detail}${rest.join('')}`;
  }

  #count(which: (part: Part) => boolean): number {
    return [...this.#parts.values()].filter(which).length;
  }

  /** Segments that are not on the device. */
  #elsewhere(): number {
    return this.#count(({ kernel }) => kernel !== this.#device);
  }

  device(): DeviceUse {
    const own = this.#own();
    const next = this.#opened?.device?.();
    if (!next) return { ...own, elsewhere: this.#elsewhere() };
    return {
      used: own.used + next.used,
      memory: own.memory + next.memory,
      free: own.free + next.free,
      segments: own.segments + next.segments,
      turns: own.turns + next.turns,
      elsewhere: next.elsewhere,
      hasFailed: own.hasFailed || next.hasFailed,
      copySpeed: () => own.copySpeed(),
      linkSpeed: () => own.linkSpeed(),
    };
  }

  /** A device may fail between two scans. */
  #own(): DeviceUse {
    if (this.#hasFailed) return LOST;
    try {
      return this.#device.device();
    } catch (error) {
      if (!this.#sawFailure(error)) throw error;
      return LOST;
    }
  }

  async load(source: SegmentSource): Promise<SegmentHandle> {
    const part =
      (await this.#loadOnDevice(source)) ?? (await this.#loadInTurns(source)) ?? (await this.#loadElsewhere(source));
    const handle: SegmentHandle = { name: part.handle.name, header: part.handle.header };
    this.#parts.set(handle, part);
    return handle;
  }

  /** Undefined where there is no room, or no device any more. */
  async #loadOnDevice(source: SegmentSource): Promise<Part | undefined> {
    const { memory = Number.POSITIVE_INFINITY } = this.#options;
    if (this.#hasFailed || this.#used >= memory) return undefined;
    const handle = await this.#tryLoading(source, false);
    if (!handle) return undefined;
    const bytes = bytesOf(handle);
    if (this.#used + bytes > memory) {
      await this.#device.unload(handle);
      return undefined;
    }
    this.#used += bytes;
    return { source, bytes, inTurns: false, kernel: this.#device, handle };
  }

  /** Undefined where that is not faster, or there is no memory for it. */
  async #loadInTurns(source: SegmentSource): Promise<Part | undefined> {
    if (this.#hasFailed) return undefined;
    this.#turns ??=
      this.#options.turns === undefined ? this.#isFasterInTurns(source) : Promise.resolve(this.#options.turns);
    if (!(await this.#turns)) return undefined;
    const handle = await this.#tryLoading(source, true);
    if (!handle) return undefined;
    const bytes = bytesOf(handle);
    this.#turnBytes += bytes;
    return { source, bytes, inTurns: true, kernel: this.#device, handle };
  }

  /** Undefined where there is no memory for it, or no device any more. */
  async #tryLoading(source: SegmentSource, inTurns: boolean): Promise<SegmentHandle | undefined> {
    try {
      const handle = await this.#device.load(source, { inTurns });
      const pinned = this.#turnBytes + bytesOf(handle);
      if (!inTurns || pinned <= TURN_SHARE * (process.availableMemory() + pinned)) return handle;
      await this.#device.unload(handle);
    } catch (error) {
      if (!isOf(error, 'UNSUPPORTED_PLAN') && !this.#sawFailure(error)) throw error;
    }
    return undefined;
  }

  /** Measures it with a segment, beside the kernel for the rest; not beside another device. */
  async #isFasterInTurns(source: SegmentSource): Promise<boolean> {
    const other = await this.#openOther();
    if (other.device) return false;
    const handle = await this.#tryLoading(source, true);
    if (!handle) return false;
    try {
      const here = await secondsOf(this.#device, handle);
      const there = await other.load(source);
      try {
        return here < (await secondsOf(other, there));
      } finally {
        await other.unload(there);
      }
    } catch (error) {
      // What is wrong with the segment shows again when it is scanned; another one decides.
      this.#sawFailure(error);
      this.#turns = undefined;
      return false;
    } finally {
      await this.#device.unload(handle);
    }
  }

  async #loadElsewhere(source: SegmentSource): Promise<Part> {
    const kernel = await this.#openOther();
    return { source, bytes: 0, inTurns: false, kernel, handle: await kernel.load(source) };
  }

  #openOther(): Promise<Kernel> {
    this.#other ??= this.#options.openOther().then((kernel) => (this.#opened = kernel));
    return this.#other;
  }

  /** Whether an error says that the device is of no use any more; from then on nothing uses it. */
  #sawFailure(error: unknown): boolean {
    if (!isOf(error, 'UNAVAILABLE')) return false;
    if (!this.#hasFailed)
      this.#options.warn(`the GPU failed, and others scan from now on: ${(error as HersError).message}`);
    this.#hasFailed = true;
    return true;
  }

  /** Where each of these is; what was on a device that failed is loaded elsewhere. */
  async #find(handles: readonly SegmentHandle[]): Promise<Part[]> {
    const found: Part[] = [];
    for (const handle of handles) {
      const part = this.#parts.get(handle);
      if (!part) throw new HersError('INVALID_ARGUMENT', `${handle.name} is not loaded in this kernel`);
      if (this.#hasFailed && part.kernel === this.#device) await this.#queue(() => this.#move(handle, part));
      found.push(part);
    }
    return found;
  }

  #queue(work: () => Promise<void>): Promise<void> {
    const done = this.#moving.then(work);
    this.#moving = done.catch(() => {});
    return done;
  }

  /** Off the device, where it still is there. DAMAGED where its file is another by now. */
  async #move(handle: SegmentHandle, part: Part): Promise<void> {
    if (part.kernel !== this.#device || this.#parts.get(handle) !== part) return;
    const before = { ...part };
    const next = await this.#loadElsewhere(part.source);
    if (!isSame(handle, next.handle)) {
      await next.kernel.unload(next.handle);
      throw new HersError(
        'DAMAGED',
        `${handle.name} is another file than the one that was loaded, which no segment ever is; open it again, or restore it from a copy`,
      );
    }
    Object.assign(part, next);
    this.#freed(before);
    await this.#device.unload(before.handle);
  }

  #freed({ bytes, inTurns }: Part): void {
    if (inTurns) this.#turnBytes -= bytes;
    else this.#used -= bytes;
  }

  /** Moves half of what is on the device off it, since it has no memory for scans. */
  async #makeRoom(): Promise<boolean> {
    let isMoved = false;
    await this.#queue(async () => {
      const own = [...this.#parts].filter(([, { kernel }]) => kernel === this.#device);
      own.sort(([, a], [, b]) => b.bytes - a.bytes);
      for (const [handle, part] of own.slice(0, Math.ceil(own.length / 2))) {
        await this.#move(handle, part);
        isMoved = true;
      }
    });
    if (isMoved)
      this.#options.warn(
        `the GPU has too little memory for scans, perhaps because another process took it: ${this.#elsewhere()} of ${this.#parts.size} segments are elsewhere now`,
      );
    return isMoved;
  }

  #hasMoved(handles: readonly SegmentHandle[], inner: readonly SegmentHandle[]): boolean {
    return handles.some((handle, i) => this.#parts.get(handle)?.handle !== inner[i]);
  }

  scan(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    options: ScanOptions = {},
  ): AsyncIterable<ScanResult> {
    return resultsOf(this.batches(handles, queries, options), () => {}, options.signal);
  }

  async *batches(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    options: ScanOptions = {},
  ): AsyncIterable<readonly ScanResult[]> {
    options.signal?.throwIfAborted();
    const parts = await this.#find(handles);
    const scans = [...new Set(parts.map(({ kernel }) => kernel))].map((kernel) => {
      const own = handles.filter((_, i) => parts[i].kernel === kernel);
      const inner = parts.filter((part) => part.kernel === kernel).map(({ handle }) => handle);
      return this.#batchesOn(kernel, own, inner, queries, options);
    });
    yield* scans.length === 1 ? scans[0] : together(scans);
  }

  async *#batchesOn(
    kernel: Kernel,
    handles: readonly SegmentHandle[],
    inner: readonly SegmentHandle[],
    queries: readonly Query[],
    options: ScanOptions,
  ): AsyncGenerator<Results> {
    const outer = new Map(inner.map((handle, i) => [handle, handles[i]]));
    let hasBegun = false;
    try {
      for await (const batch of batchesOf(kernel, inner, queries, options)) {
        hasBegun = true;
        yield batch.map((result) => ({ ...result, handle: outer.get(result.handle)! }));
      }
    } catch (error) {
      this.#sawFailure(error);
      const isShort = kernel === this.#device && isOf(error, 'UNSUPPORTED_PLAN');
      // Where nothing has come yet, it begins again: with less on the device, or since another scan
      // has moved a segment meanwhile.
      const begins = (isShort && (await this.#makeRoom())) || this.#hasMoved(handles, inner);
      if (hasBegun || !begins) throw error;
      yield* this.batches(handles, queries, options);
    }
  }

  /** Undefined where some of it is not on the device, or there is no room for responses. */
  async keep(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    options?: ScanOptions,
  ): Promise<KeptScan | undefined> {
    const parts = await this.#find(handles);
    if (this.#hasFailed || parts.some(({ kernel }) => kernel !== this.#device)) return undefined;
    const inner = parts.map(({ handle }) => handle);
    try {
      return await this.#device.keep(inner, queries, options);
    } catch (error) {
      if (isOf(error, 'UNSUPPORTED_PLAN') || this.#hasMoved(handles, inner)) return undefined;
      this.#sawFailure(error);
      throw error;
    }
  }

  async unload(handle: SegmentHandle): Promise<void> {
    const part = this.#parts.get(handle);
    if (!part) return;
    this.#parts.delete(handle);
    await part.kernel.unload(part.handle);
    this.#freed(part);
  }

  async close(): Promise<void> {
    await this.#device.close();
    await (await this.#other?.catch(() => undefined))?.close();
  }
}

const bytesOf = ({ header }: SegmentHandle) => header.fileBytes - header.dataAt;

/** Whether two handles are of the same data: by its checksums, and its blocks. */
function isSame({ header: a }: SegmentHandle, { header: b }: SegmentHandle): boolean {
  const blocksOf = ({ blocks }: typeof a) => blocks.map(({ blockId, first, count }) => `${blockId} ${first} ${count}`);
  return (
    a.fileBytes === b.fileBytes &&
    a.parameters.id === b.parameters.id &&
    String(a.partChecksums) === String(b.partChecksums) &&
    String(blocksOf(a)) === String(blocksOf(b))
  );
}

/** The shortest of a few scans of a segment, for a query of its shape. */
async function secondsOf(kernel: Kernel, handle: SegmentHandle): Promise<number> {
  const { parameters, width, keyId, galleryScale } = handle.header;
  const query = { ...specimenQuery({ parameters, width, index: 0, residue: mixed(1) }), keyId, galleryScale };
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i <= TRIALS; i++) {
    const began = performance.now();
    for await (const _ of batchesOf(kernel, [handle], [query]));
    if (i > 0) best = Math.min(best, performance.now() - began);
  }
  return best / 1000;
}

const isOf = (error: unknown, code: string) => error instanceof HersError && error.code === code;

/** What all of them find, as it comes. However it is left, all of them end. */
async function* together(scans: readonly AsyncIterable<Results>[]): AsyncGenerator<Results> {
  const running = new Map(scans.map((scan) => [scan[Symbol.asyncIterator](), undefined as Step | undefined]));
  try {
    while (running.size > 0) {
      for (const [scan, step] of running)
        if (!step)
          running.set(
            scan,
            scan.next().then((result) => ({ scan, result })),
          );
      const { scan, result } = await Promise.race(running.values() as Iterable<Step>);
      if (result.done) running.delete(scan);
      else {
        running.set(scan, undefined);
        yield result.value;
      }
    }
  } finally {
    for (const step of running.values()) step?.catch(() => {}); // reported by the one that was first
    await Promise.allSettled(Array.from(running.keys(), (scan) => scan.return?.()));
  }
}

type Results = readonly ScanResult[];
type Step = Promise<{ readonly scan: AsyncIterator<Results>; readonly result: IteratorResult<Results> }>;
