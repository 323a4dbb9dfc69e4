// Every TypeScript example of the documents runs.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { it } from 'node:test';
import { Workspace } from './workspace.ts';

const root = resolve(import.meta.dirname, '..');
// Beside the packages, so that `@hers/…` resolves as it does for a user; ignored by git like
// everything built.
const workspace = new Workspace(root);
const folder = workspace.path('trials', 'build/examples');

for (const document of [...globSync(['*.md', 'docs/**/*.md'], { cwd: root }), ...workspace.glob('*.md')].sort()) {
  const examples = [...readFileSync(join(root, document), 'utf8').matchAll(/^```ts\n(.*?)^```/gms)];
  examples.forEach(([, code], i) => {
    it(`${document}, example ${i + 1}`, () => {
      mkdirSync(folder, { recursive: true });
      const file = join(folder, `${document.replaceAll('/', '-')}-${i + 1}.ts`);
      writeFileSync(file, code);
      // A folder of its own, as a reader would have.
      const cwd = mkdtempSync(join(tmpdir(), 'hers-example-'));
      const { status, stderr } = spawnSync(process.execPath, [file], { cwd, encoding: 'utf8', timeout: 60_000 });
      rmSync(cwd, { recursive: true });
      rmSync(file);
      assert.equal(status, 0, stderr);
    });
  });
}
