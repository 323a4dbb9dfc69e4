// Every request passes the same gates in the same order: is the server going down, may this page
// ask, whose token is it, what may it do, is there room; and leaves the same traces: a line in the
// log, a line in the audit log, the metrics.

import { HersError, isCollectionName } from '@hers/service';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { drain } from './body.ts';
import { Call } from './call.ts';
import { JSON_TYPE, Overloaded, type Refusal, refusalOf } from './errors.ts';
import { Guest } from './guests.ts';
import { checkChange, isPreflight } from './pages.ts';
import type { Parts } from './parts.ts';
import type { Route } from './routes.ts';
import { allows, type Token } from './tokens.ts';

/** What is still read from the socket when a request is refused in the middle of its body. */
const DRAIN = { bytes: 2 ** 25, ms: 1000 };
/** What may be asked from anywhere: whether it is up. */
const HEALTH: ReadonlySet<string> = new Set(['health', 'ready']);

export function addHooks(fastify: FastifyInstance, parts: Parts): void {
  for (const name of ['token', 'guest', 'call', 'refusal', 'untold']) fastify.decorateRequest(name, undefined);
  fastify.addHook('onRequest', async (request, reply) => {
    const began = performance.now();
    reply.raw.once('close', () => {
      request.guest?.leave();
      trace(parts, request, reply, (performance.now() - began) / 1000);
    });
    return admit(parts, request, reply);
  });
  fastify.setNotFoundHandler(async () => {
    throw new HersError('NOT_FOUND', 'there is no such path; /docs lists those there are');
  });
  fastify.setErrorHandler(async (error, request, reply) => {
    const { status, body, retryAfter } = failed(request, error);
    if (hasBody(request) && !request.raw.readableEnded) {
      // Who is too slow would be too slow now as well.
      if (body.code !== 'TIMED_OUT' && !request.guest?.ending.signal.aborted)
        await drain(request.raw, DRAIN, (bytes) => parts.guests.memory.litter(bytes));
      if (!request.raw.readableEnded) reply.header('connection', 'close');
    }
    if (retryAfter !== undefined) reply.header('retry-after', String(retryAfter));
    if (status === 401) reply.header('www-authenticate', 'Bearer');
    return reply.status(status).type(JSON_TYPE).send(JSON.stringify(body));
  });
}

async function admit(parts: Parts, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { closing, guests, hasTls, pages, strangers, tokens } = parts;
  const { raw } = reply;
  const { socket } = request.raw;
  // A connection that is gone already will not say so for this request.
  if (socket.destroyed) return reply.hijack();
  for (const [name, value] of Object.entries(securityHeaders(hasTls))) reply.header(name, value);
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
}

function trace({ metrics, audit }: Parts, request: FastifyRequest, reply: FastifyReply, seconds: number): void {
  const route = request.routeOptions.config.hers;
  const finished = reply.raw.writableFinished;
  const status = finished ? reply.statusCode : 499; // the client went away first
  const operation = route?.operation ?? (isPreflight(request) ? 'preflight' : 'unknown');
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
export function failed(request: FastifyRequest, error: unknown): Refusal {
  const refusal = refusalOf(error);
  request.refusal = refusal;
  if (refusal.unexpected) request.log.error({ err: error }, 'a bug in this server');
  return refusal;
}

function checkScope(token: Token, route: Route, name: string | undefined): void {
  if (!allows(token.scope, route.needs as Token['scope']))
    throw new HersError('FORBIDDEN', `this needs a token of scope ${route.needs}, and this one has ${token.scope}`);
  if (token.partitions && route.everything)
    throw new HersError('FORBIDDEN', 'this is not for a token that is limited to partitions');
  if (token.collection === undefined) return;
  if (route.whole) throw new HersError('FORBIDDEN', 'this is not for a token of one collection');
  if (name !== undefined && name !== token.collection)
    throw new HersError('FORBIDDEN', 'this token is for another collection');
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

/** Has fastify run a route of the table, with a signal that ends it and a Call for its handler. */
export function addRoute(fastify: FastifyInstance, route: Route, parts: Parts): void {
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
      // What needs no token is nobody's.
      const guest = request.guest ?? new Guest(request.ip, parts.guests.memory);
      endWith(request, reply, guest, route.endless ? undefined : parts.limits.requestSeconds);
      const encoding = request.headers['content-encoding'] ?? 'identity';
      if (route.takes && encoding !== 'identity')
        throw new HersError('INVALID_ARGUMENT', 'bodies are taken as they are: ciphertexts do not get smaller');
      request.call = new Call(request, reply, guest, {
        limits: parts.limits,
        traffic: parts.metrics,
        courtesy: () => parts.scans.courtesy(),
        onFailure: (error) => failed(request, error),
      });
      if (route.heavy) parts.guests.load(guest);
      reply.status(gives.status);
      const result = await route.handle(request.call);
      return gives.kind === 'nothing' ? reply.send() : result;
    },
  });
}

/** Ends a request when its client is gone, or when it has taken so long. */
function endWith(request: FastifyRequest, { raw }: FastifyReply, { ending }: Guest, seconds: number | undefined): void {
  const gone = () => ending.abort(new HersError('UNAVAILABLE', 'the client is gone'));
  const late = () =>
    ending.abort(new HersError('TIMED_OUT', `this took longer than ${seconds} s, which is allowed here`));
  const timer = seconds === undefined ? undefined : setTimeout(late, 1000 * seconds);
  raw.once('close', () => {
    clearTimeout(timer);
    if (!raw.writableFinished) gone();
  });
  if (raw.destroyed) gone();
  // An answer that is on its way as a whole ends with its connection.
  ending.signal.addEventListener('abort', () => {
    if (raw.headersSent && !request.call?.streams) raw.destroy();
  });
}
