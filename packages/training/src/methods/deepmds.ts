// DeepMDS (Gong et al.) and DeepMDS++ (the HERS paper, section 4.2, 5.1 and appendix D), and the
// latter as its authors' code has it. A network is trained a stage after the other, each starting
// from the one before, as that code does.

import type { LearningCurve } from '@hers/compress';
import { Random } from '@hers/vectors/random';
import { Graph } from '../training/autodiff.ts';
import { type Course, decodeCheckpoint, fingerprintOf, train } from '../training/loop.ts';
import { type Feeds, type Matrices, openSession, placesOf } from '../training/session.ts';
import { named, type Problem, parameterPieces, parameterShapes, type Shapes, Trainer } from '../training/trainer.ts';
import { gather, type TrainingSet } from '../training/training-set.ts';
import { rankOneFast, withValidation } from '../training/validation.ts';
import { type Body, encodeCompressor } from './compressor-graph.ts';
import { type Context, invalid, type Method, requireCount, requireNumber, type Task } from './method.ts';
import { type Architecture, chainFor, checkChain, constants, drawn, type Parameter, stages } from './network.ts';
import {
  gathered,
  HardestPairs,
  joined,
  largest,
  type PairLoss,
  type Pairs,
  pairErrors,
  pairInputs,
  pairLoss,
  poolsOf,
  randomGenuine,
  randomImpostor,
  randomPairs,
  several,
} from './pairs.ts';

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
  /** Vectors that are mined in at a time: N in the text. */
  pool: number;
  /**
   * `all`: every pair of so many vectors; `sampled`: pairs that have so many vectors, half of them
   * of each kind, drawn at random from all there are.
   */
  candidates: 'all' | 'sampled';
  /** Hard pairs of each kind at the start, and at the end. */
  hard: readonly [number, number];
  /** `linear`: from one to the other, step by step; `quarters`: after each quarter of the steps. */
  growth: 'linear' | 'quarters';
  /** Random pairs of each kind. */
  random: number;
  /** Whether `random` counts the hard ones too. */
  fixedBatch: boolean;
  /** Of each stage; the authors' configuration has 200 000. */
  steps: number;
  /**
   * The step that each stage ends at, where its curve is flat before all that the learning rate and
   * the number of hard pairs are planned for; `null`: the last of `steps`.
   */
  end: number | null;
  /**
   * Each stage is trained with all before it, and starts from them as they were trained; otherwise
   * all stages are trained at once.
   */
  warmStart: boolean;
  learningRate: number;
  /** `constant`, or `falling`: in steps down to a hundredth, as in the authors' code. */
  schedule: 'constant' | 'falling';
  weightDecay: number;
  /** Steps without a better validation after which a stage ends; 0 for never. */
  patience: number;
  /**
   * Held-out identities choose at which step each stage ends, and the network is then trained again
   * on everybody. Without this, the network that was chosen is the result.
   */
  refit: boolean;
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
  steps: 50_000,
  end: null,
  warmStart: true,
  learningRate: 3e-4,
  schedule: 'falling',
  weightDecay: 4e-5,
  patience: 0,
  refit: true,
};

/** As the paper's ablation and its configuration: without mining and covariance penalty. */
export const deepmds: Method<DeepMdsSettings> = method('deepmds', { ...text, pairs: 'balanced', covarianceWeight: 0 });

export const deepmdsPlus: Method<DeepMdsSettings> = method('deepmds++', text);

/** As the authors' code has it: what differs from the text is listed in the README. */
export const deepmdsPlusAuthors: Method<DeepMdsSettings> = method('deepmds++authors', {
  ...text,
  layers: 3,
  residual: true,
  normaliseStages: true,
  error: 'absolute',
  covariance: 'mean-absolute',
  covarianceWeight: 10,
  growth: 'quarters',
  random: 250,
  fixedBatch: true,
});

