// npm run pack: the packages that people install, as tarballs in dist/packages.
//
// The clone runs from sources, in packages that import each other by name. What is published are
// two packages, and each holds compiled copies of the packages it is made of, in `lib/`:
//
// - Imports by name (`@hers/scheme`) become relative ones. Every tool resolves these alike (Node,
//   `tsc` under each `moduleResolution`, bundlers), and they need nothing that could be installed
//   twice or in another version.
// - Imports that a condition decides (`#crew`) stay, in the `imports` of the published package.
// - Which files belong to a package, its exports decide: what they import, and the files that they
//   hand to workers. A file that nothing imports is not shipped.

import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join, posix, resolve } from 'node:path';
import { commit } from '@hers/cli/commit';
import { type MinifyOptions, minifySync } from 'rolldown/utils';
import { currentAddons, PUBLISHED_ADDONS } from './addons.ts';
import { pruneDeclarations } from './declarations.ts';
import { type Import, importsOf } from './imports.ts';
import { npm } from './npm.ts';
import { BuildError } from './target.ts';
import { Workspace } from './workspace.ts';

const root = resolve(import.meta.dirname, '..');
const workspace = new Workspace(root);
const scope = '@hers/';

/** Sources are named by package and path, as they lie under `lib`. */
interface Published {
  readonly name: string;
  readonly description: string;
  /** Its files that are not compiled: a folder beside this file. */
  readonly besides: string;
  readonly exports: Readonly<Record<string, string>>;
  readonly bin?: Readonly<Record<string, string>>;
  /** Loaded by what is in `besides`. */
  readonly started?: readonly string[];
  /** Takes the place of an import that a condition decides. */
  readonly instead?: Readonly<Record<string, string>>;
  /** Holds native code. */
  readonly native?: boolean;
  /** Files that are served as they are. */
  readonly served?: readonly string[];
}

const PUBLISHED: readonly Published[] = [
  {
    name: 'hers',
    description: 'Encrypted 1:N similarity search: the command, the server, the store and the client',
    besides: 'published/hers',
    exports: {
      '.': 'client/src/index.ts',
      './client': 'client/src/index.ts',
      './browser': 'client/src/browser.ts',
      './device': 'client/src/inbox/device.ts',
      './keeper': 'client/src/inbox/memory.node.ts',
      './versions': 'client/src/session/versions.node.ts',
      './compress': 'training/src/index.ts',
      './server': 'server/src/index.ts',
      './store': 'store/src/index.ts',
    },
    bin: { hers: 'bin/hers.mjs' },
    started: ['cli/src/main.ts'],
    native: true,
    // files.node.ts of the console reads them.
    served: [
      ...['src/page/index.html', 'src/page/console.css', 'src/page/icon.svg'],
      ...['build/console.js', 'build/models.js'],
    ].map((file) => `console/${file}`),
  },
  {
    name: '@hers/client',
    description: 'Encrypted 1:N similarity search: the client, for Node and for pages',
    besides: 'published/client',
    exports: {
      '.': 'client/src/index.ts',
      './browser': 'client/src/browser.ts',
      // For bundlers that do not find workers by themselves.
      './worker': 'client/src/crew/crew-worker.web.ts',
      './device': 'client/src/inbox/device.ts',
      './versions': 'client/src/session/versions.node.ts',
    },
    // The store, and with it native code, is in `hers` alone.
    instead: { '#folder': './src/absent.web.ts' },
  },
];

/** Made by `npm run build`: the module for pages, and the worker that lies beside it. */
const BROWSER = { types: 'client/src/browser.ts', files: ['client/build/hers.js', 'client/build/hers-worker.js'] };
/**
 * Needed to train compressors and to run networks, or for devices and their keeper, and large: who
 * needs it installs it.
 */
