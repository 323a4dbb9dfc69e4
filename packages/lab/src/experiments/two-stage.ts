// The paper's two-stage search: few dimensions over everything by HERS, then the best K again at full dimension by Boddeti's encoding; against one stage
// at full dimension.

import { Context, PUBLISHED, TwoStageClient, TwoStageServer } from '@hers/paper';
import { machine, progress } from '../report.ts';
import { identities } from '../synthetic.ts';
import { loadNow, stopwatch, timedBy } from './clock.ts';
import { asGiven, type Experiment, type Figure, type Outcome, type Source } from './experiment.ts';
import { EXTRAPOLATED, page, table, versions } from './markdown.ts';
import { COLOURS, DOTS, logAxis, render, SCHEMA, systemAxis } from './plot.ts';
import { TWO_STAGE } from './published.ts';
import { bytes, marked, seconds, templates, whole } from './quantities.ts';
import { measureSeal, type SealCost, sealBytes, sealSeconds } from './seal-cost.ts';
import { copiesOf, SharedMaskGallery } from './shared-mask-cost.ts';

/** Coordinate i of a synthetic template is weighted by i^−0.75: 16 of 192 then hold 86 % of the squares. */
const WEIGHT = 0.75;

const RUNS = 3;
const DISTINCT = 16;

interface Row {
  readonly name: string;
  readonly system: string;
  readonly coarse?: number;
  readonly fine?: number;
  readonly total: number;
  readonly cpu?: number;
  readonly source: Source;
  readonly memory?: number;
}