/** Points of the learning curve of a stage. */
const POINTS = 25;

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
    ['growth', growth, ['linear', 'quarters']],
    ['schedule', schedule, ['constant', 'falling']],
    ['warmStart', settings.warmStart, [true, false]],
    ['refit', settings.refit, [true, false]],
  ];
  for (const [name, value, allowed] of choices)
    if (!allowed.includes(value)) throw invalid(`${name} is one of ${allowed.join(', ')}.`);
  for (const name of ['layers', 'steps'] as const) requireCount(name, settings[name]);
  requireCount('pool', settings.pool, 16);
  if (settings.end !== null) {
    requireCount('end', settings.end);
    if (settings.end > settings.steps) throw invalid(`end is at most ${settings.steps}, the number of steps.`);
  }
  for (const name of ['random', 'patience'] as const) requireCount(name, settings[name], 0);
  if (!(Array.isArray(hard) && hard.length === 2)) throw invalid('hard is two numbers of pairs.');
  for (const count of hard) requireCount('hard', count, 0);
  if (hard[0] + hard[1] + settings.random === 0) throw invalid('There have to be some pairs.');
  for (const name of ['covarianceWeight', 'learningRate', 'weightDecay'] as const) requireNumber(name, settings[name]);
  if (chain !== null && !Array.isArray(chain)) throw invalid('chain is a list of dimensions.');
}

/** The loss as a problem for a trainer. */
export function problemOf(architecture: Architecture, settings: PairLoss & { weightDecay: number }): Problem {
  const loss = (graph: Graph, parameter: Parameter) => {
    const inputs = pairInputs(graph, architecture.chain[0]);
    return pairLoss(graph, stages(graph, inputs.x, architecture, parameter), inputs, settings);
  };
  return { loss, l2: settings.weightDecay };
}

/** A stage that is over, as a checkpoint remembers it. */
interface Settled {
  figures: Record<string, number>;
  curve: LearningCurve;
}

async function fit(name: string, task: Task<DeepMdsSettings>, context: Context): Promise<Uint8Array<ArrayBuffer>> {
  const { set, dimension, seed, validation, settings } = task;
  const chain = settings.chain ?? chainFor(set.dimension, dimension);
  checkChain(chain, set.dimension, dimension);
  const { learn, heldOut } = withValidation(set, validation, seed);
  const fingerprint = fingerprintOf(name, task);
  const resume = task.resume && decodeCheckpoint(task.resume, fingerprint);
  const chains = settings.warmStart ? chain.slice(1).map((_, i) => chain.slice(0, i + 2)) : [chain];
  // First on part of the identities, to choose; then on all of them.
  const passes: { people: TrainingSet; heldOut?: TrainingSet }[] = [];
  if (heldOut) passes.push({ people: learn, heldOut });
  if (!heldOut || settings.refit) passes.push({ people: set });
  const length = settings.end ?? settings.steps;
  const planned = passes.length * chains.length * length;
  const settled = (resume?.settled ?? []) as Settled[];
  const first = settled.length;
  let bytes: Uint8Array<ArrayBuffer> | undefined;
  for (const [p, pass] of passes.entries()) {
    let start: Matrices = {};
    for (const [s, stage] of chains.entries()) {
      const number = p * chains.length + s;
      if (number < first) continue;
      const chosen = p > 0 ? settled[s].figures : undefined;
      const before = number * length;
      const { shapes, ...outcome } = await trainStage(
        { ...task, chain: stage, set: pass.people, heldOut: pass.heldOut, start },
        {
          stage: `${name} to ${stage.at(-1)}${p > 0 ? ', on everybody' : ''}`,
          end: chosen ? chosen.bestStep : length,
          ...{ before, later: planned - before - length, fingerprint },
          settled: [...settled],
          resume: number === first ? resume : undefined,
        },
        context,
      );
      start = named(outcome.parameters, shapes);
      const found = chosen && { validationRank1: chosen.validationRank1, bestStep: chosen.bestStep };
      const figures = { ...outcome.figures, ...found, vectors: pass.people.count };
      settled.push({ figures, curve: { chain: stage, vectors: pass.people.count, points: outcome.curve } });
      if (p < passes.length - 1) continue;
      const used = { ...settings, chain: stage, seed, validation };
      // The curves of the stages up to this one, of every pass.
      const curves = settled.filter((_, i) => i % chains.length <= s).map(({ curve }) => curve);
      bytes = encodeCompressor(bodyOf({ ...settings, chain: stage }, start), {
        ...{ method: name, settings: used, figures, curves },
      });
      if (s < chains.length - 1) context.stage(bytes);
    }
  }
  return bytes!;
}

interface Stage extends Task<DeepMdsSettings> {
  chain: readonly number[];
  heldOut: TrainingSet | undefined;
  /** Weights of the stages before it. */
  start: Matrices;
}

