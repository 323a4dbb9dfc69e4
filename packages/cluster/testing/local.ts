// A cluster in one process: nodes with folders of their own and a ledger in memory. Nodes can be
// stopped, wiped and cut off from each other.

import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ReferenceKernel } from '@hers/scan';
import { HersError } from '@hers/service';
import { Coordinator, type CoordinatorOptions } from '../src/coordinator.ts';
import { DIRECTORY, decodeDirectory } from '../src/directory.ts';
import { type Ledger, newestOf } from '../src/ledger.ts';
import { ClusterNode, type NodeOptions } from '../src/node.ts';
import type { ShardService } from '../src/shard.ts';
import { openShards } from '../src/start.ts';
import { MemoryLedger } from './ledger-memory.ts';

const PARENT = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** Waits, unless nobody wants to any more. */
async function abortable(ms: number, signal: AbortSignal | undefined): Promise<void> {
  for (const until = performance.now() + ms; performance.now() < until; ) {
    signal?.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export class LocalCluster {
  readonly folder: string;
  readonly ledger = new MemoryLedger();
  readonly nodes = new Map<string, ClusterNode>();
  /** Pairs of nodes that cannot reach each other. */
  readonly cut = new Set<string>();
  /** What nodes read of a server of NATS that lags. What they append goes to the ledger. */
  readonly lagging = new Map<string, MemoryLedger>();
  /** Nodes that reach no server of NATS. */
  readonly withoutLedger = new Set<string>();
  /** What nodes say to others in place of the truth. */
  readonly lies = new Map<string, Partial<ShardService>>();
  /** Milliseconds that every answer of a node to a search takes longer. */
  readonly slow = new Map<string, number>();
  /** Nodes that break off every search after so many responses. */
  readonly breaking = new Map<string, number>();
  /** Searches of shards that a node has begun, and whether they were ended early. */
  readonly searches: { readonly node: string; ended: 'whole' | 'early' | undefined }[] = [];
  readonly #options: Partial<NodeOptions>;

  private constructor(folder: string, options: Partial<NodeOptions>) {
    this.folder = folder;
    this.#options = options;
  }

  static async make(options: Partial<NodeOptions> = {}): Promise<LocalCluster> {
    return new LocalCluster(await mkdtemp(join(PARENT, 'hers-cluster-')), options);
  }

  async start(...names: readonly string[]): Promise<void> {
    for (const name of names) {
      const { ledger } = this;
      const onBackgroundError = this.#options.onBackgroundError ?? ((error) => console.error(name, error));
      const store = await openShards(join(this.folder, name), name, {
        store: { quietMs: 5, kernel: async () => new ReferenceKernel() },
        directory: async () => {
          const entry = await newestOf(ledger, DIRECTORY);
          return entry && decodeDirectory(entry.content);
        },
        report: onBackgroundError,
      });
      const node = new ClusterNode({
        name,
        url: `memory:${name}`,
        store,
        ledger: this.#ledgerOf(name),
        connect: (other) => this.#reach(name, other),
        ...this.#options,
        onBackgroundError,
      });
      this.nodes.set(name, node);
      await node.start();
    }
  }

  #ledgerOf(name: string): Ledger {
    const { ledger, lagging, withoutLedger } = this;
    const check = () => {
      if (withoutLedger.has(name)) throw new HersError('UNAVAILABLE', 'NATS does not answer');
    };
    return {
      async append(...args) {
        check();
        return ledger.append(...args);
      },
      async *read(...args) {
        check();
        yield* (lagging.get(name) ?? ledger).read(...args);
      },
      watch: (onAppend) =>
        ledger.watch((topic) => {
          if (!lagging.has(name) && !withoutLedger.has(name)) onAppend(topic);
        }),
      trim: (...args) => ledger.trim(...args),
      close: async () => {},
    };
  }

  /** The shards of another node, whichever process it is at the moment. */
  #reach(from: string, to: string): ShardService {
    const call = (method: string | symbol, args: unknown[]): unknown => {
      const node = this.nodes.get(to);
      if (!node || this.cut.has([from, to].sort().join())) throw new HersError('UNAVAILABLE', `${to} is out of reach`);
      const said = { ...this.lies.get(to) } as Record<string | symbol, (...args: unknown[]) => unknown>;
      return (said[method] ?? (node.shards as unknown as typeof said)[method])(...args);
    };
    const streams = ['getRecords', 'getLists', 'getBlock', 'search', 'searchShards', 'snapshot'];
    const { slow, breaking, searches } = this;
    return new Proxy({} as ShardService, {
      get: (_, method) => {
        if (method === 'close') return async () => {};
        if (method === 'then') return undefined;
        if (method === 'searchShards')
          return async function* (...args: Parameters<ShardService['searchShards']>) {
            const search: (typeof searches)[number] = { node: to, ended: undefined };
            searches.push(search);
            let left = breaking.get(to) ?? Number.POSITIVE_INFINITY;
            try {
              for await (const response of call(method, args) as AsyncIterable<Uint8Array>) {
                if (left-- === 0) throw new HersError('UNAVAILABLE', `${to} has ended`);
                await abortable(slow.get(to) ?? 0, args[2]?.signal);
                yield response;
              }
              search.ended = 'whole';
            } finally {
              search.ended ??= 'early';
            }
          };
        if (!streams.includes(String(method))) return async (...args: unknown[]) => call(method, args);
        return async function* (...args: unknown[]) {
          yield* call(method, args) as AsyncIterable<unknown>;
        };
      },
    });
  }

  coordinator(name: string, options: Partial<CoordinatorOptions> = {}): Coordinator {
    return new Coordinator(this.nodes.get(name)!, { secret: 'secret', shards: 4, ...options });
  }

  async stop(...names: readonly string[]): Promise<void> {
    for (const name of names) {
      const node = this.nodes.get(name);
      this.nodes.delete(name);
      await node?.close();
    }
  }

  /** A node that is not running loses its disk. */
  wipe(name: string): Promise<void> {
    return rm(join(this.folder, name), { recursive: true, force: true });
  }

  async close(): Promise<void> {
    await this.stop(...this.nodes.keys());
    await rm(this.folder, { recursive: true, force: true });
  }
}
