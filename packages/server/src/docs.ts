// The table of routes for programs and for people: /openapi.json, with the schemas that requests
// are validated against, and /docs, one page without scripts and without anything from elsewhere.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { OCTETS } from '@hers/service';
import type { Route } from './routes.ts';
import { errorBody } from './schemas.ts';

const NEEDS = {
  open: 'No token.',
  device: 'A token of scope device, write or admin.',
  search: 'A token of scope search, write or admin.',
  write: 'A token of scope write or admin.',
  admin: 'A token of scope admin.',
};

const pathOf = (url: string) => url.replace(/:(\w+)/g, '{$1}');

function parametersOf({ params }: Route): object[] {
  const properties = (params as { properties?: Record<string, object> } | undefined)?.properties ?? {};
  return Object.entries(properties).map(([name, schema]) => ({ name, in: 'path', required: true, schema }));
}

/** A message is frames of octets; its head is described besides, because no media type does. */
function bodyOf({ takes }: Route): object | undefined {
  if (!takes) return undefined;
  const description =
    takes.kind === 'message'
      ? `A message: frames, each a length (u32, little-endian) and that many bytes. The first is JSON that fits x-hers-head; then ${takes.parts}.`
      : takes.description;
  const content = { [OCTETS]: { schema: { type: 'string', format: 'binary' } } };
  return { required: true, description, content, ...(takes.kind === 'message' ? { 'x-hers-head': takes.head } : {}) };
}

function answerOf({ gives }: Route): object {
  switch (gives.kind) {
    case 'json':
      return { description: 'Done.', content: { 'application/json': { schema: gives.body } } };
    case 'octets':
      return {
        description: `Octets: ${gives.description}.`,
        content: { [OCTETS]: { schema: { type: 'string', format: 'binary' } } },
        ...(gives.head ? { 'x-hers-head': gives.head } : {}),
      };
    case 'text':
      return { description: gives.description, content: { [gives.type]: { schema: { type: 'string' } } } };
    case 'nothing':
      return { description: 'Done.' };
  }
}

export function openApi(routes: readonly Route[], version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const { method, url, operation, summary, needs, gives } = route;
    const body = bodyOf(route);
    const path = (paths[pathOf(url)] ??= {});
    path[method.toLowerCase()] = {
      operationId: operation,
      summary,
      description: `${NEEDS[needs]}${method === 'GET' || body ? '' : ` Sent with the content type ${OCTETS}, though without a body.`}`,
      parameters: parametersOf(route),
      ...(body ? { requestBody: body } : {}),
      responses: {
        [gives.status]: answerOf(route),
        default: {
          description: 'What went wrong.',
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
        },
      },
      security: needs === 'open' ? [] : [{ token: [] }],
    };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'HERS',
      version,
      description:
        'Encrypted galleries behind HTTP. Only ciphertexts, sealed records and opaque handles cross it; keys, vectors, ids and scores stay with clients. Use the SDK rather than these paths: it encrypts, verifies and ranks.',
    },
    paths,
    components: {
      schemas: { Error: errorBody },
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    },
  };
}

const STYLE = `
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .25rem; }
code, pre { font: .9rem/1.45 ui-monospace, monospace; }
pre { overflow: auto; padding: .75rem; border: 1px solid #8885; border-radius: .4rem; }
.needs { float: right; font-size: .85rem; opacity: .75; }
nav ul { columns: 20rem; padding-left: 1.2rem; }
dt { font-weight: 600; } dd { margin: 0 0 .5rem 1.5rem; }
`;

/** The only style that the page's policy lets through. */
export const STYLE_HASH: string = `'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`;

const escaped = (text: string) =>
  text.replace(/[&<>"]/g, (character) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[character]!);

const schema = (value: object) => `<pre>${escaped(JSON.stringify(value, null, 2))}</pre>`;

function takes(route: Route): string {
  if (!route.takes) return '';
  const text =
    route.takes.kind === 'message'
      ? `a message: a head that fits${schema(route.takes.head)}then ${escaped(route.takes.parts)}`
      : `octets: ${escaped(route.takes.description)}`;
  return `<dt>takes</dt><dd>${text}</dd>`;
}

function gives({ gives }: Route): string {
  const text =
    gives.kind === 'json'
      ? `${gives.status}, JSON${schema(gives.body)}`
      : gives.kind === 'nothing'
        ? `${gives.status}, nothing`
        : `${gives.status}, ${gives.kind === 'octets' ? 'octets: ' : ''}${escaped(gives.description)}`;
  return `<dt>answers</dt><dd>${text}</dd>`;
}

/** Values for the parameters of a path. */
const SAMPLES: Readonly<Record<string, string>> = { name: 'faces', block: '00112233445566778899aabbccddeeff' };

/** The request as a line for the shell, with the address and the token in variables. */
function example({ method, url, needs, takes, gives }: Route): string {
  const path = url.replace(/:(\w+)/g, (_, name: string) => SAMPLES[name] ?? name);
  const parts = [
    'curl',
    ...(method === 'GET' ? [] : [`-X ${method}`, "-H 'Content-Type: application/octet-stream'"]),
    ...(needs === 'open' ? [] : ['-H "Authorization: Bearer $HERS_TOKEN"']),
    ...(takes ? ['--data-binary @body'] : []),
    ...(gives.kind === 'octets' ? ['-o answer'] : []),
    `"$SERVER${path}"`,
  ];
  return `<pre>${escaped(parts.join(' '))}</pre>`;
}

function contents(routes: readonly Route[]): string {
  const line = ({ operation, method, url, summary }: Route) =>
    `<li><a href="#${escaped(operation)}"><code>${method} ${escaped(url)}</code></a><br>${escaped(summary)}</li>`;
  return `<nav><h2>Contents</h2><ul>\n${routes.map(line).join('\n')}\n</ul></nav>`;
}

function section(route: Route): string {
  const needs = route.needs === 'open' ? 'no token' : `scope ${route.needs}`;
  return `<section id="${escaped(route.operation)}"><h2><span class="needs">${needs}</span><code>${route.method} ${escaped(route.url)}</code></h2>
<p>${escaped(route.summary)}.</p>${example(route)}<dl>${takes(route)}${gives(route)}</dl></section>`;
}

export function docsPage(routes: readonly Route[], version: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>HERS ${escaped(version)}: paths of the server</title><style>${STYLE}</style></head><body>
<h1>HERS ${escaped(version)}</h1>
<p>Encrypted galleries behind HTTP. Only ciphertexts, sealed records and opaque handles cross it. Applications use the SDK,
<code>connect('https://…', {key, token})</code>, which encrypts, verifies and ranks; these are the paths underneath, also as
<a href="openapi.json">openapi.json</a>.</p>
<p>Tokens travel as <code>Authorization: Bearer</code>. Every <code>POST</code>, <code>PUT</code> and <code>DELETE</code> is sent
as <code>application/octet-stream</code>, with a body or without. A <em>frame</em> is a length (u32, little-endian) and that many bytes; a
<em>message</em> is frames, the first of which is JSON; <em>items</em> are frames whose last byte says what they are: 0 an item, 1 the end,
2 an error in JSON. Errors are <code>{code, message, retryable}</code>; with 429 and 503 <code>Retry-After</code> says when to come back.</p>
${contents(routes)}
${routes.map(section).join('\n')}
</body></html>
`;
}

const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8');

/** The version of this package. */
export const VERSION: string = JSON.parse(manifest).version;
