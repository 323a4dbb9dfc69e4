// Strangers cannot fill the disk with lines, and nothing of theirs is passed over in silence.

import assert from 'node:assert/strict';
import fs, { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type AuditEntry, openAudit } from './audit.ts';

describe('the audit log', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hers-audit-'));
  });
  after(() => rm(folder, { recursive: true }));

  const linesOf = async (path: string) =>
    (await readFile(path, 'utf8'))
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line));
  const stranger = (address: string, code = 'UNAUTHENTICATED'): AuditEntry => ({
    time: '2026-01-01T00:00:00.000Z',
    address,
    operation: 'search',
    status: code === 'NOT_FOUND' ? 404 : 401,
    code,
  });
  const friend = { ...stranger('10.0.0.1'), token: '0123456789ab', status: 200 };

  it('holds sixty lines of strangers a minute, how many were left out, and every line of a token', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 0 });
    const path = join(folder, 'a');
    const audit = openAudit(path, { limitStrangers: true });
    for (let i = 0; i < 1000; i++) {
      audit.write(stranger(`10.0.${i % 50}.1`, i % 4 === 0 ? 'NOT_FOUND' : undefined));
      if (i % 10 === 0) audit.write(friend);
    }
    const kinds = async () => {
      const lines = await linesOf(path);
      const of = (is: (line: AuditEntry) => boolean) => lines.filter(is).length;
      return [
        of(({ token }) => token !== undefined),
        of(({ token, operation }) => token === undefined && operation !== 'leftOut'),
        of(({ operation }: { operation: string }) => operation === 'leftOut'),
      ];
    };
    assert.deepEqual(await kinds(), [100, 60, 0]);
    t.mock.timers.tick(59_999);
    assert.deepEqual(await kinds(), [100, 60, 0]);
    t.mock.timers.tick(1);
    assert.deepEqual(await kinds(), [100, 60, 1]);
    const { addresses, ...rest } = (await linesOf(path)).at(-1);
    assert.deepEqual(rest, {
      time: '1970-01-01T00:01:00.000Z',
      operation: 'leftOut',
      requests: 940,
      codes: { UNAUTHENTICATED: 705, NOT_FOUND: 235 },
    });
    assert.equal(Object.keys(addresses).length, 16);

    // A quiet minute says nothing, and the next sixty are written again.
    t.mock.timers.tick(600_000);
    assert.deepEqual(await kinds(), [100, 60, 1]);
    for (let i = 0; i < 61; i++) audit.write(stranger('10.0.0.2'));
    assert.deepEqual(await kinds(), [100, 120, 1]);
    audit.close();
    assert.deepEqual(await kinds(), [100, 120, 2]);
    const last = (await linesOf(path)).at(-1);
    assert.deepEqual([last.requests, last.addresses], [1, { '10.0.0.2': 1 }]);
    // Nothing comes after the end.
    audit.write(friend);
    audit.close();
    t.mock.timers.tick(600_000);
    assert.deepEqual(await kinds(), [100, 120, 2]);
  });

  it('keeps the numbers of a minute that it cannot write down, and writes them later', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 0 });
    const path = join(folder, 'd');
    const audit = openAudit(path, { limitStrangers: true });
    for (let i = 0; i < 70; i++) audit.write(stranger('10.0.0.3'));
    t.mock.method(fs, 'writeSync', () => {
      throw Object.assign(new Error('ENOSPC: so says the test'), { code: 'ENOSPC' });
    });
    syncBuiltinESMExports();
    try {
      t.mock.timers.tick(60_000);
      assert.throws(() => audit.write(friend), { code: 'ENOSPC' });
    } finally {
      t.mock.restoreAll();
      syncBuiltinESMExports();
    }
    assert.equal((await linesOf(path)).length, 60);
    t.mock.timers.tick(60_000);
    const lines = await linesOf(path);
    assert.equal(lines.length, 61);
    const { operation, requests, addresses } = lines.at(-1);
    assert.deepEqual([operation, requests, addresses], ['leftOut', 10, { '10.0.0.3': 10 }]);
    audit.close();
  });

  it('refuses options that it does not know', () => {
    const misspelt = { limitStranger: true } as object;
    assert.throws(() => openAudit(join(folder, 'c'), misspelt), { message: /no option "limitStranger"; did you mean/ });
    assert.ok(!existsSync(join(folder, 'c')));
  });

  it('holds everything where there are no tokens, for then nobody is a stranger', async () => {
    const path = join(folder, 'b');
    const audit = openAudit(path);
    for (let i = 0; i < 200; i++) audit.write(stranger('127.0.0.1', 'NOT_FOUND'));
    audit.close();
    assert.equal((await linesOf(path)).length, 200);
  });
});
