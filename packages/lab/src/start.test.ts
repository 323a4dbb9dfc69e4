import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const start = (...args: string[]) =>
  spawnSync(process.execPath, [fileURLToPath(new URL('./start.ts', import.meta.url)), ...args], { encoding: 'utf8' });

test('the demonstration searches encrypted, finds what a search in the clear finds, and ends by itself', () => {
  const { status, stdout, stderr } = start('--identities', '1500', '--dimension', '64', '--probes', '40');
  assert.equal(status, 0, stderr);
  const [, encrypted, clear] = /rank-1 accuracy\s+([\d.]+)\s+([\d.]+)/.exec(stdout) ?? assert.fail(stdout);
  assert.ok(Number(clear) > 0.5 && Math.abs(Number(encrypted) - Number(clear)) <= 0.05, `${encrypted} and ${clear}`);
  assert.match(stdout, /What the server could see/);
});

test('bad arguments are answered by one sentence', () => {
  const { status, stderr } = start('--identities', 'many');
  assert.equal(status, 2);
  assert.match(stderr, /^"many" is not a positive whole number\n$/);
});
