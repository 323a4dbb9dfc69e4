// The paper's Figure 3: the time of one search against the size of the gallery, for several dimensions, on logarithmic scales.

import { PUBLISHED } from '@hers/paper';
import type { PaperVariantName } from '../engine-paper.ts';
import { machine, progress } from '../report.ts';
import { loadNow, timedBy } from './clock.ts';
import { asGiven, type Experiment, type Figure, type Outcome, type Source, wholeNumbers } from './experiment.ts';
import { EXTRAPOLATED, page, table, versions } from './markdown.ts';
import { COLOURS, colourScale, logAxis, render, SCHEMA } from './plot.ts';
import { marked, seconds, templates, whole } from './quantities.ts';
import { measureSeal, type SealCost, sealSeconds } from './seal-cost.ts';
import { copiesOf, SharedMaskGallery } from './shared-mask-cost.ts';

interface Point {
  readonly system: string;
  readonly name: string;
  readonly dimension: number;
  readonly m: number;
  readonly seconds: number;
  readonly cpu: number;
  readonly source: Source;
}

const SEAL_SYSTEMS: readonly { variant: PaperVariantName; name: string; system: string }[] = [
  { variant: 'boddeti', name: 'boddeti-seal', system: 'Boddeti, SEAL' },
  { variant: 'hers', name: 'hers-seal', system: 'HERS, SEAL' },
  { variant: 'hers-bgv', name: 'hers-seal-bgv', system: 'HERS, SEAL, improved' },
];

const RUNS = 3;
const DISTINCT = 16;

export const figure3: Experiment = {
  name: 'figure3',
  summary: 'time against the size of the gallery, 1 to 10 million, for 32, 64, 128 and 512 dimensions',
  options: { dimensions: { type: 'string', help: 'others than 32,64,128,512' } },
  async run({ small = false, dimensions: asked }): Promise<Outcome> {
    const dimensions = wholeNumbers(asked, small ? [4, 8] : [32, 64, 128, 512]);
    const load = loadNow();
    const sizes = Array.from({ length: small ? 5 : 8 }, (_, k) => 10 ** k);
    const points: Point[] = [];
    const crossings: { dimension: number; m: number; measured: boolean }[] = [];
    let kernel = '';
    for (const dimension of dimensions) {
      const costs = new Map<PaperVariantName, SealCost>();
      for (const { variant, name, system } of SEAL_SYSTEMS) {
        const cost = await measureSeal(variant, dimension, {
          ...sample(variant, dimension, small === true),
          runs: small ? 1 : RUNS,
        });
        costs.set(variant, cost);
        for (const m of sizes) points.push({ system, name, dimension, m, ...sealSeconds(cost, m) });
      }
      crossings.push({ dimension, ...crossing(costs.get('boddeti')!, costs.get('hers')!) });
      for (const profile of ['exact', 'compact'] as const) {
        progress(`ours, ${profile}, d = ${dimension}`);
        const gallery = await SharedMaskGallery.open({
          profile,
          dimension,
          threads: 1,
          distinct: small ? 1 : DISTINCT,
          runs: small ? 1 : RUNS,
        });
        try {
          await gallery.check();
          kernel ||= gallery.kernelDetail;
          for (const m of sizes) {
            const { seconds, cpu, source } = await gallery.search(m);
            const system = `this project, ${profile}`;
            points.push({ system, name: `ours-${profile}`, dimension, m, seconds, cpu, source });
          }
        } finally {
          await gallery.close();
        }
      }
    }
    const results: Figure[] = points.flatMap(({ name, dimension, m, seconds: value, cpu, source }) => [
      { name: `${name}-d${dimension}-m${m}`, value, unit: 's', source },
      { name: `${name}-d${dimension}-m${m}-cpu`, value: cpu, unit: 's', source },
    ]);
    for (const { dimension, m, measured } of crossings) {
      results.push({
        name: `crossing-d${dimension}`,
        value: m,
        unit: 'templates',
        source: measured ? 'measured' : 'extrapolated',
      });
    }
    const report = {
      bench: 'figure3',
      parameters: {
        dimensions,
        seal: PUBLISHED.name,
        threads: 1,
        runs: RUNS,
        kernel,
        ...load,
        ...versions(),
        small: small === true,
      },
      machine: machine(),
      results,
    };
    const markdown = page(
      'Figure 3: time of one search against the size of the gallery',
      'figure3',
      [
        '![Time of one search against the size of the gallery, for several dimensions](figure3.svg)',
        `Everything in one thread. Filled points were measured at that size; hollow ones are extrapolated from measured blocks. Below ${whole(4096)} templates HERS pays for a whole block however few it holds, so Boddeti's encoding is faster there, as the paper reports:`,
        table(
          ['dimensions', 'HERS is faster from so many templates on', ''],
          crossings.map(({ dimension, m, measured }) => [
            whole(dimension),
            whole(m),
            measured ? 'both measured there' : 'computed from measured blocks',
          ]),
          [2],
        ),
        ...dimensions.flatMap((dimension) => {
          const systems = [...new Set(points.map(({ system }) => system))];
          const rows = sizes.map((m) => [
            templates(m),
            ...systems.map((system) => {
              const point = points.find(
                (each) => each.system === system && each.dimension === dimension && each.m === m,
              )!;
              return marked(seconds(point.seconds), point.source);
            }),
          ]);
          return [`### ${dimension} dimensions`, table(['templates', ...systems], rows, [])];
        }),
        `${EXTRAPOLATED} ${timedBy(RUNS)} The CPU times are in the data.`,
        '"Improved" is the same system with BGV and one relinearisation per block, which the paper does not have. Ours is the scan of packages/scan, with galleries in memory; what would take more than half of the machine\'s memory is extrapolated from 2 GB of it.',
        copiesOf(DISTINCT),
      ],
      report,
      asGiven({ dimensions: asked, small }),
    );
    return { report, markdown, svg: await plot(points, crossings) };
  },
};

