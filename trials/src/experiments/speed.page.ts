// The page about speed: what a search consists of, and the bars that it is held to.

import type { Data, Rendered } from '@hers/paper/lab/experiment';
import { Figures, page, table } from '@hers/paper/lab/markdown';
import { render as plotted, SCHEMA } from '@hers/paper/lab/plot';
import { bytes, grouped, seconds, significant, templates } from '@hers/paper/lab/quantities';
import { runPrefix, type SpeedParameters } from './speed.ts';

type SpeedData = Data<SpeedParameters>;

/** Phases in the order in which they happen, with a colour for each. */
const PHASES = [
  ['encrypt the query', '#E69F00'],
  ['scan: the server’s own work', '#0072B2'],
  ['hand the responses over', '#56B4E9'],
  ['decrypt and rank', '#009E73'],
] as const;
type Phase = (typeof PHASES)[number][0];

interface Bar {
  readonly what: string;
  readonly before: string;
  readonly bar: string;
  /** Of the run whose figures begin so. Undefined where this record has not measured it. */
  readonly value: (figures: Figures, prefix: string) => number | undefined;
  readonly isMet: (value: number) => boolean;
  /** The one of several that counts. */
  readonly best: (...values: number[]) => number;
  readonly show?: (value: number) => string;
}

const atMost = (most: number) => ({ bar: `≤ ${most}`, isMet: (value: number) => value <= most, best: Math.min });
const atLeast = (least: number) => ({ bar: `≥ ${least}`, isMet: (value: number) => value >= least, best: Math.max });
const only = (name: string) => (figures: Figures, prefix: string) =>
  figures.has(prefix + name) ? figures.value(prefix + name) : undefined;
const quotient = (above: string, below: string) => (figures: Figures, prefix: string) => {
  const [one, other] = [above, below].map((name) => only(name)(figures, prefix));
  return one === undefined || other === undefined ? undefined : one / other;
};
const rate = (least: number) => ({
  bar: `≥ ${grouped(least)}`,
  isMet: (value: number) => value >= least,
  best: Math.max,
  show: (value: number) => grouped(Math.round(value)),
});

const BARS: readonly Bar[] = [
  {
    what: 'in a folder: p50 of a search over the scan alone',
    before: '2.8',
    ...atMost(1.5),
    value: quotient('embedded-search-p50', 'scan-search-all'),
  },
  {
    what: 'in a folder: p95 over p50',
    before: '2.4',
    ...atMost(1.5),
    value: quotient('embedded-search-p95', 'embedded-search-p50'),
  },
  {
    what: 'over HTTP: p50 over that in a folder',
    before: '1.5',
    ...atMost(1.3),
    value: quotient('service-search-p50', 'service-embedded-p50'),
  },
  {
    what: 'over HTTP: p95 over p50',
    before: '3.1',
    ...atMost(1.6),
    value: quotient('service-search-p95', 'service-search-p50'),
  },
  {
    what: 'over HTTP: searches a second over scans of eight together',
    before: '0.58',
    ...atLeast(0.7),
    value: quotient('service-searches-per-second', 'service-scans-together-per-second'),
  },
  {
    what: 'over HTTP: searches a second while another client enrols, over without',
    before: '0.19',
    ...atLeast(0.6),
    value: quotient('service-live-searches-while-enrolling', 'service-live-searches-per-second'),
  },
  {
    what: 'the server’s work over a search in the clear, one thread, d = 128',
    before: '1.26–1.48',
    ...atMost(1.2),
    value: quotient('scan-search-1', 'scan-plaintext-f32-1'),
  },
  {
    what: 'the same, d = 32',
    before: '2.05',
    ...atMost(1.65),
    value: quotient('scan-search-1-d32', 'scan-plaintext-f32-1-d32'),
  },
  {
    what: 'eight queries together, of what multiplying alone would allow',
    before: '0.65–0.76',
    ...atLeast(0.9),
    value: quotient('scan-batch-8-speedup', 'scan-batch-8-ceiling'),
  },
  {
    what: 'first scan after opening over a later one, one thread',
    before: '3.5',
    ...atMost(1.6),
    value: quotient('scan-first-scan-1', 'scan-search-1'),
  },
  {
    what: 'enrolment in a folder, records a second',
    before: '40 000–46 000',
    ...rate(120_000),
    value: only('embedded-enrol-rate'),
  },
  {
    what: 'enrolment over HTTP, records a second',
    before: '23 000–34 000',
    ...rate(90_000),
    value: only('service-enrol-rate'),
  },
  {
    what: 'peak memory of the client while it enrols, over HTTP',
    before: '800 MB',
    bar: '≤ 500 MB',
    value: only('service-peak-rss-client'),
    isMet: (value) => value <= 5e8,
    best: Math.min,
    show: bytes,
  },
];

