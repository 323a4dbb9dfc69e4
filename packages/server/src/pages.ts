// What pages may do. A browser sends requests for any page that is open in it, to this machine and
// its neighbours too; it says where they come from (`Origin`, `Sec-Fetch-Site`) and under which
// name the server was looked up (`Host`). So: pages of other origins are refused unless they are
// named; where there are no tokens, so are names that are not this server's own, because a
// stranger's name can be made to lead here and its pages then count as this server's; and every
// change asks for a content type that a page can send only after asking.

import type { IncomingMessage } from 'node:http';
import { HersError, isLoopback, OCTETS, takesGzip } from '@hers/service';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Route } from './routes.ts';

/** Origins such as `https://app.example`, or all of them. */
export type CorsOrigins = readonly string[] | '*';

export interface PagesOptions {
  readonly cors?: CorsOrigins | undefined;
  /** Answer to these names, and to the addresses listened on, and to no others. Absent: to any. */
  readonly names?: readonly string[] | undefined;
  readonly tls: boolean;
}

const METHODS = 'GET, POST, PUT, DELETE';
const HEADERS = 'authorization, content-type';
const PREFLIGHT_SECONDS = 600;
/** What a browser says of a request that no other page has made. */
const OWN_SITES: readonly unknown[] = [undefined, 'same-origin', 'none'];

/** A name or an address, with a port or without. */
const HOST = /^(?:\[[\da-f:.]+\]|[\w.-]+)(?::\d+)?$/i;

export class Pages {
  readonly #cors: CorsOrigins;
  readonly #names: ReadonlySet<string> | undefined;
  readonly #tls: boolean;

  constructor({ cors = [], names, tls }: PagesOptions) {
    if (cors !== '*')
      for (const origin of cors)
        if (URL.parse(origin)?.origin !== origin)
          throw new HersError(
            'INVALID_ARGUMENT',
            `${JSON.stringify(origin)} is not an origin; write it as browsers do: https://app.example`,
          );
    this.#cors = cors;
    this.#names = names && new Set(names.map(nameOf));
    this.#tls = tls;
  }

  /**
   * FORBIDDEN for a request that a page of another origin has made, or that came under another
   * name.
   */
  check(request: FastifyRequest): void {
    const { headers, raw } = request;
    // A whole address in the place of a path is for proxies.
    if (this.#names && !(raw.url?.startsWith('/') && this.#answersTo(headers.host, raw)))
      throw new HersError(
        'FORBIDDEN',
        'without tokens this server answers only to its own name and address; name others with --allow-host, or make tokens',
      );
    const { origin, 'sec-fetch-site': site } = headers;
    const isOwnSite = OWN_SITES.includes(site) && (origin === undefined || this.#isOwn(origin, headers.host));
    const isForeign = !isOwnSite && !(origin === undefined ? this.#cors === '*' : this.#allows(origin));
    if (isForeign && !isVisit(request))
      throw new HersError(
        'FORBIDDEN',
        'pages of this origin may not use this server; hers serve --cors names those that may',
      );
  }

  #allows(origin: string): boolean {
    return this.#cors === '*' || this.#cors.includes(origin);
  }

  /**
   * Whether a page of this server has asked. What is in front of it may have TLS where it has none.
   */
  #isOwn(origin: string, host: string | undefined): boolean {
    const url = URL.parse(origin);
    const isScheme = url?.protocol === 'https:' || (url?.protocol === 'http:' && !this.#tls);
    return isScheme && url.origin === origin && url.host === host?.toLowerCase();
  }

  #answersTo(host: string | undefined, { socket }: IncomingMessage): boolean {
    const name = host !== undefined && HOST.test(host) ? URL.parse(`http://${host}`)?.hostname : undefined;
    if (!name) return false;
    const local = addressOf(socket.localAddress);
    return this.#names!.has(name) || name === local || (name === 'localhost' && isLoopback(local));
  }

  /** Adds what a browser wants to know. True when it asked for nothing else, and is answered. */
  answer(request: FastifyRequest, reply: FastifyReply, isRoute: boolean): boolean {
    const { origin } = request.headers;
    if (this.#cors.length === 0) return false;
    reply.header('vary', 'origin');
    if (origin === undefined || !this.#allows(origin)) return false;
    reply.header('access-control-allow-origin', this.#cors === '*' ? '*' : origin);
    reply.header('access-control-expose-headers', 'retry-after');
    reply.header('cross-origin-resource-policy', 'cross-origin');
    if (isRoute || !isPreflight(request)) return false;
    reply.header('access-control-allow-methods', METHODS);
    reply.header('access-control-allow-headers', HEADERS);
    reply.header('access-control-max-age', String(PREFLIGHT_SECONDS));
    reply.status(204).send();
    return true;
  }
}

/** Whether a browser asks what a page may do, before the page does it. */
export function isPreflight({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && Boolean(headers['access-control-request-method']);
}

/** A name as URLs write it. INVALID_ARGUMENT for what is none: a scheme, a port, a path. */
function nameOf(text: string): string {
  const bracketed = text.includes(':') && !text.startsWith('[') ? `[${text}]` : text;
  const url = URL.parse(`http://${bracketed}`);
  if (!url || url.host !== url.hostname || !HOST.test(bracketed))
    throw new HersError(
      'INVALID_ARGUMENT',
      `${JSON.stringify(text)} is not the name or address of a machine; write it without scheme and port: gallery.example`,
    );
  return url.hostname;
}

/** The address of a socket as a URL writes it. */
function addressOf(address: string | undefined): string {
  const plain = address?.replace(/^::ffff:(?=\d+\.)/, '') ?? '';
  return plain.includes(':') ? `[${plain}]` : plain;
}

/** Refuses a change that a page could have sent without asking: 415. */
export function checkChange(request: FastifyRequest): void {
  const [type = ''] = (request.headers['content-type'] ?? '').split(';');
  if (request.method === 'GET' || type.trim().toLowerCase() === OCTETS) return;
  throw Object.assign(new Error(`whatever changes something is sent with the content type ${OCTETS}`), {
    statusCode: 415,
  });
}

// Pages that a server gives to anybody, beside its API: the console. They are files, read once, and
// hold nothing of the gallery.

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
  const open = { method: 'GET', needs: 'open', operation: OPERATION } as const;
  const page: Route[] = files.map(({ path, type, body, compressed }) => ({
    ...open,
    url: base + path,
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
    ...open,
    url: base.replace(/\/$/, ''),
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
