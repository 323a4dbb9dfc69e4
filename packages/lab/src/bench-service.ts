// `npm run bench -- service`: the same database behind HTTP on this machine, beside the same folder opened in this process, the line alone and the scan alone.

import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { connect as connectTo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Collection, Database, HersError, HttpService, MasterSeed, type VectorRecord } from '@hers/client';
import { collectionPath, encodeMessage, OCTETS, type Service } from '@hers/service';
import { openStore } from '@hers/store';
import { type Phases, quantile, TimedService } from './phases.ts';
import { top1 } from './plaintext.ts';
import { machine, progress, type Report, type Result } from './report.ts';
import { anonymousBytes, ServiceProcess } from './service-process.ts';
import { identities } from './synthetic.ts';

const SAMPLES = 4;
const WARM_UP = 3;
const ROUNDS = 2;
/** Requests under way at a time when throughput is measured, and queries scanned together. */
const CLIENTS = 8;
const TOGETHER = 8;

export async function run(options: {
  readonly count?: string;
  readonly dimension?: string;
  readonly searches?: string;
  readonly seconds?: string;
  readonly folder?: string;
}): Promise<Report> {
  const numbers = [
    options.count ?? '1000000',
    options.dimension ?? '128',
    options.searches ?? '50',
    options.seconds ?? '10',
  ];
  const [count, dimension, searches, seconds] = numbers.map(Number);
  for (const number of [count, dimension, searches, seconds])
    if (!(Number.isInteger(number) && number > 0))
      throw new HersError('INVALID_ARGUMENT', 'options take positive whole numbers');
  const folder = await mkdtemp(join(options.folder ?? tmpdir(), 'hers-bench-'));
  const bench = new Bench(folder, count, dimension, searches, seconds);
  try {
    return {
      bench: 'service',
      parameters: { count, dimension, searches, seconds, profile: 'compact', clients: CLIENTS },
      machine: machine(),
      results: await bench.measure(),
    };
  } finally {
    await bench.end();
    await rm(folder, { recursive: true, force: true });
  }
}

class Bench {
  readonly #folder: string;
  readonly #count: number;
  readonly #dimension: number;
  readonly #searches: number;
  readonly #seconds: number;
  readonly #key = MasterSeed.generate();
  readonly #world: ReturnType<typeof identities>;
  #server: ServiceProcess | undefined;
  #peakServer = 0;
  #peakClient = 0;

  constructor(folder: string, count: number, dimension: number, searches: number, seconds: number) {
    this.#folder = folder;
    this.#count = count;
    this.#dimension = dimension;
    this.#searches = searches;
    this.#seconds = seconds;
    this.#world = identities(Math.ceil(count / SAMPLES), SAMPLES, dimension);
  }

  async end(): Promise<void> {
    await this.#server?.kill();
  }

