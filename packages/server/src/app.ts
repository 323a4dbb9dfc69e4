// The server: fastify around a Service. Every request passes the same gates in the same order: is the server going down, may this page ask, whose token is it, what may
// it do, is there room; and leaves the same traces: a line in the log, a line in the audit log, the metrics.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { HersError, isCollectionName, OCTETS, type Service } from '@hers/service';
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
  LogController,
} from 'fastify';
import type { Audit } from './audit.ts';
import { drain } from './body.ts';
import { Call } from './call.ts';
import { Connections, refuseSocket } from './connections.ts';
import { docsPage, STYLE_HASH } from './docs-page.ts';
import { JSON_TYPE, type Refusal, refusalOf } from './errors.ts';
import { Overloaded, Rates } from './gate.ts';
import { Guest, Guests, type Measure } from './guests.ts';
import { checkLimits, type Limits } from './limits.ts';
import { type LogOptions, loggerOptions } from './logs.ts';
import { Metrics } from './metrics.ts';
import { openApi } from './openapi.ts';
import { type CorsOrigins, checkChange, Pages } from './pages.ts';
import { type Route, serviceRoutes } from './routes.ts';
import { Scans } from './scans.ts';
import type { TlsOptions } from './tls.ts';
import { allows, type Token, type TokenCheck } from './tokens.ts';
import { VERSION } from './version.ts';

declare module 'fastify' {
  interface FastifyRequest {
    token: Token | undefined;
    guest: Guest | undefined;
    call: Call | undefined;
    refusal: Refusal | undefined;
    /** One of so many strangers that the log would be full of them. */
    untold: boolean | undefined;
  }
  interface FastifyContextConfig {
    hers?: Route;
  }
}

export interface AppOptions {
  readonly limits?: Partial<Limits>;
  /** Absent: everybody may do everything. */
  readonly tokens?: TokenCheck;
  readonly tls?: TlsOptions;
  /** Pages of which origins may ask; none by default. */
  readonly cors?: CorsOrigins;
  /** Where there are no tokens: the names that it answers to, besides the addresses it listens on. */
  readonly names?: readonly string[];
  /** False: no log. */
  readonly log?: LogOptions | false;
  readonly audit?: Audit;
  /** What the process has in memory; for tests, which share it with their clients. */
  readonly measure?: Measure;
}

export interface App {
  readonly fastify: FastifyInstance;
  /** What there is, and what the router really has: tests compare the two. */
  readonly routes: readonly Route[];
  readonly registered: readonly string[];
  readonly limits: Limits;
  /** Finishes what is under way, for so long at most, refuses what is new, closes. The Service stays open. */
  close(graceSeconds?: number): Promise<void>;
}

/** What is still taken off the line when a request is refused in the middle of its body. */
const DRAIN = { bytes: 2 ** 25, ms: 1000 };
/** What may be asked from anywhere: whether it is up. */
const HEALTH: ReadonlySet<string> = new Set(['health', 'ready']);
/** How often connections are looked at for being too slow. */
const CHECK_MS = 1000;

