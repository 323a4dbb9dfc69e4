// A server that listens: refuses to be careless with what it serves, and goes down in order.

import { isIP } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import { HersError, isLoopback, type OptionNames, refuseUnknown, type Service } from '@hers/service';
import type { AdminOptions } from './admin-routes.ts';
import { type AppOptions, makeApp } from './app.ts';
import { openAudit } from './audit.ts';
import type { Measure } from './guests.ts';
import { readTls, type TlsFiles, watchTls } from './tls.ts';
import { TokenCheck, TokenStore } from './tokens.ts';

/** How a store is served. */
export interface ServeOptions extends Omit<AppOptions, 'tokens' | 'tls' | 'audit' | 'names' | 'admin'> {
  /** 127.0.0.1 by default: this machine alone. */
  readonly host?: string;
  /** 7443 by default; 0 for any. */
  readonly port?: number;
  /** Without them it speaks plain HTTP. */
  readonly tls?: TlsFiles;
  /** The token file. */
  readonly tokens?: string;
  /** Where the audit log goes. */
  readonly audit?: string;
  /** Serve other machines without TLS, because something in front of this server has it. */
  readonly allowPlaintext?: boolean;
  /** Without tokens: other names and addresses that it answers to, besides those it listens on. */
  readonly allowHosts?: readonly string[];
  /** Serve without tokens: whoever reaches the server may read, write and delete everything. */
  readonly allowAnyone?: boolean;
  /** What whoever has a token of scope admin can ask of the server itself. */
  readonly admin?: AdminOptions;
  /** How often the certificate is looked at. */
  readonly tlsEveryMs?: number;
}

const OPTIONS: OptionNames<ServeOptions> = {
  limits: true,
  cors: true,
  log: true,
  site: true,
  shards: true,
  device: true,
  host: true,
  port: true,
  tls: true,
  tokens: true,
  audit: true,
  admin: true,
  allowPlaintext: true,
  allowHosts: true,
  allowAnyone: true,
  tlsEveryMs: true,
};

/** A server that takes requests. */
export interface RunningServer {
  /** Where it listens. */
  readonly url: string;
  /**
   * Running requests finish, new ones are refused; then the service is closed. All within the
   * grace: what has not ended by then is left behind, and logged.
   */
  close(): Promise<void>;
}

const DEFAULT_PORT = 7443;
/**
 * The part of the grace that requests get; the rest is for closing the folder, a second at least.
 */
const FOR_REQUESTS = 0.9;
const MIN_CLOSING_MS = 1000;

/** Whether it stands for every address of this machine. */
const isWildcard = (host: string) => host === '' || /^(0\.0\.0\.0|::|::0|0:0:0:0:0:0:0:0)$/.test(host);

/**
 * INVALID_ARGUMENT, in words that say why, when something is missing that strangers would profit
 * from.
 */
function requireTlsAndTokens({ host = '127.0.0.1', tls, tokens, allowPlaintext, allowAnyone }: ServeOptions): void {
  if (isLoopback(host)) return;
  if (!tls && !allowPlaintext)
    throw new HersError(
      'INVALID_ARGUMENT',
      `${host} can be reached from other machines, and without TLS everybody on the way could read the tokens and alter what is sent. Give --tls-cert and --tls-key, listen on 127.0.0.1, or, if something in front of this server has TLS, say --allow-plaintext`,
    );
  if (!tokens && !allowAnyone)
    throw new HersError(
      'INVALID_ARGUMENT',
      `${host} can be reached from other machines, and without tokens whoever reaches it could delete everything. Make one with \`hers tokens create\` and give its file with --tokens, listen on 127.0.0.1, or say --allow-anyone`,
    );
}

/**
 * Serves a Service.
 *
 * @param service - What is served, a folder for example. The server closes it when it ends.
 * @param options - Where it listens, who may use it, and its limits.
 * @throws {HersError} INVALID_ARGUMENT: for an option that there is not or a limit that cannot be;
 *   where it would serve other machines without TLS or tokens, there is no token, or it cannot
 *   listen there.
 * @throws {HersError} DAMAGED: for a token file that cannot be understood.
 * @example
 * const store = await openStore('./gallery');
 * const server = await startServer(store, { tokens: './tokens.json' });
 */
