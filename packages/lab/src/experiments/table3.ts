// The paper's Table 3: seconds and gigabytes for a gallery of 100 million.

import { PUBLISHED } from '@hers/paper';
import type { PaperVariantName } from '../engine-paper.ts';
import { compared, machine, progress } from '../report.ts';
import { loadNow, timedBy } from './clock.ts';
import { asGiven, type Experiment, type Figure, type Outcome, type Source, wholeNumbers } from './experiment.ts';
import { EXTRAPOLATED, page, table, versions } from './markdown.ts';
import { COLOURS, DOTS, logAxis, render, SCHEMA } from './plot.ts';
import { TABLE_3 } from './published.ts';
import { bytes, marked, seconds, templates } from './quantities.ts';
import { measureSeal, sealBytes, sealSeconds } from './seal-cost.ts';
import { copiesOf, SharedMaskGallery } from './shared-mask-cost.ts';

interface Cell {
  readonly seconds: number;
  readonly cpu?: number;
  readonly bytes: number;
  readonly source: Source;
}

interface Row {
  readonly name: string;
  readonly system: string;
  readonly note: string;
  readonly cells: Map<number, Cell>;
  readonly colour: string;
}

const RUNS = 3;
const DISTINCT = 16;

export const table3: Experiment = {
  name: 'table3',
  summary: 'seconds and gigabytes for 100 million templates of 32, 64, 128 and 512 dimensions',
  options: { dimensions: { type: 'string', help: 'others than 32,64,128,512' } },
  async run({ small = false, dimensions: asked }): Promise<Outcome> {
    const load = loadNow();
    const m = small ? 100_000 : TABLE_3.templates;
    const dimensions = wholeNumbers(asked, small ? [4, 8] : TABLE_3.dimensions);
    const { kernel, rows: own } = await ours(m, dimensions, small === true);
    const rows = [...published(dimensions), ...(await seal(m, dimensions, small === true)), ...own];
    const results: Figure[] = rows.flatMap(({ name, cells }) =>
      [...cells].flatMap(([dimension, cell]): Figure[] => {
        const time = { name: `${name}-d${dimension}`, value: cell.seconds, unit: 's', source: cell.source };
        const baseline = rows.find((row) => row.name === 'hers-seal')!.cells.get(dimension)!;
        const against = { name: `hers-seal-d${dimension}`, value: baseline.seconds, unit: 's' };
        return [
          name.startsWith('ours') ? { ...compared(time, against), source: cell.source } : time,
          ...(cell.cpu === undefined
            ? []
            : [{ name: `${name}-d${dimension}-cpu`, value: cell.cpu, unit: 's', source: cell.source }]),
          {
            name: `${name}-d${dimension}-bytes`,
            value: cell.bytes,
            unit: 'bytes',
            // A size is known without building it.
            source: cell.source === 'published' ? 'published' : 'computed',
          },
        ];
      }),
    );
    const report = {
      bench: 'table3',
      parameters: {
        templates: m,
        dimensions,
        seal: PUBLISHED.name,
        runs: RUNS,
        kernel,
        ...load,
        ...versions(),
        small: small === true,
      },
      machine: machine(),
      results,
    };
    const lines = (show: (cell: Cell) => string) =>
      rows.map((row) => [
        row.system,
        row.note,
        ...dimensions.map((d) => (row.cells.has(d) ? show(row.cells.get(d)!) : '')),
      ]);
    const head = ['system', 'run on', ...dimensions.map((d) => `d = ${d}`)];
    const markdown = page(
      `Table 3: a gallery of ${templates(m)} templates`,
      'table3',
      [
        '![Seconds and bytes for a gallery of 100 million](table3.svg)',
        'Time of one search:',
        table(
          head,
          lines((cell) => marked(seconds(cell.seconds), cell.source)),
          [0, 1],
        ),
        'CPU time of one search:',
        table(
          head,
          lines((cell) => (cell.cpu === undefined ? '' : marked(seconds(cell.cpu), cell.source))),
          [0, 1],
        ),
        'Memory of the gallery:',
        table(
          head,
          lines((cell) => bytes(cell.bytes)),
          [0, 1],
        ),
        `${EXTRAPOLATED} ${timedBy(RUNS)} ${copiesOf(DISTINCT)}`,
        "The paper used ten cores at 3.3 GHz; SEAL runs here in one thread, as WebAssembly. Times of galleries that do not fit into half of this machine's memory are for a machine that has enough of it and scans at the same rate. The paper's gigabytes are larger than SEAL's ciphertexts are today (131 072 bytes in memory). \"Improved\" is BGV with one relinearisation per block, which the paper does not have.",
      ],
      report,
      asGiven({ dimensions: asked, small }),
    );
    return { report, markdown, svg: await plot(rows, m) };
  },
};

