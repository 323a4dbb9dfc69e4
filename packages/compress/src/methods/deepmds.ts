// DeepMDS (Gong et al.) and DeepMDS++ (the HERS paper, section 4.2, 5.1 and appendix D), and the
// latter as its authors' code has it.

import { Random } from '@hers/vectors/random';
import { CompressError } from '../apply/errors.ts';
import { Graph } from '../training/autodiff.ts';
import { decodeCheckpoint, fingerprintOf } from '../training/checkpoint.ts';
import { train } from '../training/loop.ts';
import { Pools } from '../training/pool.ts';
import { rankOneFast } from '../training/rank-one.ts';
import { type Matrices, openSession } from '../training/session.ts';
import { type Problem, parameterInputs, parameterShapes, Trainer } from '../training/trainer.ts';
import { gather } from '../training/training-set.ts';
import { withValidation } from '../training/validation.ts';
import { type Body, encodeCompressor } from './compressor-graph.ts';
import { type Context, type Method, requireCount, requireNumber, type Task } from './method.ts';
import { type Architecture, chainFor, checkChain, drawn, type Parameter, stages } from './network.ts';
import { type PairLoss, pairInputs, pairLoss } from './pair-loss.ts';
import { HardestPairs, joined, largest, type Pairs, randomGenuine, randomImpostor, randomPairs } from './pairs.ts';

export interface DeepMdsSettings extends PairLoss {
  /** The dimensions of the stages, input and output included; `null`: the paper's, or halves. */
  chain: readonly number[] | null;
  /** Block units in a stage. */
  layers: number;
  residual: boolean;
  normaliseStages: boolean;
  /**
   * `mined`: the hardest of each kind beside random ones; `balanced`: random ones of each kind;
   * `natural`: random ones of whatever kind, averaged together.
   */
  pairs: 'mined' | 'balanced' | 'natural';
  /** Vectors to mine in at a time. */
  pool: number;
  /**
   * `all`: every pair of the pool; `sampled`: a quarter as many pairs of each kind as the pool has
   * vectors, drawn at random.
   */
  candidates: 'all' | 'sampled';
  /** Hard pairs of each kind at the start, and at the end. */
  hard: readonly [number, number];
  /** `linear`: from one to the other, epoch by epoch; `steps`: in four steps. */
  growth: 'linear' | 'steps';
  /** Random pairs of each kind. */
  random: number;
  /** Whether `random` counts the hard ones too. */
  fixedBatch: boolean;
  epochs: number;
  /**
   * `null`: once over the training set, pool by pool, and 25 at least, which is what the paper's
   * 100 000 vectors come to.
   */
  stepsPerEpoch: number | null;
  learningRate: number;
  /** `constant`, or `steps`: down to a hundredth, as the authors' code does. */
  schedule: 'constant' | 'steps';
  weightDecay: number;
  /** Epochs without a better validation after which training ends; 0 for never. */
  patience: number;
}

const text: DeepMdsSettings = {
  chain: null,
  layers: 1,
  residual: false,
  normaliseStages: false,
  error: 'squared',
  covariance: 'frobenius',
  covarianceWeight: 1,
  pairs: 'mined',
  pool: 4000,
  candidates: 'sampled',
  hard: [50, 250],
  growth: 'linear',
  random: 200,
  fixedBatch: false,
  epochs: 250,
  stepsPerEpoch: null,
  learningRate: 3e-4,
  schedule: 'constant',
  weightDecay: 4e-5,
  patience: 0,
};

/**
 * As the paper's ablation has it, and the authors' configuration of it: without mining, and without
 * the covariance penalty.
 */
export const deepmds = method('deepmds', { ...text, pairs: 'balanced', covarianceWeight: 0 });

export const deepmdsPlus = method('deepmds++', text);

/** As the authors' code has it: what differs from the text is listed in the README. */
export const deepmdsPlusAuthors = method('deepmds++authors', {
  ...text,
  layers: 3,
  residual: true,
  normaliseStages: true,
  error: 'absolute',
  covariance: 'mean-absolute',
  covarianceWeight: 10,
  candidates: 'sampled',
  growth: 'steps',
  random: 250,
  fixedBatch: true,
  schedule: 'steps',
});

