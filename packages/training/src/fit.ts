// Training, from the caller's side: checks what was given, starts a thread, listens to it. The
// thread does the work, because a run of onnxruntime blocks whoever calls it.

import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { CompressError, type CompressErrorCode, type Compressor, load } from '@hers/compress';
import { type OptionNames, refuseUnknown } from '@hers/scheme/options';
import { type AutoSettings, auto } from './methods/auto.ts';
import { type DeepMdsSettings, deepmds, deepmdsPlus, deepmdsPlusAuthors } from './methods/deepmds.ts';
import { completed, invalid, type Method, type Progress, requireCount, type Task } from './methods/method.ts';
import { type LdaSettings, lda, pca } from './methods/pca-lda.ts';
import { type RankingSettings, ranking } from './methods/ranking.ts';
import { type Labels, requireClasses, trainingSet } from './training/training-set.ts';

/** Which compressor is made, and from what. */
export interface FitOptions<M extends MethodName = MethodName> {
  /** Of the compressed vectors; `auto` chooses one when there is none. */
  dimension?: number;
  /**
   * Further dimensions, for `auto`, `pca` and `lda`: one fit serves all of them. `onStage` is
   * called with the compressor of each, which is what `fit` gives for that dimension.
   */
  also?: readonly number[];
  /** Of the vectors given; follows from the labels when there are any. */
  inputDimension?: number;
  /** The same seed gives the same bytes, on the same kind of machine. */
  seed?: number;
  /** Cores to use (2, or what the machine has). */
  threads?: number;
  /** The share of the classes that are held out to choose and to measure (0.25); 0 for none. */
  validation?: number;
  /** What this method can be told; see its README. */
  settings?: Partial<Settings<M>>;
  /** Interrupts training: `fit` then throws `ABORTED`, after a last checkpoint. */
  signal?: AbortSignal;
  /** Called from time to time while it is made. */
  onProgress?: (progress: Progress) => void;
  /** Called now and then, and when training is interrupted, with what `resume` takes. */
  onCheckpoint?: (checkpoint: Uint8Array) => void;
  /**
   * Called with the .onnx file of every stage of a network but the last, and of every dimension of
   * `also`: what `fit` gives for that dimension.
   */
  onStage?: (compressor: Uint8Array) => void;
  /** A checkpoint of the same method on the same vectors with the same options. */
  resume?: Uint8Array;
}

const OPTIONS: OptionNames<FitOptions> = {
  dimension: true,
  also: true,
  inputDimension: true,
  seed: true,
  threads: true,
  validation: true,
  settings: true,
  signal: true,
  onProgress: true,
  onCheckpoint: true,
  onStage: true,
  resume: true,
};

/** Methods whose axes come in order, so that one fit serves all dimensions. */
const SERVES_SEVERAL = ['auto', 'pca', 'lda'];

/** What the thread is given, and what it says. */
export interface Order {
  method: string;
  task: Task<object, number | null>;
  /** Set to 1 to interrupt. A run of onnxruntime does not let messages through. */
  abort: Int32Array<SharedArrayBuffer>;
}
export type Report =
  | { kind: 'progress'; progress: Progress }
  | { kind: 'checkpoint'; bytes: Uint8Array }
  | { kind: 'stage'; bytes: Uint8Array }
  | { kind: 'done'; bytes: Uint8Array }
  | { kind: 'error'; code: CompressErrorCode | undefined; message: string; stack: string | undefined };

/**
 * Learns a compressor from vectors (one after the other) and their labels.
 *
 * @param method - How it is made: `auto`, or one that {@link methods} has.
 * @param vectors - One after the other.
 * @param labels - Which vectors belong together; without them only some methods do.
 * @param options - Its dimension, and how it is trained.
 * @throws {CompressError} INVALID_ARGUMENT: for a method or an option that there is not, or a
 *   dimension that cannot be.
 * @throws {CompressError} INVALID_VECTOR, INVALID_LABELS: for vectors or labels that cannot be
 *   used.
 * @throws {CompressError} NO_RUNTIME: where onnxruntime-node is not installed, and the method needs
 *   it.
 * @throws {CompressError} ABORTED: when the signal aborts.
 * @throws {CompressError} DIVERGED, FAILED: where training fails.
 * @example
 * const compressor = await fit('lda', vectors, labels, { dimension: 32 });
 * await writeFile('faces.onnx', compressor.save());
 */
export async function fit<M extends MethodName>(
  method: M,
  vectors: Float32Array,
  labels: Labels | undefined,
  options: FitOptions<M>,
): Promise<Compressor> {
  const order = prepare(method, vectors, labels, options);
  return load(await inThread(order, options));
}

