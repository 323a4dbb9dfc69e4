// The directory as one node knows it: it follows the ledger, and what a majority of the nodes has
// counts. Whoever changes it brings the change to a majority.

import { setTimeout as pause } from 'node:timers/promises';
import { HersError, type Service } from '@hers/service';
import { isCode } from './arguments.ts';
import {
  DIRECTORY,
  type Directory,
  decodeDirectory,
  EMPTY_DIRECTORY,
  encodeDirectory,
  INBOXES,
  majorityOf,
  type NodeInfo,
  type PlacedCollection,
} from './directory.ts';
import { awaitNewest, newestOf } from './ledger.ts';
import type { ClusterNode } from './node.ts';
import { isPassing, quorum } from './quorum.ts';
import { shardName } from './shard.ts';

const PAUSE_MS = 20;

export class Members {
  readonly #node: ClusterNode;
  #directory: Directory = EMPTY_DIRECTORY;
  #isSure = false;
  /** What the ledger had when this node last changed it. */
  #joining: Directory = EMPTY_DIRECTORY;
  #adopting: Promise<unknown> = Promise.resolve();
  #letting: Promise<unknown> = Promise.resolve();

  constructor(node: ClusterNode) {
    this.#node = node;
  }

  /** As this node knows it. */
  get directory(): Directory {
    return this.#directory;
  }

  /**
   * Whether it has all that this node ever told others that it has. One that lost its folder knows
   * nothing until the ledger has taken its entry, and must not be counted before: it may have been
   * one of the majority that had the newest directory.
   */
  get isSure(): boolean {
    return this.#isSure;
  }

  /** What is known of a node, also before this one has joined. */
  infoOf(node: string): NodeInfo | undefined {
    const { nodes } = this.#isSure ? this.#directory : this.#joining;
    return Object.hasOwn(nodes, node) ? nodes[node] : undefined;
  }

  /** Whether the directory has this node at its address. */
  get isMember(): boolean {
    const { name, url } = this.#node;
    return this.#directory.nodes[name]?.url === url;
  }

  async load(): Promise<void> {
    const { store } = this.#node;
    const known = await store.getManifest(DIRECTORY).catch(() => undefined);
    if (known) {
      this.#directory = decodeDirectory(known.manifest);
      this.#isSure = this.#directory.version > 0;
    } else
      await store.createCollection(DIRECTORY, {
        id: new Uint8Array(16),
        descriptor: new Uint8Array(0),
        manifest: encodeDirectory(EMPTY_DIRECTORY),
      });
  }

  /**
   * Enters this node, unless the ledger has it. One with an empty folder enters itself in any case:
   * a server of NATS that lags may give a directory of long ago, of which this node would not know
   * better, and appending to that is refused.
   */
  async join(isEmpty = false): Promise<void> {
    const { name, url } = this.#node;
    await this.catchUp();
    if (this.isMember && !isEmpty) return;
    await this.change((directory) => ({
      ...directory,
      nodes: { ...directory.nodes, [name]: { ...directory.nodes[name], url } },
    }));
  }

