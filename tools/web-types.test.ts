// The wall around Node, for globals: what a browser runs is checked without Node's types.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { it } from 'node:test';
import { Workspace } from './workspace.ts';

const root = resolve(import.meta.dirname, '..');

it('process and Buffer are type errors in what a browser runs, and fetch is not', (t) => {
  // Inside the tree, so that packages resolve; ignored by git like everything built.
  const folder = mkdtempSync(new Workspace(root).path('client', 'build/types-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const check = (text: string) => {
    writeFileSync(join(folder, 'a.ts'), text);
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ extends: join(root, 'tsconfig.web.json'), include: [join(folder, 'a.ts')] }),
    );
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    return spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' }).stdout;
  };
  assert.equal(check("export const answer = fetch('/');\n"), '');
  assert.match(check('export const pid = process.pid;\n'), /Cannot find name 'process'/);
  assert.match(check('export const bytes = Buffer.alloc(1);\n'), /Cannot find name 'Buffer'/);
  assert.match(check("import 'node:fs';\n"), /node:fs/);
});
