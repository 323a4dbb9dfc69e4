// `npm run bench -- service`: the same database behind HTTP on this machine, compared with the same
// folder opened in this process, with the bare connection, and with the bare scan.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { cp, writeFile } from 'node:fs/promises';
import { connect as connectTo, type Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Database, HersError, HttpService, MasterSeed, type VectorRecord } from '@hers/client';
import { progress, type Report, type Result } from '@hers/paper/lab/report';
import type { Values } from '@hers/paper/lab/runner';
import { collectionPath, encodeMessage, OCTETS, type Service, withMethods } from '@hers/service';
import { type Phases, quantile, TimedService } from '@hers/service/testing/phases';
import { openStore } from '@hers/store';
import { machine } from '@hers/vectors/machine';
import { identities } from '@hers/vectors/synthetic';
import { top1 } from '@hers/vectors/testing/plaintext';
import type { EnrolTold } from '../enrol-child.ts';
import { anonymousBytes, ServiceProcess } from '../service-process.ts';
import type { ScanAnswer, ScanOrder } from './scan-child.ts';
import { inFolder, numbersOf, quantilesOf } from './settings.ts';

const SAMPLES = 4;
const WARM_UP = 3;
const ROUNDS = 4;
/** Concurrent requests when throughput is measured, and queries scanned together. */
const CLIENTS = 8;
const TOGETHER = 8;

type Numbers = Record<'count' | 'dimension' | 'searches' | 'seconds', number>;

export function run(options: Values): Promise<Report> {
  const numbers = numbersOf(options, { count: 1_000_000, dimension: 128, searches: 50, seconds: 10 });
  return inFolder(options.folder, async (folder) => {
    const bench = new Bench(folder, numbers);
    try {
      const parameters = { ...numbers, profile: 'compact', clients: CLIENTS };
      return { bench: 'service', parameters, machine: machine(), results: await bench.measure() };
    } finally {
      await bench.end();
    }
  });
}

class Bench {
  readonly #folder: string;
  readonly #numbers: Numbers;
  readonly #key = MasterSeed.generate();
  readonly #world: ReturnType<typeof identities>;
  /** Made before any clock starts: making them takes as long as enrolling them. */
  readonly #vectors: Float32Array;
  #server: ServiceProcess | undefined;

  constructor(folder: string, numbers: Numbers) {
    this.#folder = folder;
    this.#numbers = numbers;
    const { count, dimension } = numbers;
    this.#world = identities(Math.ceil(count / SAMPLES), SAMPLES, dimension);
    progress('making vectors');
    this.#vectors = this.#world.gallery().vectors.subarray(0, count * dimension);
  }

  async end(): Promise<void> {
    await this.#server?.kill();
  }

