// Plots by Vega-Lite: a description of data, marks and scales, rendered to SVG without a browser.
// (It needs no DOM, supports log scales and panels, draws exactly what the description says, and
// has been maintained for ten years.)

import * as vega from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';

export const SCHEMA = 'https://vega.github.io/schema/vega-lite/v6.json';

/**
 * The same colour for the same system in every plot: Okabe and Ito's palette, which colour-blind
 * readers can tell apart.
 */
export const COLOURS: Readonly<Record<string, string>> = {
  'naive, SEAL': '#999999',
  'Boddeti, SEAL': '#E69F00',
  'HERS, SEAL': '#D55E00',
  'HERS, SEAL, improved': '#CC79A7',
  'this project, exact': '#0072B2',
  'this project, compact': '#009E73',
  published: '#000000',
};

const SYSTEMS = Object.keys(COLOURS);

/** Symbols, so that series can be told apart without colours. */
const SHAPES = ['circle', 'square', 'triangle-up', 'diamond', 'cross', 'triangle-down', 'triangle-right'];
const DASHES = [
  [1, 0],
  [7, 3],
  [2, 2],
  [9, 3, 2, 3],
  [4, 4],
  [12, 3],
  [1, 3],
  [6, 2, 1, 2, 1, 2],
];

/** Colours for series that are not systems: also from Okabe and Ito's palette. */
const SERIES_COLOURS = ['#D55E00', '#0072B2', '#E69F00', '#009E73', '#CC79A7', '#56B4E9', '#999999'];

/** Each system has its own colour and symbol, the same in every plot. */
export function bySystem(systems: readonly string[], legend: object | null) {
  const domain = SYSTEMS.filter((system) => systems.includes(system));
  const shapes = domain.map((system) => SHAPES[SYSTEMS.indexOf(system)]);
  return bySeries('system', domain, { legend, colours: domain.map((system) => COLOURS[system]), shapes });
}

interface SeriesLook {
  readonly colours?: readonly string[];
  readonly shapes?: readonly string[];
  readonly legend?: object | null;
  readonly title?: string | null;
}

/** Series by colour and symbol, in one legend. */
export function bySeries(field: string, names: readonly string[], look: SeriesLook = {}) {
  const { colours = SERIES_COLOURS, shapes = SHAPES, legend = {}, title = null } = look;
  const domain = [...names];
  const cycled = (range: readonly string[]) => names.map((_, i) => range[i % range.length]);
  const channel = { field, type: 'nominal' as const, title, sort: domain, legend };
  return {
    color: { ...channel, scale: { domain, range: cycled(colours) } },
    shape: { ...channel, scale: { domain, range: cycled(shapes) } },
  };
}

/** Series by colour and dashes, in one legend: for lines without points. */
export function byDashes(field: string, names: readonly string[], colours: readonly string[]) {
  const domain = [...names];
  const channel = { field, type: 'nominal' as const, title: null, sort: domain, legend: { symbolSize: 500 } };
  return {
    color: { ...channel, scale: { domain, range: names.map((_, i) => colours[i % colours.length]) } },
    strokeDash: { ...channel, scale: { domain, range: names.map((_, i) => DASHES[i % DASHES.length]) } },
  };
}

/** A name beside the last point of each line, in the colour of the line. */
export const NAMED_LINE_END = { type: 'text', align: 'left', dx: 9, fontSize: 12, fontWeight: 600 } as const;

const config = {
  // One description for the whole picture (see `described`) instead of one for every mark.
  aria: false,
  background: 'white',
  padding: 18,
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
  // Vega assumes labels are narrower than most fonts draw them.
  legend: { labelFontSize: 12, labelLimit: 0, symbolSize: 90, symbolStrokeWidth: 2.5, columnPadding: 30 },
  header: { labelFontSize: 13, labelFontWeight: 600 as const },
  view: { stroke: '#cccccc' },
};

/** Thousands as on the pages (quantities.ts). */
const grouped = (value: string) => `replace(format(${value}, ',.4~r'), /,/g, ' ')`;

/** The labels of an axis' ticks. */
const LABELS = {
  seconds: `datum.value < 9e-4 ? ${grouped('datum.value * 1e6')} + ' µs' : datum.value < 0.9 ? ${grouped('datum.value * 1e3')} + ' ms' : datum.value < 9e5 ? ${grouped('datum.value')} + ' s' : ${grouped('datum.value / 1e6')} + ' million s'`,
  bytes: "upper(replace(format(datum.value, '~s'), /([kMGTP]?)$/, ' $1')) + 'B'",
  count: `datum.value < 1e6 ? ${grouped('datum.value')} : ${grouped('datum.value / 1e6')} + ' million'`,
} as const;

export const COUNT_LABELS = LABELS.count;

/**
 * A logarithmic axis over whole powers of ten around the values, with a tick for each, or every
 * second of many.
 */
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

/** The same over the values that rows have in this field. */
export const logAxisOf = <F extends string>(
  rows: readonly { readonly [field in F]: number }[],
  field: F,
  unit: keyof typeof LABELS,
  title: string | null = null,
) =>
  logAxis(
    field,
    rows.map((row) => row[field]),
    unit,
    title,
  );

