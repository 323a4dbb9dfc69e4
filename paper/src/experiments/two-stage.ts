// The paper's two-stage search: few dimensions over everything by HERS, then the best K again at
// full dimension by Boddeti's encoding; against one stage at full dimension.

import { Context, PUBLISHED, TwoStageClient, TwoStageServer } from '@hers/paper';
import { identities } from '@hers/vectors/synthetic';
import { measureSeal, type SealCost, sealBytes, sealSeconds } from '../engines/seal-cost.ts';
import { SharedMaskGallery } from '../engines/shared-mask-cost.ts';
import { type Data, type Experiment, type Figure, record, type Source } from '../lab/experiment.ts';
import { TWO_STAGE } from '../lab/published.ts';
import { progress } from '../lab/report.ts';
import { loadNow, stopwatch } from '../lab/timing.ts';

/**
 * Coordinate i of a synthetic template is weighted by i^−0.75: 16 of 192 then hold 86 % of the
 * squares.
 */
const WEIGHT = 0.75;

const RUNS = 3;
const DISTINCT = 16;

interface TwoStageSizes {
  readonly coarseDimension: number;
  readonly fineDimension: number;
  readonly measuredTemplates: number;
  readonly measuredK: number;
  /** Of the search that is run whole. */
  readonly probes: number;
  readonly templates: number;
  readonly k: number;
}

export interface TwoStageParameters extends TwoStageSizes {
  readonly seal: string;
  readonly runs: number;
  readonly kernel: string;
  readonly load: number;
}

interface Row {
  readonly name: string;
  readonly stages?: readonly [number, number];
  readonly total: number;
  readonly cpu?: number;
  readonly source: Source;
  readonly memory?: number;
}

function sizesOf(small: boolean): TwoStageSizes {
  if (small)
    return {
      ...{ coarseDimension: 2, fineDimension: 6, measuredTemplates: 40, measuredK: 5, probes: 2 },
      ...{ templates: 50_000, k: 100 },
    };
  const { coarseDimension, fineDimension, templates, k } = TWO_STAGE;
  return { coarseDimension, fineDimension, measuredTemplates: 8192, measuredK: 100, probes: 10, templates, k };
}

export const twoStage: Experiment = {
  name: 'two-stage',
  summary: 'coarse HERS scan and re-ranking by Boddeti, against a single stage at full dimension',
  options: {},
  async measure(values): Promise<Data<TwoStageParameters>> {
    const small = values.small === true;
    const load = loadNow();
    const sizes = sizesOf(small);
    const costs = await sealCosts(sizes, small);
    const whole = await search(sizes, costs.single);
    const own = await ours(sizes.templates, sizes.fineDimension, small);
    const rows = [
      ...(small ? [] : published()),
      ...seal(sizes, costs),
      ...own.times.map(({ profile, time }) => ({
        name: `ours-${profile}`,
        total: time.seconds,
        cpu: time.cpu,
        source: time.source,
        memory: time.bytes,
      })),
    ];
    return record('two-stage', values, {
      parameters: { ...sizes, seal: PUBLISHED.name, runs: RUNS, kernel: own.kernel, ...load },
      results: [...whole, ...rows.flatMap(figures)],
    });
  },
};

function figures({ name, stages, total, cpu, source, memory }: Row): Figure[] {
  const time = (ending: string, value: number | undefined): Figure[] =>
    value === undefined ? [] : [{ name: `${name}${ending}`, value, unit: 's', source }];
  return [
    ...time('-stage1', stages?.[0]),
    ...time('-stage2', stages?.[1]),
    ...time('', total),
    ...time('-cpu', cpu),
    ...(memory === undefined
      ? []
      : [{ name: `${name}-bytes`, value: memory, unit: 'bytes', source: 'computed' as const }]),
  ];
}

function published(): Row[] {
  const { coarseSeconds, fineSeconds, singleSeconds } = TWO_STAGE;
  return [
    {
      name: 'published-two-stage',
      stages: [coarseSeconds, fineSeconds],
      total: coarseSeconds + fineSeconds,
      source: 'published',
    },
    { name: 'published-single', total: singleSeconds, source: 'published' },
  ];
}

interface Costs {
  readonly coarse: SealCost;
  readonly single: SealCost;
  readonly fine: SealCost;
}

async function sealCosts({ coarseDimension, fineDimension }: TwoStageSizes, small: boolean): Promise<Costs> {
  const sample = (blocks: number) => ({ blocks, runs: small ? 1 : RUNS, distinct: 1 });
  return {
    coarse: await measureSeal('hers', coarseDimension, sample(small ? 1 : 4)),
    single: await measureSeal('hers', fineDimension, sample(small ? 1 : 2)),
    fine: await measureSeal('boddeti', fineDimension, sample(small ? 2 : 40)),
  };
}

