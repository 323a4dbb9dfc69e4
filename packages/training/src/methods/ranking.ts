// Our own method: start from linear discriminants, and learn to rank.
//
// A probe finds its own class in a gallery of strangers when the noise within its class does not
// carry it over to another. So the loss plays that game: a batch holds a vector x_i of each of many
// classes and a mate made of it, x_i + n_i, with noise n_i drawn from the within-class covariance
// (twice: two pictures of one person differ by the noise of both). Each of the two has to find the
// other among all of the batch, by the cross-entropy of the softmax of their cosines. Classes count
// once, however many vectors they have, and a class with a single vector teaches as much about
// strangers as any other. Noise that is drawn never repeats, and x_i is itself moved a little
// towards a vector drawn from the whole, so that few classes go a long way: learning from real
// mates instead overfits.
//
// All this happens in whitened space, where the noise is a sphere and the discriminants are the
// first axes. The map is linear there, and begins as those axes; hidden layers learn a residual to
// it.

import { Random } from '@hers/vectors/random';
import { Graph, type Value } from '../training/autodiff.ts';
import { decodeCheckpoint, fingerprintOf, train } from '../training/loop.ts';
import type { Matrices } from '../training/session.ts';
import { named, type Problem, parameterShapes, Trainer } from '../training/trainer.ts';
import { members, type TrainingSet } from '../training/training-set.ts';
import { measured, withValidation } from '../training/validation.ts';
import { appliedLinear, type Body, encodeCompressor, linearBody } from './compressor-graph.ts';
import { type Between, type LinearMap, linearFamily, weightOf } from './linear.ts';
import {
  type Context,
  invalid,
  type Method,
  requireCount,
  requireNumber,
  requireShare,
  type Task,
  trialOf,
} from './method.ts';
import { constants, drawn, layer, type Parameter } from './network.ts';
import { requireBetween } from './pca-lda.ts';

export interface RankingSettings {
  /** Of the within-class covariance, towards a sphere. */
  shrinkage: number;
  between: Between;
  /** The length of the noise, where 1 is as measured. */
  noise: number;
  /** How far a vector is moved towards one drawn at random, 0 to 1. */
  smoothing: number;
  /** The cosines are divided by this. */
  temperature: number;
  /** Classes in a batch. */
  batch: number;
  steps: number;
  learningRate: number;
  /** Whitened coordinates that are looked at: the first so many, or all there are. */
  inputs: number;
  /** The layers of the residual; none for a linear map. */
  hidden: readonly number[];
  /** Their learning rate, as a share of the linear map's. */
  hiddenRate: number;
}

export const ranking: Method<RankingSettings> = {
  defaults: {
    shrinkage: 0.2,
    between: 'classes',
    noise: 1,
    smoothing: 0.5,
    temperature: 0.12,
    batch: 512,
    steps: 1200,
    learningRate: 3e-3,
    inputs: 256,
    hidden: [512],
    hiddenRate: 1 / 3,
  },
  needsLabels: true,
  check(settings) {
    requireShare('shrinkage', settings.shrinkage);
    requireShare('smoothing', settings.smoothing);
    requireBetween(settings.between);
    requireCount('batch', settings.batch, 2);
    requireCount('inputs', settings.inputs);
    requireCount('steps', settings.steps, 0);
    if (!Array.isArray(settings.hidden)) throw invalid('hidden is a list of layer sizes.');
    for (const size of settings.hidden) requireCount('hidden', size);
    for (const name of ['noise', 'learningRate', 'hiddenRate'] as const) requireNumber(name, settings[name]);
    if (!(settings.temperature > 0)) throw invalid('temperature is a number above 0.');
  },
  async fit(task, context) {
    const { set, seed, validation } = task;
    const { learn, heldOut } = withValidation(set, validation, seed);
    const figures: Record<string, number> = {};
    if (heldOut) {
      const part = { ...task, set: learn, resume: undefined };
      const { body } = await learnRanking(part, 'measuring on held-out identities', trialOf(context));
      figures.validationRank1 = await measured(body, heldOut, learn);
    }
    const { body, figures: more } = await learnRanking(task, 'learning to rank', context);
    const settings = { ...task.settings, seed, validation };
    Object.assign(figures, more, { vectors: set.count });
    return encodeCompressor(body, { method: 'ranking', settings, figures });
  },
};

