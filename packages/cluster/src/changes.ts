// What is current of a collection, and how a change becomes it.

import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { eitherSignal, HersError } from '@hers/service';
import { type ShardState, stateOf } from '@hers/store/stages';
import { isCode } from './arguments.ts';
import { majorityOf, type PlacedCollection } from './directory.ts';
import { awaitNewest, newestOf } from './ledger.ts';
import type { ClusterNode } from './node.ts';
import { type Answer, isPassing, quorum } from './quorum.ts';
import {
  addressOf,
  type ChangeEntry,
  decodeEntry,
  decodeHome,
  encodeEntry,
  HOME,
  type Home,
  shardName,
} from './shard.ts';

/**
 * How long a change waits for a majority before it is UNAVAILABLE, and a read for replicas that
 * lag.
 */
const APPLY_MS = 20_000;
const SETTLE_MS = 5_000;
const PAUSE_MS = 50;
/** Entries that the ledger keeps of each collection: beyond them, replicas copy from a sibling. */
const KEPT_ENTRIES = 64;
/** Versions of a collection that a node remembers: more than are made while a search begins. */
const KEPT_HOMES = 64;

/** What the home shard says, and its own state. */
export interface CurrentHome extends ShardState {
  readonly home: Home;
}

/** The state of every shard, that of the home included. */
export function statesOf({ version, state, home }: CurrentHome): ShardState[] {
  return home.shards.map((each, shard) => (shard === HOME ? { version, state } : each));
}

export class Changes {
  readonly #node: ClusterNode;
  /** By collection, the newest home that was read. */
  readonly #homes = new Map<string, CurrentHome>();
  /** By collection, what earlier versions were made of: searches at them are still under way. */
  readonly #earlier = new Map<string, Map<number, readonly ShardState[]>>();

  constructor(node: ClusterNode) {
    this.#node = node;
  }

  forget(uid: string): void {
    this.#homes.delete(uid);
    this.#earlier.delete(uid);
  }

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
    using either = eitherSignal(this.#node.closing.signal, given);
    const { signal } = either;
    const until = performance.now() + SETTLE_MS;
    for (;;) {
      signal.throwIfAborted();
      const majority = majorityOf(nodes.length);
      const answers = await quorum(
        this.#node.peers.nearest(nodes),
        majority,
        (node) => this.#node.peers.of(node).getState(addressOf(placed, HOME)),
        undefined,
        (some) => newestAmong(some).length >= majority,
      );
      const having = newestAmong(answers);
      const newest = having[0].value;
      if (having.length >= majority) {
        const known = this.#homes.get(uid);
        if (known?.state === newest.state) return known;
        const { version, manifest } = await this.#node.peers.of(having[0].node).getManifest(name);
        if (stateOf(manifest) === newest.state)
          return this.#remember(uid, { version, state: newest.state, home: decodeHome(manifest) });
        // It was changed in between; or the node does not have what it says.
        if (performance.now() > until)
          throw new HersError('UNAVAILABLE', `node ${having[0].node} contradicts itself; try again`);
        await pause(1);
      } else if (performance.now() > until)
        throw new HersError('UNAVAILABLE', `too few replicas have the newest version; try again`);
      else await this.#settleNewest(placed).catch(() => pause(PAUSE_MS));
    }
  }

  #remember(uid: string, read: CurrentHome): CurrentHome {
    const { home } = read;
    const known = this.#homes.get(uid);
    if (!known || known.version < read.version) this.#homes.set(uid, read);
    const earlier = this.#earlier.get(uid) ?? new Map<number, readonly ShardState[]>();
    this.#earlier.set(uid, earlier);
    earlier.delete(home.version);
    earlier.set(home.version, statesOf(read));
    for (const version of earlier.keys()) if (earlier.size > KEPT_HOMES) earlier.delete(version);
    return read;
  }

  /** What the shards were at an earlier version of the client's, if this node knows it. */
  earlier(uid: string, version: number): readonly ShardState[] | undefined {
    return this.#earlier.get(uid)?.get(version);
  }

  async #settleNewest(placed: PlacedCollection): Promise<void> {
    const entry = await newestOf(this.#node.ledger, placed.uid);
    if (entry) await this.settle(placed, decodeEntry(entry.content), SETTLE_MS);
    else await pause(PAUSE_MS);
  }

  /**
   * Appends a change that is based on a version. STALE if another one came first, which is applied
   * then.
   */
  async append(
    placed: PlacedCollection,
    based: number,
    change: Omit<ChangeEntry, 'nonce' | 'fence'>,
  ): Promise<ChangeEntry> {
    const newest = await awaitNewest(this.#node.ledger, placed.uid, this.#node.closing.signal);
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
      await this.#node.ledger.append(placed.uid, newest?.position ?? 0, encodeEntry(entry));
    } catch (error) {
      throw isCode(error, 'STALE') ? stale() : error;
    }
    return entry;
  }

  /** Applies an entry to a majority of the replicas of every shard that it touches. */
  async settle(placed: PlacedCollection, entry: ChangeEntry, withinMs: number = APPLY_MS): Promise<void> {
    const until = performance.now() + withinMs;
    await Promise.all(entry.shards.map((each) => this.#settleShard(placed, each, until)));
    if (entry.version % KEPT_ENTRIES === 0) void this.#node.ledger.trim(placed.uid, KEPT_ENTRIES).catch(() => {});
  }

  async #settleShard(
    given: PlacedCollection,
    { shard, ...staged }: ChangeEntry['shards'][number],
    until: number,
  ): Promise<void> {
    for (;;) {
      const placed = this.#node.members.placedNow(given);
      const hasMoved = () => this.#node.members.placedNow(given).placement !== placed.placement;
      let settled = false;
      const apply = async (node: string) => {
        for (;;) {
          try {
            const apply = () => this.#node.peers.of(node).apply(addressOf(placed, shard), staged);
            return await this.#node.peers.inOrder(node, shardName(placed.uid, shard), true, apply);
          } catch (error) {
            this.#node.closing.signal.throwIfAborted();
            // One that lacks something is repaired by its own node, and then has this version.
            const lags = isCode(error, 'NOT_FOUND', 'STALE');
            if (settled || !(lags || isPassing(error)) || performance.now() > until || hasMoved()) throw error;
            await pause(PAUSE_MS);
            if (isCode(error, 'STALE')) await this.#node.members.read().catch(() => {});
          }
        }
      };
      try {
        await quorum(placed.shards[shard], majorityOf(placed.shards[shard].length), apply, this.#node.peers);
        return;
      } catch (error) {
        if (this.#node.closing.signal.aborted) throw error;
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
      placed.shards[shard].map((node) => this.#node.peers.of(node).getState(addressOf(placed, shard))),
    );
    const others = states.filter(
      (each) => each.status === 'fulfilled' && each.value.version === version && each.value.state !== state,
    );
    return others.length >= majorityOf(placed.shards[shard].length);
  }
}

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
export const isOvertaken = (error: unknown): boolean => error instanceof HersError && error.message === OVERTAKEN;