function prepare(method: string, vectors: Float32Array, labels: Labels | undefined, options: FitOptions): Order {
  if (!Object.hasOwn(methods, method))
    throw invalid(`There is no method ${JSON.stringify(method)}; there are ${Object.keys(methods).join(', ')}.`);
  refuseUnknown(options, OPTIONS, 'fit', 'option', CompressError);
  const { defaults, check, needsLabels } = anyMethod[method];
  const {
    dimension = null,
    inputDimension,
    seed = 1,
    threads = Math.min(2, availableParallelism()),
    validation = 0.25,
  } = options;
  if (dimension !== null || method !== 'auto') requireCount('dimension', dimension);
  const also = options.also ?? [];
  for (const each of also) requireCount('also', each);
  if (also.length > 0 && (dimension === null || !SERVES_SEVERAL.includes(method)))
    throw invalid(
      `also goes with a dimension, and with ${SERVES_SEVERAL.join(', ')}: fit ${method} once for each dimension.`,
    );
  requireCount('threads', threads);
  requireCount('seed', seed, 0);
  if (!(validation >= 0 && validation < 1)) throw invalid('validation is a number from 0 to below 1.');
  const settings = completed(method, defaults, options.settings ?? {});
  check?.(settings);
  const set = trainingSet(vectors, labels, inputDimension);
  if (needsLabels) requireClasses(set, method);
  const widest = Math.max(dimension ?? 0, ...also);
  if (widest > set.dimension)
    throw invalid(`Vectors of ${set.dimension} dimensions cannot be compressed to ${widest}.`);
  const task = { set, dimension, also, seed, threads, validation, settings, resume: options.resume };
  return { method, task, abort: new Int32Array(new SharedArrayBuffer(4)) };
}

function inThread(order: Order, { signal, onProgress, onCheckpoint, onStage }: FitOptions): Promise<Uint8Array> {
  if (signal?.aborted) return Promise.reject(new CompressError('ABORTED', 'Training was interrupted before it began.'));
  const worker = new Worker(new URL('./fit-worker.ts', import.meta.url), {
    workerData: order,
    transferList: [order.task.set.vectors.buffer, order.task.set.classes.buffer],
  });
  const abort = () => Atomics.store(order.abort, 0, 1);
  signal?.addEventListener('abort', abort, { once: true });
  // The thread ends by itself, and is waited for. If it were ended from outside while it runs a
  // graph, onnxruntime would end the whole process.
  let outcome: { readonly bytes: Uint8Array } | { readonly error: unknown } = {
    error: new CompressError('FAILED', 'The training thread ended without a result: it may have run out of memory.'),
  };
  let isListening = true;
  return new Promise<Uint8Array>((resolve, reject) => {
    worker.on('message', (report: Report) => {
      if (!isListening) return;
      try {
        if (report.kind === 'progress') onProgress?.(report.progress);
        else if (report.kind === 'checkpoint') onCheckpoint?.(report.bytes);
        else if (report.kind === 'stage') onStage?.(report.bytes);
        else outcome = report.kind === 'done' ? { bytes: report.bytes } : { error: failure(report) };
      } catch (error) {
        abort(); // the caller's own function threw: training it no longer listens to should not go on
        isListening = false;
        outcome = { error };
      }
    });
    worker.on('error', (cause) => {
      if (isListening)
        outcome = { error: new CompressError('FAILED', `The training thread failed: ${cause.message}`, { cause }) };
    });
    worker.on('exit', () => ('bytes' in outcome ? resolve(outcome.bytes) : reject(outcome.error)));
  }).finally(() => signal?.removeEventListener('abort', abort));
}

function failure({ code, message, stack }: Report & { kind: 'error' }): Error {
  if (code) return new CompressError(code, message);
  const cause = new Error(message);
  if (stack !== undefined) cause.stack = stack;
  return new CompressError('FAILED', `Training failed: ${message}`, { cause });
}

/** The methods, by name. */
export const methods: {
  auto: Method<AutoSettings, number | null>;
  ranking: Method<RankingSettings, number>;
  pca: Method<Record<never, never>, number>;
  lda: Method<LdaSettings, number>;
  deepmds: Method<DeepMdsSettings, number>;
  'deepmds++': Method<DeepMdsSettings, number>;
  'deepmds++authors': Method<DeepMdsSettings, number>;
} = {
  auto,
  ranking,
  pca,
  lda,
  deepmds,
  'deepmds++': deepmdsPlus,
  'deepmds++authors': deepmdsPlusAuthors,
};

/** The methods that there are. */
export type MethodName = keyof typeof methods;
/** What a method can be told. */
export type Settings<M extends MethodName> = (typeof methods)[M]['defaults'];

/** The same table for code that has a name and settings from outside. */
export const anyMethod = methods as unknown as Record<string, Method<object, number | null>>;
