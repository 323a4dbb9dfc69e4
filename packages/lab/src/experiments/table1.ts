// The paper's Table 1: one search of a gallery of a million, 128 dimensions. The published figures, the published system run here, and ours.

import { PUBLISHED } from '@hers/paper';
import type { PaperVariantName } from '../engine-paper.ts';
import { compared, machine, progress } from '../report.ts';
import { loadNow, timedBy } from './clock.ts';
import { asGiven, type Experiment, type Figure, type Outcome, type Source } from './experiment.ts';
import { EXTRAPOLATED, page, table, versions } from './markdown.ts';
import { COLOURS, DOTS, logAxis, render, SCHEMA, systemAxis } from './plot.ts';
import { TABLE_1, TABLE_1_HERS } from './published.ts';
import { marked, seconds, times } from './quantities.ts';
import { measureSeal, sealSeconds } from './seal-cost.ts';
import { SharedMaskGallery } from './shared-mask-cost.ts';

interface Row {
  /** In the report. */
  readonly name: string;
  readonly system: string;
  readonly note: string;
  readonly seconds: number;
  readonly cpu?: number;
  readonly source: Source;
  /** Whose colour it has in the plot. */
  readonly colour: string;
}

const BASELINE = 'hers-seal';
const RUNS = 5;

export const table1: Experiment = {
  name: 'table1',
  summary: 'one search of a million templates: published figures, the published system on SEAL, and ours',
  options: {},
  async run({ small = false }): Promise<Outcome> {
    const load = loadNow();
    const m = small ? 10_000 : TABLE_1_HERS.templates;
    const d = small ? 8 : TABLE_1_HERS.dimension;
    const published: Row[] = [
      ...TABLE_1.map(({ reference, seconds, note }) => ({
        name: `published-${reference.replace(/\W+/g, '-').replace(/^-|-$/g, '').toLowerCase()}`,
        system: reference,
        note,
        seconds,
        source: 'published' as const,
        colour: 'published',
      })),
      {
        name: 'published-hers',
        system: 'HERS, as published',
        note: '128 dimensions, one thread, 3.3 GHz',
        seconds: TABLE_1_HERS.seconds,
        source: 'published',
        colour: 'published',
      },
    ];
    const { rows: own, kernel } = await ours(m, d, small === true);
    const rows = [...published, ...(await seal(m, d, small === true)), ...own];
    const baseline = rows.find(({ name }) => name === BASELINE)!;
    const figures = rows.flatMap(({ name, seconds: value, cpu, source }): Figure[] => {
      const figure = { name, value, unit: 's', source };
      const against = { name: BASELINE, value: baseline.seconds, unit: 's' };
      return [
        name === BASELINE || source === 'published' ? figure : { ...compared(figure, against), source },
        ...(cpu === undefined ? [] : [{ name: `${name}-cpu`, value: cpu, unit: 's', source }]),
      ];
    });
    const report = {
      bench: 'table1',
      parameters: {
        templates: m,
        dimension: d,
        seal: PUBLISHED.name,
        runs: RUNS,
        kernel,
        ...load,
        ...versions(),
        small: small === true,
      },
      machine: machine(),
      results: figures,
    };
    const lines = rows.map((row) => [
      row.system,
      row.note,
      marked(seconds(row.seconds), row.source),
      row.cpu === undefined ? '' : marked(seconds(row.cpu), row.source),
      row.source === 'published' ? '' : times(baseline.seconds / row.seconds),
      row.source,
    ]);
    const svg = await plot(rows, m, d);
    const markdown = page(
      `Table 1: one search of ${m.toLocaleString('en-GB')} templates of ${d} dimensions`,
      'table1',
      [
        `![Seconds of one search, on a logarithmic scale](table1.svg)`,
        table(['system', 'notes', 'time', 'CPU time', 'faster than HERS on SEAL here', 'source'], lines, [0, 1, 5]),
        `${EXTRAPOLATED} ${timedBy(RUNS)}`,
        'Times are the server\'s: from the bytes of a query to the bytes of the last response. The published figures are those of the paper\'s Table 1, with its reference marks. The paper ran SEAL natively; here it runs as WebAssembly, in one thread. The rows marked "not published" are the same system with what SEAL offers beyond the paper: one relinearisation for a block instead of 128, and BGV, whose products are pointwise.',
        'Ours is measured whole: a million templates were encrypted, and all of them are scanned.',
      ],
      report,
      asGiven({ small }),
    );
    return { report, markdown, svg };
  },
};

