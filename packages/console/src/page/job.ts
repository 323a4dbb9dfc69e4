// Work that takes a while: how far it is, and how to stop it.

import { type Signal, signal } from '@preact/signals';
import { messageOf } from './message.ts';
import { shown } from './shown.ts';

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
