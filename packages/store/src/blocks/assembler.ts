// Assembles segments in a worker thread. Laying out hundreds of megabytes on the main thread would
// block commits and searches. Small segments are assembled on the main thread.

import { Worker } from 'node:worker_threads';
import { type ErrorCode, HersError } from '@hers/scheme';
import type { Disk } from '../files/disk.ts';
import { type Assembled, assembleSegment } from './assemble.ts';
import type { KeptBlock } from './rebuild.ts';

/** Segments of at least this many bytes of blocks are assembled by the worker. */
const ASIDE_BYTES = 2 ** 23;

/** To the worker: a job, or a request to stop one. */
export type AssemblerRequest =
  | { readonly job: number; readonly folder: string; readonly path: string; readonly blocks: readonly KeptBlock[] }
  | { readonly stop: number };

/** From the worker. */
export type AssemblerAnswer =
  | { readonly job: number; readonly done: Assembled }
  | {
      readonly job: number;
      readonly failed: { readonly message: string; readonly code: unknown; readonly ours: boolean };
    };

interface Waiting {
  resolve(done: Assembled): void;
  reject(error: unknown): void;
}

export class Assembler {
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | undefined;
  #jobs = 0;

  assemble(
    disk: Disk,
    path: string,
    blocks: readonly KeptBlock[],
    bytes: number,
    signal: AbortSignal,
  ): Promise<Assembled> {
    if (bytes < ASIDE_BYTES) return assembleSegment(disk, path, blocks, signal);
    const job = ++this.#jobs;
    const worker = (this.#worker ??= this.#start());
    const stop = () => worker.postMessage({ stop: job } satisfies AssemblerRequest);
    signal.addEventListener('abort', stop, { once: true });
    return new Promise<Assembled>((resolve, reject) => {
      this.#waiting.set(job, { resolve, reject });
      worker.postMessage({ job, folder: disk.folder, path, blocks } satisfies AssemblerRequest);
      if (signal.aborted) stop();
    })
      .catch((error) => {
        throw signal.aborted ? signal.reason : error;
      })
      .finally(() => {
        this.#waiting.delete(job);
        signal.removeEventListener('abort', stop);
      });
  }

  #start(): Worker {
    const worker = new Worker(new URL('./assembler-worker.ts', import.meta.url), { execArgv: [] });
    worker.unref();
    worker.on('message', (answer: AssemblerAnswer) => {
      const waiting = this.#waiting.get(answer.job);
      if ('done' in answer) waiting?.resolve(answer.done);
      else waiting?.reject(errorFrom(answer.failed));
    });
    const lost = (error: unknown) => {
      if (this.#worker === worker) this.#worker = undefined;
      for (const { reject } of this.#waiting.values()) reject(error);
    };
    worker.on('error', lost);
    worker.on('exit', () => lost(new Error('the thread that assembles segments has ended')));
    return worker;
  }

  async close(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.terminate();
  }
}

function errorFrom({ message, code, ours }: { message: string; code: unknown; ours: boolean }): Error {
  return ours ? new HersError(code as ErrorCode, message) : Object.assign(new Error(message), { code });
}
