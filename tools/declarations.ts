// Of the declarations that tsc makes, those that the exports of a package lead to. A class that
// people use mentions types, and these mention others; what none of them mentions is ours, and is
// not shipped.
//
// An identifier that stands anywhere in a declaration counts as a mention, so that what is kept is
// rather too much than too little. `tsc --strict` reads the result in tools/pack.test.ts.

import { existsSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseSync } from 'rolldown/utils';
import { BuildError } from './target.ts';

/** A name that a statement takes from another file, and what it is called there. */
interface Binding {
  readonly local: string;
  readonly there: string;
  readonly isType: boolean;
}

interface Statement {
  /** With the comment before it. */
  readonly text: string;
  /** What it declares; nothing is known of a statement that declares nothing, which is kept. */
  readonly names: readonly string[];
  readonly isExported: boolean;
  readonly mentions: ReadonlySet<string>;
  /** The files, or the package, that it takes bindings from. */
  readonly from?: { readonly specifier: string; readonly files: readonly string[] };
  readonly kind: 'declaration' | 'import' | 'export' | 'export-all' | 'other';
  readonly bindings: readonly Binding[];
}

// biome-ignore lint/suspicious/noExplicitAny: a syntax tree, of which little is looked at
type Node = any;

/**
 * Rewrites the declarations under `lib` to what `entries` lead to, and removes the files of which
 * nothing is left. `imports` are the files that a specifier with `#` stands for.
 */
export function pruneDeclarations(
  lib: string,
  entries: readonly string[],
  imports: (specifier: string) => readonly string[],
): void {
  const parsed = new Map<string, readonly Statement[]>();
  const statementsOf = (file: string): readonly Statement[] => {
    const known = parsed.get(file);
    if (known) return known;
    if (!existsSync(file)) throw new BuildError(`${file} is not there, and other declarations need it`);
    const text = readFileSync(file, 'utf8');
    const { program, errors } = parseSync(file, text);
    if (errors.length > 0) throw new BuildError(`${file}: ${errors[0]!.message}`);
    let end = 0;
    const found = (program as Node).body.map((node: Node) => {
      const statement = understood(node, text.slice(end, node.end).trim(), (specifier) => ({
        specifier,
        files: specifier.startsWith('#')
          ? imports(specifier).map(declarationOf)
          : /^\.\.?\//.test(specifier)
            ? [declarationOf(resolve(dirname(file), specifier))]
            : [],
      }));
      end = node.end;
      return statement;
    });
    parsed.set(file, found);
    return found;
  };

  /** Of every file with something that is kept: its statements, and bindings from elsewhere. */
  const kept = new Map<string, { statements: Set<Statement>; bindings: Set<Binding> }>();
  const keptOf = (file: string) => {
    const known = kept.get(file);
    if (known) return known;
    const made = { statements: new Set<Statement>(), bindings: new Set<Binding>() };
    kept.set(file, made);
    for (const statement of statementsOf(file)) if (statement.kind === 'other') keep(file, statement);
    return made;
  };
  const keep = (file: string, statement: Statement): void => {
    const { statements } = keptOf(file);
    if (statements.has(statement)) return;
    statements.add(statement);
    for (const name of statement.mentions) mention(file, name);
  };
  /** A name as it is known within a file. */
  const mention = (file: string, name: string): void => {
    for (const statement of statementsOf(file)) {
      if (statement.kind === 'declaration' && statement.names.includes(name)) keep(file, statement);
      if (statement.kind === 'import') take(file, statement, name);
    }
  };
  const take = (file: string, statement: Statement, local: string): boolean => {
    const found = statement.bindings.filter((binding) => binding.local === local);
    for (const binding of found) {
      const { statements, bindings } = keptOf(file);
      if (bindings.has(binding)) continue;
      statements.add(statement);
      bindings.add(binding);
      for (const target of statement.from?.files ?? []) reach(target, binding.there);
      if (!statement.from) mention(file, binding.there);
    }
    return found.length > 0;
  };
  const reached = new Map<string, boolean>();
  /** A name as a file exports it; `*` is all of them. Whether there is one. */
  const reach = (file: string, name: string): boolean => {
    const isAll = name === '*';
    const asked = `${name} of ${file}`;
    if (reached.has(asked)) return reached.get(asked)!;
    // Files may export all of one another.
    reached.set(asked, isAll);
    if (isAll) keptOf(file);
    let found = isAll;
    for (const statement of statementsOf(file)) {
      if (statement.isExported && (isAll || statement.names.includes(name))) {
        found = true;
        keep(file, statement);
      } else if (statement.kind === 'export') {
        const all = isAll ? statement.bindings.map(({ local }) => local) : [name];
        for (const each of all) found = take(file, statement, each) || found;
      } else if (statement.kind === 'export-all') {
        const { files } = statement.from!;
        if (files.length > 0 && !files.map((target) => reach(target, name)).includes(true)) continue;
        keptOf(file).statements.add(statement);
        found = true;
      }
    }
    reached.set(asked, found);
    return found;
  };
  for (const entry of entries) reach(entry, '*');

  for (const name of globSync('**/*.d.ts', { cwd: lib })) {
    const file = join(lib, name);
    const left = kept.get(file);
    const statements = statementsOf(file).filter((statement) => left?.statements.has(statement));
    if (statements.length === 0) rmSync(file);
    else writeFileSync(file, `${statements.map((each) => written(each, left!.bindings)).join('\n')}\n`);
  }
}

