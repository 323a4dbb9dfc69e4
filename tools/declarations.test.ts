import assert from 'node:assert/strict';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { it } from 'node:test';
import { pruneDeclarations } from './declarations.ts';

/** What is left of these files, seen from `index.d.ts`. */
function pruned(files: Readonly<Record<string, string>>): Record<string, string> {
  const folder = mkdtempSync(join(tmpdir(), 'hers-declarations-'));
  try {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    pruneDeclarations(folder, [join(folder, 'index.d.ts')], (specifier) =>
      specifier === '#here' ? ['node.js', 'web.js'].map((name) => join(folder, name)) : [],
    );
    const left = globSync('**/*.d.ts', { cwd: folder }).sort();
    return Object.fromEntries(left.map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

it('declarations are kept where an export leads to them, with their comments', () => {
  const files = {
    'index.d.ts': "export * from './a/all.js';\nexport { type Other as Renamed } from './a/other.js';\n",
    'a/all.d.ts':
      "import { type Used, type Unused } from '../barrel.js';\n" +
      "import type { Server } from 'fastify';\nimport { Readable } from 'node:stream';\n" +
      '/** A. */\nexport interface A {\n    /** Its x. */\n    x: Used | Own;\n    s: Server;\n}\n' +
      'interface Own {\n    y: 1;\n}\ninterface Alone {\n    r: Readable;\n    z: Unused;\n}\nexport {};\n',
    'a/other.d.ts': "import * as all from './whole.js';\nexport type Other = all.W;\nexport type None = 1;\n",
    'a/whole.d.ts': 'export type W = 1;\nexport type V = 2;\n',
    'barrel.d.ts':
      "export * from './nothing.js';\nexport * from './used.js';\nexport type { Unused } from './used.js';\n",
    'nothing.d.ts': 'export declare const nothing: 1;\nexport {};\n',
    'used.d.ts':
      "import { type Here } from '#here';\n/** Of use. */\nexport declare function f(): Used;\n" +
      'export declare class Used {\n    #private;\n    here: Here;\n}\nexport type Unused = 1;\n',
    'node.d.ts': 'export type Here = 1;\nexport type There = 1;\n',
    'web.d.ts': 'export type Here = 2;\n',
    'alone.d.ts': "declare module 'fastify' {\n}\n",
  };
  assert.deepEqual(pruned(files), {
    'index.d.ts': "export * from './a/all.js';\nexport { type Other as Renamed } from './a/other.js';\n",
    'a/all.d.ts':
      "import { type Used } from '../barrel.js';\nimport { type Server } from 'fastify';\n" +
      '/** A. */\nexport interface A {\n    /** Its x. */\n    x: Used | Own;\n    s: Server;\n}\n' +
      'interface Own {\n    y: 1;\n}\nexport {};\n',
    'a/other.d.ts': "import * as all from './whole.js';\nexport type Other = all.W;\n",
    'a/whole.d.ts': 'export type W = 1;\nexport type V = 2;\n',
    'barrel.d.ts': "export * from './used.js';\n",
    'used.d.ts': "import { type Here } from '#here';\nexport declare class Used {\n    #private;\n    here: Here;\n}\n",
    'node.d.ts': 'export type Here = 1;\n',
    'web.d.ts': 'export type Here = 2;\n',
  });
});

it('a declaration that is missing, or cannot be read, is an error', () => {
  assert.throws(() => pruned({ 'index.d.ts': "export * from './gone.js';\n" }), /gone\.d\.ts is not there/);
  assert.throws(() => pruned({ 'index.d.ts': 'export type = ;\n' }), /index\.d\.ts: /);
  assert.throws(
    () => pruned({ 'index.d.ts': "export type A = import('./b.js').B;\n" }),
    /import\(…\) in a type: name it by an import/,
  );
});

it('files that export all of one another come to an end', () => {
  const files = {
    'index.d.ts': "export * from './a.js';\nexport * from './b.js';\n",
    'a.d.ts': "export * from './b.js';\nexport type A = B;\nimport { type B } from './b.js';\n",
    'b.d.ts': "export * from './a.js';\nexport type B = 1;\n",
  };
  assert.deepEqual(pruned(files), files);
});
