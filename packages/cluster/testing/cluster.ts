// Clusters of real processes on this machine: servers of NATS and nodes, each with a folder of its
// own, on free ports. For tests, campaigns and benchmarks.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { mkdir, mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TokenStore } from '@hers/server';
import { type Part as Found, part } from '../../../tools/parts.ts';

const MEMORY = '/dev/shm';
/** A cluster of tests takes a tenth of this. Containers often have 64 MB there. */
const ROOM = 2 ** 29;

async function hasRoom(folder: string): Promise<boolean> {
  const found = await statfs(folder).catch(() => undefined);
  return found !== undefined && found.bavail * found.bsize >= ROOM;
}

const NODE_CHILD = fileURLToPath(new URL('./node-child.ts', import.meta.url));

/** The server of NATS, where it is installed. */
export const natsServer = (): Found => part('nats');

/** Ports that nothing listens on at the moment. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports = await Promise.all(
    servers.map(async (server) => {
      await once(server.listen(0, '127.0.0.1'), 'listening');
      return (server.address() as { port: number }).port;
    }),
  );
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** A process that is started again with what it had. */
export class Part {
  readonly name: string;
  readonly #start: () => Promise<ChildProcess>;
  #child: ChildProcess | undefined;

  constructor(name: string, start: () => Promise<ChildProcess>) {
    this.name = name;
    this.#start = start;
  }