export function startServer(service: Service, options: ServeOptions = {}): Promise<RunningServer> {
  return serve(service, options);
}

/** The same; tests say what the process has in memory, because they share it with their clients. */
export async function serve(service: Service, options: ServeOptions, measure?: Measure): Promise<RunningServer> {
  refuseUnknown(options, OPTIONS, 'a server');
  requireTlsAndTokens(options);
  const { host = '127.0.0.1', port = DEFAULT_PORT, tls, tokens: tokenFile, audit, tlsEveryMs, ...rest } = options;
  const { allowPlaintext: _, allowAnyone: __, allowHosts = [], admin = {}, ...appOptions } = rest;
  refuseUnknown(admin, { tokens: true, doctor: true, cluster: true }, 'what an admin may ask');
  const { tokens: managesTokens = false, ...asked } = admin;
  const tokens = tokenFile === undefined ? undefined : new TokenCheck(tokenFile);
  if (tokens && (await tokens.count()) === 0)
    throw new HersError(
      'INVALID_ARGUMENT',
      `there is no token in ${tokenFile}, so nobody could use this server; make one with \`hers tokens create\``,
    );
  const app = makeApp(
    service,
    {
      ...appOptions,
      names: [...(isWildcard(host) ? [] : [host]), ...allowHosts],
      admin: { ...asked, ...(managesTokens && tokenFile !== undefined ? { tokens: new TokenStore(tokenFile) } : {}) },
      ...(tokens ? { tokens } : {}),
      ...(tls ? { tls: readTls(tls) } : {}),
      ...(audit === undefined ? {} : { audit: openAudit(audit, { limitStrangers: tokens !== undefined }) }),
    },
    measure,
  );
  const { fastify } = app;
  try {
    await fastify.listen({ host, port, listenTextResolver: (address) => `listening at ${address}` });
  } catch (error) {
    await app.close();
    throw listenError(error, host, port);
  }
  const unwatch = tls
    ? watchTls(tls, fastify.server as unknown as TlsServer, {
        onChange: () => fastify.log.info('the certificate was replaced'),
        onBackgroundError: (error) =>
          fastify.log.error({ err: error }, 'the new certificate cannot be used; the old one stays'),
        ...(tlsEveryMs === undefined ? {} : { everyMs: tlsEveryMs }),
      })
    : () => {};
  const address = fastify.server.address() as { port: number };
  const shown = isIP(host) === 6 ? `[${host}]` : host;
  return {
    url: `${tls ? 'https' : 'http'}://${shown}:${address.port}`,
    async close() {
      unwatch();
      const graceMs = 1000 * app.limits.graceSeconds;
      const until = performance.now() + Math.max(graceMs, MIN_CLOSING_MS);
      await app.close((FOR_REQUESTS * graceMs) / 1000);
      if (!(await endsWithin(service.close(), until - performance.now())))
        fastify.log.error('something did not end in time, and is left behind; what was acknowledged is on disk');
    },
  };
}

/** Whether it is over after so long at most; what goes wrong with it counts. */
async function endsWithin(work: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, ms), false);
  });
  const done = work.then(() => true);
  // Nobody hears of it later.
  done.catch(() => {});
  return Promise.race([done, late]).finally(() => clearTimeout(timer));
}

function listenError(error: unknown, host: string, port: number): unknown {
  const { code } = error as NodeJS.ErrnoException;
  const why: Record<string, string> = {
    EADDRINUSE: 'something else listens there already',
    EACCES: 'this user may not listen there; ports below 1024 need permission',
    EADDRNOTAVAIL: 'this machine has no such address',
    ENOTFOUND: 'there is no such host',
  };
  const reason = code === undefined ? undefined : why[code];
  return reason ? new HersError('INVALID_ARGUMENT', `cannot listen on ${host}:${port}: ${reason}`) : error;
}
