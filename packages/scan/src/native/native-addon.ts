// The native addon (packages/scan/native) as TypeScript sees it. This side checks all arguments;
// handles are opaque here.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Modulus } from '@hers/ring';
import { addonName, thisMachine } from '@hers/ring/machine';

/** Instruction sets that the addon has code for, best first. */
const ISAS = ['avx512ifma', 'avx512', 'avx2', 'generic'] as const;
export type Isa = (typeof ISAS)[number];

declare const kind: unique symbol;
type Opaque<Name extends string> = { readonly [kind]: Name };
export type PoolRef = Opaque<'pool'>;
export type RingRef = Opaque<'ring'>;
export type SegmentRef = Opaque<'segment'>;
export type QueryRef = Opaque<'query'>;
export type ScanRef = Opaque<'scan'>;

export interface NativeLayout {
  readonly rows: number;
  readonly panelRows: number;
  readonly packed: boolean;
  readonly dataAt: number;
  /** 24 bytes for each block: its id, first and count. */
  readonly table: Uint8Array;
  readonly partChecksums: BigUint64Array;
}

/**
 * A batch: its bytes, and five numbers for each response (segment, block, query, offset, length).
 * Or no bytes, and the ending: see native-run.ts.
 */
export type Deliver = (buffer: ArrayBuffer | null, numbers: Uint32Array | number[]) => void;

export interface Addon {
  readonly stamp: string;
  /** The instruction sets of this machine, best first. */
  variants(): Isa[];
  createPool(threads: number): PoolRef;
  closePool(pool: PoolRef): void;
  createRing(isa: Isa, n: number, moduli: readonly Modulus[]): RingRef;
  /**
   * Maps the file behind a descriptor, which may be closed afterwards. Throws with the code ENODATA
   * if the file is shorter than the layout says.
   */
  mapSegment(descriptor: number, layout: NativeLayout): SegmentRef;
  allocateSegment(layout: NativeLayout): SegmentRef;
  writeSegment(segment: SegmentRef, offset: number, bytes: Uint8Array): void;
  freeSegment(pool: PoolRef, segment: SegmentRef): void;
  /**
   * `words` of rows, then of the uniform halves that are given, from row `width` on; `writeQuery`
   * fills them.
   */
  createQuery(
    pool: PoolRef,
    words: number,
    width: number,
    bits0: number,
    bits1: number,
    seed: Uint8Array,
    head: Uint8Array,
  ): QueryRef;
  writeQuery(query: QueryRef, offset: number, words: Uint32Array): void;
  startScan(
    pool: PoolRef,
    ring: RingRef,
    segments: readonly SegmentRef[],
    queries: readonly QueryRef[],
    domain: number,
    multiplyOnly: boolean,
    deliver: Deliver,
  ): ScanRef;
  stopScan(scan: ScanRef): void;
  releaseBatch(scan: ScanRef): void;
  holdLoop(scan: ScanRef, hold: boolean): void;
  /**
   * Returns freed memory to the system, and from now on also buffers of at least this many bytes as
   * soon as they are freed. Applies to the whole process.
   */
  returnFreedMemory(least: number): void;
}

const build = join(import.meta.dirname, '../../build');
const published = join(build, addonName('scan', thisMachine()));

export const ADDON_PATH: string = existsSync(published) ? published : join(build, 'hers_scan.node');

/** Throws an error that says why there is no addon. */
export function loadAddon(path: string = ADDON_PATH): Addon {
  if (!existsSync(path))
    throw new Error(
      `there is no addon for ${process.platform} ${process.arch}; in a clone, a C++ compiler and \`npm run build\` make it`,
    );
  const module = { exports: {} };
  process.dlopen(module, path);
  return module.exports as Addon;
}

/**
 * Bytes of buffers that are returned to the system. Queries are smaller: to map memory for each
 * takes a fifth of the CPU of a small search (docs/tuning.md).
 */
const RETURNED_BYTES = 2 ** 21;
let addon: Addon | undefined;

/**
 * Returns freed memory to the system, and from now on also large buffers as soon as they are freed,
 * where the allocator would keep them. For a process that serves many clients. Does nothing if
 * there is no addon.
 */
export function returnFreedMemory(): void {
  try {
    addon ??= loadAddon();
    addon.returnFreedMemory(RETURNED_BYTES);
  } catch {}
}
