// Baselines for the scan: reading the same bytes, the same search over plaintext, and the
// multiplication without memory traffic (trials/yardsticks). They are an addon of their own,
// built on first use, because searching needs none of it. All figures are seconds per repetition,
// and all calls block the event loop.

import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { type Isa, rowBytes } from '@hers/scan';
import { isPacked, PANEL_ROWS, readHeader } from '@hers/scan/accelerator';
import type { ParameterSet } from '@hers/scheme';
import { nativeAddon } from '../../../tools/addon.ts';
import { buildStale, type Target } from '../../../tools/build.ts';
import { Workspace } from '../../../tools/workspace.ts';

declare const kind: unique symbol;
type FileRef = { readonly [kind]: 'file' };
type PlainRef = { readonly [kind]: 'plain' };

interface Addon {
  mapFile(descriptor: number, bytes: number, from: number): FileRef;
  freeFile(file: FileRef): void;
  readSeconds(isa: Isa, files: readonly FileRef[], threads: number, repetitions: number): number[];
  createPlain(count: number, dimension: number): PlainRef;
  plainSeconds(isa: Isa, plain: PlainRef, threads: number, repetitions: number): number[];
  blasSeconds(plain: PlainRef, repetitions: number): number[];
  freePlain(plain: PlainRef): void;
  ceilingSeconds(
    isa: Isa,
    p: number,
    blocks: number,
    queries: number,
    rounds: number,
    threads: number,
    repetitions: number,
    packed: boolean,
  ): number[];
}

const home = join(import.meta.dirname, '../..');
const workspace = new Workspace(join(home, '..'));
const YARDSTICKS_PATH = join(home, 'build/hers_yardsticks.node');

/** Returns the recipe of the addon. */
export function yardsticksAddon(output: string = YARDSTICKS_PATH, flags: readonly string[] = []): Target {
  const also = ['mapping.cc', 'tables.cc'].map((file) => workspace.path('scan', `native/${file}`));
  return nativeAddon(join(home, 'yardsticks'), output, { flags, also });
}

export class Yardsticks {
  readonly #addon: Addon;
  readonly #isa: Isa;

  constructor(isa: Isa, path: string = YARDSTICKS_PATH) {
    const module = { exports: {} };
    process.dlopen(module, path);
    this.#addon = module.exports as Addon;
    this.#isa = isa;
  }

  /** Builds the addon if it is missing or stale. Throws if that is impossible. */
  static async open(isa: Isa): Promise<Yardsticks> {
    const messages: string[] = [];
    if (!(await buildStale([yardsticksAddon()], (message) => messages.push(message))))
      throw new Error(messages.join('\n'));
    return new Yardsticks(isa);
  }

  async map(paths: readonly string[]): Promise<MappedSegments> {
    const files: FileRef[] = [];
    for (const path of paths) {
      const file = await open(path, 'r');
      try {
        const { fileBytes, dataAt } = await readHeader(file, path);
        files.push(this.#addon.mapFile(file.fd, fileBytes, dataAt));
      } finally {
        await file.close();
      }
    }
    return {
      readSeconds: (threads, repetitions) => this.#addon.readSeconds(this.#isa, files, threads, repetitions),
      close: () => {
        for (const file of files) this.#addon.freeFile(file);
      },
    };
  }

  /** `count` plaintext float32 vectors, to be searched. */
  plaintext(count: number, dimension: number): PlainVectors {
    const plain = this.#addon.createPlain(count, dimension);
    return {
      searchSeconds: (threads, repetitions) => this.#addon.plainSeconds(this.#isa, plain, threads, repetitions),
      blasSeconds: (repetitions) => this.#addon.blasSeconds(plain, repetitions),
      close: () => this.#addon.freePlain(plain),
    };
  }

  /**
   * Bytes of gallery, times queries, that `threads` threads multiply per second when nothing comes
   * from memory: the best of the repetitions.
   */
  multiplyCeiling(parameters: ParameterSet, queries: number, threads: number, repetitions: number): number {
    const blocks = 16;
    const rounds = Math.ceil(2000 / queries);
    const packed = isPacked(parameters);
    const [p] = parameters.primes;
    const seconds = this.#addon.ceilingSeconds(this.#isa, p, blocks, queries, rounds, threads, repetitions, packed);
    return (rowBytes(parameters, PANEL_ROWS, blocks) * queries * rounds * threads) / Math.min(...seconds);
  }
}

export interface PlainVectors {
  /** A search by our own loop. */
  searchSeconds(threads: number, repetitions: number): number[];
  /** Searches by OpenBLAS' sgemv on one thread; returns nothing if it is not installed. */
  blasSeconds(repetitions: number): number[];
  close(): void;
}

export interface MappedSegments {
  /** Reads all data of the segments and sums it: the lower bound for any scan. */
  readSeconds(threads: number, repetitions: number): number[];
  close(): void;
}
