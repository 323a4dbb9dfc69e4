// deploy/: what can be checked without a container and without systemd.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, it } from 'node:test';

const folder = resolve(import.meta.dirname, '../deploy');
const read = (name: string) => readFileSync(join(folder, name), 'utf8');

describe('the systemd unit', () => {
  const tool = '/usr/bin/systemd-analyze';
  const skip = !existsSync(tool) && 'systemd-analyze is not installed';
  const analyze = (...args: string[]) => spawnSync(tool, [...args, join(folder, 'hers.service')], { encoding: 'utf8' });

  it('is understood, without a word', { skip }, () => {
    const { status, stdout, stderr } = analyze('verify');
    assert.deepEqual([status, stdout, stderr], [0, '', '']);
  });

  it('leaves little open', { skip }, () => {
    const { stdout } = analyze('security', '--offline=true', '--no-pager');
    const [, exposure] = /Overall exposure level for hers\.service: ([\d.]+)/.exec(stdout)!;
    assert.ok(Number(exposure) < 2, exposure);
  });
});

it('the container and the unit agree on where things are, and with the proxy', () => {
  const container = read('Containerfile');
  const port = /EXPOSE (\d+)/.exec(container)![1]!;
  assert.match(read('Caddyfile'), new RegExp(`reverse_proxy hers:${port} `));
  assert.match(read('hers.service'), new RegExp(`--port ${port}$`, 'm'));
  assert.match(container, new RegExp(`http://127\\.0\\.0\\.1:${port}/readyz`));
  assert.match(container, /^USER node$/m);
  assert.match(read('compose.yaml'), /^ {2}hers:$/m);
  for (const variable of ['HERS_GALLERY', 'HERS_TOKENS'])
    for (const name of ['Containerfile', 'hers.service']) assert.match(read(name), new RegExp(`${variable}=/`), name);
});
