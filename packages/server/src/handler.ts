// A route of the table as fastify runs it: with a signal that ends it, and a Call for its handler.

import { HersError } from '@hers/service';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Call } from './call.ts';
import { Guest } from './guests.ts';
import { failed } from './hooks.ts';
import type { Parts } from './parts.ts';
import type { Route } from './routes.ts';

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
    gone();
  });
  if (raw.destroyed) gone();
  // An answer that is on its way as a whole ends with its connection.
  ending.signal.addEventListener('abort', () => {
    if (raw.headersSent && !request.call?.streams) raw.destroy();
  });
}
