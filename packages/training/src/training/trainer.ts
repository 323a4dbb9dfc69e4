// A loss, its gradient and Adam as one graph: a step is one run of it. All parameters lie one after
// the other in one vector, so that Adam is a dozen operations and not a dozen for each matrix.

import { CompressError } from '@hers/compress';
import type { Parameter } from '../methods/network.ts';
import { Graph, type Value } from './autodiff.ts';
import { type Feeds, type Matrices, type Matrix, mapped, openSession, type Session } from './session.ts';

export interface Problem {
  /**
   * Writes the loss into a graph, from inputs it declares and parameters it asks for. A part of the
   * loss that is to be watched becomes an output, a single number.
   */
  loss(graph: Graph, parameter: Parameter): Value;
  /** Weight decay that is part of the gradient, for matrices only. */
  l2?: number;
  /** A parameter's learning rate as a multiple of the step's. */
  rate?(name: string): number;
  /** Keeps a running average of the weights: the share of the old average at each step. */
  average?: number;
}

export type Shapes = ReadonlyMap<string, readonly number[]>;

const sizeOf = (shape: readonly number[]) => shape.reduce((product, size) => product * size, 1);

/** The shapes of the parameters that a problem asks for, in the order in which it does. */
export function parameterShapes(problem: Problem): Shapes {
  const shapes = new Map<string, readonly number[]>();
  problem.loss(new Graph(), (name, shape) => {
    shapes.set(name, shape);
    return { name, shape };
  });
  return shapes;
}

export function parameterPieces(graph: Graph, shapes: Shapes): { whole: Value; parameter: Parameter; pieces: Value[] } {
  const whole = graph.input(PARAMETERS, [totalOf(shapes)]);
  const pieces = graph.pieces(whole, [...shapes.values()]);
  const byName = new Map(Array.from(shapes.keys(), (name, i) => [name, pieces[i]]));
  return { whole, pieces, parameter: (name) => byName.get(name)! };
}

const totalOf = (shapes: Shapes) => Array.from(shapes.values(), sizeOf).reduce((sum, size) => sum + size, 0);

/** Parameters by their names, in one vector that holds them one after the other. */
export function named(whole: Float32Array, shapes: Shapes): Matrices {
  let at = 0;
  return Object.fromEntries(
    Array.from(shapes, ([name, shape]) => {
      const data = whole.subarray(at, at + sizeOf(shape));
      at += data.length;
      return [name, { data, shape }];
    }),
  );
}

/** What a step reads and writes: the parameters, and the two moments of Adam. */
const PARAMETERS = 'parameters';
const STATE = [PARAMETERS, 'first', 'second'] as const;
const AVERAGE = 'average';
const NEXT = 'next:';

function stepGraph(problem: Problem, shapes: Shapes): Graph {
  const graph = new Graph();
  const { whole, parameter, pieces } = parameterPieces(graph, shapes);
  const loss = problem.loss(graph, parameter);
  const gradient = graph.joined(graph.gradients(loss, pieces));
  const [first, second] = STATE.slice(1).map((name) => graph.input(name, whole.shape));
  const [rate, correction] = ['rate', 'correction'].map((name) => graph.input(name, []));
  const each = (name: string, of: (name: string, shape: readonly number[]) => number) => {
    const numbers = new Float32Array(totalOf(shapes));
    for (const [key, { data, shape }] of Object.entries(named(numbers, shapes))) data.fill(of(key, shape));
    return graph.tensor(name, numbers, whole.shape as number[]);
  };
  const { l2 = 0, rate: ownRate } = problem;
  const next = graph.adam(
    whole,
    gradient,
    { first, second, rate, correction },
    {
      l2: l2 > 0 ? each('l2', (_, shape) => (shape.length === 2 ? l2 : 0)) : undefined,
      rate: ownRate && each('ownRate', ownRate),
    },
  );
  graph.output(NEXT + PARAMETERS, next.parameter);
  graph.output(`${NEXT}first`, next.first);
  graph.output(`${NEXT}second`, next.second);
  graph.output('loss', loss);
  return graph;
}

export class Trainer {
  readonly #run: Session;
  readonly #average: number | undefined;
  #averages: Float32Array | undefined;
  /** What the graph reads, and what it writes; they change places after each step. */
  #state: Matrices;
  #spare: Matrices;
  #steps = 0;

  /** Starts from these parameters. */
  static async open(problem: Problem, initial: Matrices, threads: number): Promise<Trainer> {
    const shapes = parameterShapes(problem);
    return new Trainer(await openSession(stepGraph(problem, shapes).model(), { threads }), problem, shapes, initial);
  }

  private constructor(run: Session, { average }: Problem, shapes: Shapes, initial: Matrices) {
    this.#run = run;
    const shape = [totalOf(shapes)];
    this.#state = Object.fromEntries(STATE.map((name) => [name, { data: new Float32Array(shape[0]), shape }]));
    for (const [name, { data }] of Object.entries(named(this.parameters, shapes))) data.set(initial[name].data);
    this.#spare = copied(this.#state);
    this.#average = average;
    if (average !== undefined) this.#averages = this.parameters.slice();
  }

  get steps(): number {
    return this.#steps;
  }

  /** The weights as they are; the next step but one writes over them. */
  get parameters(): Float32Array {
    return this.#state[PARAMETERS].data as Float32Array;
  }

  /** The weights to use: their running average where one is kept. */
  get result(): Float32Array {
    return (this.#averages ?? this.parameters).slice();
  }

  /** Everything the next step depends on. */
  get state(): Matrices {
    const averages = this.#averages && { [AVERAGE]: { data: this.#averages, shape: [this.#averages.length] } };
    return copied({ ...this.#state, ...averages });
  }

  restore(state: Matrices, steps: number): void {
    const all: [string, Float32Array][] = STATE.map((name) => [name, this.#state[name].data as Float32Array]);
    if (this.#averages) all.push([AVERAGE, this.#averages]);
    if (!all.every(([name, data]) => state[name]?.data.length === data.length))
      throw new CompressError('MALFORMED', 'The checkpoint is damaged: weights are missing.');
    for (const [name, data] of all) data.set(state[name].data);
    this.#steps = steps;
  }

  /** Takes a step for a batch; returns its loss, and the parts of it that are watched. */
  async step(batch: Feeds, learningRate: number): Promise<Record<string, number>> {
    const t = this.#steps + 1;
    const scalar = (value: number) => ({ data: Float32Array.of(value), shape: [] });
    const feeds: Feeds = {
      ...batch,
      ...this.#state,
      rate: scalar(learningRate / (1 - 0.9 ** t)),
      correction: scalar(1 / (1 - 0.999 ** t)),
    };
    const into = Object.fromEntries(Object.entries(this.#spare).map(([name, matrix]) => [NEXT + name, matrix]));
    const results = await this.#run(feeds, into);
    [this.#state, this.#spare] = [this.#spare, this.#state];
    this.#steps = t;
    if (this.#averages) this.#updateAverages(Math.min(this.#average!, t / (t + 9)));
    return Object.fromEntries(
      Object.entries(results).flatMap(([name, { data }]) => (name.startsWith(NEXT) ? [] : [[name, data[0]]])),
    );
  }

  /** What was drawn at random should not linger: the share of the old grows to that asked for. */
  #updateAverages(keep: number): void {
    const [average, now] = [this.#averages!, this.parameters];
    for (let i = 0; i < now.length; i++) average[i] = keep * average[i] + (1 - keep) * now[i];
  }
}

const copied = (matrices: Matrices) => mapped(matrices, ({ data, shape }): Matrix => ({ data: data.slice(), shape }));
