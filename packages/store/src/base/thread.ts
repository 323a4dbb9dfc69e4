// A worker thread that does jobs: a message there for each, and one back.

import { parentPort, type Transferable, type Worker } from 'node:worker_threads';
import { errorFrom, type Failure, failureOf } from './storage-errors.ts';

/** To a thread: a job, or a request to stop one. */
type Request = { readonly job: number; readonly content: unknown } | { readonly stop: number };

type Answer = { readonly job: number; readonly done: unknown } | { readonly job: number; readonly failed: Failure };

interface Asking {
  readonly transfer?: readonly Transferable[] | undefined;
  /** Aborts the signal that the thread gets for this job. Its answer is waited for all the same. */
  readonly signal?: AbortSignal;
}

export class Thread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  #jobs = 0;
  #isClosing = false;

  /** When it has ended, `lost` is called, and what it left undone fails with `reason`. */
  constructor(worker: Worker, lost: () => void, reason: Error) {
    this.#worker = worker;
    this.#worker.unref();
    this.#worker.on('message', (answer: Answer) => {
      const waiting = this.#waiting.get(answer.job);
      this.#waiting.delete(answer.job);
      // Stays referenced while it ends, or the process could be over before.
      if (this.#waiting.size === 0 && !this.#isClosing) this.#worker.unref();
      if ('done' in answer) waiting?.resolve(answer.done);
      else waiting?.reject(errorFrom(answer.failed));
    });
    const end = (error: unknown) => {
      lost();
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
    };
    this.#worker.on('error', end);
    this.#worker.on('exit', () => end(reason));
  }

  /** Has a job done. Only a pending answer keeps the process alive. */
  async ask<T>(content: unknown, { transfer, signal }: Asking = {}): Promise<T> {
    const job = ++this.#jobs;
    const waiting = Promise.withResolvers<unknown>();
    const stop = () => this.#worker.postMessage({ stop: job } satisfies Request);
    this.#worker.ref();
    this.#waiting.set(job, waiting);
    this.#worker.postMessage({ job, content } satisfies Request, transfer);
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
    try {
      return (await waiting.promise) as T;
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#worker.terminate();
  }
}

/** The other side. `perform` returns what is done, and what of it is transferred. */
export function serveThread<T>(
  perform: (content: T, signal: AbortSignal) => Promise<{ readonly done: unknown } & Pick<Asking, 'transfer'>>,
): void {
  const running = new Map<number, AbortController>();
  parentPort?.on('message', async (request: Request) => {
    if ('stop' in request) return running.get(request.stop)?.abort();
    const { job, content } = request;
    const stopping = new AbortController();
    running.set(job, stopping);
    try {
      const { done, transfer } = await perform(content as T, stopping.signal);
      parentPort?.postMessage({ job, done } satisfies Answer, transfer);
    } catch (error) {
      parentPort?.postMessage({ job, failed: failureOf(error) } satisfies Answer);
    } finally {
      running.delete(job);
    }
  });
}
