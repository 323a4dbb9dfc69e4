// Numbers for Prometheus, in its text format 0.0.4. Nothing here names a collection or a token: a
// label for each would never end.

import type { Traffic } from './call.ts';
import type { ScanWatcher } from './scans.ts';

type Labels = Readonly<Record<string, string | number>>;

const labelled = (labels: Labels) => {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value}"`);
  return pairs.length > 0 ? `{${pairs.join(',')}}` : '';
};

class Counter {
  readonly #values = new Map<string, number>();

  add(value: number, labels: Labels = {}): void {
    const key = labelled(labels);
    this.#values.set(key, (this.#values.get(key) ?? 0) + value);
  }

  *lines(name: string): Generator<string> {
    if (this.#values.size === 0) yield `${name} 0`;
    for (const [labels, value] of this.#values) yield `${name}${labels} ${value}`;
  }
}

const BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

interface Series {
  readonly labels: Labels;
  readonly buckets: readonly { readonly bound: number; count: number }[];
  sum: number;
  count: number;
}

class Histogram {
  readonly #series = new Map<string, Series>();

  observe(value: number, labels: Labels = {}): void {
    const key = labelled(labels);
    let series = this.#series.get(key);
    if (!series) {
      const buckets = BOUNDS.map((bound) => ({ bound, count: 0 }));
      this.#series.set(key, (series = { labels, buckets, sum: 0, count: 0 }));
    }
    for (const bucket of series.buckets) if (value <= bucket.bound) bucket.count++;
    series.sum += value;
    series.count++;
  }

  *lines(name: string): Generator<string> {
    for (const { labels, buckets, sum, count } of this.#series.values()) {
      for (const bucket of buckets) yield `${name}_bucket${labelled({ ...labels, le: bucket.bound })} ${bucket.count}`;
      yield `${name}_bucket${labelled({ ...labels, le: '+Inf' })} ${count}`;
      yield `${name}_sum${labelled(labels)} ${sum}`;
      yield `${name}_count${labelled(labels)} ${count}`;
    }
  }
}

export type Phase = 'receive' | 'wait' | 'scan' | 'send';

export interface Gauges {
  scansRunning(): number;
  scansWaiting(): number;
  requestsRunning(): number;
  connections(): number;
  held(): number;
  /** Of the GPU that scans, where there is one. */
  device(): DeviceGauges | undefined;
}

/** What a device that scans holds. */
export interface DeviceGauges {
  /** Bytes of the gallery on it. */
  readonly used: number;
  /** Bytes of its memory in all. */
  readonly memory: number;
  /** Bytes of its memory that are free. */
  readonly free: number;
  /** Segments on it. */
  readonly segments: number;
  /** Segments that it fetches from the memory of the host for every scan. */
  readonly turns: number;
  /** Segments that the CPU scans, because they are not on it. */
  readonly elsewhere: number;
  /** Whether it failed, so that the CPU scans everything. */
  readonly hasFailed: boolean;
}

export class Metrics implements Traffic, ScanWatcher {
  readonly #version: string;
  readonly #requests = new Counter();
  readonly #errors = new Counter();
  readonly #searches = new Counter();
  readonly #seconds = new Histogram();
  readonly #phases = new Histogram();
  readonly #received = new Counter();
  readonly #sent = new Counter();
  readonly #scanned = new Counter();
  readonly #scanSeconds = new Counter();
  #rate = 0;

  constructor(version: string) {
    this.#version = version;
  }

  request(operation: string, status: number, seconds: number): void {
    this.#requests.add(1, { operation, status });
    this.#seconds.observe(seconds, { operation });
  }

  error(code: string): void {
    this.#errors.add(1, { code });
  }

  phase(phase: Phase, seconds: number): void {
    this.#phases.observe(seconds, { phase });
  }

  received(bytes: number): void {
    this.#received.add(bytes);
  }

  sent(bytes: number): void {
    this.#sent.add(bytes);
  }

  waited(seconds: number): void {
    this.phase('wait', seconds);
  }

  scanned(seconds: number, bytes: number, queries: number): void {
    this.phase('scan', seconds);
    this.#searches.add(queries);
    this.#scanned.add(bytes);
    this.#scanSeconds.add(seconds);
    if (bytes > 0 && seconds > 0) this.#rate = bytes / seconds / 1e9;
  }

  #ofDevice(device: DeviceGauges | undefined): readonly (readonly [string, string, number])[] {
    if (!device) return [];
    return [
      ['gallery_bytes', 'Bytes of the gallery in the memory of the GPU.', device.used],
      ['memory_bytes', 'Memory of the GPU.', device.memory],
      ['free_bytes', 'Memory of the GPU that is free.', device.free],
      ['segments', 'Segments that the GPU scans.', device.segments],
      ['turn_segments', 'Segments that the GPU fetches for every scan.', device.turns],
      ['cpu_segments', 'Segments that the CPU scans beside it.', device.elsewhere],
      ['failed', '1 after the GPU has failed: the CPU scans everything.', device.hasFailed ? 1 : 0],
    ];
  }

  text(gauges: Gauges): string {
    const { rss } = process.memoryUsage();
    const started = Date.now() / 1000 - process.uptime();
    const constant = (value: number, labels: Labels = {}) => ({
      lines: (name: string) => [`${name}${labelled(labels)} ${value}`],
    });
    const all: (readonly [
      string,
      'counter' | 'gauge' | 'histogram',
      string,
      { lines(name: string): Iterable<string> },
    ])[] = [
      ['hers_build_info', 'gauge', 'The version that runs.', constant(1, { version: this.#version })],
      ['hers_requests_total', 'counter', 'Requests answered.', this.#requests],
      ['hers_request_seconds', 'histogram', 'From the head of a request to the end of its answer.', this.#seconds],
      ['hers_errors_total', 'counter', 'Requests refused or failed, by code.', this.#errors],
      ['hers_searches_total', 'counter', 'Encrypted queries answered.', this.#searches],
      ['hers_search_seconds', 'histogram', 'Phases of searches: receive, wait, scan, send.', this.#phases],
      ['hers_received_bytes_total', 'counter', 'Bytes of bodies that came.', this.#received],
      ['hers_sent_bytes_total', 'counter', 'Bytes of streams that went.', this.#sent],
      ['hers_scanned_bytes_total', 'counter', 'Bytes of gallery compared with queries.', this.#scanned],
      ['hers_scan_seconds_total', 'counter', 'Time spent scanning.', this.#scanSeconds],
      ['hers_scan_gigabytes_per_second', 'gauge', 'The rate of the last scan.', constant(this.#rate)],
      ['hers_scans_running', 'gauge', 'Scans under way.', constant(gauges.scansRunning())],
      ['hers_scans_waiting', 'gauge', 'Searches that wait for a scan.', constant(gauges.scansWaiting())],
      ['hers_requests_running', 'gauge', 'Requests under way.', constant(gauges.requestsRunning())],
      ['hers_connections', 'gauge', 'Connections that are open.', constant(gauges.connections())],
      ['hers_held_bytes', 'gauge', 'Memory held for requests, of what they may have.', constant(gauges.held())],
      ...this.#ofDevice(gauges.device()).map(
        ([name, help, value]) => [`hers_device_${name}`, 'gauge', help, constant(value)] as const,
      ),
      ['process_resident_memory_bytes', 'gauge', 'Resident memory.', constant(rss)],
      ['process_start_time_seconds', 'gauge', 'When the process started.', constant(started)],
    ];
    const lines = all.flatMap(([name, type, help, metric]) => [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} ${type}`,
      ...metric.lines(name),
    ]);
    return `${lines.join('\n')}\n`;
  }
}