/** The published system, extrapolated to the paper's gallery. */
function seal({ templates, k }: TwoStageSizes, { coarse, single, fine }: Costs): Row[] {
  const [first, second, one] = [sealSeconds(coarse, templates), sealSeconds(fine, k), sealSeconds(single, templates)];
  const source = 'extrapolated';
  return [
    {
      name: 'two-stage-seal',
      stages: [first.seconds, second.seconds],
      total: first.seconds + second.seconds,
      cpu: first.cpu + second.cpu,
      source,
      memory: sealBytes(coarse, templates) + sealBytes(fine, templates),
    },
    { name: 'single-seal', total: one.seconds, cpu: one.cpu, source, memory: sealBytes(single, templates) },
  ];
}

async function ours(m: number, dimension: number, small: boolean) {
  const times = [];
  let kernel = '';
  for (const profile of ['exact', 'compact'] as const) {
    progress(`ours, ${profile}, d = ${dimension}`);
    const gallery = await SharedMaskGallery.open({
      profile,
      dimension,
      distinct: small ? 1 : DISTINCT,
      runs: small ? 1 : RUNS,
    });
    try {
      await gallery.check();
      kernel ||= gallery.kernelDetail;
      times.push({ profile, time: await gallery.search(m) });
    } finally {
      await gallery.close();
    }
  }
  return { times, kernel };
}

/** The protocol itself, on a gallery that fits. */
async function search(sizes: TwoStageSizes, single: SealCost): Promise<Figure[]> {
  const { coarseDimension, fineDimension, measuredTemplates: m, measuredK: k, probes } = sizes;
  progress(`two stages, m = ${m}, K = ${k}: enrolment`);
  const people = identities(m, 1, fineDimension);
  const vectors = weighted(people.gallery().vectors, fineDimension);
  using context = await Context.open();
  using client = new TwoStageClient(context, { coarseDimension, fineDimension, encryption: 'seeded' });
  using server = new TwoStageServer(context, client.keys, { coarseDimension, fineDimension, templates: m });
  const uploads = client.enrol({ coarse: shortened(vectors, fineDimension, coarseDimension), fine: vectors });
  for (const upload of uploads.coarse) server.coarse.enrol(upload);
  for (const upload of uploads.fine) server.fine.enrol(upload);
  const labels = Array.from({ length: probes }, (_, i) => Math.floor((i * m) / probes));
  const asked = weighted(people.probes(labels).vectors, fineDimension);
  let [coarse, fine] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  let found = 0;
  for (let i = 0; i < probes; i++) {
    progress(`two stages: probe ${i + 1} of ${probes}`);
    const vector = asked.subarray(i * fineDimension, (i + 1) * fineDimension);
    const query = client.query({ coarse: shortened(vector, fineDimension, coarseDimension), fine: vector });
    const first = stopwatch();
    const responses = [...server.coarse.search(query.coarse)];
    coarse = Math.min(coarse, first().seconds);
    const request = query.refine(responses, k);
    const second = stopwatch();
    const rescored = [...server.rescore(request)];
    fine = Math.min(fine, second().seconds);
    if (query.rank(rescored)[0].index === plainBest(vectors, vector)) found++;
  }
  // As many blocks as the gallery has were scored for it.
  const { seconds: singleSeconds, source } = sealSeconds(single, m);
  return [
    { name: `run-m${m}-stage1`, value: coarse, unit: 's', source: 'measured' },
    { name: `run-m${m}-stage2`, value: fine, unit: 's', source: 'measured' },
    { name: `run-m${m}-single`, value: singleSeconds, unit: 's', source },
    { name: `run-m${m}-found`, value: found / probes, unit: 'of probes', source: 'measured' },
  ];
}

/**
 * Coordinates that matter less and less, as those of principal axes do. The short form of vectors
 * without such an order would find nothing.
 */
function weighted(vectors: Float32Array, dimension: number): Float32Array {
  const out = vectors.map((x, k) => x * ((k % dimension) + 1) ** -WEIGHT);
  for (let at = 0; at < out.length; at += dimension) {
    const norm = Math.hypot(...out.subarray(at, at + dimension));
    for (let i = at; i < at + dimension; i++) out[i] /= norm;
  }
  return out;
}

/** The first coordinates, at unit length. */
function shortened(vectors: Float32Array, dimension: number, to: number): Float32Array {
  const count = vectors.length / dimension;
  const out = new Float32Array(count * to);
  for (let j = 0; j < count; j++) {
    const part = vectors.subarray(j * dimension, j * dimension + to);
    const norm = Math.hypot(...part);
    for (let i = 0; i < to; i++) out[j * to + i] = part[i] / norm;
  }
  return out;
}

function plainBest(vectors: Float32Array, query: Float32Array): number {
  let [best, index] = [Number.NEGATIVE_INFINITY, -1];
  for (let j = 0; j * query.length < vectors.length; j++) {
    let score = 0;
    for (let i = 0; i < query.length; i++) score += vectors[j * query.length + i] * query[i];
    if (score > best) [best, index] = [score, j];
  }
  return index;
}