/** The learned map of `[rows, n]` whitened vectors. */
function mapped(graph: Graph, y: Value, n: number, dimension: number, hidden: readonly number[], parameter: Parameter) {
  const linear = layer(graph, parameter, y, 'map', n, dimension);
  if (hidden.length === 0) return linear;
  let inner = y;
  for (const [i, size] of hidden.entries())
    inner = graph.relu(layer(graph, parameter, inner, `hidden${i}`, hidden[i - 1] ?? n, size));
  return graph.add(linear, graph.matmul(inner, parameter('residual.weight', [hidden.at(-1)!, dimension])));
}

export function rankingProblem(settings: RankingSettings, n: number, dimension: number, batch: number): Problem {
  const loss = (graph: Graph, parameter: Parameter) => {
    const side = (name: string) =>
      graph.normalise(mapped(graph, graph.input(name, [batch, n]), n, dimension, settings.hidden, parameter));
    const [probes, mates] = [side('probes'), side('mates')];
    const own = new Float32Array(batch * batch);
    for (let i = 0; i < batch; i++) own[i * (batch + 1)] = 1;
    const target = graph.tensor('own', own, [batch, batch]);
    const among = (a: Value, b: Value) =>
      graph.sum(
        graph.crossEntropy(graph.scale(graph.matmul(a, b, { transB: true }), 1 / settings.temperature), target),
      );
    return graph.scale(graph.add(among(probes, mates), among(mates, probes)), 0.5 / batch);
  };
  const rate = (name: string) => (name.startsWith('map.') ? 1 : settings.hiddenRate);
  return { loss, rate, average: 0.99 };
}

/** Learns the map on a set, as part of a model. */
export async function learnRanking(
  task: Task<RankingSettings>,
  stage: string,
  context: Context,
): Promise<{ body: Body; figures: { steps: number; loss?: number } }> {
  const { set, dimension, seed, threads, settings } = task;
  const n = Math.min(set.dimension, Math.max(settings.inputs, dimension));
  const { shrinkage, between } = settings;
  const family = await linearFamily(set, threads);
  const start = await family.at({ shrinkage, classes: weightOf(between) }, n);
  const { whitening, noise } = scaled(start, set, dimension);
  const white = { ...set, dimension: n, vectors: await appliedLinear(whitening, set.vectors, threads) };
  const source: Source = { white, lists: members(set), deviations: deviations(white), noise: noise * settings.noise };
  const batch = Math.min(settings.batch, set.classCount);
  const problem = rankingProblem(settings, n, dimension, batch);
  const shapes = parameterShapes(problem);
  const trainer = await Trainer.open(problem, startingPoint(shapes, seed), threads);
  const fingerprint = fingerprintOf('ranking', task);
  const { parameters, figures } = await train(
    trainer,
    {
      stage,
      steps: settings.steps,
      // Up over fifty steps, then down along a cosine.
      learningRate: (step) =>
        settings.learningRate * Math.min(1, (step + 1) / 50) * 0.5 * (1 + Math.cos((Math.PI * step) / settings.steps)),
      batch: async (step) => drawBatch(source, batch, settings.smoothing, new Random(seed, 0x4a2c, step)),
      every: 0,
      patience: 0,
      fingerprint,
      resume: task.resume && decodeCheckpoint(task.resume, fingerprint),
    },
    context,
  );
  const body = bodyOf(whitening, named(parameters, shapes), settings.hidden);
  return { body, figures: { ...(settings.steps > 0 && { loss: figures.loss }), steps: settings.steps } };
}

interface Source {
  white: TrainingSet;
  lists: number[][];
  deviations: Float64Array;
  /** The standard deviation of the difference of two vectors of a class, in every coordinate. */
  noise: number;
}

