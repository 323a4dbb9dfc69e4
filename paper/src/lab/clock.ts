// How all experiments are timed: wall time, the fastest of the runs, with the CPU time of the whole
// process beside it.

import { loadavg } from 'node:os';
import { progress } from './report.ts';

const BUSY = 0.5;

export interface Time {
  /** Wall time. */
  readonly seconds: number;
  /**
   * CPU time of all threads of this process: more than the wall time if several worked, less if
   * they waited.
   */
  readonly cpu: number;
}

/** Starts now; each call returns the time since then. */
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
 * The load of the machine when an experiment began. Long runs suffer more from it than short ones,
 * so a comparison needs a quiet machine.
 */
export function loadNow(): { load: number } {
  const [load] = loadavg();
  if (load > BUSY)
    progress(
      `the machine is busy (load ${load.toFixed(1)}): these figures will be too large; repeat it when it is quiet`,
    );
  return { load: Number(load.toFixed(2)) };
}
