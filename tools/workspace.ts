// The packages of a workspace as they lie on disk: their folders, their files, what they export, what
// they declare to depend on. Their places are in package.json alone.

import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, sep } from 'node:path';

interface Manifest {
  exports?: unknown;
  imports?: unknown;
  workspaces?: readonly string[];
  [section: string]: unknown;
}

/** A file, and its path inside its package. */
interface Place {
  readonly name: string;
  readonly path: string;
}

export class Workspace {
  readonly root: string;
  /** The folders of the packages by their names, relative to the root. */
  readonly folders: ReadonlyMap<string, string>;
  readonly #manifests = new Map<string, Manifest>();

  constructor(root: string) {
    this.root = root;
    const patterns = this.#manifest('.').workspaces ?? [];
    const manifests = globSync(
      patterns.map((pattern) => `${pattern}/package.json`),
      { cwd: root },
    );
    const folders = manifests.map((path) => dirname(path).replaceAll(sep, '/')).sort();
    this.folders = new Map(folders.map((folder) => [basename(folder), folder]));
  }

  get packages(): string[] {
    return [...this.folders.keys()];
  }

  /** Returns the folder of a package, relative to the root. */
  folder(name: string): string {
    const folder = this.folders.get(name);
    if (folder === undefined) throw new Error(`there is no package ${name} in the workspace`);
    return folder;
  }

  /** Returns the absolute path of a file or folder of a package. */
  path(name: string, inside = ''): string {
    return join(this.root, this.folder(name), inside);
  }

  /** Returns the absolute path of a file that is named by package and path: `ring/src/ring.ts`. */
  source(file: string): string {
    const [name, ...inside] = file.split('/');
    return this.path(name!, inside.join('/'));
  }

  /** Returns the package that a file relative to the root is in. */
  placeOf(file: string): Place | undefined {
    for (const [name, folder] of this.folders)
      if (file.startsWith(`${folder}/`)) return { name, path: file.slice(folder.length + 1) };
    return undefined;
  }

  /** Returns the files of all packages that match a pattern inside them, relative to the root. */
  glob(pattern: string): string[] {
    const patterns = [...this.folders.values()].map((folder) => `${folder}/${pattern}`);
    return globSync(patterns, { cwd: this.root })
      .map((file) => file.replaceAll(sep, '/'))
      .sort();
  }

  /**
   * The source files of all packages: not what a build made, and not AssemblyScript, which resolves
   * in its own way.
   */
  files(): string[] {
    return this.glob('**/*.{ts,mts,cts,tsx,js,mjs,cjs,jsx,svelte}').filter(
      (file) => !/^(?:build|dist|assembly|node_modules)\/|\/node_modules\//.test(this.placeOf(file)!.path),
    );
  }

  /**
   * The files that `subpath` (`.` or `./name`) of a package stands for; none when it is not
   * exported.
   */
  exported(name: string, subpath: string): string[] {
    if (!this.folders.has(name)) return [];
    const { exports } = this.#manifest(this.folder(name));
    if (typeof exports === 'string') return subpath === '.' ? [withoutDot(exports)] : [];
    const entries = (exports ?? {}) as Record<string, unknown>;
    if (Object.hasOwn(entries, subpath)) return leaves(entries[subpath]).map(withoutDot);
    // The longest pattern counts, as in Node.
    const pattern = Object.keys(entries)
      .filter((key) => key.endsWith('*') && subpath.startsWith(key.slice(0, -1)))
      .sort((a, b) => b.length - a.length)[0];
    if (pattern === undefined) return [];
    const rest = subpath.slice(pattern.length - 1);
    return leaves(entries[pattern]).map((file) => withoutDot(file.replace('*', rest)));
  }

  /** The files that `#name` of a package stands for, each with whether it is for Node alone. */
  imported(name: string, specifier: string): { file: string; forNode: boolean }[] {
    const { imports } = this.#manifest(this.folder(name));
    return branches((imports as Record<string, unknown> | undefined)?.[specifier], false);
  }

  /** Whether the manifest of `folder` names `dependency` in one of the sections. */
  declares(folder: string, sections: readonly string[], dependency: string): boolean {
    const manifest = this.#manifest(folder);
    return sections.some((section) => Object.hasOwn((manifest[section] as object | undefined) ?? {}, dependency));
  }

  #manifest(folder: string): Manifest {
    let manifest = this.#manifests.get(folder);
    if (!manifest) {
      manifest = JSON.parse(readFileSync(join(this.root, folder, 'package.json'), 'utf8')) as Manifest;
      this.#manifests.set(folder, manifest);
    }
    return manifest;
  }
}

/**
 * All files of an `exports` entry, whatever its conditions: a wall must hold under each of them.
 */
function leaves(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return value && typeof value === 'object' ? Object.values(value).flatMap(leaves) : [];
}

/** The same for an `imports` entry, with what its conditions say. */
function branches(value: unknown, forNode: boolean): { file: string; forNode: boolean }[] {
  if (typeof value === 'string') return [{ file: withoutDot(value), forNode }];
  if (!value || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([condition, each]) => branches(each, forNode || condition === 'node'));
}

function withoutDot(path: string): string {
  return path.replace(/^\.\//, '');
}
