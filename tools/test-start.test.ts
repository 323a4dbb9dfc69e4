// What tools/test-start.mjs gives up is a name, and not a failure.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

const folder = mkdtempSync(join(tmpdir(), 'hers-test-start-'));
after(() => rmSync(folder, { recursive: true }));

/** Runs a test with this body, and what comes after it, in a process of its own. */
function run(body: string, behind = ''): { status: number | null; stdout: string } {
  const file = join(folder, 'one.test.mjs');
  writeFileSync(
    file,
    `import { executionAsyncId } from 'node:async_hooks';
     import { before, describe, test } from 'node:test';
     import { setTimeout as pause } from 'node:timers/promises';
     test('one', async () => { ${body} });
     ${behind}`,
  );
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const start = join(import.meta.dirname, 'test-start.mjs');
  return spawnSync(process.execPath, ['--import', start, file], { env, encoding: 'utf8' });
}

test('an error that is thrown where nobody catches it fails the file, and is printed', () => {
  const { status, stdout } = run("setTimeout(() => { throw new Error('late'); }); await pause(20);");
  assert.equal(status, 1);
  assert.match(stdout, /late/);
});

test('a rejection that nobody handles fails the file, and is printed', () => {
  const { status, stdout } = run("Promise.reject(new Error('unheard')); await pause(20);");
  assert.equal(status, 1);
  assert.match(stdout, /unheard/);
});

test('nobody follows promises: they have no number', () => {
  const { status, stdout } = run("await null; console.log('number', executionAsyncId());");
  assert.equal(status, 0);
  assert.match(stdout, /^number 0$/m);
});

test('a suite keeps its hooks and its tests', () => {
  const inner = "before(() => console.log('before')); test('two', async () => { await null; console.log('two'); });";
  const { status, stdout } = run("await null; console.log('one');", `describe('suite', () => { ${inner} });`);
  assert.equal(status, 0);
  assert.deepEqual(stdout.match(/^(?:one|before|two)$/gm), ['one', 'before', 'two']);
  assert.match(stdout, /^▶ suite$/m);
});