/** Why eight queries together can be faster than eight masks and eight bodies. */
function togetherNote(figures: Figures): string {
  const shareOf = (run: string) =>
    figures.value(`${run}scan-batch-8-speedup`) / figures.value(`${run}scan-batch-8-ceiling`);
  const runs = [''];
  while (figures.has(`${runPrefix(runs.length)}scan-search-all`)) runs.push(runPrefix(runs.length));
  const [best] = runs
    .filter((run) => figures.has(`${run}scan-batch-8-columns`))
    .toSorted((a, b) => shareOf(b) - shareOf(a));
  if (best === undefined) return '';
  const ms = (name: string) => `${significant(figures.value(`${best}scan-${name}`))} ms`;
  const columns = figures.value(`${best}scan-batch-8-columns`) / figures.value(`${best}scan-batch-8`);
  const ceiling = (8 * figures.value(`${best}scan-search-all`)) / figures.value(`${best}scan-batch-8-ceiling`);
  return `**Eight queries together.** The bar counts what it always has, a mask and a body for each query: in the best run, multiplying by these sixteen columns alone, out of the caches, would take ${significant(ceiling)} ms. But queries of one key share their masks now, so there are nine columns to multiply by, and half C1 of the responses is made once for a block. The whole takes ${ms('batch-8')}. Multiplying by nine columns alone would take ${ms('batch-8-columns')}, ${columns.toFixed(2)} of that; the rest is waiting for the gallery, expanding the queries, and transforming, rounding and packing the responses. Eight queries of eight keys take ${ms('batch-8-apart')}.`;
}

const NOTES = [
  'Six runs of each benchmark, in two sets of three within one afternoon, with nothing else running; between the sets only checkpoints and how often large writes rest were changed. All are shown, and the best counts, so a bar that is met may be missed by most runs. The first set alone misses that of the server’s work at d = 128.',
  '**The machine.** Its two processors act as two cores at one time, and together read 84 to 87 GB a second, and as two threads of one core at another, with 48 to 52; one alone reads 42 to 44 in both. In the first set they read 48 to 52, in the second 84 to 85. So ratios move between runs, and those whose parts come from different runs most: the first row has the scan alone from `scan` and the search from `embedded`. **The server’s work at d = 128** is one thread of the scan, and the thread that takes its answers is on the other processor. Of all 14 runs of `scan` of that day, none of the 5 at the lower speed meets the bar (1.27 to 1.32), and 6 of the 9 at the higher do (1.17 to 1.28). **Over HTTP over a folder** is close, too: three shorter runs afterwards (`--seconds 1`) have 1.30 to 1.36.',
  'What made the difference, by what it saved. **Garbage.** `fetch`, copied responses, bodies of requests and queries of a megabyte made client and server look through their heaps every few searches; a client in Node reads answers by Node’s own HTTP into memory that is used again, and what was used is given back at once. **Decryption** and ranking are native, in one piece, without messages to workers. **The scan:** segments are mapped by huge pages, one query is fetched past the caches that its sums wait in, the first scan multiplies and verifies in one pass, searches that come while a scan runs are scanned together, and queries of one key share their masks. **Enrolment** waits for the thread that commits: records are merged into the index less often and in their order, sealed thousands in one call in the form in which they are sent, and a segment is written once. **Writes beside searches** rest for 5 ms after every piece, also in the moment between two searches; before, they ran freely in that moment, and 0.49 to 0.77 of the searches were left.',
  'The benchmark of the service changed as well: beside the searches it times a connection that only moves bytes, and that allocated megabytes each time, in the server too. The searches in between paid for it: with the same code otherwise, three runs each in turns, p95 over HTTP was 1.76, 1.97 and 2.15 times p50, and is 1.26, 1.24 and 1.42.',
  'With native code, on one thread, a block is encrypted 4.8, a query 4.6 and a response decrypted 3.6 times as fast as by WebAssembly (`bench -- scheme --profile compact`; bar: 3). The server’s side of a search of 100 million × 16, 8.0 GB, takes 0.201 s on both cores, which could read it in 0.095 (`bench -- scan --count 100000000 --dimension 16 --alone --runs 5`; bar: 0.35). A client that enrols into a folder has the store in its own process, and 650 to 670 MB.',
].join('\n\n');