const LEAST_STEPS = 25;
/** How often the held-out identities are looked at. */
const VALIDATIONS = 25;

function method(name: string, defaults: DeepMdsSettings): Method<DeepMdsSettings> {
  return { defaults, check, needsLabels: true, fit: (task, context) => fit(name, task, context) };
}

function check(settings: DeepMdsSettings): void {
  const { error, covariance, pairs, candidates, growth, schedule, hard, chain } = settings;
  const choices: [string, unknown, readonly unknown[]][] = [
    ['error', error, ['squared', 'absolute']],
    ['covariance', covariance, ['frobenius', 'mean-absolute']],
    ['pairs', pairs, ['mined', 'balanced', 'natural']],
    ['candidates', candidates, ['all', 'sampled']],
    ['growth', growth, ['linear', 'steps']],
    ['schedule', schedule, ['constant', 'steps']],
  ];
  for (const [name, value, allowed] of choices)
    if (!allowed.includes(value))
      throw new CompressError('INVALID_ARGUMENT', `${name} is one of ${allowed.join(', ')}.`);
  for (const name of ['layers', 'epochs'] as const) requireCount(name, settings[name]);
  requireCount('pool', settings.pool, 16);
  for (const name of ['random', 'patience'] as const) requireCount(name, settings[name], 0);
  if (settings.stepsPerEpoch !== null) requireCount('stepsPerEpoch', settings.stepsPerEpoch);
  if (!(Array.isArray(hard) && hard.length === 2))
    throw new CompressError('INVALID_ARGUMENT', 'hard is two numbers of pairs.');
  for (const count of hard) requireCount('hard', count, 0);
  if (hard[0] + hard[1] + settings.random === 0)
    throw new CompressError('INVALID_ARGUMENT', 'There have to be some pairs.');
  for (const name of ['covarianceWeight', 'learningRate', 'weightDecay'] as const) requireNumber(name, settings[name]);
  if (chain !== null && !Array.isArray(chain))
    throw new CompressError('INVALID_ARGUMENT', 'chain is a list of dimensions.');
}

/** The loss as a problem for a trainer. */
export function problemOf(architecture: Architecture, settings: PairLoss & { weightDecay: number }): Problem {
  const loss = (graph: Graph, parameter: Parameter) => {
    const x = graph.input('x', ['rows', architecture.chain[0]]);
    return pairLoss(graph, stages(graph, x, architecture, parameter), pairInputs(graph), settings);
  };
  return { loss, l2: settings.weightDecay };
}

async function fit(name: string, task: Task<DeepMdsSettings>, context: Context): Promise<Uint8Array<ArrayBuffer>> {
  const { set, dimension, seed, threads, validation, settings } = task;
  const chain = settings.chain ?? chainFor(set.dimension, dimension);
  checkChain(chain, set.dimension, dimension);
  const architecture: Architecture = { ...settings, chain };
  const { learn, heldOut } = withValidation(set, validation, seed);
  const fingerprint = fingerprintOf(name, task);
  const problem = problemOf(architecture, settings);
  const trainer = await Trainer.open(problem, drawn(parameterShapes(problem), seed), threads);
  const pools = new Pools(learn, settings.pool, seed);
  const stepsPerEpoch = settings.stepsPerEpoch ?? Math.max(LEAST_STEPS, pools.perPass);
  const steps = settings.epochs * stepsPerEpoch;
  const project = await projection(architecture, threads);
  const miner = await minerFor(architecture, settings, project, threads);
  const { parameters, figures } = await train(
    trainer,
    {
      stage: name,
      epochs: settings.epochs,
      stepsPerEpoch,
      learningRate: (step) => settings.learningRate * (settings.schedule === 'steps' ? stepped(step / steps) : 1),
      batch: async (step, weights) => {
        const rows = pools.at(step);
        const x = gather(learn, rows);
        const classes = Int32Array.from(rows, (row) => learn.classes[row]);
        const hard = hardCount(settings, Math.floor(step / stepsPerEpoch));
        const kinds = await miner({ x, classes, random: new Random(seed, 0xba7c, step), hard, weights });
        return batchOf(x, learn.dimension, kinds);
      },
      validate: heldOut && (async (weights) => rankOneFast(await project(weights, heldOut.vectors), heldOut.classes)),
      validateEvery: Math.max(1, Math.floor(settings.epochs / VALIDATIONS)),
      patience: settings.patience,
      fingerprint,
      resume: task.resume && decodeCheckpoint(task.resume, fingerprint),
    },
    context,
  );
  const body = bodyOf(architecture, parameters);
  Object.assign(figures, { vectors: learn.count, steps: figures.epochs * stepsPerEpoch });
  const used = { ...settings, chain, stepsPerEpoch, seed, validation };
  return encodeCompressor(body, { method: name, metric: 'cosine', settings: used, figures, notes: [] });
}

