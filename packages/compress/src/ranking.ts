// Our own method: start from linear discriminants, and learn to rank.
//
// A probe finds its own class in a gallery of strangers when the noise within its class does not carry it over to another. So the loss plays
// that game: a batch holds one vector x_i of each of many classes and a second one made of it, x_i + n_i, with noise n_i drawn from the
// within-class covariance (twice: two pictures of one person differ by the noise of both). Each of the two has to find the other among all
// of the batch, by the cross-entropy of the softmax of their cosines. Classes count once, however many vectors they have, and a class with a
// single vector teaches as much about strangers as any other; the drawn noise never repeats, so there is little to overfit.
//
// The map is linear on whitened input, where it starts as the discriminants themselves; a hidden layer can learn a residual to it.

import { CompressError } from './apply/errors.ts';
import { decodeCheckpoint, fingerprintOf } from './checkpoint.ts';
import { classMeans } from './covariance.ts';
import { Graph, type Value } from './graph.ts';
import { type Between, discriminants, type LinearMap, shrunk, symmetricPower, withinClass } from './linear.ts';
import { type Context, type Method, requireCount, requireShare, type Task, trialOf } from './method.ts';
import { type Body, encodeCompressor, linearBody } from './model.ts';
import type { Parameter } from './network.ts';
import { Random } from './random.ts';
import { type Matrices, type Matrix, openSession } from './session.ts';
import { type Problem, Trainer } from './trainer.ts';
import { train } from './training.ts';
import { members, type TrainingSet } from './training-set.ts';
import { measured, withValidation } from './validation.ts';

export interface RankingSettings {
  /** Of the within-class covariance, for the discriminants to start from. */
  shrinkage: number;
  between: Between;
  /** Of the within-class covariance, for the noise. */
  noiseShrinkage: number;
  /** The length of the noise, where 1 is as long as measured. */
  noise: number;
  /** Softmax of cosine over this. */
  temperature: number;
  /** Classes in a batch. */
  batch: number;
  steps: number;
  learningRate: number;
  /** Units of the hidden layer that learns a residual; 0 for a linear map. */
  hidden: number;
  weightDecay: number;
  /** The share of the target that is spread over all of the batch: nobody has to be certain. */
  smoothing: number;
  /** Maps learned from different seeds, whose average is the result. */
  ensemble: number;
}

export const ranking: Method<RankingSettings> = {
  defaults: {
    shrinkage: 0.3,
    between: 'classes',
    noiseShrinkage: 0.3,
    noise: 1,
    temperature: 0.12,
    batch: 512,
    steps: 600,
    learningRate: 3e-3,
    hidden: 0,
    weightDecay: 0,
    smoothing: 0,
    ensemble: 1,
  },
  needsLabels: true,
  check(settings) {
    requireShare('shrinkage', settings.shrinkage);
    requireShare('noiseShrinkage', settings.noiseShrinkage);
    requireCount('batch', settings.batch, 2);
    requireCount('steps', settings.steps, 0);
    requireCount('hidden', settings.hidden, 0);
    requireCount('ensemble', settings.ensemble);
    requireShare('smoothing', settings.smoothing);
    for (const name of ['noise', 'temperature', 'learningRate', 'weightDecay'] as const)
      if (!(settings[name] >= 0 && settings[name] < Infinity))
        throw new CompressError('INVALID_ARGUMENT', `${name} is a number, 0 or more.`);
  },
  async fit(task, context) {
    const { set, seed, validation } = task;
    const { learn, heldOut } = withValidation(set, validation, seed);
    const figures: Record<string, number> = {};
    if (heldOut) {
      const { body } = await learnRanking(
        { ...task, set: learn, resume: undefined },
        'measuring on held-out identities',
        trialOf(context),
      );
      figures.validationRank1 = await measured(body, heldOut, learn);
    }
    const { body, figures: more } = await learnRanking(task, 'learning to rank', context);
    const settings = { ...task.settings, seed, validation };
    Object.assign(figures, more, { vectors: set.count });
    return encodeCompressor(body, { method: 'ranking', metric: 'cosine', settings, figures, notes: [] });
  },
};

/** The learned map of `[rows, n]` whitened vectors. */
function mapped(graph: Graph, y: Value, n: number, dimension: number, hidden: number, parameter: Parameter): Value {
  const linear = graph.matmul(y, parameter('map.weight', [n, dimension]), { bias: parameter('map.bias', [dimension]) });
  if (hidden === 0) return linear;
  const inner = graph.relu(
    graph.matmul(y, parameter('hidden.weight', [n, hidden]), { bias: parameter('hidden.bias', [hidden]) }),
  );
  return graph.add(linear, graph.matmul(inner, parameter('residual.weight', [hidden, dimension])));
}

