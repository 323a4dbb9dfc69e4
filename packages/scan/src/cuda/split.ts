// A gallery on a device, and what does not fit there on the next one, or on the CPU: all scan at
// the same time. Where the device fails, the scan that saw it ends with its error, and everything
// goes on without it.

import { HersError, type Query } from '@hers/scheme';
import type { DeviceUse, KeptScan, Kernel, ScanOptions, ScanResult, SegmentHandle, SegmentSource } from '../kernel.ts';

export interface SplitOptions {
  /** Bytes of segments that the device may hold; by default as many as fit. */
  readonly memory?: number | undefined;
  /** Opens the kernel for the rest, when it is needed. */
  readonly openOther: () => Promise<Kernel>;
  /** Called once, when the device fails. */
  readonly warn: (message: string) => void;
}

interface Part {
  readonly source: SegmentSource;
  readonly bytes: number;
  kernel: Kernel;
  handle: SegmentHandle;
}

/** A device that failed. */
const LOST: DeviceUse = {
  used: 0,
  memory: 0,
  free: 0,
  segments: 0,
  elsewhere: 0,
  hasFailed: true,
  copySpeed: () => 0,
};

export class SplitKernel implements Kernel {
  readonly name = 'cuda';
  readonly #device: Kernel;
  readonly #options: SplitOptions;
  readonly #parts = new Map<SegmentHandle, Part>();
  /** Bytes on the device. */
  #used = 0;
  #hasFailed = false;
  #other: Promise<Kernel> | undefined;
  #opened: Kernel | undefined;

  constructor(device: Kernel, options: SplitOptions) {
    this.#device = device;
    this.#options = options;
  }

  get detail(): string {
    if (this.#hasFailed)
      return `${this.#device.detail}, which failed: ${this.#opened?.device ? this.#opened.detail : 'the CPU scans'}`;
    const elsewhere = this.#elsewhere();
    if (elsewhere === 0) return this.#device.detail;
    const where = this.#opened?.device ? this.#opened.detail : 'the CPU';
    return `${this.#device.detail}; ${elsewhere} of ${this.#parts.size} segments on ${where}`;
  }

  /** Segments that are not on the device. */
  #elsewhere(): number {
    return [...this.#parts.values()].filter(({ kernel }) => kernel !== this.#device).length;
  }

  device(): DeviceUse {
    const own = this.#hasFailed ? LOST : this.#device.device!();
    const next = this.#opened?.device?.();
    if (!next) return { ...own, elsewhere: this.#elsewhere() };
    return {
      used: own.used + next.used,
      memory: own.memory + next.memory,
      free: own.free + next.free,
      segments: own.segments + next.segments,
      elsewhere: next.elsewhere,
      hasFailed: own.hasFailed || next.hasFailed,
      copySpeed: () => own.copySpeed(),
    };
  }

  async load(source: SegmentSource): Promise<SegmentHandle> {
    const part = (await this.#loadOnDevice(source)) ?? (await this.#loadElsewhere(source));
    const handle: SegmentHandle = { name: part.handle.name, header: part.handle.header };
    this.#parts.set(handle, part);
    return handle;
  }

  /** Undefined where there is no room, or no device any more. */
  async #loadOnDevice(source: SegmentSource): Promise<Part | undefined> {
    const { memory = Number.POSITIVE_INFINITY } = this.#options;
    if (this.#hasFailed || this.#used >= memory) return undefined;
    try {
      const handle = await this.#device.load(source);
      const bytes = handle.header.fileBytes - handle.header.dataAt;
      if (this.#used + bytes > memory) {
        await this.#device.unload(handle);
        return undefined;
      }
      this.#used += bytes;
      return { source, bytes, kernel: this.#device, handle };
    } catch (error) {
      if (!isOf(error, 'UNSUPPORTED_PLAN') && !this.#sawFailure(error)) throw error;
      return undefined;
    }
  }

  async #loadElsewhere(source: SegmentSource): Promise<Part> {
    const kernel = await this.#openOther();
    return { source, bytes: 0, kernel, handle: await kernel.load(source) };
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
      if (this.#hasFailed && part.kernel === this.#device) Object.assign(part, await this.#loadElsewhere(part.source));
      found.push(part);
    }
    return found;
  }

  async *scan(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    options: ScanOptions = {},
  ): AsyncIterable<ScanResult> {
    options.signal?.throwIfAborted();
    const parts = await this.#find(handles);
    const outer = new Map(parts.map(({ handle }, i) => [handle, handles[i]]));
    const kernels = [...new Set(parts.map(({ kernel }) => kernel))];
    const scans = kernels.map((kernel) =>
      kernel.scan(
        parts.filter((part) => part.kernel === kernel).map(({ handle }) => handle),
        queries,
        options,
      ),
    );
    try {
      for await (const result of scans.length === 1 ? scans[0] : together(scans))
        yield { ...result, handle: outer.get(result.handle)! };
    } catch (error) {
      this.#sawFailure(error);
      throw error;
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
    try {
      return await this.#device.keep!(
        parts.map(({ handle }) => handle),
        queries,
        options,
      );
    } catch (error) {
      if (isOf(error, 'UNSUPPORTED_PLAN')) return undefined;
      this.#sawFailure(error);
      throw error;
    }
  }

  async unload(handle: SegmentHandle): Promise<void> {
    const part = this.#parts.get(handle);
    if (!part) return;
    this.#parts.delete(handle);
    await part.kernel.unload(part.handle);
    this.#used -= part.bytes;
  }

  async close(): Promise<void> {
    await this.#device.close();
    await (await this.#other?.catch(() => undefined))?.close();
  }
}

const isOf = (error: unknown, code: string) => error instanceof HersError && error.code === code;

/** What all of them find, as it comes. However it is left, all of them end. */
async function* together(scans: readonly AsyncIterable<ScanResult>[]): AsyncGenerator<ScanResult> {
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

type Step = Promise<{ readonly scan: AsyncIterator<ScanResult>; readonly result: IteratorResult<ScanResult> }>;
