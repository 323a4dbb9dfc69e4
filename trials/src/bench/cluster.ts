// `npm run bench -- cluster`: the same gallery on clusters of one, two, three nodes and on one
// plain server, all on this machine, in the same run. On few cores more nodes cannot be faster, so
// the work of each node is measured as well.

import { join } from 'node:path';
import { type Collection, Database, HersError, HttpService, MasterSeed } from '@hers/client';
import { natsServer, TestCluster } from '@hers/cluster/testing';
import { compared, progress, type Report, type Result } from '@hers/paper/lab/report';
import type { Values } from '@hers/paper/lab/runner';
import { withMethods } from '@hers/service';
import { quantile } from '@hers/service/testing/phases';
import { machine } from '@hers/vectors/machine';
import { identities } from '@hers/vectors/synthetic';
import { cpuMs, ServiceProcess } from '../service-process.ts';
import { inFolder, numbersOf } from './settings.ts';

const SAMPLES = 4;
/** Until code that only clusters run is compiled as well. */
const WARM_UP = 30;
/** Records in one change. */
const TOGETHER = 16_384;
/**
 * Records of a second, small gallery: what a search of it takes is what any search takes, and the
 * rest is the work that nodes share.
 */
const FEW = 4096;
/** The system counts the CPU time of other processes in so many milliseconds. */
const TICK_MS = 10;
const LIMITS = { requestsPerSecond: 1_000_000 };

interface Searched {
  /** Milliseconds, the median. */
  readonly ms: number;
  /** Milliseconds of CPU of each node. The client speaks to the first. */
  readonly cpu: readonly number[];
  /** Bytes of the query, and of the responses. */
  readonly query: number;
  readonly responses: number;
  /** Bytes of the gallery that each node compares with a query; empty for a plain server. */
  readonly scanned: readonly number[];
}

interface Measured {
  readonly enrol: number;
  readonly few: Searched;
  readonly all: Searched;
}

const sum = (all: readonly number[]) => all.reduce((total, each) => total + each, 0);
/** The CPU of a node that only scans: on average, of those that the client does not speak to. */
const scanning = ({ cpu }: Searched) => (cpu.length === 1 ? cpu[0] : sum(cpu.slice(1)) / (cpu.length - 1));
/** What the one that the client speaks to takes beyond that. */
const coordinating = (searched: Searched) => searched.cpu[0] - scanning(searched);

