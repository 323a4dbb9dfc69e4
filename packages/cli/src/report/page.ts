// A report as parts, and these as Markdown and as one HTML page that prints well.

import { escaped as escapedText } from './plot.ts';

export type Part =
  | { readonly heading: string; readonly level?: 1 | 2 | 3 }
  | { readonly text: string }
  | { readonly head: readonly string[]; readonly rows: readonly (readonly string[])[] }
  | { readonly items: readonly string[] }
  /** An SVG: within the page, and a file beside the Markdown. */
  | { readonly plot: string; readonly title: string; readonly file: string };

/**
 * Names of files and columns may hold anything: none becomes a tag, a link or a line of its own.
 */
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
  const escaped = (text: string) => escapedText(printable(text));
  const cell = (tag: 'th' | 'td') => (text: string) => `<${tag}>${escaped(text)}</${tag}>`;
  const body = parts.map((part) => {
    if ('heading' in part) return `<h${part.level ?? 2}>${escaped(part.heading)}</h${part.level ?? 2}>`;
    if ('text' in part) return `<p>${escaped(part.text)}</p>`;
    if ('items' in part) return `<ul>${part.items.map((item) => `<li>${escaped(item)}</li>`).join('')}</ul>`;
    if ('plot' in part) return `<figure>${part.plot}</figure>`;
    const row = (cells: readonly string[], tag: 'th' | 'td') => `<tr>${cells.map(cell(tag)).join('')}</tr>`;
    return `<table><thead>${row(part.head, 'th')}</thead><tbody>${part.rows.map((cells) => row(cells, 'td')).join('')}</tbody></table>`;
  });
  return `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escaped(title)}</title><style>${STYLE}</style></head><body>\n${body.join('\n')}\n</body></html>\n`;
}
