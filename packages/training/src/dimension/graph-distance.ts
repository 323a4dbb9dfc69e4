// Intrinsic dimension from distances along a graph of neighbours (Granata and Carnevale, Scientific
// Reports 6:31377, 2016; for representations of images: Gong, Boddeti and Jain, CVPR 2019, whose
// estimates the HERS paper reports).
//
// Around its maximum r_max the distribution of geodesic distances resembles that on a sphere of m
// dimensions, p(r) ∝ sin^(m−1)(π·r / 2·r_max). So within two standard deviations of the peak below
// the maximum, log(p(r) / p(r_max)) against log sin(π·r / 2·r_max) is a line through the origin
// with slope m − 1.
//
// Near the peak the fit is m ≈ 1 + (4/π²)·(r_max/σ)², whatever σ comes from. Where edges differ a
// lot in length (vectors that are compared by angles, taken by their distances; outliers; a dense
// core with a sparse halo) σ approaches r_max and the fit is 2 to 3, whatever the dimension. The
// safeguards of the code of Gong et al. are therefore kept, and say so instead of a number: r_max
// is beyond the longest edge, it is near the mean, half of the graph hangs together, and nothing is
// fitted below the longest edge. One is ours: the peak is about as wide as the whole.
//
// In many dimensions a path has few edges, all of about the same length, and the distribution has a
// hump for every number of them. Both it and the sphere's are therefore smoothed alike, by a part
// of an edge: unsmoothed, 4 000 points of a sphere of 15 dimensions were taken for 22 to 37,
// smoothed for 13 to 15.

import { CompressError } from '@hers/compress';
import { type OptionNames, refuseUnknown } from '@hers/scheme/options';
import { invalid } from '../methods/method.ts';
import type { Neighbours } from './nearest.ts';

export interface GraphDistanceOptions {
  /** Neighbours of a node of the graph. */
  readonly k?: number;
  /** Nodes to measure all distances from, spread evenly; all points would change little. */
  readonly sources?: number;
  /** Standard deviation of the smoothing, in mean lengths of an edge; 0 is as published. */
  readonly smoothing?: number;
  readonly onProgress?: (done: number, total: number) => void;
}

const OPTIONS: OptionNames<GraphDistanceOptions> = { k: true, sources: true, smoothing: true, onProgress: true };

export interface GraphDistanceEstimate {
  /** Undefined where the distances are not distributed as on a sphere: `refusal` says why. */
  readonly dimension: number | undefined;
  /** Why there is no estimate, in a sentence; undefined where there is one. */
  readonly refusal: string | undefined;
  /** Neighbours of a node of the graph. */
  readonly k: number;
  /** Share of the points in the largest connected part of the graph, which alone is measured. */
  readonly connected: number;
  /** The longest edge of that part. Shorter distances say nothing about the manifold. */
  readonly longestEdge: number;
  /** The most frequent distance (r_max), and the mean and standard deviation of all. */
  readonly mode: number;
  readonly mean: number;
  readonly deviation: number;
  /** Root mean square of what the fit leaves, in units of log p; undefined without one. */
  readonly residual: number | undefined;
}

const SOURCES = 500;
const SMOOTHING = 0.5;
const NEIGHBOURS = 9;
/** No estimate is above this. */
const HIGHEST = 200;
/** Bins over the range of distances. */
const BINS = 200;
/** A histogram whose fitted part has fewer bins than this says nothing. */
const FEWEST_BINS = 5;
const FEWEST_POINTS = 50;
/** A graph of which less hangs together says nothing about the whole. */
const LEAST_CONNECTED = 0.5;

export function graphDistanceDimension(
  neighbours: Neighbours,
  options: GraphDistanceOptions = {},
): GraphDistanceEstimate {
  refuseUnknown(options, OPTIONS, 'graphDistanceDimension', 'option', CompressError);
  const { k = Math.min(NEIGHBOURS, neighbours.k), sources = SOURCES, smoothing = SMOOTHING, onProgress } = options;
  const graph = neighbourGraph(neighbours, k);
  const nodes = largestComponent(graph);
  const asked = Math.min(sources, nodes.length);
  const distances = new Float64Array(asked * (nodes.length - 1));
  const paths = new ShortestPaths(graph);
  let filled = 0;
  for (let s = 0; s < asked; s++) {
    const source = nodes[Math.floor((s * nodes.length) / asked)];
    const found = paths.from(source);
    for (const node of nodes) if (node !== source) distances[filled++] = found[node];
    onProgress?.(s + 1, asked);
  }
  const { mean: edge, longest: longestEdge } = edgesOf(graph, nodes);
  const connected = nodes.length / neighbours.count;
  const fit = fitSphere(distances, { blur: smoothing * edge, longestEdge });
  const isWhole = nodes.length >= FEWEST_POINTS && connected >= LEAST_CONNECTED;
  const refusal = `the largest connected part of a graph of ${k} neighbours has ${nodes.length} of ${neighbours.count} vectors; take more neighbours, or more vectors`;
  return {
    ...(isWhole ? fit : { ...fit, dimension: undefined, residual: undefined, refusal }),
    ...{ k, longestEdge, connected },
  };
}

