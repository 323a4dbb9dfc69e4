// The page about searches on a GPU.

import type { Data, Rendered } from '@hers/paper/lab/experiment';
import { Figures, page, table } from '@hers/paper/lab/markdown';
import { bySeries, logAxis, logAxisOf, namedLines, render as plotted, SCHEMA } from '@hers/paper/lab/plot';
import { seconds, significant, templates } from '@hers/paper/lab/quantities';
import type { GpuParameters } from './gpu.ts';

type GpuData = Data<GpuParameters>;

const PHASES = [
  ['encrypt', 'encrypt the query'],
  ['scan', 'scan'],
  ['decrypt', 'decrypt and rank'],
  ['p50', 'whole search'],
  ['p95', '95 % within'],
] as const;

/** Published: 100 million fingerprints of 192 dimensions, ten cores. */
const PAPER_SECONDS = 500;
/** For the estimate: what such a device draws at most, and what an hour of it costs to rent. */
const WATTS = 700;
const DOLLARS_PER_HOUR = 4;

export async function render(data: GpuData): Promise<Rendered> {
  const { device, dimensions, counts, searches } = data.parameters;
  const largest = Math.max(...counts);
  const markdown = page(data, 'A search on a GPU', 'Time of one search against the size of the gallery', [
    `One process holds the key, the gallery in the memory of ${device}, and searches it through \`collection.search\`. Responses stay on the device, where they are decrypted, checked by their canaries and ranked; the ten best come back. Vectors are pseudo-random unit vectors, encrypted under \`compact\` with the client's own code; probes differ from a record by noise. Medians of ${searches} searches after three. The gallery is made in bulk: manifest and lists are as always, sealed records and files of a store are not there.`,
    ...dimensions.map((dimension) => `${dimension} dimensions, in milliseconds:\n\n${phases(data, dimension)}`),
    `${agreement(data)} Beside encrypting, scanning and decrypting there is what JavaScript does for a search: checks, and the list of what was found.`,
    ...plans(data),
    ...scans(data),
    '## Beside the CPU',
    `The same galleries on ${data.machine.cores} cores (${data.machine.cpu}) of the same machine, medians of ${data.parameters.cpuSearches} whole searches in milliseconds:`,
    beside(data),
    'There, responses are decrypted by threads.',
    '## Several at once',
    'Eight vectors in one call, in milliseconds for all of them:',
    together(data),
    '## Before the first search',
    `Encrypting ${templates(largest)}, with lists and manifest and without sealed records, on all cores; opening the collection, which reads all lists; and the first search, which makes the canaries of all blocks and copies them to the device:`,
    table(
      ['dimensions', 'encrypting', 'opening', 'first search'],
      dimensions.map((dimension) => [
        String(dimension),
        ...['bulk-encrypt', 'open', 'first-search'].map((name) => {
          const figure = new Figures(data);
          const value = figure.value(`cuda-${dimension}-${largest}-${name}`);
          return seconds(name === 'bulk-encrypt' ? value : value / 1000);
        }),
      ]),
    ),
    '## The paper, and what it costs',
    `The paper reports ${PAPER_SECONDS} s for 100 million fingerprints of 192 dimensions on ten cores. That is another machine and another scheme, so only the order of magnitude can be compared.`,
    cost(data),
  ]);
  return { markdown, svg: await plot(data) };
}

function phases(data: GpuData, dimension: number): string {
  const figures = new Figures(data);
  return table(
    ['templates', ...PHASES.map(([, title]) => title)],
    data.parameters.counts
      .filter((count) => figures.has(`cuda-${dimension}-${count}-search-p50`))
      .map((count) => [
        templates(count),
        ...PHASES.map(([name]) => significant(figures.value(`cuda-${dimension}-${count}-search-${name}`))),
      ]),
  );
}

function agreement(data: GpuData): string {
  const shares = data.results.filter(({ name }) => name.endsWith('rank-1-as-in-the-clear')).map(({ value }) => value);
  return shares.every((share) => share === 1)
    ? 'In every search the best record was the one that a search in the clear finds.'
    : `In ${significant((100 * shares.reduce((sum, share) => sum + share, 0)) / shares.length)} % of all searches the best record was the one that a search in the clear finds.`;
}

/** Under which plan, for people. */
const PLANS: Readonly<Record<string, string>> = {
  'compact-strong': "`compact` with `integrity: 'strong'`",
  'small-strong': "`small` with `integrity: 'strong'`",
};

/** Searches under other plans than `compact`. */
function plans(data: GpuData): string[] {
  const { plans: known = [] } = data.parameters;
  if (known.length === 0) return [];
  const figures = new Figures(data);
  return [
    'Under other plans, in milliseconds. Every score of `exact` is checked by six sums of its block, and `strong` by checksum canaries, all on the device:',
    table(
      ['plan', 'dimensions', 'templates', ...PHASES.map(([, title]) => title)],
      known.map(({ plan, dimension, count }) => [
        PLANS[plan] ?? `\`${plan}\``,
        String(dimension),
        templates(count),
        ...PHASES.map(([name]) => significant(figures.value(`cuda-${plan}-${dimension}-${count}-search-${name}`))),
      ]),
    ),
  ];
}

