// What the comments of the public interface say about parameters and errors, and the examples in
// them. Declarations, as tsc emits them, are read as text: functions and members stand at the
// margin or one step from it, each after its comment.

import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { entriesOf, type Statement, symbolsOf } from './api.ts';
import { Workspace } from './workspace.ts';

const root = resolve(import.meta.dirname, '..');
const workspace = new Workspace(root);

/** A function, a method or a constructor that people can call. */
interface Callable {
  /** `connect`, `Collection.search`. */
  readonly name: string;
  readonly comment: string;
  readonly parameters: readonly string[];
  /** Of its class or interface: errors that are named there are those of all its members. */
  readonly around: string;
  /** The interfaces and classes that its class says more about it in. */
  readonly bases: readonly string[];
}

/** A tag of a comment with its text, on one line. */
function tagsOf(comment: string): { tag: string; text: string; block: string }[] {
  const lines = comment
    .split('\n')
    .map((line) => line.replace(/^\s*(?:\/\*\* ?|\*\/|\* ?)/, '').replace(/\s*\*\/$/, ''));
  const found: { tag: string; lines: string[] }[] = [];
  for (const line of lines) {
    const [, tag, rest] = /^@(\w+)\s?(.*)$/.exec(line) ?? [];
    if (tag !== undefined) found.push({ tag, lines: [rest!] });
    else found.at(-1)?.lines.push(line);
  }
  return found.map(({ tag, lines }) => ({
    tag,
    text: lines.join(' ').replace(/\s+/g, ' ').trim(),
    block: lines.join('\n').trim(),
  }));
}

/** The names between the first parentheses of a declaration. */
function parametersOf(code: string): string[] {
  const start = code.indexOf('(');
  const names: string[] = [];
  let depth = 0;
  let part = '';
  const finish = () => {
    const [, name] = /^\s*(?:\.\.\.)?(\w+|\{[^}]*\})\??\s*:/.exec(part) ?? [];
    if (name !== undefined) names.push(name);
    part = '';
  };
  for (const [i, letter] of [...code.slice(start)].entries()) {
    const isArrow = letter === '>' && code[start + i - 1] === '=';
    if ('([{<'.includes(letter)) depth++;
    if (')]}>'.includes(letter) && !isArrow) depth--;
    if (depth === 0) break;
    if (depth === 1 && letter === ',') finish();
    else if (depth > 1 || i > 0) part += letter;
  }
  finish();
  return names;
}

/** The members of a class or an interface, one level deep, each with the comment before it. */
function membersOf(code: string): { name: string; comment: string; code: string }[] {
  const found: { name: string; comment: string; code: string }[] = [];
  let comment = '';
  let isComment = false;
  let last: { code: string } | undefined;
  for (const line of code.split('\n').slice(1)) {
    if (/^ {4}\/\*\*/.test(line)) {
      comment = '';
      isComment = true;
    }
    if (isComment) {
      comment += `${line}\n`;
      isComment = !line.trimEnd().endsWith('*/');
      continue;
    }
    const [, name] =
      /^ {4}(?:(?:static|abstract|override|readonly|get|set) )*(\w+|\[[^\]]+\])[?]?[(<:]/.exec(line) ?? [];
    if (name !== undefined) {
      const member = { name, comment, code: line };
      found.push(member);
      last = member;
      comment = '';
    } else if (last) last.code += `\n${line}`;
  }
  return found;
}

const isType = (code: string) => /^(?:export )?(?:declare )?(?:abstract )?(?:class|interface) /.test(code);

/** Everything that has a comment of its own: symbols, and their members. */
function commentsOf(name: string, { comment, code }: Statement): { name: string; comment: string; code: string }[] {
  const members = isType(code) ? membersOf(code).map((each) => ({ ...each, name: `${name}.${each.name}` })) : [];
  return [{ name, comment, code }, ...members];
}

function publicStatements(folder: string): [string, Statement][] {
  return entriesOf(folder).flatMap(({ file }) =>
    [...symbolsOf(file)].flatMap(([name, statements]) => statements.map((each) => [name, each] as [string, Statement])),
  );
}

