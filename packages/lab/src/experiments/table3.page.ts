// The page of Table 3.

import type { Data, Rendered } from './experiment.ts';
import { Figures } from './figures.ts';
import { EXTRAPOLATED, page, table } from './markdown.ts';
import { bySeries, COLOURS, HOLLOW_IF_EXTRAPOLATED, logAxis, render as plotted, SCHEMA } from './plot.ts';
import { bytes, seconds, templates } from './quantities.ts';
import type { Table3Parameters } from './table3.ts';

interface Row {
  readonly name: string;
  readonly system: string;
  readonly run: string;
  readonly colour: string;
}

function rows({ kernel }: Table3Parameters): Row[] {
  const run = "the paper's ten cores";
  return [
    // Elsewhere published figures share a colour; here they need one each.
    { name: 'published-boddeti', system: 'Boddeti, as published', run, colour: '#888888' },
    { name: 'published-hers', system: 'HERS, as published', run, colour: COLOURS.published },
    ...[
      { name: 'boddeti-seal', system: 'Boddeti, SEAL', run: 'one thread here' },
      { name: 'hers-seal', system: 'HERS, SEAL', run: 'one thread here' },
      { name: 'hers-seal-bgv', system: 'HERS, SEAL, improved', run: 'one thread here' },
      { name: 'ours-exact', system: 'this project, exact', run: kernel },
      { name: 'ours-compact', system: 'this project, compact', run: kernel },
    ].map((row) => ({ ...row, colour: COLOURS[row.system] })),
  ];
}

export async function render(data: Data<Table3Parameters>): Promise<Rendered> {
  const { parameters } = data;
  const figures = new Figures(data);
  const shown = rows(parameters).filter(({ name }) => figures.has(`${name}-d${parameters.dimensions[0]}`));
  const timed = shown.filter(({ name }) => figures.has(`${name}-d${parameters.dimensions[0]}-cpu`));
  const columns = (name: string, ending: string, show: (value: number) => string) =>
    parameters.dimensions.map((d) => figures.cell(`${name}-d${d}${ending}`, show));
  const head = parameters.dimensions.map((d) => `d = ${d}`);
  const times = (some: readonly Row[], ending: string) =>
    table(
      ['system', 'run on', ...head],
      some.map(({ name, system, run }) => [system, run, ...columns(name, ending, seconds)]),
      [0, 1],
    );
  const markdown = page(
    data,
    `Table 3: a gallery of ${templates(parameters.templates)} templates`,
    'Seconds and bytes for a gallery of 100 million',
    [
      'Time of one search:',
      times(shown, ''),
      'Memory of the gallery:',
      table(
        ['system', ...head],
        shown.map(({ name, system }) => [system, ...columns(name, '-bytes', bytes)]),
      ),
      'CPU time of one search:',
      times(timed, '-cpu'),
      EXTRAPOLATED,
      `The paper used ten cores at 3.3 GHz. SEAL runs here in one thread, as WebAssembly. Galleries that do not fit into half of this machine's memory are extrapolated: their times are for a machine that has enough of it and scans at the same rate. The paper's gigabytes are more than SEAL's ciphertexts take today (131 072 bytes each). "Improved" is BGV with one relinearisation per block, which the paper does not have.`,
    ],
  );
  return { markdown, svg: await plot(data, shown) };
}

const PANELS = [
  { title: 'time of one search', unit: 'seconds', ending: '' },
  { title: 'memory of the gallery', unit: 'bytes', ending: '-bytes' },
] as const;

function plot(data: Data<Table3Parameters>, shown: readonly Row[]): Promise<string> {
  const { templates: m, dimensions } = data.parameters;
  const figures = new Figures(data);
  const series = bySeries(
    'system',
    shown.map(({ system }) => system),
    { colours: shown.map(({ colour }) => colour), legend: { orient: 'bottom', columns: 3 } },
  );
  return plotted({
    $schema: SCHEMA,
    title: {
      text: `${templates(m)} templates: time of one search, and memory`,
      subtitle:
        'hollow: extrapolated from measured blocks; the published figures are of ten cores, SEAL here is one thread',
    },
    hconcat: PANELS.map(({ title, unit, ending }) => {
      const values = shown.flatMap(({ name, system, colour }) =>
        dimensions
          .filter((d) => figures.has(`${name}-d${d}${ending}`))
          .map((d) => {
            const { value, source } = figures.of(`${name}-d${d}${ending}`);
            return { system, dimension: String(d), value, source, colour };
          }),
      );
      return {
        title: { text: title, fontSize: 13 },
        width: 330,
        height: 320,
        data: { values },
        encoding: {
          x: {
            field: 'dimension',
            type: 'nominal' as const,
            sort: dimensions.map(String),
            title: 'dimensions',
            axis: { labelAngle: 0, grid: true },
          },
          y: logAxis(
            'value',
            values.map(({ value }) => value),
            unit,
            null,
          ),
        },
        layer: [
          { mark: { type: 'line' as const, strokeWidth: 2 }, encoding: { color: series.color } },
          {
            mark: { type: 'point' as const, size: 50, opacity: 1, strokeWidth: 2 },
            encoding: { ...series, fill: HOLLOW_IF_EXTRAPOLATED },
          },
        ],
      };
    }),
  });
}
