// `hers cluster`: makes the files of a cluster, shows what it looks like, and changes it.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ClusterStatus, HttpShards, NodeCertificate } from '@hers/cluster';
import { given, type HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { EXIT } from '../exit.ts';
import { columns, size } from '../output.ts';

interface NodeFlags {
  readonly nodeUrl: string;
  readonly clusterFiles?: string;
  readonly nodeTokenFile?: string;
  readonly allowPlaintext?: boolean;
}

export function addCluster(program: HersCommand, context: () => Context): void {
  const cluster = program
    .command('cluster')
    .summary('the nodes of a cluster')
    .description(
      'A cluster keeps a gallery on several machines, each of which runs `hers serve --cluster`. docs/cluster.md says how.',
    );
  cluster
    .command('init')
    .argument('<folder>', 'where to put the files')
    .requiredOption('--hosts <names>', 'the machines, as the others reach them: a.example,b.example,c.example')
    .option('--spare <names>', 'machines without a server of NATS: more nodes, or those that may come later')
    .option('--nats-store <folder>', 'where NATS keeps its files', '/var/lib/nats')
    .option('--without-sync', 'for servers of NATS before 2.10, which refuse sync_interval')
    .summary('make the files of a new cluster')
    .description(
      'Makes a folder for each machine: the configuration of NATS with accounts, permissions and TLS, a certificate for the machine, and the token of nodes. Copy each folder to its machine, and to no other: whoever has one can be a node. Certificates are made by openssl, hold for ten years, and their authority signs no others: its key is not kept.',
    )
    .example('hers cluster init ./cluster --hosts a.example,b.example,c.example', 'Three machines')
    .action((folder: string, flags: InitFlags) => init(context(), folder, flags));
  const reaching = (command: HersCommand) =>
    command
      .requiredOption('--node-url <address>', 'where a node listens for other nodes, such as http://127.0.0.1:7444')
      .option('--node-token-file <file>', 'the file with the token of nodes')
      .option('--cluster-files <folder>', 'the folder of a machine that `hers cluster init` made: token and authority')
      .option('--allow-plaintext', 'send the token to another machine without TLS, because the network is safe');
  reaching(cluster.command('status'))
    .summary('nodes, shards, what lags and what moves')
    .description(
      'Asks one node which others there are, and all of them what they keep. Exits with 1 if a shard takes no changes or cannot be searched.',
    )
    .example('hers cluster status --node-url https://n1.example:7444 --node-token-file node.token', 'A table')
    .example('hers cluster status --node-url http://127.0.0.1:7444 --json', 'For programs')
    .action((flags: NodeFlags) => status(context(), flags));
  reaching(cluster.command('drain'))
    .argument('<node>', 'its name')
    .summary('empty a node')
    .description(
      'Its shards move to other nodes, one after the other, while searches and changes go on; `hers cluster status` shows how far it is. Then it can be stopped. It needs as many other nodes as there are replicas.',
    )
    .option('--undo', 'let it keep shards again')
    .example(
      'hers cluster drain n1 --node-url https://n2.example:7444 --node-token-file node.token',
      'Before n1 is retired',
    )
    .action((node: string, flags: NodeFlags & { readonly undo?: boolean }) => drain(context(), node, flags));
  reaching(cluster.command('replicas'))
    .argument('<collection>', 'its name')
    .argument('<number>', 'nodes that keep each of its shards')
    .summary('change how many nodes keep each shard')
    .description('Copies are made or removed one after the other. With 2, changes stop when one of the nodes is gone.')
    .example('hers cluster replicas faces 3 --node-url http://127.0.0.1:7444', 'Three of each')
    .action((collection: string, replicas: string, flags: NodeFlags) =>
      setReplicas(context(), collection, replicas, flags),
    );
}

/** The token in a file, without the line break at its end. */
export async function readNodeToken(context: Context, file: string | undefined): Promise<string | undefined> {
  return file === undefined ? undefined : (await readFile(context.path(file), 'utf8')).trim();
}

interface InitFlags {
  readonly hosts: string;
  readonly natsStore: string;
  readonly spare?: string;
  readonly withoutSync?: boolean;
}

async function init(context: Context, folder: string, flags: InitFlags): Promise<void> {
  const { out } = context;
  const { initCluster } = await import('@hers/cluster');
  const folders = await initCluster(context.path(folder), {
    hosts: flags.hosts.split(','),
    store: flags.natsStore,
    ...given({ spare: flags.spare?.split(','), withoutSync: flags.withoutSync }),
  });
  if (out.json) out.object({ folders });
  else {
    for (const each of folders) out.line(each);
    out.hint(
      'Copy each to its machine, start `nats-server -c nats.conf` in it, and `hers serve --cluster-files` with it.',
    );
  }
}

/** From now on, certificates of this authority count in this process, besides those that did. */
export async function trustAuthority(file: string): Promise<void> {
  const { getCACertificates, setDefaultCACertificates } = await import('node:tls');
  setDefaultCACertificates([...getCACertificates('default'), await readFile(file, 'utf8')]);
}

async function connecting(context: Context, { nodeTokenFile, clusterFiles, allowPlaintext }: NodeFlags) {
  const { CLUSTER_FILES } = await import('@hers/cluster');
  const files = clusterFiles === undefined ? undefined : context.path(clusterFiles);
  const at = (name: keyof typeof CLUSTER_FILES) => files && join(files, CLUSTER_FILES[name]);
  const [authority, cert, key] = [at('authority'), at('certificate'), at('privateKey')];
  if (authority !== undefined) await trustAuthority(authority);
  const token = await readNodeToken(context, nodeTokenFile ?? at('token'));
  return linksTo(token, allowPlaintext, authority && cert && key ? { authority, cert, key } : undefined);
}

/** Opens connections to the node of an address. */
export async function linksTo(
  token?: string,
  insecure?: boolean,
  certificate?: NodeCertificate,
): Promise<(url: string) => HttpShards> {
  const { certifiedBy, HttpShards } = await import('@hers/cluster');
  const options = given({ token, insecure, certified: certificate && certifiedBy(certificate) });
  return (url: string) => new HttpShards(url, options);
}

async function status(context: Context, flags: NodeFlags): Promise<void> {
  const { out } = context;
  const { clusterStatus } = await import('@hers/cluster');
  const found = await clusterStatus(flags.nodeUrl, await connecting(context, flags));
  if (out.json) out.object({ ...found });
  else print(context, found);
  if (found.collections.some(({ blocked, lost }) => blocked + lost > 0)) context.exit = EXIT.no;
}

/** Asks the node of the flags for something. */
async function asking(context: Context, flags: NodeFlags, ask: (shards: HttpShards) => Promise<unknown>) {
  const shards = (await connecting(context, flags))(flags.nodeUrl);
  try {
    await ask(shards);
  } finally {
    await shards.close();
  }
}

async function drain(context: Context, node: string, flags: NodeFlags & { readonly undo?: boolean }): Promise<void> {
  await asking(context, flags, (shards) => shards.drain(node, flags.undo !== true));
  const { out } = context;
  if (out.json) out.object({ node, draining: flags.undo !== true });
  else
    out.line(flags.undo ? `${node} keeps shards again` : `${node} is being emptied; hers cluster status shows how far`);
}

async function setReplicas(context: Context, collection: string, given: string, flags: NodeFlags): Promise<void> {
  const replicas = Number(given);
  await asking(context, flags, (shards) => shards.setReplicas(collection, replicas));
  const { out } = context;
  if (out.json) out.object({ collection, replicas });
  else out.line(`${collection} gets ${replicas} replicas of each shard; hers cluster status shows how far`);
}

function print({ out }: Context, { nodes, collections, moves }: ClusterStatus): void {
  out.table(
    columns('node', 'address', '>shards', '>size', '>lagging', 'state'),
    nodes.map(({ name, url, shards, bytes, lagging, draining, error }) => [
      name,
      url,
      String(shards),
      size(bytes),
      String(lagging),
      `${error === undefined ? 'up' : `down: ${error}`}${draining ? (shards === 0 ? ', empty' : ', draining') : ''}`,
    ]),
  );
  if (collections.length === 0) return;
  out.table(
    columns('collection', '>version', '>shards', '>replicas', 'state'),
    collections.map(({ name, version, shards, replicas, degraded, blocked, lost }) => [
      name,
      version === null ? '?' : String(version),
      String(shards),
      String(replicas),
      lost > 0
        ? `${lost} shards cannot be searched`
        : blocked > 0
          ? `${blocked} shards take no changes`
          : degraded > 0
            ? `${degraded} shards lack a replica`
            : 'whole',
    ]),
  );
  if (moves.length === 0) return;
  out.table(
    columns('moving', '>shard', '>size', 'from', 'to', 'state'),
    moves.map(({ collection, shard, from, to, state, bytes }) => [
      collection,
      String(shard),
      bytes === undefined ? '?' : size(bytes),
      from ?? '',
      to ?? '',
      state,
    ]),
  );
}
