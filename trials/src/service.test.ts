// The short forms of the campaigns against a server in its own process.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { idleConnections } from './campaigns/connections.ts';
import { killDevices } from './campaigns/kill-devices.ts';
import { killService } from './campaigns/kill-service.ts';
import { soakService } from './campaigns/soak-service.ts';

it('a server killed three times under load: clients go on by themselves, nothing acknowledged is lost', async (t) => {
  const { written, searches, retries } = await killService(3);
  t.diagnostic(`${written} records and ${searches} searches, ${retries} attempts repeated`);
  assert.ok(written > 0 && searches > 0 && retries > 0);
});

it('server, keeper and owner killed four times while devices ask and enrol: each question once, nothing lost', async (t) => {
  const { kills, ...rest } = await killDevices(4);
  t.diagnostic(JSON.stringify({ kills, ...rest }));
  assert.deepEqual(kills, { server: 2, keeper: 1, owner: 1 });
  // After an early rotation of the key all devices may have been refused, as they must.
  assert.ok(rest.asked > 0);
});

it('three hundred searches over HTTP with writes and rude clients in between: right answers, flat memory', async () => {
  const lines: string[] = [];
  assert.ok(await soakService(300, (line) => lines.push(line)), lines.join('\n'));
});

it('a thousand idle connections, or as many as the descriptor limit allows', async (t) => {
  assert.ok(await idleConnections(1000, (line) => t.diagnostic(line)));
});

it('the benchmark of the service prints the names that are followed over time', () => {
  const command = fileURLToPath(new URL('./bench/bench.ts', import.meta.url));
  const args = ['service', '--count', '5000', '--dimension', '16', '--searches', '4', '--seconds', '1', '--json'];
  const { status, stdout, stderr } = spawnSync(process.execPath, [command, ...args], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  const { bench, results } = JSON.parse(stdout);
  assert.equal(bench, 'service');
  const values = new Map(results.map(({ name, value }: { name: string; value: number }) => [name, value]));
  const names =
    'enrol-rate search-p50 search-p95 search-encrypt search-scan search-decrypt bytes-up bytes-down plaintext-p50 searches-per-second peak-rss-server peak-rss-client';
  for (const name of names.split(' ')) assert.ok(Number(values.get(name)) > 0, name);
});
