// `npm run bench -- scrub`: how fast every byte of a folder is verified, compared with plainly
// reading the same files. All of them are in the system's cache, so that no disk is measured: a
// scrub that is faster here than a disk is limited only by the disk.

import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { compared, progress, type Report, type Result } from '@hers/paper/lab/report';
import type { Values } from '@hers/paper/lab/runner';
import { type Block, encodeBlock, parameterSet, polyWords } from '@hers/scheme';
import { HANDLE_BYTES, type SealedRecord, type Service } from '@hers/service';
import { type FolderStore, openStore } from '@hers/store';
import { machine } from '@hers/vectors/machine';
import { inFolder, numbersOf } from './settings.ts';

/** Bytes that sealing adds to the vector of a record. */
const SEALED_MORE = 100;
const READ_BYTES = 2 ** 21;
const PARAMETERS = parameterSet('n_2048_logq_30_wide_5');
const TOGETHER = 8;

export async function run(options: Values): Promise<Report> {
  const numbers = numbersOf(options, { count: 1_000_000, dimension: 128, runs: 3 });
  const { count, dimension, runs } = numbers;
  const results = await inFolder(options.folder, (folder) => measure(folder, count, dimension, runs));
  return { bench: 'scrub', parameters: numbers, machine: machine(), results };
}

async function measure(folder: string, count: number, dimension: number, runs: number): Promise<Result[]> {
  progress('writing');
  const store = await openStore(folder);
  try {
    await fill(store, count, dimension);
    const threads = availableParallelism();
    const rates = { read: 0, single: 0, all: 0 };
    let bytes = 0;
    // The first run fills the cache. The best of the others is the least disturbed one.
    for (let i = 0; i <= runs; i++) {
      progress(i === 0 ? 'reading, for the first time' : `run ${i} of ${runs}`);
      const plain = rateOf(await timed(async () => (bytes = readAll(folder))));
      const single = i === 0 ? 0 : rateOf(await timed(() => scrub(store, 1)));
      const all = i === 0 ? 0 : rateOf(await timed(() => scrub(store, threads)));
      if (i === 0) continue;
      rates.read = Math.max(rates.read, plain);
      rates.single = Math.max(rates.single, single);
      rates.all = Math.max(rates.all, all);
    }
    const read = { name: 'plain-read', value: rates.read, unit: 'MB/s' };
    const single = { name: 'scrub-1-thread', value: rates.single, unit: 'MB/s' };
    const all = { name: `scrub-${threads}-threads`, value: rates.all, unit: 'MB/s' };
    return [
      read,
      compared(single, read),
      compared(all, read),
      compared({ ...all, name: 'all-cores' }, single),
      { name: 'bytes-on-disk', value: bytes, unit: 'bytes' },
    ];
  } finally {
    await store.close();
  }
}

interface Timed {
  readonly bytes: number;
  readonly ms: number;
}

async function timed(work: () => Promise<number>): Promise<Timed> {
  const start = performance.now();
  const bytes = await work();
  return { bytes, ms: performance.now() - start };
}

const rateOf = ({ bytes, ms }: Timed) => bytes / 1000 / ms;

/** Scrubs the folder, and returns how many bytes that were. */
async function scrub(store: FolderStore, threads: number): Promise<number> {
  let bytes = 0;
  for await (const { bytes: each, damage } of store.scrub({ threads })) {
    if (damage) throw damage;
    bytes += each;
  }
  return bytes;
}

/** Reads the files of blocks, segments and records to their ends, one after the other. */
function readAll(folder: string): number {
  const buffer = Buffer.alloc(READ_BYTES);
  let bytes = 0;
  for (const part of ['blocks', 'segments', 'vault']) {
    for (const name of readdirSync(join(folder, part))) {
      const file = openSync(join(folder, part, name), 'r');
      for (let read = 1; read > 0; bytes += read) read = readSync(file, buffer, 0, READ_BYTES, -1);
      closeSync(file);
    }
  }
  return bytes;
}

/**
 * A collection as a client would fill it, of random bytes: a store cannot tell them from sealed and
 * encrypted ones.
 */
async function fill(store: Service, count: number, dimension: number): Promise<void> {
  const descriptor = randomBytes(30);
  await store.createCollection('bench', { id: randomBytes(16), descriptor, manifest: randomBytes(100) });
  const perCommit = TOGETHER * PARAMETERS.n;
  const rows = residues(dimension);
  for (let expected = 1, done = 0; done < count; expected++, done += perCommit) {
    const records = Math.min(perCommit, count - done);
    const blocks = Array.from({ length: Math.ceil(records / PARAMETERS.n) }, () => encodeBlock(blockOf(rows)));
    await store.commit('bench', {
      expected,
      manifest: randomBytes(100),
      records: [await store.stageRecords('bench', sealedRecords(records, 4 * dimension + SEALED_MORE))],
      lists: await Promise.all(blocks.map(() => store.stageList('bench', randomBytes(16 * PARAMETERS.n)))),
      blocks: await Promise.all(blocks.map((block) => store.stageBlock('bench', [block]))),
    });
    if (expected % 8 === 0) progress(`  ${done + records} of ${count}`);
  }
  await store.purge('bench');
}

function* sealedRecords(count: number, bytes: number): Generator<SealedRecord> {
  const all = randomBytes(count * HANDLE_BYTES);
  const sealed = randomBytes(bytes);
  for (let i = 0; i < count; i++)
    yield { handle: new Uint8Array(all.subarray(i * HANDLE_BYTES, (i + 1) * HANDLE_BYTES)), sealed };
}

const keyId = new Uint8Array(16).fill(1);

function blockOf(rows: Uint32Array): Block {
  return {
    parameters: PARAMETERS,
    keyId,
    blockId: new Uint8Array(randomBytes(16)),
    width: rows.length / polyWords(PARAMETERS),
    first: 0,
    count: PARAMETERS.n,
    galleryScale: 1024,
    seed: new Uint8Array(randomBytes(32)),
    rows,
  };
}

function residues(width: number): Uint32Array {
  const { n, primes } = PARAMETERS;
  const words = polyWords(PARAMETERS);
  const random = new Uint32Array(new Uint8Array(randomBytes(4 * width * words)).buffer);
  return random.map((word, i) => word % primes[Math.floor((i % words) / n)]);
}