  /** The directory as a majority of the nodes has it. */
  async read(): Promise<Directory> {
    const read = async (node: string) => {
      const { manifest } = await this.#node.peers.of(node).getManifest(DIRECTORY);
      this.#node.peers.heard(node);
      return decodeDirectory(manifest);
    };
    for (let known = this.#directory; ; ) {
      const nodes = Object.keys(known.nodes);
      if (nodes.length === 0) throw new HersError('UNAVAILABLE', 'this node has not joined a cluster yet; try again');
      const answers = await quorum(nodes, majorityOf(nodes.length), read);
      const newest = answers.map(({ value }) => value).reduce((a, b) => (b.version > a.version ? b : a));
      if (answers.some(({ value }) => value.version < newest.version)) await this.#spread(newest);
      // A node whose disk is full still reads what others have.
      await this.#adopt(newest).catch((error) => {
        if (!isPassing(error)) throw error;
      });
      // A majority of earlier nodes knows of the nodes that came next, and not of what came then.
      if (sameNodes(newest, known)) return newest;
      known = newest;
    }
  }

  /** Changes the directory; `change` may be called again if another change comes first. */
  async change(change: (directory: Directory) => Directory): Promise<void> {
    for (;;) {
      const entry = await awaitNewest(this.#node.ledger, DIRECTORY, this.#node.closing.signal);
      const read = entry ? decodeDirectory(entry.content) : EMPTY_DIRECTORY;
      // A server of NATS that has just started may give an older one than there is, or none. To
      // append to that is STALE; and where the ledger has lost something, it has this one again.
      this.#joining = read;
      const known = await this.#known(read);
      const current = read.version < known.version ? known : read;
      const next = { ...change(current), version: current.version + 1 };
      // Majorities of before and after have a node in common if the nodes change by one at a time,
      // and each change is known before the next is made.
      const isFirst = Object.keys(current.nodes).length === 0;
      if (!isFirst && !sameNodes(next, current)) await this.#spread(current);
      try {
        await this.#node.ledger.append(DIRECTORY, entry?.position ?? 0, encodeDirectory(next));
      } catch (error) {
        if (!isCode(error, 'STALE')) throw error;
        await pause(PAUSE_MS);
        continue;
      }
      await this.#adopt(next);
      this.#isSure = true;
      await this.#spread(next);
      void this.#node.ledger.trim(DIRECTORY, 1).catch(() => {});
      return;
    }
  }

  /**
   * The newest that the nodes have. One that cannot count itself asks so many of those that the
   * ledger names that one of them was in every majority.
   */
  async #known(read: Directory): Promise<Directory> {
    if (this.#isSure) return this.read();
    const { length } = Object.keys(read.nodes);
    const others = Object.keys(read.nodes).filter((node) => node !== this.#node.name);
    const needed = Math.min(length - majorityOf(length) + 1, others.length);
    const answers = await quorum(others, needed, async (node) =>
      decodeDirectory((await this.#node.peers.of(node).getManifest(DIRECTORY)).manifest),
    );
    return answers.reduce((newest, { value }) => (value.version > newest.version ? value : newest), EMPTY_DIRECTORY);
  }

  #spread(directory: Directory): Promise<void> {
    return this.spreadTo(directory, Object.keys(directory.nodes));
  }

  async spreadTo(directory: Directory, nodes: readonly string[]): Promise<void> {
    await quorum(
      nodes,
      majorityOf(nodes.length),
      (node) => bring(this.#node.peers.of(node), directory),
      this.#node.peers,
    );
  }

  /** Takes over what the ledger has. */
  async catchUp(): Promise<void> {
    if (!this.#isSure) return;
    const entry = await newestOf(this.#node.ledger, DIRECTORY);
    if (entry) await this.#adopt(decodeDirectory(entry.content));
  }

  drain(node: string, draining: boolean): Promise<void> {
    return this.change((directory) => {
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
    return this.change((directory) => {
      const placed = Object.hasOwn(directory.collections, name) ? directory.collections[name] : undefined;
      if (!placed) throw new HersError('NOT_FOUND', `there is no collection ${JSON.stringify(name)}`);
      const nodes = Object.keys(directory.nodes).length;
      if (replicas > nodes)
        throw new HersError(
          'INVALID_ARGUMENT',
          `${replicas} replicas need as many nodes, and this cluster has ${nodes}`,
        );
      const inbox = INBOXES + placed.uid;
      const its = Object.hasOwn(directory.collections, inbox) ? directory.collections[inbox] : undefined;
      return {
        ...directory,
        collections: {
          ...directory.collections,
          [name]: { ...placed, replicas },
          ...(its ? { [inbox]: { ...its, replicas } } : {}),
        },
      };
    });
  }

  placedNow(placed: PlacedCollection): PlacedCollection {
    return Object.values(this.#directory.collections).find(({ uid }) => uid === placed.uid) ?? placed;
  }

  /** Takes a newer directory over, and lets go of the shards that are kept elsewhere, or gone. */
  #adopt(directory: Directory): Promise<void> {
    const adopting = this.#adopting.then(async () => {
      const before = this.#directory;
      if (directory.version <= before.version) return;
      await bring(this.#node.store, directory);
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
      if (!now.has(uid)) this.#node.changes.forget(uid);
      for (const [shard, nodes] of shards.entries())
        if (nodes.includes(this.#node.name) && !now.get(uid)?.shards[shard].includes(this.#node.name))
          this.#letting = this.#letting.then(() =>
            this.#node.store.deleteCollection(shardName(uid, shard)).catch(() => {}),
          );
    }
  }

  /** Resolves when what this node has let go is gone. */
  async letGone(): Promise<void> {
    await this.#letting;
  }
}

/** Whether both have the same nodes, wherever these are reached. */
const sameNodes = (a: Directory, b: Directory) =>
  Object.keys(a.nodes).sort().join() === Object.keys(b.nodes).sort().join();

/** Puts a directory into a folder, unless that has a newer one. Others may do so as well. */
async function bring(service: Service, directory: Directory): Promise<void> {
  for (;;) {
    const known = await service.getManifest(DIRECTORY);
    if (decodeDirectory(known.manifest).version >= directory.version) return;
    try {
      await service.commit(DIRECTORY, { expected: known.version, manifest: encodeDirectory(directory) });
      return;
    } catch (error) {
      if (!isCode(error, 'STALE')) throw error;
    }
  }
}