function drawBatch({ white, lists, deviations, noise }: Source, batch: number, smoothing: number, random: Random) {
  const n = white.dimension;
  const [probes, mates] = [new Float32Array(batch * n), new Float32Array(batch * n)];
  const kept = Math.sqrt(1 - smoothing * smoothing);
  const classes = random.order(lists.length);
  for (let i = 0, at = 0; i < batch; i++) {
    const list = lists[classes[i]];
    const from = list[random.below(list.length)] * n;
    for (let k = 0; k < n; k++, at++) {
      // The length of the whole stays what it is: kept² + smoothing² = 1.
      probes[at] = kept * white.vectors[from + k] + smoothing * deviations[k] * random.normal();
      mates[at] = probes[at] + noise * random.normal();
    }
  }
  return { probes: { data: probes, shape: [batch, n] }, mates: { data: mates, shape: [batch, n] } };
}

/** Of each coordinate, when every class counts once. */
function deviations({ vectors, dimension, classes, classCount, count }: TrainingSet): Float64Array {
  const sizes = new Int32Array(classCount);
  for (const klass of classes) sizes[klass]++;
  const [sums, squares] = [new Float64Array(dimension), new Float64Array(dimension)];
  for (let r = 0; r < count; r++)
    for (let k = 0; k < dimension; k++) {
      const [x, weight] = [vectors[r * dimension + k], 1 / sizes[classes[r]] / classCount];
      sums[k] += weight * x;
      squares[k] += weight * x * x;
    }
  return squares.map((square, k) => Math.sqrt(Math.max(0, square - sums[k] * sums[k])));
}

/**
 * All discriminants, scaled so that the first `dimension` of them have variance one on average: a
 * size that suits Adam. The (shrunk) noise within a class had variance one before.
 */
function scaled(map: LinearMap, set: TrainingSet, dimension: number): { whitening: LinearMap; noise: number } {
  const n = set.dimension;
  let squares = 0;
  const rows = Math.min(set.count, 2000);
  for (let r = 0; r < rows; r++)
    for (let o = 0; o < dimension; o++) {
      let y = 0;
      for (let k = 0; k < n; k++) y += (set.vectors[r * n + k] - map.centre[k]) * map.axes[o * n + k];
      squares += y * y;
    }
  const factor = 1 / Math.sqrt(squares / (rows * dimension));
  return { whitening: { ...map, axes: map.axes.map((x) => x * factor) }, noise: Math.SQRT2 * factor };
}

/** The discriminants: the first axes of whitened space. Hidden layers start with no say. */
function startingPoint(shapes: ReadonlyMap<string, readonly number[]>, seed: number): Matrices {
  const start = drawn(shapes, seed);
  const { data, shape } = start['map.weight'];
  for (let i = 0; i < data.length; i++) data[i] = Math.floor(i / shape[1]) === i % shape[1] ? 1 : 0;
  start['residual.weight']?.data.fill(0);
  return start;
}

/** Whitening and map as part of a model: one layer when both are linear. */
function bodyOf(whitening: LinearMap, parameters: Matrices, hidden: readonly number[]): Body {
  const { inputDimension, outputDimension: n } = whitening;
  const { data: map, shape } = parameters['map.weight'];
  const dimension = shape[1];
  const offset = Float64Array.from(parameters['map.bias'].data);
  if (hidden.length === 0) {
    const axes = new Float64Array(dimension * inputDimension);
    for (let o = 0; o < dimension; o++)
      for (let k = 0; k < n; k++) {
        const weight = map[k * dimension + o];
        for (let i = 0; i < inputDimension; i++)
          axes[o * inputDimension + i] += weight * whitening.axes[k * inputDimension + i];
      }
    return linearBody({ axes, centre: whitening.centre, offset, inputDimension, outputDimension: dimension });
  }
  const graph = new Graph();
  const first = linearBody(whitening);
  const [weights, bias] = first.tensors.map(({ data, name, shape }) => graph.tensor(name, data as Float32Array, shape));
  const y = graph.matmul({ name: 'unit', shape: ['count', inputDimension] }, weights, { bias });
  const z = mapped(graph, y, n, dimension, hidden, constants(graph, parameters));
  return { ...graph.body(z, 'raw'), inputDimension, outputDimension: dimension };
}
