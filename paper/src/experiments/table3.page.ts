// The page of Table 3.

import {
  boddetiBytes,
  type Costs,
  HEADLINE_DIMENSIONS,
  type HeadlineDimensions,
  type Headlines,
  headlines,
  hersBytes,
  publishedHeadlines,
} from '../lab/arithmetic.ts';
import type { Data, Rendered } from '../lab/experiment.ts';
import { EXTRAPOLATED, Figures, page, table } from '../lab/markdown.ts';
import {
  bySeries,
  COLOURS,
  dimensionAxis,
  HOLLOW_IF_EXTRAPOLATED,
  logAxisOf,
  render as plotted,
  SCHEMA,
} from '../lab/plot.ts';
import { COMMUNICATION, HEADLINES, TABLE_3, TWO_STAGE } from '../lab/published.ts';
import { bytes, grouped, seconds, significant, templates } from '../lab/quantities.ts';
import type { Table3Parameters } from './table3.ts';

interface Row {
  readonly name: string;
  readonly system: string;
  readonly run: string;
  readonly cores: number;
  /** In the plot; none for what is there in another row. */
  readonly colour?: string;
}

/** Of SEAL in all threads, and of ours. */
const threadsOf = ({ parameters, machine }: Data<Table3Parameters>) => parameters.threads ?? machine.cores;

function rows(data: Data<Table3Parameters>): Row[] {
  const { kernel } = data.parameters;
  const threads = threadsOf(data);
  const paper = { run: "the paper's ten cores", cores: TABLE_3.cores };
  const seal = [
    { name: 'boddeti-seal', system: 'Boddeti, SEAL' },
    { name: 'hers-seal', system: 'HERS, SEAL' },
    { name: 'hers-seal-bgv', system: 'HERS, SEAL, improved' },
  ];
  const own = [
    { name: 'ours-exact', system: 'this project, exact' },
    { name: 'ours-compact', system: 'this project, compact' },
  ];
  return [
    // Elsewhere published figures share a colour; here they need one each.
    { name: 'published-boddeti', system: 'Boddeti, as published', ...paper, colour: '#888888' },
    { name: 'published-hers', system: 'HERS, as published', ...paper, colour: COLOURS.published },
    ...seal.flatMap((row) => [
      { ...row, run: 'one thread here', cores: 1, colour: COLOURS[row.system] },
      { name: `${row.name}-all`, system: row.system, run: `${threads} threads here`, cores: threads },
    ]),
    ...own.map((row) => ({ ...row, run: kernel, cores: threads, colour: COLOURS[row.system] })),
  ];
}

export async function render(data: Data<Table3Parameters>): Promise<Rendered> {
  const { parameters } = data;
  const figures = new Figures(data);
  const shown = rows(data).filter(({ name }) => figures.has(`${name}-d${parameters.dimensions[0]}`));
  const named = shown.filter(({ colour }) => colour !== undefined);
  const timed = shown.filter(({ name }) => figures.has(`${name}-d${parameters.dimensions[0]}-cpu`));
  const columns = (name: string, ending: string, show: (value: number) => string) =>
    parameters.dimensions.map((d) => figures.cell(`${name}-d${d}${ending}`, show));
  const head = parameters.dimensions.map((d) => `d = ${d}`);
  const times = (some: readonly Row[], ending: string, of: (value: number, row: Row) => number = (value) => value) =>
    table(
      ['system', 'run on', ...head],
      some.map((row) => [row.system, row.run, ...columns(row.name, ending, (value) => seconds(of(value, row)))]),
      [0, 1],
    );
  const markdown = page(
    data,
    `Table 3: a gallery of ${templates(parameters.templates)} templates`,
    'Seconds and bytes for a gallery of 100 million',
    [
      'Time of one search:',
      times(shown, ''),
      'The same by the core: time × cores.',
      times(shown, '', (value, { cores }) => value * cores),
      'CPU time of one search:',
      times(timed, '-cpu'),
      EXTRAPOLATED,
      `The paper used ten cores at 3.3 GHz, as ten processes. SEAL runs here as WebAssembly. In several threads each has a part of the gallery, and all get the same query. Galleries that do not fit into half of this machine's memory are extrapolated: their times are for a machine that has enough of it and scans at the same rate. "Improved" is BGV with one relinearisation per block, which the paper does not have.`,
      "The paper has one time for Boddeti's encoding at all dimensions. Its Table 2 counts log2 d rotations for each template; the authors' released code always makes 11, as many as half of the slots take. Here there are log2 d, so the time grows a little with the dimension.",
      "## The paper's headlines",
      ...headlineTable(data),
      '## Memory of the gallery',
      table(
        ['system', ...head],
        named.map(({ name, system }) => [system, ...columns(name, '-bytes', bytes)]),
      ),
      ...memory(data),
      ...client(data),
    ],
  );
  return { markdown, svg: await plot(data, named) };
}

const HEADLINE_ROWS: readonly [keyof Headlines, (dimensions: HeadlineDimensions) => string][] = [
  ['encoding', ({ encoding }) => `the encoding: HERS against Boddeti, ${encoding} dimensions`],
  ['compression', ({ full, compressed }) => `fewer dimensions: ${full} against ${compressed}`],
  ['both', ({ compressed }) => `both: ${compressed} dimensions against Boddeti`],
  ['memory', ({ compressed }) => `memory: ${compressed} dimensions against Boddeti`],
  ['stages', ({ coarse, full }) => `two stages: ${coarse} dimensions, then the best at ${full}, against Boddeti`],
];

