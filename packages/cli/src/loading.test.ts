// What a command loads. Every start pays for what all commands load, and what only experiments need
// must not be needed to search.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire, isBuiltin, stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { importsOf } from '../../../tools/imports.ts';
import { Workspace } from '../../../tools/workspace.ts';

const src = import.meta.dirname;
/** The laboratory, and what it measures and draws with. */
const LAB = ['@hers/trials', '@hers/paper', 'vega', 'vega-lite', 'node-seal'];

/** Which packages of `names` are among the specifiers. */
const among = (specifiers: ReadonlySet<string>, names: readonly string[]) =>
  names.filter((name) => [...specifiers].some((each) => each === name || each.startsWith(`${name}/`)));

/** The packages that a file loads when it runs, and those that these load; ours are followed. */
function loadedBy(start: string, { lazily }: { readonly lazily: boolean }): Set<string> {
  const specifiers = new Set<string>();
  const seen = new Set<string>();
  const visit = (file: string) => {
    if (seen.has(file)) return;
    seen.add(file);
    const text = readFileSync(file, 'utf8');
    const code = file.endsWith('.ts') ? stripTypeScriptTypes(text) : text;
    for (const { specifier, kind } of importsOf(code, file)) {
      if (specifier === undefined || isBuiltin(specifier) || (kind !== 'static' && !lazily)) continue;
      const isOwn = /^[.#]/.test(specifier);
      if (!isOwn) specifiers.add(specifier);
      if (isOwn || specifier.startsWith('@hers/')) visit(createRequire(file).resolve(specifier));
    }
  };
  visit(start);
  return specifiers;
}

describe('what only experiments need is loaded by experiments alone', () => {
  for (const command of ['import', 'search', 'records', 'init', 'doctor', 'serve', 'console'])
    test(`hers ${command}`, () => {
      const loaded = loadedBy(join(src, 'commands', `${command}.ts`), { lazily: true });
      assert.ok(loaded.has('@hers/client'), 'the walk goes somewhere');
      assert.deepEqual(among(loaded, LAB), []);
    });

  test('the walk finds them where they are', () => {
    const lab = new Workspace(join(src, '../../..')).path('trials', 'src/lab.ts');
    const loaded = loadedBy(lab, { lazily: true });
    assert.deepEqual(among(loaded, LAB), LAB.slice(1));
  });
});

test('a start loads neither the server, nor the store, nor a prompt', () => {
  const loaded = loadedBy(join(src, 'main.ts'), { lazily: false });
  assert.deepEqual(among(loaded, ['fastify', '@hers/scan', '@clack/prompts', ...LAB]), []);
  assert.ok(!loaded.has('@hers/store'), 'the lock of the store is small, and all that is needed of it');
});
