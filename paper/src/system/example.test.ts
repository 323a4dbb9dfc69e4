// examples/published runs, and finds whom it looks for.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';

const example = join(import.meta.dirname, '../../../examples/published/search.ts');

it('examples/published finds everybody, in fifty lines', () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [example], { encoding: 'utf8', timeout: 300_000 });
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^enrolled 1000 templates/m);
  const found = [...stdout.matchAll(/^looked for (\d+), found (\d+) with a cosine of (0\.\d+)$/gm)];
  assert.equal(found.length, 5);
  for (const [, wanted, id, cosine] of found) {
    assert.equal(id, wanted);
    assert.ok(Number(cosine) > 0.7, cosine);
  }
  assert.ok(readFileSync(example, 'utf8').split('\n').length <= 52);
});
