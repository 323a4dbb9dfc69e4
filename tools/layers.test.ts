// Every rule is tested by planting an import that breaks it in a small tree that is otherwise
// sound.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { after, describe, test } from 'node:test';
import { checkLayers, extraForNode, table } from './layers.ts';
import { Workspace } from './workspace.ts';

const temporary = mkdtempSync(join(tmpdir(), 'hers-layers-'));
after(() => rmSync(temporary, { recursive: true }));

function manifest(
  name: string,
  dependencies: string[],
  exports: Record<string, unknown> = { '.': './src/index.ts' },
  imports: Record<string, unknown> = {},
) {
  return JSON.stringify({
    name,
    exports,
    imports,
    dependencies: Object.fromEntries(dependencies.map((each) => [each, '1.0.0'])),
  });
}

const sound: Record<string, string> = {
  'package.json': JSON.stringify({ workspaces: ['packages/*'], devDependencies: { 'fast-check': '4.0.0' } }),
  'tools/parts.ts': '',
  'packages/ring/package.json': manifest('@hers/ring', []),
  'packages/ring/src/index.ts': "export { kernelBase64 } from '../build/kernel.ts';\n",
  'packages/ring/build/kernel.ts': "import '@hers/cli'; // Generated, so not checked.\n",
  'packages/ring/assembly/kernel.ts': "import { ntt } from '../../elsewhere';\n",
  'packages/scheme/package.json': manifest('@hers/scheme', ['@hers/ring', '@noble/hashes'], {
    '.': './src/index.ts',
    './secret': './src/secret/index.ts',
    './alias': { browser: './src/index.ts', default: './src/secret/index.ts' },
  }),
  'packages/scheme/src/index.ts': "import '@hers/ring';\nimport { sha256 } from '@noble/hashes/sha2.js';\n",
  'packages/scheme/src/secret/index.ts': "import '../index.ts';\nimport './keys.ts';\n",
  'packages/scheme/src/secret/keys.ts': '',
  'packages/scheme/src/index.test.ts': "import './secret/keys.ts';\nimport 'node:fs';\nimport 'fast-check';\n",
  'packages/scan/package.json': manifest('@hers/scan', ['@hers/scheme']),
  'packages/scan/src/index.ts': "import '@hers/scheme';\nimport 'node:fs';\n",
  'packages/scan/src/index.test.ts':
    "import '@hers/scheme/secret';\nimport '../../../tools/parts.ts';\nimport '@hers/ring';\n",
  'packages/service/package.json': manifest('@hers/service', ['@hers/scheme']),
  'packages/service/src/index.ts': "import '@hers/scheme';\n",
  'packages/store/package.json': manifest('@hers/store', ['@hers/service', '@hers/scan', '@hers/scheme']),
  'packages/store/src/index.ts': "import '@hers/service';\nnew Worker(new URL('./worker.ts', import.meta.url));\n",
  'packages/store/testing/crash.ts': "import '@hers/scheme/secret';\nimport '../src/index.ts';\n",
  'packages/store/src/index.test.ts': "import '../testing/crash.ts';\n",
  'packages/store/src/worker.ts': "import '@hers/scan';\nconst data = new URL('../../../data.bin', import.meta.url);\n",
  'packages/server/package.json': manifest('@hers/server', ['@hers/service', '@hers/store']),
  'packages/server/src/index.ts': "// import('@hers/scheme/secret')\nimport 'node:http';\nimport '@hers/store';\n",
  'packages/compress/package.json': manifest('@hers/compress', []),
  'packages/compress/src/index.ts': '',
  'packages/training/package.json': manifest('@hers/training', ['@hers/compress']),
  'packages/training/src/index.ts': "import '@hers/compress';\nimport 'node:worker_threads';\n",
  'packages/client/package.json': manifest(
    '@hers/client',
    ['@hers/service', '@hers/scheme', '@hers/compress', '@hers/store'],
    undefined,
    {
      '#sealing': { node: './src/sealing.node.ts', default: './src/sealing.web.ts' },
      '#wrong': { node: './src/sealing.node.ts', default: './src/sealing.node.ts' },
    },
  ),
  'packages/client/src/sealing.node.ts': "import 'node:crypto';\n",
  'packages/client/src/sealing.web.ts': '',
  'packages/client/src/index.ts':
    "import '#sealing';\nimport '@hers/scheme/secret';\nimport '@hers/compress';\nawait import('./folder.node.ts');\n",
  'packages/client/src/folder.node.ts': "import 'node:path';\nimport '@hers/store';\n",
  'packages/client/src/folder.test.ts': "import './folder.node.ts';\nimport '@hers/server';\n",
  'packages/paper/package.json': manifest('@hers/paper', ['@hers/scheme', '@hers/client']),
  'packages/paper/src/table1.ts': "import '@hers/scheme/secret';\nimport '@hers/client';\nimport 'node:os';\n",
  'packages/web/package.json': manifest('@hers/web', ['@hers/client', 'svelte']),
  'packages/web/src/Page.svelte': "<script lang=\"ts\">\nimport '@hers/client';\n</script>\n<p>it's</p>\n",
};

