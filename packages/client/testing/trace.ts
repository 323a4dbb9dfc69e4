// Traces which source files a call enters on this thread. A loader hook has every named function of
// our packages note that it runs, whether it is compiled or inlined. A file counts as entered by a
// function with a block body; one of a single expression only touches it.

import { registerHooks } from 'node:module';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAst } from 'rolldown/parseAst';

const ROOT = join(import.meta.dirname, '../../..');
const SOURCE = /^(?:packages\/[^/]+|cuda)\/src\/.+\.m?ts$/;
const NOTE = Symbol.for('hers.trace');

export interface Trace {
  /** Functions by file, both in the order of first visit. */
  readonly entered: ReadonlyMap<string, ReadonlySet<string>>;
  /** Files in which only functions of one expression ran. */
  readonly touched: readonly string[];
}

let running: { entered: Map<string, Set<string>>; brief: Set<string> } | undefined;

/** Traces modules that are loaded from here on: import those afterwards, by `import()`. */
export function traceModules(): void {
  const note = (file: string, name: string, isBlock: boolean) => {
    if (!isBlock) return running?.brief.add(file);
    const names = running?.entered.get(file);
    if (names) names.add(name);
    else running?.entered.set(file, new Set([name]));
  };
  Reflect.set(globalThis, NOTE, note);
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (!url.startsWith('file:') || !loaded.source) return loaded;
      const file = relative(ROOT, fileURLToPath(url)).replaceAll(sep, '/');
      return SOURCE.test(file) ? { ...loaded, source: withNotes(String(loaded.source), file) } : loaded;
    },
  });
}

/** Makes a call, and returns what it entered until a moment later, when a server has ended too. */
export async function traced(call: () => Promise<unknown>): Promise<Trace> {
  const { entered, brief } = (running = { entered: new Map(), brief: new Set() });
  try {
    await call();
    await new Promise((resolve) => setTimeout(resolve, 20));
  } finally {
    running = undefined;
  }
  return { entered, touched: [...brief].filter((file) => !entered.has(file)) };
}

interface SyntaxNode {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [part: string]: unknown;
}

/** Parts of the syntax around a function in which its name stands. */
const NAMED_BY: Readonly<Record<string, string>> = {
  MethodDefinition: 'key',
  Property: 'key',
  PropertyDefinition: 'key',
  VariableDeclarator: 'id',
  AssignmentExpression: 'left',
};

/** Adds a call to the body of each function that has a name; lines stay as they are. */
function withNotes(source: string, file: string): string {
  const added: [at: number, text: string][] = [];
  const visit = (value: unknown, parent: SyntaxNode | undefined, owner: string): void => {
    if (Array.isArray(value)) for (const each of value) visit(each, parent, owner);
    if (typeof (value as SyntaxNode | null)?.type !== 'string') return;
    const node = value as SyntaxNode;
    const textOf = (part: unknown) => source.slice((part as SyntaxNode).start, (part as SyntaxNode).end);
    const body = node.body as SyntaxNode | null;
    const named = node.id ?? parent?.[NAMED_BY[parent.type] ?? ''];
    if (/Function/.test(node.type) && body && named) {
      const name = (parent?.type === 'MethodDefinition' ? owner : '') + textOf(named);
      const isBlock = body.type === 'BlockStatement';
      const call = `globalThis[Symbol.for('${NOTE.description}')](...${JSON.stringify([file, name, isBlock])})`;
      if (isBlock) added.push([body.start + 1, `${call};`]);
      else added.push([body.start, `(${call},`], [body.end, ')']);
    }
    const within = /^Class/.test(node.type) && node.id ? `${textOf(node.id)}.` : owner;
    for (const part of Object.values(node)) visit(part, node, within);
  };
  visit(parseAst(source, { lang: 'ts' }), undefined, '');
  let at = 0;
  const pieces = added.sort(([a], [b]) => a - b).flatMap(([to, text]) => [source.slice(at, (at = to)), text]);
  return pieces.join('') + source.slice(at);
}
