// `hers cluster`: what a cluster looks like.

import { readFile } from 'node:fs/promises';
import type { ClusterStatus } from '@hers/cluster';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { EXIT } from '../exit.ts';
import { size } from '../quantities.ts';

interface StatusFlags {
  readonly nodeUrl: string;
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
    .command('status')
    .summary('nodes, shards, and what lags')
    .description(
      'Asks one node which others there are, and all of them what they keep. Exits with 1 if a shard takes no changes or cannot be searched.',
    )
    .requiredOption('--node-url <address>', 'where a node listens for other nodes, such as http://127.0.0.1:7444')
    .option('--node-token-file <file>', 'the file with the token of nodes')
    .option('--allow-plaintext', 'send the token to another machine without TLS, because the network is safe')
    .example('hers cluster status --node-url https://n1.example:7444 --node-token-file node.token', 'A table')
    .example('hers cluster status --node-url http://127.0.0.1:7444 --json', 'For programs')
    .action((flags: StatusFlags) => status(context(), flags));
}

/** The token in a file, without the line break at its end. */
export async function readNodeToken(context: Context, file: string | undefined): Promise<string | undefined> {
  return file === undefined ? undefined : (await readFile(context.path(file), 'utf8')).trim();
}

async function status(context: Context, { nodeUrl, nodeTokenFile, allowPlaintext }: StatusFlags): Promise<void> {
  const { out } = context;
  const { clusterStatus, HttpShards } = await import('@hers/cluster');
  const token = await readNodeToken(context, nodeTokenFile);
  const found = await clusterStatus(
    nodeUrl,
    (url) =>
      new HttpShards(url, {
        ...(token === undefined ? {} : { token }),
        ...(allowPlaintext ? { insecure: true } : {}),
      }),
  );
  if (out.json) out.object({ ...found });
  else print(context, found);
  if (found.collections.some(({ blocked, lost }) => blocked + lost > 0)) context.exit = EXIT.no;
}

function print({ out }: Context, { nodes, collections }: ClusterStatus): void {
  out.table(
    [
      { title: 'node' },
      { title: 'address' },
      { title: 'shards', right: true },
      { title: 'size', right: true },
      { title: 'lagging', right: true },
      { title: 'state' },
    ],
    nodes.map(({ name, url, shards, bytes, lagging, error }) => [
      name,
      url,
      String(shards),
      size(bytes),
      String(lagging),
      error === undefined ? 'up' : `down: ${error}`,
    ]),
  );
  if (collections.length === 0) return;
  out.table(
    [
      { title: 'collection' },
      { title: 'version', right: true },
      { title: 'shards', right: true },
      { title: 'replicas', right: true },
      { title: 'state' },
    ],
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
}
