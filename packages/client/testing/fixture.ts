// The gallery in fixtures/gallery, with its key and what searches find in it: known answers for all
// that is written to a disk. After a change of any format it is made again by
//
//   node tools/run.mjs packages/client/testing/fixture.ts

import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Service } from '@hers/service';
import { openStore } from '@hers/store';
import { fit } from '@hers/training';
import { Database, type SearchOptions, type VectorRecord } from '../src/index.ts';
import { vectorOf } from './client.ts';

export const FIXTURE: string = join(import.meta.dirname, '../fixtures/gallery');

/** A search, and what it finds. */
export interface Answer {
  readonly collection: string;
  readonly probe: readonly number[];
  readonly options: SearchOptions;
  /** Ids and scores, the best first. */
  readonly matches: readonly (readonly [string, number])[];
}

export interface Answers {
  /** The ids in every collection, in order, with spaces between them. */
  readonly ids: Readonly<Record<string, string>>;
  readonly searches: readonly Answer[];
}

/** Records whose vectors follow from their numbers, of three sites in turn. */
const several = (from: number, to: number, dimension: number): VectorRecord[] =>
  Array.from({ length: to - from }, (_, i) => ({
    id: `r${from + i}`,
    vector: vectorOf(from + i, dimension),
    payload: { number: from + i, site: `s${(from + i) % 3}` },
  }));

/** A network: what it makes of a vector is sealed with the record. */
async function smallNetwork(): Promise<Uint8Array> {
  const count = 480;
  const vectors = new Float32Array(count * 8);
  for (let i = 0; i < count; i++)
    vectors.set(
      vectorOf(i >> 3, 8).map((x, k) => x + 0.3 * vectorOf(i, 8)[k]),
      i * 8,
    );
  const labels = Array.from({ length: count }, (_, i) => `p${i >> 3}`);
  return (await fit('deepmds', vectors, labels, { inputDimension: 8, dimension: 4, settings: { steps: 50 } })).save();
}

/** Blocks and pending records, deleted and replaced ones, and lists with their sums. */
async function fillFaces(db: Database): Promise<void> {
  const faces = await db.createCollection('faces', { dimension: 4, profile: 'exact', metric: 'euclidean' });
  await faces.upsert(several(0, 30, 4));
  await faces.optimize();
  await faces.upsert(several(30, 40, 4));
  await faces.delete(['r3', 'r35']);
  await faces.upsert({ id: 'r4', vector: vectorOf(404, 4), payload: { number: 4 } });
}

/** A compressor, two keys, and records whose projections are sealed. */
async function fillNetwork(db: Database): Promise<void> {
  const network = await db.createCollection('network', { dimension: 8, compressor: await smallNetwork() });
  await network.upsert(several(0, 20, 8));
  await network.rotateKey();
  await network.upsert(several(20, 25, 8));
}

/** Sections, columns and checksums; and a segment, as a snapshot is restored to. */
async function fillPeople(db: Database, store: Service): Promise<void> {
  const drafts = await db.createCollection('drafts', {
    dimension: 4,
    integrity: 'strong',
    fields: { site: 'keyword', number: 'number' },
    partitionBy: 'site',
  });
  await drafts.upsert(several(0, 60, 4));
  await drafts.optimize();
  await drafts.upsert(several(60, 70, 4));
  await store.restore('people', store.snapshot('drafts'));
  await store.deleteCollection('drafts');
}

const DIMENSIONS = { faces: 4, network: 8, people: 4 };
const SEARCHES: Readonly<Record<keyof typeof DIMENSIONS, readonly SearchOptions[]>> = {
  faces: [{ limit: 9 }, { limit: 9, rerank: true }],
  network: [{ limit: 9 }, { limit: 9, rerank: true }],
  people: [
    { limit: 9 },
    { limit: 9, partitions: ['s1'] },
    { limit: 9, filter: { must: { field: 'number', range: { lt: 20 } } } },
  ],
};

/** Writes `gallery`, `key.hex` and `answers.json`. */
async function writeFixture(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const key = new Uint8Array(32).map((_, i) => i * 7 + 1);
  const path = join(folder, 'gallery');
  const store = await openStore(path);
  const db = new Database(store, { key, threads: 1 });
  await fillFaces(db);
  await fillNetwork(db);
  await fillPeople(db, store);
  const again = new Database(store, { key, threads: 1 });
  const ids: Record<string, string> = {};
  const searches: Answer[] = [];
  for (const [name, dimension] of Object.entries(DIMENSIONS)) {
    const collection = await again.collection(name);
    ids[name] = (await Array.fromAsync(collection.list())).sort().join(' ');
    for (const options of SEARCHES[name as keyof typeof DIMENSIONS]) {
      const probe = [...vectorOf(7, dimension)];
      const { matches } = await collection.search(probe, options);
      const found = matches.map(({ id, score }) => [id, score] as const);
      searches.push({ collection: name, probe, options, matches: found });
    }
  }
  await again.close();
  // A folder of git holds no empty ones, and none of these is needed.
  for (const name of ['lock', 'writer', 'reserve']) await rm(join(path, name), { force: true });
  await writeFile(join(folder, 'key.hex'), `${Buffer.from(key).toString('hex')}\n`);
  await writeFile(join(folder, 'answers.json'), `${JSON.stringify({ ids, searches } satisfies Answers)}\n`);
}

if (process.argv[1] === import.meta.filename) {
  await rm(FIXTURE, { recursive: true, force: true });
  await writeFixture(FIXTURE);
}
