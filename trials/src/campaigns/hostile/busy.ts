// Many searchers while records are enrolled into the same collection, over HTTP: every answer is
// checked against what was acknowledged before the request.

import { type ChildProcess, fork } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connect, MasterSeed } from '@hers/client';
import { columns } from '@hers/paper/lab/report';
import { TokenStore } from '@hers/server';
import { ServiceProcess } from '../../service-process.ts';
import type { EnrolOrder, EnrolTold } from './enrol-child.ts';
import type { Found, SearcherOrder, SearcherSignal } from './searcher-child.ts';
import { DIMENSION } from './vectors.ts';

const NAME = 'busy';
/** Processes of searchers, and connections to the database in each. */
const PROCESSES = 2;
const HANDLES = 4;
/** p99 as a multiple of p50. */
const MOST_SLOWER = 10;
const MOST_SHOWN = 10;
const PROGRESS_MS = 5000;

type Enrolled = Extract<EnrolTold, { readonly enrolled: true }>;

export interface BusyOptions {
  readonly searchers: number;
  readonly records: number;
  readonly seed: number;
  /** No limits on time. */
  readonly isShort?: boolean;
  readonly log?: (line: string) => void;
  readonly onProgress?: (line: string) => void;
}

/** True if nothing was wrong, and no search took much longer than most. */
export async function busy(options: BusyOptions): Promise<boolean> {
  const { searchers, records, seed, isShort = false, log = console.log, onProgress = console.error } = options;
  const folder = await mkdtemp(join(tmpdir(), 'hers-busy-'));
  const tokens = new TokenStore(join(folder, 'tokens.json'));
  const tokenFor = async (scope: 'search' | 'admin') => (await tokens.create({ scope })).secret;
  const admin = await tokenFor('admin');
  const server = await ServiceProcess.start(join(folder, 'gallery'), { tokens: tokens.path });
  const children: ChildProcess[] = [];
  const child = (file: URL) => {
    const made = fork(fileURLToPath(file));
    children.push(made);
    return made;
  };
  try {
    const { url } = server;
    const key = MasterSeed.generate();
    const shared = { url, key: Buffer.from(key.reveal()).toString('hex'), collection: NAME, seed };
    const db = await connect(url, { key, token: admin, threads: 1 });
    const collection = await db.createCollection(NAME, { dimension: DIMENSION });

    const first = Math.min(4000, Math.ceil(records / 4));
    let [acknowledged, peak, since] = [0, 0, performance.now()];
    const searching: ChildProcess[] = [];
    const found: Promise<Found>[] = [];
    const startSearching = async (number: number) => {
      const share = Math.floor(searchers / PROCESSES) + (number < searchers % PROCESSES ? 1 : 0);
      if (share === 0) return;
      const token = await tokenFor('search');
      const order: SearcherOrder = { ...shared, token, number, searchers: share, handles: Math.min(HANDLES, share) };
      const searcher = child(new URL('./searcher-child.ts', import.meta.url));
      searcher.send({ acknowledged } satisfies SearcherSignal);
      searcher.send(order);
      await next(searcher);
      searching.push(searcher);
      found.push(next(searcher) as Promise<Found>);
    };
    const enroller = child(new URL('./enrol-child.ts', import.meta.url));
    const enrolled = await new Promise<Enrolled>((resolve, reject) => {
      void server.ended.then((how) => reject(new Error(`the server died: ${how}`)));
      enroller.once('exit', () => reject(gone()));
      enroller.on('message', (told: EnrolTold) => {
        if ('failed' in told) return reject(new Error(`the enrolment failed: ${told.failed}`));
        if ('enrolled' in told) return resolve(told);
        acknowledged = told.acknowledged;
        peak = Math.max(peak, server.bytes);
        for (const searcher of searching) searcher.send({ acknowledged } satisfies SearcherSignal);
        if (acknowledged === first)
          Promise.all(Array.from({ length: PROCESSES }, (_, i) => startSearching(i))).then(
            () => enroller.send('go'),
            reject,
          );
        if (performance.now() - since < PROGRESS_MS) return;
        since = performance.now();
        onProgress(`${acknowledged} of ${records} records, the server holds ${(server.bytes / 1e6).toFixed(0)} MB`);
      });
      void tokenFor('admin').then((token) => enroller.send({ ...shared, token, records, first } satisfies EnrolOrder));
    });
    for (const searcher of searching) searcher.send('stop' satisfies SearcherSignal);
    const all = await Promise.all(found);
    const count = await collection.count();
    await db.close();

    const times = all.flatMap((one) => one.times).sort((a, b) => a - b);
    const wrong = all.flatMap((one) => one.wrong);
    const failed = all.flatMap((one) => one.failed);
    const retries = all.reduce((sum, one) => sum + one.retries, 0);
    if (count !== records) wrong.push(`${records} records were enrolled, and ${count} are there`);
    const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => times[Math.floor(share * times.length)] ?? Number.NaN);
    const rows = [
      ['searchers', 'searches', 'p50 ms', 'p95', 'p99', 'most', 'wrong', 'failed', 'repeated'],
      [
        ...[searchers, times.length].map(String),
        ...[p50, p95, p99, times.at(-1) ?? Number.NaN].map((ms) => ms.toFixed(0)),
        ...[wrong.length, failed.length, retries].map(String),
      ],
    ];
    log(columns(rows, new Set(rows[0].keys())));
    const rate = (1000 * (records - first)) / enrolled.ms;
    log(
      `${records} records enrolled at ${rate.toFixed(0)} a second, ${enrolled.retries} attempts repeated; the server held ${(peak / 1e6).toFixed(0)} MB at most`,
    );
    for (const line of [...wrong, ...failed].slice(0, MOST_SHOWN)) log(`  ${line}`);
    const isRight = wrong.length === 0 && failed.length === 0 && times.length > 0;
    const isSteady = isShort || p99 < MOST_SLOWER * p50;
    log(`${isRight ? 'ok ' : 'NOT'}  Every answer was right.`);
    if (!isShort)
      log(
        `${isSteady ? 'ok ' : 'NOT'}  p99 is ${(p99 / p50).toFixed(1)} times p50; less than ${MOST_SLOWER} is allowed.`,
      );
    if (!(isRight && isSteady)) log(`seed ${seed}`);
    return isRight && isSteady;
  } finally {
    for (const each of children) each.kill('SIGKILL');
    await server.kill();
    await rm(folder, { recursive: true, force: true });
  }
}

const gone = () => new Error('a child of the campaign ended');

function next(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    child.once('message', resolve);
    child.once('exit', () => reject(gone()));
  });
}
