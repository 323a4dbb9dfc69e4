// Plots, by Vega-Lite: a description of data, marks and scales, rendered to SVG without a browser. (Chosen because it needs no DOM, knows log scales and
// panels, draws what the description says and nothing by hand, and is kept by a team that has kept it for ten years.)

import * as vega from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';

export const SCHEMA = 'https://vega.github.io/schema/vega-lite/v6.json';

/** The same colour for the same system in every plot: Okabe and Ito's, which the colour-blind can tell apart. */
export const COLOURS: Readonly<Record<string, string>> = {
  'naive, SEAL': '#999999',
  'Boddeti, SEAL': '#E69F00',
  'HERS, SEAL': '#D55E00',
  'HERS, SEAL, improved': '#CC79A7',
  'this project, exact': '#0072B2',
  'this project, compact': '#009E73',
  published: '#000000',
};

export const SYSTEMS = Object.keys(COLOURS);

/** The scale that gives systems their colours, for those that a plot shows. */
export function colourScale(systems: readonly string[]): { domain: string[]; range: string[] } {
  const domain = SYSTEMS.filter((system) => systems.includes(system));
  return { domain, range: domain.map((system) => COLOURS[system]) };
}

const config = {
  background: 'white',
  padding: 14,
  font: 'Helvetica, Arial, sans-serif',
  title: { fontSize: 15, subtitleFontSize: 12, anchor: 'start' as const, offset: 12, fontWeight: 600 as const },
  axis: {
    labelFontSize: 11,
    labelLimit: 0,
    titleFontSize: 12,
    titleFontWeight: 'normal' as const,
    titlePadding: 8,
    gridColor: '#e6e6e6',
  },
  legend: { labelFontSize: 12, labelLimit: 0, symbolSize: 90, symbolStrokeWidth: 2.5 },
  header: { labelFontSize: 13, labelFontWeight: 600 as const },
  view: { stroke: '#cccccc' },
};

/** How an axis names its ticks. */
const LABELS = {
  seconds:
    "datum.value < 9e-4 ? format(datum.value * 1e6, ',.4~r') + ' µs' : datum.value < 0.9 ? format(datum.value * 1e3, ',.4~r') + ' ms' : datum.value < 9e5 ? format(datum.value, ',.4~r') + ' s' : format(datum.value / 1e6, ',.4~r') + ' million s'",
  bytes: "upper(replace(format(datum.value, '~s'), /([kMGTP]?)$/, ' $1')) + 'B'",
  count: "datum.value < 1e6 ? format(datum.value, ',.4~r') : format(datum.value / 1e6, ',.4~r') + ' million'",
} as const;

/** A logarithmic axis over whole powers of ten around the values, with a tick for each, or for every second where there are many. */
export function logAxis(field: string, values: readonly number[], unit: keyof typeof LABELS, title: string | null) {
  const low = Math.floor(Math.log10(Math.min(...values)) + 1e-9);
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values)) - 1e-9));
  const step = high - low > 9 ? 2 : 1;
  const ticks: number[] = [];
  for (let power = low; power <= high; power += step) ticks.push(Number(`1e${power}`));
  return {
    field,
    type: 'quantitative' as const,
    scale: { type: 'log' as const, domain: [Number(`1e${low}`), Number(`1e${high}`)], nice: false },
    title,
    axis: { values: ticks, labelExpr: LABELS[unit], labelFlush: false },
  };
}

/** A row of a dot plot for each system, in the order given. */
export function systemAxis(systems: readonly string[]) {
  return {
    field: 'system',
    type: 'nominal' as const,
    sort: [...systems],
    title: null,
    axis: { labelFontSize: 12, grid: true },
  };
}

/** Dots with their figures beside them: filled where measured, hollow where extrapolated, in the colour of the datum. */
export const DOTS = [
  {
    mark: { type: 'point' as const, size: 100, opacity: 1, strokeWidth: 2 },
    encoding: {
      stroke: { field: 'colour', type: 'nominal' as const, scale: null },
      fill: {
        condition: { test: "datum.source === 'extrapolated'", value: 'white' },
        field: 'colour',
        type: 'nominal' as const,
        scale: null,
      },
    },
  },
  {
    mark: { type: 'text' as const, align: 'left' as const, dx: 11, fontSize: 11 },
    encoding: { text: { field: 'label', type: 'nominal' as const } },
  },
];

// Without a canvas Vega takes every character for 0.8 of the font's size, which makes margins far too wide. These are Helvetica's, roughly.
const { textMetrics } = vega as unknown as { textMetrics: { width(item: unknown, text: unknown): number } };
textMetrics.width = (item: unknown, text: unknown) => {
  const { fontSize = 11 } = item as { fontSize?: number };
  let width = 0;
  for (const c of String(text ?? ''))
    width += /[iljtf.,:;'()| ]/.test(c) ? 0.3 : /[mwMW≈]/.test(c) ? 0.82 : /[A-Z]/.test(c) ? 0.68 : 0.55;
  return width * fontSize;
};

/** Renders a plot. Throws on anything that Vega would only warn about. */
export async function render(spec: TopLevelSpec): Promise<string> {
  const warnings: string[] = [];
  const warn = (...args: readonly unknown[]) => {
    warnings.push(args.join(' '));
    return logger;
  };
  const silent = () => logger;
  const logger = { level: silent as never, error: warn, warn, info: silent, debug: silent };
  const compiled = compile({ ...spec, config: { ...config, ...spec.config } } as TopLevelSpec, { logger });
  const view = new vega.View(vega.parse(compiled.spec), { renderer: 'none', logger });
  try {
    const svg = await view.toSVG();
    if (warnings.length > 0) throw new Error(`Vega-Lite warns: ${warnings.join('; ')}`);
    if (/NaN|undefined/.test(svg)) throw new Error('the plot holds something that is not a number');
    return `${svg}\n`;
  } finally {
    view.finalize();
  }
}
