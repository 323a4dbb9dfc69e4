// How everything in the experiments is timed, whoever wrote it: by the clock, the fastest of the runs, with the CPU time of the whole process beside it.

import { loadavg } from 'node:os';

export interface Time {
  /** By the clock. */
  readonly seconds: number;
  /** Computed by all threads of this process meanwhile: more than the time where several worked, less where they waited for others. */
  readonly cpu: number;
}

/** Starts now; each call says how long it has been. */
export function stopwatch(): () => Time {
  const begin = performance.now();
  const before = process.cpuUsage();
  return () => {
    const seconds = (performance.now() - begin) / 1000;
    const { user, system } = process.cpuUsage(before);
    return { seconds, cpu: (user + system) / 1e6 };
  };
}

/** What the pages say about it. */
export function timedBy(runs: number): string {
  return `All times are by the clock, the fastest of ${runs} runs, for every system alike. CPU time is that of all threads of the process, the mean of the same runs.`;
}

/** What else the machine was doing when an experiment began: figures of a busy machine are no figures. */
export function loadNow(): { load: string } {
  return { load: `${loadavg()[0].toFixed(2)} when it began` };
}