/** Hard pairs of each kind in an epoch. */
export function hardCount({ hard: [first, last], growth, epochs }: DeepMdsSettings, epoch: number): number {
  const share = epochs > 1 ? epoch / (epochs - 1) : 1;
  if (growth === 'linear') return Math.round(first + (last - first) * share);
  // 50, 100, 150, 250 in the authors' code, after each quarter of the epochs.
  const quarter = Math.min(3, Math.floor((4 * epoch) / epochs));
  return Math.round(first + (last - first) * [0, 0.25, 0.5, 1][quarter]);
}

/** The authors' learning rates over 200 000 steps, as shares of the whole. */
function stepped(share: number): number {
  const factors = [1, 0.9, 0.5, 0.1, 0.05, 0.02, 0.01];
  return factors[Math.min(factors.length - 1, Math.floor(share * 8))];
}

/** Pairs with the weight of each, so that a kind's weights sum to one. */
type Kinds = readonly Pairs[];
type Miner = (job: {
  x: Float32Array;
  classes: Int32Array;
  random: Random;
  hard: number;
  weights: Matrices;
}) => Promise<Kinds>;
type Projection = (weights: Matrices, x: Float32Array) => Promise<Float32Array>;

/** The kinds of pairs of a batch: genuine and impostor, or one when they are not told apart. */
async function minerFor(
  architecture: Architecture,
  settings: DeepMdsSettings,
  project: Projection,
  threads: number,
): Promise<Miner> {
  const { pairs, random: randoms, fixedBatch, candidates, pool } = settings;
  const [dimension] = architecture.chain;
  const rest = (hard: number) => (fixedBatch ? Math.max(0, randoms - hard) : randoms);
  const search = pairs === 'mined' && candidates === 'all' ? await searcher(architecture, threads) : undefined;
  return async ({ x, classes, random, hard, weights }) => {
    const count = rest(hard) + hard;
    if (pairs === 'natural') return [randomPairs(classes.length, 2 * count, random)];
    if (pairs === 'balanced') return [randomGenuine(classes, count, random), randomImpostor(classes, count, random)];
    if (search) {
      const { genuine, impostor } = await search(x, await project(weights, x), classes, hard);
      return [
        joined(genuine, randomGenuine(classes, rest(hard), random)),
        joined(impostor, randomImpostor(classes, rest(hard), random)),
      ];
    }
    const z = await project(weights, x);
    const drawn = Math.max(count, Math.floor(pool / 4));
    return [randomGenuine(classes, drawn, random), randomImpostor(classes, drawn, random)].map((sample) => {
      const differences = sample.left.map(
        (l, i) => cosine(x, l, sample.right[i], dimension) - cosine(z, l, sample.right[i], z.length / classes.length),
      );
      const places = largest(differences, hard);
      const taken = new Set(places);
      const others = Array.from(sample.left.keys()).filter((i) => !taken.has(i));
      const chosen = [...places, ...others.slice(0, rest(hard))];
      return { left: chosen.map((i) => sample.left[i]), right: chosen.map((i) => sample.right[i]) };
    });
  };
}

function cosine(vectors: Float32Array, i: number, j: number, dimension: number): number {
  let [dot, a, b] = [0, 0, 0];
  for (let k = 0; k < dimension; k++) {
    const [x, y] = [vectors[i * dimension + k], vectors[j * dimension + k]];
    dot += x * y;
    a += x * x;
    b += y * y;
  }
  return dot / (Math.sqrt(a * b) || 1);
}

