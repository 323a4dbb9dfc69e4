// Keeps the shards of one node current and whole: it applies the ledger to them, and copies from a
// sibling what the ledger cannot bring up to date, what is damaged, and what moves here.

import { setTimeout as pause } from 'node:timers/promises';
import { HersError } from '@hers/service';
import type { ShardState } from '@hers/store/stages';
import { isCode } from './arguments.ts';
import { isOvertaken, statesOf } from './changes.ts';
import { DIRECTORY, decodeDirectory, isSeen, majorityOf, type PlacedCollection } from './directory.ts';
import { InboxState } from './inbox-state.ts';
import { newestOf } from './ledger.ts';
import type { ClusterNode } from './node.ts';
import { isPassing } from './quorum.ts';
import { type ChangeEntry, decodeEntry, decodeHome, HOME, isCurrent, readAddress, shardName } from './shard.ts';

export interface KeeperOptions {
  /** Milliseconds after which shards that no collection has are removed; an hour by default. */
  readonly leftoverMs?: number;
  /** Milliseconds between two checks of all files; a day by default. */
  readonly scrubMs?: number;
  /** Bytes a second at which shards are copied to this node; 64 MiB by default. */
  readonly copyBytesPerSecond?: number;
  readonly onBackgroundError?: (error: unknown) => void;
}

const LEFTOVER_MS = 3_600_000;
const SCRUB_MS = 24 * 3_600_000;
const COPY_RATE = 2 ** 26;
const REPLAYS = 5;
const HEARD_MS = 1_000;
/** A new replica that was copied so often without being current joins as it is. */
const COPIES = 3;

interface RepairOptions {
  /** Even if this node has it. */
  readonly isDamaged?: boolean;
  /** What a majority has of every shard. What contradicts it is not copied, and replaced here. */
  readonly states?: readonly ShardState[] | undefined;
}

export class Keeper {
  readonly #node: ClusterNode;
  readonly #options: KeeperOptions;
  readonly #repairing = new Map<string, Promise<boolean>>();
  readonly #damaged = new Set<string>();
  /** Shards of no collection, with their version and since when they have it. */
  readonly #leftover = new Map<string, { readonly version: number; readonly since: number }>();
  readonly #copies = new Map<string, number>();
  readonly #replaying = new Set<string>();
  /** By collection, the newest change that was applied here and perhaps not everywhere. */
  readonly #unsettled = new Map<string, ChangeEntry>();
  #scrubbed = performance.now();

  constructor(node: ClusterNode, options: KeeperOptions) {
    this.#node = node;
    this.#options = options;
  }

  damaged(shard: string): void {
    this.#damaged.add(shard);
  }

