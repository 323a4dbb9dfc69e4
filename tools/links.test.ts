// Every link of a document to another file leads somewhere.

import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { it } from 'node:test';
import { Workspace } from './workspace.ts';

const root = resolve(import.meta.dirname, '..');

it('the files that docs/search.svg names exist', () => {
  const picture = readFileSync(join(root, 'docs/search.svg'), 'utf8');
  const named = [...picture.matchAll(/>([a-z]+)\/([^<]+\.(?:ts|cc))</g)];
  assert.ok(named.length > 20);
  const missing = named
    .filter(([, name, path]) => !['src', ''].some((at) => existsSync(join(root, 'packages', name!, at, path!))))
    .map(([name]) => name);
  assert.deepEqual(missing, []);
});

it('documents have no dead links', () => {
  const documents = globSync(['*.md', '{docs,examples,deploy}/**/*.md'], { cwd: root });
  documents.push(...new Workspace(root).glob('**/*.md').filter((file) => !file.includes('node_modules/')));
  assert.ok(documents.length > 50);
  const dead = documents.flatMap((file) => {
    const text = readFileSync(join(root, file), 'utf8').replaceAll(/^```.*?^```/gms, '');
    return [...text.matchAll(/\]\((?![a-z]+:)([^)#\s]+)(?:#[^)]*)?\)/g)]
      .filter(([, target]) => !existsSync(join(root, file, '..', target!)))
      .map(([, target]) => `${file} links to ${target}`);
  });
  assert.deepEqual(dead, []);
});
