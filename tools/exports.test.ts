import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { it } from 'node:test';
import { deadExports } from './exports.ts';

it('finds exports that no other file uses', () => {
  const root = mkdtempSync(join(tmpdir(), 'hers-exports-'));
  const files: Record<string, string> = {
    'package.json': '{ "workspaces": ["packages/*"] }',
    'packages/a/package.json': '{}',
    'packages/a/src/index.ts': "export { used } from './a.ts';\n",
    'packages/a/src/a.ts':
      'export interface Options {}\nexport interface Unused {}\nexport const used = (o: Options) => o;\nexport function dead() {}\nfunction inner() {}\n',
  };
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  assert.deepEqual(
    deadExports(root).map(({ line, name }) => [line, name]),
    [
      [2, 'Unused'],
      [4, 'dead'],
    ],
  );
  rmSync(root, { recursive: true });
});
