// The threads of the WebAssembly kernel, seen from the main thread: stages go out, results and
// endings come back.

import { Worker } from 'node:worker_threads';
import {
  Counters,
  type FromThread,
  type PrepareStage,
  type ScanStage,
  STAGE_WORDS,
  STAGES,
  type StageSegment,
  type ThreadData,
  TIMES,
  type ToThread,
  type WasmTimes,
} from './wasm-stage.ts';

export interface StageListener {
  results(block: number, bytes: Uint8Array): void;
  damaged(part: number): void;
  failed(message: string): void;
  /** All threads have left, and nothing more will come. The stage's memory is free again. */
  left(): void;
}

/** A stage without what the crew adds. */
export type StageOrder = Omit<PrepareStage, 'id' | 'slot'> | Omit<ScanStage, 'id' | 'slot'>;

interface Flight {
  readonly listener: StageListener;
  readonly slot: number;
  /** Threads that have not left yet. */
  staying: number;
}

export class Crew {
  readonly #workers: Worker[] = [];
  readonly #control = new Int32Array(new SharedArrayBuffer(4 * STAGE_WORDS * STAGES));
  readonly #times: Float64Array[] = [];
  readonly #counters = Array.from({ length: STAGES }, (_, slot) => new Counters(this.#control, slot));
  readonly #flights = new Map<number, Flight>();
  readonly #freeSlots = Array.from({ length: STAGES }, (_, slot) => slot);
  readonly #lost: (error: Error) => void;
  #ids = 0;
  #closing = false;

  /** `lost` is called for a thread that exited by itself. */
  private constructor(lost: (error: Error) => void) {
    this.#lost = lost;
  }

  static async start(
    data: Pick<ThreadData, 'module' | 'memory'>,
    areas: readonly number[],
    lost: (error: Error) => void,
  ): Promise<Crew> {
    const crew = new Crew(lost);
    try {
      await Promise.all(areas.map((area) => crew.#hire({ ...data, area, threads: areas.length })));
    } catch (error) {
      await crew.close();
      throw error;
    }
    crew.unref();
    return crew;
  }

  #hire(data: Omit<ThreadData, 'control' | 'times'>): Promise<void> {
    const times = new Float64Array(new SharedArrayBuffer(8 * TIMES.length));
    this.#times.push(times);
    const workerData: ThreadData = { ...data, control: this.#control, times };
    // This process may have options with which no file can be started (--input-type).
    const worker = new Worker(new URL('./wasm-worker.ts', import.meta.url), { workerData, execArgv: [] });
    this.#workers.push(worker);
    return new Promise((resolve, reject) => {
      const gone = (error: Error) => {
        reject(error);
        if (!this.#closing) this.#lost(error);
      };
      worker.on('message', (message: FromThread) => {
        if (message.kind === 'ready') resolve();
        else this.#hear(message);
      });
      worker.on('error', gone);
      worker.on('exit', (code) => gone(new Error(`a thread of the WebAssembly kernel ended with code ${code}`)));
    });
  }

  get threads(): number {
    return this.#workers.length;
  }

  get hasRoom(): boolean {
    return this.#freeSlots.length > 0;
  }

  get times(): WasmTimes {
    const sum = (i: number) => this.#times.reduce((total, times) => total + times[i], 0);
    return Object.fromEntries(TIMES.map((name, i) => [name, sum(i)])) as unknown as WasmTimes;
  }

  #tell(message: ToThread): void {
    for (const worker of this.#workers) worker.postMessage(message);
  }

  load(segment: StageSegment): void {
    this.#tell({ kind: 'load', segment });
  }

  unload(segment: number): void {
    this.#tell({ kind: 'unload', segment });
  }

  /** Sends a stage to all threads. Returns a function that stops it early. */
  send(order: StageOrder, listener: StageListener): () => void {
    const slot = this.#freeSlots.pop();
    if (slot === undefined) throw new RangeError('the threads have enough to do');
    const id = this.#ids++;
    const flight: Flight = { listener, slot, staying: this.threads };
    this.#flights.set(id, flight);
    this.#counters[slot].reset();
    this.#tell({ ...order, id, slot } as PrepareStage | ScanStage);
    return () => {
      if (flight.staying > 0) this.#counters[slot].stop();
    };
  }

  #hear(message: Exclude<FromThread, { kind: 'ready' }>): void {
    const flight = this.#flights.get(message.id)!;
    const { listener, slot } = flight;
    if (message.kind === 'results') listener.results(message.block, message.bytes);
    else if (message.kind === 'damaged') listener.damaged(message.part);
    else if (message.kind === 'failed') listener.failed(message.message);
    else if (--flight.staying === 0) {
      this.#flights.delete(message.id);
      this.#freeSlots.push(slot);
      listener.left();
    }
  }

  /** Running scans keep the process alive, idle threads do not. */
  ref(): void {
    for (const worker of this.#workers) worker.ref();
  }

  unref(): void {
    for (const worker of this.#workers) worker.unref();
  }

  async close(): Promise<void> {
    this.#closing = true;
    for (const counters of this.#counters) counters.stop();
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }
}
