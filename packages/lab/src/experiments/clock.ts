// How everything in the experiments is timed, whoever wrote it: by the clock, the fastest of the runs, with the CPU time of the whole process beside it.

import { loadavg } from 'node:os';
import { progress } from '../report.ts';

const BUSY = 0.5;

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

/** What else the machine was doing when an experiment began. Long runs suffer more from that than short ones, so a comparison wants a quiet machine. */
export function loadNow(): { load: string } {
  const [load] = loadavg();
  if (load > BUSY)
    progress(
      `the machine is busy (load ${load.toFixed(1)}): these figures will be too large; repeat it when it is quiet`,
    );
  return { load: `${load.toFixed(2)} when it began` };
}