  get pid(): number | undefined {
    return this.isRunning ? this.#child?.pid : undefined;
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async start(): Promise<void> {
    if (!this.isRunning) this.#child = await this.#start();
  }

  /** Of a node: bytes that its kernel has compared with queries. */
  async scanned(): Promise<number> {
    const answer = once(this.#child!, 'message');
    this.#child!.send('scanned');
    const [{ scanned }] = (await answer) as [{ scanned: number }];
    return scanned;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    if (!this.isRunning) return;
    const ended = once(this.#child!, 'exit');
    this.#child!.kill(signal);
    await ended;
  }

  /** In order. */
  stop(): Promise<void> {
    return this.#end('SIGTERM');
  }

  /** At once. */
  kill(): Promise<void> {
    return this.#end('SIGKILL');
  }
}

/** Passes on what comes to its port, until it is cut. */
class Cable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(target: number): Promise<Cable> {
    const server = createServer((near) => {
      const far = connect(target, '127.0.0.1');
      for (const socket of [near, far]) {
        proxy.#sockets.add(socket);
        const end = () => {
          proxy.#sockets.delete(socket);
          near.destroy();
          far.destroy();
        };
        socket.on('error', end);
        socket.on('close', end);
      }
      const pass = (from: Socket, to: Socket) =>
        from.on('data', (bytes) => {
          // As behind a cable that was pulled: nothing arrives, and nobody hears so.
          if (proxy.#isCut) return;
          if (!to.write(bytes)) {
            from.pause();
            to.once('drain', () => from.resume());
          }
        });
      pass(near, far);
      pass(far, near);
    });
    const proxy = new Cable(server);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  cut(): void {
    this.#isCut = true;
  }

  /** What was under way is lost. */
  mend(): void {
    this.#isCut = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

export interface TestClusterOptions {
  readonly nodes?: number;
  readonly natsServers?: number;
  readonly replicas?: number;
  readonly shards?: number;
  /** Scan with the reference kernel, which small galleries of tests need. */
  readonly reference?: boolean;
  /** Limits of the servers for clients. */
  readonly limits?: object;
  /** When nodes look after what. */
  readonly tending?: object;
  /** Nodes that are not started at first. */
  readonly spare?: number;
  /** Put proxies between nodes, so that the network between two of them can be cut. */
  readonly proxies?: boolean;
  /** Put the folder of the last node on a small file system of its own, where that is allowed. */
  readonly smallDisk?: boolean;
  /** Keep all files in memory, where there is a place for it: nothing waits for a disk to sync. */
  readonly inMemory?: boolean;
  /** Do not print errors of background work. */
  readonly quiet?: boolean;
}

export class TestCluster {
  readonly folder: string;
  readonly nats: readonly Part[];
  readonly nodes: readonly Part[];
  readonly natsUrls: readonly string[];
  /** Where clients reach the nodes, and where nodes do. */
  readonly urls: readonly string[];
  readonly nodeUrls: readonly string[];
  /** Of the servers for clients. */
  readonly tokens: TokenStore;
  readonly token: string;
  readonly nodeToken: string;
  /** Nodes whose folder is a small file system. */
  readonly small: ReadonlySet<number>;
  /** Between every two nodes, in the order of their numbers; empty without `proxies`. */
  readonly proxies: readonly { readonly from: number; readonly to: number; readonly proxy: Cable }[];
  /** Between nodes and servers of NATS; empty without `proxies`. */
  readonly natsProxies: readonly { readonly from: number; readonly proxy: Cable }[];

  private constructor(
    made: Pick<
      TestCluster,
      | 'folder'
      | 'nats'
      | 'nodes'
      | 'natsUrls'
      | 'urls'
      | 'nodeUrls'
      | 'tokens'
      | 'token'
      | 'nodeToken'
      | 'proxies'
      | 'natsProxies'
      | 'small'
    >,
  ) {
    this.folder = made.folder;
    this.nats = made.nats;
    this.nodes = made.nodes;
    this.natsUrls = made.natsUrls;
    this.urls = made.urls;
    this.nodeUrls = made.nodeUrls;
    this.tokens = made.tokens;
    this.token = made.token;
    this.nodeToken = made.nodeToken;
    this.proxies = made.proxies;
    this.natsProxies = made.natsProxies;
    this.small = made.small;
  }

  static async start(natsServer: string, options: TestClusterOptions = {}): Promise<TestCluster> {
    const { nodes: first = 3, spare = 0, natsServers = 3, shards = 4, reference = false, tending, quiet } = options;
    const { replicas = Math.min(3, first) } = options;
    const count = first + spare;
    const parent = options.inMemory && (await hasRoom(MEMORY)) ? MEMORY : tmpdir();
    const folder = await mkdtemp(join(parent, 'hers-cluster-'));
    const ports = await freePorts(2 * natsServers + 2 * count);
    const tokens = new TokenStore(join(folder, 'tokens.json'));
    const nodeTokens = new TokenStore(join(folder, 'node-tokens.json'));
    const { secret: token } = await tokens.create({ scope: 'admin' });
    const { secret: nodeToken } = await nodeTokens.create({ scope: 'admin' });
    const clientPorts = ports.slice(0, natsServers);
    const routePorts = ports.slice(natsServers, 2 * natsServers);
    const nats = await Promise.all(
      clientPorts.map((port, i) => natsPart(natsServer, join(folder, `nats${i}`), `s${i}`, port, routePorts, i)),
    );
    const publicPorts = ports.slice(2 * natsServers, 2 * natsServers + count);
    const innerPorts = ports.slice(2 * natsServers + count);
    const at = (port: number) => `http://127.0.0.1:${port}`;
    const proxies: { from: number; to: number; proxy: Cable }[] = [];
    if (options.proxies)
      for (const from of innerPorts.keys())
        for (const to of innerPorts.keys())
          if (from !== to) proxies.push({ from, to, proxy: await Cable.start(innerPorts[to]) });
    const natsProxies: { from: number; proxy: Cable }[] = [];
    if (options.proxies)
      for (const from of innerPorts.keys())
        for (const port of clientPorts) natsProxies.push({ from, proxy: await Cable.start(port) });
    const natsAt = (port: number) => `nats://127.0.0.1:${port}`;
    const natsUrls = clientPorts.map(natsAt);
    const nodes = publicPorts.map((port, i) => {
      const node = {
        node: `n${i + 1}`,
        servers: options.proxies
          ? natsProxies.flatMap(({ from, proxy }) => (from === i ? [natsAt(proxy.port)] : []))
          : natsUrls,
        ledgerReplicas: natsServers,
        port: innerPorts[i],
        tokens: nodeTokens.path,
        token: nodeToken,
        replicas,
        shards,
        reference,
        ...(tending ? { tending } : {}),
        via: Object.fromEntries(
          proxies.flatMap(({ from, to, proxy }) => (from === i ? [[at(innerPorts[to]), at(proxy.port)]] : [])),
        ),
      };
      const limits = { requestsPerSecond: 100_000, requests: 1000, graceSeconds: 2, ...options.limits };
      const server = { port, tokens: tokens.path, limits };
      return new Part(node.node, () => spawnNode(join(folder, node.node), node, server, quiet));
    });
    const [urls, nodeUrls] = [publicPorts.map(at), innerPorts.map(at)];
    const isSmall = options.smallDisk === true && mountSmall(join(folder, `n${first}`));
    const small = new Set(isSmall ? [first - 1] : []);
    const addresses = { natsUrls, urls, nodeUrls, tokens, token, nodeToken };
    const made = { folder, nats, nodes, ...addresses, proxies, natsProxies, small };
    const cluster = new TestCluster(made);
    try {
      await Promise.all(nats.map((part) => part.start()));
      await Promise.all(nodes.slice(0, first).map((part) => part.start()));
      return cluster;
    } catch (error) {
      await cluster.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    for (const part of [...this.nodes, ...this.nats]) part.signal('SIGCONT');
    await Promise.all(this.nodes.map((part) => part.kill()));
    await Promise.all(this.nats.map((part) => part.kill()));
    for (const { proxy } of [...this.proxies, ...this.natsProxies]) proxy.close();
    for (const node of this.small) spawnSync('umount', [join(this.folder, this.nodes[node].name)]);
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Makes a folder of 512 MiB. False where that is not allowed. */
function mountSmall(folder: string): boolean {
  mkdirSync(folder);
  return spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=512m', 'tmpfs', folder]).status === 0;
}

async function natsPart(
  program: string,
  folder: string,
  name: string,
  port: number,
  routePorts: readonly number[],
  own: number,
): Promise<Part> {
  await mkdir(folder);
  const routes = routePorts.filter((_, i) => i !== own).map((each) => `nats-route://127.0.0.1:${each}`);
  const cluster =
    routePorts.length > 1
      ? `cluster { name: "hers", listen: "127.0.0.1:${routePorts[own]}", routes: ${JSON.stringify(routes)} }\n`
      : '';
  const config = join(folder, 'nats.conf');
  await writeFile(
    config,
    `server_name: "${name}"\nlisten: "127.0.0.1:${port}"\njetstream { store_dir: "${folder}", max_mem: 64M, max_file: 1G }\n${cluster}`,
  );
  return new Part(name, async () => spawn(program, ['-c', config, '-l', join(folder, 'log')], { stdio: 'ignore' }));
}

/** Resolves when the node serves. */
async function spawnNode(folder: string, node: object, server: object, quiet = false): Promise<ChildProcess> {
  const child = spawn(process.execPath, [NODE_CHILD, folder, JSON.stringify(node), JSON.stringify(server)], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: { ...process.env, NODE_V8_COVERAGE: '', HERS_QUIET: quiet ? '1' : '' },
  });
  let text = '';
  for await (const piece of child.stdout!) {
    text += piece;
    if (text.includes('\n')) {
      child.stdout!.destroy();
      return child;
    }
  }
  throw new Error(`a node did not start: ${text}`);
}
