// `npm run bench -- embedded --kernel cuda`: searches of a large gallery in one process, through
// `collection.search`, with everything that is done for each block on the device.

import { Database, HersError, MasterSeed } from '@hers/client';
import { progress, type Report } from '@hers/paper/lab/report';
import type { Values } from '@hers/paper/lab/runner';
import { openKernel } from '@hers/scan';
import type { Integrity, Profile } from '@hers/scheme';
import { quantile } from '@hers/service/testing/phases';
import { machine } from '@hers/vectors/machine';
import { bulkGallery } from './bulk-gallery.ts';
import { probeVectors, recordOf } from './bulk-vectors.ts';
import { numbersOf, quantilesOf } from './settings.ts';

/** Searches before those that are timed: the first prepares the device. */
const WARM_UPS = 3;

export async function run(options: Values & { readonly kernel: string }): Promise<Report> {
  const numbers = numbersOf(options, { count: 1_000_000, dimension: 128, searches: 50 });
  const { count, dimension, searches: probes } = numbers;
  if (options.folder !== undefined)
    throw new HersError('INVALID_ARGUMENT', 'with --kernel the gallery is in memory; leave out --folder');
  const { kernel } = await openKernel({ kernel: options.kernel });
  const key = MasterSeed.generate();
  progress(`encrypting ${count} vectors`);
  const { profile = 'compact', integrity = 'standard' } = options;
  const plan = { profile: profile as Profile, integrity: integrity as Integrity };
  const made = await bulkGallery(kernel, key, { count, dimension, probes }, plan, (done, of) => {
    if (done % 64 === 0 || done === of) progress(`  ${done} of ${of} segments`);
  });

  progress('opening');
  const db = new Database(made.service, { key });
  const opening = performance.now();
  const collection = await db.collection(made.name);
  const openMs = performance.now() - opening;
  const vectors = probeVectors(probes, count, dimension, made.capacity);
  const probe = (i: number) => {
    const at = (((i % probes) + probes) % probes) * dimension;
    return vectors.subarray(at, at + dimension);
  };

  progress('searching');
  const times: { total: number; encrypt: number; scan: number; decrypt: number }[] = [];
  let [firstMs, hits, agree, searched] = [0, 0, 0, 0];
  for (let i = -WARM_UPS; i < probes; i++) {
    const began = performance.now();
    const { matches, coverage } = await collection.search(probe(i), { limit: 10 });
    const ended = performance.now();
    if (i === -WARM_UPS) firstMs = ended - began;
    if (i < 0) continue;
    const { began: asked, scanned, ended: answered } = made.service.last;
    times.push({ total: ended - began, encrypt: asked - began, scan: scanned - asked, decrypt: answered - scanned });
    if (Number(matches[0].id) === recordOf(i, probes, count)) hits++;
    if (Number(matches[0].id) === made.best[i][0]) agree++;
    searched = coverage.searched;
  }
  if (searched !== count) throw new Error(`${searched} of ${count} records were searched`);
  const several = Array.from({ length: 8 }, (_, i) => probe(i));
  const batches: number[] = [];
  for (let i = 0; i < 4; i++) {
    const began = performance.now();
    await collection.searchBatch(several, { limit: 10 });
    if (i > 0) batches.push(performance.now() - began);
  }
  await db.close();
  const of = quantilesOf(times);
  return {
    bench: 'embedded',
    parameters: { ...numbers, ...plan, kernel: kernel.name, detail: kernel.detail },
    machine: machine(),
    results: [
      { name: 'bulk-encrypt', value: made.seconds, unit: 's' },
      { name: 'open', value: openMs, unit: 'ms' },
      { name: 'first-search', value: firstMs, unit: 'ms' },
      { name: 'search-p50', value: of('total'), unit: 'ms' },
      { name: 'search-p95', value: of('total', 0.95), unit: 'ms' },
      { name: 'search-encrypt', value: of('encrypt'), unit: 'ms' },
      { name: 'search-scan', value: of('scan'), unit: 'ms' },
      { name: 'search-decrypt', value: of('decrypt'), unit: 'ms' },
      { name: 'eight-together-p50', value: quantile(batches, 0.5), unit: 'ms' },
      { name: 'rank-1', value: hits / probes, unit: 'share' },
      { name: 'rank-1-as-in-the-clear', value: agree / probes, unit: 'share' },
    ],
  };
}
