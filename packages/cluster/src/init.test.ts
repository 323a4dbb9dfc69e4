// What `hers cluster init` makes is a cluster: three servers of NATS with its configuration, and
// nodes that reach them and each other over TLS.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { HersError } from '@hers/service';
import { freePorts, natsServer } from '../testing/cluster.ts';
import { CLUSTER_FILES, initCluster } from './init.ts';
import { newestOf } from './ledger.ts';
import { openNatsLedger } from './ledger-nats.ts';
import { NatsConnection } from './nats.ts';

const nats = natsServer();
const hasOpenssl = spawnSync('openssl', ['version']).status === 0;
const skip = nats.skip || (hasOpenssl ? false : 'install openssl');

it('the files of a cluster: who has them is let in, for what a node needs, and nobody else', { skip }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-init-'));
  const hosts = ['127.0.0.1', 'localhost'];
  const ports = await freePorts(4);
  const children: ReturnType<typeof spawn>[] = [];
  try {
    const folders = await initCluster(join(folder, 'made'), {
      hosts,
      spare: ['spare.example'],
      store: './store',
      withoutSync: true,
      ports: (i) => ({ client: ports[2 * i], route: ports[2 * i + 1] }),
    });
    // A machine more: all but the configuration of a server of NATS, which the others do not know.
    const spare = folders.pop()!;
    const { nats: _, ...files } = CLUSTER_FILES;
    assert.deepEqual((await readdir(spare)).sort(), Object.values(files).sort());
    assert.doesNotMatch(await readFile(join(folders[0], CLUSTER_FILES.nats), 'utf8'), /spare/);
    await assert.rejects(initCluster(join(folder, 'made'), { hosts }), { code: 'ALREADY_EXISTS' });
    await assert.rejects(initCluster(join(folder, 'other'), { hosts: ['a b'] }), { code: 'INVALID_ARGUMENT' });
    await assert.rejects(initCluster(join(folder, 'other'), { hosts: ['a', 'a'] }), { code: 'INVALID_ARGUMENT' });
    await assert.rejects(initCluster(join(folder, 'other'), { hosts, spare: hosts }), { code: 'INVALID_ARGUMENT' });
    for (const each of folders)
      for (const name of Object.values(CLUSTER_FILES))
        assert.equal((await stat(join(each, name))).mode & 0o077, 0, `${name} is for its owner alone`);
    for (const each of folders)
      children.push(spawn(nats.path!, ['-c', CLUSTER_FILES.nats, '-l', 'log'], { cwd: each, stdio: 'ignore' }));
    const read = (name: keyof typeof CLUSTER_FILES) => readFile(join(spare, CLUSTER_FILES[name]), 'utf8');
    const [ca, cert, key] = [await read('authority'), await read('certificate'), await read('privateKey')];
    const servers = (await read('servers')).trim().split(',');
    const ledger = await openNatsLedger({ servers, replicas: 2, tls: { ca, cert, key } });
    const position = await ledger.append('topic', 0, new Uint8Array([1, 2, 3]));
    assert.equal((await newestOf(ledger, 'topic'))?.position, position);
    await ledger.trim('topic', 1);

    const within = async (
      options: ConstructorParameters<typeof NatsConnection>[0],
      work: (c: NatsConnection) => Promise<unknown>,
    ) => {
      const connection = new NatsConnection(options);
      try {
        for (let left = 60; left > 0 && !connection.isOpen; left--)
          await new Promise((resolve) => setTimeout(resolve, 25));
        return await work(connection);
      } finally {
        await connection.close();
      }
    };
    // Not without a certificate of this authority, nor without the password.
    for (const options of [
      { servers, tls: { ca } },
      { servers: servers.map((url) => url.replace(/:[^:@]+@/, ':wrong@')), tls: { ca, cert, key } },
    ])
      assert.equal(await within(options, async (connection) => connection.isOpen), false);
    // Nor for anything but the ledger.
    await within({ servers, tls: { ca, cert, key } }, async (connection) => {
      assert.ok(connection.isOpen);
      await assert.rejects(
        connection.request('$JS.API.STREAM.DELETE.hers-ledger', new Uint8Array(0), { timeoutMs: 500 }),
        (error) => error instanceof HersError && error.code === 'UNAVAILABLE',
      );
    });
    assert.ok(await newestOf(ledger, 'topic'));
    await ledger.close();
  } finally {
    for (const child of children) child.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  }
});
