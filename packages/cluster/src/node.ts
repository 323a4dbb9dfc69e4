// A node: a folder with shards, a copy of the directory, and a loop that applies the ledger to
// both. What the ledger cannot bring up to date is copied from a sibling.

import { randomBytes } from 'node:crypto';
import { eitherSignal, HersError } from '@hers/service';
import type { FolderStore } from '@hers/store';
import { type ShardState, stateOf } from '@hers/store/stages';
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
import { type ClusterCalls, fencedShards } from './fence.ts';
import { awaitNewest, type Ledger, newestOf } from './ledger.ts';
import { Mover } from './mover.ts';
import { pause } from './pause.ts';
import { type Answer, isGone, isPassing, quorum } from './quorum.ts';
import {
  addressOf,
  type ChangeEntry,
  decodeEntry,
  decodeHome,
  encodeEntry,
  HOME,
  type Home,
  isCurrent,
  readAddress,
  type ShardService,
  shardName,
} from './shard.ts';
import { throttled } from './throttle.ts';

export interface NodeOptions {
  readonly name: string;
  /** Where the other nodes reach it. */
  readonly url: string;
  /** The shards that this node keeps. It is closed with the node. */
  readonly store: FolderStore;
  /** The same behind its fence, where it is served before the node is made. */
  readonly shards?: (calls: ClusterCalls) => ShardService;
  readonly ledger: Ledger;
  /** Opens a connection to another node. */
  readonly connect: (name: string, info: NodeInfo) => ShardService;
  /** Milliseconds between two looks at what lags; a second by default. */
  readonly tendMs?: number;
  /** Milliseconds of silence after which a node is replaced by others; a minute by default. */
  readonly goneMs?: number;
  /** Milliseconds after which shards that no collection has are removed; an hour by default. */
  readonly leftoverMs?: number;
  /** Milliseconds between two checks of all files; a day by default. */
  readonly scrubMs?: number;
  /** Bytes a second at which shards are copied to this node; 64 MiB by default. */
  readonly copyBytesPerSecond?: number;
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
const GONE_MS = 60_000;
const LEFTOVER_MS = 3_600_000;
const SCRUB_MS = 24 * 3_600_000;
const COPY_RATE = 2 ** 26;
const REPLAYS = 5;
const HEARD_MS = 1_000;
/** A new replica that was copied so often without being current joins as it is. */
const COPIES = 3;
/** Entries that the ledger keeps of each collection: beyond them, replicas copy from a sibling. */
const KEPT_ENTRIES = 64;
/** Versions of a collection that a node remembers: more than are made while a search begins. */
const KEPT_HOMES = 64;

interface RepairOptions {
  /** Even if this node has it. */
  readonly isDamaged?: boolean;
  /** What a majority has of every shard. What contradicts it is not copied, and replaced here. */
  readonly states?: readonly ShardState[] | undefined;
}

/** What the home shard says, and its own state. */
export interface CurrentHome extends ShardState {
  readonly home: Home;
}

export class ClusterNode {
  readonly name: string;
  readonly store: FolderStore;
  readonly ledger: Ledger;
  readonly closing: AbortController = new AbortController();
  readonly #options: NodeOptions;
  readonly #peers = new Map<string, { readonly url: string; readonly service: ShardService }>();
  /** By collection, the newest home that was read. */
  readonly #homes = new Map<string, CurrentHome>();
  /** By collection, what earlier versions were made of: searches at them are still under way. */
  readonly #earlier = new Map<string, Map<number, readonly ShardState[]>>();
  readonly #suspects = new Map<string, number>();
  readonly #repairing = new Map<string, Promise<boolean>>();
  readonly #heard = new Map<string, number>();
  readonly #began = performance.now();
  readonly #damaged = new Set<string>();
  /** Shards of no collection, with their version and since when they have it. */
  readonly #leftover = new Map<string, { readonly version: number; readonly since: number }>();
  readonly #copies = new Map<string, number>();
  readonly #replaying = new Set<string>();
  /** By collection, the newest change that was applied here and perhaps not everywhere. */
  readonly #unsettled = new Map<string, ChangeEntry>();
  /** By node and shard: calls that are under way, though nobody may wait for them. */
  readonly #underWay = new Map<string, Set<Promise<unknown>>>();
  #scrubbed = performance.now();
  readonly mover: Mover;
  /** The shards of this node as others see them. */
  readonly shards: ShardService;
  #directory: Directory = EMPTY_DIRECTORY;
  #adopting: Promise<unknown> = Promise.resolve();
  #letting: Promise<unknown> = Promise.resolve();
  #unwatch: () => void = () => {};
  #timer: NodeJS.Timeout | undefined;
  #tending: Promise<void> | undefined;
  #moving: Promise<void> | undefined;

