// `npm run bench -- embedded`: the database in a folder, end to end, beside a search of the same
// gallery in the clear.

import { type Collection, Database, MasterSeed } from '@hers/client';
import { progress, type Report, type Result } from '@hers/paper/lab/report';
import type { Values } from '@hers/paper/lab/runner';
import { type Phases, quantile, TimedService } from '@hers/service/testing/phases';
import { openStore } from '@hers/store';
import { machine } from '@hers/vectors/machine';
import { identities } from '@hers/vectors/synthetic';
import { top1 } from '@hers/vectors/testing/plaintext';
import { anonymousBytes } from '../service-process.ts';
import { inFolder, numbersOf, quantilesOf, recordsOf } from './settings.ts';

const SAMPLES = 4;

export function run(options: Values): Promise<Report> {
  const { count, dimension, searches } = numbersOf(options, { count: 1_000_000, dimension: 128, searches: 50 });
  return inFolder(options.folder, async (folder) => {
    const { results, kernel } = await measure(folder, count, dimension, searches);
    const parameters = { count, dimension, searches, profile: 'compact', kernel };
    return { bench: 'embedded', parameters, machine: machine(), results };
  });
}

async function measure(
  folder: string,
  count: number,
  dimension: number,
  searches: number,
): Promise<{ results: Result[]; kernel: string }> {
  const world = identities(Math.ceil(count / SAMPLES), SAMPLES, dimension);
  const key = MasterSeed.generate();
  // Before the clock starts, and before memory is counted: making vectors takes as long as
  // enrolling them.
  progress('making vectors');
  const vectors = world.gallery().vectors.subarray(0, count * dimension);
  const before = anonymousBytes();
  let peak = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, anonymousBytes());
  }, 50);

  progress('enrolling');
  let db = new Database(await openStore(folder), { key });
  let collection: Collection = await db.createCollection('bench', { dimension });
  const start = performance.now();
  await collection.upsert(recordsOf(vectors, dimension), {
    onProgress: ({ acknowledged }) => {
      if (acknowledged % (2 ** 14 * 8) === 0) progress(`  ${acknowledged} of ${count}`);
    },
  });
  const enrolMs = performance.now() - start;
  const enrolPeak = peak;
  await collection.optimize();
  await db.close();

  progress('opening');
  const opening = performance.now();
  const timed = new TimedService(await openStore(folder));
  const openMs = performance.now() - opening;
  const contact = performance.now();
  db = new Database(timed.service, { key });
  collection = await db.collection('bench');
  const contactMs = performance.now() - contact;

  progress('searching');
  const labels = Array.from({ length: searches + 3 }, (_, i) => Math.floor((i * world.count) / (searches + 3)));
  const probes = world.probes(labels).vectors;
  const phases: Phases[] = [];
  let firstMs = 0;
  let hits = 0;
  for (let i = 0; i < labels.length; i++) {
    const { result, phases: each } = await timed.time(() =>
      collection.search(probes.subarray(i * dimension, (i + 1) * dimension), { limit: 1 }),
    );
    if (i === 0) firstMs = each.total;
    if (i < 3) continue; // the first search verifies checksums and maps pages
    phases.push(each);
    if (Math.floor(Number(result.matches[0].id) / SAMPLES) === labels[i]) hits++;
  }
  clearInterval(watch);

  progress('searching in the clear');
  const best = top1(vectors, probes.subarray(3 * dimension), dimension).index;
  const plainHits = best.reduce((sum, index, i) => sum + (Math.floor(index / SAMPLES) === labels[i + 3] ? 1 : 0), 0);
  // One at a time, for the latency; plain arithmetic in JavaScript hardly varies.
  const plainTimes = Array.from({ length: 10 }, (_, i) => {
    const at = performance.now();
    top1(vectors, probes.subarray(i * dimension, (i + 1) * dimension), dimension);
    return performance.now() - at;
  });
  const { bytes } = await db.describe('bench');
  const kernel = (timed.service as { kernel?: string }).kernel ?? 'automatic';
  await db.close();

  const of = quantilesOf(phases);
  const scan = { name: 'search-scan', value: of('scan'), unit: 'ms' };
  const results: Result[] = [
    { name: 'enrol-rate', value: (count * 1000) / enrolMs, unit: 'records/s' },
    { name: 'open', value: openMs, unit: 'ms' },
    { name: 'first-contact', value: contactMs, unit: 'ms' },
    { name: 'search-p50', value: of('total'), unit: 'ms', ratio: of('total') / scan.value, against: 'search-scan' },
    { name: 'search-p95', value: of('total', 0.95), unit: 'ms' },
    { name: 'first-search', value: firstMs, unit: 'ms' },
    { name: 'search-encrypt', value: of('encrypt'), unit: 'ms' },
    scan,
    { name: 'search-decrypt', value: of('decrypt'), unit: 'ms' },
    { name: 'plaintext-p50', value: quantile(plainTimes, 0.5), unit: 'ms' },
    { name: 'rank-1', value: hits / phases.length, unit: 'share' },
    { name: 'plaintext-rank-1', value: plainHits / best.length, unit: 'share' },
    { name: 'query-bytes', value: phases[0].queryBytes, unit: 'bytes' },
    { name: 'response-bytes', value: phases[0].responseBytes, unit: 'bytes' },
    { name: 'bytes-on-disk', value: bytes, unit: 'bytes' },
    { name: 'peak-rss-enrol', value: Math.max(0, enrolPeak - before), unit: 'bytes' },
    { name: 'peak-rss', value: Math.max(0, peak - before), unit: 'bytes' },
  ];
  return { results, kernel };
}
