import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { it } from 'node:test';
import { excesses, sizes } from './size.ts';

const lines = (count: number) => 'x;\n'.repeat(count);

it('counts source by package and group, without tests, test tools and builds', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'hers-size-'));
  t.after(() => rmSync(root, { recursive: true }));
  const files: Record<string, string> = {
    'package.json': '{ "workspaces": ["packages/*", "paper"] }',
    'packages/a/package.json': '{}',
    'packages/a/src/a.ts': lines(50),
    'packages/a/src/a.test.ts': lines(7),
    'packages/a/native/a.cc': lines(10),
    'packages/a/testing/a.ts': lines(7),
    'packages/a/build/a.ts': lines(7),
    'packages/b/package.json': '{}',
    'packages/b/src/b.ts': lines(5),
    'paper/package.json': '{}',
    'paper/src/p.ts': lines(60),
    'tools/t.ts': lines(3),
    'examples/e/e.js': lines(2),
  };
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  const found = sizes(root);
  assert.deepEqual(found.get('a'), { lines: 60, files: 2, small: 0 });
  assert.deepEqual(found.get('packages'), { lines: 65, files: 3, small: 1 });
  assert.deepEqual(found.get('paper'), { lines: 60, files: 1, small: 0 });
  assert.deepEqual(found.get('everything'), { lines: 130, files: 6, small: 2 });
  assert.deepEqual(excesses(found, { packages: [65, 3, 1] }), []);
  assert.deepEqual(excesses(found, { packages: [64, 2, 0] }), [
    'packages: 65 lines, at most 64',
    'packages: 3 files, at most 2',
    'packages: 1 files below 40 lines, at most 0',
  ]);
});
