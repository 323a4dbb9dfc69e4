// `npm run bench -- cluster`: the same gallery on clusters of one, two, three nodes and on one
// plain server, all on this machine, in the same run. On few cores more nodes cannot be faster, so
// the work of each node is measured as well.

import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Database, HersError, HttpService, MasterSeed } from '@hers/client';
import { natsServer, TestCluster } from '@hers/cluster/testing';
import { withMethods } from '@hers/service';
import { machine } from '@hers/vectors/machine';
import { identities } from '@hers/vectors/synthetic';
import { quantile } from './phases.ts';
import { compared, progress, type Report, type Result } from './report.ts';
import { ServiceProcess } from './service-process.ts';

const SAMPLES = 4;
/** Until code that only clusters run is compiled as well. */
const WARM_UP = 30;
const TOGETHER = 4096;
/** The system counts the CPU time of other processes in so many milliseconds. */
const TICK_MS = 10;
const LIMITS = { requestsPerSecond: 1_000_000 };

interface Measured {
  /** Records a second. */
  readonly enrol: number;
  /** Milliseconds, the median. */
  readonly search: number;
  /** Milliseconds of CPU for a search, of the node that used most. */
  readonly busiest: number;
  /** The same of all nodes together. */
  readonly all: number;
  /** Bytes of the responses to a search. */
  readonly responses: number;
  /** Bytes of the gallery that each node compares with a query; empty for a plain server. */
  readonly scanned: readonly number[];
}

/** CPU milliseconds that a process has used. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return 10 * (Number(fields[11]) + Number(fields[12])); // in ticks of a hundredth of a second
}

export async function run(options: {
  readonly nodes?: string;
  readonly count?: string;
  readonly dimension?: string;
  readonly searches?: string;
  readonly shards?: string;
}): Promise<Report> {
  const nodes = (options.nodes ?? '1,2,3').split(',').map(Number);
  const [count, dimension, searches, shards] = [
    options.count ?? '100000',
    options.dimension ?? '128',
    options.searches ?? '30',
    options.shards ?? '12',
  ].map(Number);
  for (const number of [...nodes, count, dimension, searches, shards])
    if (!(Number.isInteger(number) && number > 0))
      throw new HersError('INVALID_ARGUMENT', 'options take positive whole numbers');
  const { path, skip } = natsServer();
  if (path === undefined) throw new HersError('UNAVAILABLE', String(skip));
  const world = identities(Math.ceil(count / SAMPLES), SAMPLES, dimension);
  progress('making vectors');
  const vectors = world.gallery().vectors.subarray(0, count * dimension);

  const measure = async (
    urls: string | readonly string[],
    token: string | undefined,
    pids: readonly number[],
    scannedBy: () => Promise<number[]> = async () => [],
  ): Promise<Measured> => {
    const key = MasterSeed.generate();
    const service = new HttpService(urls, token === undefined ? {} : { token });
    let responses = 0;
    const db = new Database(
      withMethods(service, {
        search: async function* (...args) {
          for await (const response of service.search(...args)) {
            responses += response.length;
            yield response;
          }
        },
      }),
      { key },
    );
    const collection = await db.createCollection('bench', { dimension });
    const began = performance.now();
    for (let at = 0; at < count; at += TOGETHER) {
      const records = [];
      for (let i = at; i < Math.min(count, at + TOGETHER); i++)
        records.push({ id: `r${i}`, vector: vectors.subarray(i * dimension, (i + 1) * dimension) });
      await collection.upsert(records);
    }
    await collection.optimize();
    const enrolMs = performance.now() - began;
    // Upkeep that enrolment left behind.
    await new Promise((resolve) => setTimeout(resolve, 5000));
    const search = async (i: number) => {
      const start = performance.now();
      const at = (i * 7919) % count;
      await collection.search(vectors.subarray(at * dimension, (at + 1) * dimension), { limit: 10 });
      return performance.now() - start;
    };
    for (let i = 0; i < WARM_UP; i++) await search(i);
    responses = 0;
    const scannedBefore = await scannedBy();
    const before = pids.map(cpuMs);
    const times: number[] = [];
    for (let i = WARM_UP; i < WARM_UP + searches; i++) times.push(await search(i));
    const used = pids.map((pid, i) => Math.max(TICK_MS, cpuMs(pid) - before[i]) / searches);
    const scannedAfter = await scannedBy();
    await db.close();
    return {
      scanned: scannedAfter.map((bytes, i) => (bytes - scannedBefore[i]) / searches),
      enrol: count / (enrolMs / 1000),
      search: quantile(times, 0.5),
      busiest: Math.max(...used),
      all: used.reduce((sum, each) => sum + each, 0),
      responses: responses / searches,
    };
  };

  const results: Result[] = [];
  const folder = await mkdtemp(join(tmpdir(), 'hers-bench-'));
  let plain: Measured;
  try {
    progress('one plain server');
    const server = await ServiceProcess.start(join(folder, 'served'), { limits: LIMITS });
    plain = await measure(server.url, undefined, [server.pid]).finally(() => server.kill());
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  const rate = (name: string, value: number): Result => ({ name, value, unit: 'records/s' });
  const ms = (name: string, value: number): Result => ({ name, value, unit: 'ms' });
  results.push(rate('enrol-server', plain.enrol), ms('search-server', plain.search), ms('cpu-server', plain.busiest));
  results.push({ name: 'response-bytes', value: plain.responses, unit: 'bytes' });
  const measured = new Map<number, Measured>();
  for (const each of nodes) {
    progress(`${each} ${each === 1 ? 'node' : 'nodes'}`);
    const cluster = await TestCluster.start(path, { nodes: each, shards, limits: LIMITS });
    try {
      const found = await measure(
        cluster.urls,
        cluster.token,
        cluster.nodes.map(({ pid }) => pid!),
        () => Promise.all(cluster.nodes.map((node) => node.scanned())),
      );
      measured.set(each, found);
      results.push(
        compared(rate(`enrol-${each}`, found.enrol), rate('enrol-server', plain.enrol)),
        compared(ms(`search-${each}`, found.search), ms('search-server', plain.search)),
        compared(ms(`cpu-per-node-${each}`, found.busiest), ms('cpu-server', plain.busiest)),
        compared(ms(`cpu-all-nodes-${each}`, found.all), ms('cpu-server', plain.busiest)),
        { name: `scanned-per-node-${each}`, value: Math.max(...found.scanned), unit: 'bytes' },
      );
    } finally {
      await cluster.close();
    }
  }
  const [one, three] = [measured.get(1), measured.get(3)];
  const ratio = (name: string, value: number): Result => ({ name, value, unit: 'ratio' });
  if (one) {
    results.push(ratio('search-over-server', one.search / plain.search));
    results.push(ratio('enrol-over-server', plain.enrol / one.enrol));
  }
  if (one && three) {
    results.push(ratio('work-per-node-3', three.busiest / one.busiest));
    results.push(ratio('scanned-share-3', Math.max(...three.scanned) / one.scanned[0]));
  }
  // Two of three responses come from another node: what that takes beyond the scan itself.
  if (three)
    results.push({
      name: 'coordination-per-byte',
      value: Math.max(0, (1e6 * (three.all - plain.busiest)) / three.responses),
      unit: 'ns',
    });
  return {
    bench: 'cluster',
    parameters: { nodes, count, dimension, searches, shards, profile: 'compact', natsServers: 3 },
    machine: machine(),
    results,
  };
}
