// A crew of worker threads. They start when first needed and never keep the process alive.

import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { ExposedSecret, QuerySecret } from '@hers/scheme/secret';
import { HersError } from '@hers/service';
import type { PlainBatch, SealedBatch } from './batch.ts';
import type { Crew, DecryptTask, KeyMaterial, RankOptions } from './crew.ts';
import { type Candidate, Ranking } from './ranking.ts';

export type Task =
  | { readonly kind: 'seal'; readonly batch: PlainBatch }
  | { readonly kind: 'encrypt'; readonly vectors: Float32Array | Int32Array; readonly first: number }
  | {
      readonly kind: 'decrypt';
      readonly secret: ExposedSecret;
      readonly tasks: readonly DecryptTask[];
      readonly options: RankOptions;
    };

export type Answer = { readonly value: unknown } | { readonly code: string; readonly message: string };

interface Waiting {
  readonly task: Task;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

/** Responses handed to a worker at a time: enough to make the message worth while. */
const BATCH = 8;

export class Workers implements Crew {
  readonly size: number;
  readonly #material: KeyMaterial;
  readonly #idle: Worker[] = [];
  readonly #all: Worker[] = [];
  readonly #busy = new Map<Worker, Waiting>();
  readonly #queue: Waiting[] = [];
  /** Sealing is done ahead of its time: it lets everything else pass. */
  readonly #seals: Waiting[] = [];
  #closed = false;

  static open(material: KeyMaterial, threads = availableParallelism()): Workers | undefined {
    return threads > 1 ? new Workers(material, threads) : undefined;
  }

  constructor(material: KeyMaterial, size: number) {
    this.#material = material;
    this.size = size;
  }

  #start(): Worker {
    const worker = new Worker(new URL('./crew-worker.node.ts', import.meta.url), { workerData: this.#material });
    worker.unref();
    worker.on('message', (answer: Answer) => this.#finished(worker, answer));
    worker.on('error', (error) => this.#failed(worker, error));
    worker.on('exit', () => this.#failed(worker, new HersError('CLOSED', 'a worker thread ended unexpectedly')));
    this.#all.push(worker);
    return worker;
  }

  #run<T>(task: Task): Promise<T> {
    if (this.#closed) return Promise.reject(new HersError('CLOSED', 'this collection is closed'));
    return new Promise<T>((resolve, reject) => {
      const queue = task.kind === 'seal' ? this.#seals : this.#queue;
      queue.push({ task, resolve: resolve as Waiting['resolve'], reject });
      this.#next();
    });
  }

  #next(): void {
    while (this.#queue.length + this.#seals.length > 0) {
      const worker = this.#idle.pop() ?? (this.#all.length < this.size ? this.#start() : undefined);
      if (!worker) return;
      const waiting = (this.#queue.shift() ?? this.#seals.shift())!;
      this.#busy.set(worker, waiting);
      worker.ref();
      worker.postMessage(waiting.task);
    }
  }

  #finished(worker: Worker, answer: Answer): void {
    const waiting = this.#busy.get(worker);
    this.#busy.delete(worker);
    worker.unref();
    this.#idle.push(worker);
    if ('value' in answer) waiting?.resolve(answer.value as never);
    else waiting?.reject(new HersError(answer.code as HersError['code'], answer.message));
    this.#next();
  }

  #failed(worker: Worker, error: Error): void {
    const at = this.#all.indexOf(worker);
    if (at < 0) return;
    this.#all.splice(at, 1);
    const idle = this.#idle.indexOf(worker);
    if (idle >= 0) this.#idle.splice(idle, 1);
    this.#busy.get(worker)?.reject(error);
    this.#busy.delete(worker);
    if (!this.#closed) this.#next();
  }

  seal(batch: PlainBatch): Promise<SealedBatch> {
    return this.#run({ kind: 'seal', batch });
  }

  encrypt(vectors: Float32Array | Int32Array, first: number): Promise<Uint8Array> {
    return this.#run({ kind: 'encrypt', vectors, first });
  }

  async decrypt(secret: QuerySecret, tasks: readonly DecryptTask[], options: RankOptions): Promise<Candidate[]> {
    const parts: Promise<Candidate[]>[] = [];
    for (let at = 0; at < tasks.length; at += BATCH) {
      parts.push(this.#run({ kind: 'decrypt', secret: secret.expose(), tasks: tasks.slice(at, at + BATCH), options }));
    }
    const ranking = new Ranking(options.limit, options.order);
    for (const candidates of await Promise.all(parts))
      for (const { block, slot, score } of candidates) ranking.offer(block, slot, [score]);
    return ranking.best();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#all.splice(0).map((worker) => worker.terminate()));
    for (const waiting of [...this.#queue.splice(0), ...this.#seals.splice(0), ...this.#busy.values()])
      waiting.reject(new HersError('CLOSED', 'this collection is closed'));
    this.#busy.clear();
  }
}
