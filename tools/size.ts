// npm run size [-- --check]: lines and files of source, by package. Size is a cost that everybody
// pays who reads this, so a table holds limits, and a commit that raises one says why.
//
// Source is code that people wrote: not tests, the tools of tests, or what a build made.

import { globSync, readFileSync } from 'node:fs';
import { join, resolve, sep } from 'node:path';
import { Workspace } from './workspace.ts';

/** Smaller TypeScript files are counted: an idea that takes so few lines rarely needs a file. */
const SMALL_LINES = 40;
const CODE = '**/*.{ts,mts,tsx,js,mjs,cc,cpp,h,cu,cuh}';
const NOT_SOURCE = /\.test\.\w+$|(?:^|\/)(?:testing|build|dist|node_modules)\//;

/** Lines and files at most; in files, those below 40 lines are in the third place. */
const LIMITS: Readonly<Record<string, readonly [lines: number, files: number, small: number]>> = {
  packages: [82_000, 465, 45],
  everything: [120_000, 715, 58],
};

interface Size {
  lines: number;
  files: number;
  small: number;
}

/** Counts the source of each package, of `tools` and `examples`, and of groups of them. */
export function sizes(root: string): Map<string, Size> {
  const workspace = new Workspace(root);
  const found = new Map<string, Size>();
  const add = (name: string, lines: number, isSmall: boolean) => {
    const size = found.get(name) ?? { lines: 0, files: 0, small: 0 };
    found.set(name, { lines: size.lines + lines, files: size.files + 1, small: size.small + Number(isSmall) });
  };
  const places = [...workspace.folders, ['examples', 'examples'], ['tools', 'tools']] as const;
  for (const [name, folder] of places) {
    const group = folder.includes('/') ? folder.split('/')[0] : undefined;
    for (const path of globSync(CODE, { cwd: join(root, folder) }).sort()) {
      if (NOT_SOURCE.test(path.replaceAll(sep, '/'))) continue;
      const lines = readFileSync(join(root, folder, path), 'utf8').split('\n').length - 1;
      const isSmall = lines < SMALL_LINES && /\.tsx?$/.test(path);
      for (const each of [name, ...(group === undefined ? [] : [group]), 'everything']) add(each, lines, isSmall);
    }
  }
  return found;
}

/** Sentences about limits that are exceeded. */
export function excesses(found: ReadonlyMap<string, Size>, limits: typeof LIMITS = LIMITS): string[] {
  return Object.entries(limits).flatMap(([name, [lines, files, small]]) => {
    const size = found.get(name)!;
    const parts: [what: string, is: number, most: number][] = [
      ['lines', size.lines, lines],
      ['files', size.files, files],
      [`files below ${SMALL_LINES} lines`, size.small, small],
    ];
    return parts
      .filter(([, is, most]) => is > most)
      .map(([what, is, most]) => `${name}: ${is} ${what}, at most ${most}`);
  });
}

/** Prints what is too large, or one line that says how large everything is; returns whether it fits. */
export function reportSize(root: string): boolean {
  const found = sizes(root);
  const over = excesses(found);
  for (const excess of over) console.log(`${excess}: make it smaller, or raise the limit in tools/size.ts and say why`);
  const { lines, files } = found.get('everything')!;
  if (over.length === 0) console.log(`size: ${lines} lines in ${files} files of source, within the limits`);
  return over.length === 0;
}

if (process.argv[1] === import.meta.filename) {
  const root = resolve(import.meta.dirname, '..');
  if (process.argv.includes('--check')) {
    if (!reportSize(root)) process.exitCode = 1;
  } else {
    console.log(`${'source'.padEnd(12)}${'lines'.padStart(8)}${'files'.padStart(7)}${`< ${SMALL_LINES}`.padStart(6)}`);
    for (const [name, { lines, files, small }] of sizes(root))
      console.log(
        `${name.padEnd(12)}${String(lines).padStart(8)}${String(files).padStart(7)}${String(small).padStart(6)}`,
      );
  }
}
