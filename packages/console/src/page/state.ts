// State of views: what one remembers while another is shown, what it reads, and work that takes a
// while. What is remembered (results, forms, pages) is forgotten when the gallery is locked.

import { type Signal, signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { messageOf } from './text.ts';

const forgotten: (() => void)[] = [];

/** A value that is gone when the gallery is locked. */
export function shown<T>(initial: T): Signal<T> {
  const value = signal(initial);
  forgotten.push(() => {
    value.value = initial;
  });
  return value;
}

export function forgetShown(): void {
  for (const forget of forgotten) forget();
}

/** Does something besides when the gallery is locked. */
export function whenForgotten(forget: () => void): void {
  forgotten.push(forget);
}

// Something that is read when a view is shown, and again when it is asked to.

export interface Loaded<T> {
  readonly value: T | undefined;
  readonly error: unknown;
  readonly problem: string | undefined;
  readonly isLoading: boolean;
}

/** What was read stays shown until the next is there, so that nothing jumps. */
export function useLoaded<T>(
  read: () => Promise<T>,
  inputs: readonly unknown[],
): { readonly loaded: Signal<Loaded<T>>; readonly reload: () => void } {
  const loaded = useSignal<Loaded<T>>({ value: undefined, error: undefined, problem: undefined, isLoading: true });
  const turn = useSignal(0);
  useEffect(() => {
    let isCurrent = true;
    loaded.value = { ...loaded.value, isLoading: true };
    read().then(
      (value) => {
        if (isCurrent) loaded.value = { value, error: undefined, problem: undefined, isLoading: false };
      },
      (error) => {
        if (isCurrent) loaded.value = { value: undefined, error, problem: messageOf(error), isLoading: false };
      },
    );
    return () => {
      isCurrent = false;
    };
  }, [...inputs, turn.value]);
  return { loaded, reload: () => turn.value++ };
}

// Work that takes a while: how far it is, and how to stop it.

export interface Job {
  readonly title: string;
  readonly collection: string;
  readonly done: number;
  /** Undefined where nobody knows how much there is to do. */
  readonly total: number | undefined;
  readonly state: 'running' | 'stopping' | 'finished' | 'stopped' | 'failed';
  /** What came of it. */
  readonly outcome?: string;
}

/** The last one, and the only one at a time. */
export const job: Signal<Job | undefined> = shown<Job | undefined>(undefined);
let controller: AbortController | undefined;

export interface JobTools {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: { readonly done: number; readonly total?: number | undefined }) => void;
}

/** Counts runs, so that a view can read again what a job has changed. */
export const jobsEnded: Signal<number> = signal(0);

export function isRunning(): boolean {
  return job.value?.state === 'running' || job.value?.state === 'stopping';
}

/** Runs it, unless another one does; `work` returns what came of it, as a sentence. */
export async function run(
  title: string,
  collection: string,
  work: (tools: JobTools) => Promise<string>,
): Promise<void> {
  if (isRunning()) return;
  controller = new AbortController();
  const { signal } = controller;
  const begun: Job = { title, collection, done: 0, total: undefined, state: 'running' };
  job.value = begun;
  const end = (state: Job['state'], outcome: string) => {
    // It was locked meanwhile, and forgotten.
    if (!job.value) return;
    job.value = { ...job.value, state, outcome };
    jobsEnded.value++;
  };
  try {
    const onProgress: JobTools['onProgress'] = ({ done, total }) => {
      if (job.value) job.value = { ...job.value, done, total };
    };
    end('finished', await work({ signal, onProgress }));
  } catch (error) {
    if (signal.aborted) end('stopped', 'It was stopped. What was done by then stays, and the same again goes on.');
    else end('failed', messageOf(error));
  }
}

export function stop(): void {
  if (job.value?.state !== 'running') return;
  job.value = { ...job.value, state: 'stopping' };
  controller?.abort(new Error('stopped'));
}
