// The paper's Figure 3: the time of one search against the size of the gallery, for several
// dimensions.

import { PUBLISHED } from '@hers/paper';
import type { PaperVariantName } from '../engines/engine-paper.ts';
import { measureSeal, type SealCost, sealSeconds } from '../engines/seal-cost.ts';
import { SharedMaskGallery, type SharedMaskTime } from '../engines/shared-mask-cost.ts';
import { type Data, type Experiment, type Figure, record } from '../lab/experiment.ts';
import { progress } from '../lab/report.ts';
import { wholeNumbers } from '../lab/runner.ts';
import { loadNow } from '../lab/timing.ts';

export interface Figure3Parameters {
  readonly dimensions: readonly number[];
  /** Templates of the galleries. */
  readonly sizes: readonly number[];
  readonly seal: string;
  readonly threads: number;
  readonly runs: number;
  readonly kernel: string;
  readonly load: number;
}

const SEAL_SYSTEMS: readonly { variant: PaperVariantName; name: string }[] = [
  { variant: 'boddeti', name: 'boddeti-seal' },
  { variant: 'hers', name: 'hers-seal' },
  { variant: 'hers-bgv', name: 'hers-seal-bgv' },
];

const RUNS = 3;
const DISTINCT = 16;

interface Sizes {
  readonly sizes: readonly number[];
  readonly small: boolean;
}

export const figure3: Experiment = {
  name: 'figure3',
  summary: 'time against the size of the gallery, 1 to 10 million, for 32, 64, 128 and 512 dimensions',
  options: { dimensions: { type: 'string', help: 'others than 32,64,128,512' } },
  async measure(values): Promise<Data<Figure3Parameters>> {
    const small = values.small === true;
    const dimensions = wholeNumbers(values.dimensions, small ? [4, 16] : [32, 64, 128, 512]);
    const load = loadNow();
    const sizes = Array.from({ length: small ? 5 : 8 }, (_, k) => 10 ** k);
    const [times, crossings]: [Figure[], Figure[]] = [[], []];
    let kernel = '';
    for (const dimension of dimensions) {
      const seal = await sealTimes(dimension, { sizes, small });
      const own = await ourTimes(dimension, { sizes, small });
      times.push(...seal.times, ...own.times);
      crossings.push(seal.crossing);
      kernel ||= own.kernel;
    }
    const parameters = { dimensions, sizes, seal: PUBLISHED.name, threads: 1, runs: RUNS, kernel, ...load };
    return record('figure3', values, { parameters, results: [...times, ...crossings] });
  },
};

/** The time of a search of m templates, by the clock and of all threads. */
function figures(name: string, dimension: number, m: number, time: Omit<SharedMaskTime, 'bytes' | 'scannedBytes'>) {
  const { seconds, cpu, source } = time;
  return [
    { name: `${name}-d${dimension}-m${m}`, value: seconds, unit: 's', source },
    { name: `${name}-d${dimension}-m${m}-cpu`, value: cpu, unit: 's', source },
  ];
}

async function sealTimes(dimension: number, { sizes, small }: Sizes): Promise<{ times: Figure[]; crossing: Figure }> {
  const times: Figure[] = [];
  const costs = new Map<PaperVariantName, SealCost>();
  for (const { variant, name } of SEAL_SYSTEMS) {
    const effort = { ...sample(variant, dimension, small), runs: small ? 1 : RUNS };
    const cost = await measureSeal(variant, dimension, effort);
    costs.set(variant, cost);
    for (const m of sizes) times.push(...figures(name, dimension, m, sealSeconds(cost, m)));
  }
  const { m, measured } = crossing(costs.get('boddeti')!, costs.get('hers')!);
  const source = measured ? 'measured' : 'extrapolated';
  return { times, crossing: { name: `crossing-d${dimension}`, value: m, unit: 'templates', source } };
}

async function ourTimes(dimension: number, { sizes, small }: Sizes): Promise<{ times: Figure[]; kernel: string }> {
  const times: Figure[] = [];
  let kernel = '';
  for (const profile of ['exact', 'compact'] as const) {
    progress(`ours, ${profile}, d = ${dimension}`);
    const effort = { distinct: small ? 1 : DISTINCT, runs: small ? 1 : RUNS };
    const gallery = await SharedMaskGallery.open({ profile, dimension, threads: 1, ...effort });
    try {
      await gallery.check();
      kernel ||= gallery.kernelDetail;
      for (const m of sizes) times.push(...figures(`ours-${profile}`, dimension, m, await gallery.search(m)));
    } finally {
      await gallery.close();
    }
  }
  return { times, kernel };
}

/** Enough of Boddeti's templates to see the crossing, and three blocks of HERS. */
function sample(variant: PaperVariantName, dimension: number, small: boolean): { blocks: number; distinct: number } {
  if (small) return variant === 'boddeti' ? { blocks: 12, distinct: 2 } : { blocks: 1, distinct: 1 };
  if (variant === 'boddeti') return { blocks: dimension <= 64 ? 64 : dimension <= 128 ? 100 : 300, distinct: 8 };
  return { blocks: 3, distinct: dimension <= 128 ? 2 : 1 };
}

/**
 * The smallest gallery for which HERS is faster, and whether Boddeti was measured as far as that.
 */
function crossing(boddeti: SealCost, hers: SealCost): { m: number; measured: boolean } {
  const block = sealSeconds(hers, 1).seconds;
  const within = boddeti.cumulative.findIndex((seconds) => seconds > block);
  if (within >= 0) return { m: within + 1, measured: true };
  return { m: Math.ceil((block - boddeti.start) / boddeti.block), measured: false };
}
