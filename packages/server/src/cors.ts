// Pages of other origins: refused by default, by sending none of the headers that browsers ask for.

import { HersError } from '@hers/service';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Origins such as `https://app.example`, or all of them. */
export type CorsOrigins = readonly string[] | '*';

const METHODS = 'GET, POST, PUT, DELETE';
const HEADERS = 'authorization, content-type';
const PREFLIGHT_SECONDS = 600;

export class Cors {
  readonly #origins: CorsOrigins;

  constructor(origins: CorsOrigins = []) {
    if (origins !== '*')
      for (const origin of origins)
        if (URL.parse(origin)?.origin !== origin)
          throw new HersError(
            'INVALID_ARGUMENT',
            `${JSON.stringify(origin)} is not an origin; write it as browsers do: https://app.example`,
          );
    this.#origins = origins;
  }

  /** Adds what a browser wants to know. True when it asked for nothing else, and is answered. */
  answer(request: FastifyRequest, reply: FastifyReply, isRoute: boolean): boolean {
    const { origin } = request.headers;
    if (this.#origins.length === 0) return false;
    reply.header('vary', 'origin');
    if (origin === undefined || !(this.#origins === '*' || this.#origins.includes(origin))) return false;
    reply.header('access-control-allow-origin', this.#origins === '*' ? '*' : origin);
    reply.header('access-control-expose-headers', 'retry-after');
    reply.header('cross-origin-resource-policy', 'cross-origin');
    if (isRoute || request.method !== 'OPTIONS' || !request.headers['access-control-request-method']) return false;
    reply.header('access-control-allow-methods', METHODS);
    reply.header('access-control-allow-headers', HEADERS);
    reply.header('access-control-max-age', String(PREFLIGHT_SECONDS));
    reply.status(204).send();
    return true;
  }
}