  constructor(options: NodeOptions) {
    this.#options = options;
    this.name = options.name;
    this.store = options.store;
    this.ledger = options.ledger;
    this.mover = new Mover(this, options.goneMs ?? GONE_MS);
    const calls: ClusterCalls = {
      drain: (node, draining) => this.drain(node, draining),
      setReplicas: (collection, replicas) => this.setReplicas(collection, replicas),
      damaged: (shard) => this.#damaged.add(shard),
    };
    this.shards = options.shards?.(calls) ?? fencedShards(options.store, () => calls);
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
    // A node that is known serves what it has even if the ledger is out of reach.
    if (this.#directory.nodes[name]?.url === url) void this.#join().catch((error) => this.#report(error));
    else await retryPassing(JOIN_MS, () => this.#join());
    const tend = () => {
      this.#tending ??= this.#tend().finally(() => {
        this.#tending = undefined;
      });
      this.#moving ??= this.#move().finally(() => {
        this.#moving = undefined;
      });
    };
    this.#timer = setInterval(tend, tendMs).unref();
    tend();
  }

  async #join(): Promise<void> {
    const { name, url } = this.#options;
    await this.#catchUpDirectory();
    if (this.#directory.nodes[name]?.url === url) return;
    await this.changeDirectory((directory) => ({
      ...directory,
      nodes: { ...directory.nodes, [name]: { ...directory.nodes[name], url } },
    }));
  }

  #report(error: unknown): undefined {
    // Shards that moved, or changed, while they were looked at are looked at again.
    const passes = isPassing(error) || (error instanceof HersError && ['STALE', 'NOT_FOUND'].includes(error.code));
    if (!this.closing.signal.aborted && !passes) this.#options.onBackgroundError?.(error);
  }

  /** A node, which may be this one. UNAVAILABLE where it is not in the directory. */
  peer(node: string): ShardService {
    this.closing.signal.throwIfAborted();
    if (node === this.name) return this.shards;
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

  /**
   * A call that stages something, and that a later one to the same node needs, even if a majority
   * has answered meanwhile. `waits`: the call needs those before it.
   */
  async inOrder<T>(node: string, shard: string, waits: boolean, call: () => Promise<T>): Promise<T> {
    const place = `${node} ${shard}`;
    const before = this.#underWay.get(place) ?? new Set();
    this.#underWay.set(place, before);
    if (waits && before.size > 0) await Promise.allSettled([...before]);
    const calling = call();
    before.add(calling);
    try {
      return await calling;
    } finally {
      before.delete(calling);
      if (before.size === 0) this.#underWay.delete(place);
    }
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
    const read = async (node: string) => {
      const { manifest } = await this.peer(node).getManifest(DIRECTORY);
      this.#heard.set(node, performance.now());
      return decodeDirectory(manifest);
    };
    const answers = await quorum(nodes, majorityOf(nodes.length), read);
    const newest = answers.map(({ value }) => value).reduce((a, b) => (b.version > a.version ? b : a));
    if (answers.some(({ value }) => value.version < newest.version)) await this.#spread(newest);
    // A node whose disk is full still reads what others have.
    await this.#adopt(newest).catch((error) => {
      if (!isPassing(error)) throw error;
    });
    return newest;
  }

  /** Changes the directory; `change` may be called again if another change comes first. */
  async changeDirectory(change: (directory: Directory) => Directory): Promise<void> {
    for (;;) {
      const entry = await awaitNewest(this.ledger, DIRECTORY, this.closing.signal);
      const read = entry ? decodeDirectory(entry.content) : EMPTY_DIRECTORY;
      // A server of NATS that has just started may give an older one than there is, or none. To
      // append to that is STALE; and where the ledger has lost something, it has this one again.
      const current = read.version < this.#directory.version ? this.#directory : read;
      const next = { ...change(current), version: current.version + 1 };
      // Majorities of before and after have a node in common if the nodes change by one at a time,
      // and each change is known before the next is made.
      const isFirst = Object.keys(current.nodes).length === 0;
      if (!isFirst && Object.keys(next.nodes).join() !== Object.keys(current.nodes).join()) await this.#spread(current);
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

  #spread(directory: Directory): Promise<void> {
    return this.spreadTo(directory, Object.keys(directory.nodes));
  }

  /** Brings a directory to a majority of these nodes. */
  async spreadTo(directory: Directory, nodes: readonly string[]): Promise<void> {
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

  /** Milliseconds since a node answered, or since this one has been watching. */
  silentMs(node: string): number {
    return node === this.name ? 0 : performance.now() - (this.#heard.get(node) ?? this.#began);
  }

  /** Empties a node, or lets it take shards again. */
  drain(node: string, draining: boolean): Promise<void> {
    return this.changeDirectory((directory) => {
      const info = Object.hasOwn(directory.nodes, node) ? directory.nodes[node] : undefined;
      if (!info) throw new HersError('NOT_FOUND', `there is no node ${JSON.stringify(node)} in this cluster`);
      const { draining: _, ...rest } = info;
      return { ...directory, nodes: { ...directory.nodes, [node]: draining ? { ...rest, draining } : rest } };
    });
  }

  /** Changes how many nodes keep each shard of a collection. Copies are made or removed later. */
  setReplicas(name: string, replicas: number): Promise<void> {
    if (!(Number.isInteger(replicas) && replicas >= 1))
      return Promise.reject(new HersError('INVALID_ARGUMENT', 'a shard has one replica at least'));
    return this.changeDirectory((directory) => {
      const placed = Object.hasOwn(directory.collections, name) ? directory.collections[name] : undefined;
      if (!placed) throw new HersError('NOT_FOUND', `there is no collection ${JSON.stringify(name)}`);
      const nodes = Object.keys(directory.nodes).length;
      if (replicas > nodes)
        throw new HersError(
          'INVALID_ARGUMENT',
          `${replicas} replicas need as many nodes, and this cluster has ${nodes}`,
        );
      return { ...directory, collections: { ...directory.collections, [name]: { ...placed, replicas } } };
    });
  }

  /** The state of a collection as this node knows it now. */
  placedNow(placed: PlacedCollection): PlacedCollection {
    return Object.values(this.#directory.collections).find(({ uid }) => uid === placed.uid) ?? placed;
  }

  /** Takes a newer directory over, and lets go of the shards that are kept elsewhere, or gone. */
  #adopt(directory: Directory): Promise<void> {
    const adopting = this.#adopting.then(async () => {
      const before = this.#directory;
      if (directory.version <= before.version) return;
      const known = await this.store.getManifest(DIRECTORY);
      if (decodeDirectory(known.manifest).version < directory.version)
        await this.store.commit(DIRECTORY, { expected: known.version, manifest: encodeDirectory(directory) });
      this.#directory = directory;
      this.#letGo(before, directory);
    });
    this.#adopting = adopting.catch(() => {});
    return adopting;
  }

  /** Nobody waits until the files of shards are gone that are kept elsewhere now. */
  #letGo(before: Directory, directory: Directory): void {
    const now = new Map(Object.values(directory.collections).map((placed) => [placed.uid, placed]));
    for (const { uid, shards } of Object.values(before.collections)) {
      if (!now.has(uid)) for (const known of [this.#homes, this.#earlier]) known.delete(uid);
      for (const [shard, nodes] of shards.entries())
        if (nodes.includes(this.name) && !now.get(uid)?.shards[shard].includes(this.name))
          this.#letting = this.#letting.then(() => this.store.deleteCollection(shardName(uid, shard)).catch(() => {}));
    }
  }

  // — reading what is current —

  /**
   * What the home shard says, confirmed by a majority of its replicas: every acknowledged change is
   * on a majority, so the highest version of any majority is the newest. If only some have it, it
   * is brought to a majority first; otherwise the next reader could see an older one. Replicas that
   * have it by different changes do not confirm each other.
   */
  async home(placed: PlacedCollection, given?: AbortSignal): Promise<CurrentHome> {
    const { uid, shards } = placed;
    const name = shardName(uid, HOME);
    const nodes = shards[HOME];
    const { signal, done } = eitherSignal(this.closing.signal, given);
    try {
      const until = performance.now() + SETTLE_MS;
      for (;;) {
        signal.throwIfAborted();
        const majority = majorityOf(nodes.length);
        const answers = await quorum(
          this.nearest(nodes),
          majority,
          (node) => this.peer(node).getState(addressOf(placed, HOME)),
          undefined,
          (some) => newestAmong(some).length >= majority,
        );
        const having = newestAmong(answers);
        const newest = having[0].value;
        if (having.length >= majority) {
          const known = this.#homes.get(uid);
          if (known?.state === newest.state) return known;
          const { version, manifest } = await this.peer(having[0].node).getManifest(name);
          if (stateOf(manifest) === newest.state)
            return this.#remember(uid, { version, state: newest.state, home: decodeHome(manifest) });
        } else if (performance.now() > until)
          throw new HersError('UNAVAILABLE', `too few replicas have the newest version; try again`);
        else await this.#settleNewest(placed).catch(() => pause(PAUSE_MS));
      }
    } finally {
      done();
    }
  }

  #remember(uid: string, read: CurrentHome): CurrentHome {
    const { home } = read;
    const known = this.#homes.get(uid);
    if (!known || known.version < read.version) this.#homes.set(uid, read);
    const earlier = this.#earlier.get(uid) ?? new Map<number, readonly ShardState[]>();
    this.#earlier.set(uid, earlier);
    earlier.delete(home.version);
    earlier.set(home.version, this.statesOf(read));
    for (const version of earlier.keys()) if (earlier.size > KEPT_HOMES) earlier.delete(version);
    return read;
  }

  /** The state of every shard, that of the home included. */
  statesOf({ version, state, home }: CurrentHome): ShardState[] {
    return home.shards.map((each, shard) => (shard === HOME ? { version, state } : each));
  }

  /** What the shards were at an earlier version of the client's, if this node knows it. */
  earlier(uid: string, version: number): readonly ShardState[] | undefined {
    return this.#earlier.get(uid)?.get(version);
  }

  async #settleNewest(placed: PlacedCollection): Promise<void> {
    const entry = await newestOf(this.ledger, placed.uid);
    if (entry) await this.settle(placed, decodeEntry(entry.content), SETTLE_MS);
    else await pause(PAUSE_MS);
  }

  // — changing —

  /**
   * Appends a change that is based on a version. STALE if another one came first, which is applied
   * then.
   */
  async append(
    placed: PlacedCollection,
    based: number,
    change: Omit<ChangeEntry, 'nonce' | 'fence'>,
  ): Promise<ChangeEntry> {
    const newest = await awaitNewest(this.ledger, placed.uid, this.closing.signal);
    const last = newest && decodeEntry(newest.content);
    const stale = () => new HersError('STALE', `the collection was changed meanwhile; read it again`);
    if (last && last.version > based) {
      await this.settle(placed, last, SETTLE_MS).catch(() => {});
      throw stale();
    }
    const fence = last?.fence ?? 0;
    if (fence > placed.placement) throw new HersError('STALE', 'shards have moved to other nodes; try again');
    const entry = { ...change, fence, nonce: randomBytes(12).toString('hex') };
    try {
      await this.ledger.append(placed.uid, newest?.position ?? 0, encodeEntry(entry));
    } catch (error) {
      throw error instanceof HersError && error.code === 'STALE' ? stale() : error;
    }
    return entry;
  }

  /** Applies an entry to a majority of the replicas of every shard that it touches. */
  async settle(placed: PlacedCollection, entry: ChangeEntry, withinMs: number = APPLY_MS): Promise<void> {
    const until = performance.now() + withinMs;
    await Promise.all(entry.shards.map((each) => this.#settleShard(placed, each, until)));
    if (entry.version % KEPT_ENTRIES === 0) void this.ledger.trim(placed.uid, KEPT_ENTRIES).catch(() => {});
  }

  async #settleShard(
    given: PlacedCollection,
    { shard, ...staged }: ChangeEntry['shards'][number],
    until: number,
  ): Promise<void> {
    for (;;) {
      const placed = this.placedNow(given);
      const hasMoved = () => this.placedNow(given).placement !== placed.placement;
      let settled = false;
      const apply = async (node: string) => {
        for (;;) {
          try {
            const apply = () => this.peer(node).apply(addressOf(placed, shard), staged);
            return await this.inOrder(node, shardName(placed.uid, shard), true, apply);
          } catch (error) {
            this.closing.signal.throwIfAborted();
            // One that lacks something is repaired by its own node, and then has this version.
            const lags = error instanceof HersError && ['NOT_FOUND', 'STALE'].includes(error.code);
            if (settled || !(lags || isPassing(error)) || performance.now() > until || hasMoved()) throw error;
            await pause(PAUSE_MS);
            if (error instanceof HersError && error.code === 'STALE') await this.readDirectory().catch(() => {});
          }
        }
      };
      try {
        await quorum(placed.shards[shard], majorityOf(placed.shards[shard].length), apply, this);
        return;
      } catch (error) {
        if (this.closing.signal.aborted) throw error;
        if (hasMoved() && performance.now() < until) continue;
        if (await this.#isOvertaken(placed, shard, staged)) throw overtaken();
        const { message } = error as Error;
        throw new HersError('UNAVAILABLE', `a change is in the ledger, and not yet applied: ${message}; try again`);
      } finally {
        settled = true;
      }
    }
  }

  /**
   * Whether a majority has this version by another change. That happens where NATS has lost an
   * entry that some replica had applied, and took another one in its place.
   */
  async #isOvertaken(placed: PlacedCollection, shard: number, { version, state }: ShardState): Promise<boolean> {
    const states = await Promise.allSettled(
      placed.shards[shard].map((node) => this.peer(node).getState(addressOf(placed, shard))),
    );
    const others = states.filter(
      (each) => each.status === 'fulfilled' && each.value.version === version && each.value.state !== state,
    );
    return others.length >= majorityOf(placed.shards[shard].length);
  }

  // — following —

  async #hear(topic: string): Promise<void> {
    if (topic === DIRECTORY) return this.#catchUpDirectory();
    const placed = Object.values(this.#directory.collections).find(({ uid }) => uid === topic);
    const entry = placed && (await newestOf(this.ledger, topic));
    if (!entry || (await this.#applyHere(placed, decodeEntry(entry.content))) || this.#replaying.has(topic)) return;
    // It is a little late, and may have all that it needs.
    this.#replaying.add(topic);
    await this.#replay(placed).finally(() => this.#replaying.delete(topic));
  }

  /** Whether no shard here lacks something; if one does, it is left to `#tend`. */
  async #applyHere({ uid, shards }: PlacedCollection, entry: ChangeEntry): Promise<boolean> {
    let isWhole = true;
    // Whoever makes a change visible sees to it that all shards have it, even if NATS is gone then.
    if (shards[HOME].includes(this.name) && entry.version > (this.#unsettled.get(uid)?.version ?? 0))
      this.#unsettled.set(uid, entry);
    for (const { shard, ...staged } of entry.shards)
      if (shards[shard]?.includes(this.name))
        await this.store.apply(shardName(uid, shard), staged).catch((error) => {
          const lags = error instanceof HersError && ['NOT_FOUND', 'STALE', 'CLOSED'].includes(error.code);
          if (!lags) throw error;
          isWhole = false;
        });
    return isWhole;
  }

  /** Looks for what lags or is damaged here, and does something about it. NATS may be gone. */
  #tend(): Promise<void> {
    return this.#doAll([
      () => this.readDirectory(),
      () => this.#settleHeard(),
      () => this.#catchUp(),
      () => this.#check(),
      () => this.#mend(),
    ]);
  }

  /**
   * The same for what moves or is left over. It waits for NATS. What removes a shard here and what
   * takes it up again are never done at once.
   */
  #move(): Promise<void> {
    return this.#doAll([
      () => this.#rejoin(),
      () => this.#takeOver(),
      () => this.#removeLeftovers(),
      () => this.mover.step(),
    ]);
  }

  async #doAll(steps: readonly (() => Promise<unknown>)[]): Promise<void> {
    for (const step of steps)
      try {
        if (this.closing.signal.aborted) return;
        await step();
      } catch (error) {
        this.#report(error);
      }
  }

  /** A node that others took for gone, and forgot, is back. */
  async #rejoin(): Promise<void> {
    await this.readDirectory();
    if (this.#directory.version > 0 && !Object.hasOwn(this.#directory.nodes, this.name)) await this.#join();
  }

  async #settleHeard(): Promise<void> {
    for (const [uid, entry] of this.#unsettled) {
      const placed = Object.values(this.#directory.collections).find((each) => each.uid === uid);
      const isSettled =
        placed === undefined ||
        (await this.settle(placed, entry, HEARD_MS).then(
          () => true,
          (error) => isOvertaken(error) || (this.#report(error) ?? false),
        ));
      if (isSettled && this.#unsettled.get(uid) === entry) this.#unsettled.delete(uid);
    }
  }

  /** Shards here that are missing or lag. */
  async #catchUp(): Promise<void> {
    for (const placed of Object.values(this.#directory.collections)) {
      const own = [...placed.shards.keys()].filter((shard) => placed.shards[shard].includes(this.name));
      if (own.length === 0) continue;
      // If too few replicas have the newest version, those that lack it must not wait for others.
      const home = await this.home(placed).catch((error) => this.#report(error));
      const states = home && this.statesOf(home);
      for (const shard of own) {
        if (this.closing.signal.aborted) return;
        const isCurrentHere = async () => {
          const here = await this.#here(shardName(placed.uid, shard));
          return here !== undefined && states !== undefined && isCurrent(here, states, shard);
        };
        if (await isCurrentHere()) continue;
        await this.#replay(placed);
        if (await isCurrentHere()) continue;
        // What was staged here while it was copied is applied to the copy.
        const copied = await this.repair(placed, shard, { states }).catch((error) => this.#report(error));
        if (copied) await this.#replay(placed);
      }
    }
  }

  /** A shard that moves to this node: it joins the others that keep it once it has a copy. */
  async #takeOver(): Promise<void> {
    for (const [name, placed] of Object.entries(this.#directory.collections)) {
      const { uid, move } = placed;
      if (!move || move.to !== this.name || placed.shards[move.shard].includes(this.name)) continue;
      // What a node lets go of is gone before it takes it up again.
      await this.#letting;
      const shard = shardName(uid, move.shard);
      const tries = (this.#copies.get(shard) ?? 0) + 1;
      this.#copies.set(shard, tries);
      const states = this.statesOf(await this.home(placed));
      const before = await this.#here(shard);
      if (!before || !isCurrent(before, states, move.shard)) await this.repair(placed, move.shard, { states });
      const here = await this.#here(shard);
      if (!here) continue;
      const isNewest = isCurrent(here, this.statesOf(await this.home(placed)), move.shard);
      if (!isNewest && tries < COPIES) continue;
      this.#copies.delete(shard);
      await this.mover.fence(this.#directory, placed);
      await this.mover.setNodes(name, placed, move.shard, [...placed.shards[move.shard], this.name]).catch((error) => {
        if (!(error instanceof HersError && error.code === 'STALE')) throw error;
      });
    }
  }

  /** Shards of collections that were never finished, or that other nodes keep now. */
  async #removeLeftovers(): Promise<void> {
    const placed = new Map(Object.values(this.#directory.collections).map((each) => [each.uid, each]));
    const found = new Set<string>();
    for (const { name, version } of await this.store.listCollections()) {
      const address = readAddress(name);
      if (!address) continue;
      const { uid, shard } = address;
      const known = placed.get(uid);
      if (known?.shards[shard]?.includes(this.name) || (known?.move?.shard === shard && known.move.to === this.name))
        continue;
      found.add(name);
      const seen = this.#leftover.get(name);
      if (seen?.version !== version) this.#leftover.set(name, { version, since: performance.now() });
      // One that is being made or restored has no name yet, and changes.
      const isOld =
        seen?.version === version && performance.now() - seen.since > (this.#options.leftoverMs ?? LEFTOVER_MS);
      if (!known && !isOld) continue;
      const entry = await newestOf(this.ledger, DIRECTORY);
      const isNewest = entry && decodeDirectory(entry.content).version === this.#directory.version;
      if (isNewest) await this.store.deleteCollection(name);
    }
    for (const name of this.#leftover.keys()) if (!found.has(name)) this.#leftover.delete(name);
  }

  /** Reads all files from time to time. */
  async #check(): Promise<void> {
    if (performance.now() - this.#scrubbed < (this.#options.scrubMs ?? SCRUB_MS)) return;
    this.#scrubbed = performance.now();
    for (const { name } of this.store.damagedCollections()) this.#damaged.add(name);
    for await (const { damage, collection } of this.store.scrub({ signal: this.closing.signal, threads: 1 }))
      if (damage && collection !== undefined) this.#damaged.add(collection);
  }

  /** Damaged shards are replaced by what another node has. */
  async #mend(): Promise<void> {
    for (const name of [...this.#damaged]) {
      const address = readAddress(name);
      const placed = Object.values(this.#directory.collections).find(({ uid }) => uid === address?.uid);
      if (!address || !placed?.shards[address.shard]?.includes(this.name)) this.#damaged.delete(name);
      else if (await this.repair(placed, address.shard, { isDamaged: true })) this.#damaged.delete(name);
    }
  }

  async #here(name: string): Promise<ShardState | undefined> {
    try {
      return await this.store.getState(name);
    } catch (error) {
      if (error instanceof HersError && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }

  async #replay(placed: PlacedCollection): Promise<void> {
    try {
      let after = 0;
      // Others go on meanwhile: once more for what is new, and not for ever.
      for (let [done, left] = [false, REPLAYS]; !done && left > 0; left--) {
        done = true;
        for await (const { position, content } of this.ledger.read(placed.uid, after)) {
          await this.#applyHere(placed, decodeEntry(content));
          after = position;
          done = false;
        }
      }
    } catch (error) {
      if (!isPassing(error)) throw error;
    }
  }

  /**
   * Copies a shard from the node that has the newest version of it. Returns whether there was one.
   */
  repair(placed: PlacedCollection, shard: number, options: RepairOptions = {}): Promise<boolean> {
    const name = shardName(placed.uid, shard);
    let repairing = this.#repairing.get(name);
    if (!repairing) {
      repairing = this.#repair(placed, shard, name, options).finally(() => this.#repairing.delete(name));
      this.#repairing.set(name, repairing);
    }
    return repairing;
  }

  async #repair(
    placed: PlacedCollection,
    shard: number,
    name: string,
    { isDamaged = false, states }: RepairOptions,
  ): Promise<boolean> {
    const now = await this.#here(name);
    const here = now?.version;
    const siblings = placed.shards[shard].filter((node) => node !== this.name);
    const asked = await Promise.allSettled(
      siblings.map(async (node) => ({ node, ...(await this.peer(node).getState(name)) })),
    );
    const found = asked.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    // A replica that has lost what it had may have been one of the majority that acknowledged a
    // change. So many others have to be asked that one of them was in every majority.
    const { length } = placed.shards[shard];
    const isMember = placed.shards[shard].includes(this.name);
    if (here === undefined && isMember && found.length < length - majorityOf(length) + 1) return false;
    const isForked = (each: ShardState) =>
      states !== undefined && each.version >= states[shard].version && !isCurrent(each, states, shard);
    const [best] = found.filter((each) => !isForked(each)).sort((a, b) => b.version - a.version);
    if (!best) return false;
    if (now && isForked(now)) this.#options.onBackgroundError?.(forked(name, now.version, best.node));
    else if (best.version < (here ?? 0) || (best.version === here && !isDamaged)) return false;
    const { signal } = this.closing;
    const pieces = this.peer(best.node).snapshot(name, { signal });
    await this.store.replace(name, throttled(pieces, this.#options.copyBytesPerSecond ?? COPY_RATE), { signal });
    return true;
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    this.#unwatch();
    clearInterval(this.#timer);
    this.closing.abort(new HersError('CLOSED', 'this node is closed; start it again'));
    await Promise.all([this.#tending, this.#moving]);
    await Promise.allSettled([...this.#peers.values()].map(({ service }) => service.close()));
    await this.store.close();
    await this.ledger.close();
  }
}

const forked = (name: string, version: number, from: string) =>
  new HersError(
    'DAMAGED',
    `${name} had version ${version} by a change that the ledger lost; it is copied from ${from}`,
  );

/** The answers of the newest version; where it was made by several changes, of the most common. */
function newestAmong(answers: readonly Answer<ShardState>[]): Answer<ShardState>[] {
  const newest = Math.max(...answers.map(({ value }) => value.version));
  const groups = Map.groupBy(
    answers.filter(({ value }) => value.version === newest),
    ({ value }) => value.state,
  );
  return [...groups.values()].reduce((a, b) => (b.length > a.length ? b : a));
}

const OVERTAKEN = 'the ledger has lost an entry, and another change took the place of this one; read it again';
const overtaken = () => new HersError('STALE', OVERTAKEN);
/** Whether a change can never be applied, because a majority has its version by another one. */
export const isOvertaken = (error: unknown) => error instanceof HersError && error.message === OVERTAKEN;

/** Waits for all replicas that answer in time, and for a majority in any case. */
export async function writeTo<T>(
  node: ClusterNode,
  replicas: readonly string[],
  call: (service: ShardService, node: string) => Promise<T>,
): Promise<T> {
  const answers = await quorum(replicas, majorityOf(replicas.length), (each) => call(node.peer(each), each), node);
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
