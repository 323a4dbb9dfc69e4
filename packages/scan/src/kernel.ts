// The interface behind which every kernel lives. Ten lines of contract:
//
// - `load` opens a segment (a file, or bytes in memory which the kernel copies) and checks its
//   header; `unload` frees it. A handle belongs to the kernel that made it; scanning an unloaded
//   one is an error; unloading while a scan runs waits for it.
// - `scan` answers every query against every block of every handle and yields each response as soon
//   as it is ready, in any order. The gallery is read once for all queries of a call. Responses of
//   all kernels are identical to the byte.
// - The first scan of a part verifies its checksum; a mismatch rejects the scan with DAMAGED and
//   names file and part. A file that is cut, or cannot be read, while it is loaded does the same to
//   scans of it and to no others; who brings it back loads it again.
// - The event loop is never blocked; an aborted signal ends the scan within 50 ms with the signal's
//   reason; leaving the loop early ends it too.
// - Memory stays bounded whatever the segments' sizes.

import { HersError, polyWords, type Query } from '@hers/scheme';
import type { SegmentHeader } from './segment.ts';

/** Where a segment is: a file, or its bytes. */
export type SegmentSource = { readonly path: string } | { readonly bytes: Uint8Array; readonly name: string };

export interface SegmentHandle {
  /** The path, or the name given with the bytes. */
  readonly name: string;
  readonly header: SegmentHeader;
}

export interface ScanResult {
  readonly handle: SegmentHandle;
  /** Index of the block within the segment, and of the query within the call. */
  readonly block: number;
  readonly query: number;
  /**
   * The encoded response (scheme's wire format). A view: responses of neighbouring blocks may share
   * its buffer.
   */
  readonly response: Uint8Array;
}

export interface ScanOptions {
  readonly signal?: AbortSignal;
  /**
   * Each response is used before the next one is asked for, so that its memory can be freed then,
   * and is not left to the garbage collector.
   */
  readonly passing?: boolean;
}

/** Responses that stay in the memory of a device: every query's to every block of every handle. */
export interface KeptScan {
  /** For an addon of the same process that decrypts. */
  readonly handle: object;
  /** The number of the device. */
  readonly device: number;
  /** Frees them; nothing may use the handle any more. */
  forget(): void;
}

/** A device, and how much of the gallery is on it. */
export interface DeviceUse {
  /** Bytes of segments on the device, and bytes of its memory, in all and free. */
  readonly used: number;
  readonly memory: number;
  readonly free: number;
  /**
   * Segments on the device, segments that it fetches from the host's memory for every scan, and
   * segments that the CPU scans.
   */
  readonly segments: number;
  readonly turns: number;
  readonly elsewhere: number;
  /** Whether it failed, so that the CPU scans everything. */
  readonly hasFailed: boolean;
  /** Measures how fast its memory is copied: bytes read and written in a second. */
  copySpeed(): number;
  /** The same from the host's memory to its own. */
  linkSpeed(): number;
}

export interface Kernel {
  readonly name: string;
  /** For people: instruction set, threads. */
  readonly detail: string;
  load(source: SegmentSource): Promise<SegmentHandle>;
  scan(handles: readonly SegmentHandle[], queries: readonly Query[], options?: ScanOptions): AsyncIterable<ScanResult>;
  /** The same, with all that came together in one piece: no promise for each response. */
  batches?(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    options?: ScanOptions,
  ): AsyncIterable<readonly ScanResult[]>;
  /**
   * The same as `scan`, where the kernel can leave responses on its device: in the order of the
   * handles, and of the blocks in each. Undefined where it cannot do so now.
   */
  keep?(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    options?: ScanOptions,
  ): Promise<KeptScan | undefined>;
  /** What a device beside the CPU holds, where the kernel has one. */
  device?(): DeviceUse;
  unload(handle: SegmentHandle): Promise<void>;
  /** Frees everything, threads included. */
  close(): Promise<void>;
}

/** What a kernel finds, several at a time where it can do so. */
export async function* batchesOf(
  kernel: Kernel,
  handles: readonly SegmentHandle[],
  queries: readonly Query[],
  options?: ScanOptions,
): AsyncGenerator<readonly ScanResult[]> {
  if (kernel.batches) yield* kernel.batches(handles, queries, options);
  else for await (const result of kernel.scan(handles, queries, options)) yield [result];
}

/** The kernels of this package; others are registered. */
export const KERNEL_NAMES = ['native', 'wasm', 'reference'] as const;
export type KernelName = (typeof KERNEL_NAMES)[number];

/**
 * Throws unless all queries were made for the key and the plan of all segments. Every kernel checks
 * this before it starts.
 */
export function checkComparable(handles: readonly SegmentHandle[], queries: readonly Query[]): void {
  for (const { name, header } of handles) {
    for (const query of queries) {
      if (header.parameters.id !== query.parameters.id || Buffer.compare(header.keyId, query.keyId) !== 0) {
        throw new HersError(
          'KEY_MISMATCH',
          `${name} belongs to another key than the query: ask with the key it was made with`,
        );
      }
      if (header.width !== query.width || header.galleryScale !== query.galleryScale) {
        throw new HersError(
          'BLOCK_MISMATCH',
          `${name} was made under another plan than the query: ask with the same plan`,
        );
      }
      if (query.rows.length !== header.rows * polyWords(header.parameters)) {
        throw new HersError('MALFORMED', 'the query does not have the rows that its plan asks for');
      }
    }
  }
}
