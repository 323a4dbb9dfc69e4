// What the scan is measured against: reading the same bytes, the same search over plaintext, the
// multiplication without memory (packages/scan/yardsticks). An addon of its own, built when it is
// first asked for: those who only search need none of it. All figures are seconds of every
// repetition, and all calls keep the event loop waiting.

import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { moduliOf } from '@hers/ring';
import type { ParameterSet } from '@hers/scheme';
import { nativeAddon } from '../../../tools/addon.ts';
import { buildStale } from '../../../tools/build.ts';
import type { Isa } from '../src/native/native-addon.ts';
import { PANEL_ROWS } from '../src/segment.ts';
import { readHeader } from '../src/segment-file.ts';

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
  ): number[];
}

const home = join(import.meta.dirname, '..');
const YARDSTICKS_PATH = join(home, 'build/hers_yardsticks.node');

/** Builds the addon where it is missing or stale. Throws where that is impossible. */
export async function buildYardsticks(output = YARDSTICKS_PATH, flags: readonly string[] = []): Promise<void> {
  const also = ['mapping.cc', 'tables.cc'].map((file) => join(home, 'native', file));
  const messages: string[] = [];
  const target = nativeAddon(join(home, 'yardsticks'), output, { flags, also });
  if (!(await buildStale([target], (message) => messages.push(message)))) throw new Error(messages.join('\n'));
}

export class Yardsticks {
  readonly #addon: Addon;
  readonly #isa: Isa;

  /** Of an addon that is built. */
  constructor(isa: Isa, path = YARDSTICKS_PATH) {
    const module = { exports: {} };
    process.dlopen(module, path);
    this.#addon = module.exports as Addon;
    this.#isa = isa;
  }

  static async open(isa: Isa): Promise<Yardsticks> {
    await buildYardsticks();
    return new Yardsticks(isa);
  }

  /** Maps segment files, to be read. */
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

  /**
   * A search over `count` plaintext float32 vectors: our loop on so many threads, and OpenBLAS'
   * sgemv on one, where it is installed.
   */
  plaintextSeconds(
    count: number,
    dimension: number,
    threads: number,
    repetitions: number,
  ): { readonly own: number[]; readonly blas: number[] | undefined } {
    const plain = this.#addon.createPlain(count, dimension);
    const own = this.#addon.plainSeconds(this.#isa, plain, threads, repetitions);
    const blas = this.#addon.blasSeconds(plain, repetitions);
    this.#addon.freePlain(plain);
    return { own, blas: blas.length > 0 ? blas : undefined };
  }

  /**
   * How many bytes of gallery, times queries, `threads` threads multiply in a second when nothing
   * has to come from memory: best of the repetitions.
   */
  multiplyCeiling({ n, primes }: ParameterSet, queries: number, threads: number, repetitions: number): number {
    const blocks = 16;
    const rounds = Math.ceil(2000 / queries);
    const [{ p }] = moduliOf(n, primes);
    const seconds = this.#addon.ceilingSeconds(this.#isa, p, blocks, queries, rounds, threads, repetitions);
    return (blocks * PANEL_ROWS * 64 * queries * rounds * threads) / Math.min(...seconds);
  }
}

export interface MappedSegments {
  /** Reads all data of the segments and adds it up: what no scan can beat. */
  readSeconds(threads: number, repetitions: number): number[];
  close(): void;
}
