import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { copyFile, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { startServer } from '@hers/server';
import { Samples } from '@hers/service/samples';
import { openStore } from '@hers/store';
import { type Certified, certifiedBy } from './certified.ts';
import { type ClusterCalls, fencedShards } from './fence.ts';
import { CLUSTER_FILES, initCluster } from './init.ts';
import { HttpShards } from './transport.ts';

const skip = spawnSync('openssl', ['version']).status === 0 ? false : 'install openssl';

it('nodes show certificates of their authority to each other, and nobody else is let in', { skip }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-certified-'));
  const filesOf = async (cluster: string) => {
    const [made] = await initCluster(join(folder, cluster), { hosts: ['127.0.0.1'], cluster });
    const at = (name: keyof typeof CLUSTER_FILES) => join(made, CLUSTER_FILES[name]);
    return { authority: at('authority'), cert: at('certificate'), key: at('privateKey') };
  };
  const [ours, theirs] = [await filesOf('ours'), await filesOf('theirs')];
  const store = await openStore(join(folder, 'store'));
  const calls: ClusterCalls = {
    drain: async () => {},
    setReplicas: async () => {},
    damaged() {},
    async *lists() {},
    knowsDirectory: () => true,
  };
  const server = await startServer(store, { port: 0, tls: ours, shards: fencedShards(store, () => calls) });
  const reach = (certified: Certified) => new HttpShards(server.url, { certified });
  let state = '';
  const search = (shards: HttpShards) => Array.fromAsync(shards.searchShards([{ name: 'c', version: 2, state }], []));
  const known = reach(certifiedBy(ours));
  try {
    const samples = new Samples(1);
    const created = { id: samples.id(), descriptor: samples.bytes(9), manifest: samples.bytes(9) };
    await known.createCollection('c', created);
    // A body that is streamed, and an answer in many pieces.
    const records = Array.from({ length: 90 }, () => samples.record(200_000));
    const stage = await known.stageRecords('c', records);
    await known.commit('c', { expected: 1, manifest: samples.bytes(9), records: [stage] });
    const handles = records.map(({ handle }) => handle);
    const found = await Array.fromAsync(known.getRecords('c', handles));
    for (const [i, { sealed }] of found.entries()) assert.equal(Buffer.compare(sealed, records[i].sealed), 0);
    // Ended in the middle, by the reader and by a signal.
    for await (const _ of known.getRecords('c', handles)) break;
    const ending = new AbortController();
    const reason = new Error('enough');
    await assert.rejects(async () => {
      for await (const _ of known.getRecords('c', handles, { signal: ending.signal })) ending.abort(reason);
    }, reason);
    // Answers that nobody reads, or somebody waits for, are ended with their connections.
    const { fetch, agent } = certifiedBy(ours);
    for (const waits of [false, true]) {
      const reader = (await fetch(`${server.url}/healthz`)).body!.getReader();
      if (waits) await reader.read();
      const rest = waits ? reader.read() : undefined;
      await reader.cancel();
      await rest;
      while (Object.keys(agent().sockets).length > 0) await pause(10);
    }
    await assert.rejects(known.getCollection('other'), { code: 'NOT_FOUND' });
    ({ state } = await known.getState('c'));
    assert.deepEqual(await search(known), []);

    // Without a certificate, and with one of another authority, which trusts this server.
    const mixed = { ...theirs, authority: ours.authority };
    for (const certified of [certifiedWithout(ours.authority), certifiedBy(mixed)]) {
      const stranger = reach(certified);
      await assert.rejects(stranger.listCollections(), { code: 'UNAVAILABLE' });
      await assert.rejects(search(stranger), { code: 'UNAVAILABLE' });
      await stranger.close();
    }
    // A server of another authority is not spoken to.
    const other = reach(certifiedBy(theirs));
    await assert.rejects(other.listCollections(), { code: 'UNAVAILABLE' });
    await assert.rejects(search(other), { code: 'UNAVAILABLE' });
    await other.close();

    // Renewed files are read again; those that are being replaced are not.
    const moving = { ...ours, cert: join(folder, 'moving.crt'), key: join(folder, 'moving.key') };
    const put = async (from: typeof ours) => {
      await copyFile(from.key, moving.key);
      await copyFile(from.cert, moving.cert);
    };
    await put(ours);
    const renewed = reach(certifiedBy(moving));
    await renewed.listCollections();
    await writeFile(moving.cert, 'half of it');
    await utimes(moving.cert, new Date(), new Date(Date.now() + 5000));
    await new Promise((go) => setTimeout(go, 2100));
    await renewed.listCollections();
    await put(ours);
    await renewed.listCollections();
    await renewed.close();
    assert.throws(() => certifiedBy({ ...ours, key: theirs.key }), { code: 'INVALID_ARGUMENT' });
    assert.throws(() => certifiedBy({ ...ours, cert: join(folder, 'none') }), { code: 'INVALID_ARGUMENT' });
  } finally {
    await known.close();
    await server.close();
    await rm(folder, { recursive: true });
  }
});

/** Trusts the authority, and shows nothing. */
function certifiedWithout(authority: string): Certified {
  const agent = new Agent({ ca: readFileSync(authority) });
  const ask: typeof fetch = (input, init) =>
    new Promise((resolve, reject) => {
      const asked = request(String(input), { method: init?.method ?? 'GET', agent });
      asked.on('error', (cause) => reject(new TypeError('fetch failed', { cause })));
      asked.on('response', ({ statusCode }) => resolve(new Response(null, { status: statusCode ?? 500 })));
      asked.end();
    });
  return { fetch: ask, agent: () => agent };
}