function edgesOf({ start, length }: Graph, nodes: Int32Array): { mean: number; longest: number } {
  let [sum, count, longest] = [0, 0, 0];
  for (const node of nodes)
    for (let e = start[node]; e < start[node + 1]; e++) {
      sum += length[e];
      count++;
      longest = Math.max(longest, length[e]);
    }
  return { mean: sum / count, longest };
}

export interface SphereFitOptions {
  /** Standard deviation of the smoothing; 0 unless given. */
  readonly blur?: number;
  /** Distances up to this one are left out: they are edges, not paths. 0 unless given. */
  readonly longestEdge?: number;
}

type SphereFit = Pick<GraphDistanceEstimate, 'dimension' | 'refusal' | 'mode' | 'mean' | 'deviation' | 'residual'>;

/** The dimension of the sphere whose distances are spread like these, below the mode. */
export function fitSphere(distances: Float64Array, options: SphereFitOptions = {}): SphereFit {
  refuseUnknown(options, { blur: true, longestEdge: true }, 'fitSphere', 'option', CompressError);
  const { blur = 0, longestEdge = 0 } = options;
  const { counts, width, mean, deviation } = histogram(distances);
  const density = smoothed(counts, blur / width);
  const { mode, spread } = peak(density, width);
  const refused = (refusal: string): SphereFit => ({
    ...{ dimension: undefined, refusal, residual: undefined },
    ...{ mode, mean, deviation },
  });
  const short = (length: number) => length.toPrecision(3);
  if (deviation <= width) return refused('distances along the graph are nearly all the same');
  if (Math.abs(mode - mean) > deviation)
    return refused(
      `the most frequent distance along the graph, ${short(mode)}, is more than a standard deviation, ${short(deviation)}, away from their mean, ${short(mean)}; on a sphere the two nearly agree`,
    );
  if (longestEdge > 0 && mode <= longestEdge + width)
    return refused(
      `the most frequent distance along the graph, ${short(mode)}, is no longer than its longest edge, ${short(longestEdge)}: some vectors lie far apart from the rest`,
    );
  // On a sphere, and on every manifold of known dimension that was tried, the peak is as wide as
  // the whole (0.98 to 1.3 times), and of two clouds it is a third.
  if (spread < deviation / 2)
    return refused(
      `distances along the graph have more than one peak: the highest has a standard deviation of ${short(spread)}, all distances of ${short(deviation)}; the vectors form several clouds`,
    );
  const from = Math.max(mode - 2 * spread, longestEdge);
  const height = interpolated(density, width, mode);
  const at: number[] = [];
  const logs: number[] = [];
  for (let bin = 0; bin < density.length; bin++) {
    const r = (bin + 0.5) * width;
    if (r < from || r > mode || density[bin] === 0) continue;
    at.push(bin);
    logs.push(Math.log(density[bin] / height));
  }
  if (at.length < FEWEST_BINS)
    return refused(
      `the distances are too much alike: only ${at.length} of ${BINS} bins are between ${short(from)} and the most frequent one, ${short(mode)}`,
    );
  const misfit = (m: number) => {
    const model = smoothed(sphereDensity(m, mode, width), blur / width);
    const top = interpolated(model, width, mode);
    return at.reduce((sum, bin, i) => sum + (logs[i] - Math.log(model[bin] / top)) ** 2, 0);
  };
  const dimension = least(misfit, 1, HIGHEST);
  if (dimension > HIGHEST - 1) return refused(`the fit has no minimum below ${HIGHEST} dimensions`);
  const residual = Math.sqrt(misfit(dimension) / at.length);
  return { dimension, refusal: undefined, mode, mean, deviation, residual };
}

/** sin^(m−1)(π·r / 2·mode) in the same bins. */
function sphereDensity(m: number, mode: number, width: number): Float64Array {
  const density = new Float64Array(BINS);
  for (let bin = 0; bin < BINS && (bin + 0.5) * width < 2 * mode; bin++)
    density[bin] = Math.sin((Math.PI * (bin + 0.5) * width) / (2 * mode)) ** (m - 1);
  return density;
}

