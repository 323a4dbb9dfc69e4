// A node: a folder with shards, a copy of the directory, and a loop that applies the ledger to
// both. What the ledger cannot bring up to date is copied from a sibling.

import { randomBytes } from 'node:crypto';
import { type CollectionInfo, eitherSignal, HersError } from '@hers/service';
import type { FolderStore } from '@hers/store';
import {
  DIRECTORY,
  type Directory,
  decodeDirectory,
  EMPTY_DIRECTORY,
  encodeDirectory,
  majorityOf,
  type NodeInfo,
  type PlacedCollection,
} from './directory.ts';
import { type Ledger, newestOf } from './ledger.ts';
import { isGone, isPassing, quorum } from './quorum.ts';
import {
  type ChangeEntry,
  decodeEntry,
  decodeHome,
  encodeEntry,
  HOME,
  type Home,
  type ShardService,
  shardName,
} from './shard.ts';

export interface NodeOptions {
  readonly name: string;
  /** Where the other nodes reach it. */
  readonly url: string;
  /** The shards that this node keeps. It is closed with the node. */
  readonly store: FolderStore;
  readonly ledger: Ledger;
  /** Opens a connection to another node. */
  readonly connect: (name: string, info: NodeInfo) => ShardService;
  /** Milliseconds between two looks at what lags; a second by default. */
  readonly tendMs?: number;
  /** Called with errors of background work. */
  readonly onBackgroundError?: (error: unknown) => void;
}

/**
 * How long a change waits for a majority before it is UNAVAILABLE, and a read for replicas that
 * lag.
 */
const APPLY_MS = 20_000;
const SETTLE_MS = 5_000;
/** How long a new node tries to join: the ledger or most of the other nodes may be starting too. */
const JOIN_MS = 60_000;
const PAUSE_MS = 50;
const SUSPECT_MS = 3_000;
/** Entries that the ledger keeps of each collection: beyond them, replicas copy from a sibling. */
const KEPT_ENTRIES = 64;

export class ClusterNode {
  readonly name: string;
  readonly store: FolderStore;
  readonly ledger: Ledger;
  readonly closing: AbortController = new AbortController();
  readonly #options: NodeOptions;
  readonly #peers = new Map<string, { readonly url: string; readonly service: ShardService }>();
  readonly #homes = new Map<string, { readonly version: number; readonly home: Home }>();
  readonly #suspects = new Map<string, number>();
  readonly #repairing = new Map<string, Promise<void>>();
  #directory: Directory = EMPTY_DIRECTORY;
  #adopting: Promise<unknown> = Promise.resolve();
  #unwatch: () => void = () => {};
  #timer: NodeJS.Timeout | undefined;
  #tending: Promise<void> | undefined;

  constructor(options: NodeOptions) {
    this.#options = options;
    this.name = options.name;
    this.store = options.store;
    this.ledger = options.ledger;
  }

  get directory(): Directory {
    return this.#directory;
  }

  /** Whether this folder has been a node before, at this address. */
  async isKnown(): Promise<boolean> {
    const known = await this.store.getManifest(DIRECTORY).catch(() => undefined);
    const { name, url } = this.#options;
    return known !== undefined && decodeDirectory(known.manifest).nodes[name]?.url === url;
  }