/** Enough of Boddeti's templates to see the crossing, and three blocks of HERS. */
function sample(variant: PaperVariantName, dimension: number, small: boolean): { blocks: number; distinct: number } {
  if (small) return variant === 'boddeti' ? { blocks: 12, distinct: 2 } : { blocks: 1, distinct: 1 };
  if (variant === 'boddeti') return { blocks: dimension <= 64 ? 64 : dimension <= 128 ? 100 : 300, distinct: 8 };
  return { blocks: 3, distinct: dimension <= 128 ? 2 : 1 };
}

/** The smallest gallery for which HERS is faster, and whether Boddeti was measured as far as that. */
function crossing(boddeti: SealCost, hers: SealCost): { m: number; measured: boolean } {
  const block = sealSeconds(hers, 1).seconds;
  const within = boddeti.cumulative.findIndex((seconds) => seconds > block);
  if (within >= 0) return { m: within + 1, measured: true };
  return { m: Math.ceil((block - boddeti.start) / boddeti.block), measured: false };
}

function plot(points: readonly Point[], crossings: readonly { dimension: number; m: number }[]): Promise<string> {
  const systems = [...new Set(points.map(({ system }) => system))];
  const values = points.map((point) => ({
    ...point,
    panel: `${point.dimension} dimensions`,
    colour: COLOURS[point.system],
  }));
  const panels = crossings.map(({ dimension }) => `${dimension} dimensions`);
  const color = {
    field: 'system',
    type: 'nominal' as const,
    title: null,
    scale: colourScale(systems),
    legend: { orient: 'bottom' as const, columns: 3 },
  };
  const x = logAxis(
    'm',
    points.map(({ m }) => m),
    'count',
    'templates',
  );
  const y = logAxis(
    'seconds',
    points.map(({ seconds }) => seconds),
    'seconds',
    null,
  );
  return render({
    $schema: SCHEMA,
    title: {
      text: 'One search, one thread: time against the size of the gallery',
      subtitle: 'hollow: extrapolated from measured blocks; dashed: from here on HERS is faster than Boddeti',
    },
    data: {
      values: [...values, ...crossings.map(({ dimension, m }) => ({ panel: `${dimension} dimensions`, crossing: m }))],
    },
    facet: { field: 'panel', type: 'nominal', title: null, sort: panels },
    columns: 2,
    spec: {
      width: 340,
      height: 240,
      layer: [
        {
          transform: [{ filter: 'isValid(datum.crossing)' }],
          mark: { type: 'rule', strokeDash: [4, 3], color: '#777777' },
          encoding: { x: { field: 'crossing', type: 'quantitative', scale: x.scale } },
        },
        {
          transform: [{ filter: 'isValid(datum.seconds)' }],
          mark: { type: 'line', strokeWidth: 2 },
          encoding: { x, y, color },
        },
        {
          transform: [{ filter: 'isValid(datum.seconds)' }],
          mark: { type: 'point', size: 46, opacity: 1, strokeWidth: 1.6 },
          encoding: {
            x,
            y,
            color,
            fill: {
              condition: { test: "datum.source === 'extrapolated'", value: 'white' },
              field: 'colour',
              type: 'nominal',
              scale: null,
            },
          },
        },
      ],
    },
  });
}
