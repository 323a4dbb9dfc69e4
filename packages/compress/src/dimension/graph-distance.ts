// Intrinsic dimension from distances along a graph of neighbours (Granata and Carnevale, Scientific
// Reports 6:31377, 2016; for representations of images: Gong, Boddeti and Jain, CVPR 2019, whose
// estimates the HERS paper reports).
//
// Around its maximum r_max the distribution of geodesic distances resembles that on a sphere of m
// dimensions, p(r) ∝ sin^(m−1)(π·r / 2·r_max). So within two standard deviations below the maximum,
// log(p(r) / p(r_max)) against log sin(π·r / 2·r_max) is a line through the origin with slope m −
// 1.
//
// In many dimensions a path has few edges, all of about the same length, and the distribution has a
// hump for every number of them. Both it and the sphere's are therefore smoothed alike, by a part
// of an edge: unsmoothed, 4 000 points of a sphere of 15 dimensions were taken for 22 to 37,
// smoothed for 13 to 15.

import { CompressError } from '../apply/errors.ts';
import { largestComponent, neighbourGraph, ShortestPaths } from './geodesic.ts';
import type { Neighbours } from './nearest.ts';

export interface GraphDistanceOptions {
  /** Neighbours of a node of the graph. */
  readonly k?: number;
  /**
   * Nodes from which all distances are measured, spread evenly over the points; all of them would
   * change little.
   */
  readonly sources?: number;
  /**
   * Standard deviation of the smoothing of the distribution, in mean lengths of an edge; 0 is the
   * estimator as published.
   */
  readonly smoothing?: number;
  readonly onProgress?: (done: number, total: number) => void;
}

export interface GraphDistanceEstimate {
  readonly dimension: number;
  /** Share of the points in the largest connected part of the graph, which alone is measured. */
  readonly connected: number;
  /** The most frequent distance, and the standard deviation of all. */
  readonly mode: number;
  readonly deviation: number;
  /** Root mean square of what the line leaves unexplained, in units of log p. */
  readonly residual: number;
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

export function graphDistanceDimension(
  neighbours: Neighbours,
  {
    k = Math.min(NEIGHBOURS, neighbours.k),
    sources = SOURCES,
    smoothing = SMOOTHING,
    onProgress,
  }: GraphDistanceOptions = {},
): GraphDistanceEstimate {
  const graph = neighbourGraph(neighbours, k);
  const nodes = largestComponent(graph);
  if (nodes.length < FEWEST_POINTS)
    throw new CompressError(
      'INVALID_ARGUMENT',
      `the largest connected part of the graph has ${nodes.length} points; take more neighbours or more vectors`,
    );
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
  const edge = graph.length.reduce((sum, x) => sum + x, 0) / graph.length.length;
  return { ...fitSphere(distances, smoothing * edge), connected: nodes.length / neighbours.count };
}

/**
 * The dimension of the sphere whose distances are distributed as these are, below the most frequent
 * one. `blur`: the standard deviation of the smoothing.
 */
export function fitSphere(distances: Float64Array, blur = 0): Omit<GraphDistanceEstimate, 'connected'> {
  const { counts, width, deviation } = histogram(distances);
  const density = smoothed(counts, blur / width);
  const mode = peak(density, width);
  const height = interpolated(density, width, mode);
  const at: number[] = [];
  const logs: number[] = [];
  for (let bin = 0; bin < density.length; bin++) {
    const r = (bin + 0.5) * width;
    if (r < mode - 2 * deviation || r > mode || density[bin] === 0) continue;
    at.push(bin);
    logs.push(Math.log(density[bin] / height));
  }
  if (at.length < FEWEST_BINS)
    throw new CompressError(
      'INVALID_ARGUMENT',
      'the distances are too much alike for an estimate: are most of the vectors the same?',
    );
  const misfit = (m: number) => {
    const model = smoothed(sphereDensity(m, mode, width), blur / width);
    const top = interpolated(model, width, mode);
    return at.reduce((sum, bin, i) => sum + (logs[i] - Math.log(model[bin] / top)) ** 2, 0);
  };
  const dimension = least(misfit, 1, HIGHEST);
  return { dimension, mode, deviation, residual: Math.sqrt(misfit(dimension) / at.length) };
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
  return { counts, width, deviation };
}

/**
 * The top of the parabola through the logarithms of the bins that are at least half as high as the
 * highest: one bin alone is noisy.
 */
function peak(density: Float64Array, width: number): number {
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
  const vertex = n >= FEWEST_BINS && curvature < 0 ? centre - y1 / t2 / (2 * curvature) : top;
  return (Math.min(high, Math.max(low, vertex)) + 0.5) * width;
}

function interpolated(density: Float64Array, width: number, r: number): number {
  const at = Math.max(0, r / width - 0.5);
  const bin = Math.min(density.length - 2, Math.floor(at));
  const share = Math.min(1, at - bin);
  return (1 - share) * density[bin] + share * density[bin + 1];
}
