import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { describe, it } from 'node:test';
import { checkWords, findingsIn, translatedIn } from './words.ts';
import { Workspace } from './workspace.ts';

const workspace = new Workspace(resolve(import.meta.dirname, '..'));

const messages = (file: string, text: string) =>
  findingsIn(workspace, file, text).map(({ line, message }) => `${line}: ${message}`);

describe('a word that the glossary forbids is found', () => {
  const planted: [file: string, text: string, message: RegExp][] = [
    ['packages/cli/src/a.ts', 'function optimise() {}', /optimize/],
    ['packages/client/src/a.ts', 'interface WaitingRecord {}', /pending/],
    ['packages/scheme/src/a.ts', 'export function sealMessage() {}', /another word/],
    ['packages/store/src/a.ts', '// Names parted by tabs.', /separated by/],
    ['packages/store/src/a.ts', 'export class Response {}', /name of a global/],
    ['packages/store/src/a.ts', 'export interface Worker {}', /name of a global/],
    ['packages/store/src/a.ts', `  // ${'word '.repeat(20)}`, /wrap it at 100/],
    ['packages/store/src/a.ts', `/** ${'word '.repeat(20)}*/`, /wrap it at 100/],
  ];
  for (const [file, text, message] of planted)
    it(`${text.slice(0, 40)} in ${file}`, () => {
      const found = messages(file, `\n${text}\n`);
      assert.equal(found.length, 1, `${found}`);
      assert.match(found[0]!, message);
      assert.match(found[0]!, /^2: /);
    });
});

it('other meanings, other layers, code and links are left alone', () => {
  const fine = [
    ['packages/client/src/a.ts', '// A request that is waiting for its answer.'],
    ['packages/client/src/a.ts', 'export function sealRecord() {}'],
    ['packages/store/src/a.ts', 'const answer: Response = await fetch(url);'],
    ['packages/store/src/a.ts', `const text = '${'word '.repeat(20)}';`],
    ['packages/store/src/a.ts', `// https://example.org/${'long/'.repeat(20)}`],
  ];
  for (const [file, text] of fine) assert.deepEqual(messages(file!, text!), []);
});

it('a comment that opens as a translation does is found, and one that only goes on so is not', () => {
  const text = [
    '// What is there goes out.',
    '// Flushes the current chunk, or',
    '// what is left of it.',
    '/** Whoever asks waits. */',
    '/** Returns the sum. */',
    '/**',
    ' * Of those, the first.',
    ' */',
    '/**',
    ' * Copies the body: `null` where the server said so.',
    ' */',
    'const text = "// How it is";',
    '  // Lets so many requests pass.',
  ];
  assert.deepEqual(translatedIn(text.join('\n')), [1, 4, 6, 13]);
});

it('a package may have no more of them than it had', () => {
  const root = mkdtempSync(join(tmpdir(), 'hers-words-'));
  mkdirSync(join(root, 'packages/a/src'), { recursive: true });
  writeFileSync(join(root, 'package.json'), '{ "workspaces": ["packages/*"] }');
  writeFileSync(join(root, 'packages/a/package.json'), '{}');
  writeFileSync(join(root, 'packages/a/src/a.ts'), '// Whether it waits.\n\nexport const a = 1;\n');
  const [found, ...others] = checkWords(root);
  assert.deepEqual([found?.file, found?.line, others], ['packages/a/src/a.ts', 1, []]);
  assert.match(found!.message, /opens as a translation does \(a: 1, at most 0\)/);
  rmSync(root, { recursive: true });
});

it('two packages do not export one name, but may pass one on', () => {
  const root = mkdtempSync(join(tmpdir(), 'hers-words-'));
  const files: Record<string, string> = {
    'package.json': '{ "workspaces": ["packages/*"] }',
    'packages/a/package.json': '{}',
    'packages/a/src/index.ts': "export { type Batch, openA } from './a.ts';\n",
    'packages/b/package.json': '{}',
    'packages/b/src/index.ts': "export { openB } from './b.ts';\nexport { type Batch } from '@hers/a';\n",
  };
  const check = (changes: Record<string, string>) => {
    for (const [file, text] of Object.entries({ ...files, ...changes })) {
      mkdirSync(dirname(join(root, file)), { recursive: true });
      writeFileSync(join(root, file), text);
    }
    return checkWords(root).map(({ message }) => message);
  };
  assert.deepEqual(check({}), []);
  assert.deepEqual(check({ 'packages/b/src/index.ts': "export {\n  type Batch,\n} from './b.ts';\n" }), [
    'Batch is a name that packages/a/src/index.ts exports, too',
  ]);
  assert.deepEqual(check({ 'packages/a/src/secret/index.ts': "export type { Batch } from './keys.ts';\n" }), [
    'Batch is a name that packages/a/src/index.ts exports, too',
  ]);
  rmSync(root, { recursive: true });
});
