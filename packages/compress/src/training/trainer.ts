// A loss, its gradient and Adam as one graph: a step is one run of it.

import { CompressError } from '../apply/errors.ts';
import type { Dimension } from '../apply/onnx.ts';
import type { Parameter } from '../methods/network.ts';
import { Graph, type Value } from './autodiff.ts';
import { type Matrices, openSession, type Session } from './session.ts';

export interface Problem {
  /** Writes the loss into a graph, from inputs it declares and parameters it asks for. */
  loss(graph: Graph, parameter: Parameter): Value;
  /** Weight decay that is part of the gradient, for matrices only. */
  l2?: number;
  /** Weight decay beside the gradient, for matrices only, as a share of the learning rate. */
  decay?: number;
  /** A parameter's learning rate as a multiple of the step's. */
  rate?(name: string): number;
  /** Keeps a running average of the weights: the share of the old average at each step. */
  average?: number;
}

/** Declares parameters as inputs, and remembers their shapes. */
export function parameterInputs(graph: Graph): { parameter: Parameter; values: Map<string, Value> } {
  const values = new Map<string, Value>();
  const parameter: Parameter = (name, shape) => {
    let value = values.get(name);
    if (!value) values.set(name, (value = graph.input(name, shape)));
    return value;
  };
  return { parameter, values };
}

/** The shapes of the parameters that a problem asks for. */
export function parameterShapes(problem: Problem): Map<string, readonly number[]> {
  const graph = new Graph();
  const { parameter, values } = parameterInputs(graph);
  problem.loss(graph, parameter);
  return new Map(Array.from(values, ([name, { shape }]) => [name, shape as readonly number[]]));
}

/**
 * The loss and its gradient alone, without a step: `loss`, and `gradient:<name>` for each
 * parameter.
 */
export function gradientGraph(problem: Problem): Graph {
  const graph = new Graph();
  const { parameter, values } = parameterInputs(graph);
  const loss = problem.loss(graph, parameter);
  const gradients = graph.gradients(loss, [...values.values()]);
  graph.output('loss', loss);
  [...values.keys()].forEach((name, i) => graph.output(`gradient:${name}`, gradients[i]));
  return graph;
}

const FIRST = 'first:';
const SECOND = 'second:';
const AVERAGE = 'average:';
const NEXT = 'next:';

function stepGraph(problem: Problem): Graph {
  const graph = new Graph();
  const { parameter, values } = parameterInputs(graph);
  const loss = problem.loss(graph, parameter);
  const gradients = graph.gradients(loss, [...values.values()]);
  const [rate, correction, kept] = ['rate', 'correction', 'keep'].map((name) => graph.input(name, []));
  [...values].forEach(([name, value], i) => {
    const input = (prefix: string) => graph.input(prefix + name, value.shape as readonly Dimension[]);
    const state = { first: input(FIRST), second: input(SECOND), rate, correction };
    const isMatrix = value.shape.length === 2;
    const keep = isMatrix && problem.decay ? { keep: kept } : {};
    const own = { l2: isMatrix ? (problem.l2 ?? 0) : 0, rate: problem.rate?.(name) ?? 1 };
    const next = graph.adam(value, gradients[i], { ...state, ...keep }, own);
    graph.output(NEXT + name, next.parameter);
    graph.output(NEXT + FIRST + name, next.first);
    graph.output(NEXT + SECOND + name, next.second);
  });
  // Asked for last, so that it exists when nothing decays.
  graph.output('loss', loss);
  return graph;
}

export class Trainer {
  readonly #run: Session;
  readonly #decay: number;
  readonly #average: number | undefined;
  #averages: Matrices = {};
  /** What the graph reads, and what it writes; they change places after each step. */
  #state: Matrices;
  #spare: Matrices;
  #names: string[];
  #steps = 0;

  static async open(problem: Problem, initial: Matrices, threads: number): Promise<Trainer> {
    return new Trainer(await openSession(stepGraph(problem).model(), { threads }), problem, initial);
  }

  private constructor(run: Session, { decay = 0, average }: Problem, initial: Matrices) {
    this.#run = run;
    this.#decay = decay;
    this.#names = Object.keys(initial);
    this.#state = {};
    for (const name of this.#names) {
      const { data, shape } = initial[name];
      this.#state[name] = { data: data.slice(), shape };
      for (const prefix of [FIRST, SECOND]) this.#state[prefix + name] = { data: new Float32Array(data.length), shape };
    }
    this.#spare = copied(this.#state);
    this.#average = average;
    if (average !== undefined) this.#averages = copied(this.parameters);
  }

  /** Steps taken so far. */
  get steps(): number {
    return this.#steps;
  }

  /** The weights as they are; the next step but one writes over them. */
  get parameters(): Matrices {
    return Object.fromEntries(this.#names.map((name) => [name, this.#state[name]]));
  }

  /** The weights to use: their running average where one is kept. */
  get result(): Matrices {
    return copied(this.#average === undefined ? this.parameters : this.#averages);
  }

  /** Everything the next step depends on. */
  get state(): Matrices {
    const averages = Object.entries(this.#averages).map(([name, matrix]) => [AVERAGE + name, matrix]);
    return copied({ ...this.#state, ...Object.fromEntries(averages) });
  }

  restore(state: Matrices, steps: number): void {
    const averages = Object.entries(this.#averages).map(([name, matrix]) => [AVERAGE + name, matrix] as const);
    const all = [...Object.entries(this.#state), ...averages];
    if (!all.every(([name, { data }]) => state[name]?.data.length === data.length))
      throw new CompressError('MALFORMED', 'The checkpoint is damaged: weights are missing.');
    for (const [name, { data }] of all) data.set(state[name].data);
    this.#steps = steps;
  }

  /** Takes a step for a batch, and returns its loss. */
  async step(batch: Matrices, learningRate: number): Promise<number> {
    const t = this.#steps + 1;
    const scalar = (value: number) => ({ data: Float32Array.of(value), shape: [] });
    const feeds: Matrices = {
      ...batch,
      ...this.#state,
      rate: scalar(learningRate / (1 - 0.9 ** t)),
      correction: scalar(1 / (1 - 0.999 ** t)),
      keep: scalar(1 - learningRate * this.#decay),
    };
    const into = Object.fromEntries(Object.entries(this.#spare).map(([name, matrix]) => [NEXT + name, matrix]));
    const { loss } = await this.#run(feeds, into);
    [this.#state, this.#spare] = [this.#spare, this.#state];
    this.#steps = t;
    if (this.#average !== undefined) this.#updateAverages(Math.min(this.#average, t / (t + 9)));
    return loss.data[0];
  }

  /**
   * Early on, what was drawn at random should not linger: the share of the old grows to what was
   * asked for.
   */
  #updateAverages(keep: number): void {
    for (const name of this.#names) {
      const [average, now] = [this.#averages[name].data, this.#state[name].data];
      for (let i = 0; i < now.length; i++) average[i] = keep * average[i] + (1 - keep) * now[i];
    }
  }
}

export function copied(matrices: Matrices): Matrices {
  return Object.fromEntries(
    Object.entries(matrices).map(([name, { data, shape }]) => [name, { data: data.slice(), shape }]),
  );
}