/** Rows whose errors are computed at a time. */
const BLOCK = 256;

/**
 * Finds the hardest pairs by `cos(z_i, z_j) − x_i · x_j` for all pairs of a pool, each computed
 * once.
 */
async function searcher({ chain }: Architecture, threads: number) {
  const [from, to] = [chain[0], chain.at(-1)!];
  const graph = new Graph();
  const rows = (name: string, size: string, dimension: number) => graph.input(name, [size, dimension]);
  const [zs, z] = [rows('zs', 'some', to), rows('z', 'all', to)];
  const [xs, x] = [rows('xs', 'some', from), rows('x', 'all', from)];
  graph.output('errors', graph.productDifference(graph.normalise(zs), graph.normalise(z), xs, x));
  const session = await openSession(graph.model(), { threads });
  let space = new Float32Array();
  return async (x: Float32Array, z: Float32Array, classes: Int32Array, hard: number): Promise<HardestPairs> => {
    const n = classes.length;
    const found = new HardestPairs(classes, hard);
    if (space.length < BLOCK * n) space = new Float32Array(BLOCK * n);
    for (let first = 0; first < n; first += BLOCK) {
      const count = Math.min(BLOCK, n - first);
      const part = (data: Float32Array, dimension: number, rows: number) => ({
        data: data.subarray(first * dimension, (first + rows) * dimension),
        shape: [rows, dimension],
      });
      const feeds = {
        zs: part(z, to, count),
        z: part(z, to, n - first),
        xs: part(x, from, count),
        x: part(x, from, n - first),
      };
      const errors = { data: space.subarray(0, count * (n - first)), shape: [count, n - first] };
      await session(feeds, { errors });
      found.scan(errors.data, first, count);
    }
    return found;
  };
}

/** The network alone, for weights that change. */
async function projection(architecture: Architecture, threads: number): Promise<Projection> {
  const graph = new Graph();
  const x = graph.input('x', ['rows', architecture.chain[0]]);
  graph.output('z', stages(graph, x, architecture, parameterInputs(graph).parameter));
  const session = await openSession(graph.model(), { threads });
  const [dimension] = architecture.chain;
  return async (weights, rows) => {
    const { z } = await session({ x: { data: rows, shape: [rows.length / dimension, dimension] }, ...weights });
    return z.data as Float32Array;
  };
}

/** The batch for pairs of some kinds: each kind is averaged over its own pairs. */
export function batchOf(x: Float32Array, dimension: number, kinds: Kinds): Matrices {
  const all = joined(...kinds);
  const pairs = all.left.length;
  const rows = new Float32Array(2 * pairs * dimension);
  const similarity = new Float32Array(pairs);
  for (let p = 0; p < pairs; p++) {
    const left = x.subarray(all.left[p] * dimension, (all.left[p] + 1) * dimension);
    const right = x.subarray(all.right[p] * dimension, (all.right[p] + 1) * dimension);
    rows.set(left, p * dimension);
    rows.set(right, (pairs + p) * dimension);
    let dot = 0;
    for (let k = 0; k < dimension; k++) dot += left[k] * right[k];
    similarity[p] = dot;
  }
  const weight = Float32Array.from(kinds.flatMap(({ left }) => left.map(() => 1 / left.length)));
  return {
    x: { data: rows, shape: [2 * pairs, dimension] },
    similarity: { data: similarity, shape: [pairs, 1] },
    weight: { data: weight, shape: [pairs, 1] },
    perRow: { data: Float32Array.of(1 / (2 * pairs)), shape: [] },
  };
}

/** The trained network as part of a model. */
function bodyOf(architecture: Architecture, parameters: Matrices): Body {
  const graph = new Graph();
  const constant: Parameter = (name, shape) => graph.tensor(name, parameters[name].data as Float32Array, shape);
  const { chain } = architecture;
  const last = stages(graph, { name: 'unit', shape: ['count', chain[0]] }, architecture, constant);
  return { ...graph.body(last, 'raw'), inputDimension: chain[0], outputDimension: chain.at(-1)! };
}
