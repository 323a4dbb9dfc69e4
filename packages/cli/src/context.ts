// What every command is given: settings, output, keys and the gallery, each made when first needed.

import { resolve } from 'node:path';
import type { Collection } from '@hers/client';
import type { Environment } from './environment.ts';
import { EXIT, type Exit } from './exit.ts';
import { type Gallery, type GalleryOptions, withGallery } from './gallery.ts';
import { Keys } from './keys.ts';
import { Output } from './output.ts';
import { Progress, type ProgressOptions } from './progress.ts';
import { Secrets } from './secrets.ts';
import { type Flags, Settings } from './settings.ts';

/** The options that every command takes. */
export interface GlobalFlags extends Flags {
  readonly config?: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
}

export class Context {
  readonly environment: Environment;
  readonly out: Output;
  /** How the run ends when nothing goes wrong. */
  exit: Exit = EXIT.done;
  readonly #flags: GlobalFlags;
  #settings: Settings | undefined;
  #keys: Keys | undefined;
  #secrets: Secrets | undefined;

  constructor(environment: Environment, flags: GlobalFlags) {
    this.environment = environment;
    this.#flags = flags;
    this.out = new Output(environment, { json: flags.json ?? false, verbose: flags.verbose ?? false });
  }

  get signal(): AbortSignal {
    return this.environment.signal;
  }

  get settings(): Settings {
    this.#settings ??= new Settings(this.environment, this.#flags);
    return this.#settings;
  }

  get secrets(): Secrets {
    this.#secrets ??= new Secrets(this.environment, this.out);
    return this.#secrets;
  }

  get keys(): Keys {
    this.#keys ??= new Keys(this.environment, this.settings, this.secrets, this.out);
    return this.#keys;
  }

  /** A path that was given as an argument. */
  path(argument: string): string {
    return resolve(this.environment.cwd, argument);
  }

  progress(options: ProgressOptions): Progress {
    // With --json, programs read standard error too: there is nothing but objects.
    return new Progress(this.environment.stderr, options, { lines: !this.out.json });
  }

  gallery<T>(use: (gallery: Gallery) => Promise<T>, options: GalleryOptions = {}): Promise<T> {
    return withGallery(this, options, use);
  }

  /** The collection that is meant, and the gallery it is in. */
  collection<T>(use: (collection: Collection, gallery: Gallery) => Promise<T>, options?: GalleryOptions): Promise<T> {
    return this.gallery(async (gallery) => use(await gallery.collection(), gallery), options);
  }
}
