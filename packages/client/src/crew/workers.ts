// A crew of workers: threads in Node, Web Workers in a browser. They start when first needed; each
// derives its own keys from the material it is given.

import { type ExposedSecret, QuerySecret } from '@hers/scheme/secret';
import { HersError } from '@hers/service';
import type { PlainBatch, SealedBatch } from '../formats/batch.ts';
import {
  type Crew,
  type Decryption,
  type DecryptTask,
  type EncryptedBlock,
  type OpenDecryption,
  type PackedTasks,
  packTasks,
  type RankOptions,
} from './crew.ts';
import { type Candidate, Ranking } from './ranking.ts';

export type Task =
  | { readonly kind: 'seal'; readonly batch: PlainBatch }
  | {
      readonly kind: 'encrypt';
      readonly vectors: Float32Array;
      readonly handle?: Uint8Array | undefined;
    }
  | {
      readonly kind: 'decrypt';
      readonly secret: ExposedSecret | OpenDecryption;
      readonly packed: PackedTasks;
      readonly options: RankOptions;
    }
  /** Overwrite the keys: this is the last task. */
  | { readonly kind: 'wipe' };

/** A value, with memory that is no longer needed; or an error. */
export type Answer =
  | { readonly value: unknown; readonly spare?: ArrayBuffer | undefined }
  | { readonly code: string; readonly message: string };

export interface WorkerHandle {
  /** Gives it a task; only called while it has none. */
  begin(task: Task): void;
  /** Called when it has answered and has nothing to do. */
  rest(): void;
  end(): Promise<void>;
}

/**
 * The memory of a task that moves to the worker instead of being copied: vectors and responses that
 * were packed for it alone, and secrets, of which no copy may stay behind; the worker overwrites
 * its own.
 */
export function memoryOf(task: Task): ArrayBuffer[] {
  if (task.kind === 'encrypt') return [task.vectors.buffer as ArrayBuffer];
  if (task.kind !== 'decrypt') return [];
  const { secret, packed } = task;
  return 'secret' in secret ? [secret.secret.buffer as ArrayBuffer, packed.memory] : [packed.memory];
}

/** Native code that ranks many responses in one call, or returns nothing where a worker has to. */
interface Together {
  rank(...args: Parameters<Crew['decrypt']>): Promise<Candidate[] | undefined>;
  close(): void;
}

export interface WorkerSource {
  /** Starts one; `answered` gets its answers, and `failed` is called if it ends by itself. */
  start(answered: (answer: Answer) => void, failed: (error: Error) => void): WorkerHandle;
  /** No more will be started. */
  close(): void;
}

interface QueuedTask {
  readonly task: Task;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

/** Responses in one message to a worker: a message takes as long as decrypting some of them. */
const BATCH = 32;
/** Memory of messages that is kept for others, of some hundred kilobytes each. */
const MOST_SPARES = 16;
/** How long an idle worker may take to overwrite its keys before it is ended anyway. */
const WIPE_MS = 1000;

export class Workers implements Crew {
  readonly size: number;
  readonly #source: WorkerSource;
  readonly #idle: WorkerHandle[] = [];
  readonly #all: WorkerHandle[] = [];
  readonly #busy = new Map<WorkerHandle, QueuedTask>();
  readonly #queue: QueuedTask[] = [];
  /** Sealing is done ahead of time, so it has the lowest priority. */
  readonly #seals: QueuedTask[] = [];
  readonly #spares: ArrayBuffer[] = [];
  readonly #together: Together | undefined;
  #closed = false;

  /** Where native code can rank many responses `together`, workers are asked for the rest. */
  constructor(source: WorkerSource, size: number, together?: Together) {
    this.#source = source;
    this.size = size;
    this.#together = together;
  }

  #start(): WorkerHandle {
    const worker: WorkerHandle = this.#source.start(
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
      queue.push({ task, resolve: resolve as QueuedTask['resolve'], reject });
      this.#next();
    });
  }

  #next(): void {
    if (this.#closed) return;
    while (this.#queue.length + this.#seals.length > 0) {
      const worker = this.#idle.pop() ?? (this.#all.length < this.size ? this.#start() : undefined);
      if (!worker) return;
      const queued = (this.#queue.shift() ?? this.#seals.shift())!;
      this.#busy.set(worker, queued);
      worker.begin(queued.task);
    }
  }

  #finished(worker: WorkerHandle, answer: Answer): void {
    const queued = this.#busy.get(worker);
    this.#busy.delete(worker);
    worker.rest();
    this.#idle.push(worker);
    if ('value' in answer) {
      if (answer.spare) this.#spare(answer.spare);
      queued?.resolve(answer.value as never);
    } else queued?.reject(new HersError(answer.code as HersError['code'], answer.message));
    this.#next();
  }

  #spare(memory: ArrayBuffer): void {
    if (this.#spares.length < MOST_SPARES) this.#spares.push(memory);
  }

  #failed(worker: WorkerHandle, error: Error): void {
    const queued = this.#busy.get(worker);
    if (queued?.task.kind === 'wipe') queued.reject(error);
    const at = this.#all.indexOf(worker);
    if (at < 0) return;
    this.#all.splice(at, 1);
    const idle = this.#idle.indexOf(worker);
    if (idle >= 0) this.#idle.splice(idle, 1);
    queued?.reject(error);
    this.#busy.delete(worker);
    this.#next();
  }

  /** Nothing else overwrites the memory of a worker that ends. */
  #wipe(worker: WorkerHandle): Promise<void> {
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

  encrypt(vectors: Float32Array, handle?: Uint8Array): Promise<EncryptedBlock> {
    return this.#run({ kind: 'encrypt', vectors, handle });
  }

  async decrypt(secret: Decryption, tasks: readonly DecryptTask[], options: RankOptions): Promise<Candidate[]> {
    if (this.#together) {
      const ranked = await this.#together.rank(secret, tasks, options);
      if (ranked) return ranked;
    }
    const parts: Promise<Candidate[]>[] = [];
    for (let at = 0; at < tasks.length; at += BATCH) {
      const packed = packTasks(tasks.slice(at, at + BATCH), this.#spares.pop());
      const exposed = secret instanceof QuerySecret ? secret.expose() : secret;
      parts.push(this.#run({ kind: 'decrypt', secret: exposed, packed, options }));
    }
    const candidates = (await Promise.all(parts)).flat();
    // Which groups are the same in several blocks, only the caller knows.
    if (tasks.some(({ groups }) => groups)) return candidates;
    const ranking = new Ranking(options.limit, options.order);
    ranking.merge(candidates);
    return ranking.best();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#together?.close();
    this.#source.close();
    const resting = new Set(this.#idle.splice(0));
    const end = async (worker: WorkerHandle) => {
      if (resting.has(worker)) await this.#wipe(worker);
      await worker.end();
    };
    await Promise.all(this.#all.splice(0).map(end));
    for (const { task, reject } of [...this.#queue.splice(0), ...this.#seals.splice(0), ...this.#busy.values()])
      reject(closed(task));
    this.#busy.clear();
  }
}

/** Overwrites the secret of a task that was never sent. */
function closed(task: Task): HersError {
  if (task.kind === 'decrypt' && 'secret' in task.secret && task.secret.secret.length > 0) task.secret.secret.fill(0);
  return new HersError('CLOSED', 'this collection is closed');
}
