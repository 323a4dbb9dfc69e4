// Kills a server at random moments while clients write, delete, optimize and search, and restarts
// it under the same address, repeatedly. No client may notice more than a delay, and everything
// acknowledged must survive.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Database, HttpService, MasterSeed } from '@hers/client';
import { identities } from '@hers/vectors/synthetic';
import { ServiceProcess } from '../service-process.ts';

const DIMENSION = 16;
const PEOPLE = 4000;
const BATCH = 150;
const WRITERS = 2;
const SEARCHERS = 2;

export interface KillTally {
  readonly kills: number;
  readonly written: number;
  readonly searches: number;
  readonly retries: number;
}

/** Throws if a client fails, an answer is wrong, or anything acknowledged is missing afterwards. */
export async function killService(
  count: number,
  onProgress?: (kills: number, written: number) => void,
): Promise<KillTally> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-kill-'));
  let server = await ServiceProcess.start(folder);
  const { url } = server;
  const port = Number(new URL(url).port);
  const key = MasterSeed.generate();
  let retries = 0;
  const open = () =>
    new Database(new HttpService(url, { retryMs: 120_000, onRetry: () => retries++ }), { key, threads: 1 });
  const databases: Database[] = [];
  const openOne = () => {
    const db = open();
    databases.push(db);
    return db;
  };
  const { vectors } = identities(PEOPLE, 1, DIMENSION, { noise: 0.5 }).gallery();
  const vectorOf = (i: number) => vectors.subarray((i % PEOPLE) * DIMENSION, ((i % PEOPLE) + 1) * DIMENSION);
  /** The vector that was acknowledged last, by id. */
  const written = new Map<string, number>();
  const deleted = new Set<string>();
  let searches = 0;
  let running = true;

  const writer = async (number: number) => {
    const collection = await openOne().collection('things');
    for (let batch = 0; running; batch++) {
      const ids = Array.from({ length: BATCH }, (_, i) => batch * BATCH + i);
      const records = ids.map((i) => ({ id: `${number}-${i}`, vector: vectorOf(i * WRITERS + number) }));
      await collection.upsert(records);
      ids.forEach((i) => written.set(`${number}-${i}`, i * WRITERS + number));
      const [first] = records;
      await collection.delete(first.id);
      written.delete(first.id);
      deleted.add(first.id);
      if (batch % 20 === 19) await collection.optimize();
    }
  };
  const searcher = async (number: number) => {
    const collection = await openOne().collection('things');
    for (let i = number; running; i += SEARCHERS) {
      const { matches, coverage } = await collection.search(vectorOf(i), { limit: 1 });
      if (coverage.searched !== coverage.total) throw new Error('a search did not cover everything');
      if (coverage.total > 0 && matches.length === 0) throw new Error('a search found nothing');
      searches++;
    }
  };
  const killer = async () => {
    try {
      for (let kills = 1; kills <= count; kills++) {
        await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 1500));
        await server.kill();
        server = await ServiceProcess.start(folder, { port });
        onProgress?.(kills, written.size);
      }
    } finally {
      running = false;
    }
  };
  try {
    await openOne().createCollection('things', { dimension: DIMENSION });
    const clients = [
      ...Array.from({ length: WRITERS }, (_, i) => writer(i)),
      ...Array.from({ length: SEARCHERS }, (_, i) => searcher(i)),
    ];
    await Promise.all([killer(), ...clients]);
    await check(await openOne().collection('things'), written, deleted, vectorOf);
    return { kills: count, written: written.size, searches, retries };
  } finally {
    running = false;
    for (const db of databases) await db.close();
    await server.kill();
    await rm(folder, { recursive: true, force: true });
  }
}

async function check(
  collection: Awaited<ReturnType<Database['collection']>>,
  written: ReadonlyMap<string, number>,
  deleted: ReadonlySet<string>,
  vectorOf: (i: number) => Float32Array,
): Promise<void> {
  const ids = await Array.fromAsync(collection.list());
  const found = new Set(ids);
  if (found.size !== ids.length) throw new Error('a record is there twice');
  for (const id of written.keys()) if (!found.has(id)) throw new Error(`record ${id} was acknowledged and is gone`);
  for (const id of deleted) if (found.has(id)) throw new Error(`record ${id} was deleted and is back`);
  const samples = [...written].filter((_, i) => i % Math.ceil(written.size / 40) === 0);
  const results = await collection.searchBatch(
    samples.map(([, i]) => vectorOf(i)),
    // As many as share a vector, and a few more: they differ by noise alone.
    { limit: 20 + Math.ceil((WRITERS * written.size) / PEOPLE) },
  );
  results.forEach(({ matches }, k) => {
    if (!matches.some(({ id }) => id === samples[k][0]))
      throw new Error(`record ${samples[k][0]} was acknowledged and is not found`);
  });
}