async function seal(m: number, d: number, small: boolean): Promise<Row[]> {
  const cases: {
    variant: PaperVariantName;
    name: string;
    system: string;
    note: string;
    blocks: number;
    colour: string;
  }[] = [
    {
      variant: 'naive',
      name: 'naive-seal',
      system: 'naive, SEAL',
      note: 'published; one thread',
      blocks: small ? 1 : 3,
      colour: 'naive, SEAL',
    },
    {
      variant: 'boddeti',
      name: 'boddeti-seal',
      system: 'Boddeti, SEAL',
      note: 'published; one thread',
      blocks: small ? 3 : 64,
      colour: 'Boddeti, SEAL',
    },
    {
      variant: 'hers',
      name: BASELINE,
      system: 'HERS, SEAL',
      note: 'published; one thread',
      blocks: small ? 1 : 3,
      colour: 'HERS, SEAL',
    },
    {
      variant: 'hers-lazy',
      name: 'hers-seal-lazy',
      system: 'HERS, SEAL, one relinearisation per block',
      note: 'not published; one thread',
      blocks: small ? 1 : 3,
      colour: 'HERS, SEAL, improved',
    },
    {
      variant: 'hers-bgv',
      name: 'hers-seal-bgv',
      system: 'HERS, SEAL, BGV',
      note: 'not published; one thread',
      blocks: small ? 2 : 20,
      colour: 'HERS, SEAL, improved',
    },
  ];
  const rows: Row[] = [];
  for (const { variant, blocks, ...rest } of cases) {
    const cost = await measureSeal(variant, d, { blocks, runs: small ? 1 : RUNS, distinct: small ? 1 : 2 });
    rows.push({ ...rest, ...sealSeconds(cost, m) });
  }
  return rows;
}

async function ours(m: number, d: number, small: boolean): Promise<{ rows: Row[]; kernel: string }> {
  const rows: Row[] = [];
  let kernel = '';
  for (const profile of ['exact', 'compact'] as const) {
    for (const threads of small ? [1] : [1, undefined]) {
      progress(`ours, ${profile}, ${threads === 1 ? 'one thread' : 'all threads'}`);
      const gallery = await SharedMaskGallery.open({
        profile,
        dimension: d,
        runs: small ? 1 : RUNS,
        ...(threads === undefined ? {} : { threads }),
      });
      try {
        await gallery.check();
        const time = await gallery.search(m);
        kernel ||= gallery.kernelDetail;
        const many = /(\d+) threads?$/.exec(gallery.kernelDetail)?.[1] ?? '1';
        if (threads === undefined && many === '1') continue;
        rows.push({
          name: `ours-${profile}${threads === undefined ? '-threads' : ''}`,
          system: `this project, ${profile}`,
          note: many === '1' ? 'one thread' : `${many} threads`,
          seconds: time.seconds,
          cpu: time.cpu,
          source: time.source,
          colour: `this project, ${profile}`,
        });
      } finally {
        await gallery.close();
      }
    }
  }
  return { rows, kernel };
}

function plot(rows: readonly Row[], m: number, d: number): Promise<string> {
  const values = rows.map((row) => ({
    system: `${row.system}${row.source === 'published' || row.note.endsWith('one thread') ? '' : ` (${row.note})`}`,
    seconds: row.seconds,
    source: row.source,
    label: marked(seconds(row.seconds), row.source),
    colour: COLOURS[row.colour],
  }));
  return render({
    $schema: SCHEMA,
    title: {
      text: `One search of ${m.toLocaleString('en-GB')} templates, ${d} dimensions`,
      subtitle: 'black: as published; hollow: extrapolated from measured blocks; filled: measured whole',
    },
    width: 540,
    height: { step: 24 },
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
