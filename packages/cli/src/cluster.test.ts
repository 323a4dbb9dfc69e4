// `hers cluster`, and `hers serve` with the files that it makes: three nodes in processes of their
// own, two servers of NATS, and TLS between all of them.
//
// Long: start.test.ts of cluster is the short form.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDevice } from '@hers/client/device';
import { freePorts, natsServer } from '@hers/cluster/testing';
import { childEnv, hers, hersJson, launcher, temporaryFolder, vectorOf } from '../testing/cli.ts';
import { trustAuthority } from './commands/cluster.ts';
import { EXIT } from './exit.ts';

const nats = natsServer();
const hasOpenssl = spawnSync('openssl', ['version']).status === 0;
const skip = nats.skip || (hasOpenssl ? false : 'install openssl');
const HOSTS = ['127.0.0.1', 'localhost'];

interface CollectionStatus {
  readonly name: string;
  readonly replicas: number;
  readonly blocked: number;
  readonly lost: number;
}

interface NodeStatus {
  readonly name: string;
  readonly shards: number;
  readonly error?: string;
  readonly draining: boolean;
}

/** Waits for a line of a child that holds this. */
async function says(child: ChildProcess, text: string): Promise<string> {
  let out = '';
  let err = '';
  child.stderr!.setEncoding('utf8').on('data', (piece) => (err += piece));
  for await (const piece of child.stdout!.setEncoding('utf8')) {
    out += piece;
    if (out.includes(text) && out.includes('\n')) return out;
  }
  throw new Error(`it ended: ${out}${err}`);
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 120_000; !(await holds()); await new Promise((go) => setTimeout(go, 50)))
    assert.ok(performance.now() < end, `not in time: ${what}`);
}

