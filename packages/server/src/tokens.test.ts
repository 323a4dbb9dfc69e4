// A token file that several processes change.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { TokenStore } from './tokens.ts';

describe('a token file', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hers-tokens-'));
  });
  after(() => rm(folder, { recursive: true }));

  /** A process with a TokenStore in `tokens`; what it prints, and how it ends. */
  async function inProcess(path: string, body: string): Promise<{ exit: number | null; signal: string; out: string }> {
    const script = `
      import { TokenStore } from ${JSON.stringify(import.meta.resolve('./tokens.ts'))};
      const tokens = new TokenStore(${JSON.stringify(path)});
      ${body}`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let out = '';
    child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
    const [exit, signal] = await once(child, 'close');
    return { exit, signal, out };
  }

  const ids = async (path: string) => (await new TokenStore(path).list()).map(({ id }) => id).sort();

  it('keeps every token that several processes make at once, beside a lock that an earlier program left', async () => {
    const path = join(folder, 'a.json');
    await writeFile(`${path}.lock`, '');
    const body = `for (let i = 0; i < 8; i++) console.log((await tokens.create({ scope: 'search' })).token.id);`;
    const ended = await Promise.all(Array.from({ length: 4 }, () => inProcess(path, body)));
    for (const { exit } of ended) assert.equal(exit, 0);
    const made = ended.flatMap(({ out }) => out.trim().split('\n'));
    assert.equal(made.length, 32);
    assert.deepEqual(await ids(path), made.sort());
  });

  it('is not held up by a process that was killed while it changed it', async () => {
    const path = join(folder, 'b.json');
    const { token } = await new TokenStore(path).create({ scope: 'admin' });
    // What it writes ends it, in the middle of the change.
    const { signal } = await inProcess(
      path,
      `await tokens.create({ scope: 'search', note: { toJSON: () => process.kill(process.pid, 'SIGKILL') } });`,
    );
    assert.equal(signal, 'SIGKILL');
    assert.deepEqual(await ids(path), [token.id]);
    const began = performance.now();
    const { token: next } = await new TokenStore(path).create({ scope: 'search' });
    assert.ok(performance.now() - began < 4000, 'it waited for somebody who is gone');
    assert.deepEqual(await ids(path), [token.id, next.id].sort());
  });
});
