// `hers init`: a folder with everything a first search needs.

import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { isFileThere } from '@hers/service/target';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { absentError } from '../exit.ts';
import { addressOf } from '../gallery.ts';
import { versionsOf } from '../keys.ts';
import { makePrivateFolder, writePrivately } from '../private-file.ts';
import { CONFIG_FILE, flagOf, isServer, SETTINGS, variableOf } from '../settings.ts';

interface InitOptions {
  readonly unsealed?: boolean;
  readonly example?: boolean;
}

export function addInit(program: HersCommand, context: () => Context): void {
  program
    .command('init')
    .summary('make a key, an empty gallery and a configuration')
    .description(
      'Makes hers.config.json, a key file and an empty gallery. The key file is sealed by a passphrase that is asked for, or taken from HERS_PASSPHRASE or --passphrase-file. Without the key nobody can read the gallery: keep a copy of the key file somewhere else.',
    )
    .argument('[folder]', 'where; the working directory by default')
    .option('--unsealed', 'write the key without a passphrase: whoever can read the file can read the gallery')
    .option('--example', 'also write a folder example/ with synthetic faces to try things with')
    .example('hers init', 'Here, with a passphrase that is asked for')
    .example('hers init other --unsealed --example', 'In the folder other, for trying things out')
    .action((folder: string | undefined, options: InitOptions) => init(context(), folder ?? '.', options));
}

async function init(context: Context, argument: string, { unsealed = false, example = false }: InitOptions) {
  const { out } = context;
  const folder = context.path(argument);
  const config = join(folder, CONFIG_FILE);
  if (isFileThere(config))
    throw absentError(`${config} exists already`, 'look at it with `hers config`, or choose another folder');
  // A key or a gallery that was named, and not just found, is somebody's choice.
  const named = (name: 'key' | 'gallery') => {
    const { value, origin } = context.settings.get(name)!;
    return [flagOf(name), variableOf(name)].includes(origin) ? value : undefined;
  };
  const [namedKey, namedGallery] = [named('key'), named('gallery')];
  const key = namedKey ?? join(folder, SETTINGS.key.default);
  const gallery = namedGallery ?? join(folder, SETTINGS.gallery.default);
  const server = isServer(gallery);
  const keyExists = existsSync(key);
  if (keyExists && namedKey === undefined)
    throw absentError(`${key} exists already`, `use it with --key ${key}, or choose another folder`);
  if (!keyExists) isFileThere(key);
  const examples = example ? await import('../example.ts') : undefined;
  const inTheWay = examples?.exampleFiles(join(folder, 'example')).find(isFileThere);
  if (inTheWay !== undefined)
    throw absentError(`${inTheWay} exists already`, 'leave out --example, or choose another folder');
  // Without a passphrase, nothing is begun.
  const newKey = keyExists ? undefined : await context.keys.make({ unsealed });
  await makePrivateFolder(folder);
  const isNew = !server && !existsSync(gallery);
  const { openStore } = await import('@hers/store');
  if (!server) await (await openStore(gallery)).close();
  // What was seen of a gallery that was here before says nothing about this one.
  if (isNew && keyExists) await versionsOf(key).forget(await addressOf(gallery));
  if (newKey !== undefined) await writePrivately(key, { replace: false }, (file) => file.writeFile(newKey));
  const content = { gallery: server ? gallery : shortest(folder, gallery), key: shortest(folder, key) };
  await writePrivately(config, { replace: false }, (file) => file.writeFile(`${JSON.stringify(content, null, 2)}\n`));
  await examples?.writeExample(join(folder, 'example'));

  const made = { config, key, keyMade: !keyExists, gallery };
  out.result({ ...made, ...(example ? { example: join(folder, 'example') } : {}) }, [
    ['configuration', config],
    ['key', `${key}${keyExists ? ' (was there)' : unsealed ? ' (not sealed)' : ' (sealed by the passphrase)'}`],
    ['gallery', gallery],
    ...(example ? [['example', join(folder, 'example')] as const] : []),
  ]);
  out.hint('Without the key file nobody can read the gallery, ourselves included: keep a copy of it elsewhere.');
  out.hint('Next: hers collections create faces --dimension 128');
}

/** Relative where that stays inside: the folder can then be moved as a whole. */
function shortest(folder: string, path: string): string {
  const inside = relative(folder, path);
  return inside.startsWith('..') ? path : inside;
}
