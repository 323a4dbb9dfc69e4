// `hers serve`: the gallery of this folder for other machines, and for pages.

import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NodeCertificate } from '@hers/cluster';
import type { Kernel } from '@hers/scan';
import type { AdminOptions, LimitName, LogLevel, ServerFinding, Site } from '@hers/server';
import { LIMITS } from '@hers/server/limits';
import type { Service } from '@hers/service';
import type { FolderStore, InboxLimits } from '@hers/store';
import { given, type HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { usageError } from '../exit.ts';
import { isServer, kernelOpener, openFolder } from '../gallery.ts';
import { linksTo, readNodeToken, trustAuthority } from './cluster.ts';

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
  readonly cluster?: string;
  readonly clusterFiles?: string;
  readonly copyRate?: number;
  readonly node?: string;
  readonly nodeHost?: string;
  readonly nodePort?: number;
  readonly nodeUrl?: string;
  readonly nodeTokens?: string;
  readonly nodeTokenFile?: string;
  readonly replicas?: number;
  readonly shards?: number;
  readonly ledgerReplicas?: number;
}

const LEVELS: readonly LogLevel[] = ['error', 'warn', 'info', 'debug', 'silent'];

/** What each device may leave in the inbox of a collection (docs/devices.md), by flag. */
const INBOX_FLAGS = {
  items: 'items that each device may have in the inbox of a collection; 1000 by default, and 64 times that of all',
  bytes: 'bytes that each device may have there; 33554432 by default, and 64 times that of all',
  age: 'seconds after which an item is removed from there; 604800, seven days, by default. A keeper answers nothing older than eight days',
} as const;

/** The limits of inboxes that were given. */
function inboxOf(flags: Record<string, unknown>): InboxLimits | undefined {
  const given = Object.keys(INBOX_FLAGS).flatMap((name) => {
    const value = flags[`inbox${name.replace(/^./, (letter) => letter.toUpperCase())}`];
    return value === undefined ? [] : [[name, value]];
  });
  return given.length > 0 ? Object.fromEntries(given) : undefined;
}

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
    .number('--port <number>', 'the port; 0 for any that is free', 'port', 7443)
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
    .option('--cluster <servers>', 'be a node of a cluster: where NATS is, nats://a:4222,b:4222,c:4222')
    .option(
      '--cluster-files <folder>',
      'be a node of a cluster: the folder of this machine that `hers cluster init` made, with all that --cluster, --tls-cert, --tls-key and the token of nodes would say',
    )
    .number(
      '--copy-rate <megabytes>',
      'with --cluster: shards are copied to this node at so many megabytes a second at most; 64 by default',
    )
    .option('--node <name>', 'with --cluster: the name of this node, which it keeps for good')
    .option('--node-host <address>', 'with --cluster: where to listen for other nodes; 127.0.0.1 by default')
    .number('--node-port <number>', 'with --cluster: the port for other nodes; 7444 by default', 'port')
    .option('--node-url <address>', 'with --cluster: where other nodes reach this one, if not where it listens')
    .option('--node-tokens <file>', 'with --cluster: the token file that knows the token of nodes')
    .option('--node-token-file <file>', 'with --cluster: the token of nodes itself, the same on all of them')
    .number(
      '--replicas <number>',
      'with --cluster: nodes that keep each shard of a new collection; 3 by default. With 2, changes stop when one of them is gone',
    )
    .number('--shards <number>', 'with --cluster: shards of a new collection; 16 by default')
    .number('--ledger-replicas <number>', 'with --cluster: servers of NATS that keep the ledger; 3 by default')
    .option('--console', 'also serve the console, a page for people, at /console/; admin tokens may then make tokens')
    .choice('--log-level <level>', 'what is logged', LEVELS, 'info');
  for (const [name, limit] of Object.entries(LIMITS))
    serve.number(`${flagOf(name)} <number>`, `at most so many ${limit.description}`, 'any', limit.default);
  for (const [name, about] of Object.entries(INBOX_FLAGS)) serve.number(`--inbox-${name} <number>`, about, 'whole');
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
    .example(
      'hers serve --cluster nats://a,b,c --node n1 --node-tokens node-tokens.json --node-token-file node.token',
      'As one of several machines that keep a gallery together; docs/cluster.md says more',
    )
    .example('hers serve --console', 'With a page for people; docs/console.md says more')
    .action((flags: ServeFlags & Record<string, unknown>) => run(context(), flags));
}

/** The console as a server gives it away. */
async function consoleSite(): Promise<Site> {
  const { BASE, PAGE_HEADERS, readPage, serverFiles } = await import('@hers/console');
  return { base: BASE, headers: PAGE_HEADERS, files: [...(await readPage()), ...serverFiles()] };
}

/** What is served, and what can be asked about it. */
interface Opened extends Pick<AdminOptions, 'cluster'> {
  readonly store: Service;
  readonly folder?: FolderStore;
}

/** Loaded when somebody asks: it measures the machine. */
export async function doctorOf(path: string, folder: FolderStore): Promise<readonly ServerFinding[]> {
  const { examine } = await import('../gallery-checks.ts');
  return examine(path, folder);
}

/** What a node needs of files. */
interface NodeFiles {
  readonly servers: string;
  readonly tls: { readonly cert: string; readonly key: string } | undefined;
  readonly token?: string;
  readonly tokens?: string;
  readonly natsTls?: { readonly ca: string; readonly cert: string; readonly key: string };
  readonly certificate?: NodeCertificate;
}

