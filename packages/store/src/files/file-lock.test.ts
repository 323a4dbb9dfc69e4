// One holder at a time, and a lock never outlives its holder.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { HersError } from '@hers/service';
import { lockFile } from './file-lock.ts';

describe('a lock', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hers-lock-'));
  });
  after(() => rm(folder, { recursive: true }));
  const fails = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;
  const module = JSON.stringify(import.meta.resolve('./file-lock.ts'));

  /** A process that takes a lock, reports it, and keeps it. */
  async function holder(path: string) {
    const script = `import { lockFile } from ${module}; const lock = await lockFile(${JSON.stringify(path)}, 0); console.log('held'); setInterval(() => lock, 1000);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(child.stdout, 'data');
    return child;
  }

  it('is held by one at a time, and is for its owner alone', async () => {
    const path = join(folder, 'a.lock');
    const lock = await lockFile(path, 0);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    await assert.rejects(lockFile(path, 50), fails('LOCKED'));
    // A refused attempt does not release the holder's lock: another process finds it held too.
    const script = `import { lockFile } from ${module}; await lockFile(${JSON.stringify(path)}, 0);`;
    const other = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'ignore' });
    assert.notEqual((await once(other, 'close'))[0], 0);
    const waiting = lockFile(path, 5000);
    lock.release();
    (await waiting).release();
  });

  it('ends with the process that held it, also by kill -9', async () => {
    const path = join(folder, 'b.lock');
    const child = await holder(path);
    await assert.rejects(lockFile(path, 50), fails('LOCKED'));
    const waiting = lockFile(path, 5000);
    child.kill('SIGKILL');
    (await waiting).release();
  });

  it('is an empty file that anybody may have left; whatever else has the name stays as it is', async () => {
    const path = join(folder, 'c.lock');
    await writeFile(path, '');
    await chmod(path, 0o644);
    (await lockFile(path, 0)).release();
    assert.equal((await stat(path)).size, 0);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    await writeFile(path, 'precious');
    await assert.rejects(lockFile(path, 5000), fails('LOCKED'));
    assert.equal(await readFile(path, 'utf8'), 'precious');
    await symlink(path, join(folder, 'd.lock'));
    await assert.rejects(lockFile(join(folder, 'd.lock'), 0), fails('INVALID_ARGUMENT'));
    await assert.rejects(lockFile(join(folder, 'none/e.lock'), 0), { code: 'ENOENT' });
  });
});
