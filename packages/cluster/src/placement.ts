// Where shards should be, which one moves next so that they get there, and its way.
//
// Where they should be is told by pure functions of the directory and of which nodes live.

import { randomBytes } from 'node:crypto';
import { HersError } from '@hers/service';
import { isCode } from './arguments.ts';
import { isOvertaken, statesOf } from './changes.ts';
import { DIRECTORY, type Directory, decodeDirectory, type Move, type PlacedCollection } from './directory.ts';
import { newestOf } from './ledger.ts';
import type { ClusterNode } from './node.ts';
import { type ChangeEntry, decodeEntry, encodeEntry, isCurrent, shardName } from './shard.ts';

export interface Health {
  /** Nodes that answer now. */
  readonly live: ReadonlySet<string>;
  /** Nodes that have been silent for so long that others take their place. */
  readonly gone: ReadonlySet<string>;
}

export function heldOf({ shards }: PlacedCollection, nodes: readonly string[]): Map<string, number> {
  const held = new Map(nodes.map((node) => [node, 0]));
  for (const node of shards.flat()) held.set(node, (held.get(node) ?? 0) + 1);
  return held;
}

export function takers({ nodes }: Directory, { live }: Health): string[] {
  return Object.keys(nodes)
    .filter((node) => !nodes[node].draining && live.has(node))
    .sort();
}

/**
 * The next move: away from nodes that are gone or are emptied; then so that every shard has its
 * replicas; then so that all nodes have equally many, of each collection and of all together.
 * Nothing where all is as it should be, or no node can take what has to move.
 */
export function nextMove(directory: Directory, health: Health): { name: string; move: Move } | undefined {
  const names = Object.keys(directory.nodes);
  const candidates = takers(directory, health);
  const collections = Object.entries(directory.collections);
  const total = new Map(names.map((node) => [node, 0]));
  for (const [, placed] of collections)
    for (const node of placed.shards.flat()) total.set(node, (total.get(node) ?? 0) + 1);
  const mustLeave = (node: string) =>
    health.gone.has(node) || directory.nodes[node] === undefined || directory.nodes[node].draining === true;
  for (const wanted of ['leave', 'fill', 'even'] as const)
    for (const [name, placed] of collections) {
      const held = heldOf(placed, names);
      const least = (nodes: readonly string[]) =>
        [...nodes].sort((a, b) => held.get(a)! - held.get(b)! || total.get(a)! - total.get(b)! || (a < b ? -1 : 1))[0];
      const move =
        wanted === 'even'
          ? evenMove(placed, candidates, held, total)
          : shardMove(wanted, placed, candidates, least, mustLeave);
      if (move) return { name, move };
    }
  return undefined;
}

function shardMove(
  wanted: 'leave' | 'fill',
  { shards, replicas }: PlacedCollection,
  candidates: readonly string[],
  least: (nodes: readonly string[]) => string | undefined,
  mustLeave: (node: string) => boolean,
): Move | undefined {
  for (const [shard, nodes] of shards.entries()) {
    const free = least(candidates.filter((node) => !nodes.includes(node)));
    if (wanted === 'leave') {
      const from = nodes.find(mustLeave);
      // With replicas to spare, one that must leave needs no successor.
      if (from !== undefined && nodes.length > replicas) return { shard, from };
      if (from !== undefined && free !== undefined) return { shard, from, to: free };
    } else if (nodes.length < replicas && free !== undefined) return { shard, to: free };
    else if (nodes.length > replicas) {
      const counted = least(nodes.map((node) => node));
      return { shard, from: nodes.find((node) => node !== counted)! };
    }
  }
  return undefined;
}