export async function run(options: Values): Promise<Report> {
  const nodes = String(options.nodes ?? '1,2,3')
    .split(',')
    .map(Number);
  for (const each of nodes) numbersOf({ nodes: String(each) }, { nodes: 1 });
  const numbers = numbersOf(options, { count: 100_000, dimension: 128, searches: 100, shards: 12 });
  const { count, dimension, searches, shards } = numbers;
  const { path, skip } = natsServer();
  if (path === undefined) throw new HersError('UNAVAILABLE', String(skip));
  const world = identities(Math.ceil(count / SAMPLES), SAMPLES, dimension);
  progress('making vectors');
  const vectors = world.gallery().vectors.subarray(0, count * dimension);

  const measure = async (
    what: string,
    urls: string | readonly string[],
    token: string | undefined,
    pids: readonly number[],
    scannedBy: () => Promise<number[]> = async () => [],
  ): Promise<Measured> => {
    const key = MasterSeed.generate();
    const service = new HttpService(urls, token === undefined ? {} : { token });
    let [query, responses] = [0, 0];
    const db = new Database(
      withMethods(service, {
        search: async function* (...args) {
          query += sum(args[1].queries.map(({ length }) => length));
          for await (const response of service.search(...args)) {
            responses += response.length;
            yield response;
          }
        },
      }),
      { key },
    );
    const enrolled = async (name: string, records: number) => {
      progress(`${what}: enrolling ${records}`);
      const collection = await db.createCollection(name, { dimension });
      const began = performance.now();
      for (let at = 0; at < records; at += TOGETHER) {
        const some = [];
        for (let i = at; i < Math.min(records, at + TOGETHER); i++)
          some.push({ id: `r${i}`, vector: vectors.subarray(i * dimension, (i + 1) * dimension) });
        await collection.upsert(some);
      }
      await collection.optimize();
      return { collection, enrol: records / ((performance.now() - began) / 1000) };
    };
    const searched = async (collection: Collection, records: number): Promise<Searched> => {
      progress(`${what}: searching ${records}`);
      const search = async (i: number) => {
        const start = performance.now();
        const at = (i * 7919) % records;
        await collection.search(vectors.subarray(at * dimension, (at + 1) * dimension), { limit: 10 });
        return performance.now() - start;
      };
      for (let i = 0; i < WARM_UP; i++) await search(i);
      [query, responses] = [0, 0];
      const scannedBefore = await scannedBy();
      const before = pids.map(cpuMs);
      const times: number[] = [];
      for (let i = WARM_UP; i < WARM_UP + searches; i++) times.push(await search(i));
      const cpu = pids.map((pid, i) => Math.max(TICK_MS, cpuMs(pid) - before[i]) / searches);
      const scanned = (await scannedBy()).map((bytes, i) => (bytes - scannedBefore[i]) / searches);
      return { ms: quantile(times, 0.5), cpu, query: query / searches, responses: responses / searches, scanned };
    };
    // The small one first: so client and servers have done all of it before anything is timed.
    const few = await enrolled('few', Math.min(FEW, count));
    await searched(few.collection, Math.min(FEW, count));
    const { collection, enrol } = await enrolled('bench', count);
    // Upkeep that enrolment left behind.
    await new Promise((resolve) => setTimeout(resolve, 5000));
    const all = await searched(collection, count);
    const measured = { enrol, few: await searched(few.collection, Math.min(FEW, count)), all };
    await db.close();
    return measured;
  };

  const results: Result[] = [];
  const plain = await inFolder(undefined, async (folder) => {
    const server = await ServiceProcess.start(join(folder, 'served'), { limits: LIMITS });
    return measure('one plain server', server.url, undefined, [server.pid]).finally(() => server.kill());
  });
  const rate = (name: string, value: number): Result => ({ name, value, unit: 'records/s' });
  const ms = (name: string, value: number): Result => ({ name, value, unit: 'ms' });
  const bytes = (name: string, value: number): Result => ({ name, value, unit: 'bytes' });
  const ratio = (name: string, value: number): Result => ({ name, value, unit: 'ratio' });
  const [cpuServer, fewServer] = [ms('cpu-server', plain.all.cpu[0]), ms('cpu-few-server', plain.few.cpu[0])];
  results.push(rate('enrol-server', plain.enrol), ms('search-server', plain.all.ms), cpuServer, fewServer);
  results.push(bytes('query-bytes', plain.all.query), bytes('response-bytes', plain.all.responses));
  const measured = new Map<number, Measured>();
  for (const each of nodes) {
    const cluster = await TestCluster.start(path, { nodes: each, shards, limits: LIMITS });
    try {
      const found = await measure(
        `${each} ${each === 1 ? 'node' : 'nodes'}`,
        cluster.urls,
        cluster.token,
        cluster.nodes.map(({ pid }) => pid!),
        () => Promise.all(cluster.nodes.map((node) => node.scanned())),
      );
      measured.set(each, found);
      const { enrol, all, few } = found;
      results.push(
        compared(rate(`enrol-${each}`, enrol), rate('enrol-server', plain.enrol)),
        compared(ms(`search-${each}`, all.ms), ms('search-server', plain.all.ms)),
        compared(ms(`cpu-all-nodes-${each}`, sum(all.cpu)), cpuServer),
        compared(ms(`cpu-per-node-${each}`, scanning(all)), cpuServer),
        compared(ms(`cpu-few-per-node-${each}`, scanning(few)), fewServer),
        ms(`cpu-coordinating-${each}`, coordinating(all)),
        ms(`cpu-few-coordinating-${each}`, coordinating(few)),
        bytes(`scanned-per-node-${each}`, sum(all.scanned) / each),
        bytes(`scanned-busiest-${each}`, Math.max(...all.scanned)),
      );
    } finally {
      await cluster.close();
    }
  }
  const [one, three] = [measured.get(1), measured.get(3)];
  if (one) {
    results.push(ratio('search-over-server', one.all.ms / plain.all.ms));
    results.push(ratio('enrol-over-server', plain.enrol / one.enrol));
  }
  if (one && three) {
    const shared = ({ all, few }: Measured) => scanning(all) - scanning(few);
    results.push(ratio('work-per-node-3', scanning(three.all) / scanning(one.all)));
    if (shared(one) > 0) results.push(ratio('shared-work-per-node-3', Math.max(0, shared(three)) / shared(one)));
    results.push(ratio('scanned-share-3', Math.max(...three.all.scanned) / one.all.scanned[0]));
  }
  // Two of three responses come from another node.
  if (three && three.all.responses > three.few.responses)
    results.push({
      name: 'coordination-per-byte',
      value: Math.max(
        0,
        (1e6 * (coordinating(three.all) - coordinating(three.few))) / (three.all.responses - three.few.responses),
      ),
      unit: 'ns',
    });
  return {
    bench: 'cluster',
    parameters: { nodes, ...numbers, few: FEW, profile: 'compact', natsServers: 3 },
    machine: machine(),
    results,
  };
}
