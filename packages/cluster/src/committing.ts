// A change of a collection: split into one of each shard that it touches, prepared by a majority of
// their replicas, appended to the ledger, and applied.

import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type CallOptions,
  CHANGE_FIELDS,
  type Change,
  checkWhole,
  HersError,
  notHeld,
  type Partitions,
  refuseUnknown,
  type StageId,
  withOtherSections,
} from '@hers/service';
import { stateOf } from '@hers/store/stages';
import { checkBytes, isCode } from './arguments.ts';
import { type Collections, type Current, PLACEMENT_TRIES } from './collections.ts';
import { majorityOf, type PlacedCollection } from './directory.ts';
import { type ClusterNode, writeTo } from './node.ts';
import { quorum } from './quorum.ts';
import {
  addressOf,
  encodeHome,
  HOME,
  homeState,
  isCurrent,
  shardManifest,
  shardName,
  shardOf,
  shardState,
} from './shard.ts';
import type { StageKind, Staging } from './staging.ts';

/** How long a change waits for replicas that lag. */
const LAG_MS = 10_000;
const LAG_PAUSE_MS = 50;

/** Lists the fields of a change that bring something, and those that remove something. */
const STAGED = [
  ['records', 'records'],
  ['lists', 'list'],
  ['blocks', 'block'],
] as const satisfies readonly (readonly [string, StageKind])[];
const REMOVED = [
  ['removed', 'a handle', 16],
  ['droppedLists', 'a list id', 32],
  ['dropped', 'a block id', 16],
] as const;

interface ShardPart {
  readonly records: StageId[];
  readonly removed: Uint8Array[];
  readonly blocks: StageId[];
  readonly dropped: Uint8Array[];
  readonly lists: StageId[];
  readonly droppedLists: Uint8Array[];
}

export class Committing {
  readonly #node: ClusterNode;
  readonly #collections: Collections;
  readonly #staging: Staging;

  constructor(node: ClusterNode, collections: Collections, staging: Staging) {
    this.#node = node;
    this.#collections = collections;
    this.#staging = staging;
  }

  async commit(name: string, change: Change, options?: CallOptions): Promise<number> {
    this.#collections.checkOpen();
    refuseUnknown(change, CHANGE_FIELDS, 'a change', 'field');
    if (!Number.isSafeInteger(change.expected))
      throw new HersError('INVALID_ARGUMENT', 'a change needs the version it is based on');
    checkBytes(change.manifest, 'a manifest');
    const until = performance.now() + LAG_MS;
    for (let left = PLACEMENT_TRIES; ; ) {
      const known = await this.#collections.find(name);
      try {
        return await this.#commit(name, change, options);
      } catch (error) {
        if (left === 0 || !isCode(error, 'STALE', 'UNAVAILABLE', 'NOT_FOUND')) throw error;
        const directory = await this.#node.members.read().catch(() => this.#node.members.directory);
        const now = this.#collections.among(directory, name);
        // If its shards are elsewhere now, it was not the change that failed.
        const hasMoved = now !== undefined && now.uid === known.uid && now.placement !== known.placement;
        if (hasMoved) left--;
        else if (!isCode(error, 'STALE')) throw error;
        else if ((await this.#collections.current(name)).home.version !== change.expected) throw error;
        // Nobody has changed it: too many replicas lag, which they make up for.
        else if (performance.now() > until)
          throw new HersError('UNAVAILABLE', `too many replicas of ${name} lag; try again`);
        else await pause(LAG_PAUSE_MS);
      }
    }
  }

  async #commit(name: string, change: Change, options: CallOptions | undefined): Promise<number> {
    const current = await this.#collections.current(name);
    const { placed, home, states } = current;
    const partitions = options?.partitions;
    if (!partitions) checkWhole(change.manifest);
    const manifest = partitions ? withOtherSections(home.manifest, change.manifest, partitions) : change.manifest;
    // The acknowledgement of this same change was lost.
    if (manifest && Buffer.compare(home.manifest, manifest) === 0) {
      await this.#confirm(current);
      return home.version;
    }
    if (change.expected !== home.version)
      throw new HersError(
        'STALE',
        `${name} has version ${home.version}, and this change is based on ${change.expected}; read it again`,
      );
    if (!manifest) throw notHeld('a manifest with other sections of other partitions');
    const parts = this.#split(placed, change, partitions);
    const version = home.version + 1;
    const made = version + placed.base;
    const mark = randomBytes(8).toString('hex');
    const stateAfter = (shard: number) => (shard === HOME ? homeState(made) : shardState(made, mark));
    const shards = home.shards.map((before, shard) => (parts.has(shard) ? stateAfter(shard) : before));
    const homeManifest = encodeHome({ version, manifest, shards });
    const prepared = await Promise.all(
      [...parts].map(async ([shard, part]) => {
        const shardChange = {
          ...part,
          expected: states[shard].version,
          basis: states[shard].state,
          version: made,
          manifest: shard === HOME ? homeManifest : shardManifest(made, mark),
        };
        const id = await writeTo(this.#node, placed.shards[shard], (service, node) =>
          this.#node.peers.inOrder(node, shardName(placed.uid, shard), true, () =>
            service.prepare(addressOf(placed, shard), shardChange, { partitions }),
          ),
        );
        return { shard, version: made, state: stateOf(shardChange.manifest), change: id };
      }),
    );
    this.#collections.checkOpen();
    try {
      const entry = await this.#node.changes.append(placed, home.version, { version, shards: prepared });
      await this.#node.changes.settle(placed, entry);
      return version;
    } catch (error) {
      if (!isCode(error, 'STALE')) throw error;
      // What came first may be this same change, whose acknowledgement was lost.
      const now = await this.#collections.current(name);
      if (Buffer.compare(now.home.manifest, manifest) !== 0) throw error;
      await this.#confirm(now);
      return now.home.version;
    }
  }

  /** Every shard is on a majority of its replicas as the home says. */
  async #confirm({ placed, states }: Current): Promise<void> {
    await Promise.all(
      placed.shards.map((replicas, shard) =>
        quorum(replicas, majorityOf(replicas.length), async (node) => {
          for (let left = 100; ; left--) {
            const here = await this.#node.peers.of(node).getState(addressOf(placed, shard));
            if (isCurrent(here, states, shard)) return;
            if (left === 0) throw new HersError('UNAVAILABLE', `node ${node} lags; try again`);
            await pause(50);
          }
        }),
      ),
    );
  }

  #split(placed: PlacedCollection, change: Change, partitions: Partitions | undefined): Map<number, ShardPart> {
    const count = placed.shards.length;
    const parts = new Map<number, ShardPart>();
    const partOf = (shard: number): ShardPart => {
      let part = parts.get(shard);
      if (!part) {
        part = { records: [], removed: [], blocks: [], dropped: [], lists: [], droppedLists: [] };
        parts.set(shard, part);
      }
      return part;
    };
    partOf(HOME);
    const names = [...(change.records ?? []), ...(change.blocks ?? []), ...(change.lists ?? [])];
    if (new Set(names).size !== names.length)
      throw new HersError('INVALID_ARGUMENT', 'a change names the same staged thing twice');
    for (const [field, kind] of STAGED)
      for (const name of change[field] ?? [])
        for (const { shard, stage } of this.#staging.read(placed, kind, name, partitions))
          partOf(shard)[field].push(stage);
    for (const [field, what, length] of REMOVED)
      for (const id of change[field] ?? []) {
        checkBytes(id, what, length);
        partOf(shardOf(id, count))[field].push(id);
      }
    return parts;
  }
}
