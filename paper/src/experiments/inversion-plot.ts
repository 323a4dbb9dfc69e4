// The plot of the page about score inversion: what the number of leaked scores does, and the number
// of known probes.

import type { Data } from '../lab/experiment.ts';
import { Figures } from '../lab/markdown.ts';
import { bySeries, COUNT_LABELS, linesWithErrors, render, SCHEMA } from '../lab/plot.ts';
import type { InversionParameters } from './inversion.ts';

/** By the names of their results. */
const LINES = {
  plain: 'the templates in the clear',
  'plain-population': 'the templates in the clear, and the population',
  known: 'scores of known probes',
  'encrypted-population': 'the templates encrypted, and the population',
  'scores-population': 'the population alone',
} as const;

type Line = keyof typeof LINES;

const COLOURS = ['#D55E00', '#E69F00', '#CC79A7', '#0072B2', '#009E73'];

interface Point {
  readonly leak: string;
  readonly known: number;
  readonly cosine: number;
  readonly low: number;
  readonly high: number;
}

function points(data: Data<InversionParameters>, lines: readonly Line[], sizes: (line: Line) => readonly number[]) {
  const figures = new Figures(data);
  return lines.flatMap((line) =>
    sizes(line).map((known): Point => {
      const name = `${line}-compact-${known}`;
      const [cosine, interval] = [figures.value(name), figures.value(`${name}-interval`)];
      return { leak: LINES[line], known, cosine, low: cosine - interval, high: cosine + interval };
    }),
  );
}

export function inversionPlot(data: Data<InversionParameters>): Promise<string> {
  const { dimension, leaked, rehearsed, knownProbes } = data.parameters;
  const guess = new Figures(data).value('guess-mean');
  const unknown = points(data, ['plain', 'plain-population', 'encrypted-population', 'scores-population'], (line) =>
    line.startsWith('plain') ? leaked : rehearsed,
  );
  const known = points(data, ['known'], () => knownProbes);
  const panel = { guess, dimension };
  return render({
    $schema: SCHEMA,
    title: {
      text: 'What comes back of a probe from its scores',
      subtitle: `${dimension} dimensions, profile compact; bars: 95 %; dashed: a guess that knows the population and sees nothing`,
    },
    hconcat: [
      { ...panelOf('no probe is known', 'scores that leaked, each of another template', unknown, panel), width: 380 },
      { ...panelOf('probes are known', 'known probes', known, panel), width: 230 },
    ],
    spacing: 24,
  });
}

function panelOf(
  title: string,
  xTitle: string,
  values: Point[],
  { guess, dimension }: { guess: number; dimension: number },
) {
  const sizes = [...new Set(values.map(({ known }) => known))];
  const y = {
    field: 'cosine',
    type: 'quantitative' as const,
    scale: { domain: [-0.1, 1], nice: false },
    title: 'cosine of reconstruction and probe',
  };
  const x = {
    field: 'known',
    type: 'quantitative' as const,
    scale: { type: 'log' as const, base: 2, domain: [Math.min(...sizes), Math.max(...sizes)], nice: false, padding: 6 },
    title: xTitle,
    axis: { values: sizes.filter((size) => Number.isInteger(Math.log2(size / dimension))), labelExpr: COUNT_LABELS },
  };
  const series = bySeries('leak', Object.values(LINES), {
    colours: COLOURS,
    title: 'beside the scores of the probe, the attacker holds …',
    legend: { orient: 'bottom', columns: 2, titleLimit: 0 },
  });
  return {
    title: { text: title, fontSize: 12, fontWeight: 'normal' as const, anchor: 'middle' as const, offset: 6 },
    height: 300,
    layer: [
      {
        data: { values: [{ cosine: guess }] },
        mark: { type: 'rule' as const, strokeDash: [5, 4], color: '#666666' },
        encoding: { y },
      },
      ...linesWithErrors(values, { x, y, series, size: 50 }),
    ],
  };
}
