// One running call of `scan`: the stage it needs next, and the results that its consumer has not
// taken.
//
// The queries of a pass are prepared, then every segment is scanned for them. Queries that do not
// fit together are answered in several passes. A slow consumer stops the supply. Between two stages
// a scan can be asked to give up its slices; it then prepares its queries again later. So scans
// with slow consumers never keep memory from those that could run.

import { givenRows, HersError, polyWords, type Query, responseHead } from '@hers/scheme';
import { CHECKSUM_BYTES, RESPONSE_LAYOUT } from '@hers/scheme/layout';
import type { ScanResult, SegmentHandle } from '../kernel.ts';
import { damagedPart } from '../reference.ts';
import type { Crew, StageListener, StageOrder } from './wasm-crew.ts';
import type { WasmMemory } from './wasm-memory.ts';
import { MAX_QUERIES, type StageQuery, type StageRing } from './wasm-stage.ts';

/**
 * No further segment is started while more than this many bytes of results, promised or delivered,
 * have not been taken.
 */
const BACKLOG_BYTES = 2 ** 25;
/**
 * Rows of a query are copied to the threads in pieces of this size, so that the event loop runs in
 * between.
 */
const PIECE_BYTES = 2 ** 22;

export interface ScanSegment {
  readonly handle: SegmentHandle;
  readonly id: number;
  readonly ring: StageRing;
}

/** The outcome of an attempt to send the next stage: sent, not needed now, or no memory for it. */
export type Advance = 'sent' | 'idle' | 'starved';

export class Scan {
  readonly #crew: Crew;
  readonly #memory: WasmMemory;
  readonly #segments: readonly ScanSegment[];
  readonly #queries: readonly Query[];
  readonly #perPass: number;
  readonly #changed: () => void;

  #firstQuery = 0;
  #pass: readonly StageQuery[];
  /**
   * Rows of all queries of the pass that were sent for preparation, and segments that were sent for
   * scanning.
   */
  #rowsSent = 0;
  #segmentsSent = 0;
  #slices: number | undefined;
  readonly #flights = new Set<() => void>();

  #waiting: ScanResult[] = [];
  #backlog = 0;
  #stopped = false;
  #complete = false;
  #error: unknown;
  #wake: (() => void) | undefined;

  /**
   * `changed` is called when a stage has ended. There must be at least one segment and one query,
   * all of one shape.
   */
  constructor(
    crew: Crew,
    memory: WasmMemory,
    segments: readonly ScanSegment[],
    queries: readonly Query[],
    changed: () => void,
  ) {
    this.#crew = crew;
    this.#memory = memory;
    this.#segments = segments;
    this.#queries = queries;
    this.#changed = changed;
    const blocks = segments.reduce((most, { handle }) => Math.max(most, handle.header.blocks.length), 1);
    const slices = Math.floor(memory.slicesBytes / this.#sliceBytes);
    const results = Math.floor(memory.resultsBytes / (8 * this.#words * blocks));
    this.#perPass = Math.max(1, Math.min(MAX_QUERIES, slices, results));
    this.#pass = this.#passFrom(0);
  }

  get #words(): number {
    return polyWords(this.#queries[0].parameters);
  }
  get #rows(): number {
    return this.#segments[0].handle.header.rows;
  }
  get #sliceBytes(): number {
    return 8 * this.#words * this.#rows;
  }

  #passFrom(first: number): StageQuery[] {
    this.#firstQuery = first;
    return this.#queries.slice(first, first + this.#perPass).map(stageQuery);
  }

  /** Whether it uses any thread or its memory. */
  get isBusy(): boolean {
    return this.#flights.size > 0 || this.#slices !== undefined;
  }

