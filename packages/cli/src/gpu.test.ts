// A server and `hers doctor` with a GPU: the device's code compiled for the host.
//
// Long: the kernel and the ranking have their own tests in cuda.

import assert from 'node:assert/strict';
import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { emulatedCuda, emulatedDecrypt } from '@hers/cuda/testing/emulation';
import { part } from '../../../tools/parts.ts';
import { hers, hersJson, PEOPLE, Prepared, serve, temporaryFolder, vectorOf, writeGallery } from '../testing/cli.ts';

const compiler = part('compiler');

describe('with a GPU, emulated', { skip: compiler.skip }, () => {
  let prepared: Prepared;
  let tools: Awaited<ReturnType<typeof temporaryFolder>>;
  before(async () => {
    prepared = await Prepared.make(writeGallery);
    tools = await temporaryFolder();
    const folder = join(tools.path, 'cuda');
    await mkdir(folder);
    await symlink(await emulatedCuda(), join(folder, 'hers_cuda.node'));
    await symlink(await emulatedDecrypt(), join(folder, 'hers_decrypt.node'));
    process.env.HERS_CUDA = folder;
  });
  after(async () => {
    delete process.env.HERS_CUDA;
    delete process.env.HERS_EMULATION_FAILS;
    await prepared.remove();
    await tools[Symbol.asyncDispose]();
  });

  const metric = async ({ url, token }: { url: string; token: string }, name: string) => {
    const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(answer.status, 200);
    const lines = (await answer.text()).split('\n');
    const line = lines.find((each) => each.startsWith(`hers_device_${name} `));
    return line === undefined ? undefined : Number(line.split(' ')[1]);
  };

  test('doctor shows the device, its memory, its driver, and how fast both ways are', async () => {
    const { out } = await hers(await prepared.copy(), ['doctor']);
    const found =
      /cuda \(emulation, 16 GiB, a driver for CUDA 12\.0\), the fastest that works here; [\d.]+ GB of its memory free, copied at [\d.]+ \w+\/s, reached from here at [\d.]+ \w+\/s/;
    assert.match(out, found);
    process.env.HERS_EMULATION_FAILS = 'no-device';
    const { out: without } = await hers(await prepared.copy(), ['doctor']);
    assert.match(without, /the cuda kernel cannot be used: there is no NVIDIA driver on this machine/);
    const { err } = await hers(await prepared.copy(), [
      'search',
      JSON.stringify([...vectorOf(2.2)]),
      '--kernel',
      'cuda',
      '--collection',
      'faces',
    ]);
    assert.match(err, /the cuda kernel cannot be used: there is no NVIDIA driver/);
    delete process.env.HERS_EMULATION_FAILS;
  });

  test('a server scans there, says so in its metrics, and goes on with the CPU when it fails', async () => {
    const folder = await prepared.copy();
    const { token } = await hersJson(folder, ['tokens', 'create', '--scope', 'admin']);
    const probe = JSON.stringify([...vectorOf(2.2)]);
    const env = { HERS_TOKEN: token };
    await using server = await serve(folder, '--kernel', 'cuda', '--device-memory', '1000000000');
    const at = { url: server.url, token };
    const key = ['--gallery', server.url, '--key', join(folder, 'hers.key'), '--collection', 'faces'];
    const best = async () => (await hersJson(tools.path, ['search', probe, ...key], { env })).matches[0].id;
    assert.equal(await metric(at, 'segments'), undefined);
    assert.equal(await best(), PEOPLE[2]);
    const [segments, bytes] = [await metric(at, 'segments'), await metric(at, 'gallery_bytes')];
    assert.ok(segments! >= 1 && bytes! > 0, `${segments} segments, ${bytes} bytes`);
    assert.deepEqual([await metric(at, 'cpu_segments'), await metric(at, 'failed')], [0, 0]);
    process.env.HERS_EMULATION_FAILS = 'lost:0';
    assert.equal(await best(), PEOPLE[2]); // the client retries what is UNAVAILABLE
    assert.deepEqual([await metric(at, 'failed'), await metric(at, 'gallery_bytes')], [1, 0]);
    assert.ok((await metric(at, 'cpu_segments'))! >= 1);
    assert.equal(await best(), PEOPLE[2]);
    delete process.env.HERS_EMULATION_FAILS;
  });

  test('what may not be on the device is scanned elsewhere', async () => {
    const folder = await prepared.copy();
    const probe = JSON.stringify([...vectorOf(2.2)]);
    const { matches } = await hersJson(folder, ['search', probe, '--collection', 'faces', '--device-memory', '0']);
    assert.equal(matches[0].id, PEOPLE[2]);
  });
});