type Place = Pick<Course, 'stage' | 'end' | 'before' | 'later' | 'fingerprint' | 'settled' | 'resume'>;

async function trainStage(
  { chain, set, heldOut, start, seed, threads, settings }: Stage,
  place: Place,
  context: Context,
) {
  const { steps, patience } = settings;
  const architecture: Architecture = { ...settings, chain };
  const problem = problemOf(architecture, settings);
  const shapes = parameterShapes(problem);
  const trainer = await Trainer.open(problem, drawn(shapes, seed, start), threads);
  const kindsOf = await minerFor(set, architecture, shapes, settings, seed, threads);
  const project = heldOut && (await projection(architecture, shapes, threads));
  const outcome = await train(
    trainer,
    {
      ...place,
      ...{ steps, patience, every: Math.max(1, Math.floor(steps / POINTS)) },
      learningRate: (step) => settings.learningRate * (settings.schedule === 'falling' ? falling(step / steps) : 1),
      batch: async (step, parameters) => {
        const random = new Random(seed, 0xba7c, chain.length, step);
        return batchOf(set, await kindsOf({ step, random, hard: hardCount(settings, step), parameters }));
      },
      validate: heldOut && (async (weights) => rankOneFast(await project!(weights, heldOut.vectors), heldOut.classes)),
    },
    context,
  );
  return { ...outcome, shapes };
}

/** Hard pairs of each kind at a step. */
export function hardCount({ hard: [first, last], growth, steps }: DeepMdsSettings, step: number): number {
  const share = steps > 1 ? step / (steps - 1) : 1;
  if (growth === 'linear') return Math.round(first + (last - first) * share);
  // 50, 100, 150, 250 in the authors' code.
  const quarter = Math.min(3, Math.floor((4 * step) / steps));
  return Math.round(first + (last - first) * [0, 0.25, 0.5, 1][quarter]);
}

/** The authors' learning rates over 200 000 steps, as shares of the whole. */
function falling(share: number): number {
  const factors = [1, 0.9, 0.5, 0.1, 0.05, 0.02, 0.01];
  return factors[Math.min(factors.length - 1, Math.floor(share * 8))];
}

/** Genuine and impostor pairs, or one kind when they are not told apart. */
type Kinds = readonly Pairs[];
type Miner = (job: { step: number; random: Random; hard: number; parameters: Float32Array }) => Promise<Kinds>;
type Projection = (parameters: Float32Array, x: Float32Array) => Promise<Float32Array>;

/** The pairs of a batch, as places in the set. */
async function minerFor(
  set: TrainingSet,
  architecture: Architecture,
  shapes: Shapes,
  settings: DeepMdsSettings,
  seed: number,
  threads: number,
): Promise<Miner> {
  const { pairs, random: randoms, fixedBatch, candidates, pool } = settings;
  const { classes } = set;
  const lists = several(classes);
  const rest = (hard: number) => (fixedBatch ? Math.max(0, randoms - hard) : randoms);
  if (pairs === 'natural') return async ({ hard, random }) => [randomPairs(set.count, 2 * (rest(hard) + hard), random)];
  const both = (count: number, random: Random) => [
    randomGenuine(lists, count, random),
    randomImpostor(classes, count, random),
  ];
  if (pairs === 'balanced') return async ({ hard, random }) => both(rest(hard) + hard, random);
  if (candidates === 'all') {
    const poolAt = poolsOf(set, pool, seed);
    const search = await searcher(architecture, await projection(architecture, shapes, threads), threads);
    return async ({ step, random, hard, parameters }) => {
      const rows = poolAt(step);
      const found = await search(
        gather(set, rows),
        Int32Array.from(rows, (row) => classes[row]),
        hard,
        parameters,
      );
      const placed = ({ left, right }: Pairs): Pairs => ({
        left: left.map((at) => rows[at]),
        right: right.map((at) => rows[at]),
      });
      const [genuine, impostor] = both(rest(hard), random);
      return [joined(placed(found.genuine), genuine), joined(placed(found.impostor), impostor)];
    };
  }
  const errorsOf = await measurer(set, architecture, shapes, threads);
  return async ({ random, hard, parameters }) => {
    const samples = both(Math.max(rest(hard) + hard, Math.floor(pool / 4)), random);
    const errors = await errorsOf(joined(...samples), parameters);
    let first = 0;
    return samples.map(({ left, right }) => {
      const hardest = largest(errors.subarray(first, (first += left.length)), hard);
      const taken = new Set(hardest);
      const chosen = [...hardest];
      for (let i = 0; i < left.length && chosen.length < hardest.length + rest(hard); i++)
        if (!taken.has(i)) chosen.push(i);
      return { left: chosen.map((i) => left[i]), right: chosen.map((i) => right[i]) };
    });
  };
}

