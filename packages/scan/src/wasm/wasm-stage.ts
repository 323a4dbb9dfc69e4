// The messages between the main thread and the threads of the WebAssembly kernel.
//
// Work comes in stages. Every thread goes through them in the order in which they were sent. A
// stage *prepares* some rows of a query, or *scans* one segment for the queries of a pass. Threads
// take the tasks of a stage one by one from a counter in shared memory. Results come back as
// messages. At the end of a stage every thread sends one more; after the last of them, nothing is
// missing.
//
// This file, wasm-area.ts and wasm-counters.ts import nothing at run time, so that a thread starts
// fast.

import type { PanelRun } from '../segment.ts';
import type { WasmModulus } from './wasm-memory.ts';

/**
 * How many stages the threads may have at once: the second keeps them busy while the main thread
 * handles the end of the first.
 */
export const STAGES = 2;

/** Milliseconds spent, summed over the threads. */
export interface WasmTimes {
  /** Expanding and transposing queries. */
  readonly prepare: number;
  /** Copying segments into the windows. */
  readonly read: number;
  /** Checksums of parts seen for the first time. */
  readonly verify: number;
  /** The multiply-accumulate and its reduction. */
  readonly multiply: number;
  /** Inverse transforms, switching, packing, framing. */
  readonly finish: number;
}
export const TIMES: ['prepare', 'read', 'verify', 'multiply', 'finish'] = [
  'prepare',
  'read',
  'verify',
  'multiply',
  'finish',
] as const satisfies (keyof WasmTimes)[];

export interface ThreadData {
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
  readonly threads: number;
  /** This thread's area (wasm-area.ts). */
  readonly area: number;
  readonly control: Int32Array;
  /** This thread's sums of milliseconds, in the order of TIMES. */
  readonly times: Float64Array;
}

export interface StageRing {
  readonly n: number;
  /** The bit length of the primes. */
  readonly bits: number;
  readonly moduli: readonly WasmModulus[];
}

/** A segment, sent once to every thread. */
export interface StageSegment {
  readonly id: number;
  readonly ring: StageRing;
  readonly rows: number;
  /** The rows of a block in the order of the data (segment.ts), and whether they are packed. */
  readonly panels: readonly PanelRun[];
  readonly packed: boolean;
  readonly blocks: readonly { readonly blockId: Uint8Array; readonly first: number; readonly count: number }[];
  /**
   * A file descriptor, which belongs to the process and is read at given positions, or the bytes in
   * shared memory.
   */
  readonly source: number | Uint8Array;
  readonly dataAt: number;
  readonly partBytes: number;
  readonly partChecksums: BigUint64Array;
  /** In shared memory: 1 for every verified part. */
  readonly verified: Uint8Array;
}

export interface PrepareStage {
  readonly kind: 'prepare';
  readonly id: number;
  readonly slot: number;
  readonly ring: StageRing;
  readonly seed: Uint8Array;
  /** Rows of the query, and which of them are prepared. */
  readonly rows: number;
  readonly first: number;
  readonly count: number;
  /** The uniform halves of these rows, if they are not expanded from the seed; otherwise empty. */
  readonly given: { readonly first: number; readonly count: number; readonly at: number };
  /** These rows as they came, and the slices of the query. */
  readonly from: number;
  readonly slices: number;
}

/**
 * The beginning of the response to one query, as encodeResponse wrote it for no particular block,
 * and its length.
 */
export interface StageQuery {
  readonly head: Uint8Array;
  readonly bytes: number;
  readonly bits0: number;
  readonly bits1: number;
}

export interface ScanStage {
  readonly kind: 'scan';
  readonly id: number;
  readonly slot: number;
  readonly segment: number;
  readonly queries: readonly StageQuery[];
  readonly slices: number;
  /** C0 and C1 of every (block, query). */
  readonly results: number;
}

export type Stage = PrepareStage | ScanStage;

export type ToThread =
  | Stage
  | { readonly kind: 'load'; readonly segment: StageSegment }
  | { readonly kind: 'unload'; readonly segment: number };

export type FromThread =
  | { readonly kind: 'ready' }
  /** Responses of consecutive blocks, for each block those of all queries. */
  | { readonly kind: 'results'; readonly id: number; readonly block: number; readonly bytes: Uint8Array }
  | { readonly kind: 'damaged'; readonly id: number; readonly part: number }
  | { readonly kind: 'failed'; readonly id: number; readonly message: string }
  /** This thread has left the stage. */
  | { readonly kind: 'left'; readonly id: number };
