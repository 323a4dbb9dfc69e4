// The other nodes, as one node sees them: connections, who failed to answer lately, and who has
// been silent for how long.

import { HersError } from '@hers/service';
import type { ClusterNode, NodeOptions } from './node.ts';
import type { ShardService } from './shard.ts';

const SUSPECT_MS = 3_000;

export class Peers {
  readonly #node: ClusterNode;
  readonly #connect: NodeOptions['connect'];
  readonly #peers = new Map<string, { readonly url: string; readonly service: ShardService }>();
  readonly #suspects = new Map<string, number>();
  readonly #clock = new AwakeClock();
  readonly #began = this.#clock.now();
  readonly #heard = new Map<string, number>();
  /** By node and shard: calls that are under way, though nobody may wait for them. */
  readonly #underWay = new Map<string, Set<Promise<unknown>>>();

  constructor(node: ClusterNode, connect: NodeOptions['connect']) {
    this.#node = node;
    this.#connect = connect;
  }

  /** The shards of a node, which may be this one. UNAVAILABLE where there is no such node. */
  of(node: string): ShardService {
    this.#node.closing.signal.throwIfAborted();
    if (node === this.#node.name) return this.#node.shards;
    const info = this.#node.members.infoOf(node);
    if (!info) throw new HersError('UNAVAILABLE', `there is no node ${node} in this cluster any more`);
    const known = this.#peers.get(node);
    if (known?.url === info.url) return known.service;
    void known?.service.close();
    const service = this.#connect(node, info);
    this.#peers.set(node, { url: info.url, service });
    return service;
  }

  /**
   * Nodes in the order in which they are asked: this one first, then those from a random one on.
   */
  nearest(nodes: readonly string[]): string[] {
    const others = nodes.filter((node) => node !== this.#node.name);
    const first = Math.floor(Math.random() * others.length);
    const turned = [...others.slice(first), ...others.slice(0, first)];
    return [
      ...nodes.filter((node) => node === this.#node.name),
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

  heard(node: string): void {
    this.#heard.set(node, this.#clock.now());
  }

  /** Milliseconds since a node answered, or since this one has been watching. */
  silentMs(node: string): number {
    return node === this.#node.name ? 0 : this.#clock.now() - (this.#heard.get(node) ?? this.#began);
  }

  async close(): Promise<void> {
    this.#clock.stop();
    await Promise.allSettled([...this.#peers.values()].map(({ service }) => service.close()));
  }
}

const TICK_MS = 500;
/** Between two ticks, at most. */
const LONGEST_MS = 4 * TICK_MS;

/**
 * Counts the time in which this process could run. While its machine sleeps or it is stopped,
 * nobody else has been silent.
 */
class AwakeClock {
  #last = performance.now();
  #ms = 0;
  readonly #timer: NodeJS.Timeout = setInterval(() => this.now(), TICK_MS).unref();

  /** Milliseconds since it was made. */
  now(): number {
    const now = performance.now();
    this.#ms += Math.min(now - this.#last, LONGEST_MS);
    this.#last = now;
    return this.#ms;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