function published(dimensions: readonly number[]): Row[] {
  const known = dimensions.filter((d) => TABLE_3.hers[d]);
  const cell = ({ seconds, gigabytes }: { seconds: number; gigabytes: number }) => ({
    seconds,
    bytes: gigabytes * 1e9,
    source: 'published' as const,
  });
  const note = `the paper's ${TABLE_3.cores} cores`;
  return [
    {
      name: 'published-boddeti',
      system: 'Boddeti, as published',
      note,
      cells: new Map(known.map((d) => [d, cell(TABLE_3.boddeti)])),
      colour: 'published',
    },
    {
      name: 'published-hers',
      system: 'HERS, as published',
      note,
      cells: new Map(known.map((d) => [d, cell(TABLE_3.hers[d])])),
      colour: 'published',
    },
  ];
}

async function seal(m: number, dimensions: readonly number[], small: boolean): Promise<Row[]> {
  const systems: [PaperVariantName, string, string][] = [
    ['boddeti', 'boddeti-seal', 'Boddeti, SEAL'],
    ['hers', 'hers-seal', 'HERS, SEAL'],
    ['hers-bgv', 'hers-seal-bgv', 'HERS, SEAL, improved'],
  ];
  const rows: Row[] = [];
  for (const [variant, name, system] of systems) {
    const cells: Row['cells'] = new Map();
    for (const dimension of dimensions) {
      const blocks = small ? 1 : variant === 'boddeti' ? 24 : 3;
      const cost = await measureSeal(variant, dimension, { blocks, runs: small ? 1 : RUNS, distinct: 1 });
      cells.set(dimension, { ...sealSeconds(cost, m), bytes: sealBytes(cost, m) });
    }
    rows.push({ name, system, note: 'one thread here', cells, colour: system });
  }
  return rows;
}

async function ours(
  m: number,
  dimensions: readonly number[],
  small: boolean,
): Promise<{ rows: Row[]; kernel: string }> {
  const rows: Row[] = [];
  let kernel = '';
  for (const profile of ['exact', 'compact'] as const) {
    const cells: Row['cells'] = new Map();
    for (const dimension of dimensions) {
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
        cells.set(dimension, await gallery.search(m));
      } finally {
        await gallery.close();
      }
    }
    const name = `this project, ${profile}`;
    rows.push({ name: `ours-${profile}`, system: name, note: kernel, cells, colour: name });
  }
  return { rows, kernel };
}

function plot(rows: readonly Row[], m: number): Promise<string> {
  const dimensions = [...new Set(rows.flatMap((row) => [...row.cells.keys()]))].map(String);
  // Two published rows share a colour elsewhere; here they need one each.
  const colours = {
    domain: rows.map(({ system }) => system),
    range: rows.map(({ colour, name }) => (name === 'published-boddeti' ? '#888888' : COLOURS[colour])),
  };
  const panels = [
    { title: 'time of one search', unit: 'seconds' as const, of: (cell: Cell) => cell.seconds },
    { title: 'memory of the gallery', unit: 'bytes' as const, of: (cell: Cell) => cell.bytes },
  ];
  return render({
    $schema: SCHEMA,
    title: {
      text: `${templates(m)} templates: time of one search, and memory`,
      subtitle:
        'hollow: extrapolated from measured blocks; the published figures are of ten cores, SEAL here is one thread',
    },
    hconcat: panels.map(({ title, unit, of }) => {
      const values = rows.flatMap((row) =>
        [...row.cells].map(([dimension, cell]) => ({
          system: row.system,
          dimension: String(dimension),
          value: of(cell),
          source: unit === 'bytes' ? 'computed' : cell.source,
          colour: colours.range[colours.domain.indexOf(row.system)],
        })),
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
            sort: dimensions,
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
          {
            mark: { type: 'line' as const, strokeWidth: 2 },
            encoding: {
              color: {
                field: 'system',
                type: 'nominal' as const,
                title: null,
                scale: colours,
                legend: { orient: 'bottom' as const, columns: 3 },
              },
            },
          },
          { ...DOTS[0], mark: { ...DOTS[0].mark, size: 50 } },
        ],
      };
    }),
  });
}