function headlineTable(data: Data<Table3Parameters>): string[] {
  const { headlines: dimensions = HEADLINE_DIMENSIONS } = data.parameters;
  const figures = new Figures(data);
  const value = (name: string) => (figures.has(name) ? figures.value(name) : Number.NaN);
  const costs = (name: string, cores = 1): Costs => ({
    seconds: (d) => cores * value(`${name}-d${d}`),
    bytes: (d) => value(`${name}-d${d}-bytes`),
  });
  const threads = threadsOf(data);
  const again = TWO_STAGE.k / TWO_STAGE.templates;
  const boddeti = costs('boddeti-seal');
  const found = [
    publishedHeadlines(),
    headlines(boddeti, costs('hers-seal'), dimensions, again),
    headlines(boddeti, costs('ours-exact', threads), dimensions),
    headlines(boddeti, costs('ours-compact', threads), dimensions),
  ];
  return [
    table(
      ['times faster, or smaller', 'in the text', 'by its tables', 'SEAL here', 'exact', 'compact'],
      HEADLINE_ROWS.map(([key, said]) => [
        said(dimensions),
        significant(HEADLINES[key].ratio),
        ...found.map((each) => (Number.isNaN(each[key]) ? 'not measured' : significant(each[key]))),
      ]),
    ),
    `All ratios are by the core. The first two columns of figures are the paper's. "SEAL here" is both systems on SEAL in one thread. The last two are this project against Boddeti's encoding on SEAL, but for fewer dimensions, where it is against itself; it needs no second stage, so its last row is one search at ${dimensions.full} dimensions. The paper has the first row for a million templates, the others for ${templates(TABLE_3.templates)}; a block costs the same in both.`,
    `Fewer dimensions save what they should: ${dimensions.full} / ${dimensions.compressed} = ${significant(dimensions.full / dimensions.compressed)}. The second stage scores ${grouped(TWO_STAGE.k)} templates again.`,
  ];
}

/** Of a ciphertext with the paper's parameters. */
const SLOTS = 4096;

/** The paper's gigabytes from sizes of ciphertexts. */
function memory(data: Data<Table3Parameters>): string[] {
  const { templates: m, dimensions } = data.parameters;
  const figures = new Figures(data);
  const plain = figures.value(`boddeti-seal-d${dimensions[0]}-bytes`) / m;
  // Of the probe, which is a ciphertext for each dimension.
  const zlib = COMMUNICATION.hersProbe / COMMUNICATION.dimension;
  const row = (said: string, slots: number, ciphertext: number) => [
    said,
    bytes(boddetiBytes(m, ciphertext)),
    ...dimensions.map((d) => bytes(hersBytes(m, d, slots, ciphertext))),
  ];
  const known = dimensions.filter((d) => TABLE_3.hers[d]);
  return [
    `The paper's probe of ${COMMUNICATION.dimension} dimensions takes ${bytes(COMMUNICATION.hersProbe)}, which is ${bytes(zlib)} for each ciphertext: they are compressed, as ours are by zlib ([communication](../../docs/results/communication.md)). Its gigabytes follow from that size, and from half of the slots:`,
    table(
      ['a ciphertext', 'Boddeti', ...dimensions.map((d) => `HERS, d = ${d}`)],
      [
        row(`${bytes(plain)}, ${grouped(SLOTS)} slots`, SLOTS, plain),
        row(`${bytes(zlib)}, ${grouped(SLOTS)} slots`, SLOTS, zlib),
        row(`${bytes(zlib)}, ${grouped(SLOTS / 2)} slots`, SLOTS / 2, zlib),
        ...(known.length < dimensions.length
          ? []
          : [
              [
                'as published',
                bytes(TABLE_3.boddeti.gigabytes * 1e9),
                ...known.map((d) => bytes(TABLE_3.hers[d].gigabytes * 1e9)),
              ],
            ]),
      ],
    ),
    `Whatever the size of a ciphertext, Boddeti's encoding takes slots / d times the memory of HERS: ${grouped(SLOTS / 2)} / 32 = ${SLOTS / 64}, which is the paper's ratio, and ${grouped(SLOTS)} / 32 = ${SLOTS / 32}, which is ours. This is a fit of the paper's numbers, not something that it says; the authors' released code fills all ${grouped(SLOTS)} slots.`,
  ];
}

function client(data: Data<Table3Parameters>): string[] {
  const { chain } = data.parameters;
  const figures = new Figures(data);
  if (chain === undefined) return [];
  const responses = Math.ceil(TABLE_3.templates / SLOTS);
  const of = (name: string, show: (value: number) => string = seconds) => figures.cell(name, show);
  return [
    '## The client',
    table(
      ['', 'the paper', 'SEAL here', 'exact', 'compact'],
      [
        [
          `decryption of ${templates(TABLE_3.templates)} scores`,
          of('published-decryption', (value) => `< ${seconds(value)}`),
          ...['seal', 'ours-exact', 'ours-compact'].map((name) => of(`${name}-decryption`)),
        ],
        ['compression of one vector', of('published-inference'), '', ...Array(2).fill(of('network-inference'))],
      ],
    ),
    `One thread. The scores of one block were decrypted, and multiplied. A ciphertext holds ${grouped(SLOTS)} scores at most, so the paper's second is ${grouped(responses)} decryptions, of ${seconds(1 / responses)} each. Compression is DeepMDS++ as it is served, ${chain.join('-')}, in plain TypeScript.`,
  ];
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
    { colours: shown.map(({ colour }) => colour!), legend: { orient: 'bottom', columns: 3 } },
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
          x: dimensionAxis(dimensions),
          y: logAxisOf(values, 'value', unit),
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
