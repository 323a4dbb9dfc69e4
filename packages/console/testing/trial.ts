// A gallery to look at: a folder with collections of synthetic vectors, a key file, and the console
// before it, both ways.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Database, MasterSeed, sealKey, type VectorRecord } from '@hers/client';
import { startServer } from '@hers/server';
import { openStore } from '@hers/store';
import { BASE, PAGE_HEADERS, readPage, serverSession, startConsole } from '../src/node/index.node.ts';

export const PASSPHRASE = 'a passphrase for trials';
export const DIMENSION = 32;
/** What stands in ids and payloads: nothing of it may become an element of the page. */
export const HOSTILE = '<img src=x onerror="document.title=\'taken\'">';

const CITIES = ['Ankara', 'Bergen', 'Cusco', 'Dakar', 'Erfurt'];

/** Numbers that are the same in every run. */
export function vectorOf(seed: number, dimension: number = DIMENSION): number[] {
  let x = Math.imul(seed + 1, 0x9e3779b1);
  return Array.from({ length: dimension }, () => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return x / 2 ** 31;
  });
}

export function* people(count: number): Generator<VectorRecord> {
  for (let i = 0; i < count; i++)
    yield {
      id: i === 3 ? HOSTILE : `person-${String(i).padStart(4, '0')}`,
      vector: vectorOf(i),
      payload: { city: CITIES[i % 5]!, since: 2000 + (i % 25), note: i === 3 ? HOSTILE : `note ${i} of a person` },
    };
}

export interface Trial extends AsyncDisposable {
  readonly folder: string;
  readonly keyFile: string;
  readonly seed: Uint8Array;
  /** The console beside the API of a server. */
  readonly served: string;
  /** The address of `hers console`, with its secret. */
  readonly address: string;
  stop(): Promise<void>;
  start(): Promise<void>;
}

export async function openTrial(records: number): Promise<Trial> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-console-trial-'));
  using key = MasterSeed.generate();
  const keyFile = await sealKey(key, PASSPHRASE, 2 ** 10);
  const gallery = join(folder, 'gallery');
  const store = await openStore(gallery);
  const database = new Database(store, { key });
  const faces = await database.createCollection('faces', {
    dimension: DIMENSION,
    fields: { city: 'keyword', since: 'number' },
  });
  await faces.upsert(people(records));
  await faces.optimize();
  await database.createCollection('voices', { dimension: 192, profile: 'exact', metric: 'euclidean', normBound: 10 });
  await database.close();
  const files = [...(await readPage()), serverSession()];
  const site = { base: BASE, headers: PAGE_HEADERS, files };
  let server = await startServer(await openStore(gallery), { port: 0, site });
  const port = Number(new URL(server.url).port);
  const served = await startConsole({
    upstream: { url: server.url },
    gallery: `file:${gallery}`,
    port: 0,
    keyFile: { name: 'hers.key', text: keyFile },
  });
  return {
    folder,
    keyFile,
    seed: key.reveal(),
    served: server.url + BASE,
    address: served.address,
    stop: () => server.close(),
    start: async () => {
      server = await startServer(await openStore(gallery), { port, site });
    },
    async [Symbol.asyncDispose]() {
      await served.close();
      await server.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
