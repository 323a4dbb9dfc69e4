// What every command is given: settings, output, keys and the gallery, each made when first needed.

import { resolve } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { Collection } from '@hers/client';
import { EXIT, type Exit, stoppedAt } from './exit.ts';
import { type Gallery, type GalleryOptions, withGallery } from './gallery.ts';
import { Keys } from './keys.ts';
import { counted, Output } from './output.ts';
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
    this.out = new Output(environment, flags);
  }

  get signal(): AbortSignal {
    return this.environment.signal;
  }

  get settings(): Settings {
    return (this.#settings ??= new Settings(this.environment, this.#flags));
  }

  get secrets(): Secrets {
    return (this.#secrets ??= new Secrets(this));
  }

  get keys(): Keys {
    return (this.#keys ??= new Keys(this));
  }

  /** A path that was given as an argument. */
  path(argument: string): string {
    return resolve(this.environment.cwd, argument);
  }

  progress(options: ProgressOptions): Progress {
    // With --json, programs read standard error too: there is nothing but objects.
    return new Progress(this.environment.stderr, options, { lines: !this.out.json });
  }

  /**
   * Runs work on blocks that can be resumed, with a bar. `none` and `some` end the sentence that
   * says how far it was when it was stopped. Returns how long it took, too.
   */
  async inBlocks<T>(
    { label, none, some }: { readonly label: string; readonly none: string; readonly some: string },
    work: (options: { signal: AbortSignal; onProgress: (now: { done: number; total: number }) => void }) => Promise<T>,
  ): Promise<{ readonly result: T; readonly ms: number }> {
    const { signal } = this;
    const started = performance.now();
    using progress = this.progress({ label, unit: 'blocks' });
    let state = none;
    const onProgress = ({ done, total }: { done: number; total: number }) => {
      state = `${done} of ${counted(total, 'block')} ${some}`;
      progress.update(done, total);
    };
    const result = await work({ signal, onProgress }).catch((error) =>
      Promise.reject(stoppedAt(error, signal, `${state}; run the same command again to resume`)),
    );
    progress.end();
    return { result, ms: performance.now() - started };
  }

  gallery<T>(options: GalleryOptions, use: (gallery: Gallery) => Promise<T>): Promise<T> {
    return withGallery(this, options, use);
  }

  /** The collection that is meant, and the gallery it is in. */
  collection<T>(options: GalleryOptions, use: (collection: Collection, gallery: Gallery) => Promise<T>): Promise<T> {
    return this.gallery(options, async (gallery) => use(await gallery.collection(), gallery));
  }
}

/** A stream that may be a terminal. */
export type TerminalWritable = Writable & { readonly isTTY?: boolean; readonly columns?: number };
export type TerminalReadable = Readable & { readonly isTTY?: boolean };

export interface Environment {
  /** Where relative paths begin. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: TerminalReadable;
  readonly stdout: TerminalWritable;
  readonly stderr: TerminalWritable;
  /** Aborted by Ctrl-C, with an `Interrupted` as its reason. */
  readonly signal: AbortSignal;
}
