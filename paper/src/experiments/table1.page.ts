// The page of Table 1.

import type { Data, Rendered } from '../lab/experiment.ts';
import { EXTRAPOLATED, Figures, page, table } from '../lab/markdown.ts';
import { COLOURS, secondsPlot } from '../lab/plot.ts';
import { TABLE_1 } from '../lab/published.ts';
import { grouped, marked, seconds, templates, times } from '../lab/quantities.ts';
import type { Table1Parameters } from './table1.ts';

interface Row {
  readonly name: string;
  readonly system: string;
  readonly run: string;
  /** Whose colour it has in the plot. */
  readonly colour: string;
}

const THREAD = 'here, one thread';

function rows(data: Data<Table1Parameters>): Row[] {
  const figures = new Figures(data);
  const many = `here, ${data.parameters.threads} threads`;
  const ours = (['exact', 'compact'] as const).flatMap((profile) => {
    const system = `this project, ${profile}`;
    return [
      { name: `ours-${profile}`, system, run: THREAD, colour: system },
      { name: `ours-${profile}-threads`, system, run: many, colour: system },
    ];
  });
  return [
    { name: 'published-boddeti-2018', system: 'Boddeti 2018', run: 'as published, 3.3 GHz', colour: 'published' },
    { name: 'published-hers', system: 'HERS', run: 'as published, one thread, 3.3 GHz', colour: 'published' },
    { name: 'naive-seal', system: 'naive, SEAL', run: THREAD, colour: 'naive, SEAL' },
    { name: 'boddeti-seal', system: 'Boddeti, SEAL', run: THREAD, colour: 'Boddeti, SEAL' },
    { name: 'hers-seal', system: 'HERS, SEAL', run: THREAD, colour: 'HERS, SEAL' },
    {
      name: 'hers-seal-lazy',
      system: 'HERS, SEAL, one relinearisation per block',
      run: THREAD,
      colour: 'HERS, SEAL, improved',
    },
    { name: 'hers-seal-bgv', system: 'HERS, SEAL, BGV', run: THREAD, colour: 'HERS, SEAL, improved' },
    ...ours,
  ].filter(({ name }) => figures.has(name));
}

export async function render(data: Data<Table1Parameters>): Promise<Rendered> {
  const { templates: m, dimension } = data.parameters;
  const figures = new Figures(data);
  const baseline = figures.value('hers-seal');
  const lines = rows(data).map(({ name, system, run }) => [
    system,
    run,
    figures.cell(name, seconds),
    figures.cell(`${name}-cpu`, seconds),
    figures.of(name).source === 'published' ? '' : times(baseline / figures.value(name)),
  ]);
  const { least, most } = TABLE_1.others;
  const markdown = page(
    data,
    `Table 1: one search of ${grouped(m)} templates of ${dimension} dimensions`,
    'Seconds of one search, on a logarithmic scale',
    [
      table(['system', 'run', 'time', 'CPU time', 'faster than HERS on SEAL here'], lines, [0, 1]),
      EXTRAPOLATED,
      `The time is the server's, from the bytes of a query to the bytes of the last response. Our galleries were encrypted and scanned whole.`,
      `The paper ran SEAL natively; here it runs as WebAssembly. "One relinearisation per block" and "BGV" are not in the paper: they are what SEAL offers beyond it. The paper's table lists six more systems, from ${seconds(least)} to ${seconds(most)}. Their names are in a bibliography that we do not have.`,
    ],
  );
  return { markdown, svg: await plot(data) };
}

function plot(data: Data<Table1Parameters>): Promise<string> {
  const { templates: m, dimension } = data.parameters;
  const figures = new Figures(data);
  const values = rows(data).map(({ name, system, run, colour }) => {
    const { value, source } = figures.of(name);
    return {
      system: run === THREAD ? system : `${system} (${run.replace('here, ', '')})`,
      seconds: value,
      source,
      label: marked(seconds(value), source),
      colour: COLOURS[colour],
    };
  });
  const title = {
    text: `One search of ${templates(m)} templates, ${dimension} dimensions`,
    subtitle: 'black: as published; hollow: extrapolated from measured blocks; filled: measured whole',
  };
  return secondsPlot(title, { width: 600, step: 24 }, values);
}
