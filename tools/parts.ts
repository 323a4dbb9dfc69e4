// Tests that need something optional ask for it here. `test(name, part('browser'), …)` is skipped
// with a reason where the part is missing, and fails where HERS_REQUIRE names it: an automatic run
// must not pass by skipping.

import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';

type Environment = Record<string, string | undefined>;

interface Kind {
  find(env: Environment): string | undefined;
  /** What to do about it, as the end of a sentence. */
  remedy: string;
}

/** Where `npm run build:addons` puts the addons that are published. */
const ADDONS = resolve(import.meta.dirname, '../dist/addons');

const kinds = {
  compiler: {
    find: (env) => onPath(env, 'g++', 'c++'),
    remedy: 'install a C++ compiler (on Debian: apt-get install g++)',
  },
  browser: {
    // A path that was given and is wrong is an absence, not a reason to take another browser.
    find: (env) =>
      env.HERS_CHROMIUM !== undefined
        ? executable(env.HERS_CHROMIUM)
        : (executable('/usr/bin/chromium') ?? onPath(env, 'chromium', 'chromium-browser', 'google-chrome')),
    remedy: 'install Chromium (on Debian: apt-get install chromium) or put its path into HERS_CHROMIUM',
  },
  sanitizer: {
    find: (env) => (env.HERS_SANITIZE === '1' ? 'HERS_SANITIZE' : undefined),
    remedy: 'set HERS_SANITIZE=1; native code is built once more for it, which takes a minute',
  },
  nats: {
    find: (env) => onPath(env, 'nats-server') ?? executable('/usr/sbin/nats-server'),
    remedy: 'install the server of NATS (on Debian: apt-get install nats-server)',
  },
  data: {
    find: (env) => {
      const folder = env.HERS_DATA ?? resolve(import.meta.dirname, '../../shared/data');
      return existsSync(folder) && statSync(folder).isDirectory() ? folder : undefined;
    },
    remedy: 'put the path of the folder with the data sets into HERS_DATA',
  },
  addons: {
    find: () => (existsSync(ADDONS) ? ADDONS : undefined),
    remedy: 'run `npm run build:addons`, which takes a minute or two',
  },
} satisfies Record<string, Kind>;

export type PartName = keyof typeof kinds;

export interface Part {
  present: boolean;
  /** Where it was found. */
  path?: string;
  /** For the options of a test. */
  skip: false | string;
}

/** Looks for a part. Throws when it is missing and HERS_REQUIRE (a list with commas) names it. */
export function part(name: PartName, env: Environment = process.env): Part {
  const required = listOf(env.HERS_REQUIRE);
  const unknown = required.find((each) => !Object.hasOwn(kinds, each));
  // A typing error there would otherwise turn a requirement off without a word.
  if (unknown) throw new Error(`HERS_REQUIRE names ${unknown}; there are ${Object.keys(kinds).join(', ')}.`);
  const path = kinds[name].find(env);
  if (path !== undefined) return { present: true, path, skip: false };
  const reason = `no ${name} found: ${kinds[name].remedy}`;
  if (required.includes(name)) throw new Error(`HERS_REQUIRE asks for it, but ${reason}.`);
  return { present: false, skip: reason };
}

/** Whether HERS_REQUIRE names a part. */
export function isRequired(name: PartName): boolean {
  return listOf(process.env.HERS_REQUIRE).includes(name);
}

function listOf(text = ''): string[] {
  return text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');
}

function onPath(env: Environment, ...names: string[]): string | undefined {
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  for (const name of names) {
    for (const folder of folders) {
      const path = executable(join(folder, name));
      if (path !== undefined) return path;
    }
  }
  return undefined;
}

function executable(path: string): string | undefined {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile() ? path : undefined;
  } catch {
    return undefined;
  }
}