  /** Whether all stages have been sent. */
  get #isSupplied(): boolean {
    const isLast = this.#firstQuery + this.#pass.length === this.#queries.length;
    return isLast && this.#segmentsSent === this.#segments.length;
  }

  /** The bytes of results of the next segment. */
  get #nextBytes(): number {
    const { blocks } = this.#segments[this.#segmentsSent % this.#segments.length].handle.header;
    return blocks.length * this.#pass.reduce((sum, query) => sum + query.bytes, 0);
  }

  /** Whether the consumer must take something first. */
  get #isHeldUp(): boolean {
    return this.#backlog > 0 && this.#backlog + this.#nextBytes > BACKLOG_BYTES;
  }

  advance(): Advance {
    if (this.#stopped || this.#isSupplied) return 'idle';
    if (this.#segmentsSent === this.#segments.length) {
      // The next pass takes the memory of this one.
      if (this.#flights.size > 0) return 'idle';
      this.#pass = this.#passFrom(this.#firstQuery + this.#pass.length);
      this.#segmentsSent = 0;
      this.#rowsSent = 0;
    }
    if (this.#isHeldUp) return 'idle';
    this.#slices ??= this.#memory.take(this.#sliceBytes * this.#pass.length);
    if (this.#slices === undefined) return 'starved';
    return this.#rowsSent < this.#rows * this.#pass.length ? this.#prepare(this.#slices) : this.#scan(this.#slices);
  }

  #prepare(slices: number): Advance {
    const rows = this.#rows;
    const words = this.#words;
    const index = Math.floor(this.#rowsSent / rows);
    const query = this.#queries[this.#firstQuery + index];
    const first = this.#rowsSent % rows;
    const count = Math.min(rows - first, Math.max(1, Math.floor(PIECE_BYTES / (4 * words))));
    const given = givenOf(query, first, count, words);
    const from = this.#memory.take(4 * (words * count + given.words.length));
    if (from === undefined) return 'starved';
    const piece = new Uint32Array(this.#memory.memory.buffer, from, words * count + given.words.length);
    piece.set(query.rows.subarray(words * first, words * (first + count)));
    piece.set(given.words, words * count);
    const others = { first: given.first, count: given.words.length / words, at: from + 4 * words * count };
    this.#rowsSent += count;
    const { ring } = this.#segments[0];
    const at = slices + this.#sliceBytes * index;
    return this.#send(
      { kind: 'prepare', ring, seed: new Uint8Array(query.seed), rows, first, count, given: others, from, slices: at },
      from,
    );
  }

  #scan(slices: number): Advance {
    const segment = this.#segments[this.#segmentsSent];
    const { handle } = segment;
    const results = this.#memory.take(8 * this.#words * this.#pass.length * handle.header.blocks.length);
    if (results === undefined) return 'starved';
    this.#backlog += this.#nextBytes;
    this.#segmentsSent++;
    const order = { kind: 'scan', segment: segment.id, queries: this.#pass, slices, results } as const;
    const pass = this.#pass;
    const firstQuery = this.#firstQuery;
    return this.#send(order, results, {
      results: (first, bytes) => {
        if (this.#stopped) return;
        for (let block = first, at = 0; at < bytes.length; block++) {
          for (let i = 0; i < pass.length; i++) {
            const response = bytes.subarray(at, (at += pass[i].bytes));
            this.#waiting.push({ handle, block, query: firstQuery + i, response });
          }
        }
        this.#wake?.();
      },
      damaged: (part) => this.stop(damagedPart(handle.name, part)),
      failed: (message) => this.stop(new Error(`${handle.name} could not be scanned: ${message}`)),
    });
  }

  /** Sends a stage that owns the range of memory `taken` until its end. */
  #send(order: StageOrder, taken: number, listener: Partial<StageListener> = {}): Advance {
    const stop = this.#crew.send(order, {
      results: () => {},
      damaged: () => {},
      failed: (message) => this.stop(new Error(`the query could not be prepared: ${message}`)),
      ...listener,
      left: () => {
        this.#memory.give(taken);
        this.#flights.delete(stop);
        if (this.#flights.size === 0 && (this.#stopped || this.#isSupplied)) this.end();
        this.#changed();
      },
    });
    this.#flights.add(stop);
    return 'sent';
  }

  /** Gives up its slices if it cannot use them now; returns whether it did. */
  yieldSlices(): boolean {
    if (this.#slices === undefined || this.#flights.size > 0 || !this.#isHeldUp) return false;
    this.#memory.give(this.#slices);
    this.#slices = undefined;
    this.#rowsSent = 0;
    return true;
  }

  /**
   * Ends it early. Pending calls for a result fail at once; `ended` resolves when the threads have
   * left.
   */
  stop(error?: unknown): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#error = error;
    this.#waiting = [];
    for (const stop of this.#flights) stop();
    if (this.#flights.size === 0) this.end();
    this.#wake?.();
  }

  readonly #ended = Promise.withResolvers<void>();
  /** No thread works on this scan any more. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Releases everything, whatever the threads may still be doing. */
  end(): void {
    if (this.#slices !== undefined) this.#memory.give(this.#slices);
    this.#slices = undefined;
    this.#complete = true;
    this.#ended.resolve();
    this.#wake?.();
  }

  /** The next result, or undefined after the last. */
  async next(): Promise<ScanResult | undefined> {
    for (;;) {
      if (this.#error !== undefined) throw this.#error;
      const result = this.#waiting.shift();
      if (result) {
        this.#backlog -= result.response.length;
        return result;
      }
      if (this.#complete || this.#stopped) return undefined;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      await promise;
    }
  }
}

/** Those uniform halves of some rows that are given: of rounded rows all, of others only theirs. */
function givenOf(query: Query, first: number, count: number, words: number): ReturnType<typeof givenRows> {
  if (query.masks) return { first, words: query.masks.subarray(words * first, words * (first + count)) };
  return first + count > query.width ? givenRows(query) : { first, words: new Uint32Array() };
}

/** Makes what the responses to a query have in common. */
function stageQuery(query: Query): StageQuery {
  const { parameters, bits0, bits1 } = query;
  if (!(bits0 >= 1 && bits0 <= bits1 && bits1 <= 32))
    throw new HersError('MALFORMED', `a response cannot have ${bits0} and ${bits1} bits`);
  const bytes = RESPONSE_LAYOUT.body + (parameters.n * (bits0 + bits1)) / 8 + CHECKSUM_BYTES;
  return { head: responseHead(query), bytes, bits0, bits1 };
}
