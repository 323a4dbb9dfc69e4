// Rules for types that the compiler holds for a part of the tree.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import { it } from 'node:test';
import { Workspace } from './workspace.ts';

const root = resolve(import.meta.dirname, '..');
const workspace = new Workspace(root);

/** The errors under a configuration, each with the file it is in. */
function errorsUnder(config: string): { readonly file: string; readonly line: string }[] {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const { stdout } = spawnSync(process.execPath, [tsc, '-p', config], { cwd: root, encoding: 'utf8' });
  return stdout
    .split('\n')
    .filter((line) => /error TS\d+:/.test(line))
    .map((line) => ({ file: line.slice(0, line.indexOf('(')), line }));
}

// Every export says its type. Tables are the exception: their keys are the type, written once.
const TABLES = [
  ['cli', 'src/settings.ts'],
  ['ring', 'src/native.ts'],
  ['scheme', 'src/errors.ts'],
  ['server', 'src/limits.ts'],
  ['server', 'src/schemas.ts'],
  ['paper', 'src/engines/engine-paper.ts'],
  ['paper', 'src/lab/plot.ts'],
  ['paper', 'src/system/parameters.ts'],
].map(([name, file]) => `${workspace.folder(name!)}/${file}`);

it('exports have explicit types, tables aside', () => {
  const found = errorsUnder('tsconfig.declarations.json').filter(
    ({ file, line }) => /error TS90\d\d:/.test(line) && !/^tools\/|\/(?:testing|build)\//.test(file),
  );
  assert.deepEqual(
    found.filter(({ file }) => !TABLES.includes(file)).map(({ line }) => line),
    [],
  );
  // The check itself works as long as it finds these.
  assert.deepEqual([...new Set(found.map(({ file }) => file))].sort(), TABLES);
});

it('an element that may be missing is checked, numeric packages aside', () => {
  const found = errorsUnder('tsconfig.indexed.json');
  assert.deepEqual(
    found
      .filter(({ file }) => ['service', 'server', 'cli'].includes(workspace.placeOf(file)?.name ?? ''))
      .map(({ line }) => line),
    [],
  );
  // The check itself works as long as it finds what the numeric packages do.
  assert.ok(found.some(({ file, line }) => workspace.placeOf(file)?.name === 'ring' && /TS2532:/.test(line)));
});
