// How everything in the experiments is timed, whoever wrote it: by the clock, the fastest of the
// runs, with the CPU time of the whole process beside it.

import { loadavg } from 'node:os';
import { progress } from '../report.ts';

const BUSY = 0.5;

export interface Time {
  /** By the clock. */
  readonly seconds: number;
  /**
   * Computed by all threads of this process meanwhile: more than the time where several worked,
   * less where they waited for others.
   */
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

/**
 * What else the machine was doing when an experiment began. Long runs suffer more from that than
 * short ones, so a comparison wants a quiet machine.
 */
export function loadNow(): { load: number } {
  const [load] = loadavg();
  if (load > BUSY)
    progress(
      `the machine is busy (load ${load.toFixed(1)}): these figures will be too large; repeat it when it is quiet`,
    );
  return { load: Number(load.toFixed(2)) };
}
