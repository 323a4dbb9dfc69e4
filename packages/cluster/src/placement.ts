// Where shards should be, and which one moves next so that they get there. Pure functions of the
// directory and of which nodes live.

import type { Directory, Move, PlacedCollection } from './directory.ts';

export interface Health {
  /** Nodes that answer now. */
  readonly live: ReadonlySet<string>;
  /** Nodes that have been silent for so long that others take their place. */
  readonly gone: ReadonlySet<string>;
}

/** Shards that each node keeps, of one collection. */
export function heldOf({ shards }: PlacedCollection, nodes: readonly string[]): Map<string, number> {
  const held = new Map(nodes.map((node) => [node, 0]));
  for (const node of shards.flat()) held.set(node, (held.get(node) ?? 0) + 1);
  return held;
}

/** Nodes that may get shards. */
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
export function nodeToForget({ nodes, collections }: Directory, { gone }: Health): string | undefined {
  const used = new Set(
    Object.values(collections).flatMap(({ shards, move }) => [...shards.flat(), move?.to ?? '', move?.from ?? '']),
  );
  return Object.keys(nodes).find((node) => gone.has(node) && !used.has(node));
}
