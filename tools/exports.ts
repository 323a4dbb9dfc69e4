// The export check: what a file exports, another file uses. An export that nothing uses is either
// dead code or needs no `export`.

import { globSync, readFileSync } from 'node:fs';
import { join, resolve, sep } from 'node:path';
import { Workspace } from './workspace.ts';

const DECLARED =
  /^export (?:declare )?(?:default )?(?:async )?(?:abstract )?(?:class|interface|type|function\*?|const|let) (\w+)/gm;

export interface DeadExport {
  file: string;
  line: number;
  name: string;
}

/** Exports whose name no other file has in it. */
export function deadExports(root: string): DeadExport[] {
  const workspace = new Workspace(root);
  const tools = globSync('tools/*.{ts,mjs}', { cwd: root }).map((file) => file.replaceAll(sep, '/'));
  const texts = new Map([...workspace.files(), ...tools].map((file) => [file, readFileSync(join(root, file), 'utf8')]));
  // What documents show is the public API.
  for (const file of [
    ...globSync(['*.md', 'docs/*.md', 'examples/*/*.ts'], { cwd: root }),
    ...workspace.glob('{*.md,build/*.ts}'),
  ])
    texts.set(file, readFileSync(join(root, file), 'utf8'));
  const users = new Map<string, Set<string>>();
  for (const [file, text] of texts)
    for (const [word] of text.matchAll(/[A-Za-z_$][\w$]*/g)) {
      const files = users.get(word);
      if (files) files.add(file);
      else users.set(word, new Set([file]));
    }
  const dead: DeadExport[] = [];
  for (const [file, text] of texts)
    for (const { 1: name, index } of text.matchAll(DECLARED)) {
      if (users.get(name!)!.size > 1) continue;
      // A type belongs to the signatures around it, so that callers can name it.
      const isType = /^export (?:interface|type) /.test(text.slice(index));
      if (isType && [...text.matchAll(new RegExp(`\\b${name}\\b`, 'g'))].length > 1) continue;
      dead.push({ file, line: text.slice(0, index).split('\n').length, name: name! });
    }
  return dead;
}

/** Prints what is dead, or one line that says nothing is; returns whether nothing is. */
export function reportExports(root: string): boolean {
  const dead = deadExports(root);
  for (const { file, line, name } of dead) console.log(`${file}:${line}: nothing else uses ${name}: do not export it`);
  if (dead.length === 0) console.log('exports: all are used');
  return dead.length === 0;
}

if (process.argv[1] === import.meta.filename && !reportExports(resolve(import.meta.dirname, '..')))
  process.exitCode = 1;
