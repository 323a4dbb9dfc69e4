// One search of an encrypted gallery in one process, on a GPU and on the cores of the same machine,
// against the size of the gallery: `npm run bench -- embedded --kernel …` for each.

import { run } from '../bench-bulk.ts';
import { progress } from '../report.ts';
import { type Values, wholeNumber, wholeNumbers } from '../runner.ts';
import type { Data, Experiment, Figure } from './experiment.ts';
import { record } from './record.ts';

/** Kernels, by the names that figures have, and the largest gallery of each. */
const KERNELS = [
  ['cuda', 100_000_000],
  ['native', 10_000_000],
] as const;

export interface GpuParameters {
  /** The device, for people. */
  readonly device: string;
  readonly dimensions: readonly number[];
  readonly counts: readonly number[];
  /** Of each gallery, on the device and on the CPU. */
  readonly searches: number;
  readonly cpuSearches: number;
  /** Milliseconds of the device for 100 million templates, by dimension (hers_cuda_check). */
  readonly stages?: Readonly<Record<string, { multiply: number; rest: number; server: number; ofCopy: number }>>;
}

export const gpu: Experiment = {
  name: 'gpu',
  summary: 'one search on a GPU, decrypted there, against the size of the gallery, beside the CPU',
  options: {
    dimensions: { type: 'string', help: 'dimensions (32,128)' },
    counts: { type: 'string', help: 'templates (10000 to 100000000)' },
    searches: { type: 'string', help: 'searches of each gallery (20)' },
  },
  measure,
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
        if (kernel === 'cuda' || device === '') device = String(report.parameters.kernel);
        for (const each of report.results)
          results.push({ ...each, name: `${kernel}-${dimension}-${count}-${each.name}`, source: 'measured' });
      }
  return record('gpu', values, {
    parameters: { device, dimensions, counts, searches, cpuSearches: searches },
    results,
  });
}
