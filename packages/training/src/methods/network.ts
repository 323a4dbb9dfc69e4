// The networks of DeepMDS and DeepMDS++ (appendix of the HERS paper): a chain of stages, each from
// I to O dimensions.
//
// As the text has it, a stage is one block unit: a fully connected layer I → I with ReLU, then one
// I → O without. As the authors' code has it (`residual`), a stage goes down in `layers` equal
// steps; in each, the first layer's output is added to its input, a linear map of the stage's input
// is added to its output ("long skip"), and the result is normalised.

import { Random } from '@hers/vectors/random';
import type { Graph, Value } from '../training/autodiff.ts';
import type { Matrices } from '../training/session.ts';
import { invalid } from './method.ts';

export interface Architecture {
  /** The chain of dimensions, input first: `[512, 256, 128, 64]`. */
  chain: readonly number[];
  /** Block units in a stage: 1 in the text, 3 in the authors' code. */
  layers: number;
  residual: boolean;
  normaliseStages: boolean;
}

/** Where a layer's weights come from: inputs of a graph that trains them, constants of a model. */
export type Parameter = (name: string, shape: readonly [number, number] | readonly [number]) => Value;

const PUBLISHED: Record<number, readonly number[]> = {
  1536: [1536, 1024, 512, 256, 128, 64, 32, 16],
  512: [512, 256, 128, 64, 32, 16],
  192: [192, 128, 64, 32, 16],
};

/**
 * The chain for a compression: the published one as far as it goes ("we simply discard later block
 * units"), otherwise halves, as the published ones do: the powers of two between the two
 * dimensions.
 */
export function chainFor(input: number, output: number): number[] {
  const published = PUBLISHED[input];
  if (published?.includes(output)) return published.slice(0, published.indexOf(output) + 1);
  const chain = [input];
  for (let size = 2 ** Math.ceil(Math.log2(input) - 1); size > output; size /= 2) if (size < input) chain.push(size);
  return [...chain, output];
}

export function checkChain(chain: readonly number[], input: number, output: number): void {
  const whole = chain.every((size) => Number.isInteger(size) && size > 0);
  if (chain.length < 2 || !whole || chain[0] !== input || chain.at(-1) !== output)
    throw invalid(
      `chain is a list of dimensions from ${input}, that of the vectors, to ${output}, that of the compressed ones.`,
    );
}

/** The dimensions inside a stage: equal steps down, what is left over in the last. */
function steps(from: number, to: number, layers: number): number[] {
  const step = Math.floor((from - to) / layers);
  return Array.from({ length: layers + 1 }, (_, i) => (i === layers ? to : from - i * step));
}

/** A fully connected layer, with its weights and bias by this name. */
export function layer(graph: Graph, parameter: Parameter, x: Value, name: string, from: number, to: number): Value {
  return graph.matmul(x, parameter(`${name}.weight`, [from, to]), { bias: parameter(`${name}.bias`, [to]) });
}

/** Parameters as constants of a model. */
export function constants(graph: Graph, parameters: Matrices): Parameter {
  return (name, shape) => graph.tensor(name, parameters[name].data as Float32Array, shape);
}

/** The output of the last stage for rows `x`, not yet normalised unless every stage is. */
export function stages(
  graph: Graph,
  x: Value,
  { chain, layers, residual, normaliseStages }: Architecture,
  parameter: Parameter,
): Value {
  const layerOf = (input: Value, name: string, from: number, to: number) =>
    layer(graph, parameter, input, name, from, to);
  let value = x;
  for (let s = 0; s + 1 < chain.length; s++) {
    const start = value;
    const sizes = steps(chain[s], chain[s + 1], layers);
    for (let l = 0; l < layers; l++) {
      const inner = graph.relu(layerOf(value, `stage${s}.${l}.relu`, sizes[l], sizes[l]));
      value = layerOf(residual ? graph.add(inner, value) : inner, `stage${s}.${l}.linear`, sizes[l], sizes[l + 1]);
    }
    if (residual) value = graph.add(value, layerOf(start, `stage${s}.skip`, chain[s], chain[s + 1]));
    if (normaliseStages) value = graph.normalise(value);
  }
  return value;
}

/**
 * Weights as Glorot and Bengio draw them, uniform within ±√(6 / (in + out)); no bias. What `start`
 * has is taken from there. Each stage draws from a stream of its own, so that it starts in the same
 * place whether those before it were trained or not.
 */
export function drawn(shapes: ReadonlyMap<string, readonly number[]>, seed: number, start: Matrices = {}): Matrices {
  const streams = new Map<string, Random>();
  const result: Matrices = {};
  for (const [name, shape] of shapes) {
    if (Object.hasOwn(start, name)) {
      result[name] = start[name];
      continue;
    }
    const stage = /^stage(\d+)\./.exec(name)?.[1] ?? '0';
    const random = streams.get(stage) ?? new Random(seed, 0x1417, Number(stage));
    streams.set(stage, random);
    const data = new Float32Array(shape.reduce((product, size) => product * size, 1));
    if (shape.length === 2) {
      const bound = Math.sqrt(6 / (shape[0] + shape[1]));
      for (let i = 0; i < data.length; i++) data[i] = (2 * random.uniform() - 1) * bound;
    }
    result[name] = { data, shape };
  }
  return result;
}