function scans(data: GpuData): string[] {
  const { scans: known = [] } = data.parameters;
  const [first] = known;
  if (!first) return [];
  const figures = new Figures(data);
  const nameOf = ({ profile, dimension }: typeof first, name: string) => `scan-${profile}-${dimension}-${name}`;
  const value = (scan: typeof first, name: string) => figures.value(nameOf(scan, name));
  const cell = (scan: typeof first, name: string) => figures.cell(nameOf(scan, name), significant);
  const together = (scan: typeof first, name: string) =>
    figures.has(nameOf(scan, name)) ? `${cell(scan, name)} (${cell(scan, `${name}-throughput`)} times)` : '';
  return [
    '## The work of a server',
    `The figures above were put together from runs of \`npm run bench -- embedded --kernel …\`, a process each. What the device itself takes (\`npm run bench -- scan --kernel cuda\`), in milliseconds. *Through JavaScript* is a scan of the kernel whose responses all come to the host, as a server needs them:`,
    table(
      [
        ...['profile', 'dimensions', 'templates', 'multiply', 'of the speed of a copy', 'rest', 'both'],
        ...['with the copy to the host', 'through JavaScript', 'eight: multiply', 'both'],
      ],
      known.map((scan) => [
        `\`${scan.profile}\``,
        String(scan.dimension),
        templates(scan.count),
        cell(scan, 'multiply'),
        value(scan, 'multiply-of-copy').toFixed(2),
        ...['rest', 'server', 'server-and-copy-to-host', 'through-javascript'].map((name) => cell(scan, name)),
        ...['multiply-8', 'server-8'].map((name) => together(scan, name)),
      ]),
    ),
    ...(figures.has(nameOf(first, 'link')) ? [speeds(known, value)] : []),
  ];
}

type Scan = NonNullable<GpuParameters['scans']>[number];

/** How fast galleries are read, from where they are. */
function speeds(known: readonly Scan[], value: (scan: Scan, name: string) => number): string {
  const [first] = known;
  const inTurns = known.map(
    (scan) => `${significant(value(scan, 'in-turns'))} GB/s (\`${scan.profile}\` × ${scan.dimension})`,
  );
  const fastest = Math.max(...known.map((scan) => value(scan, 'multiply-of-copy') * value(scan, 'copy')));
  return `A copy within the device's memory runs at ${significant(value(first, 'copy'))} GB/s, and one from the host's at ${significant(value(first, 'link'))} GB/s. A gallery on the device is read at up to ${significant(fastest)} GB/s, and one that it fetches in turns from the host's memory at ${inTurns.join(', ')}.`;
}

function beside(data: GpuData): string {
  const figures = new Figures(data);
  const { dimensions, counts } = data.parameters;
  const value = (name: string) => (figures.has(name) ? significant(figures.value(name)) : '–');
  return table(
    ['templates', ...dimensions.flatMap((dimension) => [`${dimension}: GPU`, 'CPU'])],
    counts.map((count) => [
      templates(count),
      ...dimensions.flatMap((dimension) =>
        ['cuda', 'native'].map((kernel) => value(`${kernel}-${dimension}-${count}-search-p50`)),
      ),
    ]),
  );
}

function together(data: GpuData): string {
  const figures = new Figures(data);
  const { dimensions, counts } = data.parameters;
  return table(
    ['templates', ...dimensions.map((dimension) => `${dimension} dimensions`)],
    counts
      .filter((count) => figures.has(`cuda-${dimensions[0]}-${count}-eight-together-p50`))
      .map((count) => [
        templates(count),
        ...dimensions.map((dimension) => significant(figures.value(`cuda-${dimension}-${count}-eight-together-p50`))),
      ]),
  );
}

function cost(data: GpuData): string {
  const figures = new Figures(data);
  const { dimensions, counts } = data.parameters;
  const count = Math.max(...counts);
  const said = dimensions
    .filter((dimension) => figures.has(`cuda-${dimension}-${count}-search-p50`))
    .map((dimension) => {
      const ms = figures.value(`cuda-${dimension}-${count}-search-p50`);
      const joules = (ms / 1000) * WATTS;
      const dollars = ((ms / 3_600_000) * DOLLARS_PER_HOUR * 1e6).toFixed(0);
      return `${templates(count)} × ${dimension}: ${significant(ms)} ms × ${WATTS} W = ${significant(joules)} J a search; ${significant(ms)} ms × ${DOLLARS_PER_HOUR} dollars an hour = ${dollars} dollars a million searches`;
    });
  return `An estimate, with ${WATTS} W (what the maker gives as the most that such a device draws) and ${DOLLARS_PER_HOUR} dollars an hour (an assumed rent), if searches follow each other without a pause. ${said.join('. ')}.`;
}

function plot(data: GpuData): Promise<string> {
  const { dimensions, counts } = data.parameters;
  const figures = new Figures(data);
  const points = (['cuda', 'native'] as const).flatMap((kernel) =>
    dimensions.flatMap((dimension) =>
      counts
        .filter((count) => figures.has(`${kernel}-${dimension}-${count}-search-p50`))
        .map((count) => ({
          name: `${kernel === 'cuda' ? 'GPU' : 'CPU'}, ${dimension} dimensions`,
          count,
          seconds: figures.value(`${kernel}-${dimension}-${count}-search-p50`) / 1000,
        })),
    ),
  );
  const names = [...new Set(points.map(({ name }) => name))];
  const series = bySeries('name', names, { legend: null });
  return plotted({
    $schema: SCHEMA,
    title: {
      text: 'One search of an encrypted gallery, end to end',
      subtitle: `${data.parameters.device}; ${data.machine.cores} cores of the same machine`,
    },
    width: 480,
    height: 300,
    data: { values: points },
    encoding: {
      x: logAxis('count', counts, 'count', 'templates'),
      y: logAxisOf(points, 'seconds', 'seconds'),
      color: series.color,
    },
    layer: namedLines(
      series.shape,
      names.map((name) => points.findLast((point) => point.name === name)!),
    ),
  });
}
