import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const script = fileURLToPath(new URL('./tour.ts', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'hers-start-test-'));
after(() => rmSync(folder, { recursive: true }));
const env = { ...process.env, TMPDIR: folder };

const start = (...args: string[]) => spawnSync(process.execPath, [script, ...args], { encoding: 'utf8', env });

test('the demonstration searches encrypted, finds what a search in the clear finds, ends by itself and leaves nothing behind', () => {
  const { status, stdout, stderr } = start('--identities', '3000', '--dimension', '64', '--probes', '30');
  assert.equal(status, 0, stderr);
  const [, encrypted, clear] = /rank-1 accuracy.*?\s+([\d.]+)\s+([\d.]+)/.exec(stdout) ?? assert.fail(stdout);
  assert.ok(Number(clear) > 0.5 && Math.abs(Number(encrypted) - Number(clear)) <= 0.05, `${encrypted} and ${clear}`);
  for (const shown of [/time of a search/, /bytes of a query\s+[\d.]+ [kM]B/, /bytes scanned/, /templates\/s/])
    assert.match(stdout, shown);
  assert.match(stdout, /vault\/1-1\.pack/);
  assert.match(
    stdout,
    /encrypted templates, from byte [\d,]+ of (blocks|segments)\/.*\n {4}([0-9a-f]{8} ){7}[0-9a-f]{8}\n/,
  );
  assert.equal(stdout.match(/^ {4}([0-9a-f]{8} ){4}.* bytes$/gm)?.length, 3);
  assert.match(stdout, /hers import vectors\.npy/);
  assert.deepEqual(readdirSync(folder), []);
});

test('Ctrl-C ends it, and removes its folder', async () => {
  const child = spawn(process.execPath, [script, '--identities', '200000'], { env, stdio: 'ignore' });
  while (readdirSync(folder).length === 0) await pause(20);
  await pause(500);
  child.kill('SIGINT');
  child.kill('SIGINT'); // npm and a terminal both send one
  const [code] = await once(child, 'close');
  assert.equal(code, 130);
  assert.deepEqual(readdirSync(folder), []);
});

test('bad arguments are answered by one sentence', () => {
  const { status, stderr } = start('--identities', 'many');
  assert.equal(status, 2);
  assert.match(stderr, /^"many" is not a positive whole number\n$/);
});
