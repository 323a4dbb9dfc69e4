// Key files on disk: opened with what is configured, written for their owner alone.

import { readFile, stat } from 'node:fs/promises';
import { HersError, isSealed, MasterSeed, openKey, sealKey, unsealedKey } from '@hers/client';
import { VersionFile } from '@hers/client/versions';
import { isFileThere } from '@hers/service/target';
import type { Context } from './context.ts';
import { absentError, CommandError, EXIT } from './exit.ts';
import { writePrivately } from './private-file.ts';
import { isGiven, type SecretSource, secretOf } from './secrets.ts';

const REMEDY = 'set HERS_PASSPHRASE, or name a file with --passphrase-file';

/** Where it is kept what was seen of collections: beside the key, because both must be as safe. */
export function versionsOf(key: string): VersionFile {
  return new VersionFile(`${key}.seen.json`);
}

interface Resealing extends Pick<SecretSource, 'flag'> {
  readonly unsealed: boolean;
}

export class Keys {
  readonly #context: Context;
  #warned = false;

  constructor(context: Context) {
    this.#context = context;
  }

  get #passphrase(): SecretSource {
    const { settings } = this.#context;
    return secretOf(settings, 'passphraseFile', { variable: 'HERS_PASSPHRASE', name: 'passphrase', remedy: REMEDY });
  }

  /** The text of the key file. */
  async read(path: string = this.#context.settings.value('key')): Promise<string> {
    let text: string;
    try {
      text = await readFile(path, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw Object.assign(error as Error, { path });
      throw absentError(`there is no key file ${path}`, '`hers init` makes one, and --key names another');
    }
    const { mode } = await stat(path);
    if ((mode & 0o077) !== 0 && !this.#warned) this.#context.out.note(`${path} can be read by others: chmod 600 it.`);
    this.#warned = true;
    return text;
  }

  /** The key, after asking for its passphrase where it is sealed. The caller wipes it. */
  async open(): Promise<MasterSeed> {
    const text = await this.read();
    const passphrase = this.#isSealed(text) ? await this.#context.secrets.existing(this.#passphrase) : undefined;
    return openKey(text, passphrase).catch((error) => Promise.reject(this.#refused(error)));
  }

  /** Whether a passphrase is needed to open the key. */
  async isSealed(): Promise<boolean> {
    return this.#isSealed(await this.read());
  }

  #isSealed(text: string): boolean {
    try {
      return isSealed(text);
    } catch (error) {
      throw this.#refused(error);
    }
  }

  /** What is no key file is named, with what to do about it. */
  #refused(error: unknown): unknown {
    if (!(error instanceof HersError && ['MALFORMED', 'UNSUPPORTED_VERSION'].includes(error.code))) return error;
    const { message, code } = error;
    const next = 'name another key file with --key, or bring back a copy of this one';
    return new CommandError(EXIT.key, `${this.#context.settings.value('key')}: ${message}`, next, code);
  }

  /** Whether `open` would have to ask somebody. */
  async mustAsk(): Promise<boolean> {
    return (await this.isSealed()) && !isGiven(this.#context.environment, this.#passphrase);
  }

  /** A new key file. Never over another: that would make its galleries unreadable. */
  async create(path: string, options: { readonly unsealed: boolean }): Promise<void> {
    isFileThere(path); // what cannot be written to should not cost a passphrase
    const text = await this.make(options);
    await writePrivately(path, { replace: false }, (file) => file.writeFile(text));
  }

  /** What a new key file holds. */
  async make({ unsealed }: { readonly unsealed: boolean }): Promise<string> {
    using seed = MasterSeed.generate();
    return await this.#written(seed, unsealed, this.#passphrase);
  }

  /** The same key behind another passphrase, or behind none. */
  async reseal(path: string, { flag, unsealed }: Resealing): Promise<void> {
    isFileThere(path); // a link can be read through, and is not replaced
    using seed = await this.open();
    const text = await this.#written(seed, unsealed, {
      flag,
      variable: 'HERS_NEW_PASSPHRASE',
      name: 'new passphrase',
      remedy: 'set HERS_NEW_PASSPHRASE, or name a file with --new-passphrase-file',
    });
    await writePrivately(path, { replace: true }, (file) => file.writeFile(text));
  }

  async #written(seed: MasterSeed, unsealed: boolean, source: SecretSource): Promise<string> {
    return unsealed ? unsealedKey(seed) : await sealKey(seed, await this.#context.secrets.chosen(source));
  }
}

/** A name for a key that says nothing about it: to tell keys apart, and copies to be the same. */
export function fingerprint(seed: MasterSeed): string {
  const bytes = seed.deriveKey('fingerprint', new Uint8Array(0), 8);
  return Buffer.from(bytes)
    .toString('hex')
    .replace(/(.{4})(?!$)/g, '$1-');
}
