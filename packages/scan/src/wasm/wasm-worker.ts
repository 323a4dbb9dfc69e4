// One thread of the WebAssembly kernel. It runs the stages that it is sent, one after the other:
// preparing rows of a query, the multiply-accumulate of slot groups, the responses of blocks.

import { readSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { CHECKSUM_BYTES, QUERY_MASK, RESPONSE_LAYOUT } from '@hers/scheme/layout';
import type { KernelExports } from '../../build/kernel.ts';
import { instantiate } from './wasm-module.ts';
import {
  Counters,
  type FromThread,
  KEY_AT,
  type PrepareStage,
  type ScanStage,
  STATE_AT,
  type Stage,
  type StageSegment,
  SUMS_AT,
  type ThreadData,
  TIMES,
  type ToThread,
  WINDOW_AT,
  WINDOW_BYTES,
} from './wasm-stage.ts';

/**
 * A row of a block within one slot group: 16 lanes of 4 bytes; and a row of a query's slice, B and
 * A.
 */
const ROW_BYTES = 64;
const SLICE_ROW_BYTES = 128;
/** Rows of a query that are transposed together. */
const PREPARE_ROWS = 8;
/**
 * A task reads at least this much of a segment, and a message carries about this much of results,
 * if that leaves work for all threads.
 */
const TASK_BYTES = 2 ** 21;
const MESSAGE_BYTES = 2 ** 16;
/** A part of a segment does not match its checksum. */
class Damaged extends Error {
  readonly part: number;
  constructor(part: number) {
    super(`part ${part}`);
    this.part = part;
  }
}

class Thread {
  readonly #wasm: KernelExports;
  readonly #area: number;
  readonly #window: number;
  readonly #bytes: Uint8Array; // the window's
  readonly #view: DataView;
  readonly #key: Uint8Array;
  readonly #threads: number;
  readonly #times: Float64Array;

  constructor({ module, memory, area, threads, times }: ThreadData) {
    this.#wasm = instantiate(module, memory);
    this.#area = area;
    this.#window = area + WINDOW_AT;
    // Memory grows beyond the area, so these stay valid.
    this.#bytes = new Uint8Array(memory.buffer, this.#window, WINDOW_BYTES);
    this.#view = new DataView(memory.buffer, this.#window, WINDOW_BYTES);
    this.#key = new Uint8Array(memory.buffer, area + KEY_AT, 32);
    this.#threads = threads;
    this.#times = times;
  }

  #spent(on: (typeof TIMES)[number], start: number): number {
    const now = performance.now();
    this.#times[TIMES.indexOf(on)] += now - start;
    return now;
  }

  /**
   * How many of `count` items make a task: this many bytes, but fewer if a thread would have
   * nothing to do.
   */
  #perTask(count: number, bytesOfOne: number, bytes: number): number {
    return Math.max(1, Math.min(Math.floor(bytes / bytesOfOne), Math.ceil(count / this.#threads)));
  }

  /**
   * Expands the uniform halves of some rows from the query's seed and moves both halves to their
   * places in the slices.
   */
  prepare({ ring, seed, rows, first, count, given, from, slices }: PrepareStage, counters: Counters): void {
    const { n, moduli } = ring;
    const words = n * moduli.length;
    const keystream = this.#window + 4 * words * PREPARE_ROWS;
    this.#key.set(seed);
    counters.together(Math.ceil(count / PREPARE_ROWS), (task) => {
      const start = performance.now();
      const at = task * PREPARE_ROWS;
      const some = Math.min(PREPARE_ROWS, count - at);
      for (let k = 0; k < some; k++) {
        const other = first + at + k - given.first;
        if (other >= 0 && other < given.count) {
          this.#wasm.copyWords(this.#window + 4 * k * words, given.at + 4 * other * words, words);
          continue;
        }
        for (let i = 0; i < moduli.length; i++) {
          const out = this.#window + 4 * (k * words + i * n);
          this.#wasm.uniform(out, n, moduli[i].p, keystream, this.#area + KEY_AT, QUERY_MASK, first + at + k, i);
        }
      }
      const out = slices + SLICE_ROW_BYTES * (first + at);
      this.#wasm.interleave(out, from + 4 * words * at, this.#window, some, words, rows);
      this.#spent('prepare', start);
    });
  }

  /** One segment: all its slot groups, then all its blocks. */
  scan(
    stage: ScanStage,
    segment: StageSegment,
    counters: Counters,
    deliver: (block: number, bytes: Uint8Array<ArrayBuffer>) => void,
  ): void {
    const parts = segment.partChecksums.length;
    const each = this.#perTask(parts, segment.partBytes, TASK_BYTES);
    counters.together(Math.ceil(parts / each), (task) => {
      this.#multiply(stage, segment, counters, task * each, Math.min(parts, (task + 1) * each));
    });
    const blocks = segment.blocks.length;
    const bytes = stage.queries.reduce((sum, query) => sum + query.bytes, 0);
    const some = this.#perTask(blocks, bytes, MESSAGE_BYTES);
    counters.after(Math.ceil(blocks / some), (task) => {
      const start = performance.now();
      const first = task * some;
      const end = Math.min(blocks, first + some);
      const out = new Uint8Array((end - first) * bytes);
      let at = 0;
      for (let block = first; block < end && !counters.stopped; block++) {
        for (let query = 0; query < stage.queries.length; query++) {
          out.set(this.#respond(stage, segment, block, query), at);
          at += stage.queries[query].bytes;
        }
      }
      this.#spent('finish', start);
      if (at === out.length) deliver(first, out);
    });
  }

  /** C0 and C1 of all blocks and queries, in the slots of parts `from` … `end − 1`. */
  #multiply(stage: ScanStage, segment: StageSegment, counters: Counters, from: number, end: number): void {
    const wasm = this.#wasm;
    const { ring, rows, panels, packed, partBytes, partChecksums, verified } = segment;
    const { n, moduli } = ring;
    const blocks = segment.blocks.length;
    const queries = stage.queries.length;
    const polyBytes = 4 * n * moduli.length;
    const state = this.#area + STATE_AT;
    const sums = this.#area + SUMS_AT;
    let at = 0;
    let held = 0;
    for (let part = from; part < end; part++) {
      const { p, fold } = moduli[Math.floor((ROW_BYTES * part) / (4 * n))];
      const check = Atomics.load(verified, part) === 0;
      if (check) wasm.xxhStart(state);
      let time = performance.now();
      for (const [index, panel] of panels.entries()) {
        const bytes = panel.bytes * blocks;
        if (at === held) {
          if (counters.stopped) return;
          const position = part * partBytes + panel.at;
          held = wholePanels(segment, index, Math.min(WINDOW_BYTES, end * partBytes - position));
          at = 0;
          this.#read(segment, position, held);
          time = this.#spent('read', time);
        }
        if (check) {
          wasm.xxhStripes(state, this.#window + at, bytes);
          time = this.#spent('verify', time);
        }
        const slice = stage.slices + SLICE_ROW_BYTES * (part * rows + panel.first);
        const data = this.#window + at;
        const stride = 2 * polyBytes * rows;
        const start = index === 0 ? 1 : 0;
        if (packed) wasm.accumulatePacked(data, slice, sums, blocks, panel.count, queries, stride, start);
        else wasm.accumulate(data, slice, sums, blocks, panel.count, queries, stride, fold, start);
        at += bytes;
        time = this.#spent('multiply', time);
      }
      if (check) {
        const sum = BigInt.asUintN(64, wasm.xxhFinish(state, this.#window, 0, BigInt(partBytes)));
        if (sum !== partChecksums[part]) throw new Damaged(part);
        Atomics.store(verified, part, 1);
      }
      wasm.reduce(sums, stage.results + ROW_BYTES * part, blocks * queries, polyBytes, p, fold);
      this.#spent('multiply', time);
    }
  }

  /** Fills the window from a position in the data. */
  #read({ source, dataAt, partBytes }: StageSegment, position: number, bytes: number): void {
    if (typeof source !== 'number') {
      this.#bytes.set(source.subarray(dataAt + position, dataAt + position + bytes));
      return;
    }
    for (let at = 0; at < bytes; ) {
      const got = readSync(source, this.#bytes, at, bytes - at, dataAt + position + at);
      // The file had the right length when it was opened.
      if (got === 0) throw new Damaged(Math.floor((position + at) / partBytes));
      at += got;
    }
  }

  /**
   * The response of a block to a query, in the window: C0 and C1 after the transform, switched,
   * packed and framed.
   */
  #respond(stage: ScanStage, segment: StageSegment, block: number, query: number): Uint8Array {
    const wasm = this.#wasm;
    const { n, moduli } = segment.ring;
    const { head, bytes, bits0, bits1 } = stage.queries[query];
    const { blockId, first, count } = segment.blocks[block];
    const message = this.#window;
    const words = message + 8 * Math.ceil(bytes / 8);
    const sums = words + 4 * n;
    let body = message + RESPONSE_LAYOUT.body;
    let poly = stage.results + 8 * n * moduli.length * (block * stage.queries.length + query);
    for (const bits of [bits0, bits1]) {
      for (let i = 0; i < moduli.length; i++) {
        const { p, tables, scale, last, share, reciprocal } = moduli[i];
        wasm.intt(poly, tables, n, p, scale, last);
        wasm.switchShare(sums, poly, share, reciprocal, n, p, i === 0 ? 1 : 0);
        poly += 4 * n;
      }
      wasm.switchRound(words, sums, n, 31 + segment.ring.bits, bits);
      wasm.packBits(body, words, n, bits);
      body += (n * bits) / 8;
    }
    this.#bytes.set(head);
    this.#bytes.set(blockId, RESPONSE_LAYOUT.blockId);
    this.#view.setUint32(RESPONSE_LAYOUT.first, first, true);
    this.#view.setUint32(RESPONSE_LAYOUT.count, count, true);
    const length = bytes - CHECKSUM_BYTES;
    const state = this.#area + STATE_AT;
    const whole = length & ~31;
    wasm.xxhStart(state);
    wasm.xxhStripes(state, message, whole);
    this.#view.setBigUint64(length, wasm.xxhFinish(state, message + whole, length - whole, BigInt(length)), true);
    return this.#bytes.subarray(0, bytes);
  }
}

/** The most bytes, up to `limit`, that hold whole panels, from panel `index` of a part on. */
function wholePanels({ panels, blocks }: StageSegment, index: number, limit: number): number {
  let bytes = 0;
  for (let at = index; ; at = (at + 1) % panels.length) {
    const more = panels[at].bytes * blocks.length;
    if (bytes + more > limit) return bytes;
    bytes += more;
  }
}

const data = workerData as ThreadData;
const port = parentPort!;
const post = (message: FromThread, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer);
const thread = new Thread(data);
const segments = new Map<number, StageSegment>();

function go(stage: Stage): void {
  const { id } = stage;
  const counters = new Counters(data.control, stage.slot);
  try {
    if (stage.kind === 'prepare') thread.prepare(stage, counters);
    else {
      thread.scan(stage, segments.get(stage.segment)!, counters, (block, bytes) => {
        post({ kind: 'results', id, block, bytes }, [bytes.buffer]);
      });
    }
  } catch (error) {
    counters.stop();
    if (error instanceof Damaged) post({ kind: 'damaged', id, part: error.part });
    else post({ kind: 'failed', id, message: (error as Error).message });
  }
  post({ kind: 'left', id });
}

port.on('message', (message: ToThread) => {
  if (message.kind === 'load') segments.set(message.segment.id, message.segment);
  else if (message.kind === 'unload') segments.delete(message.segment);
  else go(message);
});
post({ kind: 'ready' });
