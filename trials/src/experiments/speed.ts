// Where each millisecond of a search goes, and how fast records are enrolled: the benchmarks
// `scan`, `embedded` and `service`, one after the other.

import { readFileSync } from 'node:fs';
import { type Data, type Experiment, type Figure, record } from '@hers/paper/lab/experiment';
import type { Report } from '@hers/paper/lab/report';
import { UsageError, type Values, wholeNumber } from '@hers/paper/lab/runner';

export const BENCHES = ['scan', 'embedded', 'service'] as const;
export type SpeedBench = (typeof BENCHES)[number];

/** The figure that says which of several runs was disturbed least: the smallest. */
const STEADIEST: Readonly<Record<SpeedBench, string>> = {
  scan: 'search-all',
  embedded: 'search-p50',
  service: 'search-p50',
};

export interface SpeedParameters {
  readonly count: number;
  readonly dimension: number;
  /** How many there were of each benchmark, in words; the least disturbed one counts. */
  readonly runs: string;
}

export const speed: Experiment = {
  name: 'speed',
  summary: 'where each millisecond of a search goes, and how fast records are enrolled',
  options: {
    count: { type: 'string', help: 'records (1000000)' },
    dimension: { type: 'string', help: 'dimensions (128)' },
    from: {
      type: 'string',
      help: 'files of `npm run bench -- NAME --json`, several of a name if there are: nothing is run',
    },
    before: {
      type: 'string',
      help: 'files of embedded and service of an earlier state on this machine, to stand beside it',
    },
  },
  measure,
};

async function measure(values: Values): Promise<Data<SpeedParameters>> {
  const small = values.small === true;
  const count = wholeNumber(values, 'count', small ? 3000 : 1_000_000);
  const dimension = wholeNumber(values, 'dimension', small ? 16 : 128);
  const reports = values.from === undefined ? await run(count, dimension, small) : read(String(values.from));
  const results: Figure[] = [];
  for (const bench of BENCHES) results.push(...bestOf(reports, bench), ...allOf(reports, bench));
  const earlier = values.before === undefined ? [] : read(String(values.before));
  for (const bench of BENCHES)
    if (earlier.some((report) => report.bench === bench)) results.push(...bestOf(earlier, bench, 'before-'));
  const first = reports[0].parameters as { count: number; dimension: number };
  const parameters = {
    count: first.count,
    dimension: first.dimension,
    runs: BENCHES.map((each) => `${reports.filter(({ bench }) => bench === each).length} of ${each}`).join(', '),
  };
  return record('speed', values, { parameters, results }, values.from === undefined ? undefined : '');
}

/** The figures of the run of a benchmark that was disturbed least. */
function bestOf(reports: readonly Report[], bench: SpeedBench, prefix = ''): Figure[] {
  const runs = reports.filter((report) => report.bench === bench);
  if (runs.length === 0) throw new UsageError(`there is no run of ${bench}`);
  const timeOf = ({ results: each }: Report) => each.find(({ name }) => name === STEADIEST[bench])!.value;
  const best = runs.reduce((a, b) => (timeOf(b) < timeOf(a) ? b : a));
  return named(best, prefix);
}

/** What the names of the figures of a run begin with, where there are several; counted from 1. */
export const runPrefix = (run: number): string => `run${run}-`;

/** The figures of every run of a benchmark, where there are several. */
function allOf(reports: readonly Report[], bench: SpeedBench): Figure[] {
  const runs = reports.filter((report) => report.bench === bench);
  return runs.length < 2 ? [] : runs.flatMap((report, i) => named(report, runPrefix(i + 1)));
}

function named({ bench, results }: Report, prefix: string): Figure[] {
  return results.map((figure) => ({
    ...figure,
    name: `${prefix}${bench}-${figure.name}`,
    ...(figure.against === undefined ? {} : { against: `${prefix}${bench}-${figure.against}` }),
    source: 'measured',
  }));
}

async function run(count: number, dimension: number, small: boolean): Promise<Report[]> {
  const options = { count: String(count), dimension: String(dimension), ...(small ? { searches: '2' } : {}) };
  return [
    await (await import('../bench/scan.ts')).run({ ...options, ...(small ? { runs: '1' } : {}) }),
    await (await import('../bench/embedded.ts')).run(options),
    await (await import('../bench/service.ts')).run({ ...options, ...(small ? { seconds: '1' } : {}) }),
  ];
}

function read(files: string): Report[] {
  return files.split(',').map((file) => JSON.parse(readFileSync(file, 'utf8')) as Report);
}