/** The game as a loss: `x` holds one whitened vector of each class, `noise` as many standard normal ones. */
export function rankingProblem(
  settings: RankingSettings,
  n: number,
  dimension: number,
  batch: number,
  root: Float32Array,
): Problem {
  const loss = (graph: Graph, parameter: Parameter) => {
    const x = graph.input('x', [batch, n]);
    const noise = graph.matmul(graph.input('noise', [batch, n]), graph.tensor('root', root, [n, n]));
    const side = (y: Value) => graph.normalise(mapped(graph, y, n, dimension, settings.hidden, parameter));
    const [probe, mate] = [side(x), side(graph.add(x, noise))];
    const own = new Float32Array(batch * batch).fill(settings.smoothing / batch);
    for (let i = 0; i < batch; i++) own[i * (batch + 1)] += 1 - settings.smoothing;
    const target = graph.tensor('own', own, [batch, batch]);
    const among = (a: Value, b: Value) =>
      graph.sum(
        graph.crossEntropy(graph.scale(graph.matmul(a, b, { transB: true }), 1 / settings.temperature), target),
      );
    return graph.scale(graph.add(among(probe, mate), among(mate, probe)), 0.5 / batch);
  };
  return { loss, decay: settings.weightDecay, average: 0.99 };
}

/** Learns the map on a set; returns it as part of a model, and as a function. */
export async function learnRanking(task: Task<RankingSettings>, stage: string, context: Context) {
  const { set, dimension, seed, threads, settings } = task;
  const n = set.dimension;
  const whitening = scaled((await discriminants(set, settings.between))(n, settings.shrinkage), set, dimension);
  const white = await applied(set.vectors, whitening, threads);
  const batch = Math.min(settings.batch, set.classCount);
  const root = await noiseRoot({ ...set, vectors: white }, settings);
  const problem = rankingProblem(settings, n, dimension, batch, root);
  const lists = members(set);
  const fingerprint = fingerprintOf('ranking', task);
  const resume = task.resume && decodeCheckpoint(task.resume, fingerprint);
  const nets: Matrices[] = asMany(resume?.before ?? {});
  let loss = Number.NaN;
  for (let member = nets.length; member < settings.ensemble; member++) {
    const trainer = await Trainer.open(problem, startingPoint(n, dimension, settings.hidden, seed + member), threads);
    const { parameters, figures } = await train(
      trainer,
      {
        stage: settings.ensemble > 1 ? `${stage} (${member + 1} of ${settings.ensemble})` : stage,
        epochs: settings.steps,
        stepsPerEpoch: 1,
        learningRate: (step) => settings.learningRate * warmAndCool(step, settings.steps),
        batch: async (step) => drawBatch(white, n, lists, batch, new Random(seed, 0x4a2c, member, step)),
        validateEvery: 1,
        patience: 0,
        fingerprint,
        part: member,
        before: asOne(nets),
        resume: resume?.part === member ? resume : undefined,
      },
      context,
    );
    nets.push(parameters);
    ({ loss } = figures);
  }
  return {
    body: bodyOf(whitening, averaged(nets), settings.hidden * nets.length),
    figures: { loss, steps: settings.steps },
  };
}

/** Several maps under one roof, for a checkpoint, and back. */
function asOne(nets: Matrices[]): Matrices {
  return Object.fromEntries(
    nets.flatMap((net, i) => Object.entries(net).map(([name, matrix]) => [`${i}/${name}`, matrix])),
  );
}

function asMany(matrices: Matrices): Matrices[] {
  const nets: Matrices[] = [];
  for (const [path, matrix] of Object.entries(matrices)) {
    const [member, name] = path.split('/');
    (nets[Number(member)] ??= {})[name] = matrix;
  }
  return nets;
}

/** The average of several maps as one: linear parts are averaged, hidden layers stand beside each other. */
function averaged(nets: Matrices[]): Matrices {
  const result: Matrices = {};
  for (const [name, { shape }] of Object.entries(nets[0])) {
    const parts = nets.map((net) => net[name]);
    if (name === 'hidden.weight') result[name] = sideBySide(parts);
    else if (name === 'hidden.bias') {
      const data = Float32Array.from(parts.flatMap(({ data }) => [...data]));
      result[name] = { data, shape: [data.length] };
    } else if (name === 'residual.weight') {
      const data = Float32Array.from(parts.flatMap(({ data }) => Array.from(data, (x) => x / nets.length)));
      result[name] = { data, shape: [shape[0] * nets.length, shape[1]] };
    } else {
      const data = Float32Array.from(
        parts[0].data,
        (_, i) => parts.reduce((sum, part) => sum + part.data[i], 0) / nets.length,
      );
      result[name] = { data, shape };
    }
  }
  return result;
}

