// Faiss' exact search of random vectors, for comparison (trials/yardsticks/faiss), where it
// and a compiler are installed. The program is built on first use.

import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { part } from '../../../tools/parts.ts';

const run = promisify(execFile);
const home = join(import.meta.dirname, '../..');
const SOURCE = join(home, 'yardsticks/faiss/search.cpp');
const HEADERS = ['/usr/include', '/usr/local/include'];

export interface FaissSearch {
  /** The number of the vector with the largest inner product. */
  readonly best: number;
  /** One for each repetition. */
  readonly seconds: readonly number[];
}

export function faissMissing(): string | undefined {
  if (!HEADERS.some((folder) => existsSync(join(folder, 'faiss/IndexFlat.h'))))
    return 'Faiss is not installed (libfaiss-dev)';
  return part('compiler', { PATH: process.env.PATH }).path ? undefined : 'there is no C++ compiler';
}

/** Searches `count` random vectors for one query, again and again, in a process of its own. */
export async function faissSearch(
  count: number,
  dimension: number,
  threads: number,
  repetitions: number,
): Promise<FaissSearch> {
  const { stdout } = await run(await program(), [count, dimension, threads, repetitions].map(String));
  return JSON.parse(stdout) as FaissSearch;
}

async function program(): Promise<string> {
  const stamp = createHash('sha256').update(readFileSync(SOURCE)).digest('hex').slice(0, 16);
  const output = join(home, `build/faiss-search-${stamp}`);
  if (existsSync(output)) return output;
  mkdirSync(join(home, 'build'), { recursive: true });
  const made = `${output}.${randomBytes(6).toString('hex')}`;
  const { path } = part('compiler', { PATH: process.env.PATH });
  await run(path!, ['-O3', '-std=c++17', '-fopenmp', SOURCE, '-o', made, '-lfaiss', '-llapack', '-lblas']);
  renameSync(made, output);
  return output;
}
