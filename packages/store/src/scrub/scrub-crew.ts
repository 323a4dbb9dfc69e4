// Runs the tasks of a scrub in threads, one task per thread at a time. Starting threads takes
// longer than reading a small folder; there the tasks run on the main thread, one after the other.

import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { SerialQueue } from '../base/serial-queue.ts';
import { Thread } from '../base/thread.ts';
import { type Done, runTask, Scratch, type Task } from './scrub-task.ts';

/** A smaller folder is read without threads. */
const ASIDE_BYTES = 2 ** 27;
/** More would only wait for the disk, and each takes memory. */
const MAX_THREADS = 16;

interface Job {
  readonly task: Task;
  resolve(done: Done): void;
  reject(error: unknown): void;
}

export class ScrubCrew {
  /** The number of threads at most; 0 if tasks run on the main thread. */
  readonly size: number;
  readonly #scratch = new Scratch();
  readonly #here = new SerialQueue();
  readonly #idle = new Set<Thread>();
  readonly #busy = new Set<Thread>();
  readonly #queue: Job[] = [];
  #closed = false;

  /** For a folder of this many bytes. */
  constructor(bytes: number, threads: number = bytes < ASIDE_BYTES ? 0 : availableParallelism()) {
    this.size = Math.min(threads, MAX_THREADS);
  }

  /** Rejects at once when `signal` is aborted, though the task may run on for a moment. */
  run(task: Task, signal: AbortSignal): Promise<Done> {
    return new Promise<Done>((resolve, reject) => {
      const stop = () => reject(signal.reason);
      if (signal.aborted) return stop();
      signal.addEventListener('abort', stop, { once: true });
      this.#run(task)
        .finally(() => signal.removeEventListener('abort', stop))
        .then(resolve, reject);
    });
  }

  #run(task: Task): Promise<Done> {
    if (this.#closed) return Promise.reject(ended());
    if (this.size === 0) return this.#here.run(() => this.#runHere(task));
    return new Promise<Done>((resolve, reject) => {
      const job = { task, resolve, reject };
      // A pack can be read only one stretch at a time, so packs go first: otherwise the scrub might
      // end with a single thread reading a pack.
      if (task.kind === 'entries') this.#queue.unshift(job);
      else this.#queue.push(job);
      this.#next();
    });
  }

  async #runHere(task: Task): Promise<Done> {
    if (this.#closed) throw ended();
    return runTask(task, this.#scratch);
  }

  #next(): void {
    while (this.#queue.length > 0 && !this.#closed) {
      const [idle] = this.#idle;
      const thread = idle ?? (this.#busy.size < this.size ? this.#start() : undefined);
      if (!thread) return;
      const { task, resolve, reject } = this.#queue.shift()!;
      this.#idle.delete(thread);
      this.#busy.add(thread);
      const rest = () => {
        // Another takes the place of one that was lost.
        if (this.#busy.delete(thread)) this.#idle.add(thread);
        this.#next();
      };
      thread.ask<Done>(task).then(resolve, reject).then(rest);
    }
  }

  #start(): Thread {
    const lost = () => {
      this.#busy.delete(thread);
      this.#idle.delete(thread);
    };
    const worker = new Worker(new URL('./scrub-worker.ts', import.meta.url), { execArgv: [] });
    const thread = new Thread(worker, lost, ended());
    return thread;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const { reject } of this.#queue.splice(0)) reject(ended());
    await Promise.all([...this.#idle, ...this.#busy].map((thread) => thread.close()));
  }
}

const ended = () => new Error('the scrub has ended');
