// The server: fastify around a Service.

import { OCTETS, type Service } from '@hers/service';
import type { FolderStore } from '@hers/store';
import type { ShardCalls } from '@hers/store/stages';
import type { FastifyInstance } from 'fastify';
import { type AdminTools, adminRoutes } from './admin-routes.ts';
import type { Audit } from './audit.ts';
import { Connections } from './connections.ts';
import { VERSION } from './docs.ts';
import { Guests, type Measure, Rates } from './guests.ts';
import { addHooks, addRoute } from './hooks.ts';
import { checkLimits, type Limits } from './limits.ts';
import { type DeviceGauges, Metrics } from './metrics.ts';
import { type CorsOrigins, Pages, type Site, siteRoutes } from './pages.ts';
import type { Parts } from './parts.ts';
import { type Route, routesOf } from './routes.ts';
import { Scans } from './scans.ts';
import { shardRoutes } from './shard-routes.ts';
import type { TlsOptions } from './tls.ts';
import type { TokenCheck } from './tokens.ts';
import { type LogOptions, makeTransport } from './transport.ts';

export interface AppOptions {
  readonly limits?: Partial<Limits>;
  /** Absent: everybody may do everything. */
  readonly tokens?: TokenCheck;
  readonly tls?: TlsOptions;
  /** Pages of which origins may ask; none by default. */
  readonly cors?: CorsOrigins;
  /**
   * Where there are no tokens: the names that it answers to, besides the addresses it listens on.
   */
  readonly names?: readonly string[];
  /** False: no log. */
  readonly log?: LogOptions | false;
  readonly audit?: Audit;
  /** Pages that it gives to anybody: the console. */
  readonly site?: Site;
  /**
   * What the nodes of a cluster ask of each other; for the port that is for nodes.
   *
   * @internal
   */
  readonly shards?: ShardCalls;
  /** What the GPU that scans holds, for /metrics; asked whenever somebody reads them. */
  readonly device?: () => DeviceGauges | undefined;
  /** What the server can be asked about itself. */
  readonly admin?: AdminTools;
}

export interface App {
  readonly fastify: FastifyInstance;
  /** What there is, and what the router really has: tests compare the two. */
  readonly routes: readonly Route[];
  readonly registered: readonly string[];
  readonly limits: Limits;
  /**
   * Finishes what is under way, for so long at most, refuses what is new, closes. The Service stays
   * open.
   */
  close(graceSeconds?: number): Promise<void>;
}

/** `measure` says what the process has in memory: tests share it with their clients. */
export function makeApp(service: Service, options: AppOptions = {}, measure?: Measure): App {
  const limits = checkLimits(options.limits ?? {});
  const {
    tokens,
    tls,
    log = false,
    audit,
    cors,
    names = [],
    site,
    shards,
    admin = {},
    device = () => undefined,
  } = options;
  const hasTls = tls !== undefined;
  const metrics = new Metrics(VERSION);
  const guests = new Guests(limits, measure);
  // A folder says what it holds besides.
  (service as Partial<FolderStore>).onEvaluationKeys?.((bytes) => guests.memory.keep(bytes));
  const parts: Parts = {
    limits,
    metrics,
    guests,
    strangers: new Rates(limits.requestsPerSecond),
    scans: new Scans(service, limits, metrics, () => guests.memory.started()),
    pages: new Pages({ cors, names: tokens ? undefined : names, tls: hasTls }),
    connections: new Connections(limits.connections),
    hasTls,
    tokens,
    audit,
    device,
    closing: false,
  };
  const fastify = makeTransport(parts, tls, log);
  const registered: string[] = [];
  fastify.addHook('onRoute', ({ method, url }) => {
    registered.push(...[method].flat().map((each) => `${each} ${url}`));
  });
  fastify.removeAllContentTypeParsers();
  // Bodies are read by the handlers, as they come.
  fastify.addContentTypeParser(OCTETS, (_request, payload, done) => done(null, payload));
  addHooks(fastify, parts);
  const routes = [
    ...routesOf(service, parts),
    ...adminRoutes(admin, parts),
    ...(site ? siteRoutes(site) : []),
    ...(shards ? shardRoutes(shards) : []),
  ];
  for (const route of routes) addRoute(fastify, route, parts);

  let closed: Promise<void> | undefined;
  const close = async (graceSeconds: number) => {
    parts.closing = true;
    fastify.log.info('going down');
    const ended = fastify.close();
    await parts.connections.drain(1000 * graceSeconds);
    await ended;
    parts.guests.memory.close();
    fastify.log.info('down');
    audit?.close();
  };
  return {
    fastify,
    routes,
    registered,
    limits,
    close: (graceSeconds = limits.graceSeconds) => (closed ??= close(graceSeconds)),
  };
}
