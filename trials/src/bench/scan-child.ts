// Scans a folder in an otherwise empty process, as often as it can for a given time: what a server
// could do if it did nothing but scan.

import { readFileSync } from 'node:fs';
import { openStore } from '@hers/store';

export interface ScanOrder {
  readonly together: number;
  readonly seconds: number;
}

export interface ScanAnswer {
  /** Queries answered in this many milliseconds, of wall time and of CPU time. */
  readonly done: number;
  readonly ms: number;
  readonly cpuMs: number;
}

const [folder, file] = process.argv.slice(2);
const { version, lengths } = JSON.parse(readFileSync(`${file}.json`, 'utf8')) as { version: number; lengths: number[] };
const all = readFileSync(file);
let at = 0;
const queries = lengths.map((length) => new Uint8Array(all.subarray(at, (at += length))));
const store = await openStore(folder);

async function scan(together: number): Promise<void> {
  for await (const _ of store.search('bench', { version, queries: queries.slice(0, together) }, { views: true }));
}

process.on('message', async ({ together, seconds }: ScanOrder) => {
  await scan(together);
  const used = process.cpuUsage();
  const began = performance.now();
  let done = 0;
  for (; performance.now() - began < 1000 * seconds; done += together) await scan(together);
  const { user, system } = process.cpuUsage(used);
  process.send?.({ done, ms: performance.now() - began, cpuMs: (user + system) / 1000 } satisfies ScanAnswer);
});
process.on('disconnect', () => process.exit(0));
process.send?.('ready');
