// The server: fastify around a Service.

import { HersError, OCTETS, type Service } from '@hers/service';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { drain } from './body.ts';
import { Call, type Traffic } from './call.ts';
import { refusalOf } from './errors.ts';
import { checkLimits, type Limits } from './limits.ts';
import { type Route, serviceRoutes } from './routes.ts';

declare module 'fastify' {
  interface FastifyRequest {
    token: { readonly id: string; readonly collection?: string } | undefined;
  }
  interface FastifyContextConfig {
    hers?: Route;
  }
}

export interface AppOptions {
  readonly limits?: Partial<Limits>;
}

const VERSION = '0.1.0';
/** What is still taken off the line when a request is refused in the middle of its body. */
const DRAIN = { bytes: 2 ** 25, ms: 1000 };

export function makeApp(service: Service, options: AppOptions = {}): FastifyInstance {
  const limits = checkLimits(options.limits ?? {});
  const app = Fastify({
    logger: false,
    trustProxy: false,
    exposeHeadRoutes: false,
    requestTimeout: 0,
    keepAliveTimeout: 1000 * limits.idleSeconds,
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false } },
  });
  app.removeAllContentTypeParsers();
  // Bodies are read by the handlers, as they come.
  app.addContentTypeParser(OCTETS, (_request, payload, done) => done(null, payload));
  app.decorateRequest('token', undefined);
  app.setNotFoundHandler(async () => {
    throw new HersError('NOT_FOUND', 'there is no such path; /openapi.json lists those there are');
  });
  app.setErrorHandler(async (error, request, reply) => {
    const { status, body } = refusalOf(error);
    if (hasBody(request) && !request.raw.readableEnded) {
      await drain(request.raw, DRAIN);
      if (!request.raw.readableEnded) reply.header('connection', 'close');
    }
    return reply.status(status).type('application/json').send(JSON.stringify(body));
  });
  const traffic: Traffic = { received: () => {}, sent: () => {} };
  for (const route of serviceRoutes(service, { version: VERSION })) addRoute(app, route, limits, traffic);
  return app;
}

const hasBody = ({ headers }: FastifyRequest) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

function addRoute(app: FastifyInstance, route: Route, limits: Limits, traffic: Traffic): void {
  const { method, url, params, gives } = route;
  app.route({
    method,
    url,
    config: { hers: route },
    schema: {
      ...(params ? { params } : {}),
      ...(gives.kind === 'json' ? { response: { [gives.status]: gives.body } } : {}),
    },
    handler: async (request, reply) => {
      const ending = new AbortController();
      const gone = () => ending.abort(new HersError('UNAVAILABLE', 'the client is gone'));
      reply.raw.once('close', gone);
      reply.status(gives.status);
      const result = await route.handle(new Call(request, reply, ending.signal, limits, traffic));
      return gives.kind === 'nothing' ? reply.send() : result;
    },
  });
}
