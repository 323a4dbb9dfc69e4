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

  /** Before a stage is sent to the threads. */
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