test('a cluster from its files: made, served, filled, looked at, emptied, examined', { skip }, async () => {
  await using at = await temporaryFolder();
  const folder = at.path;
  const init = ['cluster', 'init', 'cluster', '--without-sync', '--nats-store', './store', '--hosts'];
  assert.equal((await hers(folder, [...init, 'a b'])).exit, EXIT.usage);
  const made = await hersJson(folder, [...init, HOSTS.join()]);
  assert.deepEqual(
    made.folders,
    HOSTS.map((host) => join(folder, 'cluster', host)),
  );
  const again = await hers(folder, [...init, HOSTS.join()]);
  assert.notEqual(again.exit, 0);
  assert.match(again.err, /has files of a cluster already; choose another folder/);

  // All of it is on one machine here, so each server gets ports of its own.
  const ports = await freePorts(4 + 6);
  for (const file of ['nats.conf', 'nats.url'])
    for (const [own, each] of made.folders.entries()) {
      let text = await readFile(join(each, file), 'utf8');
      for (const [i, host] of HOSTS.entries())
        text = text
          .replaceAll(`${host}:4222`, `${host}:${ports[i]}`)
          .replaceAll(`${host}:6222`, `${host}:${ports[2 + i]}`);
      text = text
        .replace(/(listen: "[^"]*):4222"/, `$1:${ports[own]}"`)
        .replace(/(listen: "[^"]*):6222"/, `$1:${ports[2 + own]}"`);
      await writeFile(join(each, file), text);
    }
  const children: ChildProcess[] = [];
  try {
    for (const cwd of made.folders as string[])
      children.push(spawn(nats.path!, ['-c', 'nats.conf', '-l', 'log'], { cwd, stdio: 'ignore' }));
    const token = await hersJson(folder, ['tokens', 'create', '--scope', 'admin', '--tokens', 'tokens.json']);
    const nodePorts = ports.slice(4);
    const nodeUrl = (i: number) => `https://${HOSTS[i % 2]}:${nodePorts[i]}`;
    const clientUrl = (i: number) => `https://${HOSTS[i % 2]}:${nodePorts[3 + i]}`;
    const start = async (i: number) => {
      const args = ['serve', '--json', '--gallery', `./n${i + 1}`, '--cluster-files', `cluster/${HOSTS[i % 2]}`];
      args.push('--node', `n${i + 1}`, '--node-port', String(nodePorts[i]), '--node-url', nodeUrl(i));
      args.push(
        '--port',
        String(nodePorts[3 + i]),
        '--tokens',
        'tokens.json',
        '--ledger-replicas',
        '2',
        '--shards',
        '2',
      );
      const child = spawn(process.execPath, [launcher, ...args], { cwd: folder, env: childEnv('') });
      children.push(child);
      await says(child, '"url"');
      return child;
    };
    const nodes = await Promise.all([0, 1, 2].map(start));

    // What a client needs besides a token: to know the authority.
    const authority = join(folder, 'cluster', HOSTS[0], 'ca.crt');
    const untrusted = await hers(folder, ['count', '--gallery', clientUrl(0), '--collection', 'x'], {
      env: { HERS_TOKEN: token.token },
    });
    assert.notEqual(untrusted.exit, 0);
    await trustAuthority(authority);
    await hersJson(folder, ['keys', 'create', 'hers.key', '--unsealed']);
    const client = (i: number, ...args: string[]) =>
      hersJson(folder, [...args, '--gallery', clientUrl(i), '--key', 'hers.key', '--collection', 'faces'], {
        env: { HERS_TOKEN: token.token },
      });
    await hersJson(
      folder,
      ['collections', 'create', 'faces', '--dimension', '8', '--gallery', clientUrl(0), '--key', 'hers.key'],
      { env: { HERS_TOKEN: token.token } },
    );
    const lines = [0, 1, 2, 3].map((i) => JSON.stringify({ id: `p${i}`, vector: [...vectorOf(i, 8)] }));
    await writeFile(join(folder, 'people.jsonl'), `${lines.join('\n')}\n`);
    await client(0, 'import', 'people.jsonl');
    const find = async (i: number) => (await client(i, 'search', JSON.stringify([...vectorOf(2, 8)]))).matches[0].id;
    for (const i of [0, 1, 2]) assert.equal(await find(i), 'p2');

    // — status —
    const files = ['--cluster-files', `cluster/${HOSTS[0]}`];
    const looked = async (i = 0) => hersJson(folder, ['cluster', 'status', '--node-url', nodeUrl(i), ...files]);
    const { nodes: shown, collections } = await looked();
    assert.deepEqual(
      shown.map(({ name, shards, error }: NodeStatus) => [name, shards, error]),
      [1, 2, 3].map((i) => [`n${i}`, 2, undefined]),
    );
    assert.deepEqual(collections[0].replicas, 3);
    const table = await hers(folder, ['cluster', 'status', '--node-url', nodeUrl(1), ...files]);
    assert.match(table.out, /n1\t.*up\n(.*\n)*faces\t.*whole/);
    // Neither who has the token and no certificate is a node, nor a client that has one.
    await writeFile(join(folder, 'client.token'), token.token, { mode: 0o600 });
    for (const [exit, flags] of [
      [EXIT.storage, ['--node-token-file', `cluster/${HOSTS[0]}/node.token`]],
      [EXIT.key, [...files, '--node-token-file', 'client.token']],
    ] as const) {
      const refused = await hers(folder, ['cluster', 'status', '--node-url', nodeUrl(0), ...flags]);
      assert.equal(refused.exit, exit, refused.err);
    }

    // — an open collection, a device with a key of its own that knows two nodes, and a keeper —
    const env = { HERS_TOKEN: token.token };
    const doors = (i: number, ...args: string[]) =>
      hersJson(folder, [...args, '--gallery', clientUrl(i), '--key', 'hers.key', '--collection', 'doors'], { env });
    const create = ['collections', 'create', 'doors', '--dimension', '8', '--profile', 'open'];
    await hersJson(folder, [...create, '--gallery', clientUrl(1), '--key', 'hers.key'], { env });
    await doors(1, 'import', 'people.jsonl');
    const add = ['devices', 'add', 'gate', '--own-key', '--enrol', '3', '--make-token', '--tokens', 'tokens.json'];
    await doors(2, ...add, '--address', [1, 0].map(clientUrl).join(), '--output', 'gate.device');
    const gate = openDevice(undefined, await readFile(join(folder, 'gate.device'), 'utf8'));
    await gate.ask(vectorOf(3, 8));
    await gate.enrol({ id: 'p9', vector: vectorOf(9, 8) });
    const keep = [
      'keeper',
      '--once',
      '--json',
      '--gallery',
      clientUrl(2),
      '--key',
      'hers.key',
      '--collection',
      'doors',
    ];
    const said = (await hers(folder, keep, { env })).out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const answer = said.find(({ matches }) => matches);
    assert.deepEqual([answer?.device, answer?.matches[0].id], ['gate', 'p3'], JSON.stringify(said));
    assert.equal((await doors(0, 'search', JSON.stringify([...vectorOf(9, 8)]))).matches[0].id, 'p9');
    await doors(0, 'devices', 'revoke', 'gate');
    await assert.rejects(gate.ask(vectorOf(3, 8)), { code: 'FORBIDDEN' });
    await gate.close();
    assert.deepEqual(
      (await looked()).collections.map(({ name, blocked, lost }: CollectionStatus) => [name, blocked, lost]),
      ['doors', 'doors (inbox)', 'faces'].map((name) => [name, 0, 0]),
    );

    await hersJson(folder, ['collections', 'delete', 'doors', '--yes', '--gallery', clientUrl(2)], { env });

    // — replicas, drain —
    const cluster = (...args: string[]) => hers(folder, ['cluster', ...args, '--node-url', nodeUrl(0), ...files]);
    for (const [args, message] of [
      [['replicas', 'faces', '9'], /9 replicas need as many nodes, and this cluster has 3/],
      [['replicas', 'faces', 'many'], /replicas/],
      [['replicas', 'nobody', '2'], /there is no collection "nobody"/],
      [['drain', 'n9'], /there is no node "n9" in this cluster/],
    ] as const) {
      const refused = await cluster(...args);
      assert.notEqual(refused.exit, 0);
      assert.match(refused.err, message);
    }
    assert.match((await cluster('drain', 'n3')).out, /n3 is being emptied/);
    assert.ok((await looked()).nodes.find(({ name }: NodeStatus) => name === 'n3').draining);
    assert.match((await cluster('drain', 'n3', '--undo')).out, /n3 keeps shards again/);
    assert.match((await cluster('replicas', 'faces', '2')).out, /faces gets 2 replicas/);
    assert.match((await cluster('drain', 'n3')).out, /n3 is being emptied/);
    await until('n3 is empty', async () => {
      const now = await looked();
      const empty = now.nodes.find(({ name }: NodeStatus) => name === 'n3').shards === 0;
      const fewer = now.collections.every(({ replicas }: CollectionStatus) => replicas === 2);
      return empty && now.moves.length === 0 && fewer;
    });
    assert.match((await cluster('status')).out, /n3\t.*up, empty/);
    assert.equal(await find(2), 'p2');

    // — stopped in order, and examined —
    const ended = once(nodes[2], 'exit');
    nodes[2].kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
    const { findings } = await hersJson(folder, ['doctor', '--gallery', './n3', '--key', 'hers.key']);
    const node = findings.find(({ check }: { check: string }) => check === 'node');
    assert.match(JSON.stringify(node), /a node of a cluster of 3 nodes \(n1, n2, n3\): 0 shards of 1 collection/);
    const without = await looked(1);
    assert.notEqual(without.nodes.find(({ name }: NodeStatus) => name === 'n3').error, undefined);
    assert.equal(await find(1), 'p2');
  } finally {
    for (const child of children) child.kill('SIGKILL');
  }
});