  /** Reads what it knows, joins the cluster, and begins to follow the ledger. */
  async start(): Promise<void> {
    const { name, url, tendMs = 1000 } = this.#options;
    const known = await this.store.getManifest(DIRECTORY).catch(() => undefined);
    if (known) this.#directory = decodeDirectory(known.manifest);
    else
      await this.store.createCollection(DIRECTORY, {
        id: new Uint8Array(16),
        descriptor: new Uint8Array(0),
        manifest: encodeDirectory(EMPTY_DIRECTORY),
      });
    this.#unwatch = this.ledger.watch((topic) => void this.#hear(topic).catch((error) => this.#report(error)));
    const isIn = () => this.#directory.nodes[name]?.url === url;
    const join = async () => {
      await this.#catchUpDirectory();
      if (!isIn())
        await this.changeDirectory((directory) => ({
          ...directory,
          nodes: { ...directory.nodes, [name]: { url } },
        }));
    };
    // A node that is known serves what it has even if the ledger is out of reach.
    if (isIn()) void join().catch((error) => this.#report(error));
    else await retryPassing(JOIN_MS, join);
    const tend = () => {
      this.#tending ??= this.#tend().finally(() => {
        this.#tending = undefined;
      });
    };
    this.#timer = setInterval(tend, tendMs).unref();
    tend();
  }

  #report(error: unknown): void {
    if (!this.closing.signal.aborted && !isPassing(error)) this.#options.onBackgroundError?.(error);
  }

  /** A node, which may be this one. UNAVAILABLE where it is not in the directory. */
  peer(node: string): ShardService {
    this.closing.signal.throwIfAborted();
    if (node === this.name) return this.store;
    const info = this.#directory.nodes[node];
    if (!info) throw new HersError('UNAVAILABLE', `there is no node ${node} in this cluster any more`);
    const known = this.#peers.get(node);
    if (known?.url === info.url) return known.service;
    void known?.service.close();
    const service = this.#options.connect(node, info);
    this.#peers.set(node, { url: info.url, service });
    return service;
  }

  /**
   * Nodes in the order in which they are asked: this one first, then those from a random one on.
   */
  nearest(nodes: readonly string[]): string[] {
    const others = nodes.filter((node) => node !== this.name);
    const first = Math.floor(Math.random() * others.length);
    const turned = [...others.slice(first), ...others.slice(0, first)];
    return [
      ...nodes.filter((node) => node === this.name),
      ...turned.filter((node) => !this.isSuspect(node)),
      ...turned.filter((node) => this.isSuspect(node)),
    ];
  }

  /** A node failed to answer: for a while it is asked last. */
  suspect(node: string): void {
    this.#suspects.set(node, performance.now() + SUSPECT_MS);
  }

  isSuspect(node: string): boolean {
    return (this.#suspects.get(node) ?? 0) > performance.now();
  }

  // — the directory —

  /** The directory as a majority of the nodes has it. */
  async readDirectory(): Promise<Directory> {
    const nodes = Object.keys(this.#directory.nodes);
    if (nodes.length === 0) {
      await this.#catchUpDirectory();
      return this.#directory;
    }
    const read = async (node: string) => decodeDirectory((await this.peer(node).getManifest(DIRECTORY)).manifest);
    const answers = await quorum(nodes, majorityOf(nodes.length), read);
    const newest = answers.map(({ value }) => value).reduce((a, b) => (b.version > a.version ? b : a));
    if (answers.some(({ value }) => value.version < newest.version)) await this.#spread(newest);
    await this.#adopt(newest);
    return newest;
  }

  /** Changes the directory; `change` may be called again if another change comes first. */
  async changeDirectory(change: (directory: Directory) => Directory): Promise<void> {
    for (;;) {
      const entry = await newestOf(this.ledger, DIRECTORY);
      const read = entry ? decodeDirectory(entry.content) : EMPTY_DIRECTORY;
      // A server of NATS that has just started may give an older one than there is, or none. To
      // append to that is STALE; and where the ledger has lost something, it has this one again.
      const current = read.version < this.#directory.version ? this.#directory : read;
      const next = { ...change(current), version: current.version + 1 };
      try {
        await this.ledger.append(DIRECTORY, entry?.position ?? 0, encodeDirectory(next));
      } catch (error) {
        if (error instanceof HersError && error.code === 'STALE') continue;
        throw error;
      }
      await this.#adopt(next);
      await this.#spread(next);
      void this.ledger.trim(DIRECTORY, 1).catch(() => {});
      return;
    }
  }

  /** Brings a majority of the nodes to a directory. */
  async #spread(directory: Directory): Promise<void> {
    const nodes = Object.keys(directory.nodes);
    const manifest = encodeDirectory(directory);
    await quorum(
      nodes,
      majorityOf(nodes.length),
      async (node) => {
        const peer = this.peer(node);
        for (;;) {
          const known = await peer.getManifest(DIRECTORY);
          if (decodeDirectory(known.manifest).version >= directory.version) return;
          try {
            await peer.commit(DIRECTORY, { expected: known.version, manifest });
            return;
          } catch (error) {
            if (!(error instanceof HersError && error.code === 'STALE')) throw error;
          }
        }
      },
      this,
    );
  }

  async #catchUpDirectory(): Promise<void> {
    const entry = await newestOf(this.ledger, DIRECTORY);
    if (entry) await this.#adopt(decodeDirectory(entry.content));
  }

  /** Takes a newer directory over, and lets go of the shards of collections that are gone. */
  #adopt(directory: Directory): Promise<void> {
    const adopting = this.#adopting.then(async () => {
      const before = this.#directory;
      if (directory.version <= before.version) return;
      const known = await this.store.getManifest(DIRECTORY);
      if (decodeDirectory(known.manifest).version < directory.version)
        await this.store.commit(DIRECTORY, { expected: known.version, manifest: encodeDirectory(directory) });
      this.#directory = directory;
      const uids = new Set(Object.values(directory.collections).map(({ uid }) => uid));
      for (const { uid, shards } of Object.values(before.collections)) {
        if (uids.has(uid)) continue;
        this.#homes.delete(uid);
        for (const [shard, nodes] of shards.entries())
          if (nodes.includes(this.name)) await this.store.deleteCollection(shardName(uid, shard)).catch(() => {});
      }
    });
    this.#adopting = adopting.catch(() => {});
    return adopting;
  }

  // — reading what is current —

  /**
   * What the home shard says, confirmed by a majority of its replicas: every acknowledged change is
   * on a majority, so the highest version of any majority is the newest. If only some have it, it
   * is brought to a majority first; otherwise the next reader could see an older one.
   */
  async home({ uid, shards }: PlacedCollection, given?: AbortSignal): Promise<{ version: number; home: Home }> {
    const name = shardName(uid, HOME);
    const nodes = shards[HOME];
    const { signal, done } = eitherSignal(this.closing.signal, given);
    try {
      const until = performance.now() + SETTLE_MS;
      for (;;) {
        signal.throwIfAborted();
        const answers = await quorum(this.nearest(nodes), majorityOf(nodes.length), (node) =>
          this.peer(node).getCollection(name),
        );
        const newest = Math.max(...answers.map(({ value }) => value.version));
        const having = answers.filter(({ value }) => value.version === newest);
        if (having.length === answers.length) {
          const known = this.#homes.get(uid);
          if (known?.version === newest) return known;
          const { version, manifest } = await this.peer(having[0].node).getManifest(name);
          if (version === newest) {
            const read = { version, home: decodeHome(manifest) };
            this.#homes.set(uid, read);
            return read;
          }
        } else if (performance.now() > until)
          throw new HersError('UNAVAILABLE', `too few replicas have the newest version; try again`);
        else await this.#settleNewest({ uid, shards }).catch(() => pause(PAUSE_MS));
      }
    } finally {
      done();
    }
  }

  async #settleNewest(placed: Pick<PlacedCollection, 'uid' | 'shards'>): Promise<void> {
    const entry = await newestOf(this.ledger, placed.uid);
    if (entry) await this.settle(placed, decodeEntry(entry.content), SETTLE_MS);
    else await pause(PAUSE_MS);
  }

  // — changing —

  /**
   * Appends a change that is based on a version. STALE if another one came first, which is applied
   * then.
   */
  async append(placed: PlacedCollection, based: number, change: Omit<ChangeEntry, 'nonce'>): Promise<ChangeEntry> {
    const newest = await newestOf(this.ledger, placed.uid);
    const last = newest && decodeEntry(newest.content);
    const stale = () => new HersError('STALE', `the collection was changed meanwhile; read it again`);
    if (last && last.version > based) {
      await this.settle(placed, last, SETTLE_MS).catch(() => {});
      throw stale();
    }
    const entry = { ...change, nonce: randomBytes(12).toString('hex') };
    try {
      await this.ledger.append(placed.uid, newest?.position ?? 0, encodeEntry(entry));
    } catch (error) {
      throw error instanceof HersError && error.code === 'STALE' ? stale() : error;
    }
    return entry;
  }

  /** Applies an entry to a majority of the replicas of every shard that it touches. */
  async settle(
    { uid, shards }: Pick<PlacedCollection, 'uid' | 'shards'>,
    entry: ChangeEntry,
    withinMs: number = APPLY_MS,
  ): Promise<void> {
    const until = performance.now() + withinMs;
    const settleShard = async ({ shard, version, change }: ChangeEntry['shards'][number]) => {
      let settled = false;
      const apply = async (node: string) => {
        for (;;) {
          try {
            return await this.peer(node).apply(shardName(uid, shard), change, version);
          } catch (error) {
            this.closing.signal.throwIfAborted();
            // One that lacks something is repaired by its own node, and then has this version.
            const lags = error instanceof HersError && ['NOT_FOUND', 'STALE'].includes(error.code);
            if (settled || !(lags || isPassing(error)) || performance.now() > until) throw error;
            await pause(PAUSE_MS);
          }
        }
      };
      try {
        await quorum(shards[shard], majorityOf(shards[shard].length), apply, this);
      } catch (error) {
        if (this.closing.signal.aborted) throw error;
        const { message } = error as Error;
        throw new HersError('UNAVAILABLE', `a change is in the ledger, and not yet applied: ${message}; try again`);
      } finally {
        settled = true;
      }
    };
    await Promise.all(entry.shards.map(settleShard));
    if (entry.version % KEPT_ENTRIES === 0) void this.ledger.trim(uid, KEPT_ENTRIES).catch(() => {});
  }

  // — following —

  async #hear(topic: string): Promise<void> {
    if (topic === DIRECTORY) return this.#catchUpDirectory();
    const placed = Object.values(this.#directory.collections).find(({ uid }) => uid === topic);
    const entry = placed && (await newestOf(this.ledger, topic));
    if (entry) await this.#applyHere(placed, decodeEntry(entry.content));
  }

  /** Shards that lack something are left to `#tend`. */
  async #applyHere({ uid, shards }: PlacedCollection, entry: ChangeEntry): Promise<void> {
    for (const { shard, version, change } of entry.shards)
      if (shards[shard]?.includes(this.name))
        await this.store.apply(shardName(uid, shard), change, version).catch((error) => {
          const lags = error instanceof HersError && ['NOT_FOUND', 'STALE', 'CLOSED'].includes(error.code);
          if (!lags) throw error;
        });
  }

  /** Looks for shards here that are missing or lag, and brings them up to date. */
  async #tend(): Promise<void> {
    try {
      await this.readDirectory().catch(() => {});
      for (const placed of Object.values(this.#directory.collections)) {
        const own = [...placed.shards.keys()].filter((shard) => placed.shards[shard].includes(this.name));
        if (own.length === 0) continue;
        const found = await this.home(placed).catch(async (error) => {
          if (await this.#isDeleted(placed)) return undefined;
          throw error;
        });
        if (!found) continue;
        const { home } = found;
        for (const shard of own) {
          if (this.closing.signal.aborted) return;
          const info = await this.#here(shardName(placed.uid, shard));
          if (info && info.version >= home.shards[shard]) continue;
          if (info) await this.#replay(placed);
          const now = info && (await this.#here(shardName(placed.uid, shard)));
          if (!now || now.version < home.shards[shard]) await this.repair(placed, shard);
        }
      }
    } catch (error) {
      this.#report(error);
    }
  }

  async #isDeleted({ uid }: PlacedCollection): Promise<boolean> {
    const { collections } = await this.readDirectory();
    return !Object.values(collections).some((each) => each.uid === uid);
  }

  async #here(name: string): Promise<CollectionInfo | undefined> {
    try {
      return await this.store.getCollection(name);
    } catch (error) {
      if (error instanceof HersError && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }

  async #replay(placed: PlacedCollection): Promise<void> {
    try {
      for await (const entry of this.ledger.read(placed.uid, 0))
        await this.#applyHere(placed, decodeEntry(entry.content));
    } catch (error) {
      if (!isPassing(error)) throw error;
    }
  }

  /** Copies a shard from the sibling that has the newest version of it. */
  repair(placed: PlacedCollection, shard: number): Promise<void> {
    const name = shardName(placed.uid, shard);
    let repairing = this.#repairing.get(name);
    if (!repairing) {
      repairing = this.#repair(placed, shard, name).finally(() => this.#repairing.delete(name));
      this.#repairing.set(name, repairing);
    }
    return repairing;
  }

  /** Shards that are being copied. */
  get repairs(): number {
    return this.#repairing.size;
  }

  async #repair(placed: PlacedCollection, shard: number, name: string): Promise<void> {
    const here = (await this.#here(name))?.version ?? 0;
    const found: { node: string; version: number }[] = [];
    for (const node of placed.shards[shard]) {
      if (node === this.name) continue;
      const info = await this.peer(node)
        .getCollection(name)
        .catch(() => undefined);
      if (info) found.push({ node, version: info.version });
    }
    const [best] = found.sort((a, b) => b.version - a.version);
    if (!best || best.version <= here) return;
    const { signal } = this.closing;
    await this.store.replace(name, this.peer(best.node).snapshot(name, { signal }), { signal });
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    this.#unwatch();
    clearInterval(this.#timer);
    this.closing.abort(new HersError('CLOSED', 'this node is closed; start it again'));
    await this.#tending?.catch(() => {});
    await Promise.allSettled([...this.#peers.values()].map(({ service }) => service.close()));
    await this.store.close();
    await this.ledger.close();
  }
}

/** Waits for all replicas that answer in time, and for a majority in any case. */
export async function writeTo<T>(
  node: ClusterNode,
  replicas: readonly string[],
  call: (service: ShardService) => Promise<T>,
): Promise<T> {
  const answers = await quorum(replicas, majorityOf(replicas.length), (each) => call(node.peer(each)), node);
  return answers[0].value;
}

/** Calls `work` until it succeeds, or fails because of more than a node that is gone or busy. */
async function retryPassing(withinMs: number, work: () => Promise<void>): Promise<void> {
  const until = performance.now() + withinMs;
  for (;;)
    try {
      return await work();
    } catch (error) {
      if (!isGone(error)) throw error;
      if (performance.now() > until) {
        const { message } = error as Error;
        throw new HersError('UNAVAILABLE', `the node could not join within ${withinMs / 1000} seconds: ${message}`);
      }
      await pause(PAUSE_MS);
    }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
