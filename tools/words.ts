// The words check: the glossary of CONTRIBUTING.md, as far as a program can see whether it is kept.
// It also holds comments to a width, because the formatter does not, and lets no more of them open
// as a translation does.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Workspace } from './workspace.ts';

export interface Finding {
  file: string;
  line: number;
  message: string;
}

/** Where a word may not stand, and the word to use. */
interface Rule {
  readonly word: RegExp;
  readonly instead: string;
  /** Packages; everywhere unless given. */
  readonly within?: readonly string[];
  /** A path in these packages; every file unless given. */
  readonly file?: string;
}

const COMMENT_WIDTH = 100;

/** Layers that know nothing of authenticated encryption. */
const UNSEALED = ['ring', 'scheme', 'scan', 'compress', 'training', 'vectors'];

const RULES: readonly Rule[] = [
  { word: /optimis/i, instead: 'optimize' },
  { word: /\b[Ww]aiting ?[Rr]ecords?\b|\brecords? that wait\b|\bWAITING\b/, instead: 'pending', within: ['client'] },
  {
    word: /\bseal[A-Z]\w*|\w[a-z]Seal(?!ed)\w*/,
    instead: 'another word: to seal is to encrypt and authenticate',
    within: UNSEALED,
  },
  { word: /\bparted by\b/i, instead: 'separated by' },
  { word: /\banew\b/i, instead: 'again' },
  {
    word: /\b(?:usual|most|least|about):/,
    instead: 'default, max, min, description',
    within: ['server'],
    file: 'src/limits.ts',
  },
];

/** Names of JavaScript, of Node and of browsers. */
const GLOBALS = new Set([
  ...Object.getOwnPropertyNames(globalThis).filter((name) => /^[A-Z]/.test(name)),
  ...['Cache', 'Document', 'Element', 'File', 'History', 'Image', 'Location', 'Node', 'Notification'],
  ...['Option', 'Plugin', 'Range', 'Selection', 'Text', 'Window', 'Worker'],
]);

const DECLARED = /^export (?:default )?(?:abstract )?(?:class|interface|type|function|const|enum) ([A-Z]\w*)/;
const COMMENT = /^\s*(?:\/\/|\/\*|\*(?:\s|\/|$))/;
/** A link cannot be wrapped, nor what a tool reads. */
const UNWRAPPABLE = /https?:\/\/\S{40}|biome-ignore|@ts-|reference types/;

/** What one file says against the glossary. */
export function findingsIn(workspace: Workspace, file: string, text: string): Finding[] {
  const place = workspace.placeOf(file);
  const rules = RULES.filter(
    ({ within, file: only }) => (within?.includes(place?.name ?? '') ?? true) && (!only || only === place?.path),
  );
  const findings: Finding[] = [];
  text.split('\n').forEach((content, at) => {
    const find = (message: string) => findings.push({ file, line: at + 1, message });
    for (const { word, instead } of rules) {
      const found = word.exec(content)?.[0];
      if (found) find(`“${found}”: say ${instead}`);
    }
    const name = DECLARED.exec(content)?.[1];
    if (name && GLOBALS.has(name)) find(`${name} is the name of a global: choose another`);
    if (COMMENT.test(content) && content.length > COMMENT_WIDTH && !UNWRAPPABLE.test(content))
      find(`this comment has ${content.length} columns; wrap it at ${COMMENT_WIDTH}`);
  });
  return findings;
}

/** Openings and phrases that a translation has and a native text has not. */
const TRANSLATED =
  /^(?:What|Who|Whoever|Whose|Whether|Where|How|Of|Those|The same)\b|\b(?:so many|whoever|that there (?:is|are) not|is none|for ever)\b/i;
const OPENING = /^\s*(?:\/\/|\/\*\*?)\s*(.*)$/;

/**
 * How many comments of each package may still read so: as many as do. A new one is refused; say it
 * verb first ("Returns…", "Copies…"). Lower a number when you mend some.
 */
const MOST_TRANSLATED: Readonly<Record<string, number>> = {
  cuda: 42,
  cli: 152,
  client: 382,
  cluster: 145,
  compress: 18,
  console: 100,
  ring: 50,
  scan: 91,
  scheme: 129,
  server: 165,
  service: 49,
  store: 148,
  training: 56,
  vectors: 18,
  paper: 136,
  trials: 115,
};