function evenMove(
  { shards }: PlacedCollection,
  candidates: readonly string[],
  held: ReadonlyMap<string, number>,
  total: ReadonlyMap<string, number>,
): Move | undefined {
  let best: { move: Move; gain: readonly [number, number] } | undefined;
  for (const from of candidates)
    for (const to of candidates) {
      const gain = [held.get(from)! - held.get(to)!, total.get(from)! - total.get(to)!] as const;
      // A move of one from a node with one more only changes places, unless it evens the total.
      if (!(gain[0] >= 2 || (gain[0] === 1 && gain[1] >= 2))) continue;
      if (best && (gain[0] < best.gain[0] || (gain[0] === best.gain[0] && gain[1] <= best.gain[1]))) continue;
      const shard = shards.findIndex((nodes) => nodes.includes(from) && !nodes.includes(to));
      if (shard >= 0) best = { move: { shard, from, to }, gain };
    }
  return best?.move;
}

/** A node without shards that does not answer: nobody needs to wait for it any more. */
function nodeToForget({ nodes, collections }: Directory, { gone }: Health): string | undefined {
  const used = new Set(
    Object.values(collections).flatMap(({ shards, move }) => [...shards.flat(), move?.to ?? '', move?.from ?? '']),
  );
  return Object.keys(nodes).find((node) => gone.has(node) && !used.has(node));
}

// Moves shards from node to node, one step at a time. Every node has a mover. That of the first
// node which answers acts; if two do, the ledger lets one through.
//
// The nodes of a shard change by one at a time: a new one joins when it has a copy, and the old one
// leaves when all others are current. Majorities of before and after such a change have a node in
// common, so it does not matter which of the two somebody counts by. Before the next change, nobody
// may count by the one before: a majority of the nodes of before knows the new placement and
// refuses older ones (fence.ts), and the ledger takes no more changes that were prepared for it.

/** A node that answered within this time lives. */
const LIVE_MS = 5_000;

const isStale = (error: unknown) => isCode(error, 'STALE');

function replaced(
  directory: Directory,
  name: string,
  { uid, placement }: PlacedCollection,
  change: (placed: PlacedCollection) => PlacedCollection,
): Directory {
  const now = directory.collections[name];
  if (!now || now.uid !== uid || now.placement !== placement)
    throw new HersError('STALE', `the shards of ${name} have moved meanwhile`);
  return { ...directory, collections: { ...directory.collections, [name]: change(now) } };
}

export class Mover {
  readonly #node: ClusterNode;
  readonly #goneMs: number;

  /** Nodes that are silent for `goneMs` are replaced. */
  constructor(node: ClusterNode, goneMs: number) {
    this.#node = node;
    this.#goneMs = goneMs;
  }

