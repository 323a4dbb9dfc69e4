// The examples as a reader would have them: copied out of the clone, on installed packages.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, it } from 'node:test';

const root = resolve(import.meta.dirname, '..');
const examples = join(root, 'examples');

/** Copies an example into an installed project, and checks that it asks for nothing else. */
export function copyExample(name: string, project: string): string {
  const folder = join(project, `example-${name}`);
  cpSync(join(examples, name), folder, { recursive: true });
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  for (const [dependency, range] of Object.entries<string>(dependencies)) {
    const manifest = join(project, 'node_modules', dependency, 'package.json');
    const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
    const [major, minor] = range.replace(/^\^/, '').split('.').map(Number);
    const [hasMajor, hasMinor] = version.split('.').map(Number);
    assert.ok(
      major === hasMajor && hasMinor! >= minor!,
      `${name} asks for ${dependency} ${range}, and it is ${version}`,
    );
  }
  return folder;
}

/** A float32 vector as numpy.save writes it. */
function npy(vector: readonly number[]): Buffer {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${vector.length},), }`;
  const header = Buffer.from(`${text.padEnd(118 - 1)}\n`, 'latin1');
  const start = Buffer.from([0x93, ...Buffer.from('NUMPY'), 1, 0, 0, 0]);
  start.writeUInt16LE(header.length, 8);
  return Buffer.concat([start, header, Buffer.from(Float32Array.from(vector).buffer)]);
}

/** Waits for a line that says `at ADDRESS`; returns it and everything before it. */
async function address(child: ChildProcess): Promise<{ address: string; said: string }> {
  let said = '';
  for await (const text of child.stdout!.setEncoding('utf8')) {
    said += text;
    const [, found] = /^at (\S+)$/m.exec(said) ?? [];
    if (found !== undefined) return { address: found, said };
  }
  throw new Error(`it ended without an address: ${said}`);
}

async function stop(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null]);
}

/** Tests of all examples that need no browser, in a project that has `hers`. */
export function testExamples(project: () => string, env: NodeJS.ProcessEnv): void {
  const run = (cwd: string, ...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, args, {
      cwd,
      env,
      encoding: 'utf8',
      timeout: 120_000,
    });
    assert.equal(status, 0, `${stdout}${stderr}`);
    return stdout;
  };
  /** One dimension of many, with some of the others. */
  const person = (index: number, other = 0) =>
    Array.from({ length: 64 }, (_, i) => (i === index ? 1 : other * Math.sin(i)));

  describe('an example', () => {
    it('finds a face in a folder', () => {
      const folder = copyExample('faces-in-a-folder', project());
      mkdirSync(join(folder, 'faces'));
      ['ada', 'grace', 'mary'].forEach((name, i) => {
        writeFileSync(join(folder, 'faces', `${name}.npy`), npy(person(i)));
      });
      writeFileSync(join(folder, 'probe.npy'), npy(person(1, 0.05)));
      assert.match(run(folder, 'faces.js', 'faces', 'probe.npy'), /^3 new, 0 changed, 0 as before\n0\.\d+ grace\n/);
      // A second start opens the same gallery with the same key.
      assert.match(run(folder, 'faces.js', 'faces', 'probe.npy'), /^0 new, 0 changed, 3 as before\n0\.\d+ grace\n/);
    });

    it('serves by tokens', async () => {
      const folder = copyExample('tokens', project());
      const server = spawn(process.execPath, ['server.js', '0'], { cwd: folder, env });
      try {
        const { address: at, said } = await address(server);
        const [, admin, search] = /^admin (\S+)\nsearch (\S+)\n/.exec(said)!;
        assert.equal(run(folder, 'client.js', at, admin!, search!), 'grace\nFORBIDDEN\n');
      } finally {
        await stop(server);
      }
      assert.match(readFileSync(join(folder, 'audit.jsonl'), 'utf8'), /"status":403/);
    });

    it('asks as a device, and is answered by a keeper that was away', async () => {
      // What the example installs besides, from here: nothing is fetched in tests.
      const besides = ['hpke', '@noble/ciphers', '@noble/curves', '@noble/post-quantum'];
      for (const name of besides)
        cpSync(join(root, 'node_modules', name), join(project(), 'node_modules', name), { recursive: true });
      const folder = copyExample('devices', project());
      const store = spawn(process.execPath, ['store.js', '0'], { cwd: folder, env });
      try {
        const { address: at, said } = await address(store);
        const [, keeperToken, deviceToken] = /^keeper (\S+)\ndevice (\S+)\n/.exec(said)!;
        const keep = async (until: string) => {
          const keeper = spawn(process.execPath, ['keeper.js', at, keeperToken!, deviceToken!], { cwd: folder, env });
          let output = '';
          for await (const text of keeper.stdout.setEncoding('utf8')) {
            output += text;
            if (output.includes(until)) break;
          }
          return { keeper, output };
        };
        const end = async (keeper: ChildProcess) => {
          const ended = once(keeper, 'exit');
          keeper.kill('SIGKILL');
          await ended;
        };
        await end((await keep('ready\n')).keeper);
        // Nobody answers now.
        assert.equal(run(folder, 'device.js', 'door.device', '0.1', '0.9', '0', '0.1'), 'question 1\n');
        assert.equal(run(folder, 'device.js', 'door.device', '0', '0', '0', '1'), 'question 2\n');
        const { keeper, output } = await keep('nobody\n');
        assert.equal(output, 'ready\ndoor grace\ndoor nobody\n');
        await end(keeper);
        // What was answered before it ended is not answered again.
        assert.equal(run(folder, 'device.js', 'door.device', '1', '0', '0.2', '0'), 'question 3\n');
        const again = await keep('ada\n');
        await end(again.keeper);
        assert.equal(again.output, 'ready\ndoor ada\n');
      } finally {
        await stop(store);
        for (const name of besides) rmSync(join(project(), 'node_modules', name), { recursive: true });
      }
    });

    it('streams vectors in from a worker', () => {
      const folder = copyExample('million', project());
      assert.match(run(folder, 'million.js', '3000'), /^3000 in .*\nfound v1000\n$/m);
    });

    it('enrols and verifies in an application', async () => {
      const folder = copyExample('enrol-and-verify', project());
      const app = spawn(process.execPath, ['app.js', '0'], { cwd: folder, env });
      try {
        const { address: at } = await address(app);
        const call = async (method: string, path: string, vector: readonly number[]) => {
          const headers = { 'content-type': 'application/json' };
          const response = await fetch(at + path, { method, headers, body: JSON.stringify({ vector }) });
          const text = await response.text();
          return { status: response.status, ...(text === '' ? {} : JSON.parse(text)) };
        };
        assert.equal((await call('PUT', '/people/ada', person(0))).status, 204);
        assert.equal((await call('PUT', '/people/grace', person(1))).status, 204);
        assert.equal((await call('POST', '/people/ada/verify', person(0, 0.05))).match, true);
        assert.equal((await call('POST', '/people/ada/verify', person(1, 0.05))).match, false);
        const unknown = await call('POST', '/people/mary/verify', person(2));
        assert.deepEqual([unknown.status, unknown.code], [404, 'NOT_FOUND']);
        assert.equal((await call('PUT', '/people/mary', [1, 2])).status, 400);
      } finally {
        await stop(app);
      }
    });
  });
}