  async hear(topic: string): Promise<void> {
    if (topic === DIRECTORY) return this.#node.members.catchUp();
    const placed = Object.values(this.#node.members.directory.collections).find(({ uid }) => uid === topic);
    const entry = placed && (await newestOf(this.#node.ledger, topic));
    if (!entry || (await this.#applyHere(placed, decodeEntry(entry.content))) || this.#replaying.has(topic)) return;
    // It is a little late, and may have all that it needs.
    this.#replaying.add(topic);
    await this.#replay(placed).finally(() => this.#replaying.delete(topic));
  }

  /** Whether no shard here lacks something; if one does, it is left to `#tend`. */
  async #applyHere({ uid, shards }: PlacedCollection, entry: ChangeEntry): Promise<boolean> {
    let isWhole = true;
    // Whoever makes a change visible sees to it that all shards have it, even if NATS is gone then.
    if (shards[HOME].includes(this.#node.name) && entry.version > (this.#unsettled.get(uid)?.version ?? 0))
      this.#unsettled.set(uid, entry);
    for (const { shard, ...staged } of entry.shards)
      if (shards[shard]?.includes(this.#node.name))
        await this.#node.store.apply(shardName(uid, shard), staged).catch((error) => {
          const lags = isCode(error, 'NOT_FOUND', 'STALE', 'CLOSED');
          if (!lags) throw error;
          isWhole = false;
        });
    return isWhole;
  }

  /** Sees to it that all shards get what the home here has. */
  async settleHeard(): Promise<void> {
    for (const [uid, entry] of this.#unsettled) {
      const placed = Object.values(this.#node.members.directory.collections).find((each) => each.uid === uid);
      const isSettled =
        placed === undefined ||
        (await this.#node.changes.settle(placed, entry, HEARD_MS).then(
          () => true,
          (error) => isOvertaken(error) || (this.#node.report(error) ?? false),
        ));
      if (isSettled && this.#unsettled.get(uid) === entry) this.#unsettled.delete(uid);
    }
  }

  /** Shards here that are missing or lag. */
  async catchUp(): Promise<void> {
    for (const placed of Object.values(this.#node.members.directory.collections)) {
      if (this.#node.closing.signal.aborted) return;
      // What is wrong with one collection is not the fault of the next.
      await this.#catchUp(placed).catch((error) => this.#node.report(error));
    }
  }

  async #catchUp(placed: PlacedCollection): Promise<void> {
    const own = [...placed.shards.keys()].filter((shard) => placed.shards[shard].includes(this.#node.name));
    if (own.length === 0) return;
    // If too few replicas have the newest version, those that lack it must not wait for others.
    const home = await this.#node.changes.home(placed).catch((error) => this.#node.report(error));
    const states = home && statesOf(home);
    for (const shard of own) {
      if (this.#node.closing.signal.aborted) return;
      const isCurrentHere = async () => {
        const here = await this.#here(shardName(placed.uid, shard));
        return here !== undefined && states !== undefined && isCurrent(here, states, shard);
      };
      if (await isCurrentHere()) continue;
      await this.#replay(placed);
      if (await isCurrentHere()) continue;
      // What was staged here while it was copied is applied to the copy.
      const copied = await this.repair(placed, shard, { states }).catch((error) => this.#node.report(error));
      if (copied) await this.#replay(placed);
    }
  }

  /** A shard that moves to this node: it joins the others that keep it once it has a copy. */
  async takeOver(): Promise<void> {
    for (const [name, placed] of Object.entries(this.#node.members.directory.collections)) {
      const { uid, move } = placed;
      if (!move || move.to !== this.#node.name || placed.shards[move.shard].includes(this.#node.name)) continue;
      // What a node lets go of is gone before it takes it up again.
      await this.#node.members.letGone();
      const shard = shardName(uid, move.shard);
      const tries = (this.#copies.get(shard) ?? 0) + 1;
      this.#copies.set(shard, tries);
      const states = statesOf(await this.#node.changes.home(placed));
      const before = await this.#here(shard);
      if (!before || !isCurrent(before, states, move.shard)) await this.repair(placed, move.shard, { states });
      const here = await this.#here(shard);
      if (!here) continue;
      const isNewest = isCurrent(here, statesOf(await this.#node.changes.home(placed)), move.shard);
      if (!isNewest && tries < COPIES) continue;
      this.#copies.delete(shard);
      await this.#node.mover.fence(this.#node.members.directory, placed);
      await this.#node.mover
        .setNodes(name, placed, move.shard, [...placed.shards[move.shard], this.#node.name])
        .catch((error) => {
          if (!isCode(error, 'STALE')) throw error;
        });
    }
  }

  /** Shards of collections that were never finished, or that other nodes keep now. */
  async removeLeftovers(): Promise<void> {
    const placed = new Map(Object.values(this.#node.members.directory.collections).map((each) => [each.uid, each]));
    const found = new Set<string>();
    for (const { name, version } of await this.#node.store.listCollections()) {
      const address = readAddress(name);
      if (!address) continue;
      const { uid, shard } = address;
      const known = placed.get(uid);
      if (
        known?.shards[shard]?.includes(this.#node.name) ||
        (known?.move?.shard === shard && known.move.to === this.#node.name)
      )
        continue;
      found.add(name);
      const seen = this.#leftover.get(name);
      if (seen?.version !== version) this.#leftover.set(name, { version, since: performance.now() });
      // One that is being made or restored has no name yet, and changes.
      const isOld =
        seen?.version === version && performance.now() - seen.since > (this.#options.leftoverMs ?? LEFTOVER_MS);
      if (!known && !isOld) continue;
      const entry = await newestOf(this.#node.ledger, DIRECTORY);
      const isNewest = entry && decodeDirectory(entry.content).version === this.#node.members.directory.version;
      if (isNewest) await this.#node.store.deleteCollection(name);
    }
    for (const name of this.#leftover.keys()) if (!found.has(name)) this.#leftover.delete(name);
  }

  async check(): Promise<void> {
    if (performance.now() - this.#scrubbed < (this.#options.scrubMs ?? SCRUB_MS)) return;
    this.#scrubbed = performance.now();
    for (const { name } of this.#node.store.damagedCollections()) this.#damaged.add(name);
    const { signal } = this.#node.closing;
    for await (const { damage, collection } of this.#node.store.scrub({ signal, threads: 1 })) {
      if (!damage) continue;
      if (collection !== undefined) this.#damaged.add(collection);
      // Of the catalogue itself: when it is opened again, it is set aside (start.ts).
      else this.#options.onBackgroundError?.(damage);
    }
  }

  /** Inboxes here, where most of what is on disk was dropped. */
  async reclaim(): Promise<void> {
    for (const [name, { uid, shards }] of Object.entries(this.#node.members.directory.collections)) {
      if (isSeen(name) || !shards[HOME].includes(this.#node.name)) continue;
      const liveBytes = (home: Uint8Array) => InboxState.decode(decodeHome(home).manifest).size.bytes;
      await this.#node.store.reclaim(shardName(uid, HOME), liveBytes).catch((error) => this.#node.report(error));
    }
  }

  /** Damaged shards are replaced by what another node has. */
  async mend(): Promise<void> {
    for (const name of [...this.#damaged]) {
      const address = readAddress(name);
      const placed = Object.values(this.#node.members.directory.collections).find(({ uid }) => uid === address?.uid);
      if (!address || !placed?.shards[address.shard]?.includes(this.#node.name)) this.#damaged.delete(name);
      else if (await this.repair(placed, address.shard, { isDamaged: true })) this.#damaged.delete(name);
    }
  }

  async #here(name: string): Promise<ShardState | undefined> {
    try {
      return await this.#node.store.getState(name);
    } catch (error) {
      if (isCode(error, 'NOT_FOUND')) return undefined;
      throw error;
    }
  }

  async #replay(placed: PlacedCollection): Promise<void> {
    try {
      let after = 0;
      // Others go on meanwhile: once more for what is new, and not for ever.
      for (let [done, left] = [false, REPLAYS]; !done && left > 0; left--) {
        done = true;
        for await (const { position, content } of this.#node.ledger.read(placed.uid, after)) {
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
    const siblings = placed.shards[shard].filter((node) => node !== this.#node.name);
    const asked = await Promise.allSettled(
      siblings.map(async (node) => ({ node, ...(await this.#node.peers.of(node).getState(name)) })),
    );
    const found = asked.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    // A replica that has lost what it had may have been one of the majority that acknowledged a
    // change. So many others have to be asked that one of them was in every majority.
    const { length } = placed.shards[shard];
    const isMember = placed.shards[shard].includes(this.#node.name);
    if (here === undefined && isMember && found.length < length - majorityOf(length) + 1) return false;
    const isForked = (each: ShardState) =>
      states !== undefined && each.version >= states[shard].version && !isCurrent(each, states, shard);
    const [best] = found.filter((each) => !isForked(each)).sort((a, b) => b.version - a.version);
    if (!best) return false;
    if (now && isForked(now)) this.#options.onBackgroundError?.(forked(name, now.version, best.node));
    else if (best.version < (here ?? 0) || (best.version === here && !isDamaged)) return false;
    const signal = this.#node.closing.signal;
    const pieces = this.#node.peers.of(best.node).snapshot(name, { signal });
    await this.#node.store.replace(name, throttled(pieces, this.#options.copyBytesPerSecond ?? COPY_RATE), { signal });
    return true;
  }
}

const forked = (name: string, version: number, from: string) =>
  new HersError(
    'DAMAGED',
    `${name} had version ${version} by a change that the ledger lost; it is copied from ${from}`,
  );

/** Passes pieces on, as many bytes a second as this at most, on average since the first. */
async function* throttled(pieces: AsyncIterable<Uint8Array>, bytesPerSecond: number): AsyncGenerator<Uint8Array> {
  const began = performance.now();
  let bytes = 0;
  for await (const piece of pieces) {
    yield piece;
    bytes += piece.length;
    const wait = (1000 * bytes) / bytesPerSecond - (performance.now() - began);
    if (wait > 1) await pause(wait);
  }
}