function declarationOf(path: string): string {
  return path.replace(/\.js$/, '.d.ts');
}

/** Imports and re-exports with the names that are left of theirs, all else as it was. */
function written({ kind, text, bindings, from }: Statement, kept: ReadonlySet<Binding>): string {
  if ((kind !== 'import' && kind !== 'export') || bindings.some(({ there }) => there === '*' || there === 'default'))
    return text;
  const names = bindings
    .filter((binding) => kept.has(binding))
    .map(({ local, there, isType }) => `${isType ? 'type ' : ''}${there === local ? there : `${there} as ${local}`}`);
  const source = from ? ` from '${from.specifier}'` : '';
  return `${kind} { ${names.join(', ')} }${source};`;
}

/** What a statement of a file of declarations declares, mentions, and takes from where. */
function understood(node: Node, text: string, from: (specifier: string) => NonNullable<Statement['from']>): Statement {
  const none = { text, names: [], isExported: false, mentions: new Set<string>(), bindings: [] };
  if (node.type === 'ImportDeclaration') {
    const bindings = node.specifiers.map(({ type, local, imported, importKind }: Node) => ({
      local: local.name,
      there: type === 'ImportSpecifier' ? imported.name : '*',
      isType: node.importKind === 'type' || importKind === 'type',
    }));
    const kind = bindings.length === 0 ? 'other' : 'import';
    return { ...none, kind, bindings, from: from(node.source.value) };
  }
  if (node.type === 'ExportAllDeclaration' && !node.exported)
    return { ...none, kind: 'export-all', from: from(node.source.value) };
  if (node.type === 'ExportNamedDeclaration' && !node.declaration) {
    // `export {}` says that a file is a module.
    if (node.specifiers.length === 0) return { ...none, kind: 'other' };
    const bindings = node.specifiers.map(({ local, exported, exportKind }: Node) => ({
      local: exported.name,
      there: local.name,
      isType: node.exportKind === 'type' || exportKind === 'type',
    }));
    return { ...none, kind: 'export', bindings, ...(node.source ? { from: from(node.source.value) } : {}) };
  }
  const mentions = new Set<string>();
  mentionsIn(node, mentions);
  const isExported = node.type === 'ExportNamedDeclaration';
  const names = namesOf(isExported ? node.declaration : node);
  return { ...none, kind: names.length === 0 ? 'other' : 'declaration', names, isExported, mentions };
}

function namesOf(declaration: Node): string[] {
  const { id, declarations } = declaration;
  return [id, ...(declarations ?? []).map((each: Node) => each.id)].flatMap((each) =>
    each?.type === 'Identifier' ? [each.name] : [],
  );
}

function mentionsIn(node: Node, found: Set<string>): void {
  if (Array.isArray(node)) for (const each of node) mentionsIn(each, found);
  else if (typeof node === 'object' && node !== null) {
    if (node.type === 'TSImportType') throw new BuildError('import(…) in a type: name it by an import');
    if (node.type === 'Identifier') found.add(node.name);
    for (const each of Object.values(node)) mentionsIn(each, found);
  }
}
