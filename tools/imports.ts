// Lists what a source file loads: imports, re-exports, dynamic imports, worker URLs.
//
// The original text is read, not the text with its types stripped: stripping removes type-only
// imports, and these must not cross a wall either. es-module-lexer reads TypeScript and finds the
// statements and dynamic imports of code, but it passes over `import('…')` inside type aliases, and
// knows nothing of URLs. A plain search finds those; where it errs, it reports too much (what
// stands in a string) rather than too little.

import { init, parse } from 'es-module-lexer';

await init();

export interface Import {
  /** Undefined when it is not a plain string literal, so that nobody can tell what is loaded. */
  specifier: string | undefined;
  line: number;
  /**
   * `static` covers re-exports and type-only imports; `url` is a file handed to a worker, or about
   * to be.
   */
  kind: 'static' | 'dynamic' | 'url';
}

const loaders =
  /(?<![.\w$])(?<what>import|require|createRequire\([^()]*\)|import\.meta\.resolve|new\s+URL|new\s+(?:Shared)?Worker)\s*\(\s*/g;
/** The rest of `new URL(` when its base is this file. */
const besideThisFile = /^[^;()]*(?:\([^()]*\)[^;()]*)*,\s*import\.meta\.url\b/;
const codeFile = /\.(?:[cm]?[jt]s|[jt]sx|svelte)$/;
const commentLine = /^\s*(?:\/\/|\*(?!\/)|\/\*)/;

/** All that `source` loads, in the order of the lines. Throws when the text cannot be lexed. */
export function importsOf(source: string, name: string): Import[] {
  // Keyed by position, for one import may be found twice.
  const found = new Map<number, Import>();
  const add = (at: number, kind: Import['kind'], specifier: string | undefined) => {
    if (!found.has(at)) found.set(at, { specifier, line: source.slice(0, at).split('\n').length, kind });
  };

  const lexed = new Set<number>();
  const text = name.endsWith('.svelte') ? scriptsOf(source) : name.endsWith('.tsx') ? statementsOf(source) : source;
  for (const item of parse(text, name)[0]) {
    if (item.type === 'static' || item.type === 'reexport-star') add(item.start, 'static', item.specifier);
    if (item.type !== 'dynamic') continue;
    lexed.add(item.importStart);
    add(item.start, 'dynamic', /^['"]/.test(source.slice(item.start)) ? item.specifier : undefined);
  }

  for (const match of source.matchAll(loaders)) {
    if (commentLine.test(source.slice(source.lastIndexOf('\n', match.index) + 1, match.index + 1))) continue;
    if (lexed.has(match.index)) continue;
    const { what = '' } = match.groups!;
    const at = match.index + match[0].length;
    const argument = source.slice(at);
    if (what.endsWith('Worker')) {
      const start = at + (/^new\s+URL\(\s*/.exec(argument)?.[0].length ?? 0);
      const url = source.slice(start);
      add(start, 'url', start > at && besideThisFile.test(url) ? asRelative(literalAt(url)) : undefined);
    } else if (what.endsWith('URL')) {
      const text = literalAt(argument);
      // Data files beside the code are nobody's layer; a name put together at run time might be
      // anything.
      const counts = text === undefined || codeFile.test(text);
      if (counts && besideThisFile.test(argument)) add(at, 'url', asRelative(text));
    } else if (what !== 'require' || literalAt(argument) !== undefined) {
      // A `require` of anything but a literal is a function of our own: modules have no other.
      add(at, 'dynamic', literalAt(argument));
    }
  }
  return [...found.values()].sort((a, b) => a.line - b.line);
}

/** The string at the start of a call's arguments, when it is all of the first argument. */
function literalAt(text: string): string | undefined {
  return /^(['"])([^'"\\\n]*)\1\s*(?=[,)])/.exec(text)?.[2];
}

/** A URL beside the file needs no leading dot, an import does. */
function asRelative(url: string | undefined): string | undefined {
  return url !== undefined && /^\w[\w.-]*(?:\/|$)/.test(url) ? `./${url}` : url;
}

/** The scripts of a Svelte component, every other character blanked so that the positions stay. */
function scriptsOf(source: string): string {
  let end = 0;
  let text = '';
  for (const match of source.matchAll(/(<script\b[^>]*>)([\s\S]*?)<\/script>/g)) {
    const start = match.index + match[1]!.length;
    text += source.slice(end, start).replace(/[^\n]/g, ' ') + match[2];
    end = start + match[2]!.length;
  }
  return text;
}

/**
 * The static imports and re-exports of a file with JSX, which the lexer does not read; every other
 * character blanked. The search above finds what is imported dynamically.
 */
function statementsOf(source: string): string {
  let end = 0;
  let text = '';
  for (const match of source.matchAll(/^(?:import|export)\b(?:[\w\s{},*$]*\bfrom)?\s*(['"])[^'"\n]*\1/gm)) {
    text += source.slice(end, match.index).replace(/[^\n]/g, ' ') + match[0];
    end = match.index + match[0].length;
  }
  return text;
}
