// A report as parts, and these as Markdown and as one HTML page that prints well.

export type Part =
  | { readonly heading: string; readonly level?: 1 | 2 | 3 }
  | { readonly text: string }
  | { readonly head: readonly string[]; readonly rows: readonly (readonly string[])[] }
  | { readonly items: readonly string[] }
  /** An SVG: within the page, and a file beside the Markdown. */
  | { readonly plot: string; readonly title: string; readonly file: string };

/** Names of files and columns may hold anything: none becomes a tag, a link or a line. */
function asText(text: string): string {
  return printable(text)
    .replaceAll(/&(?=[#\w]+;)/g, '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll(/[\\`*]|\]\(/g, (found) => (found === '](' ? ']\\(' : `\\${found}`));
}

function asTarget(path: string): string {
  const code = (found: string) => `%${found.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURI(path).replaceAll(/[?#&*]/g, code);
}

/** Without line breaks and other control characters, among them those that turn text around. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ');
}

/** `name` is that of the report: plots are files called `<name>-<file>.svg`. */
export function asMarkdown(parts: readonly Part[], name: string): string {
  const blocks = parts.flatMap((part) => {
    if ('heading' in part) return `${'#'.repeat(part.level ?? 2)} ${asText(part.heading)}`;
    if ('text' in part) return asText(part.text);
    if ('items' in part) return part.items.map((item) => `- ${asText(item)}`).join('\n');
    if ('plot' in part) return `![${asText(part.title)}](<${asTarget(`${name}-${part.file}.svg`)}>)`;
    const line = (cells: readonly string[]) =>
      `| ${cells.map((cell) => asText(cell).replaceAll('|', '\\|')).join(' | ')} |`;
    return [line(part.head), line(part.head.map((_, i) => (i === 0 ? ':--' : '--:'))), ...part.rows.map(line)].join(
      '\n',
    );
  });
  return `${blocks.join('\n\n')}\n`;
}

const STYLE = `body{font:15px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#111}
table{border-collapse:collapse;margin:1rem 0;width:100%;font-size:.87em;font-variant-numeric:tabular-nums}
th,td{border-bottom:1px solid #ccc;padding:.3rem .4rem;text-align:right}th{vertical-align:bottom}
th:first-child,td:first-child{text-align:left;padding-left:0;min-width:6em}td:not(:first-child){white-space:nowrap}
figure{margin:1rem 0}svg{width:100%;height:auto}li{overflow-wrap:anywhere}h2{margin-top:2rem;border-bottom:2px solid #111}
@page{margin:18mm}@media print{body{max-width:none;margin:0;padding:0;font-size:10pt}h2,h3,p:has(+table){break-after:avoid}tr,figure{break-inside:avoid}}`;

export function asHtml(title: string, parts: readonly Part[]): string {
  const safe = (text: string) => escaped(printable(text));
  const cell = (tag: 'th' | 'td') => (text: string) => `<${tag}>${safe(text)}</${tag}>`;
  const body = parts.map((part) => {
    if ('heading' in part) return `<h${part.level ?? 2}>${safe(part.heading)}</h${part.level ?? 2}>`;
    if ('text' in part) return `<p>${safe(part.text)}</p>`;
    if ('items' in part) return `<ul>${part.items.map((item) => `<li>${safe(item)}</li>`).join('')}</ul>`;
    if ('plot' in part) return `<figure>${part.plot}</figure>`;
    const row = (cells: readonly string[], tag: 'th' | 'td') => `<tr>${cells.map(cell(tag)).join('')}</tr>`;
    return `<table><thead>${row(part.head, 'th')}</thead><tbody>${part.rows.map((cells) => row(cells, 'td')).join('')}</tbody></table>`;
  });
  return `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${safe(title)}</title><style>${STYLE}</style></head><body>\n${body.join('\n')}\n</body></html>\n`;
}

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
