// Every export says its type. Tables are the exception: their keys are the type, written once.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import { it } from 'node:test';

const root = resolve(import.meta.dirname, '..');

const TABLES = [
  'packages/cli/src/settings.ts',
  'packages/lab/src/engine-paper.ts',
  'packages/lab/src/experiments/plot.ts',
  'packages/paper/src/parameters.ts',
  'packages/scheme/src/errors.ts',
  'packages/server/src/limits.ts',
  'packages/server/src/schemas.ts',
];

it('exports have explicit types, tables aside', () => {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const { stdout } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.declarations.json'], {
    cwd: root,
    encoding: 'utf8',
  });
  const found = stdout
    .split('\n')
    .filter((line) => /error TS90\d\d:/.test(line) && !/\/(?:testing|build)\//.test(line));
  const file = (line: string) => line.slice(0, line.indexOf('('));
  assert.deepEqual(
    found.filter((line) => !TABLES.includes(file(line))),
    [],
  );
  // The check itself works as long as it finds these.
  assert.deepEqual([...new Set(found.map(file))].sort(), TABLES);
});
