// Where each setting comes from: flags over the environment over hers.config.json over defaults.

import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Environment } from './context.ts';
import { absentError, type CommandError, usageError } from './exit.ts';

export const CONFIG_FILE = 'hers.config.json';

interface Kind {
  /** As Commander takes them. */
  readonly flags: string;
  readonly description: string;
  readonly choices?: readonly string[];
  /** Paths are relative to the file they stand in, or to the working directory. */
  readonly path?: true;
  readonly default?: string;
  /** What is wrong with a value, if anything is. */
  readonly check?: (value: string) => string | undefined;
}

/** Whether a gallery is on a server. */
export function isServer(gallery: string): boolean {
  return /^https?:/i.test(gallery);
}

/** What is most likely no folder: `ftp://x`, or an address without its scheme. */
function placeName(value: string): string | undefined {
  if (/^(?:[\w.-]+|\[[\da-f:.]+\]):\d{1,5}$/i.test(value))
    return `looks like a server without its scheme; write https://${value}, http://${value} if it has no TLS, or ./${value} for a folder`;
  if (/^[a-z][a-z\d+.-]*:\/\//i.test(value) && !isServer(value) && !value.startsWith('file://'))
    return 'is neither a folder nor the address of a server, such as https://host:7443';
  return undefined;
}

const wholeNumber = (value: string) =>
  /^[1-9]\d{0,3}$/.test(value) ? undefined : 'must be a whole number from 1 to 9999';

const bytes = (value: string) => (/^(0|[1-9]\d{0,14})$/.test(value) ? undefined : 'must be a whole number of bytes');

/** Named here, and not loaded: every command reads the settings, and few scan. */
const KERNELS: readonly string[] = ['auto', 'native', 'wasm', 'reference', 'cuda'];

const SWITCH: readonly string[] = ['on', 'off'];

const onOrOff = (value: string) => (SWITCH.includes(value) ? undefined : 'must be on or off');

const kernelName = (value: string) => (KERNELS.includes(value) ? undefined : `must be one of ${KERNELS.join(', ')}`);

export const SETTINGS = {
  gallery: {
    flags: '--gallery <place>',
    description:
      'the folder with the encrypted gallery, or the address of a server: https://host:7443; of a cluster, those of several nodes, separated by commas',
    path: true,
    default: 'gallery',
    check: placeName,
  },
  key: { flags: '--key <file>', description: 'the key file', path: true, default: 'hers.key' },
  passphraseFile: {
    flags: '--passphrase-file <file>',
    description: 'a file that holds the passphrase of the key file',
    path: true,
  },
  tokenFile: {
    flags: '--token-file <file>',
    description: 'a file that holds the token for a server',
    path: true,
  },
  tokens: {
    flags: '--tokens <file>',
    description: 'where a server keeps the hashes of its tokens',
    path: true,
    default: 'hers.tokens.json',
  },
  collection: { flags: '-c, --collection <name>', description: 'the collection to work on' },
  onlyPartitions: {
    flags: '--only-partitions <names>',
    description: 'the partitions that the token is limited to, separated by commas',
  },
  threads: {
    flags: '--threads <number>',
    description: 'threads for encryption, decryption and scanning; all cores by default',
    check: wholeNumber,
  },
  kernel: {
    flags: '--kernel <name>',
    description:
      'what scans: native, wasm, reference or cuda; by default the fastest that works, a GPU where cuda was built',
    choices: KERNELS,
    check: kernelName,
  },
  deviceMemory: {
    flags: '--device-memory <bytes>',
    description: 'where a GPU scans: bytes of the gallery that it may hold; as many as fit by default',
    check: bytes,
  },
  listCache: {
    flags: '--list-cache <switch>',
    description: 'whether encrypted lists of a server are kept beside the key file: on or off',
    default: 'on',
    choices: SWITCH,
    check: onOrOff,
  },
} as const satisfies Record<string, Kind>;

export type SettingName = keyof typeof SETTINGS;

/** All settings, by their names in the configuration. */
export const settings = Object.entries(SETTINGS) as readonly (readonly [SettingName, Kind])[];

export const flagOf = (name: SettingName): string => /--[\w-]+/.exec(SETTINGS[name].flags)![0];

/** `passphraseFile` is `HERS_PASSPHRASE_FILE` in the environment. */
export const variableOf = (name: SettingName): string =>
  `HERS_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;

/** Variables that are no settings, and those of the tests. */
const OTHER_VARIABLES =
  'CONFIG PASSPHRASE NEW_PASSPHRASE TOKEN REQUIRE DATA CHROMIUM CUDA EMULATION_FAILS EMULATION_DEVICES'
    .split(' ')
    .map((name) => `HERS_${name}`);

/** Variables that look like ours and mean nothing: a typing error there would go unnoticed. */
export function unknownVariables(env: Environment['env']): string[] {
  const known = new Set<string>([...OTHER_VARIABLES, ...settings.map(([name]) => variableOf(name))]);
  return Object.keys(env).filter((name) => name.startsWith('HERS_') && !known.has(name));
}

export interface Setting {
  readonly value: string;
  /** For people: `--key`, `HERS_KEY`, a file, or `default`. */
  readonly origin: string;
}

export type Flags = { readonly [name in SettingName]?: string };

export class Settings {
  /** The configuration file in force, if there is one. */
  readonly file: string | undefined;
  readonly #settings = new Map<SettingName, Setting>();

  constructor({ cwd, env }: Pick<Environment, 'cwd' | 'env'>, flags: Flags & { readonly config?: string } = {}) {
    this.file = findFile(cwd, flags.config ?? (env.HERS_CONFIG || undefined));
    const written = this.file === undefined ? {} : readConfig(this.file);
    const home = this.file === undefined ? cwd : dirname(this.file);
    for (const [name, { default: fallback }] of settings) {
      const variable = env[variableOf(name)];
      // An empty variable is one that somebody wanted to switch off.
      if (flags[name] !== undefined) this.#set(name, flags[name], flagOf(name), cwd);
      else if (variable !== undefined && variable !== '') this.#set(name, variable, variableOf(name), cwd);
      else if (written[name] !== undefined) this.#set(name, written[name], this.file!, home);
      else if (fallback !== undefined) this.#set(name, fallback, 'default', home);
    }
  }

  #set(name: SettingName, value: string, origin: string, home: string): void {
    const kind: Kind = SETTINGS[name];
    const wrong = kind.check?.(value);
    if (wrong) throw usageError(`${name} is ${JSON.stringify(value)} (from ${origin}) and ${wrong}`);
    const isPath = kind.path && !(name === 'gallery' && isServer(value));
    this.#settings.set(name, { value: isPath ? pathOf(value, home) : value, origin });
  }

  get(name: SettingName): Setting | undefined {
    return this.#settings.get(name);
  }

  value(name: 'gallery' | 'key' | 'tokens'): string;
  value(name: SettingName): string | undefined;
  value(name: SettingName): string | undefined {
    return this.#settings.get(name)?.value;
  }

  get threads(): number | undefined {
    const value = this.value('threads');
    return value === undefined ? undefined : Number(value);
  }
}

/** `file:` names a folder as the SDK does. */
function pathOf(value: string, home: string): string {
  if (value.startsWith('file:///')) return fileURLToPath(value);
  return resolve(home, value.startsWith('file:') ? value.slice('file:'.length) : value);
}

/** The file that was named, else the nearest from here upwards. */
function findFile(cwd: string, named: string | undefined): string | undefined {
  if (named !== undefined) {
    const path = resolve(cwd, named);
    if (!existsSync(path)) throw absentError(`there is no configuration file ${path}`, 'check the path');
    return path;
  }
  for (let folder = cwd; ; folder = dirname(folder)) {
    const path = join(folder, CONFIG_FILE);
    if (existsSync(path)) return checkedOwner(path);
    if (dirname(folder) === folder) return undefined;
  }
}

/**
 * A file that was merely found, and lies there by the will of somebody else, could send everything
 * into a gallery of theirs, under a key of theirs.
 */
function checkedOwner(path: string): string {
  const own = process.getuid?.();
  const { uid } = statSync(path);
  if (own === undefined || uid === own || uid === 0) return path;
  throw usageError(`${path} belongs to another user`, 'name it with --config if it is meant');
}

function readConfig(file: string): Flags {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    if (error instanceof SyntaxError) throw wrongConfig(file, 'is not JSON');
    throw Object.assign(error as Error, { path: file });
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content))
    throw wrongConfig(file, 'does not hold an object');
  const flags: Record<string, string> = {};
  for (const [name, value] of Object.entries(content)) {
    // A secret in there would be copied, committed and backed up with it.
    if (/^(passphrase|seed|password|secret|token)$/i.test(name))
      throw wrongConfig(file, `holds ${name}`, 'keep secrets out of it: name a file with passphraseFile or tokenFile');
    if (!Object.hasOwn(SETTINGS, name))
      throw wrongConfig(file, `has a setting ${JSON.stringify(name)} that nobody knows`);
    if (typeof value !== 'string' && typeof value !== 'number')
      throw wrongConfig(file, `has a ${name} that is neither text nor a number`);
    flags[name] = String(value);
  }
  return flags;
}

function wrongConfig(file: string, what: string, next?: string): CommandError {
  const known = `the settings are ${Object.keys(SETTINGS).join(', ')}`;
  return usageError(`the configuration ${file} ${what}`, next ?? known);
}
