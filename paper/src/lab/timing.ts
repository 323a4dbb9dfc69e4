// Timing for benchmarks. The minimum is the figure to compare: other load on a machine only ever
// adds time. The median is kept beside it, because a large gap between the two shows that the
// machine was busy.

import { loadavg } from 'node:os';
import { progress } from './report.ts';

export type Timing = {
  /** Milliseconds of the fastest run. */
  min: number;
  /** Milliseconds of the middle run. */
  median: number;
  /** How many runs were timed; warm-ups are not among them. */
  runs: number;
};

export type Effort = {
  /** Keep going until the timed runs add up to this many milliseconds … */
  atLeastMs?: number;
  /** … and until there were this many of them. */
  atLeastRuns?: number;
  /** Untimed runs first, so that the engine has compiled and the caches are filled. */
  warmups?: number;
};

const usual = { atLeastMs: 500, atLeastRuns: 5, warmups: 2 };

/**
 * Times a function until both limits of the effort are reached.
 *
 * @example
 * const { min } = minimum(() => transform(polynomial), { atLeastMs: 200 });
 */
export function minimum(fn: () => unknown, effort: Effort = {}): Timing {
  const { atLeastMs, atLeastRuns, warmups } = { ...usual, ...effort };
  for (let run = 0; run < warmups; run++) fn();
  const times: number[] = [];
  for (let spent = 0; unfinished(times.length, spent, atLeastRuns, atLeastMs); ) {
    const start = performance.now();
    fn();
    const time = performance.now() - start;
    times.push(time);
    spent += time;
  }
  return summarise(times);
}

/** The same for a function that returns a promise: a run ends when the promise is settled. */
export async function minimumAsync(fn: () => Promise<unknown>, effort: Effort = {}): Promise<Timing> {
  const { atLeastMs, atLeastRuns, warmups } = { ...usual, ...effort };
  for (let run = 0; run < warmups; run++) await fn();
  const times: number[] = [];
  for (let spent = 0; unfinished(times.length, spent, atLeastRuns, atLeastMs); ) {
    const start = performance.now();
    await fn();
    const time = performance.now() - start;
    times.push(time);
    spent += time;
  }
  return summarise(times);
}

/** At least one run: a minimum of nothing is no figure. */
function unfinished(runs: number, spent: number, atLeastRuns: number, atLeastMs: number): boolean {
  return runs < Math.max(1, atLeastRuns) || spent < atLeastMs;
}

function summarise(times: number[]): Timing {
  const sorted = times.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return { min: sorted[0], median, runs: sorted.length };
}

// How all experiments are timed: wall time, the fastest of the runs, with the CPU time of the whole
// process beside it.

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