/** Lines where a comment opens as a translation does. */
export function translatedIn(text: string): number[] {
  const lines = text.split('\n');
  return lines.flatMap((line, at) => {
    const opening = OPENING.exec(line)?.[1] || (/^\s*\/\*\*\s*$/.test(line) && lines[at + 1]?.replace(/^\s*\*\s*/, ''));
    // A line that goes on with a comment opens nothing.
    const goesOn = /^\s*\/\//.test(line) && /^\s*\/\//.test(lines[at - 1] ?? '');
    return opening && !goesOn && TRANSLATED.test(opening) ? [at + 1] : [];
  });
}

/** Lines that were added since the numbers above were last changed, by file; none without git. */
function addedLines(root: string): Map<string, Set<number>> {
  const git = (...args: string[]) => spawnSync('git', args, { cwd: root, encoding: 'utf8' }).stdout ?? '';
  const since = git('log', '-1', '--format=%H', '--', 'tools/words.ts').trim();
  const added = new Map<string, Set<number>>();
  let file = '';
  for (const line of git('diff', '-U0', '--no-prefix', since || 'HEAD').split('\n')) {
    if (line.startsWith('+++ ')) added.set((file = line.slice(4)), new Set());
    const [, from, count = '1'] = /^@@ \S+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
    for (let i = 0; from !== undefined && i < Number(count); i++) added.get(file)?.add(Number(from) + i);
  }
  for (const path of git('ls-files', '--others', '--exclude-standard').split('\n')) added.set(path, new Set());
  return added;
}

/** Finds comments above what a package may have: those that were added, if they can be told. */
function translations(workspace: Workspace, files: readonly string[], read: (file: string) => string): Finding[] {
  const found = Map.groupBy(
    files.flatMap((file) => translatedIn(read(file)).map((line) => ({ file, line }))),
    ({ file }) => workspace.placeOf(file)!.name,
  );
  return [...found].flatMap(([name, places]) => {
    const most = MOST_TRANSLATED[name] ?? 0;
    if (places.length <= most) return [];
    const message = `a comment opens as a translation does (${name}: ${places.length}, at most ${most}); say it verb first`;
    const added = addedLines(workspace.root);
    const suspects = places.filter(({ file, line }) => {
      const lines = added.get(file);
      // A file that git does not know is new as a whole.
      return lines && (lines.size === 0 || lines.has(line));
    });
    return (suspects.length > 0 ? suspects : places.slice(0, 1)).map((place) => ({ ...place, message }));
  });
}

/** The entries of a package whose names must differ: those with keys are a layer of their own. */
const entriesOf = (workspace: Workspace, name: string) =>
  ['index.ts', 'secret/index.ts'].map((entry) => `${workspace.folder(name)}/src/${entry}`);

/** Types of one name that two packages export. */
function sharedNames(workspace: Workspace): Finding[] {
  const homes = new Map<string, string>();
  const findings: Finding[] = [];
  for (const file of workspace.packages.toSorted().flatMap((name) => entriesOf(workspace, name))) {
    let text: string;
    try {
      text = readFileSync(join(workspace.root, file), 'utf8');
    } catch {
      continue;
    }
    // What comes from another package is that package's.
    for (const [, names, from] of text.matchAll(/export (?:type )?\{([^}]*)\} from '([^']+)'/g)) {
      if (!from!.startsWith('.')) continue;
      for (const each of names!.split(',')) {
        const exported = each
          .trim()
          .replace(/^type /, '')
          .replace(/^.* as /, '');
        if (!/^[A-Z][a-z]/.test(exported)) continue;
        const home = homes.get(exported);
        if (home) findings.push({ file, line: 1, message: `${exported} is a name that ${home} exports, too` });
        else homes.set(exported, file);
      }
    }
  }
  return findings;
}

export function checkWords(root: string): Finding[] {
  const workspace = new Workspace(root);
  // Kernels in other languages, too.
  const files = [...workspace.files(), ...workspace.glob('{assembly,native,yardsticks}/*.{ts,cc,h}')];
  const text = (file: string) => readFileSync(join(root, file), 'utf8');
  const read = (file: string) => findingsIn(workspace, file, text(file));
  return [...files.flatMap(read), ...sharedNames(workspace), ...translations(workspace, files, text)];
}

/** Prints the findings, or one line that says there are none; returns whether there are none. */
export function reportWords(root: string): boolean {
  const findings = checkWords(root);
  for (const { file, line, message } of findings) console.log(`${file}:${line}: ${message}`);
  if (findings.length === 0) console.log('words: as the glossary has them');
  return findings.length === 0;
}

if (process.argv[1] === import.meta.filename && !reportWords(resolve(import.meta.dirname, '..'))) process.exitCode = 1;