const OPTIONAL = ['onnxruntime-node', 'onnxruntime-web', 'hpke', '@noble/curves', '@noble/post-quantum'];
/** Chooses files while the module for pages is made. */
const OWN_CONDITION = 'hers-module';
/** Not shipped; `hers --kernel cuda` says so. */
const LEFT_OUT = ['@hers/cuda'];

/** The first import of every export. */
const NODE_VERSION = 'node-version.js';

/** The file of an export, without its extension. */
function entryOf(name: string): string {
  return name === '.' ? 'index' : posix.basename(name);
}

type SourceMap = NonNullable<MinifyOptions['inputMap']>;

interface Manifest {
  readonly version: string;
  readonly license: string;
  readonly imports?: Readonly<Record<string, unknown>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

function manifestOf(folder: string): Manifest {
  return JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
}

/** What a published package consists of. */
interface Contents {
  readonly files: ReadonlySet<string>;
  /** Of the packages inside, for the published package. */
  readonly imports: Readonly<Record<string, unknown>>;
  readonly dependencies: Readonly<Record<string, string>>;
}

/** Follows every import from the exports on. */
function contentsOf({ exports, started = [], instead = {} }: Published): Contents {
  const files = new Set<string>();
  const imports: Record<string, unknown> = {};
  const dependencies: Record<string, string> = {};
  const queue = [...Object.values(exports), ...started];
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (files.has(file)) continue;
    files.add(file);
    const [inside] = file.split('/') as [string];
    const manifest = manifestOf(workspace.folder(inside));
    for (const { specifier } of importsOf(readFileSync(workspace.source(file), 'utf8'), file)) {
      if (specifier === undefined) throw new BuildError(`${file} loads something that no literal names`);
      if (isBuiltin(specifier)) continue;
      if (specifier.startsWith('#')) {
        const target = instead[specifier] ?? withoutOwn(manifest.imports?.[specifier]);
        const compiled = mapped(target, (path) => `./lib/${inside}/${compiledName(path.slice(2))}`);
        if (specifier in imports && JSON.stringify(imports[specifier]) !== JSON.stringify(compiled))
          throw new BuildError(`two packages have imports called ${specifier}`);
        imports[specifier] = compiled;
        mapped(target, (path) => queue.push(`${inside}/${path.slice(2)}`));
        continue;
      }
      const target = sourceOf(file, specifier);
      if (target !== undefined) queue.push(target);
      if (target !== undefined || /^\.\.?\//.test(specifier)) continue;
      const name = /^(?:@[^/]+\/)?[^/]+/.exec(specifier)![0];
      if (LEFT_OUT.includes(name)) continue;
      const version = manifest.dependencies?.[name];
      if (version === undefined) throw new BuildError(`${name} is not a dependency of ${inside}`);
      dependencies[name] = version;
    }
  }
  return { files, imports: sorted(imports), dependencies: sorted(dependencies) };
}

/** The source that a specifier stands for, unless it is of another package or not compiled. */
function sourceOf(file: string, specifier: string): string | undefined {
  if (/^\.\.?\//.test(specifier))
    return specifier.endsWith('.ts') ? posix.join(posix.dirname(file), specifier) : undefined;
  if (!specifier.startsWith(scope)) return undefined;
  const [name, ...rest] = specifier.slice(scope.length).split('/') as [string, ...string[]];
  if (LEFT_OUT.includes(scope + name)) return undefined;
  const [path] = workspace.exported(name, ['.', ...rest].join('/'));
  if (path === undefined) throw new BuildError(`${name} does not export ${specifier}`);
  return `${name}/${path}`;
}

function withoutOwn(entry: unknown): unknown {
  if (typeof entry !== 'object' || entry === null) return entry;
  const { [OWN_CONDITION]: _, ...rest } = entry as Record<string, unknown>;
  const [only, ...others] = Object.keys(rest);
  return only === 'default' && others.length === 0 ? rest.default : rest;
}

/** Every path of an entry of `imports` or `exports`, replaced. */
function mapped(entry: unknown, replace: (path: string) => unknown): unknown {
  if (typeof entry === 'string') return replace(entry);
  return Object.fromEntries(Object.entries(entry as object).map(([key, value]) => [key, mapped(value, replace)]));
}

function sorted<T>(record: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function compiledName(source: string, extension = '.js'): string {
  return source.replace(/\.ts$/, extension);
}

/**
 * Compiles sources into `folder`, a folder for each package. Comments are in declarations,
 * for editors; in code they would be a sixth of it, and source maps hold them anyway. What is
 * `@internal` is not declared.
 */
function compile(files: Iterable<string>, folder: string): void {
  mkdirSync(folder, { recursive: true });
  const list = [...files].map((file) => workspace.source(file));
  const emit = (options: object) => {
    const config = {
      extends: join(root, 'tsconfig.json'),
      compilerOptions: {
        noEmit: false,
        rewriteRelativeImportExtensions: true,
        rootDir: dirname(workspace.path('client')),
        outDir: folder,
        typeRoots: [join(root, 'node_modules/@types')],
        ...options,
      },
      files: list,
      include: [],
    };
    const path = join(folder, 'tsconfig.json');
    writeFileSync(path, JSON.stringify(config));
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', path], { cwd: root, encoding: 'utf8' });
    if (status !== 0) throw new BuildError(stdout.trim());
  };
  emit({ declaration: true, emitDeclarationOnly: true, stripInternal: true });
  // The sources themselves are not shipped, so that maps must hold them. Types were checked above.
  emit({ removeComments: true, sourceMap: true, inlineSources: true, noCheck: true });
}

/** Code as it was, but for its margin: tabs take a quarter of the bytes that tsc's spaces do. */
function printed(name: string, text: string, inputMap: SourceMap): { code: string; map: SourceMap } {
  const asItIs = { compress: false, mangle: false, codegen: { removeWhitespace: false } };
  const { code, map, errors } = minifySync(name, text, { ...asItIs, sourcemap: true, inputMap });
  if (errors.length > 0 || !map) throw new BuildError(`${name}: ${errors[0]?.message ?? 'no source map'}`);
  return { code, map };
}

/** A compiled file as it is published. `source` is what it was compiled from. */
function published(text: string, source: string, contents: Contents): string {
  const names = new Map<string, string>();
  const within = ({ specifier }: Pick<Import, 'specifier'>) => {
    if (specifier === undefined) return;
    const target = sourceOf(source, specifier.replace(/^(\..*)\.js$/, '$1.ts'));
    if (target === undefined) return;
    if (!contents.files.has(target)) throw new BuildError(`${source} loads ${target}, which is not shipped`);
    const path = posix.relative(posix.dirname(source), compiledName(target));
    names.set(specifier, path.startsWith('.') ? path : `./${path}`);
  };
  importsOf(text, source).forEach(within);
  // Of the published package, and not of the one inside.
  names.set('../package.json', '../../../package.json');
  let result = text;
  for (const [specifier, name] of names)
    for (const quote of ["'", '"']) result = result.replaceAll(quote + specifier + quote, quote + name + quote);
  return result;
}

/** Lays out one package in `folder`, from what `compile` has made. */
function layOut(item: Published, contents: Contents, compiled: string, folder: string): void {
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  for (const source of contents.files) {
    const [name, types] = [compiledName(source), compiledName(source, '.d.ts')];
    const read = (path: string) => readFileSync(join(compiled, path), 'utf8');
    write(`lib/${types}`, published(read(types), source, contents));
    const { code, map } = printed(name, read(name), JSON.parse(read(`${name}.map`)));
    write(`lib/${name}`, `${published(code, source, contents)}//# sourceMappingURL=${basename(name)}.map\n`);
    // Where the sources lay when they were compiled is nobody's concern.
    write(`lib/${name}.map`, JSON.stringify({ ...map, sources: [basename(source)] }));
  }
  const copy = (path: string) => {
    mkdirSync(dirname(join(folder, 'lib', path)), { recursive: true });
    copyFileSync(workspace.source(path), join(folder, 'lib', path));
  };
  [...BROWSER.files, ...(item.served ?? [])].forEach(copy);
  copyFileSync(join(import.meta.dirname, 'published', NODE_VERSION), join(folder, 'lib', NODE_VERSION));
  for (const [name, source] of Object.entries(item.exports)) {
    if (source === BROWSER.types) continue;
    const all = `export * from './${compiledName(source)}';\n`;
    write(`lib/${entryOf(name)}.js`, `import './${NODE_VERSION}';\n${all}`);
    write(`lib/${entryOf(name)}.d.ts`, all);
  }
  if (item.native) addAddons(folder);
  cpSync(join(import.meta.dirname, item.besides), folder, { recursive: true });
  for (const path of Object.values(item.bin ?? {})) chmodSync(join(folder, path), 0o755);
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  write('package.json', `${JSON.stringify(manifestFor(item, contents), null, 2)}\n`);
  const entries = Object.entries(item.exports).map(([name, source]) =>
    join(folder, 'lib', source === BROWSER.types ? compiledName(source, '.d.ts') : `${entryOf(name)}.d.ts`),
  );
  pruneDeclarations(join(folder, 'lib'), entries, (specifier) => {
    const files: string[] = [];
    mapped(contents.imports[specifier], (path) => files.push(join(folder, path)));
    return files;
  });
}

/**
 * The addons that `npm run build:addons` has made. Where there is none for this machine, its own
 * one, which needs a system as new as this.
 */
function addAddons(folder: string): void {
  const here = `${process.platform}-${process.arch}`;
  const current = currentAddons();
  for (const of of new Set(PUBLISHED_ADDONS.map((addon) => addon.of))) {
    const target = (machine: string) => join(folder, `lib/${of}/build/hers_${of}.${machine}.node`);
    mkdirSync(dirname(target(here)), { recursive: true });
    const made = current.filter((addon) => addon.of === of);
    for (const { machine, target: addon } of made) copyFileSync(addon.output, target(machine));
    const own = workspace.path(of, `build/hers_${of}.node`);
    if (made.some(({ machine }) => machine === here) || !existsSync(own)) continue;
    copyFileSync(own, target(here));
    // Names that only a debugger reads. Without the tool they stay.
    spawnSync('strip', process.platform === 'darwin' ? ['-x', target(here)] : ['--strip-unneeded', target(here)]);
  }
}

function manifestFor(item: Published, { imports, dependencies }: Contents): object {
  const { version, license } = manifestOf('.');
  const gitHead = commit();
  const isOptional = ([name]: [string, string]) => OPTIONAL.includes(name);
  const needed = Object.entries(dependencies).filter((entry) => !isOptional(entry));
  // Pages give a runtime of their own, so that nothing imports the one for pages.
  const optional = Object.entries({ ...manifestOf(workspace.folder('training')).devDependencies, ...dependencies })
    .filter(isOptional)
    .sort();
  const entries = Object.entries(item.exports).map(([name, source]) => {
    const paths =
      source === BROWSER.types
        ? { types: compiledName(source, '.d.ts'), default: BROWSER.files[0]! }
        : { types: `${entryOf(name)}.d.ts`, default: `${entryOf(name)}.js` };
    return [name, mapped(paths, (path) => `./lib/${path}`)] as const;
  });
  return {
    name: item.name,
    version,
    ...(gitHead === undefined ? {} : { gitHead }),
    description: item.description,
    keywords: ['embeddings', 'encrypted', 'homomorphic', 'lattice', 'search', 'similarity', 'vector'],
    license,
    type: 'module',
    engines: { node: '>=24' },
    ...(item.bin ? { bin: item.bin } : {}),
    exports: { ...Object.fromEntries(entries), './package.json': './package.json' },
    imports,
    files: item.bin ? ['bin', 'lib'] : ['lib'],
    sideEffects: [NODE_VERSION, '**/*-worker*.js', ...(item.started ?? [])].map(
      (path) => `./lib/${compiledName(path)}`,
    ),
    dependencies: Object.fromEntries(needed),
    // A range, because the project around it may use it, too.
    peerDependencies: Object.fromEntries(optional.map(([name, exact]) => [name, `^${exact}`])),
    peerDependenciesMeta: Object.fromEntries(optional.map(([name]) => [name, { optional: true }])),
    // Provenance needs a public repository, which there is not yet.
    publishConfig: { access: 'public' },
  };
}

export interface Tarball {
  readonly name: string;
  readonly path: string;
  readonly bytes: number;
}

/** Lays out the packages as they are installed, each in a folder of `staging`. */
export function layOutPackages(staging: string): { name: string; folder: string }[] {
  const all = PUBLISHED.map((item) => ({ item, contents: contentsOf(item) }));
  const compiled = join(staging, 'compiled');
  compile(new Set(all.flatMap(({ contents }) => [...contents.files])), compiled);
  return all.map(({ item, contents }) => {
    const folder = join(staging, item.name);
    layOut(item, contents, compiled, folder);
    return { name: item.name, folder };
  });
}

/** Makes the tarballs in `target`. */
export function pack(target: string): Tarball[] {
  const staging = mkdtempSync(join(tmpdir(), 'hers-pack-'));
  try {
    const packages = layOutPackages(staging);
    rmSync(target, { recursive: true, force: true });
    mkdirSync(target, { recursive: true });
    return packages.map(({ name, folder }) => {
      const made = JSON.parse(npm(['pack', '--json', '--pack-destination', target], folder)) as { filename: string }[];
      const path = join(target, made[0]!.filename);
      return { name, path, bytes: statSync(path).size };
    });
  } finally {
    rmSync(staging, { recursive: true });
  }
}

export interface Installation {
  readonly folder: string;
  /** Of everything installed, source maps of ours aside. */
  readonly bytes: number;
  readonly packages: number;
}

/** Installs tarballs as a project of its own would, in a new folder. */
export function install(folder: string, tarballs: readonly string[], more: readonly string[] = []): Installation {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'trial', private: true, type: 'module' }));
  const quiet = ['--prefer-offline', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'];
  npm(['install', ...quiet, ...tarballs, ...more], folder);
  const { packages } = JSON.parse(readFileSync(join(folder, 'node_modules/.package-lock.json'), 'utf8'));
  const bytes = globSync('node_modules/**/*', { cwd: folder, withFileTypes: true })
    .filter(
      (entry) =>
        entry.isFile() && !/node_modules\/(?:hers|@hers\/client)\/.*\.map$/.test(join(entry.parentPath, entry.name)),
    )
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
  return { folder, bytes, packages: Object.keys(packages).length };
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(2)} MB`;
}

function main(): void {
  const target = join(root, 'dist/packages');
  const trial = mkdtempSync(join(tmpdir(), 'hers-install-'));
  try {
    for (const { name, path, bytes } of pack(target)) {
      const installed = install(join(trial, basename(path)), [path]);
      const size = `${megabytes(installed.bytes)} in ${installed.packages} packages without source maps`;
      console.log(`${name}: dist/packages/${basename(path)}, ${megabytes(bytes)}; installed ${size}`);
    }
    const current = currentAddons();
    const missing = PUBLISHED_ADDONS.filter((addon) => !current.includes(addon)).map(
      ({ of, machine }) => `${of} on ${machine}`,
    );
    if (missing.length > 0)
      console.log(`without the addons of ${missing.join(', ')}: \`npm run build:addons\` makes them, then pack again`);
  } catch (error) {
    if (!(error instanceof BuildError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  } finally {
    rmSync(trial, { recursive: true });
  }
}

if (process.argv[1] === import.meta.filename) main();
