// A crew of workers: threads in Node, Web Workers on a page. They start when first needed; each makes its own keys from the material it is given.

import type { ExposedSecret, QuerySecret } from '@hers/scheme/secret';
import { HersError } from '@hers/service';
import type { PlainBatch, SealedBatch } from './batch.ts';
import type { Crew, DecryptTask, EncryptedBlock, RankOptions } from './crew.ts';
import { type Candidate, Ranking } from './ranking.ts';

export type Task =
  | { readonly kind: 'seal'; readonly batch: PlainBatch }
  | { readonly kind: 'encrypt'; readonly vectors: Float32Array | Int32Array; readonly first: number }
  | {
      readonly kind: 'decrypt';
      readonly secret: ExposedSecret;
      readonly tasks: readonly DecryptTask[];
      readonly options: RankOptions;
    }
  /** Overwrite the keys: no other task will come. */
  | { readonly kind: 'wipe' };

export type Answer = { readonly value: unknown } | { readonly code: string; readonly message: string };

/** One worker, whatever it is made of. */
export interface Worker {
  /** Gives it a task; it has none at the moment. */
  begin(task: Task): void;
  /** It has answered, and has nothing to do. */
  rest(): void;
  end(): Promise<void>;
}

/** What a task need not be copied for: vectors that were packed for it alone, and secrets, of which no copy is to stay behind; the worker overwrites its own. */
export function memoryOf(task: Task): ArrayBuffer[] {
  if (task.kind === 'encrypt') return [task.vectors.buffer as ArrayBuffer];
  return task.kind === 'decrypt' ? [task.secret.secret.buffer as ArrayBuffer] : [];
}

/** Where workers come from. */
export interface WorkerSource {
  /** Starts one, and says what to do with its answers, and when it ends by itself. */
  start(answered: (answer: Answer) => void, failed: (error: Error) => void): Worker;
  /** No more will be started. */
  close(): void;
}

interface Waiting {
  readonly task: Task;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

/** Responses handed to a worker at a time: enough to make the message worth while. */
const BATCH = 8;
/** How long a worker that rests may take to overwrite its keys; it is ended then in any case. */
const WIPE_MS = 1000;

export class Workers implements Crew {
  readonly size: number;
  readonly #source: WorkerSource;
  readonly #idle: Worker[] = [];
  readonly #all: Worker[] = [];
  readonly #busy = new Map<Worker, Waiting>();
  readonly #queue: Waiting[] = [];
  /** Sealing is done ahead of its time: it lets everything else pass. */
  readonly #seals: Waiting[] = [];
  #closed = false;

  constructor(source: WorkerSource, size: number) {
    this.#source = source;
    this.size = size;
  }

  #start(): Worker {
    const worker: Worker = this.#source.start(
      (answer) => this.#finished(worker, answer),
      (error) => this.#failed(worker, error),
    );
    this.#all.push(worker);
    return worker;
  }

  #run<T>(task: Task): Promise<T> {
    if (this.#closed) return Promise.reject(closed(task));
    return new Promise<T>((resolve, reject) => {
      const queue = task.kind === 'seal' ? this.#seals : this.#queue;
      queue.push({ task, resolve: resolve as Waiting['resolve'], reject });
      this.#next();
    });
  }

  #next(): void {
    if (this.#closed) return;
    while (this.#queue.length + this.#seals.length > 0) {
      const worker = this.#idle.pop() ?? (this.#all.length < this.size ? this.#start() : undefined);
      if (!worker) return;
      const waiting = (this.#queue.shift() ?? this.#seals.shift())!;
      this.#busy.set(worker, waiting);
      worker.begin(waiting.task);
    }
  }

  #finished(worker: Worker, answer: Answer): void {
    const waiting = this.#busy.get(worker);
    this.#busy.delete(worker);
    worker.rest();
    this.#idle.push(worker);
    if ('value' in answer) waiting?.resolve(answer.value as never);
    else waiting?.reject(new HersError(answer.code as HersError['code'], answer.message));
    this.#next();
  }

  #failed(worker: Worker, error: Error): void {
    const waiting = this.#busy.get(worker);
    if (waiting?.task.kind === 'wipe') waiting.reject(error);
    const at = this.#all.indexOf(worker);
    if (at < 0) return;
    this.#all.splice(at, 1);
    const idle = this.#idle.indexOf(worker);
    if (idle >= 0) this.#idle.splice(idle, 1);
    waiting?.reject(error);
    this.#busy.delete(worker);
    this.#next();
  }

  /** The memory of a worker that ends is not overwritten by anyone else. */
  #wipe(worker: Worker): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, WIPE_MS);
      const done = () => {
        clearTimeout(timer);
        resolve();
      };
      const task = { kind: 'wipe' } as const;
      this.#busy.set(worker, { task, resolve: done, reject: done });
      worker.begin(task);
    });
  }

  seal(batch: PlainBatch): Promise<SealedBatch> {
    return this.#run({ kind: 'seal', batch });
  }

  encrypt(vectors: Float32Array | Int32Array, first: number): Promise<EncryptedBlock> {
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
    this.#source.close();
    const resting = new Set(this.#idle.splice(0));
    const end = async (worker: Worker) => {
      if (resting.has(worker)) await this.#wipe(worker);
      await worker.end();
    };
    await Promise.all(this.#all.splice(0).map(end));
    for (const { task, reject } of [...this.#queue.splice(0), ...this.#seals.splice(0), ...this.#busy.values()])
      reject(closed(task));
    this.#busy.clear();
  }
}

/** What is said of a task that will not be done; the secret of one that was never sent is overwritten. */
function closed(task: Task): HersError {
  if (task.kind === 'decrypt' && task.secret.secret.length > 0) task.secret.secret.fill(0);
  return new HersError('CLOSED', 'this collection is closed');
}