/** A column for each dimension, at equal distances. */
export const dimensionAxis = (dimensions: readonly number[]) => {
  const [sort, axis] = [dimensions.map(String), { labelAngle: 0, grid: true }];
  return { field: 'dimension', type: 'nominal' as const, sort, title: 'dimensions', axis };
};

/** A panel for each of these, in this order. */
export const panelsOf = (panels: readonly string[]) => ({
  ...{ field: 'panel', type: 'nominal' as const, title: null, sort: [...panels] },
});

/** Lines with points, and names at their ends. */
export const namedLines = <V extends object>(shape: object, ends: readonly V[]) => [
  { mark: { type: 'line' as const, strokeWidth: 2 } },
  { mark: { type: 'point' as const, size: 90, strokeWidth: 2, opacity: 1 }, encoding: { shape: shape as never } },
  {
    data: { values: [...ends] },
    mark: NAMED_LINE_END,
    encoding: { text: { field: 'name', type: 'nominal' as const } },
  },
];

/** Lines with points of this size, each with a bar from `low` to `high`. */
export function linesWithErrors<X, Y extends object, C, S>(
  rows: readonly object[],
  { x, y, series, size }: { x: X; y: Y; series: { color: C; shape: S }; size: number },
) {
  const data = { values: [...rows] };
  const { color } = series;
  return [
    {
      ...{ data, mark: { type: 'rule' as const, strokeWidth: 1.5, clip: true } },
      encoding: { x, y: { ...y, field: 'low' }, y2: { field: 'high' }, color },
    },
    { data, mark: { type: 'line' as const, strokeWidth: 2 }, encoding: { x, y, color } },
    { data, mark: { type: 'point' as const, size, filled: true, opacity: 1 }, encoding: { x, y, ...series } },
  ];
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

/** In the colour of the datum. */
export const HOLLOW_IF_EXTRAPOLATED = {
  condition: { test: "datum.source === 'extrapolated'", value: 'white' },
  field: 'colour',
  type: 'nominal' as const,
  scale: null,
};

/**
 * Dots with their figures beside them: filled where measured, hollow where extrapolated, in the
 * datum's colour.
 */
export const DOTS = [
  {
    mark: { type: 'point' as const, size: 100, opacity: 1, strokeWidth: 2 },
    encoding: { stroke: { field: 'colour', type: 'nominal' as const, scale: null }, fill: HOLLOW_IF_EXTRAPOLATED },
  },
  {
    mark: { type: 'text' as const, align: 'left' as const, dx: 11, fontSize: 11 },
    encoding: { text: { field: 'label', type: 'nominal' as const } },
  },
];

// Without a canvas Vega takes every character for 0.8 of the font's size, which makes margins far
// too wide. These widths are roughly Helvetica's.
const { textMetrics } = vega as unknown as { textMetrics: { width(item: unknown, text: unknown): number } };
textMetrics.width = (item: unknown, text: unknown) => {
  const { fontSize = 11, fontWeight = 400 } = item as { fontSize?: number; fontWeight?: number };
  let width = 0;
  for (const c of String(text ?? ''))
    width += /[iljtf.,:;'()| ]/.test(c) ? 0.3 : /[mwMW≈]/.test(c) ? 0.82 : /[A-Z]/.test(c) ? 0.68 : 0.55;
  return width * fontSize * (fontWeight >= 600 ? 1.08 : 1);
};

/** For readers who cannot see it, a plot is one picture that its title describes. */
function described(svg: string, { title }: TopLevelSpec): string {
  const { text, subtitle } = title as { text: string; subtitle?: string };
  const label = [text, subtitle].filter((part) => part !== undefined).join('. ');
  const escaped = label.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
  return svg.replace('<svg ', `<svg role="img" aria-label="${escaped}" `);
}

/** Renders a plot. Throws where Vega would only warn. */
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
    // Ids are counted over all plots of a process, but a plot must not depend on earlier ones.
    vega.resetSVGDefIds();
    const svg = await view.toSVG();
    if (warnings.length > 0) throw new Error(`Vega-Lite warns: ${warnings.join('; ')}`);
    if (/NaN|undefined/.test(svg)) throw new Error('the plot holds something that is not a number');
    return `${described(svg, spec)}\n`;
  } finally {
    view.finalize();
  }
}

/** Seconds of one search: a row for each system, extrapolated ones hollow. */
export function secondsPlot(
  title: { readonly text: string; readonly subtitle: string },
  { width, step }: { readonly width: number; readonly step: number },
  values: readonly { readonly system: string; readonly seconds: number }[],
): Promise<string> {
  const times = values.map(({ seconds }) => seconds);
  return render({
    $schema: SCHEMA,
    title,
    width,
    height: { step },
    data: { values: [...values] },
    encoding: { y: systemAxis(values.map(({ system }) => system)), x: logAxis('seconds', times, 'seconds', null) },
    layer: DOTS,
  });
}
