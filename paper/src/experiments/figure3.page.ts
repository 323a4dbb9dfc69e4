// The page of Figure 3.

import type { Data, Rendered } from '../lab/experiment.ts';
import { EXTRAPOLATED, Figures, page, table } from '../lab/markdown.ts';
import {
  bySystem,
  COLOURS,
  HOLLOW_IF_EXTRAPOLATED,
  logAxis,
  logAxisOf,
  panelsOf,
  render as plotted,
  SCHEMA,
} from '../lab/plot.ts';
import { grouped, seconds, templates } from '../lab/quantities.ts';
import type { Figure3Parameters } from './figure3.ts';

/** By the names of their results. */
const SYSTEMS: readonly (readonly [string, string])[] = [
  ['boddeti-seal', 'Boddeti, SEAL'],
  ['hers-seal', 'HERS, SEAL'],
  ['hers-seal-bgv', 'HERS, SEAL, improved'],
  ['ours-exact', 'this project, exact'],
  ['ours-compact', 'this project, compact'],
];

export async function render(data: Data<Figure3Parameters>): Promise<Rendered> {
  const { dimensions, sizes } = data.parameters;
  const figures = new Figures(data);
  const markdown = page(
    data,
    'Figure 3: time of one search against the size of the gallery',
    'Time of one search against the size of the gallery, for several dimensions',
    [
      "All times are of one thread. Below 4 096 templates HERS pays for a whole block, however few templates it holds. So Boddeti's encoding is faster for small galleries, as the paper reports:",
      table(
        ['dimensions', 'HERS is faster from', ''],
        dimensions.map((dimension) => {
          const { value, source } = figures.of(`crossing-d${dimension}`);
          const how = source === 'measured' ? 'both measured there' : 'computed from measured blocks';
          return [grouped(dimension), `${grouped(value)} templates`, how];
        }),
        [2],
      ),
      ...dimensions.flatMap((dimension) => [
        `### ${dimension} dimensions`,
        table(
          ['templates', ...SYSTEMS.map(([, system]) => system)],
          sizes.map((m) => [
            templates(m),
            ...SYSTEMS.map(([name]) => figures.cell(`${name}-d${dimension}-m${m}`, seconds)),
          ]),
          [],
        ),
      ]),
      EXTRAPOLATED,
      '"Improved" is the same system with BGV and one relinearisation per block, which the paper does not have. "This project" is the scan of packages/scan, with the gallery in memory. The CPU times are in the data.',
    ],
  );
  return { markdown, svg: await plot(data) };
}

function plot(data: Data<Figure3Parameters>): Promise<string> {
  const { dimensions, sizes } = data.parameters;
  const figures = new Figures(data);
  const panel = (dimension: number) => `${dimension} dimensions`;
  const values = dimensions.flatMap((dimension) =>
    SYSTEMS.flatMap(([name, system]) =>
      sizes.map((m) => {
        const { value, source } = figures.of(`${name}-d${dimension}-m${m}`);
        return { panel: panel(dimension), system, m, seconds: value, source, colour: COLOURS[system] };
      }),
    ),
  );
  const crossings = dimensions.map((dimension) => ({
    panel: panel(dimension),
    crossing: figures.value(`crossing-d${dimension}`),
  }));
  const series = bySystem(
    SYSTEMS.map(([, system]) => system),
    { orient: 'bottom', columns: 3 },
  );
  const x = logAxis('m', [...sizes], 'count', 'templates');
  const y = logAxisOf(values, 'seconds', 'seconds');
  return plotted({
    $schema: SCHEMA,
    title: {
      text: 'One search, one thread: time against the size of the gallery',
      subtitle: 'hollow: extrapolated from measured blocks; dashed: from here on HERS is faster than Boddeti',
    },
    data: { values: [...values, ...crossings] },
    facet: panelsOf(dimensions.map(panel)),
    columns: 2,
    spec: {
      width: 390,
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
          encoding: { x, y, color: series.color },
        },
        {
          transform: [{ filter: 'isValid(datum.seconds)' }],
          mark: { type: 'point', size: 46, opacity: 1, strokeWidth: 1.6 },
          encoding: { x, y, ...series, fill: HOLLOW_IF_EXTRAPOLATED },
        },
      ],
    },
  });
}