/** What people can call, by name. */
function callables(folder: string): Map<string, Callable> {
  const found = new Map<string, Callable>();
  for (const [symbol, statement] of publicStatements(folder)) {
    const [head = ''] = statement.code.split('\n');
    const bases = [...(/(?:implements|extends) (.*)\{/.exec(head)?.[1] ?? '').matchAll(/\w+/g)].map(([base]) => base);
    for (const { name, comment, code } of commentsOf(symbol, statement)) {
      const isCall =
        name === symbol
          ? /^(?:export )?(?:declare )?function /.test(code)
          : /^ {4}(?:static )?[\w.[\]]+(?:<[^(]*)?\(/.test(code);
      const around = name === symbol ? '' : statement.comment;
      if (isCall) found.set(name, { name, comment, parameters: parametersOf(code), around, bases });
    }
  }
  return found;
}

/** Codes of errors: HersError's and CompressError's. */
function knownCodes(): Set<string> {
  const texts = ['scheme/src/errors.ts', 'compress/src/errors.ts'].map((file) =>
    readFileSync(workspace.source(file), 'utf8'),
  );
  return new Set(texts.flatMap((text) => [...text.matchAll(/^ {2}([A-Z][A-Z_]+): \{/gm)].map(([, code]) => code!)));
}

/**
 * What the comments of the public interface leave out: parameters without a sentence, sentences
 * about parameters that there are not, no word about errors, codes that there are not, and codes
 * that the function throws itself and its comment does not name. `never` are those that throw
 * nothing.
 */
export function untagged(folder: string, never: ReadonlySet<string>): string[] {
  const all = callables(folder);
  const codes = knownCodes();
  const findings: string[] = [];
  for (const { name, comment, parameters, around, bases } of all.values()) {
    // What implements an interface does what is said there.
    const [, member] = name.split('.');
    const isInherited = comment === '' && bases.some((base) => all.has(`${base}.${member}`));
    if (isInherited) continue;
    const tags = tagsOf(comment);
    const paramsOf = (some: typeof tags) =>
      some.filter(({ tag }) => tag === 'param').map(({ text }) => /^(\w+) - \S/.exec(text)?.[1] ?? text);
    const described = paramsOf(tags);
    const everywhere = paramsOf(tagsOf(around));
    const names = parameters.map((each) => (each.startsWith('{') ? 'options' : each));
    for (const each of names)
      if (!described.includes(each) && !everywhere.includes(each)) findings.push(`${name}: no sentence about ${each}`);
    for (const each of described) if (!names.includes(each)) findings.push(`${name}: there is no parameter ${each}`);
    const textsOf = (some: typeof tags) => some.filter(({ tag }) => tag === 'throws').map(({ text }) => text);
    const throws = textsOf(tags);
    const shared = textsOf(tagsOf(around));
    if (throws.length > 0 && never.has(name)) findings.push(`${name}: said to throw nothing, and has @throws`);
    if (throws.length + shared.length === 0 && !never.has(name)) findings.push(`${name}: no word about errors`);
    const named = new Set<string>();
    for (const text of [...throws, ...shared]) {
      const [, kind, list] = /^\{(\w+)\} (.*)$/.exec(text) ?? [];
      if (kind !== 'HersError' && kind !== 'CompressError') {
        if (kind === undefined) findings.push(`${name}: @throws {Kind} and a sentence, not ${JSON.stringify(text)}`);
        continue;
      }
      const own = /^[A-Z_]{3,}(?:, [A-Z_]{3,})*/.exec(list!)?.[0].split(', ') ?? [];
      if (own.length === 0) findings.push(`${name}: @throws {${kind}} names no code`);
      for (const code of own) {
        named.add(code);
        if (!codes.has(code)) findings.push(`${name}: there is no code ${code}`);
      }
    }
    for (const code of thrownBy(name))
      if (!named.has(code)) findings.push(`${name}: throws ${code}, and does not say so`);
  }
  const calls = new Set(all.keys());
  for (const name of never) if (!calls.has(name)) findings.push(`${name}: there is no such function`);
  return findings.sort();
}

// — what a function throws itself: in its own body, and in what it calls of its own file —

/** Where the public functions and classes are. */
const SOURCES = [
  ...['connect', 'database', 'collection', 'fields/field', 'filter/filter-text', 'keys/keyfile', 'formats/records'].map(
    (name) => `client/src/${name}.ts`,
  ),
  ...['session/list-cache.ts', 'session/versions.node.ts', 'transport/http.ts'].map((name) => `client/src/${name}`),
  ...['scheme/src/secret/key.ts', 'store/src/store.ts', 'training/src/fit.ts', 'compress/src/compressor.ts'],
  ...['server', 'tokens', 'audit'].map((name) => `server/src/${name}.ts`),
];

/** Imported functions that throw, and what. */
const IMPORTED: ReadonlyMap<string, string> = new Map([
  ['refuseUnknown', 'INVALID_ARGUMENT'],
  ['checkCollectionName', 'INVALID_ARGUMENT'],
  ['checkPartitions', 'INVALID_ARGUMENT'],
  ['isFileThere', 'INVALID_ARGUMENT'],
  ['inPartitions', 'FORBIDDEN'],
  ['checkWhole', 'FORBIDDEN'],
  ['lockFile', 'LOCKED'],
  ['invalid', 'INVALID_ARGUMENT'],
]);

/** An error that is made to be thrown, and not to be reported or to be the reason of a signal. */
const THROWN = /(?:throw|return|=>|[?:]|\breject\()\s*new (?:Hers|Compress)Error\(\s*'([A-Z_]+)'/g;

/** A method of an object that a function makes: what it throws, the function does not. */
const METHOD_OF_RESULT = /^( {4,})(?:async )?\w+\([\w, :]*\) \{\n(?:.*\n)*?\1\},?\n/gm;

/** The bodies of a file's functions and methods, by name; those of a class as `Class.method`. */
function bodiesOf(text: string): Map<string, string> {
  const bodies = new Map<string, string>();
  let owner = '';
  let name: string | undefined;
  let margin = '';
  for (const line of text.split('\n')) {
    const [, declared] = /^(?:export )?(?:abstract )?class (\w+)/.exec(line) ?? [];
    if (declared !== undefined) owner = declared;
    else if (line === '}') owner = '';
    const [, free] = /^(?:export )?(?:async )?function\*? (\w+)/.exec(line) ?? [];
    const [, method] =
      (owner && /^ {2}(?:static |async |get |set |\*)*(#?\w+|\[[\w.]+\])(?:<[^(]*>)?\(/.exec(line)) || [];
    if (name === undefined && (free ?? method) !== undefined) {
      name = free ?? `${owner}.${method}`;
      margin = free !== undefined ? '' : '  ';
    }
    if (name === undefined) continue;
    bodies.set(name, `${bodies.get(name) ?? ''}${line}\n`);
    if (
      line === `${margin}}` ||
      (line.startsWith(margin) && /\{.*\}$/.test(line) && /^\S/.test(line.slice(margin.length)))
    )
      name = undefined;
  }
  return bodies;
}

let known: Map<string, { body: string; file: Map<string, string> }> | undefined;

function knownBodies(): Map<string, { body: string; file: Map<string, string> }> {
  known ??= new Map(
    SOURCES.flatMap((source) => {
      const path = workspace.source(source);
      const file = existsSync(path) ? bodiesOf(readFileSync(path, 'utf8')) : new Map<string, string>();
      return [...file].map(([name, body]) => [name, { body, file }] as const);
    }),
  );
  return known;
}

/** The codes that a public function throws, as far as its file shows. */
export function thrownBy(name: string): Set<string> {
  const codes = new Set<string>();
  const start = knownBodies().get(name);
  const seen = new Set([name]);
  const queue = start ? [{ name, ...start }] : [];
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    const { file } = next;
    const body = next.body.replace(METHOD_OF_RESULT, '');
    const [owner] = next.name.includes('.') ? next.name.split('.') : [''];
    for (const [, code] of body.matchAll(THROWN)) codes.add(code!);
    for (const [, called] of body.matchAll(/(?<![.\w#])(\w+)\(/g)) {
      const imported = IMPORTED.get(called!);
      if (imported !== undefined && !file.has(called!)) codes.add(imported);
      if (file.has(called!)) add(called!, file);
    }
    // What is caught at once is not passed on.
    for (const [, called] of body.matchAll(/this\.(#?\w+)\((?![^()]*\)\.catch\()/g))
      if (file.has(`${owner}.${called}`)) add(`${owner}.${called}`, file);
  }
  return codes;

  function add(other: string, file: Map<string, string>): void {
    if (seen.has(other)) return;
    seen.add(other);
    queue.push({ name: other, body: file.get(other)!, file });
  }
}

// — examples —

/** The examples in the comments of the public interface, each with the symbol that it is of. */
export function examplesOf(folder: string): { name: string; code: string }[] {
  const found = new Map<string, { name: string; code: string }>();
  for (const [symbol, statement] of publicStatements(folder))
    for (const { name, comment } of commentsOf(symbol, statement))
      for (const { tag, block } of tagsOf(comment))
        if (tag === 'example') found.set(`${name} ${block}`, { name, code: block });
  return [...found.values()];
}

/**
 * Declarations that stand around an example: every public function and class, and what the examples
 * call their things.
 */
export function aroundExamples(folder: string): string {
  const declared = new Map<string, string>();
  for (const { specifier, file } of entriesOf(folder)) {
    const index = /^export \* from '([^']*)';\s*$/.exec(readFileSync(file, 'utf8'))?.[1];
    const exported = readFileSync(
      index === undefined ? file : join(dirname(file), index.replace(/\.js$/, '.d.ts')),
      'utf8',
    );
    for (const [name, statements] of symbolsOf(file)) {
      const isValue = statements.some(({ code }) => /^(?:export )?(?:declare )?(?:class|function|const) /.test(code));
      const isType = new RegExp(`\\btype ${name}\\b`).test(exported);
      if (isValue && !isType && !declared.has(name))
        declared.set(name, `const ${name}: typeof import('${specifier}').${name};`);
    }
  }
  const things: Readonly<Record<string, string>> = {
    db: "import('hers').Database",
    faces: "import('hers').Collection",
    key: "import('hers').MasterSeed",
    store: "import('hers/store').FolderStore",
    bundle: 'string',
    door: "import('hers/device').Device",
    kiosk: "import('hers/device').Device",
    token: 'string',
    passphrase: 'string',
    vector: 'Float32Array',
    probe: 'Float32Array',
    other: 'Float32Array',
    vectors: 'Float32Array',
    embedding: 'Float32Array',
    labels: 'string[]',
    readFile: "typeof import('node:fs/promises').readFile",
    writeFile: "typeof import('node:fs/promises').writeFile",
    createReadStream: "typeof import('node:fs').createReadStream",
  };
  const all = [...declared.values(), ...Object.entries(things).map(([name, type]) => `const ${name}: ${type};`)];
  return `declare global {\n  ${all.join('\n  ')}\n}\nexport {};\n`;
}
