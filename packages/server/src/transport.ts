// Fastify over TCP or TLS, its log, and what happens to connections and requests before any hook
// sees them.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { HersError, refuseUnknown } from '@hers/service';
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
  LogController,
} from 'fastify';
import { refuseSocket } from './connections.ts';
import { JSON_TYPE, refusalOf } from './errors.ts';
import type { Parts } from './parts.ts';
import type { TlsOptions } from './tls.ts';

/** How often connections are looked at for being too slow. */
const CHECK_MS = 1000;

export function makeTransport(parts: Parts, tls: TlsOptions | undefined, log: LogOptions | false): FastifyInstance {
  const { limits, metrics, strangers } = parts;
  const transport = { connectionsCheckingInterval: Math.min(CHECK_MS, 500 * limits.headerSeconds) };
  const settings = {
    ...(tls ? { https: { ...transport, ...tls, handshakeTimeout: 1000 * limits.headerSeconds } } : { http: transport }),
    logger: log === false ? false : loggerOptions(log),
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: false,
    exposeHeadRoutes: false,
    return503OnClosing: false,
    requestTimeout: 0,
    keepAliveTimeout: 1000 * limits.idleSeconds,
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false } },
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) => {
      if (strangers.take(request.ip) > 0) return request.raw.socket.destroy();
      const { status, body } = refusalOf(error);
      reply.status(status).type(JSON_TYPE).send(JSON.stringify(body));
    },
    clientErrorHandler: (error: Error, socket: Socket) => metrics.error(refuseSocket(error, socket)),
  };
  // One type for both transports: nothing here depends on which it is.
  const fastify = Fastify(settings as FastifyServerOptions) as FastifyInstance;
  fastify.server.headersTimeout = 1000 * limits.headerSeconds;
  watchConnections(fastify, parts);
  return fastify;
}

function watchConnections({ server }: FastifyInstance, { connections, strangers, limits, hasTls }: Parts): void {
  server.on('connection', (socket: Socket) => connections.arrived(socket));
  // Under TLS there are connections that are not yet anything more.
  server.on(hasTls ? 'secureConnection' : 'connection', (socket: Socket) => connections.add(socket));
  server.on('checkExpectation', ({ socket }, response: ServerResponse) => {
    if (strangers.take(socket.remoteAddress ?? '') > 0) return socket.destroy();
    const { body } = refusalOf(new HersError('INVALID_ARGUMENT', 'this expectation is not met here'));
    response.writeHead(417, { 'content-type': JSON_TYPE }).end(JSON.stringify(body));
  });

  // Whatever comes, before anything else sees it; also what no hook will see, because its path or
  // its head is none.
  const watch = (request: IncomingMessage, response: ServerResponse) => {
    // One that breaks off may say so when nobody listens any more.
    request.on('error', () => {});
    const { socket } = request;
    // Nobody has to send the next request before the answer to the last; who does, and reads
    // nothing, would have us keep all the answers.
    if (connections.isBusy(socket)) return socket.destroy();
    connections.began(socket);
    response.once('close', () => connections.ended(socket));
    // What is ready is sent as fast as it is taken, but not for ever.
    response.once('prefinish', () => {
      if (socket.destroyed) return;
      connections.answered(socket);
      const timer = setTimeout(() => socket.destroy(), 1000 * limits.stallSeconds);
      response.once('close', () => clearTimeout(timer));
    });
  };
  server.prependListener('request', watch);
  server.prependListener('checkExpectation', watch);
}

// What is logged: names, numbers and codes. Never a header, a body, a query string, or the message
// of an error that is not ours, for nobody knows what those hold.

/** What is logged: this, and what is worse. */
export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent';

/** What is logged, and where to. */
export interface LogOptions {
  /** `info` by default. */
  readonly level?: LogLevel;
  /** Where lines of JSON go; standard output by default. */
  readonly stream?: { write(line: string): void };
}

/** The kind of an error and where it happened; what it says only where it is one of ours. */
function loggedError(error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error };
  const { name, stack = '', code } = error as Error & { code?: unknown };
  const frames = stack.split('\n').filter((line) => /^\s+at /.test(line));
  return {
    type: name,
    ...(typeof code === 'string' ? { code } : {}),
    ...(error instanceof HersError ? { message: error.message } : {}),
    stack: frames.slice(0, 12).map((line) => line.trim()),
  };
}

function loggerOptions(options: LogOptions): object {
  refuseUnknown(options, { level: true, stream: true }, 'a log');
  const { level = 'info', stream } = options;
  return {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: loggedError, error: loggedError, req: () => undefined, res: () => undefined } as never,
    ...(stream ? { stream } : {}),
  };
}
