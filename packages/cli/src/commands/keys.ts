// `hers keys`: the key file, and the key of a collection.

import { stat } from 'node:fs/promises';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { fingerprint, versionsOf } from '../keys.ts';
import { counted, duration } from '../output.ts';

export function addKeys(program: HersCommand, context: () => Context): void {
  const keys = program
    .command('keys')
    .summary('key files, passphrases, and changing the key of a collection')
    .description('The key file holds the one secret that everything is encrypted with.');

  keys
    .command('create')
    .summary('make a key file')
    .description(
      'Makes a key file, sealed by a passphrase that is asked for, or taken from HERS_PASSPHRASE or --passphrase-file. An existing key file is never replaced: without its key, nobody can read a gallery.',
    )
    .argument('[file]', 'where; the key file of the settings by default')
    .option('--unsealed', 'without a passphrase: whoever can read the file can read the galleries')
    .example('hers keys create second.key', 'A key for another gallery')
    .example('hers keys create test.key --unsealed', 'A key for tests, without a passphrase')
    .action(async (file: string | undefined, { unsealed = false }: { unsealed?: boolean }) => {
      const { settings, out } = context();
      const path = file === undefined ? settings.value('key') : context().path(file);
      await context().keys.create(path, { unsealed });
      out.result({ key: path, sealed: !unsealed }, [
        ['key', path],
        ['sealed', unsealed ? 'no' : 'by the passphrase'],
      ]);
      out.hint('Keep a copy of it elsewhere: nobody can read a gallery without its key.');
    });

  keys
    .command('show')
    .summary('facts about the key, never the key itself')
    .description(
      'Shows where the key file is, whether it is sealed, who can read it, and a fingerprint to tell keys apart. Never the key itself.',
    )
    .example('hers keys show', 'The key of the settings')
    .action(() => show(context()));

  keys
    .command('passphrase')
    .summary('change the passphrase of the key file')
    .description(
      'Seals the same key by another passphrase, asked for or taken from HERS_NEW_PASSPHRASE or --new-passphrase-file. Copies of the old file still open with the old one.',
    )
    .option('--new-passphrase-file <file>', 'a file that holds the new passphrase')
    .option('--unsealed', 'take the passphrase away: whoever can read the file can read the galleries')
    .example('hers keys passphrase --new-passphrase-file new-phrase.txt', 'From a script')
    .action(async ({ newPassphraseFile, unsealed = false }: { newPassphraseFile?: string; unsealed?: boolean }) => {
      const { settings, out } = context();
      const path = settings.value('key');
      const flag = newPassphraseFile === undefined ? undefined : context().path(newPassphraseFile);
      await context().keys.reseal(path, { flag, unsealed });
      if (out.json) out.object({ key: path, sealed: !unsealed });
      else out.line(unsealed ? `${path} has no passphrase any more.` : `${path} has a new passphrase.`);
    });

  keys
    .command('rotate')
    .summary('re-encrypt a collection under a new key')
    .description(
      'Re-encrypts everything in a collection under the next key from the same key file, and makes the store delete the old ciphertexts. If it is interrupted, run it again to resume.',
    )
    .example('hers keys rotate', 'The only collection, or the one in the settings')
    .example('hers keys rotate --collection faces', 'One of several')
    .action(() => rotate(context()));
}

async function show({ settings, keys, out }: Context): Promise<void> {
  const path = settings.value('key');
  const sealed = await keys.isSealed();
  const { mode, mtime } = await stat(path);
  // Fingerprints need the seed, so a sealed file is opened only where that takes no question.
  using seed = (await keys.mustAsk()) ? undefined : await keys.open();
  const seen = await versionsOf(path)
    .count()
    .catch(() => 0);
  const print = seed && fingerprint(seed);
  const rights = (mode & 0o777).toString(8).padStart(3, '0');
  const changed = mtime.toISOString();
  const facts = { key: path, sealed, fingerprint: print ?? null, mode: rights, changed, collectionsSeen: seen };
  out.result(facts, [
    ['key', path],
    ['sealed', sealed ? 'by a passphrase' : 'no: whoever can read the file can read the galleries'],
    ['fingerprint', print ?? 'needs the passphrase: set HERS_PASSPHRASE'],
    ['permissions', rights],
    ['changed', changed],
    ['seen so far', counted(seen, 'collection')],
  ]);
}

async function rotate(context: Context): Promise<void> {
  const { out } = context;
  const words = { label: 'Re-encrypting', none: 'nothing was re-encrypted yet', some: 'are re-encrypted' };
  await context.collection({}, async (collection) => {
    const { result: epoch, ms } = await context.inBlocks(words, (options) => collection.rotateKey(options));
    if (out.json) out.object({ collection: collection.name, epoch, seconds: ms / 1000 });
    else out.line(`${collection.name} is encrypted under key number ${epoch + 1}; that took ${duration(ms)}.`);
  });
}
