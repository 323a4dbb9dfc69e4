// The layer check: every import points downwards, and two walls hold. Code that may see a gallery
// never imports code that holds keys; code that a browser runs never imports Node's modules. The
// table below is the rule.

import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join, relative, resolve, sep } from 'node:path';
import { type Import, importsOf } from './imports.ts';
import { Workspace } from './workspace.ts';

export interface Violation {
  file: string;
  line: number;
  message: string;
}

/**
 * What each package may import, top to bottom; `below` is every package further down, with all its
 * entries.
 */
export const table: Record<string, readonly string[] | 'below'> = {
  trials: 'below',
  paper: 'below',
  cli: 'below',
  // Compiles against the interfaces of what it accelerates; nothing else imports it.
  cuda: ['client', 'client/ranking', 'service', 'scan', 'scan/accelerator', 'scheme', 'scheme/secret', 'ring'],
  web: ['client'],
  // The page shows what the planner promises before a collection is made.
  console: ['client', 'service', 'scheme'],
  // Nodes speak to each other as clients do, without keys.
  cluster: ['client/transport', 'server', 'store', 'service', 'scheme'],
  client: ['service', 'scheme', 'scheme/secret', 'compress'],
  server: ['service', 'store'],
  // The store uses the ring's checksum; nothing in `ring` holds a key.
  store: ['service', 'scan', 'scheme', 'ring'],
  service: ['scheme'],
  // One seeded generator for training and for synthetic data.
  training: ['compress', 'vectors', 'scheme'],
  // Stands alone, for it runs in a browser.
  compress: [],
  vectors: ['scheme'],
  // The kernels of `scan` are made of the ring's own: its transform, checksum and samplers. None of
  // them holds a key.
  scan: ['scheme', 'ring'],
  scheme: ['ring'],
  ring: [],
};
const order = Object.keys(table);

/** Parts of a package that are layers of their own: a folder, or a single file of that name. */
const entries: Record<string, string> = {
  'scheme/secret': 'src/secret',
  'client/transport': 'src/transport',
  'client/ranking': 'src/crew/accelerator.ts',
  'scan/accelerator': 'src/accelerator.ts',
};

/**
 * The layers inside a package, top to bottom: folders of `src`, and files that are layers of their
 * own; `.` is every other file on top of `src`.
 */
export const inner: Record<string, readonly string[]> = {
  client: [
    ...['repair', '.', 'inbox', 'writing', 'search', 'session', 'keys', 'crew', 'formats', 'transport'],
    ...['filter', 'fields', 'sealing', 'bytes.ts'],
  ],
  store: ['index.ts', 'store.ts', 'salvage', 'scrub', '.', 'evaluation', 'blocks', 'catalogue', 'files', 'base'],
};

/** Not shipped: they may use the test tools of the packages, and build native code with `tools/`. */
const trying = new Set(['trials', 'paper']);

/** What runs in a browser too. */
const browserSafe = new Set([
  'ring',
  'scheme',
  'scheme/secret',
  'service',
  'client',
  'client/transport',
  'compress',
  'console',
]);

/**
 * What files for Node alone may import besides: the client opens a folder without a server, and
 * names its addon as the ring does.
 */
export const extraForNode: Record<string, readonly string[]> = { client: ['store', 'ring'] };

const scope = '@hers/';
const shipped = ['dependencies', 'peerDependencies', 'optionalDependencies'];

/** A file of a package, and what the rules want to know about it. */
interface Source {
  package: string;
  entry: string;
  path: string;
  /**
   * Tests, their tools in `testing/`, configuration on top of a package: not shipped, hence free of
   * the walls.
   */
  aside: boolean;
  /** Exists for Node alone: `name.node.ts`. */
  forNode: boolean;
}

function describe(name: string, path: string): Source {
  const inside = (part: string) => path.startsWith(`${part}/`) || path === `${part}.ts` || path === part;
  const entry = Object.keys(entries).find((key) => key.startsWith(`${name}/`) && inside(entries[key]!)) ?? name;
  const aside = /\.test\.m?[jt]s$|^[^/]+\.config\.m?[jt]s$|^testing\//.test(path);
  return { package: name, entry, path, aside, forNode: /\.node\.m?ts$/.test(path) };
}

/** Why `from` may not load `target`, both files of the workspace; undefined when it may. */
function objection(from: Source, target: Source, kind: Import['kind']): string | undefined {
  // Trials measure what the others are made of, with their own test tools.
  const isTrial = trying.has(from.package) && target.path.startsWith('testing/');
  if (target.aside && !from.aside && !isTrial) return `${target.path} is not shipped: only tests may import it`;
  const needsNode = target.forNode && browserSafe.has(target.entry);
  if (needsNode && kind !== 'dynamic' && browserSafe.has(from.entry) && !from.forNode && !from.aside) {
    return `${target.path} is for Node alone: name it under the condition node, or load it by a dynamic import`;
  }
  if (from.package === target.package && !from.aside) {
    const reason = objectionInside(from, target);
    if (reason) return reason;
  }
  if (from.entry === target.entry) return;
  if (from.package === target.package) {
    if (from.aside) return;
    if (target.entry === 'scheme/secret') return 'only src/secret may import from src/secret: it holds the keys';
    return;
  }
  const row = table[from.package]!;
  if (row === 'below' || from.aside) {
    const isBelow = order.indexOf(target.package) > order.indexOf(from.package);
    return isBelow ? undefined : `${from.package} may not import ${target.package}: it is not below`;
  }
  if (row.includes(target.entry)) return;
  if (from.forNode && extraForNode[from.package]?.includes(target.entry)) return;
  if (target.entry === 'scheme/secret') return `${from.package} may not import scheme/secret: it never holds a key`;
  const allowed = row.length > 0 ? `only ${row.join(', ')}` : 'no other package';
  return `${from.package} may not import ${target.entry}: it may import ${allowed}`;
}