/** As flags name them, or as `hers cluster init` made them. */
async function nodeFiles(context: Context, { cluster, clusterFiles }: ServeFlags, given: NodeFiles['tls']) {
  if (clusterFiles === undefined) return cluster === undefined ? undefined : { servers: cluster, tls: given };
  const { CLUSTER_FILES } = await import('@hers/cluster');
  const at = (name: keyof typeof CLUSTER_FILES) => join(context.path(clusterFiles), CLUSTER_FILES[name]);
  const read = async (name: keyof typeof CLUSTER_FILES) => (await readFile(at(name), 'utf8')).trim();
  await trustAuthority(at('authority'));
  return {
    servers: cluster ?? (await read('servers')),
    tls: given ?? { cert: at('certificate'), key: at('privateKey') },
    token: at('token'),
    tokens: at('tokens'),
    natsTls: { ca: await read('authority'), cert: await read('certificate'), key: await read('privateKey') },
    certificate: { authority: at('authority'), cert: at('certificate'), key: at('privateKey') },
  };
}

/** This machine as a node of a cluster. */
async function openNode(
  context: Context,
  flags: ServeFlags,
  files: NodeFiles,
  { onKernel, inbox }: { readonly onKernel: (kernel: Kernel) => void; readonly inbox?: InboxLimits },
): Promise<Pick<Opened, 'store' | 'cluster'>> {
  const { out, settings } = context;
  const { node, nodeHost, nodePort, nodeUrl, nodeTokens, nodeTokenFile, allowPlaintext, copyRate } = flags;
  const { tls, natsTls, certificate } = files;
  if (node === undefined) throw usageError('a node needs a name that it keeps', 'give --node, such as --node n1');
  const [{ clusterStatus, startNode }, openKernel] = await Promise.all([
    import('@hers/cluster'),
    kernelOpener(settings, (message) => out.detail(message)),
  ]);
  const token = await readNodeToken(context, nodeTokenFile ?? files.token);
  const tokens = nodeTokens ?? files.tokens;
  const { service, url } = await startNode(settings.value('gallery'), {
    node,
    servers: natsServers(files.servers),
    ...(copyRate === undefined ? {} : { tending: { copyBytesPerSecond: 1e6 * copyRate } }),
    ...(tokens === undefined ? {} : { tokens: context.path(tokens) }),
    ...given({ host: nodeHost, port: nodePort, url: nodeUrl, token, tls, natsTls, certificate, allowPlaintext }),
    ...given({ replicas: flags.replicas, shards: flags.shards, ledgerReplicas: flags.ledgerReplicas }),
    store: {
      ...given({ inbox }),
      kernel: async () => {
        const { kernel } = await openKernel();
        onKernel(kernel);
        return kernel;
      },
    },
    onBackgroundError: (error) => out.note(`warning: ${(error as Error).message}`),
  });
  out.note(`Node ${node} listens for other nodes at ${url}.`);
  const links = await linksTo(token, allowPlaintext, certificate);
  return { store: service, cluster: () => clusterStatus(url, links) };
}

/** `nats://a:4222,b:4222` names two servers. */
function natsServers(text: string): string[] {
  const [, scheme = 'nats', rest = ''] = /^(?:(nats|tls):\/\/)?(.+)$/.exec(text) ?? [];
  const servers = rest.split(',').map((each) => (/^\w+:\/\//.test(each) ? each : `${scheme}://${each}`));
  const wrong = servers.find((each) => !URL.canParse(each));
  if (wrong === undefined) return servers;
  throw usageError(`${JSON.stringify(wrong)} is no address of NATS`, 'write nats://host:4222');
}

async function run(context: Context, flags: ServeFlags & Record<string, unknown>): Promise<void> {
  const { out, settings, signal, environment } = context;
  const folder = settings.value('gallery');
  if (isServer(folder)) throw usageError(`${folder} is a server already`, 'name a folder with --gallery');
  const { host, port, tlsCert, tlsKey, auditLog, cors, allowHost, logLevel } = flags;
  const { allowPlaintext = false, allowAnyone = false, console: withConsole = false } = flags;
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw usageError('a certificate and its private key go together', 'give --tls-cert and --tls-key');
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
  let kernel: Kernel | undefined;
  const onKernel = (opened: Kernel) => {
    kernel = opened;
  };
  // An empty name is a mistake, and not a wish for no TLS.
  const isTls = tlsCert !== undefined && tlsKey !== undefined;
  const own = isTls ? { cert: context.path(tlsCert), key: context.path(tlsKey) } : undefined;
  const nodeParts = await nodeFiles(context, flags, own);
  const tls = nodeParts?.tls ?? own;
  const inbox = inboxOf(flags);
  const opening = { onKernel, ...given({ inbox }) };
  const opened: Opened = nodeParts
    ? await openNode(context, flags, nodeParts, opening)
    : await openFolder(settings, out, opening).then((files) => ({ store: files, folder: files }));
  const { store, folder: files, cluster } = opened;
  const server = await startServer(store, {
    host,
    port,
    limits,
    allowPlaintext,
    allowAnyone,
    ...given({ tls, tokens, site, allowHosts: allowHost }),
    ...(auditLog === undefined ? {} : { audit: context.path(auditLog) }),
    ...(cors ? { cors: cors.includes('*') ? '*' : cors } : {}),
    admin: {
      tokens: withConsole,
      ...given({ cluster, doctor: files && (() => doctorOf(folder, files)) }),
    },
    device: () => kernel?.device?.(),
    log: { level: logLevel, stream: { write: (line: string) => void stderr.write(line) } },
  }).catch(async (error) => {
    await store.close();
    throw error;
  });
  try {
    out.result({ url: server.url, gallery: folder, tokens: tokens ?? null }, [
      ['serving', folder],
      ['at', server.url],
      ...(site ? [['console', server.url + site.base] as const] : []),
      ['tokens', tokens ?? 'none: whoever reaches it may do everything'],
    ]);
    if (!signal.aborted) await once(signal, 'abort');
  } finally {
    await server.close();
  }
}
