// One call of `scan` in the addon: receives its batches, and ends it.

import { HersError } from '@hers/scheme';
import type { ScanResult, SegmentHandle } from '../kernel.ts';
import { damagedPart } from '../reference.ts';
import type { Addon, Deliver, ScanRef } from './native-addon.ts';

/**
 * Milliseconds: summed over all threads for each kind of work; and wall time until the first
 * multiplication and until the end.
 */
export interface NativeTimes {
  readonly expand: number;
  readonly verify: number;
  readonly multiply: number;
  readonly respond: number;
  readonly untilMultiply: number;
  readonly untilEnd: number;
}

export interface Batch {
  readonly buffer: ArrayBuffer;
  /** For each response: segment, block, query, offset, length. */
  readonly entries: Uint32Array;
}

// The addon's numbers for how a scan ended.
const DONE = 1;
const STOPPED = 2;
const DAMAGED = 3;
const CUT = 4;
const UNREADABLE = 6;
const CHANGED = 7;

/** Results that are handed on in one piece: what that takes must not hold up the event loop. */
const MOST_TOGETHER = 1024;

/** What an addon does for a scan that runs. */
export type Steering = Pick<Addon, 'stopScan' | 'releaseBatch' | 'holdLoop'>;

export class NativeRun {
  readonly #addon: Steering;
  readonly #failure: typeof failure;
  readonly #names: readonly string[];
  readonly #scan: ScanRef;
  readonly #batches: Batch[] = [];
  #wake: (() => void) | undefined;
  #settle!: () => void;
  #isOver = false;
  #isStopped = false;
  #error: { readonly reason: unknown } | undefined;
  #times: NativeTimes | undefined;

  /** Resolves when no thread works for it any more. */
  readonly ended: Promise<void> = new Promise<void>((resolve) => {
    this.#settle = resolve;
  });

  /** `names` are the segments' names, for errors; `fail` makes another addon's errors. */
  constructor(
    addon: Steering,
    names: readonly string[],
    start: (deliver: Deliver) => ScanRef,
    fail: typeof failure = failure,
  ) {
    this.#addon = addon;
    this.#failure = fail;
    this.#names = names;
    this.#scan = start((buffer, numbers) => this.#receive(buffer, numbers));
    addon.holdLoop(this.#scan, false);
  }

  /** Available once it has ended. */
  get times(): NativeTimes | undefined {
    return this.#times;
  }

  #receive(buffer: ArrayBuffer | null, numbers: Uint32Array | number[]): void {
    if (buffer) {
      if (this.#isStopped) this.#addon.releaseBatch(this.#scan);
      else this.#batches.push({ buffer, entries: numbers as Uint32Array });
    } else {
      this.#end(numbers as number[]);
    }
    this.#wake?.();
  }

  #end([outcome, segment, part, expand, verify, multiply, respond, untilMultiply, untilEnd]: readonly number[]): void {
    this.#isOver = true;
    this.#times = { expand, verify, multiply, respond, untilMultiply, untilEnd };
    if (outcome !== DONE && outcome !== STOPPED) {
      // An error is thrown even if earlier results have not been taken.
      this.#error ??= { reason: this.#failure(outcome, this.#names[segment], part) };
      this.#batches.length = 0;
    }
    this.#settle();
  }

  /** The next batch as soon as there is one; undefined at the end. */
  async next(): Promise<Batch | undefined> {
    while (this.#batches.length === 0 && !this.#isOver && !this.#isStopped) {
      this.#addon.holdLoop(this.#scan, true);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
      if (!this.#isStopped) this.#addon.holdLoop(this.#scan, false);
    }
    if (this.#error) throw this.#error.reason;
    const batch = this.#batches.shift();
    if (batch) this.#addon.releaseBatch(this.#scan);
    // A GPU delivers faster than batches are read: several come in one turn of the event loop, even
    // to one who waits for each. Timers must run in between.
    if (batch) await new Promise(setImmediate);
    return batch;
  }

  stop(reason?: unknown): void {
    if (this.#isStopped) return;
    this.#isStopped = true;
    if (!this.#isOver) {
      if (reason !== undefined) this.#error ??= { reason };
      // From here on, waiting for the end takes a few milliseconds, and the event loop must stay
      // alive for it.
      this.#addon.holdLoop(this.#scan, true);
      this.#addon.stopScan(this.#scan);
    }
    this.#batches.length = 0;
    this.#wake?.();
  }
}

function failure(outcome: number, name: string, part: number): Error {
  if (outcome === DAMAGED) return damagedPart(name, part);
  if (outcome === CUT) return cutFile(name);
  if (outcome === UNREADABLE)
    return new HersError(
      'DAMAGED',
      `${name} could not be read: the disk reports an error, or it was cut for a while; restore it from a copy, and open it again`,
    );
  if (outcome === CHANGED)
    return new HersError(
      'DAMAGED',
      `${name} was changed while it was being scanned, which no segment ever is; search again, and restore it from a copy if that fails`,
    );
  return new HersError('UNSUPPORTED_PLAN', 'there is not enough memory for this search; ask less at once');
}

/** The error for a file that had the length in its header when it was opened. */
export function cutFile(name: string): HersError {
  return new HersError('DAMAGED', `${name} ends too soon: it was cut while it was open; restore it from a copy`);
}

/**
 * What a run finds, as it comes. However it is left, the run ends. Memory that is only `passing` is
 * freed as soon as what follows is asked for.
 */
export async function* batchesFrom(
  run: NativeRun,
  handles: readonly SegmentHandle[],
  checkOpen: () => void,
  signal: AbortSignal | undefined,
  passing = false,
): AsyncGenerator<readonly ScanResult[]> {
  const abort = () => run.stop(signal?.reason);
  signal?.addEventListener('abort', abort, { once: true });
  try {
    for (let batch = await run.next(); batch; batch = await run.next()) {
      signal?.throwIfAborted();
      checkOpen();
      const { buffer, entries } = batch;
      for (let first = 0; first < entries.length; first += 5 * MOST_TOGETHER) {
        const results: ScanResult[] = [];
        const end = Math.min(entries.length, first + 5 * MOST_TOGETHER);
        for (let i = first; i < end; i += 5) {
          const response = new Uint8Array(buffer, entries[i + 3], entries[i + 4]);
          results.push({ handle: handles[entries[i]], block: entries[i + 1], query: entries[i + 2], response });
        }
        yield results;
        signal?.throwIfAborted();
        checkOpen();
      }
      if (passing && typeof buffer.transfer === 'function') buffer.transfer(0);
    }
  } finally {
    signal?.removeEventListener('abort', abort);
    run.stop();
  }
}

/** The same one by one; between two of them, a signal or a closed kernel ends it. */
export async function* resultsOf(
  batches: AsyncIterable<readonly ScanResult[]>,
  checkOpen: () => void,
  signal: AbortSignal | undefined,
): AsyncGenerator<ScanResult> {
  for await (const batch of batches)
    for (const result of batch) {
      signal?.throwIfAborted();
      checkOpen();
      yield result;
    }
}