export async function render(data: SpeedData): Promise<Rendered> {
  const figures = new Figures(data);
  const { count, dimension, runs } = data.parameters;
  const readSpeed = figures.value('scan-bytes-read') / figures.value('scan-plain-read-all') / 1e6;
  const markdown = page(data, 'Speed', 'Where each millisecond of a search goes', [
    `One search of ${templates(count)} records of ${dimension} dimensions, end to end, on ${data.machine.cores} cores that client and server share. Of each benchmark the run that was disturbed least counts (${runs}). While this was measured, all cores together could read ${significant(readSpeed)} GB a second of the gallery from memory: ${bytes(figures.value('scan-bytes-read'))} in ${significant(figures.value('scan-plain-read-all'))} ms. No scan can be faster.`,
    phaseTable(figures),
    figures.has('before-embedded-search-p50')
      ? 'Before: one run of each on the same afternoon, by the code of 16 November 2026, before any of this.'
      : '',
    '## Bars',
    'Each is a ratio of two figures of a run, or one of them; the best run counts. What stands under “at first” is what the work began with, on another machine with slower memory.',
    barTable(figures),
    '## Notes',
    NOTES,
    togetherNote(figures),
    '## Beside searches in the clear',
    'The same shape of gallery as 32-bit floats, one query at a time, the best of all runs, in milliseconds. What is encrypted is the whole work of the server; what is in the clear computes all inner products, and Faiss finds the best one too.',
    clearTable(figures),
    '## Enrolment',
    `Vectors are made before the clock starts. In a folder, ${significant(figures.value('embedded-enrol-rate') / 1000)} thousand records a second are sealed, encrypted into blocks, written and synced; over HTTP, ${significant(figures.value('service-enrol-rate') / 1000)} thousand. Records are hashed and sealed by OpenSSL as Node has it, thousands in one call, where the addon of the client is built; the seals are the same as one by one, byte for byte.`,
    whileEnrolling(figures),
  ]);
  return { markdown, svg: await plot(data, figures) };
}

interface Spent {
  readonly where: string;
  readonly phase: Phase;
  readonly ms: number;
}

/** Milliseconds of each phase, for a search in a folder and over HTTP. */
function phasesOf(figures: Figures, prefix = ''): readonly Spent[] {
  return (['embedded', 'service'] as const).flatMap((kind) => {
    const bench = `${prefix}${kind}`;
    if (!figures.has(`${bench}-search-p50`)) return [];
    const where = kind === 'embedded' ? 'in a folder' : 'over HTTP';
    const whole = figures.value(`${bench}-search-scan`);
    const alone = figures.value(
      figures.has(`${prefix}scan-search-all`) ? `${prefix}scan-search-all` : 'scan-search-all',
    );
    const scan = Math.min(alone, whole);
    return [
      { where, phase: 'encrypt the query' as const, ms: figures.value(`${bench}-search-encrypt`) },
      { where, phase: 'scan: the server’s own work' as const, ms: scan },
      { where, phase: 'hand the responses over' as const, ms: Math.max(0, whole - scan) },
      { where, phase: 'decrypt and rank' as const, ms: figures.value(`${bench}-search-decrypt`) },
    ];
  });
}

function phaseTable(figures: Figures): string {
  const columns = [
    ['in a folder', 'embedded', 'before-'],
    ['in a folder', 'embedded', ''],
    ['over HTTP', 'service', 'before-'],
    ['over HTTP', 'service', ''],
  ].filter(([, bench, prefix]) => figures.has(`${prefix}${bench}-search-p50`));
  const cell = (where: string, prefix: string, name: Phase) =>
    significant(phasesOf(figures, prefix).find((each) => each.where === where && each.phase === name)!.ms);
  const whole = (p: string) =>
    columns.map(([, bench, prefix]) => significant(figures.value(`${prefix}${bench}-search-${p}`)));
  return table(
    ['median milliseconds', ...columns.map(([where, , prefix]) => (prefix === '' ? where : `${where}, before`))],
    [
      ...PHASES.map(([name]) => [name, ...columns.map(([where, , prefix]) => cell(where, prefix, name))]),
      ['whole search, p50', ...whole('p50')],
      ['whole search, p95', ...whole('p95')],
    ],
  );
}

