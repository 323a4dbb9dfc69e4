// Line plots as SVG, small and without dependencies: what a report prints.

export interface Line {
  readonly name: string;
  readonly points: readonly { readonly x: number; readonly y: number; readonly low?: number; readonly high?: number }[];
}

export interface Axis {
  readonly title: string;
  readonly log?: boolean;
  readonly min: number;
  readonly max: number;
  readonly ticks: readonly number[];
}

/** Okabe and Ito's palette, which colour-blind readers can tell apart; dashes serve for print. */
const LOOKS = [
  { colour: '#0072B2', dashes: '' },
  { colour: '#D55E00', dashes: '7 3' },
  { colour: '#009E73', dashes: '2 3' },
];
const [WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM] = [640, 360, 64, 34, 16, 48];

/** The names stand at the right, at the top unless the curves are there. */
export function linePlot(
  title: string,
  x: Axis,
  y: Axis,
  lines: readonly Line[],
  names: 'top' | 'bottom' = 'top',
): string {
  const place = ({ log, min, max }: Axis, value: number) => {
    const of = (v: number) => (log ? Math.log10(Math.max(v, min)) : v);
    return (of(Math.min(Math.max(value, min), max)) - of(min)) / (of(max) - of(min));
  };
  const at = (px: number) => (LEFT + px * (WIDTH - LEFT - RIGHT)).toFixed(1);
  const up = (py: number) => (HEIGHT - BOTTOM - py * (HEIGHT - TOP - BOTTOM)).toFixed(1);
  const [toX, toY] = [(value: number) => at(place(x, value)), (value: number) => up(place(y, value))];
  const parts = [
    ...x.ticks.map(
      (tick) =>
        `<path d="M${toX(tick)} ${up(0)}V${up(1)}" stroke="#ddd"/><text x="${toX(tick)}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${shown(tick)}</text>`,
    ),
    ...y.ticks.map(
      (tick) =>
        `<path d="M${at(0)} ${toY(tick)}H${at(1)}" stroke="#ddd"/><text x="${LEFT - 6}" y="${Number(toY(tick)) + 4}" text-anchor="end">${shown(tick)}</text>`,
    ),
    `<text x="${at(0.5)}" y="${HEIGHT - 10}" text-anchor="middle">${escaped(x.title)}</text>`,
    `<text transform="translate(14 ${up(0.5)}) rotate(-90)" text-anchor="middle">${escaped(y.title)}</text>`,
    `<text x="${LEFT}" y="18" font-weight="bold">${escaped(title)}</text>`,
    ...lines.flatMap(({ points }, i) => {
      const { colour, dashes } = LOOKS[i % LOOKS.length]!;
      const band = points.filter(({ low, high }) => low !== undefined && high !== undefined);
      const edge = (list: typeof band, value: (point: (typeof band)[number]) => number) =>
        list.map((point) => `${toX(point.x)},${toY(value(point))}`).join(' ');
      return [
        ...(band.length > 1
          ? [
              `<polygon points="${edge(band, ({ low }) => low!)} ${edge(band.toReversed(), ({ high }) => high!)}" fill="${colour}" fill-opacity="0.15"/>`,
            ]
          : []),
        `<polyline points="${points.map((point) => `${toX(point.x)},${toY(point.y)}`).join(' ')}" fill="none" stroke="${colour}" stroke-width="2" stroke-dasharray="${dashes}"/>`,
      ];
    }),
    ...lines.map(({ name }, i) => {
      const { colour, dashes } = LOOKS[i % LOOKS.length]!;
      const first = names === 'top' ? TOP + 10 : HEIGHT - BOTTOM - 8 - 18 * (lines.length - 1);
      const [left, top] = [WIDTH - RIGHT - 150, first + 18 * i];
      return `<path d="M${left} ${top}h28" stroke="${colour}" stroke-width="2" stroke-dasharray="${dashes}"/><text x="${left + 34}" y="${top + 4}">${escaped(name)}</text>`;
    }),
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="${escaped(title)}" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">${parts.join('')}</svg>`;
}

const shown = (value: number) =>
  value >= 0.001 || value === 0 ? String(Number(value.toPrecision(3))) : value.toExponential(0);

export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
