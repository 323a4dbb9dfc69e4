// Methods: functions from a training set to the bytes of a model, and the settings they know.

import { CompressError } from '@hers/compress';
import type { TrainingSet } from '../training/training-set.ts';

/** How far the making of a compressor is. */
export interface Progress {
  /** What is being done, in a few words. */
  stage: string;
  /** From 0 to 1. */
  done: number;
  /** An estimate. */
  secondsLeft?: number;
  /** Steps taken, of those that this stage has. */
  step?: number;
  /** All steps of this stage. */
  steps?: number;
  /** The running average of the loss. */
  loss?: number;
  /** Rank-1 on the identities that were held out. */
  validation?: number;
}

/** What a method may say and ask while it works. */
export interface Context {
  progress(progress: Progress): void;
  /** Hands over what is needed to go on later. */
  checkpoint(bytes: Uint8Array): void;
  /** Hands over the compressor of a stage that is not the last. */
  stage(bytes: Uint8Array): void;
  /** Throws `ABORTED` when the caller wants an end. */
  throwIfAborted(): void;
  readonly aborted: boolean;
}

/** For a training that only serves to measure: it has nothing to take up again. */
export function trialOf(context: Context): Context {
  return Object.create(context, { checkpoint: { value: () => {} }, stage: { value: () => {} } });
}

/** Hands over what was made, the last of it as the result. */
export function handedOver(made: readonly Uint8Array<ArrayBuffer>[], context: Context): Uint8Array<ArrayBuffer> {
  for (const bytes of made.slice(0, -1)) context.stage(bytes);
  context.progress({ stage: 'done', done: 1 });
  return made.at(-1)!;
}

export interface Task<S, D = number> {
  set: TrainingSet;
  dimension: D;
  /** Further dimensions that the linear methods serve by the same fit, each as a stage. */
  also?: readonly number[];
  seed: number;
  threads: number;
  /** The share of the classes that are held out to choose and to measure; 0 for none. */
  validation: number;
  settings: S;
  resume?: Uint8Array | undefined;
}

export interface Method<S extends object, D = number> {
  /** The settings and their default values. A setting that is not here is an error. */
  defaults: S;
  /** Throws for settings that make no sense. */
  check?(settings: S): void;
  needsLabels: boolean;
  fit(task: Task<S, D>, context: Context): Promise<Uint8Array<ArrayBuffer>>;
}

/** The settings given, completed by the defaults. */
export function completed<S extends object>(method: string, defaults: S, given: object): S {
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(defaults, name));
  if (unknown !== undefined) {
    const known = Object.keys(defaults).join(', ') || 'none';
    throw invalid(`${method} has no setting ${JSON.stringify(unknown)}; there are: ${known}.`);
  }
  return { ...defaults, ...given };
}

export function invalid(message: string): CompressError {
  return new CompressError('INVALID_ARGUMENT', message);
}

export function requireShare(name: string, value: unknown): void {
  if (!(typeof value === 'number' && value >= 0 && value <= 1)) throw invalid(`${name} is a number from 0 to 1.`);
}

export function requireCount(name: string, value: unknown, least = 1): void {
  if (!(Number.isInteger(value) && (value as number) >= least))
    throw invalid(`${name} is a whole number, ${least} or more.`);
}

export function requireNumber(name: string, value: unknown): void {
  if (!(typeof value === 'number' && value >= 0 && value < Infinity)) throw invalid(`${name} is a number, 0 or more.`);
}