  async #serve(): Promise<ServiceProcess> {
    const limits = { requestsPerSecond: 1_000_000 };
    this.#server = await ServiceProcess.start(join(this.#folder, 'served'), { limits });
    return this.#server;
  }

  async measure(): Promise<Result[]> {
    let [peakServer, peakClient] = [0, 0];
    const before = anonymousBytes();
    const watch = setInterval(() => {
      peakServer = Math.max(peakServer, this.#server?.bytes ?? 0);
      peakClient = Math.max(peakClient, anonymousBytes() - before);
    }, 50);
    try {
      const enrolMs = await this.#enrol();
      // The same gallery twice, so that both can be open, and other load on the machine affects
      // both alike.
      await cp(join(this.#folder, 'served'), join(this.#folder, 'own'), { recursive: true });
      const server = await this.#serve();
      progress('searching over HTTP');
      const remote = await this.#client(new HttpService(server.url));
      for (let i = 0; i < WARM_UP; i++) await remote.search(i);
      // From here on this process also holds the gallery itself.
      const clientBytes = peakClient;
      progress('searching over HTTP and in the folder, in turns');
      const store = await openStore(join(this.#folder, 'own'));
      const own = await this.#client(uncloseable(store));
      for (let i = 0; i < WARM_UP; i++) await own.search(i);
      const loopback = new Loopback(server.line);
      const lines: number[] = [];
      for (let i = WARM_UP; i < this.#numbers.searches + WARM_UP; i++) {
        await remote.search(i);
        await own.search(i);
        const { queryBytes, responseBytes } = remote.phases[0];
        lines.push(await loopback.time(queryBytes, responseBytes));
      }
      loopback.close();
      const prepared = await this.#queries(uncloseable(store), 16);
      await remote.close();
      await own.close();
      await store.close();
      progress('as many searches as it takes, and scans alone, in turns');
      const rates = await this.#throughput(server, prepared);
      await server.stop();
      progress('searching in the clear');
      const plain = this.#plaintext();
      const [of, inOwn] = [remote, own].map(({ phases }) => quantilesOf(phases.slice(WARM_UP)));
      const line = quantile(lines, 0.5);
      const ownP50 = inOwn('total');
      const p50 = of('total');
      const allowed = 1.5 * ownP50 + line;
      return [
        { name: 'enrol-rate', value: (this.#numbers.count * 1000) / enrolMs, unit: 'records/s' },
        { name: 'search-p50', value: p50, unit: 'ms', ratio: p50 / allowed, against: 'allowed-p50' },
        { name: 'search-p95', value: of('total', 0.95), unit: 'ms' },
        { name: 'search-encrypt', value: of('encrypt'), unit: 'ms' },
        { name: 'search-scan', value: of('scan'), unit: 'ms' },
        { name: 'search-decrypt', value: of('decrypt'), unit: 'ms' },
        { name: 'search-min', value: of('total', 0), unit: 'ms' },
        { name: 'embedded-p50', value: ownP50, unit: 'ms' },
        { name: 'embedded-min', value: inOwn('total', 0), unit: 'ms' },
        { name: 'loopback-p50', value: line, unit: 'ms' },
        { name: 'allowed-p50', value: allowed, unit: 'ms' },
        { name: 'bytes-up', value: remote.phases[0].queryBytes, unit: 'bytes' },
        { name: 'bytes-down', value: remote.phases[0].responseBytes, unit: 'bytes' },
        { name: 'plaintext-p50', value: plain, unit: 'ms' },
        {
          name: 'searches-per-second',
          value: rates.prepared,
          unit: '1/s',
          ratio: rates.prepared / rates.single,
          against: 'scans-per-second',
        },
        { name: 'scans-per-second', value: rates.single, unit: '1/s' },
        { name: 'scans-together-per-second', value: rates.together, unit: '1/s' },
        { name: 'live-searches-per-second', value: rates.live, unit: '1/s' },
        {
          name: 'live-searches-while-enrolling',
          value: rates.beside,
          unit: '1/s',
          ratio: rates.beside / rates.live,
          against: 'live-searches-per-second',
        },
        { name: 'enrol-rate-while-searching', value: rates.enrolled, unit: 'records/s' },
        { name: 'server-cpu-per-search', value: rates.serverCpu, unit: 'ms' },
        { name: 'scan-cpu-per-search', value: rates.scanCpu, unit: 'ms' },
        { name: 'scan-together-cpu-per-search', value: rates.togetherCpu, unit: 'ms' },
        { name: 'rank-1', value: remote.hits / remote.phases.length, unit: 'share' },
        { name: 'peak-rss-server', value: peakServer, unit: 'bytes' },
        { name: 'peak-rss-client', value: clientBytes, unit: 'bytes' },
      ];
    } finally {
      clearInterval(watch);
    }
  }

  async #enrol(): Promise<number> {
    progress('enrolling over HTTP');
    const server = await this.#serve();
    const db = new Database(new HttpService(server.url), { key: this.#key });
    const collection = await db.createCollection('bench', { dimension: this.#numbers.dimension });
    const start = performance.now();
    await collection.upsert(this.#records(), {
      onProgress: ({ acknowledged }) => {
        if (acknowledged % (2 ** 14 * 8) === 0) progress(`  ${acknowledged} of ${this.#numbers.count}`);
      },
    });
    const ms = performance.now() - start;
    await collection.optimize();
    await db.close();
    await server.stop();
    return ms;
  }

  *#records(prefix = ''): Generator<VectorRecord> {
    for (let at = 0; at < this.#vectors.length; at += this.#numbers.dimension)
      yield {
        id: `${prefix}${at / this.#numbers.dimension}`,
        vector: this.#vectors.subarray(at, at + this.#numbers.dimension),
      };
  }

  #probes(total: number): { labels: number[]; vectors: Float32Array } {
    const labels = Array.from({ length: total }, (_, i) => Math.floor((i * this.#world.count) / total));
    return { labels, vectors: this.#world.probes(labels).vectors };
  }

  /** Searches through the client, one at a time. */
  async #client(service: Service) {
    const timed = new TimedService(service);
    const db = new Database(timed.service, { key: this.#key });
    const collection = await db.collection('bench');
    const { labels, vectors } = this.#probes(this.#numbers.searches + WARM_UP);
    const phases: Phases[] = [];
    const client = {
      phases,
      hits: 0,
      search: async (i: number) => {
        const probe = vectors.subarray(i * this.#numbers.dimension, (i + 1) * this.#numbers.dimension);
        const { result, phases: each } = await timed.time(() => collection.search(probe, { limit: 1 }));
        phases.push(each);
        if (Math.floor(Number(result.matches[0].id) / SAMPLES) === labels[i]) client.hits++;
      },
      close: () => db.close(),
    };
    return client;
  }

  async #queries(service: Service, count: number): Promise<Prepared> {
    const queries: Uint8Array[] = [];
    let version = 0;
    const recording = withMethods(service, {
      search: (...[, request]: Parameters<Service['search']>) => {
        queries.push(...request.queries);
        version = request.version;
        throw new HersError('INVALID_ARGUMENT', 'enough');
      },
    });
    const db = new Database(recording, { key: this.#key });
    const collection = await db.collection('bench');
    const { vectors } = this.#probes(count);
    for (let i = 0; i < count; i++)
      await collection
        .search(vectors.subarray(i * this.#numbers.dimension, (i + 1) * this.#numbers.dimension))
        .catch(() => {});
    return { version, queries };
  }

  /** Searches and scans per second, in short alternating turns. */
  async #throughput(server: ServiceProcess, prepared: Prepared): Promise<Throughput> {
    const { version, queries } = prepared;
    const bodies = queries.map((query) => Buffer.from(encodeMessage({ version }, [query])));
    const lines = bodies.slice(0, CLIENTS).map(() => new Line(server.url));
    const scans = await ScanProcess.start(join(this.#folder, 'own'), join(this.#folder, 'queries'), prepared);
    const db = new Database(new HttpService(server.url), { key: this.#key });
    const collection = await db.collection('bench');
    const { vectors } = this.#probes(64);
    const live = async (i: number) => {
      await collection.search(
        vectors.subarray((i % 64) * this.#numbers.dimension, ((i % 64) + 1) * this.#numbers.dimension),
      );
    };
    const rates = { prepared: new Rate(), live: new Rate() };
    const alone = { single: { done: 0, ms: 0, cpuMs: 0 }, together: { done: 0, ms: 0, cpuMs: 0 } };
    const seconds = this.#numbers.seconds / ROUNDS;
    let serverCpu = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const cpu = server.cpuMs;
      await rates.prepared.measure(seconds, CLIENTS, (i, line) => lines[line].search(bodies[i % bodies.length]));
      serverCpu += server.cpuMs - cpu;
      add(alone.single, await scans.measure({ together: 1, seconds }));
      add(alone.together, await scans.measure({ together: TOGETHER, seconds }));
      await rates.live.measure(seconds, CLIENTS, live);
    }
    for (const line of lines) line.close();
    await scans.end();
    progress('the same while another client enrols into another collection');
    const other = await Enroller.start(server.url, this.#numbers.dimension);
    const beside = new Rate();
    const before = other.acknowledged;
    await beside.measure(this.#numbers.seconds, CLIENTS, live);
    const enrolled = (other.acknowledged - before) / this.#numbers.seconds;
    await other.end();
    await db.close();
    const perSecond = ({ done, ms }: ScanAnswer) => (1000 * done) / ms;
    return {
      prepared: rates.prepared.perSecond,
      single: perSecond(alone.single),
      together: perSecond(alone.together),
      live: rates.live.perSecond,
      beside: beside.perSecond,
      enrolled,
      serverCpu: serverCpu / rates.prepared.done,
      scanCpu: alone.single.cpuMs / alone.single.done,
      togetherCpu: alone.together.cpuMs / alone.together.done,
    };
  }

  #plaintext(): number {
    const all = this.#vectors;
    const probes = this.#probes(10).vectors;
    const times = Array.from({ length: 10 }, (_, i) => {
      const at = performance.now();
      top1(
        all,
        probes.subarray(i * this.#numbers.dimension, (i + 1) * this.#numbers.dimension),
        this.#numbers.dimension,
      );
      return performance.now() - at;
    });
    return quantile(times, 0.5);
  }
}

interface Throughput {
  /**
   * Per second: searches over HTTP with prepared queries, scans of one query, queries scanned
   * together, searches by real clients.
   */
  readonly prepared: number;
  readonly single: number;
  readonly together: number;
  readonly live: number;
  /** The same while another client enrols, and the records that it enrols meanwhile. */
  readonly beside: number;
  readonly enrolled: number;
  /** CPU milliseconds for each. */
  readonly serverCpu: number;
  readonly scanCpu: number;
  readonly togetherCpu: number;
}

interface Prepared {
  readonly version: number;
  readonly queries: readonly Uint8Array[];
}

function add(sum: { done: number; ms: number; cpuMs: number }, { done, ms, cpuMs }: ScanAnswer): void {
  sum.done += done;
  sum.ms += ms;
  sum.cpuMs += cpuMs;
}

class ScanProcess {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(folder: string, file: string, { version, queries }: Prepared): Promise<ScanProcess> {
    await writeFile(file, Buffer.concat(queries));
    await writeFile(`${file}.json`, JSON.stringify({ version, lengths: queries.map(({ length }) => length) }));
    const child = fork(fileURLToPath(new URL('./scan-child.ts', import.meta.url)), [folder, file]);
    await once(child, 'message');
    return new ScanProcess(child);
  }

  async measure(order: ScanOrder): Promise<ScanAnswer> {
    const answer = once(this.#child, 'message');
    this.#child.send(order);
    return (await answer)[0] as ScanAnswer;
  }

  async end(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.disconnect();
    await ended;
  }
}

class Enroller {
  readonly #child: ChildProcess;
  acknowledged = 0;

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on('message', (told: EnrolTold) => {
      this.acknowledged = told.acknowledged;
    });
  }

  /** With its first records acknowledged. */
  static async start(url: string, dimension: number): Promise<Enroller> {
    const enroller = new Enroller(
      fork(fileURLToPath(new URL('../enrol-child.ts', import.meta.url)), [url, String(dimension)]),
    );
    await once(enroller.#child, 'message');
    return enroller;
  }

  /** It enrols without end: one that has ended by itself was not there for all of the time. */
  async end(): Promise<void> {
    const { exitCode, signalCode, connected } = this.#child;
    if (exitCode !== null || signalCode !== null || !connected)
      throw new Error(`the client that enrols beside searches has ended early: ${signalCode ?? `exit ${exitCode}`}`);
    const ended = once(this.#child, 'exit');
    this.#child.disconnect();
    await ended;
  }
}

/** How often something completes when this many run at a time. */
class Rate {
  done = 0;
  #ms = 0;

  get perSecond(): number {
    return (1000 * this.done) / this.#ms;
  }

  async measure(seconds: number, atOnce: number, action: (i: number, worker: number) => Promise<void>): Promise<void> {
    const began = performance.now();
    let started = 0;
    const worker = async (_: unknown, number: number) => {
      while (performance.now() - began < 1000 * seconds) {
        await action(started++, number);
        this.done++;
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    this.#ms += performance.now() - began;
  }
}

/**
 * A connection that sends a search and discards the answer, at the least cost: it parses nothing
 * but the end of a chunked body.
 */
class Line {
  readonly #socket: Socket;
  readonly #head: string;
  #ended: ((error?: Error) => void) | undefined;

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#head = `POST ${collectionPath('bench')}/search HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: ${OCTETS}\r\n`;
    const buffer = Buffer.alloc(2 ** 20);
    let first = true;
    this.#socket = connectTo({
      host: hostname,
      port: Number(port),
      onread: {
        buffer,
        callback: (length) => {
          if (first && !buffer.toString('latin1', 0, 12).startsWith('HTTP/1.1 200'))
            this.#ended?.(new Error(buffer.toString('latin1', 0, Math.min(length, 400))));
          first = false;
          if (length >= 5 && buffer.toString('latin1', length - 5, length) === '0\r\n\r\n') {
            first = true;
            this.#ended?.();
          }
          return true;
        },
      },
    }).on('error', (error) => this.#ended?.(error));
  }

  search(body: Buffer): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#ended = (error) => (error ? reject(error) : resolve());
      this.#socket.write(`${this.#head}content-length: ${body.length}\r\n\r\n`);
      this.#socket.write(body);
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}

function uncloseable(service: Service): Service {
  return withMethods(service, { close: async () => {} });
}

/**
 * A connection that only moves bytes. It leaves no garbage on either side: searches that are timed
 * in between would pay for it.
 */
class Loopback {
  readonly #socket: Socket;
  #body = Buffer.alloc(0);
  #left = 0;
  #arrived: (() => void) | undefined;

  constructor(port: number) {
    const callback = (length: number) => {
      this.#left -= length;
      if (this.#left <= 0) this.#arrived?.();
      return true;
    };
    this.#socket = connectTo({ host: '127.0.0.1', port, onread: { buffer: Buffer.alloc(2 ** 18), callback } });
  }

  /** Milliseconds for this many bytes up, and then this many down. */
  async time(up: number, down: number): Promise<number> {
    if (this.#body.length !== 16 + up) this.#body = Buffer.alloc(16 + up);
    this.#body.writeBigUInt64LE(BigInt(up), 0);
    this.#body.writeBigUInt64LE(BigInt(down), 8);
    this.#left = down;
    const began = performance.now();
    await new Promise<void>((resolve, reject) => {
      this.#arrived = resolve;
      this.#socket.once('error', reject);
      this.#socket.write(this.#body);
    });
    this.#socket.removeAllListeners('error');
    return performance.now() - began;
  }

  close(): void {
    this.#socket.destroy();
  }
}
