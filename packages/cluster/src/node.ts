// A node: a folder with shards, a copy of the directory, and loops that keep both as the ledger and
// the other nodes say.

import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { HersError } from '@hers/service';
import type { FolderStore } from '@hers/store';
import { isCode } from './arguments.ts';
import { Changes } from './changes.ts';
import { DIRECTORY, decodeDirectory, majorityOf, type NodeInfo, type PlacedCollection } from './directory.ts';
import { type ClusterCalls, fencedShards } from './fence.ts';
import { Keeper, type KeeperOptions } from './keeper.ts';
import type { Ledger } from './ledger.ts';
import { Members } from './members.ts';
import { Peers } from './peers.ts';
import { Mover } from './placement.ts';
import { firstOf, isGone, isPassing, quorum } from './quorum.ts';
import { type ShardService, shardName, shardOf } from './shard.ts';

export interface NodeOptions extends KeeperOptions {
  readonly name: string;
  readonly url: string;
  /** The shards that this node keeps. It is closed with the node. */
  readonly store: FolderStore;
  /** The same behind its fence, where it is served before the node is made. */
  readonly shards?: (calls: ClusterCalls) => ShardService;
  readonly ledger: Ledger;
  readonly connect: (name: string, info: NodeInfo) => ShardService;
  /** Milliseconds between two looks at what lags; a second by default. */
  readonly tendMs?: number;
  /** Milliseconds of silence after which a node is replaced by others; a minute by default. */
  readonly goneMs?: number;
}

/** How long a new node tries to join: the ledger or most of the other nodes may be starting too. */
const JOIN_MS = 60_000;
const PAUSE_MS = 50;
const GONE_MS = 60_000;
const TEND_MS = 1_000;

export class ClusterNode {
  readonly name: string;
  readonly url: string;
  readonly store: FolderStore;
  readonly ledger: Ledger;
  readonly closing: AbortController = new AbortController();
  readonly peers: Peers;
  readonly members: Members;
  readonly changes: Changes;
  readonly mover: Mover;
  /** The shards of this node as others see them. */
  readonly shards: ShardService;
  readonly #options: NodeOptions;
  readonly #keeper: Keeper;
  #unwatch: () => void = () => {};
  #timer: NodeJS.Timeout | undefined;
  #tending: Promise<void> | undefined;
  #moving: Promise<void> | undefined;

  constructor(options: NodeOptions) {
    const { name, url, store, ledger, connect } = options;
    this.#options = options;
    this.name = name;
    this.url = url;
    this.store = store;
    this.ledger = ledger;
    const calls: ClusterCalls = {
      drain: (node, draining) => this.members.drain(node, draining),
      setReplicas: (collection, replicas) => this.members.setReplicas(collection, replicas),
      damaged: (shard) => this.#keeper.damaged(shard),
      lists: (uid, ids, signal) => this.#lists(uid, ids, signal),
      knowsDirectory: () => this.members.isSure,
    };
    this.shards = options.shards?.(calls) ?? fencedShards(store, () => calls);
    this.peers = new Peers(this, connect);
    this.members = new Members(this);
    this.changes = new Changes(this);
    this.mover = new Mover(this, options.goneMs ?? GONE_MS);
    this.#keeper = new Keeper(this, options);
  }

  /** Whether this folder has been a node before, at this address. */
  async isKnown(): Promise<boolean> {
    const known = await this.store.getManifest(DIRECTORY).catch(() => undefined);
    return known !== undefined && decodeDirectory(known.manifest).nodes[this.name]?.url === this.url;
  }

