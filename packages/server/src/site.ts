// Pages that a server gives to anybody, beside its API: the console. They are files, read once, and
// hold nothing of the gallery.

import { takesGzip } from '@hers/service';
import type { FastifyRequest } from 'fastify';
import type { Route } from './routes.ts';

/** A file of a page, as it is sent. */
export interface SiteFile {
  /** Below the base; empty for the page itself. */
  readonly path: string;
  /** Its media type. */
  readonly type: string;
  /** Its bytes. */
  readonly body: Uint8Array;
  /** The same, compressed by gzip. */
  readonly compressed: Uint8Array;
}

/** A page that a server gives to anybody, beside its API. */
export interface Site {
  /** Where it lies: `/console/`. */
  readonly base: string;
  /** What every file is sent with, in the place of the API's own. */
  readonly headers: Readonly<Record<string, string>>;
  /** The page and all that it loads. */
  readonly files: readonly SiteFile[];
}

/** What the log and the metrics call a file of the page. */
const OPERATION = 'console';

export function siteRoutes({ base, headers, files }: Site): Route[] {
  const page: Route[] = files.map(({ path, type, body, compressed }) => ({
    method: 'GET',
    url: base + path,
    needs: 'open',
    operation: OPERATION,
    summary: path === '' ? 'The console, a page for people' : `A file of the console: ${path}`,
    gives: { kind: 'text', status: 200, type, description: 'a file' },
    handle: async ({ request, reply }) => {
      const isCompressed = takesGzip(request.headers['accept-encoding']);
      for (const [name, value] of Object.entries(headers)) reply.header(name, value);
      reply.header('vary', 'accept-encoding');
      if (isCompressed) reply.header('content-encoding', 'gzip');
      return reply.type(type).send(isCompressed ? compressed : body);
    },
  }));
  const withoutSlash: Route = {
    method: 'GET',
    url: base.replace(/\/$/, ''),
    needs: 'open',
    operation: OPERATION,
    summary: 'Leads to the console',
    gives: { kind: 'text', status: 200, type: 'text/plain', description: 'nothing' },
    handle: async ({ reply }) => reply.redirect(base, 302),
  };
  return [...page, withoutSlash];
}

/**
 * Whether a browser opens a file of the page in a tab. A link to it may stand anywhere: it shows
 * nothing to whoever has set it.
 */
export function isVisit({ method, headers, routeOptions }: FastifyRequest): boolean {
  const { 'sec-fetch-mode': mode, 'sec-fetch-dest': target } = headers;
  const isFile = routeOptions.config.hers?.operation === OPERATION;
  return isFile && method === 'GET' && mode === 'navigate' && target === 'document';
}