export const twoStage: Experiment = {
  name: 'two-stage',
  summary: 'coarse HERS scan and re-ranking by Boddeti, against a single stage at full dimension',
  options: {},
  async run({ small = false }): Promise<Outcome> {
    const load = loadNow();
    const { coarseDimension: c, fineDimension: f } = small ? { coarseDimension: 2, fineDimension: 6 } : TWO_STAGE;
    const [m, k] = small ? [40, 5] : [8192, 100];
    const sample = (blocks: number) => ({ blocks, runs: small ? 1 : RUNS, distinct: 1 });
    const coarse = await measureSeal('hers', c, sample(small ? 1 : 4));
    const single = await measureSeal('hers', f, sample(small ? 1 : 2));
    const fine = await measureSeal('boddeti', f, sample(small ? 2 : 40));
    const real = await search(m, k, c, f, small ? 2 : 10, single);
    const rows: Row[] = [];
    const { templates: M, k: K } = small ? { templates: 50_000, k: 100 } : TWO_STAGE;
    const own = await ours(M, f, small === true);
    if (!small) {
      const { coarseSeconds, fineSeconds, singleSeconds } = TWO_STAGE;
      rows.push({
        name: 'published-two-stage',
        system: 'two stages, as published (10 cores)',
        coarse: coarseSeconds,
        fine: fineSeconds,
        total: coarseSeconds + fineSeconds,
        source: 'published',
      });
      rows.push({
        name: 'published-single',
        system: 'one stage, as published (10 cores)',
        total: singleSeconds,
        source: 'published',
      });
    }
    const stages = [sealSeconds(coarse, M), sealSeconds(fine, K)] as const;
    const one = sealSeconds(single, M);
    rows.push({
      name: 'two-stage-seal',
      system: 'two stages, SEAL (one thread)',
      coarse: stages[0].seconds,
      fine: stages[1].seconds,
      total: stages[0].seconds + stages[1].seconds,
      cpu: stages[0].cpu + stages[1].cpu,
      source: 'extrapolated',
      memory: sealBytes(coarse, M) + sealBytes(fine, M),
    });
    rows.push({
      name: 'single-seal',
      system: 'one stage, SEAL (one thread)',
      total: one.seconds,
      cpu: one.cpu,
      source: 'extrapolated',
      memory: sealBytes(single, M),
    });
    for (const { profile, time } of own.times) {
      rows.push({
        name: `ours-${profile}`,
        system: `one stage, this project, ${profile} (${own.kernel})`,
        total: time.seconds,
        cpu: time.cpu,
        source: time.source,
        memory: time.bytes,
      });
    }
    const results: Figure[] = [
      ...real.figures,
      ...rows.flatMap((row): Figure[] => [
        ...(row.coarse === undefined
          ? []
          : [{ name: `${row.name}-stage1`, value: row.coarse, unit: 's', source: row.source }]),
        ...(row.fine === undefined
          ? []
          : [{ name: `${row.name}-stage2`, value: row.fine, unit: 's', source: row.source }]),
        { name: row.name, value: row.total, unit: 's', source: row.source },
        ...(row.cpu === undefined ? [] : [{ name: `${row.name}-cpu`, value: row.cpu, unit: 's', source: row.source }]),
        ...(row.memory === undefined
          ? []
          : [{ name: `${row.name}-bytes`, value: row.memory, unit: 'bytes', source: 'computed' as const }]),
      ]),
    ];
    const report = {
      bench: 'two-stage',
      parameters: {
        coarseDimension: c,
        fineDimension: f,
        measuredTemplates: m,
        measuredK: k,
        templates: M,
        k: K,
        seal: PUBLISHED.name,
        runs: RUNS,
        kernel: own.kernel,
        ...load,
        ...versions(),
        small: small === true,
      },
      machine: machine(),
      results,
    };
    const markdown = page(
      `Two-stage search: ${c} dimensions, then the best K at ${f}`,
      'two-stage',
      [
        '![Seconds of two stages and of one](two-stage.svg)',
        `For ${templates(M)} templates and K = ${whole(K)}:`,
        table(
          ['system', 'stage 1', 'stage 2', 'total', 'CPU time', 'memory of the gallery', 'source'],
          rows.map((row) => [
            row.system,
            row.coarse === undefined ? '' : marked(seconds(row.coarse), row.source),
            row.fine === undefined ? '' : marked(seconds(row.fine), row.source),
            marked(seconds(row.total), row.source),
            row.cpu === undefined ? '' : marked(seconds(row.cpu), row.source),
            row.memory === undefined ? '' : bytes(row.memory),
            row.source,
          ]),
          [0, 6],
        ),
        `${EXTRAPOLATED} ${timedBy(RUNS)} ${copiesOf(DISTINCT)}`,
        `Run whole, with ${whole(m)} templates and K = ${whole(k)}: stage 1 ${seconds(real.coarse)}, stage 2 ${seconds(real.fine)}, together ${seconds(real.coarse + real.fine)}; one stage at ${f} dimensions ${seconds(real.single)}. (Of the stages the fastest of ${real.probes} probes, of the single one the fastest of ${RUNS} runs.) The two stages found the best template of the full search for ${real.found} of ${real.probes} probes. (The templates are synthetic: random directions, coordinate i weighted by i^−0.75, of which the short form takes the first ${c}. The weights were chosen for that: without them the first 16 of 192 coordinates found none of 5 probes at the same K. What a trained compressor loses is another experiment.)`,
        "Two stages need the gallery twice, once in each encoding, and Boddeti's takes a ciphertext for every template. The second stage tells the server which K templates are the candidates.",
      ],
      report,
      asGiven({ small }),
    );
    return { report, markdown, svg: await plot(rows, M) };
  },
};

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
async function search(
  m: number,
  k: number,
  coarseDimension: number,
  fineDimension: number,
  probes: number,
  single: SealCost,
) {
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
  const figures: Figure[] = [
    { name: `run-m${m}-stage1`, value: coarse, unit: 's', source: 'measured' },
    { name: `run-m${m}-stage2`, value: fine, unit: 's', source: 'measured' },
    { name: `run-m${m}-single`, value: singleSeconds, unit: 's', source },
    { name: `run-m${m}-found`, value: found / probes, unit: 'of probes', source: 'measured' },
  ];
  return { coarse, fine, single: singleSeconds, found, probes, figures };
}

/** Coordinates that matter less and less, as those of principal axes do: a short form of vectors without any such order would find nothing. */
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

function plot(rows: readonly Row[], m: number): Promise<string> {
  const values = rows.map((row) => ({
    system: row.system,
    seconds: row.total,
    label: `${marked(seconds(row.total), row.source)}${row.coarse === undefined ? '' : `  (${seconds(row.coarse)} + ${seconds(row.fine!)})`}`,
    source: row.source,
    colour:
      COLOURS[
        row.source === 'published'
          ? 'published'
          : row.name === 'ours-exact'
            ? 'this project, exact'
            : row.name === 'ours-compact'
              ? 'this project, compact'
              : 'HERS, SEAL'
      ],
  }));
  return render({
    $schema: SCHEMA,
    title: {
      text: `One search of ${templates(m)} templates: two stages, and one`,
      subtitle: 'black: as published; hollow: extrapolated from measured blocks; in brackets: stage 1 + stage 2',
    },
    width: 420,
    height: { step: 30 },
    data: { values },
    encoding: {
      y: systemAxis(values.map(({ system }) => system)),
      x: logAxis(
        'seconds',
        values.map(({ seconds }) => seconds),
        'seconds',
        null,
      ),
    },
    layer: DOTS,
  });
}
