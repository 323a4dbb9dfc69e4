// One search of an encrypted gallery in one process, on a GPU and on the cores of the same machine,
// against the size of the gallery: `npm run bench -- embedded --kernel …` for each. A machine with
// a GPU may be there for minutes only, so the record can also be made from what such runs printed.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Data, type Experiment, type Figure, record } from '@hers/paper/lab/experiment';
import { progress, type Report } from '@hers/paper/lab/report';
import { type Values, wholeNumber, wholeNumbers } from '@hers/paper/lab/runner';
import { HersError } from '@hers/scheme';
import type { Machine } from '@hers/vectors/machine';
import { run } from '../bench/bulk.ts';

/** Kernels, by the names that figures have, and the largest gallery of each. */
const KERNELS = [
  ['cuda', 100_000_000],
  ['native', 10_000_000],
] as const;

export interface GpuParameters {
  readonly device: string;
  readonly dimensions: readonly number[];
  readonly counts: readonly number[];
  /** Of each gallery, on the device and on the CPU. */
  readonly searches: number;
  readonly cpuSearches: number;
  /**
   * Of `npm run bench -- scan --kernel cuda`: figures have the names `scan-PROFILE-DIMENSION-…`,
   * for so many templates.
   */
  readonly scans?: readonly { readonly profile: string; readonly dimension: number; readonly count: number }[];
  /** Galleries under other plans: figures have the names `cuda-PLAN-DIMENSION-COUNT-…`. */
  readonly plans?: readonly { readonly plan: string; readonly dimension: number; readonly count: number }[];
}

export const gpu: Experiment = {
  name: 'gpu',
  summary: 'one search on a GPU, decrypted there, against the size of the gallery, beside the CPU',
  options: {
    dimensions: { type: 'string', help: 'dimensions (32,128)' },
    counts: { type: 'string', help: 'templates (10000 to 100000000)' },
    searches: { type: 'string', help: 'searches of each gallery (20)' },
    from: { type: 'string', help: 'a folder of reports (*.json) of bench embedded and scan --kernel cuda --json' },
  },
  measure: async (values) => (values.from === undefined ? measure(values) : fromReports(values)),
};

async function measure(values: Values): Promise<Data<GpuParameters>> {
  const small = values.small === true;
  const dimensions = wholeNumbers(values.dimensions, small ? [16] : [32, 128]);
  const counts = wholeNumbers(values.counts, small ? [3000] : [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000]);
  const searches = wholeNumber(values, 'searches', small ? 2 : 20);
  const results: Figure[] = [];
  let device = '';
  // A small run means nothing, so whatever kernel there is stands in for the device.
  for (const [kernel, most] of small ? KERNELS.slice(0, 1) : KERNELS)
    for (const dimension of dimensions)
      for (const count of counts.filter((each) => each <= most)) {
        progress(`${kernel}: ${count} templates of ${dimension} dimensions`);
        const report = await run({
          ...{ kernel: small ? 'auto' : kernel, count: String(count), dimension: String(dimension) },
          searches: String(searches),
        });
        if (kernel === 'cuda' || device === '') device = String(report.parameters.detail);
        results.push(...figuresOf(report, `${kernel}-${dimension}-${count}`));
      }
  return record('gpu', values, {
    parameters: { device, dimensions, counts, searches, cpuSearches: searches },
    results,
  });
}

const figuresOf = ({ results }: Report, prefix: string): Figure[] =>
  results.map((each) => ({ ...each, name: `${prefix}-${each.name}`, source: 'measured' }));

/** Puts the record together from reports, which must be of one machine. */
function fromReports(values: Values): Data<GpuParameters> {
  const folder = String(values.from);
  const reports = readdirSync(folder)
    .filter((name) => name.endsWith('.json'))
    .sort()
    .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Report);
  const results: Figure[] = [];
  const scans: NonNullable<GpuParameters['scans']>[number][] = [];
  const plans: NonNullable<GpuParameters['plans']>[number][] = [];
  const [dimensions, counts] = [new Set<number>(), new Set<number>()];
  const searched: Record<string, number> = {};
  let device: string | undefined;
  let machine: Machine | undefined;
  for (const report of reports) {
    const { count, dimension, profile, integrity = 'standard', kernel } = report.parameters;
    const of = { dimension: Number(dimension), count: Number(count) };
    if (machine && machine.cpu !== report.machine.cpu)
      throw new HersError('INVALID_ARGUMENT', 'these reports are of several machines');
    machine ??= report.machine;
    if (report.bench === 'scan') {
      scans.push({ profile: String(profile), ...of });
      results.push(...figuresOf(report, `scan-${profile}-${dimension}`));
    } else if (profile === 'compact' && integrity === 'standard') {
      dimensions.add(of.dimension);
      counts.add(of.count);
      searched[String(kernel)] = Number(report.parameters.searches);
      if (kernel === 'cuda') device = String(report.parameters.detail);
      results.push(...figuresOf(report, `${kernel}-${dimension}-${count}`));
    } else {
      const plan = integrity === 'strong' ? `${profile}-strong` : String(profile);
      plans.push({ plan, ...of });
      results.push(...figuresOf(report, `cuda-${plan}-${dimension}-${count}`));
    }
  }
  if (!machine || !device)
    throw new HersError('INVALID_ARGUMENT', `there is no report of a search on a GPU in ${folder}`);
  const ascending = (numbers: ReadonlySet<number>) => [...numbers].sort((a, b) => a - b);
  const { from: _, ...others } = values;
  const data = record('gpu', others, {
    parameters: {
      ...{ device, dimensions: ascending(dimensions), counts: ascending(counts), scans, plans },
      ...{ searches: searched.cuda, cpuSearches: searched.native ?? 0 },
    },
    results,
  });
  return { ...data, machine };
}