  async #serve(): Promise<ServiceProcess> {
    this.#server = await ServiceProcess.start(this.#folder, { limits: { requestsPerSecond: 1_000_000 } });
    return this.#server;
  }

  async measure(): Promise<Result[]> {
    const watch = setInterval(() => {
      this.#peakServer = Math.max(this.#peakServer, this.#server?.bytes ?? 0);
      this.#peakClient = Math.max(this.#peakClient, anonymousBytes());
    }, 50);
    const before = anonymousBytes();
    try {
      const enrolMs = await this.#enrol();
      const remote: Phases[] = [];
      const embedded: Phases[] = [];
      const lines: number[] = [];
      let hits = 0;
      let figures: Throughput | undefined;
      // In turns, so that what the machine does besides falls on both.
      for (let round = 0; round < ROUNDS; round++) {
        progress('searching over HTTP');
        const server = await this.#serve();
        const found = await this.#search(new HttpService(server.url), round);
        remote.push(...found.phases);
        hits += found.hits;
        const [{ queryBytes, responseBytes }] = found.phases;
        lines.push(...(await lineTimes(server.line, queryBytes, responseBytes)));
        if (round === ROUNDS - 1) {
          progress('as many searches as it takes');
          figures = await this.#throughput(server);
        }
        await server.stop();
        progress('searching in the folder');
        embedded.push(...(await this.#search(await openStore(this.#folder), round)).phases);
      }
      progress('scanning alone');
      const scanRate = await this.#scanAlone();
      clearInterval(watch);
      progress('searching in the clear');
      const plain = this.#plaintext();
      const of = (phases: readonly Phases[], phase: 'encrypt' | 'scan' | 'decrypt' | 'total', p = 0.5) =>
        quantile(
          phases.map((each) => each[phase]),
          p,
        );
      const line = quantile(lines, 0.5);
      const own = of(embedded, 'total');
      const p50 = of(remote, 'total');
      const { prepared, live } = figures!;
      return [
        { name: 'enrol-rate', value: (this.#count * 1000) / enrolMs, unit: 'records/s' },
        { name: 'search-p50', value: p50, unit: 'ms', ratio: p50 / (1.5 * own + line), against: 'allowed-p50' },
        { name: 'search-p95', value: of(remote, 'total', 0.95), unit: 'ms' },
        { name: 'search-encrypt', value: of(remote, 'encrypt'), unit: 'ms' },
        { name: 'search-scan', value: of(remote, 'scan'), unit: 'ms' },
        { name: 'search-decrypt', value: of(remote, 'decrypt'), unit: 'ms' },
        { name: 'embedded-p50', value: own, unit: 'ms' },
        { name: 'loopback-p50', value: line, unit: 'ms' },
        { name: 'allowed-p50', value: 1.5 * own + line, unit: 'ms' },
        { name: 'bytes-up', value: remote[0].queryBytes, unit: 'bytes' },
        { name: 'bytes-down', value: remote[0].responseBytes, unit: 'bytes' },
        { name: 'plaintext-p50', value: plain, unit: 'ms' },
        {
          name: 'searches-per-second',
          value: prepared,
          unit: '1/s',
          ratio: prepared / scanRate,
          against: 'scans-per-second',
        },
        { name: 'scans-per-second', value: scanRate, unit: '1/s' },
        { name: 'live-searches-per-second', value: live, unit: '1/s' },
        { name: 'rank-1', value: hits / remote.length, unit: 'share' },
        { name: 'peak-rss-server', value: this.#peakServer, unit: 'bytes' },
        { name: 'peak-rss-client', value: Math.max(0, this.#peakClient - before), unit: 'bytes' },
      ];
    } finally {
      clearInterval(watch);
    }
  }

  async #enrol(): Promise<number> {
    progress('enrolling over HTTP');
    const server = await this.#serve();
    const db = new Database(new HttpService(server.url), { key: this.#key });
    const collection = await db.createCollection('bench', { dimension: this.#dimension });
    const start = performance.now();
    await collection.upsert(this.#records(), {
      onProgress: ({ acknowledged }) => {
        if (acknowledged % (2 ** 14 * 8) === 0) progress(`  ${acknowledged} of ${this.#count}`);
      },
    });
    const ms = performance.now() - start;
    await collection.optimize();
    await db.close();
    await server.stop();
    return ms;
  }

  *#records(): Generator<VectorRecord> {
    let number = 0;
    for (const { vectors } of this.#world.chunks())
      for (let at = 0; at < vectors.length && number < this.#count; at += this.#dimension, number++)
        yield { id: String(number), vector: vectors.subarray(at, at + this.#dimension) };
  }

  #probes(total: number): { labels: number[]; vectors: Float32Array } {
    const labels = Array.from({ length: total }, (_, i) => Math.floor((i * this.#world.count) / total));
    return { labels, vectors: this.#world.probes(labels).vectors };
  }

  /** Searches through the client, one at a time. */
  async #search(service: Service, round: number): Promise<{ phases: Phases[]; hits: number }> {
    const timed = new TimedService(service);
    const db = new Database(timed.service, { key: this.#key });
    const collection: Collection = await db.collection('bench');
    const total = Math.ceil(this.#searches / ROUNDS) + WARM_UP;
    const { labels, vectors } = this.#probes(ROUNDS * total);
    const phases: Phases[] = [];
    let hits = 0;
    for (let i = 0; i < total; i++) {
      const at = round * total + i;
      const probe = vectors.subarray(at * this.#dimension, (at + 1) * this.#dimension);
      const { result, phases: each } = await timed.time(() => collection.search(probe, { limit: 1 }));
      if (i < WARM_UP) continue;
      phases.push(each);
      if (Math.floor(Number(result.matches[0].id) / SAMPLES) === labels[at]) hits++;
    }
    await db.close();
    return { phases, hits };
  }

  /** Queries as the client sends them. */
  async #queries(service: Service, count: number): Promise<{ version: number; queries: Uint8Array[] }> {
    const queries: Uint8Array[] = [];
    let version = 0;
    const recording = new Proxy(service, {
      get(target, method: keyof Service) {
        if (method === 'search')
          return (...[, request]: Parameters<Service['search']>) => {
            queries.push(...request.queries);
            version = request.version;
            throw new HersError('INVALID_ARGUMENT', 'enough');
          };
        const own = target[method];
        return typeof own === 'function' ? own.bind(target) : own;
      },
    });
    const db = new Database(recording, { key: this.#key });
    const collection = await db.collection('bench');
    const { vectors } = this.#probes(count);
    for (let i = 0; i < count; i++)
      await collection.search(vectors.subarray(i * this.#dimension, (i + 1) * this.#dimension)).catch(() => {});
    return { version, queries };
  }

  async #throughput(server: ServiceProcess): Promise<Throughput> {
    const { version, queries } = await this.#queries(new HttpService(server.url), 16);
    const bodies = queries.map((query) => Buffer.from(encodeMessage({ version }, [query])));
    const agent = new Agent({ keepAlive: true });
    const { hostname, port } = new URL(server.url);
    const once = (body: Buffer) =>
      new Promise<void>((resolve, reject) => {
        const headers = { 'content-type': OCTETS, 'content-length': body.length };
        const path = `${collectionPath('bench')}/search`;
        const sent = request({ agent, hostname, port, path, method: 'POST', headers }, (answer) => {
          if (answer.statusCode !== 200) reject(new Error(`answered ${answer.statusCode}`));
          answer.resume().on('end', resolve).on('error', reject);
        });
        sent.on('error', reject).end(body);
      });
    const prepared = await this.#rate(CLIENTS, (i) => once(bodies[i % bodies.length]));
    agent.destroy();
    const db = new Database(new HttpService(server.url), { key: this.#key });
    const collection = await db.collection('bench');
    const { vectors } = this.#probes(64);
    const live = await this.#rate(CLIENTS, async (i) => {
      await collection.search(vectors.subarray((i % 64) * this.#dimension, ((i % 64) + 1) * this.#dimension));
    });
    await db.close();
    return { prepared, live };
  }

  /** How often a second `action` ends when so many run at a time. */
  async #rate(atOnce: number, action: (i: number) => Promise<void>): Promise<number> {
    const until = performance.now() + 1000 * this.#seconds;
    let [started, done] = [0, 0];
    const began = performance.now();
    const worker = async () => {
      while (performance.now() < until) {
        await action(started++);
        done++;
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    return (1000 * done) / (performance.now() - began);
  }

  /** Queries a second that the store answers in this process when nobody looks at the responses: one at a time or several together, whichever is more. */
  async #scanAlone(): Promise<number> {
    const store = await openStore(this.#folder);
    try {
      const { version, queries } = await this.#queries(uncloseable(store), TOGETHER);
      let best = 0;
      for (const together of [1, 2, 4, TOGETHER]) {
        const request = { version, queries: queries.slice(0, together) };
        const scan = async () => {
          for await (const _ of store.search('bench', request));
        };
        await scan();
        best = Math.max(best, together * (await this.#rate(1, scan)));
      }
      return best;
    } finally {
      await store.close();
    }
  }

  #plaintext(): number {
    const { vectors } = this.#world.gallery();
    const all = vectors.subarray(0, this.#count * this.#dimension);
    const probes = this.#probes(10).vectors;
    const times = Array.from({ length: 10 }, (_, i) => {
      const at = performance.now();
      top1(all, probes.subarray(i * this.#dimension, (i + 1) * this.#dimension), this.#dimension);
      return performance.now() - at;
    });
    return quantile(times, 0.5);
  }
}

interface Throughput {
  readonly prepared: number;
  readonly live: number;
}

/** The same service, which others cannot close. */
function uncloseable(service: Service): Service {
  return new Proxy(service, {
    get(target, method: keyof Service) {
      if (method === 'close') return async () => {};
      const own = target[method];
      return typeof own === 'function' ? own.bind(target) : own;
    },
  });
}

/** How long the line takes for so many bytes up and then so many down, without anything else. */
async function lineTimes(port: number, up: number, down: number): Promise<number[]> {
  const socket: Socket = connectTo(port, '127.0.0.1');
  const body = Buffer.alloc(16 + up);
  body.writeBigUInt64LE(BigInt(up), 0);
  body.writeBigUInt64LE(BigInt(down), 8);
  const times: number[] = [];
  for (let i = 0; i < 20; i++) {
    const began = performance.now();
    await new Promise<void>((resolve) => {
      let left = down;
      const take = (bytes: Buffer) => {
        left -= bytes.length;
        if (left > 0) return;
        socket.off('data', take);
        resolve();
      };
      socket.on('data', take).write(body);
    });
    if (i >= WARM_UP) times.push(performance.now() - began);
  }
  socket.destroy();
  return times;
}
