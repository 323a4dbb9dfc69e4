// The packages of a workspace as they lie on disk: their files, what they export, what they declare
// to depend on.

import { globSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';

interface Manifest {
  exports?: unknown;
  imports?: unknown;
  [section: string]: unknown;
}

export class Workspace {
  readonly root: string;
  readonly packages: readonly string[];
  readonly #manifests = new Map<string, Manifest>();

  constructor(root: string) {
    this.root = root;
    this.packages = globSync('packages/*/package.json', { cwd: root }).map((path) => path.split(sep)[1]!);
  }

  /**
   * The source files of all packages: not what a build made, and not AssemblyScript, which resolves
   * in its own way.
   */
  files(): string[] {
    return globSync('packages/*/**/*.{ts,mts,cts,tsx,js,mjs,cjs,jsx,svelte}', { cwd: this.root })
      .map((file) => file.replaceAll(sep, '/'))
      .filter((file) => !/^packages\/[^/]+\/(?:build|dist|assembly)\/|\/node_modules\//.test(file))
      .sort();
  }

  /**
   * The files that `subpath` (`.` or `./name`) of a package stands for; none when it is not
   * exported.
   */
  exported(name: string, subpath: string): string[] {
    if (!this.packages.includes(name)) return [];
    const { exports } = this.#manifest(`packages/${name}`);
    if (typeof exports === 'string') return subpath === '.' ? [withoutDot(exports)] : [];
    return leaves((exports as Record<string, unknown> | undefined)?.[subpath]).map(withoutDot);
  }

  /** The files that `#name` of a package stands for, each with whether it is for Node alone. */
  imported(name: string, specifier: string): { file: string; forNode: boolean }[] {
    const { imports } = this.#manifest(`packages/${name}`);
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