  /** Reads what it knows, joins the cluster, and begins to follow the ledger. */
  async start(): Promise<void> {
    await this.members.load();
    this.#unwatch = this.ledger.watch((topic) => void this.#keeper.hear(topic).catch((error) => this.report(error)));
    // A node that is known serves what it has even if the ledger is out of reach.
    if (this.members.isMember) void this.members.join().catch((error) => this.report(error));
    else await retryPassing(JOIN_MS, () => this.members.join(true));
    const tend = () => {
      this.#tending ??= this.#tend().finally(() => {
        this.#tending = undefined;
      });
      this.#moving ??= this.#move().finally(() => {
        this.#moving = undefined;
      });
    };
    this.#timer = setInterval(tend, this.#options.tendMs ?? TEND_MS).unref();
    tend();
  }

  /**
   * Lists of a collection, from whichever nodes keep them: this one first. They are what their ids
   * say, whoever gives them.
   */
  async *#lists(uid: string, ids: readonly Uint8Array[], signal: AbortSignal): AsyncGenerator<Uint8Array> {
    for (const id of ids)
      for (let known: PlacedCollection | undefined; ; ) {
        signal.throwIfAborted();
        const placed = Object.values(this.members.directory.collections).find((each) => each.uid === uid);
        if (!placed) throw new HersError('NOT_FOUND', 'this collection is no more');
        const shard = shardOf(id, placed.shards.length);
        try {
          yield await firstOf(this.peers.nearest(placed.shards[shard]), async (node) => {
            const [list] = await Array.fromAsync(this.peers.of(node).getLists(shardName(uid, shard), [id], { signal }));
            const hash = createHash('sha256').update(list).digest();
            if (Buffer.compare(hash, id) === 0) return list;
            throw new HersError('DAMAGED', `node ${node} gave another list than it was asked for`);
          });
          break;
        } catch (error) {
          signal.throwIfAborted();
          // Its shard may be elsewhere now.
          if (known) throw error;
          known = placed;
          await this.members.read();
        }
      }
  }

  /** Tells of an error of background work, unless it passes by itself. */
  report(error: unknown): undefined {
    // Shards that moved, or changed, while they were looked at are looked at again.
    const passes = isPassing(error) || isCode(error, 'STALE', 'NOT_FOUND');
    if (!this.closing.signal.aborted && !passes) this.#options.onBackgroundError?.(error);
  }

  /** Looks for what lags or is damaged here, and does something about it. NATS may be gone. */
  #tend(): Promise<void> {
    return this.#doAll([
      () => this.members.read(),
      () => this.#keeper.settleHeard(),
      () => this.#keeper.catchUp(),
      () => this.#keeper.check(),
      () => this.#keeper.mend(),
      () => this.#keeper.reclaim(),
    ]);
  }

  /**
   * The same for what moves or is left over. It waits for NATS. What removes a shard here and what
   * takes it up again are never done at once.
   */
  #move(): Promise<void> {
    return this.#doAll([
      () => this.#rejoin(),
      () => this.#keeper.takeOver(),
      () => this.#keeper.removeLeftovers(),
      () => this.mover.step(),
    ]);
  }

  async #doAll(steps: readonly (() => Promise<unknown>)[]): Promise<void> {
    for (const step of steps)
      try {
        if (this.closing.signal.aborted) return;
        await step();
      } catch (error) {
        this.report(error);
      }
  }

  /** A node that others took for gone, and forgot, is back. */
  async #rejoin(): Promise<void> {
    const { version, nodes } = this.members.directory;
    if (version > 0 && !Object.hasOwn(nodes, this.name)) await this.members.join();
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    this.#unwatch();
    clearInterval(this.#timer);
    this.closing.abort(new HersError('CLOSED', 'this node is closed; start it again'));
    await Promise.all([this.#tending, this.#moving]);
    await this.peers.close();
    await this.store.close();
    await this.ledger.close();
  }
}

/** Waits for all replicas that answer in time, and for a majority in any case. */
export async function writeTo<T>(
  node: ClusterNode,
  replicas: readonly string[],
  call: (service: ShardService, node: string) => Promise<T>,
): Promise<T> {
  const answers = await quorum(
    replicas,
    majorityOf(replicas.length),
    (each) => call(node.peers.of(each), each),
    node.peers,
  );
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
