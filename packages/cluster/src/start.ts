// A machine as a node: its folder, the ledger, a port for the other nodes, and the Service for
// clients.

import { mkdir, rename } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { type RunningServer, type ServeOptions, startServer } from '@hers/server';
import { HersError, type OptionNames, refuseUnknown, type Service, withMethods } from '@hers/service';
import { type FolderStore, openStore, type StoreOptions } from '@hers/store';
import { certifiedBy, type NodeCertificate } from './certified.ts';
import { Coordinator } from './coordinator.ts';
import { DIRECTORY, type Directory, decodeDirectory } from './directory.ts';
import { type ClusterCalls, fencedShards } from './fence.ts';
import { newestOf } from './ledger.ts';
import { NatsLedger, type NatsLedgerOptions } from './ledger-nats.ts';
import { ClusterNode, type NodeOptions } from './node.ts';
import { HttpShards, serveShards } from './transport.ts';

/** How a machine becomes a node. */
export interface ClusterOptions {
  /** The name of this node, which it keeps for good: letters, digits, `-` and `_`. */
  readonly node: string;
  /** Where NATS is: `nats://a:4222` each. */
  readonly servers: readonly string[];
  /** Tells clusters apart that share a NATS; `hers` by default. */
  readonly cluster?: string;
  /** Servers of NATS that keep the ledger; 3 by default. */
  readonly ledgerReplicas?: number;
  /** For NATS. */
  readonly natsTls?: NatsLedgerOptions['tls'];
  /** Where this node listens for the others; 127.0.0.1 and port 7444 by default. */
  readonly host?: string;
  readonly port?: number;
  readonly tls?: ServeOptions['tls'];
  /** Where the others reach it; by default where it listens. */
  readonly url?: string;
  /** The file with the token of nodes, as `hers tokens create --scope admin` makes it. */
  readonly tokens?: string;
  /** The token itself, which all nodes have. */
  readonly token?: string;
  /**
   * What this node shows to others, and an authority: whoever connects to the port for nodes must
   * show a certificate of it, besides the token.
   */
  readonly certificate?: NodeCertificate;
  /** Speak to other machines without TLS, because the network between nodes is safe. */
  readonly allowPlaintext?: boolean;
  /** Nodes that keep each shard of a new collection; 3 by default. */
  readonly replicas?: number;
  /** Shards of a new collection; 16 by default. */
  readonly shards?: number;
  /** When this node looks after what, and how fast it copies. */
  readonly tending?: Pick<NodeOptions, 'tendMs' | 'goneMs' | 'leftoverMs' | 'scrubMs' | 'copyBytesPerSecond'>;
  /** How the folder is opened. */
  readonly store?: Omit<StoreOptions, 'mode' | 'shards'>;
  /** Called with errors of background work. */
  readonly onBackgroundError?: (error: unknown) => void;
  /**
   * For tests: where another node is reached, if not at its address.
   *
   * @internal
   */
  readonly reach?: (url: string) => string;
}

const OPTIONS: OptionNames<ClusterOptions> = {
  node: true,
  servers: true,
  cluster: true,
  ledgerReplicas: true,
  natsTls: true,
  host: true,
  port: true,
  tls: true,
  url: true,
  tokens: true,
  token: true,
  certificate: true,
  allowPlaintext: true,
  replicas: true,
  shards: true,
  tending: true,
  store: true,
  onBackgroundError: true,
  reach: true,
};

export interface RunningNode {
  readonly service: Service;
  readonly url: string;
}

const DEFAULT_PORT = 7444;
const LEDGER_MS = 60_000;
const LEDGER_PAUSE_MS = 200;

/**
 * Opens a folder as a node of a cluster.
 *
 * @example
 * const { service } = await startNode('./node1', { node: 'n1', servers: ['nats://a', 'nats://b',
 * 'nats://c'] }); await startServer(service);
 */