/** How far the network is off for pairs of the set. */
async function measurer(set: TrainingSet, architecture: Architecture, shapes: Shapes, threads: number) {
  const graph = new Graph();
  const x = gathered(graph, set.dimension);
  const unit = graph.normalise(stages(graph, x, architecture, parameterPieces(graph, shapes).parameter));
  const ends = graph.places('ends', 'ends');
  graph.output('errors', pairErrors(graph, graph.gather(x, ends), graph.gather(unit, ends)));
  const session = await openSession(graph.model(), { threads });
  const rows = { data: set.vectors, shape: [set.count, set.dimension] };
  const at = new Int32Array(set.count);
  return async ({ left, right }: Pairs, parameters: Float32Array): Promise<Float32Array> => {
    // A vector that is in several pairs passes through the network once.
    const places: number[] = [];
    at.fill(-1);
    for (const list of [left, right]) for (const place of list) if (at[place] < 0) at[place] = places.push(place) - 1;
    const { errors } = await session({
      set: rows,
      places: placesOf(places),
      ends: placesOf(
        left.map((place) => at[place]),
        right.map((place) => at[place]),
      ),
      parameters: { data: parameters, shape: [parameters.length] },
    });
    return errors.data as Float32Array;
  };
}

/** Rows whose errors are computed at a time. */
const BLOCK = 256;

/** Finds the hardest pairs by `cos(z_i, z_j) − x_i · x_j`, once for each pair of a pool. */
async function searcher({ chain }: Architecture, project: Projection, threads: number) {
  const [from, to] = [chain[0], chain.at(-1)!];
  const graph = new Graph();
  const rows = (name: string, size: string, dimension: number) => graph.input(name, [size, dimension]);
  const [zs, z] = [rows('zs', 'some', to), rows('z', 'all', to)];
  const [xs, x] = [rows('xs', 'some', from), rows('x', 'all', from)];
  graph.output('errors', graph.productDifference(graph.normalise(zs), graph.normalise(z), xs, x));
  const session = await openSession(graph.model(), { threads });
  let space = new Float32Array();
  return async (
    x: Float32Array,
    classes: Int32Array,
    hard: number,
    parameters: Float32Array,
  ): Promise<HardestPairs> => {
    const z = await project(parameters, x);
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
async function projection(architecture: Architecture, shapes: Shapes, threads: number): Promise<Projection> {
  const graph = new Graph();
  const x = graph.input('x', ['rows', architecture.chain[0]]);
  graph.output('z', stages(graph, x, architecture, parameterPieces(graph, shapes).parameter));
  const session = await openSession(graph.model(), { threads });
  const [dimension] = architecture.chain;
  return async (parameters, rows) => {
    const { z } = await session({
      x: { data: rows, shape: [rows.length / dimension, dimension] },
      parameters: { data: parameters, shape: [parameters.length] },
    });
    return z.data as Float32Array;
  };
}

/** The batch for pairs of some kinds: each kind is averaged over its own pairs. */
export function batchOf(
  { vectors, dimension, count }: Pick<TrainingSet, 'vectors' | 'dimension' | 'count'>,
  kinds: Kinds,
): Feeds {
  const { left, right } = joined(...kinds);
  const weight = Float32Array.from(kinds.flatMap((pairs) => pairs.left.map(() => 1 / pairs.left.length)));
  return {
    set: { data: vectors, shape: [count, dimension] },
    places: placesOf(left, right),
    weight: { data: weight, shape: [left.length, 1] },
    perRow: { data: Float32Array.of(1 / (2 * left.length)), shape: [] },
  };
}

function bodyOf(architecture: Architecture, parameters: Matrices): Body {
  const graph = new Graph();
  const { chain } = architecture;
  const unit = { name: 'unit', shape: ['count', chain[0]] };
  const last = stages(graph, unit, architecture, constants(graph, parameters));
  return { ...graph.body(last, 'raw'), inputDimension: chain[0], outputDimension: chain.at(-1)! };
}
