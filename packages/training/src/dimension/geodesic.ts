// Shortest-path (geodesic) distances on the graph of the k nearest neighbours.

import { CompressError } from '@hers/compress';
import type { Neighbours } from './nearest.ts';

/**
 * An undirected graph in compressed rows: the neighbours of node i are target[start[i]] …
 * target[start[i + 1] − 1].
 */
export interface Graph {
  readonly start: Int32Array;
  readonly target: Int32Array;
  readonly length: Float64Array;
}

/**
 * Two points are joined when one is among the k nearest of the other. Neighbours must hold at least
 * k.
 */
export function neighbourGraph({ count, k: held, index, distance }: Neighbours, k: number): Graph {
  if (!(k >= 1 && k <= held))
    throw new CompressError('INVALID_ARGUMENT', `there are ${held} neighbours of each point, not ${k}`);
  const isNearest = (i: number, j: number) => {
    for (let n = i * held; n < i * held + k; n++) if (index[n] === j) return true;
    return false;
  };
  const start = new Int32Array(count + 1);
  // Every edge is counted at both ends, once, though both ends may have asked for it.
  const eachEdge = (visit: (i: number, j: number, far: number) => void) => {
    for (let i = 0; i < count; i++)
      for (let n = i * held; n < i * held + k; n++) {
        const j = index[n];
        if (j < i && isNearest(j, i)) continue;
        visit(i, j, distance[n]);
        visit(j, i, distance[n]);
      }
  };
  eachEdge((i) => start[i + 1]++);
  for (let i = 0; i < count; i++) start[i + 1] += start[i];
  const target = new Int32Array(start[count]);
  const length = new Float64Array(start[count]);
  const filled = start.slice(0, count);
  eachEdge((i, j, far) => {
    target[filled[i]] = j;
    length[filled[i]++] = far;
  });
  return { start, target, length };
}

/** Nodes of the largest part of the graph in which every node can be reached from every other. */
export function largestComponent({ start, target }: Graph): Int32Array {
  const count = start.length - 1;
  const seen = new Uint8Array(count);
  let largest: number[] = [];
  for (let root = 0; root < count; root++) {
    if (seen[root]) continue;
    const part = [root];
    seen[root] = 1;
    for (let at = 0; at < part.length; at++)
      for (let e = start[part[at]]; e < start[part[at] + 1]; e++)
        if (!seen[target[e]]) {
          seen[target[e]] = 1;
          part.push(target[e]);
        }
    if (part.length > largest.length) largest = part;
  }
  return Int32Array.from(largest).sort();
}

/**
 * Shortest paths from one node to all (Dijkstra 1959, with a binary heap that holds a node once).
 * Unreachable nodes are infinitely far.
 */
export class ShortestPaths {
  readonly #graph: Graph;
  readonly #heap: Int32Array;
  readonly #place: Int32Array;
  #size = 0;
  /** Of the last source. */
  readonly distance: Float64Array;

  constructor(graph: Graph) {
    const count = graph.start.length - 1;
    this.#graph = graph;
    this.#heap = new Int32Array(count);
    this.#place = new Int32Array(count);
    this.distance = new Float64Array(count);
  }

  from(source: number): Float64Array {
    const { start, target, length } = this.#graph;
    const distance = this.distance.fill(Number.POSITIVE_INFINITY);
    this.#place.fill(-1);
    distance[source] = 0;
    this.#size = 0;
    this.#raise(source);
    while (this.#size > 0) {
      const node = this.#pop();
      for (let e = start[node]; e < start[node + 1]; e++) {
        const far = distance[node] + length[e];
        if (far < distance[target[e]]) {
          distance[target[e]] = far;
          this.#raise(target[e]);
        }
      }
    }
    return distance;
  }

  /** Moves a node to where its new, smaller distance belongs; adds it if it is not there. */
  #raise(node: number): void {
    const heap = this.#heap;
    let at = this.#place[node] >= 0 ? this.#place[node] : this.#size++;
    const far = this.distance[node];
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (this.distance[heap[parent]] <= far) break;
      this.#put(heap[parent], at);
      at = parent;
    }
    this.#put(node, at);
  }

  #pop(): number {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap[--this.#size];
    const far = this.distance[last];
    let at = 0;
    for (let child = 1; child < this.#size; child = 2 * at + 1) {
      if (child + 1 < this.#size && this.distance[heap[child + 1]] < this.distance[heap[child]]) child++;
      if (this.distance[heap[child]] >= far) break;
      this.#put(heap[child], at);
      at = child;
    }
    if (this.#size > 0) this.#put(last, at);
    return top;
  }

  #put(node: number, at: number): void {
    this.#heap[at] = node;
    this.#place[node] = at;
  }
}
