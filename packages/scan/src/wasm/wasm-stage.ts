// Messages and memory that the main thread and the threads of the WebAssembly kernel share.
//
// Work comes in stages. Every thread goes through them in the order in which they were sent. A
// stage *prepares* some rows of a query, or *scans* one segment for the queries of a pass. Threads
// take the tasks of a stage one by one from a counter in shared memory. Results come back as
// messages. At the end of a stage every thread sends one more; after the last of them, nothing is
// missing.
//
// This file imports nothing at run time, so that a thread starts fast.

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
  readonly verify: number;
  /** The multiply-accumulate and its reduction. */
  readonly multiply: number;
  /** Inverse transforms, switching, packing, framing. */
  readonly finish: number;
}
export const TIMES = ['prepare', 'read', 'verify', 'multiply', 'finish'] as const;

export interface ThreadData {
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
  readonly threads: number;
  /** Where this thread's area begins. */
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
  | { readonly kind: 'left'; readonly id: number };

// A thread's own area in the shared memory of the WebAssembly kernel: the state of a checksum, a
// key of the generator, a window through which it reads segments, and the sums of a slot group
// between panels. Outside the multiply-accumulate, the window is scratch space.

/**
 * With more queries the sums no longer fit the cache, and another pass over the gallery costs no
 * more.
 */
export const MAX_QUERIES = 32;

export const STATE_AT = 0;
export const KEY_AT = 64;
export const WINDOW_AT = 128;
/** Four full panels of 64 blocks. Smaller reads were slower, larger ones not faster. */
export const WINDOW_BYTES: number = 2 ** 21;
export const SUMS_AT: number = WINDOW_AT + WINDOW_BYTES;
/** Of one block and query: 16 lanes of C0 and C1, 64 bits each. */
const PAIR_BYTES = 256;
const MAX_BLOCKS = 64;
export const AREA_BYTES: number = SUMS_AT + MAX_BLOCKS * MAX_QUERIES * PAIR_BYTES;

// The counters of one stage, in shared memory: which tasks are taken, how many are done, and
// whether to stop.

/** 32-bit words of one stage: a cache line. */
export const STAGE_WORDS = 16;

const NEXT = 0; // the first task that is not taken
const DONE = 1; // tasks finished, on which threads wait
const NEXT_AFTER = 2; // the same as NEXT, for the tasks after the wait
const STOP = 3;
/** Threads check again after this many milliseconds, in case a notification is lost. */
const PATIENCE = 10;

export class Counters {
  readonly #words: Int32Array;

  constructor(control: Int32Array, slot: number) {
    this.#words = control.subarray(STAGE_WORDS * slot, STAGE_WORDS * (slot + 1));
  }

  reset(): void {
    for (let i = 0; i < STAGE_WORDS; i++) Atomics.store(this.#words, i, 0);
  }

  get stopped(): boolean {
    return Atomics.load(this.#words, STOP) !== 0;
  }

  /** All threads leave the stage as soon as they can. */
  stop(): void {
    Atomics.store(this.#words, STOP, 1);
    Atomics.notify(this.#words, DONE);
  }

  /**
   * Runs tasks 0 … tasks − 1, each in one of the threads. Returns when all threads have finished
   * theirs.
   */
  together(tasks: number, run: (task: number) => void): void {
    for (let task: number; !this.stopped && (task = Atomics.add(this.#words, NEXT, 1)) < tasks; ) {
      run(task);
      if (Atomics.add(this.#words, DONE, 1) + 1 === tasks) Atomics.notify(this.#words, DONE);
    }
    for (let done: number; !this.stopped && (done = Atomics.load(this.#words, DONE)) < tasks; )
      Atomics.wait(this.#words, DONE, done, PATIENCE);
  }

  /** The tasks after that; returns when none is left to take. */
  after(tasks: number, run: (task: number) => void): void {
    for (let task: number; !this.stopped && (task = Atomics.add(this.#words, NEXT_AFTER, 1)) < tasks; ) run(task);
  }
}