export function makeApp(service: Service, options: AppOptions = {}): App {
  const limits = checkLimits(options.limits ?? {});
  const { tokens, tls, log = false, audit, cors, names = [] } = options;
  const metrics = new Metrics(VERSION);
  const guests = new Guests(limits, options.measure);
  const strangers = new Rates(limits.requestsPerSecond);
  const scans = new Scans(service, limits, metrics);
  const pages = new Pages({ cors, names: tokens ? undefined : names, tls: tls !== undefined });
  const connections = new Connections(limits.connections);
  let closing = false;

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
  const { server } = fastify;
  server.headersTimeout = 1000 * limits.headerSeconds;
  server.on('connection', (socket: Socket) => connections.arrived(socket));
  // Under TLS there are lines that are not yet anything more.
  server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => connections.add(socket));
  server.on('checkExpectation', ({ socket }, response: ServerResponse) => {
    if (strangers.take(socket.remoteAddress ?? '') > 0) return socket.destroy();
    const { body } = refusalOf(new HersError('INVALID_ARGUMENT', 'this expectation is not met here'));
    response.writeHead(417, { 'content-type': JSON_TYPE }).end(JSON.stringify(body));
  });

  // Whatever comes, before anything else sees it; also what no hook will see, because its path or its head is none.
  const watch = (request: IncomingMessage, response: ServerResponse) => {
    // One that breaks off may say so when nobody listens any more.
    request.on('error', () => {});
    const { socket } = request;
    // Nobody has to send the next request before the answer to the last; who does, and reads nothing, would have us keep all the answers.
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

  const registered: string[] = [];
  fastify.addHook('onRoute', ({ method, url }) => {
    registered.push(...[method].flat().map((each) => `${each} ${url}`));
  });
  fastify.removeAllContentTypeParsers();
  // Bodies are read by the handlers, as they come.
  fastify.addContentTypeParser(OCTETS, (_request, payload, done) => done(null, payload));
  for (const name of ['token', 'guest', 'call', 'refusal', 'untold']) fastify.decorateRequest(name, undefined);

  fastify.addHook('onRequest', async (request, reply) => {
    const began = performance.now();
    const { raw } = reply;
    const { socket } = request.raw;
    raw.once('close', () => {
      request.guest?.leave();
      trace(request, reply, (performance.now() - began) / 1000);
    });
    // A line that is gone already will not say so for this request.
    if (socket.destroyed) return reply.hijack();
    for (const [name, value] of Object.entries(securityHeaders(tls !== undefined))) reply.header(name, value);
    if (closing) reply.header('connection', 'close');
    const route = request.routeOptions.config.hers;
    const isHealth = HEALTH.has(route?.operation ?? '');
    /** Whoever has no place here and comes too often is not even answered. */
    const checkStranger = () => {
      if (isHealth || strangers.take(request.ip) === 0) return;
      request.untold = true;
      raw.destroy();
      throw new Overloaded('too many requests come from this address', 1);
    };
    try {
      if (!isHealth) pages.check(request);
    } catch (error) {
      checkStranger();
      throw error;
    }
    if (pages.answer(request, reply, route !== undefined)) return reply;
    if (closing && route?.needs !== 'open')
      throw new HersError('UNAVAILABLE', 'the server is going down; try again soon');
    if (request.is404 || route?.needs === 'open') return checkStranger();
    // A path that is not in the table has nobody to say who may use it.
    if (!route) throw new HersError('FORBIDDEN', 'this path is not for anybody');
    if (tokens) {
      request.token = await tokens.identify(request.headers.authorization).catch((error) => {
        checkStranger();
        throw error;
      });
      checkScope(request.token, route, (request.params as { name?: string }).name);
    }
    request.guest = guests.enter(request.token?.id ?? request.ip);
    // The client may have gone while the tokens were read.
    if (raw.destroyed || socket.destroyed) {
      request.guest.leave();
      return reply.hijack();
    }
    checkChange(request);
  });

  /** What a request leaves behind. */
  function trace(request: FastifyRequest, reply: FastifyReply, seconds: number): void {
    const route = request.routeOptions.config.hers;
    const finished = reply.raw.writableFinished;
    const status = finished ? reply.statusCode : 499; // the client went away first
    const operation = route?.operation ?? 'unknown';
    const code = request.refusal?.body.code ?? (finished ? undefined : 'BROKEN_OFF');
    const { call, token, ip: address } = request;
    metrics.request(operation, status, seconds);
    if (code) metrics.error(code);
    if (operation === 'search' && call?.receivedAt !== undefined) {
      const began = performance.now() - 1000 * seconds;
      metrics.phase('receive', (call.receivedAt - began) / 1000);
      if (call.answeredAt !== undefined) metrics.phase('send', (performance.now() - call.answeredAt) / 1000);
    }
    const named = call?.collection ?? (request.params as { name?: string } | undefined)?.name;
    // What is no name could be anything, a token that was put into the wrong place for one.
    const collection = named !== undefined && isCollectionName(named) ? named : undefined;
    const line = {
      operation,
      ...(collection === undefined ? {} : { collection }),
      ...(token ? { token: token.id } : {}),
      status,
      ...(code ? { code } : {}),
      ms: Math.round(10_000 * seconds) / 10,
    };
    if (route?.needs === 'open' || request.untold) request.log.debug(line, 'request');
    else request.log.info(line, 'request');
    if (!audit || route?.needs === 'open') return;
    const { ms: _, ...entry } = line;
    try {
      audit.write({ time: new Date().toISOString(), address, ...entry });
    } catch (error) {
      request.log.error({ err: error }, 'the audit log cannot be written');
    }
  }

  /** Notes why a request failed, for its traces. */
  function failed(request: FastifyRequest, error: unknown): Refusal {
    const refusal = refusalOf(error);
    request.refusal = refusal;
    if (refusal.unexpected) request.log.error({ err: error }, 'a mistake of this server');
    return refusal;
  }

  fastify.setNotFoundHandler(async () => {
    throw new HersError('NOT_FOUND', 'there is no such path; /docs lists those there are');
  });
  fastify.setErrorHandler(async (error, request, reply) => {
    const { status, body, retryAfter } = failed(request, error);
    if (hasBody(request) && !request.raw.readableEnded) {
      // Who is too slow would be too slow now as well.
      if (body.code !== 'TIMED_OUT' && !request.guest?.ending.signal.aborted)
        await drain(request.raw, DRAIN, (bytes) => guests.memory.litter(bytes));
      if (!request.raw.readableEnded) reply.header('connection', 'close');
    }
    if (retryAfter !== undefined) reply.header('retry-after', String(retryAfter));
    if (status === 401) reply.header('www-authenticate', 'Bearer');
    return reply.status(status).type(JSON_TYPE).send(JSON.stringify(body));
  });

  const routes: Route[] = [];
  const document = once(() => JSON.stringify(openApi(routes, VERSION)));
  const page = once(() => docsPage(routes, VERSION));
  const own: Route[] = [
    {
      method: 'GET',
      url: '/healthz',
      needs: 'open',
      operation: 'health',
      summary: 'Whether the process answers',
      gives: { kind: 'text', status: 200, type: 'text/plain', about: 'ok' },
      handle: async ({ reply }) => reply.type('text/plain').send('ok\n'),
    },
    {
      method: 'GET',
      url: '/readyz',
      needs: 'open',
      operation: 'ready',
      summary: 'Whether it takes requests: the gallery is open and it is not going down',
      gives: { kind: 'text', status: 200, type: 'text/plain', about: 'ready' },
      handle: async ({ reply }) => {
        if (closing) throw new HersError('UNAVAILABLE', 'the server is going down');
        // No collection has this name: an open gallery says so, and does nothing else.
        await service.getCollection('').catch((error) => {
          if (!(error instanceof HersError && error.code === 'NOT_FOUND')) throw error;
        });
        return reply.type('text/plain').send('ready\n');
      },
    },
    {
      method: 'GET',
      url: '/metrics',
      needs: 'search',
      whole: true,
      operation: 'metrics',
      summary: 'Numbers for Prometheus',
      gives: { kind: 'text', status: 200, type: 'text/plain', about: 'Prometheus text format 0.0.4' },
      handle: async ({ reply }) =>
        reply.type('text/plain; version=0.0.4; charset=utf-8').send(
          metrics.text({
            scansRunning: () => scans.running,
            scansWaiting: () => scans.waiting,
            requestsRunning: () => connections.requests,
            connections: () => connections.size,
            held: () => guests.memory.held,
          }),
        ),
    },
    {
      method: 'GET',
      url: '/openapi.json',
      needs: 'open',
      operation: 'openapi',
      summary: 'These paths, for programs',
      gives: { kind: 'text', status: 200, type: 'application/json', about: 'OpenAPI 3.1' },
      handle: async ({ reply }) => reply.type(JSON_TYPE).send(document()),
    },
    {
      method: 'GET',
      url: '/docs',
      needs: 'open',
      operation: 'docs',
      summary: 'These paths, for people',
      gives: { kind: 'text', status: 200, type: 'text/html', about: 'a page' },
      handle: async ({ reply }) => {
        reply.header('content-security-policy', `default-src 'none'; style-src ${STYLE_HASH}; frame-ancestors 'none'`);
        return reply.type('text/html; charset=utf-8').send(page());
      },
    },
  ];
  routes.push(...serviceRoutes(service, scans, VERSION), ...own);
  for (const route of routes) {
    const { method, url, params, gives } = route;
    fastify.route({
      method,
      url,
      config: { hers: route },
      schema: {
        ...(params ? { params } : {}),
        ...(gives.kind === 'json' ? { response: { [gives.status]: gives.body } } : {}),
      },
      handler: async (request, reply) => {
        const { raw } = reply;
        // What needs no token is nobody's.
        const guest = request.guest ?? new Guest(request.ip, guests.memory);
        const { ending } = guest;
        const gone = () => ending.abort(new HersError('UNAVAILABLE', 'the client is gone'));
        const late = () =>
          ending.abort(
            new HersError('TIMED_OUT', `this took longer than ${limits.requestSeconds} s, which is allowed here`),
          );
        const timer = route.endless ? undefined : setTimeout(late, 1000 * limits.requestSeconds);
        raw.once('close', () => {
          clearTimeout(timer);
          gone();
        });
        if (raw.destroyed) gone();
        // An answer that is on its way as a whole ends with its line.
        ending.signal.addEventListener('abort', () => {
          if (raw.headersSent && !request.call?.streams) raw.destroy();
        });
        const encoding = request.headers['content-encoding'] ?? 'identity';
        if (route.takes && encoding !== 'identity')
          throw new HersError('INVALID_ARGUMENT', 'bodies are taken as they are: ciphertexts do not get smaller');
        request.call = new Call(request, reply, guest, {
          limits,
          traffic: metrics,
          onFailure: (error) => failed(request, error),
        });
        if (route.heavy) guests.load(guest);
        reply.status(gives.status);
        const result = await route.handle(request.call);
        return gives.kind === 'nothing' ? reply.send() : result;
      },
    });
  }

  let closed: Promise<void> | undefined;
  const close = (graceSeconds = limits.graceSeconds) => {
    closed ??= (async () => {
      closing = true;
      fastify.log.info('going down');
      const ended = fastify.close();
      await connections.drain(1000 * graceSeconds);
      await ended;
      guests.memory.close();
      fastify.log.info('down');
      audit?.close();
    })();
    return closed;
  };
  return { fastify, routes, registered, limits, close };
}

function checkScope(token: Token, route: Route, name: string | undefined): void {
  if (!allows(token.scope, route.needs as Token['scope']))
    throw new HersError('FORBIDDEN', `this needs a token of scope ${route.needs}, and this one has ${token.scope}`);
  if (token.collection === undefined) return;
  if (route.whole) throw new HersError('FORBIDDEN', 'this is not for a token of one collection');
  if (name !== undefined && name !== token.collection)
    throw new HersError('FORBIDDEN', 'this token is for another collection');
}

/** The same again and again, made when it is first wanted. */
function once(make: () => string): () => string {
  let made: string | undefined;
  return () => (made ??= make());
}

const hasBody = ({ headers }: FastifyRequest) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

function securityHeaders(tls: boolean): Record<string, string> {
  return {
    'cache-control': 'no-store',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    ...(tls ? { 'strict-transport-security': 'max-age=31536000' } : {}),
  };
}