let trees = 0;

/** The violations of the sound tree with these files put in place of its own. */
function check(changes: Record<string, string>): string[] {
  const root = join(temporary, String(trees++));
  for (const [file, text] of Object.entries({ ...sound, ...changes })) {
    const path = join(root, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return checkLayers(root).map(({ file, line, message }) => `${file}:${line}: ${message}`);
}

/**
 * One planted import: where, the text, the line it must be reported on, and words of the report.
 */
type Planted = [what: string, file: string, text: string, line: number, message: RegExp];

const upward = /scan may not import store: it may import only scheme/;
const secret = /may not import scheme\/secret: it never holds a key/;
const unchecked = /cannot be checked/;
const leaving = /leaves the package/;
const undeclared = /is not a dependency in packages\//;
const forBrowsers = /may not import .*: it runs in a browser/;

const groups: Record<string, Planted[]> = {
  'an upward import': [
    ['static', 'scan/src/a.ts', "\nimport { open } from '@hers/store';\n", 2, upward],
    ['over several lines', 'scan/src/a.ts', "import {\n  open,\n} from '@hers/store';\n", 3, upward],
    ['for its effect', 'scan/src/a.ts', "import '@hers/store';\n", 1, upward],
    ['of a type', 'scan/src/a.ts', "\n\nimport type { Store } from '@hers/store';\n", 3, upward],
    ['of an inline type', 'scan/src/a.ts', "import { type Store } from '@hers/store';\n", 1, upward],
    ['in a type alias', 'scan/src/a.ts', "\ntype Store = import('@hers/store').Store;\n", 2, upward],
    ['in an annotation', 'scan/src/a.ts', "let a: import('@hers/store').Store;\n", 1, upward],
    ['re-export', 'scan/src/a.ts', "export { open } from '@hers/store';\n", 1, upward],
    ['re-export of all', 'scan/src/a.ts', "\nexport * from '@hers/store';\n", 2, upward],
    ['re-export of a type', 'scan/src/a.ts', "export type { Store } from '@hers/store';\n", 1, upward],
    ['dynamic', 'scan/src/a.ts', "\nconst store = await import('@hers/store');\n", 2, upward],
    ['resolved', 'scan/src/a.ts', "const path = import.meta.resolve('@hers/store');\n", 1, upward],
    ['in a JavaScript file', 'scan/src/a.js', "import '@hers/store';\n", 1, upward],
    ['in a test', 'scan/src/a.test.ts', "import '@hers/store';\n", 1, /scan may not import store: it is not below/],
    ['from the paper', 'paper/src/a.ts', "import '@hers/trials';\n", 1, /paper may not import trials: it is not below/],
    ['of the wrong entry', 'client/src/a.ts', "import '@hers/training';\n", 1, /client may not import training/],
    ['of the store, by a client file for browsers', 'client/src/a.ts', "import('@hers/store');\n", 1, /import store/],
    ['in a component', 'web/src/A.svelte', "<p/>\n<script>\nimport '@hers/scheme';\n</script>\n", 3, /import scheme/],
    [
      'in a page',
      'web/src/a.tsx',
      "const a = <p>it's</p>;\nimport {\n  b,\n} from '@hers/scheme';\n",
      4,
      /import scheme/,
    ],
    ['by a page, when it is needed', 'web/src/a.tsx', "<p>{import('@hers/scheme')} it's</p>;\n", 1, /import scheme/],
    ['in the markup of a component', 'web/src/A.svelte', "\n{#await import('@hers/scheme')}{/await}\n", 2, /scheme/],
    ['of an unknown package', 'scan/src/a.ts', "import '@hers/utils';\n", 1, /not in the table/],
  ],
  'an upward import inside a package': [
    [
      'of a folder above',
      'store/src/files/a.ts',
      "\nimport '../catalogue/b.ts';\n",
      2,
      /files may not import catalogue/,
    ],
    [
      'of a type',
      'client/src/crew/a.ts',
      "import type { B } from '../search/b.ts';\n",
      1,
      /crew may not import search/,
    ],
    ['of a file on top', 'store/src/base/a.ts', "import '../collection.ts';\n", 1, /base may not import \./],
    ['of a file that is a layer', 'store/src/scrub/a.ts', "import '../store.ts';\n", 1, /may not import store\.ts/],
    ['under a condition', 'client/src/fields/a.ts', "import '#sealing';\n", 1, /fields may not import \./],
    [
      'in a folder outside the list',
      'store/src/new/a.ts',
      "import '../base/b.ts';\n",
      1,
      /new is not among the layers/,
    ],
  ],
  'what cannot be checked': [
    ['dynamic import of a variable', 'scan/src/a.ts', '\nawait import(name);\n', 2, unchecked],
    ['dynamic import of a sum', 'scan/src/a.ts', "await import('./' + name);\n", 1, unchecked],
    ['dynamic import of a template', 'scan/src/a.ts', 'await import(`./a.ts`);\n', 1, unchecked],
    ['worker by a variable', 'scan/src/a.ts', '\nnew Worker(path);\n', 2, unchecked],
    ['worker by a computed URL', 'scan/src/a.ts', 'new Worker(new URL(name, import.meta.url));\n', 1, unchecked],
    ['URL by a variable', 'scan/src/a.ts', 'const url = new URL(name, import.meta.url);\n', 1, unchecked],
    ['import of a data URL', 'scan/src/a.ts', "import 'data:text/javascript,0';\n", 1, unchecked],
    ['import of an absolute path', 'scan/src/a.ts', "import '/tmp/a.ts';\n", 1, unchecked],
    ['import by an internal name', 'scan/src/a.ts', "import '#secret';\n", 1, /is not in the imports/],
  ],
  'a path that leaves the package': [
    ['import', 'scan/src/a.ts', "import '../../scheme/src/index.ts';\n", 1, leaving],
    ['worker URL', 'scan/src/a.ts', "\nnew Worker(new URL('../../store/src/a.ts', import.meta.url));\n", 2, leaving],
    ['URL of a source', 'scan/src/a.ts', "const a = new URL('../../store/src/a.ts', import.meta.url);\n", 1, leaving],
    ['import in a test', 'scan/src/a.test.ts', "import '../../scheme/src/index.ts';\n", 1, leaving],
    ['tools, in a shipped file', 'scan/src/a.ts', "import '../../../tools/parts.ts';\n", 1, leaving],
  ],
  'the wall around the keys': [
    ['scan', 'scan/src/a.ts', "import '@hers/scheme/secret';\n", 1, secret],
    ['store, type-only', 'store/src/a.ts', "\nimport type { Key } from '@hers/scheme/secret';\n", 2, secret],
    ['server, dynamic', 'server/src/a.ts', "await import('@hers/scheme/secret');\n", 1, secret],
    ['store, required', 'store/src/a.ts', "createRequire(import.meta.url)('@hers/scheme/secret');\n", 1, secret],
    ['scan, by another name', 'scan/src/a.ts', "import '@hers/scheme/alias';\n", 1, secret],
    ['scheme itself', 'scheme/src/a.ts', "\nexport * from './secret/index.ts';\n", 2, /only src\/secret may import/],
    ['scheme itself, by name', 'scheme/src/a.ts', "import '@hers/scheme/secret';\n", 1, /only src\/secret may import/],
    ['through a test', 'store/src/a.ts', "import './a.test.ts';\n", 1, /is not shipped/],
    ['through a test tool', 'store/src/a.ts', "import '../testing/crash.ts';\n", 1, /is not shipped/],
  ],
  'the wall around Node': [
    ['ring', 'ring/src/a.ts', "import { readFileSync } from 'node:fs';\n", 1, forBrowsers],
    ['scheme, by its bare name', 'scheme/src/a.ts', "\nimport fs from 'fs';\n", 2, forBrowsers],
    ['the secret part of scheme', 'scheme/src/secret/a.ts', "import 'node:crypto';\n", 1, forBrowsers],
    ['service, type-only', 'service/src/a.ts', "import type { Socket } from 'node:net';\n", 1, forBrowsers],
    ['client, dynamic', 'client/src/a.ts', "await import('node:fs/promises');\n", 1, forBrowsers],
    ['compress', 'compress/src/a.ts', "import 'node:fs';\n", 1, forBrowsers],
    ['compress, by a detour', 'compress/src/a.ts', "import '@hers/training';\n", 1, /no other package/],
    ['a file for Node, for others too', 'client/src/a.ts', "import '#wrong';\n", 1, /under the condition node/],
    ['a name that no package has', 'client/src/a.ts', "import '#nothing';\n", 1, /is not in the imports/],
    ['a file for Node, static', 'client/src/a.ts', "import './folder.node.ts';\n", 1, /by a dynamic import/],
    [
      'a file for Node, re-export',
      'client/src/a.ts',
      "\nexport * from './folder.node.ts';\n",
      2,
      /by a dynamic import/,
    ],
  ],
  'an undeclared dependency': [
    ['of a stranger', 'scan/src/a.ts', "import 'left-pad';\n", 1, undeclared],
    ['of a scoped stranger', 'scan/src/a.ts', "import '@noble/hashes/sha2.js';\n", 1, undeclared],
    ['of the root, in a shipped file', 'scan/src/a.ts', "import 'fast-check';\n", 1, undeclared],
    ['of a stranger, in a test', 'scan/src/a.test.ts', "import 'left-pad';\n", 1, undeclared],
    ['of a layer below', 'paper/src/a.ts', "import '@hers/ring';\n", 1, undeclared],
    [
      'of an entry that is not exported',
      'scan/src/a.ts',
      "import '@hers/scheme/wire';\n",
      1,
      /does not export \.\/wire/,
    ],
  ],
};

for (const [group, planted] of Object.entries(groups)) {
  describe(`${group} is caught`, () => {
    for (const [what, file, text, line, message] of planted) {
      test(what, () => {
        const [first, ...others] = check({ [`packages/${file}`]: text });
        assert.deepEqual(others, []);
        assert.ok(first?.startsWith(`packages/${file}:${line}: `), first ?? 'nothing was caught');
        assert.match(first, message);
      });
    }
  });
}

test('a package outside the table is caught', () => {
  const found = check({ 'packages/utils/package.json': manifest('@hers/utils', []) });
  assert.deepEqual(found, ['packages/utils/package.json:1: utils is not in the table of layers']);
});

test('a sound tree passes', () => assert.deepEqual(check({}), []));

const root = resolve(import.meta.dirname, '..');

test('this repository passes', () => assert.deepEqual(checkLayers(root), []));

test('docs/packages.svg has an arrow for each line of the table, and no other', () => {
  const picture = readFileSync(join(root, 'docs/packages.svg'), 'utf8');
  const box = /<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)".*?font-weight="600"[^>]*>([^<]+)</g;
  const boxes = [...picture.matchAll(box)].map(([, x, y, width, height, names]) => ({
    x: Number(x),
    y: Number(y),
    right: Number(x) + Number(width),
    bottom: Number(y) + Number(height),
    names: names!.split(', '),
  }));
  // An arrow ends two units before its box.
  const at = (x: number, y: number) => {
    const found = boxes.filter((box) => x >= box.x - 2 && x <= box.right + 2 && y >= box.y - 2 && y <= box.bottom + 2);
    assert.equal(found.length, 1, `one box at ${x}, ${y}`);
    return found[0]!.names;
  };
  const drawn = new Set<string>();
  for (const [, path] of picture.matchAll(/<path d="(M[\d CHV]+)"/g)) {
    const [x, y, ...rest] = path!.match(/\d+/g)!.map(Number) as [number, number, ...number[]];
    const end = path!.includes('V') ? [x, rest[0]!] : path!.includes('H') ? [rest[0]!, y] : rest.slice(-2);
    const [to] = at(end[0]!, end[1]!);
    for (const from of at(x, y)) {
      const [name] = from.split('/');
      // The parts of one package import each other; the table is about packages.
      if (table[name!] !== 'below' && name !== to!.split('/')[0]) drawn.add(`${name} imports ${to}`);
    }
  }
  // What stands beside the product is not in the picture.
  const workspace = new Workspace(root);
  const packages = Object.keys(table).filter((name) => workspace.folders.get(name)?.includes('/'));
  const meant = packages.flatMap((name) => {
    const row = table[name]!;
    return row === 'below' ? [] : [...row, ...(extraForNode[name] ?? [])].map((to) => `${name} imports ${to}`);
  });
  assert.deepEqual([...drawn].sort(), meant.sort());
  for (const name of packages)
    assert.ok(
      boxes.some(({ names }) => names.includes(name)),
      `a box for ${name}`,
    );
});