function sideBySide(parts: Matrix[]): Matrix {
  const [rows, columns] = parts[0].shape;
  const data = new Float32Array(rows * columns * parts.length);
  for (let r = 0; r < rows; r++)
    parts.forEach((part, p) =>
      data.set(part.data.subarray(r * columns, (r + 1) * columns), (r * parts.length + p) * columns),
    );
  return { data, shape: [rows, columns * parts.length] };
}

/** Up over fifty steps, then down along a cosine. */
function warmAndCool(step: number, steps: number): number {
  return Math.min(1, (step + 1) / 50) * 0.5 * (1 + Math.cos((Math.PI * step) / steps));
}

function drawBatch(white: Float32Array, n: number, lists: number[][], batch: number, random: Random): Matrices {
  const x = new Float32Array(batch * n);
  random
    .order(lists.length)
    .subarray(0, batch)
    .forEach((klass, i) => {
      const row = lists[klass][random.below(lists[klass].length)];
      x.set(white.subarray(row * n, (row + 1) * n), i * n);
    });
  const noise = new Float32Array(batch * n);
  for (let i = 0; i < noise.length; i++) noise[i] = random.normal();
  return { x: { data: x, shape: [batch, n] }, noise: { data: noise, shape: [batch, n] } };
}

/** All discriminants, scaled so that the first `dimension` of them have variance one on average: a size that suits Adam. */
function scaled(map: LinearMap, set: TrainingSet, dimension: number): LinearMap {
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
  return { ...map, axes: map.axes.map((x) => x * factor) };
}

/** The matrix that turns standard normal rows into the difference of two vectors of a class. */
async function noiseRoot(white: TrainingSet, { noise, noiseShrinkage }: RankingSettings): Promise<Float32Array> {
  const eigen = shrunk(await withinClass(white, classMeans(white).means), noiseShrinkage);
  return Float32Array.from(symmetricPower(eigen, 0.5, white.dimension), (x) => x * Math.SQRT2 * noise);
}

/** The discriminants themselves: the first axes of whitened space. A hidden layer starts with no say. */
function startingPoint(n: number, dimension: number, hidden: number, seed: number): Matrices {
  const random = new Random(seed, 0x57a7);
  const matrix = (rows: number, columns: number, fill: (r: number, c: number) => number) => ({
    data: Float32Array.from({ length: rows * columns }, (_, i) => fill(Math.floor(i / columns), i % columns)),
    shape: [rows, columns],
  });
  const zeros = (size: number) => ({ data: new Float32Array(size), shape: [size] });
  const linear = { 'map.weight': matrix(n, dimension, (r, c) => (r === c ? 1 : 0)), 'map.bias': zeros(dimension) };
  if (hidden === 0) return linear;
  const bound = 1 / Math.sqrt(n);
  return {
    ...linear,
    'hidden.weight': matrix(n, hidden, () => (2 * random.uniform() - 1) * bound),
    'hidden.bias': zeros(hidden),
    'residual.weight': matrix(hidden, dimension, () => 0),
  };
}

async function applied(vectors: Float32Array, map: LinearMap, threads: number): Promise<Float32Array<ArrayBuffer>> {
  const { nodes, tensors, inputDimension, outputDimension } = linearBody(map);
  const session = await openSession(
    {
      nodes,
      tensors,
      inputs: [{ name: 'unit', shape: ['rows', inputDimension] }],
      outputs: [{ name: 'raw', shape: ['rows', outputDimension] }],
    },
    { threads },
  );
  const { raw } = await session({ unit: { data: vectors, shape: [vectors.length / inputDimension, inputDimension] } });
  return Float32Array.from(raw.data);
}

/** Whitening and map as part of a model: one layer when both are linear. */
function bodyOf(whitening: LinearMap, parameters: Matrices, hidden: number): Body {
  const n = whitening.inputDimension;
  const { data: map, shape } = parameters['map.weight'];
  const dimension = shape[1];
  const offset = Float64Array.from(parameters['map.bias'].data);
  if (hidden === 0) {
    const axes = new Float64Array(dimension * n);
    for (let o = 0; o < dimension; o++)
      for (let k = 0; k < n; k++) {
        const weight = map[k * dimension + o];
        for (let i = 0; i < n; i++) axes[o * n + i] += weight * whitening.axes[k * n + i];
      }
    return linearBody({ axes, centre: whitening.centre, offset, inputDimension: n, outputDimension: dimension });
  }
  const graph = new Graph();
  const first = linearBody(whitening);
  const [weights, bias] = first.tensors.map(({ data, name, shape }) => graph.tensor(name, data as Float32Array, shape));
  const constant: Parameter = (name, shape) => graph.tensor(name, parameters[name].data as Float32Array, shape);
  const y = graph.matmul({ name: 'unit', shape: ['count', n] }, weights, { bias });
  const z = mapped(graph, y, n, dimension, hidden, constant);
  return { ...graph.body(z, 'raw'), inputDimension: n, outputDimension: dimension };
}