  #health(directory: Directory): Health {
    const names = Object.keys(directory.nodes);
    return {
      live: new Set(names.filter((name) => this.#node.peers.silentMs(name) < LIVE_MS)),
      gone: new Set(names.filter((name) => this.#node.peers.silentMs(name) > this.#goneMs)),
    };
  }

  /** Nodes that may keep shards of a new collection: all but those that are emptied or silent. */
  takers(replicas: number): string[] {
    const { directory } = this.#node.members;
    const all = Object.keys(directory.nodes).filter((name) => !directory.nodes[name].draining);
    const { live } = this.#health(directory);
    const answering = all.filter((name) => live.has(name));
    return answering.length >= replicas ? answering : all;
  }

  async step(): Promise<void> {
    const isFirst = ({ live }: Health) => [...live].sort()[0] === this.#node.name;
    if (!isFirst(this.#health(this.#node.members.directory))) return;
    const directory = await this.#node.members.read();
    const health = this.#health(directory);
    if (!isFirst(health)) return;
    try {
      // A ledger that has lost the directory gets it back: a node that joins reads it there.
      const entry = await newestOf(this.#node.ledger, DIRECTORY);
      if ((entry ? decodeDirectory(entry.content).version : 0) < directory.version)
        return await this.#node.members.change((now) => now);
      for (const [name, placed] of Object.entries(directory.collections))
        if (placed.move) return await this.#advance(directory, name, placed, health);
      const next = nextMove(directory, health);
      if (next) {
        const { name, move } = next;
        const placed = directory.collections[name];
        await this.#node.members.change((now) => replaced(now, name, placed, (each) => ({ ...each, move })));
        return;
      }
      const idle = nodeToForget(directory, health);
      if (idle !== undefined)
        await this.#node.members.change((now) => {
          if (nodeToForget(now, health) !== idle) throw new HersError('STALE', 'the directory was changed meanwhile');
          const { [idle]: _, ...nodes } = now.nodes;
          return { ...now, nodes };
        });
    } catch (error) {
      // Somebody else came first. The next look is at what there is now.
      if (!isStale(error)) throw error;
    }
  }

  async #advance(directory: Directory, name: string, placed: PlacedCollection, health: Health): Promise<void> {
    const { shard, from, to } = placed.move!;
    const nodes = placed.shards[shard];
    const fails =
      to !== undefined &&
      (health.gone.has(to) || directory.nodes[to] === undefined || directory.nodes[to].draining === true);
    const hasJoined = to === undefined || nodes.includes(to);
    // The new node joins by itself, when it has a copy.
    if (!hasJoined && !fails) return;
    if (hasJoined && from !== undefined && nodes.includes(from)) {
      const leaving = fails ? to : from;
      const last = await this.fence(directory, placed);
      const staying = nodes.filter((node) => node !== leaving);
      if (last)
        await this.#node.changes.settle(placed, last).catch((error) => {
          if (!isOvertaken(error)) throw error;
        });
      if (await this.#areCurrent(placed, shard, staying, health, fails ? undefined : to))
        await this.setNodes(name, placed, shard, staying);
      return;
    }
    await this.fence(directory, placed);
    await this.#node.members.change((now) =>
      replaced(now, name, placed, ({ move: _move, before: _before, ...rest }) => rest),
    );
  }

  /** Whether these nodes have all that was acknowledged: all that are not gone, and a majority. */
  async #areCurrent(
    placed: PlacedCollection,
    shard: number,
    nodes: readonly string[],
    { gone }: Health,
    joined: string | undefined,
  ): Promise<boolean> {
    const states = statesOf(await this.#node.changes.home(placed));
    const hasIt = async (node: string) =>
      isCurrent(await this.#node.peers.of(node).getState(shardName(placed.uid, shard)), states, shard);
    const found = await Promise.all(
      nodes.map(async (node) => ({ node, current: await hasIt(node).catch(() => false) })),
    );
    const late = found.filter(({ current }) => !current).map(({ node }) => node);
    if (joined !== undefined && late.includes(joined)) return false;
    return late.every((node) => gone.has(node)) && 2 * (found.length - late.length) > found.length;
  }

  /**
   * Nobody counts by an earlier placement any more, nor can a change be appended that was prepared
   * for one. Returns the newest change.
   */
  async fence(directory: Directory, placed: PlacedCollection): Promise<ChangeEntry | undefined> {
    const { ledger } = this.#node;
    const newest = await newestOf(ledger, placed.uid);
    const last = newest && decodeEntry(newest.content);
    if ((last?.fence ?? 0) >= placed.placement) return last;
    if (placed.before) await this.#node.members.spreadTo(directory, placed.before);
    const fence = { fence: placed.placement, nonce: randomBytes(12).toString('hex') };
    const entry = last ? { ...last, ...fence } : { version: 0, shards: [], ...fence };
    await ledger.append(placed.uid, newest?.position ?? 0, encodeEntry(entry));
    return entry;
  }

  /** Changes the nodes of one shard, by one node. The placement of before is fenced off. */
  async setNodes(name: string, placed: PlacedCollection, shard: number, nodes: readonly string[]): Promise<void> {
    await this.#node.members.change((now) =>
      replaced(now, name, placed, (each) => ({
        ...each,
        placement: each.placement + 1,
        before: each.shards[shard],
        shards: each.shards.map((before, i) => (i === shard ? nodes : before)),
      })),
    );
  }
}