/** Where a function with one minimum has it (golden section). */
function least(f: (x: number) => number, low: number, high: number): number {
  const golden = (Math.sqrt(5) - 1) / 2;
  let [a, b] = [high - golden * (high - low), low + golden * (high - low)];
  let [fa, fb] = [f(a), f(b)];
  while (high - low > 1e-3) {
    if (fa < fb) [high, b, fb] = [b, a, fa];
    else [low, a, fa] = [a, b, fb];
    a = high - golden * (high - low);
    b = low + golden * (high - low);
    [fa, fb] = [f(a), f(b)];
  }
  return (low + high) / 2;
}

/** Convolution with a Gaussian, whose standard deviation is in bins. */
function smoothed(counts: Float64Array, deviation: number): Float64Array {
  const reach = Math.ceil(4 * deviation);
  if (reach === 0) return counts;
  const kernel = Array.from({ length: 2 * reach + 1 }, (_, i) => Math.exp(-(((i - reach) / deviation) ** 2) / 2));
  return counts.map((_, bin) => {
    let sum = 0;
    for (let i = Math.max(0, bin - reach); i <= Math.min(counts.length - 1, bin + reach); i++)
      sum += counts[i] * kernel[i - bin + reach];
    return sum;
  });
}

function histogram(distances: Float64Array) {
  let [sum, squares, longest] = [0, 0, 0];
  for (const r of distances) {
    sum += r;
    squares += r * r;
    if (r > longest) longest = r;
  }
  const mean = sum / distances.length;
  const deviation = Math.sqrt(Math.max(0, squares / distances.length - mean * mean));
  const width = longest / BINS;
  const counts = new Float64Array(BINS);
  if (width > 0) for (const r of distances) counts[Math.min(BINS - 1, Math.floor(r / width))]++;
  return { counts, width, mean, deviation };
}

/**
 * The top of the parabola through the logarithms of the bins that are at least half as high as the
 * highest (one bin alone is noisy), and the standard deviation of the Gaussian that it is.
 */
function peak(density: Float64Array, width: number): { mode: number; spread: number } {
  let top = 0;
  for (let bin = 1; bin < density.length; bin++) if (density[bin] > density[top]) top = bin;
  let [low, high] = [top, top];
  while (low > 0 && density[low - 1] > density[top] / 2) low--;
  while (high < density.length - 1 && density[high + 1] > density[top] / 2) high++;
  const centre = (low + high) / 2;
  // Least squares for a + b·t + c·t² with t symmetric around 0, so that the odd sums vanish.
  let [n, t2, t4, y0, y1, y2] = [0, 0, 0, 0, 0, 0];
  for (let bin = low; bin <= high; bin++) {
    const t = bin - centre;
    const y = Math.log(density[bin]);
    n++;
    t2 += t * t;
    t4 += t ** 4;
    y0 += y;
    y1 += t * y;
    y2 += t * t * y;
  }
  const curvature = (n * y2 - t2 * y0) / (n * t4 - t2 * t2);
  // Too few bins for a parabola: half of the height is 1.18 standard deviations away.
  const isFitted = n >= FEWEST_BINS && curvature < 0;
  const vertex = isFitted ? centre - y1 / t2 / (2 * curvature) : top;
  const spread = isFitted ? Math.sqrt(-1 / (2 * curvature)) : n / 2.36;
  return { mode: (Math.min(high, Math.max(low, vertex)) + 0.5) * width, spread: spread * width };
}

function interpolated(density: Float64Array, width: number, r: number): number {
  const at = Math.max(0, r / width - 0.5);
  const bin = Math.min(density.length - 2, Math.floor(at));
  const share = Math.min(1, at - bin);
  return (1 - share) * density[bin] + share * density[bin + 1];
}

// Shortest-path (geodesic) distances on the graph of the k nearest neighbours.

/** Undirected, in compressed rows: node i has target[start[i]] … target[start[i + 1] − 1]. */
export interface Graph {
  readonly start: Int32Array;
  readonly target: Int32Array;
  readonly length: Float64Array;
}

/** Joins two points when one is among the k nearest of the other. */
export function neighbourGraph({ count, k: held, index, distance }: Neighbours, k: number): Graph {
  if (!(k >= 1 && k <= held)) throw invalid(`there are ${held} neighbours of each point, not ${k}`);
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