export async function startNode(folder: string, options: ClusterOptions): Promise<RunningNode> {
  refuseUnknown(options, OPTIONS, 'a node');
  const { node: name, servers, token, tokens, host = '127.0.0.1', port = DEFAULT_PORT, onBackgroundError } = options;
  if (!/^[A-Za-z0-9_-]{1,32}$/.test(name))
    throw new HersError('INVALID_ARGUMENT', 'the name of a node has letters, digits, - and _ alone, 32 at most');
  if (servers.length === 0) throw new HersError('INVALID_ARGUMENT', 'a node needs the address of a NATS server');
  if ((token === undefined) !== (tokens === undefined))
    throw new HersError('INVALID_ARGUMENT', 'nodes need both: the file that knows their token, and the token itself');
  const { cluster, ledgerReplicas, natsTls, certificate, allowPlaintext } = options;
  const { cert, key } = options.tls ?? certificate ?? {};
  const tls = cert && key ? { cert, key, ...(certificate ? { authority: certificate.authority } : {}) } : undefined;
  const reaching = {
    ...(token === undefined ? {} : { token }),
    ...(allowPlaintext ? { insecure: true } : {}),
    ...(certificate ? { certified: certifiedBy(certificate) } : {}),
  };
  const ledger = new NatsLedger({ servers, cluster, replicas: ledgerReplicas, tls: natsTls });
  const closers: (() => Promise<unknown>)[] = [() => ledger.close()];
  const close = async () => {
    for (const each of closers.splice(0).reverse()) await each();
  };
  try {
    const store = await openShards(folder, name, {
      store: options.store,
      directory: () => latestDirectory(ledger),
      report: onBackgroundError,
    });
    closers.push(() => store.close());
    let calls: ClusterCalls | undefined;
    const shards = fencedShards(store, () => calls);
    const server: RunningServer = await serveShards(shards, {
      host,
      port,
      ...(tls ? { tls } : {}),
      ...(tokens === undefined ? {} : { tokens }),
      ...(allowPlaintext ? { allowPlaintext } : {}),
    });
    closers.push(() => server.close());
    const url = options.url ?? server.url;
    const node = new ClusterNode({
      name,
      url,
      store,
      shards: (of) => {
        calls = of;
        return shards;
      },
      ledger,
      ...options.tending,
      connect: (_, info) => new HttpShards(options.reach?.(info.url) ?? info.url, reaching),
      ...(onBackgroundError ? { onBackgroundError } : {}),
    });
    // A node that was here before serves what it has, even while NATS is gone.
    const begin = ledger.begin(LEDGER_MS);
    if (await node.isKnown()) begin.catch((error) => onBackgroundError?.(error));
    else await begin;
    await node.start();
    closers.push(() => node.close());
    const { replicas, shards: count } = options;
    const coordinator = new Coordinator(node, {
      secret: token ?? '',
      replicas,
      shards: count,
      inbox: options.store?.inbox,
    });
    closers.push(() => coordinator.close());
    return { service: withMethods(coordinator, { close }), url };
  } catch (error) {
    await close();
    throw error;
  }
}

/** As the ledger has it. A server of NATS that has just started may have none yet. */
async function latestDirectory(ledger: NatsLedger): Promise<Directory | undefined> {
  for (const until = performance.now() + LEDGER_MS; performance.now() < until; await pause(LEDGER_PAUSE_MS)) {
    const entry = await newestOf(ledger, DIRECTORY).catch(() => undefined);
    if (entry) return decodeDirectory(entry.content);
  }
  return undefined;
}

/** A node and its server for clients. */
export async function serveNode(
  folder: string,
  options: ClusterOptions,
  serve: ServeOptions,
): Promise<RunningServer & { readonly nodeUrl: string }> {
  const { service, url: nodeUrl } = await startNode(folder, options);
  try {
    const server = await startServer(service, serve);
    return { ...server, nodeUrl };
  } catch (error) {
    await service.close();
    throw error;
  }
}

// The folder of a node. If its catalogue is damaged and others have all that it keeps, it is set
// aside, and the node begins with an empty one, as after the loss of a disk.

/** With fewer, the others are no majority without this one. */
const REPLICAS_TO_SPARE = 3;

export interface FolderOptions {
  /** How the folder is opened. */
  readonly store?: Omit<StoreOptions, 'mode' | 'shards'> | undefined;
  /** The directory, if the folder cannot say what it is. */
  readonly directory: () => Promise<Directory | undefined>;
  /** Called with the damage. */
  readonly report?: ((error: unknown) => void) | undefined;
}

export async function openShards(folder: string, name: string, options: FolderOptions): Promise<FolderStore> {
  const { report = () => {} } = options;
  const open = () => openStore(folder, { ...options.store, shards: true });
  let store: FolderStore | undefined;
  let damage: HersError | undefined;
  try {
    store = await open();
    damage = store.isReadOnly ? await catalogueDamage(store) : undefined;
    if (!damage) return store;
  } catch (error) {
    if (!(error instanceof HersError && error.code === 'DAMAGED')) throw error;
    damage = error;
  }
  const known = await store?.getManifest(DIRECTORY).catch(() => undefined);
  const directory = known ? decodeDirectory(known.manifest) : await options.directory().catch(() => undefined);
  if (!directory || !canBeSpared(directory, name)) {
    // What can be read of it may be all that there is.
    if (!store) throw damage;
    report(damage);
    return store;
  }
  await store?.close();
  const aside = `${folder}.damaged-${Date.now()}`;
  try {
    await rename(folder, aside);
    await mkdir(folder, { mode: 0o700 });
  } catch {
    throw new HersError('DAMAGED', `${damage.message}. Move it elsewhere, and start this node with an empty folder`);
  }
  report(
    new HersError(
      'DAMAGED',
      `${damage.message}. It is kept as ${aside}, and this node copies its shards from others; remove it when all is well`,
    ),
  );
  return open();
}

async function catalogueDamage(store: FolderStore): Promise<HersError | undefined> {
  // The catalogue comes first.
  for await (const { damage } of store.scrub({ threads: 1 })) return damage;
  return undefined;
}

/** Whether all shards that this node keeps are kept by a majority of others as well. */
function canBeSpared({ collections }: Directory, name: string): boolean {
  const kept = Object.values(collections).flatMap(({ shards }) => shards.filter((nodes) => nodes.includes(name)));
  return kept.every((nodes) => nodes.length >= REPLICAS_TO_SPARE);
}