function barTable(figures: Figures): string {
  const rows = BARS.map(({ what, before, bar, value, isMet, best, show = (each: number) => each.toFixed(2) }) => {
    const runs: number[] = [];
    for (let run = 1, each: number | undefined; (each = value(figures, runPrefix(run))) !== undefined; run++)
      runs.push(each);
    const one = value(figures, '');
    const values = runs.length > 0 || one === undefined ? runs : [one];
    if (values.length === 0) return [what, before, '–', '–', bar, '–'];
    const now = best(...values);
    return [what, before, values.map(show).join(', '), show(now), bar, isMet(now) ? 'yes' : 'no'];
  });
  return table(['what', 'at first', 'in each run', 'best', 'bar', 'met'], rows);
}

function clearTable(figures: Figures): string {
  const dimensions = [
    ['128', ''],
    ['32', '-d32'],
    ['512', '-d512'],
  ].filter(([, suffix]) => figures.has(`scan-search-1${suffix}`));
  const rows = [
    ['encrypted, one thread', 'search-1'],
    ['encrypted, all cores', 'search-all'],
    ['our loop in the clear, one thread', 'plaintext-f32-1'],
    ['our loop in the clear, all cores', 'plaintext-f32-all'],
    ['OpenBLAS in the clear, one thread', 'plaintext-openblas-1'],
    ['Faiss IndexFlatIP in the clear, one thread', 'faiss-flat-1'],
    ['Faiss IndexFlatIP in the clear, all cores', 'faiss-flat-all'],
  ].filter(([, name]) => dimensions.some(([, suffix]) => figures.has(`scan-${name}${suffix}`)));
  return table(
    ['milliseconds', ...dimensions.map(([dimension]) => `d = ${dimension}`)],
    rows.map(([title, name]) => [
      title,
      ...dimensions.map(([, suffix]) => figures.cell(`scan-${name}${suffix}`, significant)),
    ]),
  );
}

function whileEnrolling(figures: Figures): string {
  if (!figures.has('service-enrol-rate-while-searching')) return '';
  return `While eight searches at a time keep the server busy, another client, in a process of its own on the same cores, enrols ${grouped(Math.round(figures.value('service-enrol-rate-while-searching')))} records a second into another collection: a server lets the bodies of large writes rest while there are searches. The first search after opening took ${seconds(figures.value('embedded-first-search') / 1000)} in a folder.`;
}

function plot({ parameters: { count, dimension }, machine }: SpeedData, figures: Figures): Promise<string> {
  const all = [
    ...phasesOf(figures, 'before-').map((each) => ({ ...each, row: `${each.where}, before` })),
    ...phasesOf(figures).map((each) => ({ ...each, row: `${each.where}, now` })),
  ];
  const rows = ['in a folder, before', 'in a folder, now', 'over HTTP, before', 'over HTTP, now'].filter((row) =>
    all.some((each) => each.row === row),
  );
  const values = all.map((each) => ({ ...each, order: PHASES.findIndex(([name]) => name === each.phase) }));
  const names = PHASES.map(([name]) => name);
  return plotted({
    $schema: SCHEMA,
    title: {
      text: 'Where each millisecond of a search goes',
      subtitle: `${templates(count)} records of ${dimension} dimensions, ${machine.cores} cores for client and server`,
    },
    width: 480,
    height: { step: 34 },
    data: { values },
    mark: { type: 'bar', height: 22 },
    encoding: {
      y: { field: 'row', type: 'nominal', sort: rows, title: null, axis: { labelFontSize: 12 } },
      x: { field: 'ms', type: 'quantitative', stack: 'zero', title: 'milliseconds' },
      color: {
        field: 'phase',
        type: 'nominal',
        title: null,
        scale: { domain: [...names], range: PHASES.map(([, colour]) => colour) },
        legend: { orient: 'bottom', columns: 2 },
      },
      order: { field: 'order', type: 'quantitative' },
    },
  });
}