/** Why `from` may not import a file of a higher layer of its package. */
function objectionInside(from: Source, target: Source): string | undefined {
  const layers = inner[from.package];
  if (!layers || !target.path.startsWith('src/')) return;
  const layerOf = ({ path }: Source) => {
    const [first, ...rest] = path.split('/').slice(1);
    const name = rest.length > 0 || layers.includes(first!) ? first! : '.';
    return { name, at: layers.indexOf(name) };
  };
  const [own, other] = [layerOf(from), layerOf(target)];
  for (const { name, at } of [own, other]) if (at < 0) return `${name} is not among the layers of ${from.package}`;
  return other.at < own.at ? `${own.name} may not import ${other.name}: it is above it` : undefined;
}

/** Why the import in `file` is forbidden; undefined when it is not. */
function judge(workspace: Workspace, file: string, from: Source, { specifier, kind }: Import): string | undefined {
  if (specifier === undefined) {
    return from.aside ? undefined : 'the specifier is not a plain string, so what it loads cannot be checked';
  }
  if (specifier.startsWith('#')) {
    const branches = workspace.imported(from.package, specifier);
    for (const { file, forNode } of branches) {
      // What only Node chooses may be for Node.
      const reason = objection({ ...from, forNode: from.forNode || forNode }, describe(from.package, file), kind);
      if (reason) return reason;
    }
    return branches.length > 0 ? undefined : `${specifier} is not in the imports of ${workspace.folder(from.package)}`;
  }
  const bare = specifier.replace(/[?#].*$/, '');
  if (/^\.\.?(?:\/|$)/.test(bare)) {
    const home = `${workspace.folder(from.package)}/`;
    const target = relative(workspace.root, resolve(workspace.root, file, '..', bare)).replaceAll(sep, '/');
    if (target.startsWith(home)) return objection(from, describe(from.package, target.slice(home.length)), kind);
    if ((from.aside || trying.has(from.package)) && target.startsWith('tools/')) return;
    return `${specifier} leaves the package: import other packages by their name`;
  }
  if (isBuiltin(bare)) {
    if (from.aside || from.forNode || !browserSafe.has(from.entry)) return;
    return `${from.entry} may not import ${specifier}: it runs in a browser, and what needs Node goes into a .node.ts file`;
  }
  const name = /^(?:@[\w.-]+\/)?[a-z\d][\w.-]*(?=\/|$)/i.exec(bare)?.[0];
  if (!name) return `${JSON.stringify(specifier)} is neither a package nor a relative path, so it cannot be checked`;
  if (name.startsWith(scope)) {
    const reason = objectionToPackage(workspace, from, name.slice(scope.length), `.${bare.slice(name.length)}`, kind);
    if (reason || from.aside || name === scope + from.package) return reason;
  }
  const folder = workspace.folder(from.package);
  if (workspace.declares(folder, shipped, name)) return;
  const forTests = ['devDependencies'];
  if (from.aside && (workspace.declares(folder, forTests, name) || workspace.declares('.', forTests, name))) return;
  return `${name} is not a dependency in ${folder}/package.json`;
}

/**
 * The same for an import by name: judged by the files that the name stands for, so that an alias
 * opens no door.
 */
function objectionToPackage(workspace: Workspace, from: Source, name: string, subpath: string, kind: Import['kind']) {
  if (!Object.hasOwn(table, name)) return `${scope}${name} is not in the table of layers`;
  const files = workspace.exported(name, subpath);
  // An export that is missing is still judged by its name: the layer is the first thing to say
  // about it.
  const expected = subpath === '.' ? 'src/index.ts' : `src${subpath.slice(1)}.ts`;
  for (const file of files.length > 0 ? files : [expected]) {
    const reason = objection(from, describe(name, file), kind);
    if (reason) return reason;
  }
  return files.length > 0 ? undefined : `${scope}${name} does not export ${subpath}`;
}

/** Reads every file of the packages under `root` and judges each import. */
function inspectLayers(root: string): { files: number; imports: number; violations: Violation[] } {
  const workspace = new Workspace(root);
  const violations: Violation[] = [];
  for (const name of workspace.packages.filter((name) => !Object.hasOwn(table, name))) {
    const message = `${name} is not in the table of layers`;
    violations.push({ file: `${workspace.folder(name)}/package.json`, line: 1, message });
  }
  const files = workspace.files().filter((file) => Object.hasOwn(table, workspace.placeOf(file)!.name));
  let imports = 0;
  for (const file of files) {
    const { name, path } = workspace.placeOf(file)!;
    const from = describe(name, path);
    try {
      for (const item of importsOf(readFileSync(join(root, file), 'utf8'), file)) {
        imports++;
        const message = judge(workspace, file, from, item);
        if (message) violations.push({ file, line: item.line, message });
      }
    } catch (error) {
      violations.push({ file, line: 1, message: `cannot be read: ${(error as Error).message}` });
    }
  }
  return { files: files.length, imports, violations };
}

export function checkLayers(root: string): Violation[] {
  return inspectLayers(root).violations;
}

/** Prints the violations, or one line that says there are none; returns whether there are none. */
export function reportLayers(root: string): boolean {
  const { files, imports, violations } = inspectLayers(root);
  for (const { file, line, message } of violations) console.log(`${file}:${line}: ${message}`);
  if (violations.length === 0) console.log(`layers: ${files} files, ${imports} imports, all point downwards`);
  return violations.length === 0;
}

if (process.argv[1] === import.meta.filename && !reportLayers(resolve(import.meta.dirname, '..'))) process.exitCode = 1;
