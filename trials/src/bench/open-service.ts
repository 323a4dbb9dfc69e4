// The second part of `npm run bench -- open`: whole searches over HTTP, of a collection of the
// profile `open` beside the same records under `compact`, in turns; on this machine, and over a
// line as slow as one of the world.

import { join } from 'node:path';
import { type Collection, Database, HttpService, MasterSeed } from '@hers/client';
import { openDevice } from '@hers/client/device';
import { compared, progress, type Result } from '@hers/paper/lab/report';
import { decodeEnvelope } from '@hers/service';
import { quantile } from '@hers/service/testing/phases';
import { openStore } from '@hers/store';
import { identities } from '@hers/vectors/synthetic';
import { ServiceProcess } from '../service-process.ts';
import { inFolder, recordsOf } from './settings.ts';
import { SlowLine } from './slow-line.ts';

const SAMPLES = 4;
const WARM_UP = 3;
const ASKED = 8;
const PROFILES = ['compact', 'open'] as const;
type ProfileName = (typeof PROFILES)[number];
export const LINE = { bitsPerSecond: 20_000_000, roundTripMs: 30 };

export interface SearchedOptions {
  readonly count: number;
  readonly dimension: number;
  /** On this machine, and over the slow line, of each profile. */
  readonly searches: number;
  readonly slowSearches: number;
  readonly folder?: string | undefined;
}

export function searched(options: SearchedOptions): Promise<Result[]> {
  return inFolder(options.folder, (folder) => measure(join(folder, 'gallery'), options));
}

async function measure(
  gallery: string,
  { count, dimension, searches, slowSearches }: SearchedOptions,
): Promise<Result[]> {
  const key = MasterSeed.generate();
  const world = identities(Math.ceil(count / SAMPLES), SAMPLES, dimension);
  const { vectors, labels } = world.gallery();
  const store = await openStore(gallery);
  const enroller = new Database(store, { key });
  for (const profile of PROFILES) {
    progress(`enrolling ${count} records under ${profile}`);
    const collection = await enroller.createCollection(profile, { dimension, profile });
    await collection.upsert(recordsOf(vectors.subarray(0, count * dimension), dimension));
    await collection.optimize();
  }
  await enroller.close();
  await store.close();

  const server = await ServiceProcess.start(gallery, { limits: { requestsPerSecond: 1_000_000 } });
  try {
    const people = Math.ceil(count / SAMPLES);
    const asked = Uint32Array.from(
      { length: Math.max(ASKED, WARM_UP + Math.max(searches, slowSearches)) },
      (_, i) => (7919 * i) % people,
    );
    const probes = world.probes(asked);
    const probe = (i: number) => probes.vectors.subarray(i * dimension, (i + 1) * dimension);
    const hits: Record<ProfileName, number> = { compact: 0, open: 0 };
    const inTurns = async (url: string, times: number) => {
      const database = new Database(new HttpService(url), { key });
      const ms: Record<ProfileName, number[]> = { compact: [], open: [] };
      const collections = new Map<ProfileName, Collection>();
      for (const profile of PROFILES) collections.set(profile, await database.collection(profile));
      for (let i = 0; i < WARM_UP + times; i++)
        for (const profile of PROFILES) {
          const start = performance.now();
          const { matches } = await collections.get(profile)!.search(probe(i), { limit: 10 });
          if (i < WARM_UP) continue;
          ms[profile].push(performance.now() - start);
          if (url === server.url) hits[profile] += Number(labels[Number(matches[0]!.id)] === asked[i]) / times;
        }
      await database.close();
      return ms;
    };
    progress('searching on this machine, in turns');
    const near = await inTurns(server.url, searches);
    const bytes = server.bytes;
    progress('searching over a line of 20 Mbit/s and 30 ms, in turns');
    const line = await SlowLine.to(Number(new URL(server.url).port), LINE);
    const far = await inTurns(`http://127.0.0.1:${line.port}`, slowSearches);
    await line.close();
    progress('asking as devices do');
    const devices = await asDevices(server.url, key, probe);
    const p50 = (name: string, ms: readonly number[]): Result => ({ name, value: quantile(ms, 0.5), unit: 'ms' });
    const compact = p50('compact-p50', near.compact);
    const compactRank: Result = { name: 'compact-rank-1', value: hits.compact, unit: 'share' };
    const compactFar = p50('compact-p50-20mbit', far.compact);
    return [
      compared(p50('search-p50', near.open), compact),
      compact,
      compared(p50('search-p50-20mbit', far.open), compactFar),
      compactFar,
      compared({ name: 'rank-1', value: hits.open, unit: 'share' }, compactRank),
      compactRank,
      { name: 'server-memory', value: bytes, unit: 'bytes' },
      ...devices,
    ];
  } finally {
    await server.kill();
  }
}

/** A device of each kind asks over HTTP: what the server has got, and that the keeper answers. */
async function asDevices(url: string, key: MasterSeed, probe: (i: number) => Float32Array): Promise<Result[]> {
  const service = new HttpService(url);
  const database = new Database(service, { key });
  const gallery = await database.collection('open');
  const results: Result[] = [];
  for (const [kind, ownKey] of [
    ['device', true],
    ['public', false],
  ] as const) {
    const bundle = await gallery.addDevice(kind, { ownKey, address: url });
    const device = openDevice(undefined, bundle);
    for (let i = 0; i < ASKED; i++) await device.ask(probe(i));
    device.close();
    const items = await Array.fromAsync(service.takeInbox('open'));
    const bodies = new Set(items.map(({ envelope }) => decodeEnvelope(envelope).body.length));
    const sizes = new Set(items.map(({ envelope }) => envelope.length));
    if (items.length !== ASKED || bodies.size !== 1) throw new Error('questions of one device differ in length');
    const start = performance.now();
    const answers = await Array.fromAsync(gallery.questions({ wait: false, limit: 1 }));
    const ms = (performance.now() - start) / ASKED;
    const own = await gallery.searchBatch(
      answers.map((_, i) => probe(i)),
      { limit: 1 },
    );
    // Near ties may fall either way, by noise.
    const differ = answers.filter(({ matches }, i) => {
      const [mine] = own[i]!.matches;
      return matches[0]!.id !== mine!.id && Math.abs(matches[0]!.score - mine!.score) > 0.02;
    });
    if (answers.length !== ASKED || differ.length > 0) throw new Error('a device got another answer than the owner');
    await service.dropInbox(
      'open',
      items.map(({ number }) => number),
    );
    results.push({ name: `query-bytes-${kind}`, value: [...bodies][0]!, unit: 'bytes' });
    results.push({ name: `post-bytes-${kind}`, value: [...sizes][0]!, unit: 'bytes' });
    results.push({ name: `answer-ms-${kind}`, value: ms, unit: 'ms/question' });
  }
  await database.close();
  return results;
}
