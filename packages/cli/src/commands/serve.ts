// `hers serve`: the gallery of this folder for other machines, and for pages.

import { existsSync } from 'node:fs';
import type { LimitName, LogLevel, Site } from '@hers/server';
import { LIMITS } from '@hers/server/limits';
import { Option } from 'commander';
import { type HersCommand, numberOption } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError, EXIT } from '../exit.ts';
import { isServer, openFolder } from '../gallery.ts';

interface ServeFlags {
  readonly host: string;
  readonly port: number;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly auditLog?: string;
  readonly cors?: readonly string[];
  readonly allowHost?: readonly string[];
  readonly allowPlaintext?: boolean;
  readonly allowAnyone?: boolean;
  readonly console?: boolean;
  readonly logLevel: LogLevel;
}

const LEVELS: readonly LogLevel[] = ['error', 'warn', 'info', 'debug', 'silent'];

/** `requestSeconds` is `--max-request-seconds`. */
const flagOf = (name: string) => `--max-${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
const keyOf = (name: string) => `max${name.replace(/^./, (letter) => letter.toUpperCase())}`;

export function addServe(program: HersCommand, context: () => Context): void {
  const serve = program
    .command('serve')
    .summary('serve the gallery over HTTP')
    .description(
      'Serves the gallery to SDKs, browsers and other `hers` commands: connect("https://host:7443", {key, token}) or --gallery https://host:7443. It needs no key, and none ever reaches it. On 127.0.0.1 it serves this machine alone; any other address requires TLS and tokens. If the file of --tokens exists, tokens are always required. Log lines go to standard error as JSON. On Ctrl-C or SIGTERM, running requests finish first.',
    )
    .option('--host <address>', 'where to listen; 0.0.0.0 for everywhere', '127.0.0.1')
    .option('--port <number>', 'the port; 0 for any that is free', portOption, 7443)
    .option('--tls-cert <file>', 'the certificate and its chain, PEM; read again when it changes')
    .option('--tls-key <file>', 'the private key of the certificate, PEM')
    .option('--audit-log <file>', 'write who did what to which collection to this file')
    .option(
      '--cors <origins...>',
      'origins whose pages may connect, such as https://app.example, or *; none by default',
    )
    .option(
      '--allow-host <names...>',
      'without tokens: further host names to answer to, such as gallery.example, besides those it listens on',
    )
    .option('--allow-plaintext', 'serve other machines without TLS, because a proxy in front of this server has it')
    .option('--allow-anyone', 'serve other machines without tokens: whoever reaches it may delete everything')
    .option('--console', 'also serve the console, a page for people, at /console/')
    .addOption(new Option('--log-level <level>', 'what is logged').choices(LEVELS as string[]).default('info'));
  for (const [name, limit] of Object.entries(LIMITS))
    serve.option(
      `${flagOf(name)} <number>`,
      `at most so many ${limit.description}`,
      numberOption(flagOf(name)),
      limit.default,
    );
  serve
    .example('hers serve', 'For this machine alone')
    .example(
      'hers serve --host 0.0.0.0 --tls-cert server.crt --tls-key server.key --tokens server-tokens.json',
      'For everybody who has a token',
    )
    .example(
      'hers serve --cors https://app.example --audit-log audit.jsonl',
      'For pages of one origin, with an audit log',
    )
    .example('hers serve --console', 'With a page for people; docs/console.md says more')
    .action((flags: ServeFlags & Record<string, unknown>) => run(context(), flags));
}

function portOption(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port <= 65535) return port;
  throw new CommandError(EXIT.usage, `--port takes a number from 0 to 65535, not ${JSON.stringify(text)}`);
}

/** The console as a server gives it away. */
async function consoleSite(): Promise<Site> {
  const { BASE, PAGE_HEADERS, readPage, serverSession } = await import('@hers/console');
  return { base: BASE, headers: PAGE_HEADERS, files: [...(await readPage()), serverSession()] };
}

async function run(context: Context, flags: ServeFlags & Record<string, unknown>): Promise<void> {
  const { out, settings, signal, environment } = context;
  const folder = settings.value('gallery');
  if (isServer(folder))
    throw new CommandError(EXIT.usage, `${folder} is a server already`, 'name a folder with --gallery');
  const {
    host,
    port,
    tlsCert,
    tlsKey,
    auditLog,
    cors,
    allowHost,
    allowPlaintext = false,
    allowAnyone = false,
    console: withConsole = false,
    logLevel,
  } = flags;
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw new CommandError(
      EXIT.usage,
      'a certificate and its private key go together',
      'give --tls-cert and --tls-key',
    );
  // A token file that was named must be there; the default one counts where it exists.
  const named = settings.get('tokens')!;
  const tokens = named.origin !== 'default' || existsSync(named.value) ? named.value : undefined;
  const limits = Object.fromEntries(Object.keys(LIMITS).map((name) => [name, flags[keyOf(name)] as number])) as Record<
    LimitName,
    number
  >;
  const { stderr } = environment;
  const { keepProcessSmall, startServer } = await import('@hers/server');
  keepProcessSmall();
  const site = withConsole ? await consoleSite() : undefined;
  const store = await openFolder(settings, out);
  const server = await startServer(store, {
    host,
    port,
    limits,
    allowPlaintext,
    allowAnyone,
    ...(tlsCert !== undefined && tlsKey !== undefined
      ? { tls: { cert: context.path(tlsCert), key: context.path(tlsKey) } }
      : {}),
    ...(tokens === undefined ? {} : { tokens }),
    ...(auditLog === undefined ? {} : { audit: context.path(auditLog) }),
    ...(cors ? { cors: cors.includes('*') ? '*' : cors } : {}),
    ...(allowHost ? { allowHosts: allowHost } : {}),
    ...(site ? { site } : {}),
    log: { level: logLevel, stream: { write: (line: string) => void stderr.write(line) } },
  }).catch(async (error) => {
    await store.close();
    throw error;
  });
  try {
    if (out.json) out.object({ url: server.url, gallery: folder, tokens: tokens ?? null });
    else
      out.facts([
        ['serving', folder],
        ['at', server.url],
        ...(site ? [['console', server.url + site.base] as const] : []),
        ['tokens', tokens ?? 'none: whoever reaches it may do everything'],
      ]);
    if (!signal.aborted)
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  } finally {
    await server.close();
  }
}
