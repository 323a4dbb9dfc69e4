// For tests: whether the gradient of a loss is what differences of the loss say.

import assert from 'node:assert/strict';
import { Random } from '@hers/vectors/random';
import { Graph } from '../src/training/autodiff.ts';
import { type Feeds, type Matrices, mapped, openSession } from '../src/training/session.ts';
import { type Problem, parameterShapes } from '../src/training/trainer.ts';

export const doubles = (matrices: Matrices): Matrices =>
  mapped(matrices, ({ data, shape }) => ({ data: Float64Array.from(data), shape }));

/** Places stay whole numbers. */
export const doubleFeeds = (feeds: Feeds): Feeds =>
  Object.fromEntries(
    Object.entries(feeds).map(([name, { data, shape }]) => [
      name,
      data instanceof BigInt64Array ? { data, shape } : { data: Float64Array.from(data), shape },
    ]),
  );

/**
 * The loss and its gradient alone, without a step: `loss`, and `gradient:<name>` for each
 * parameter.
 */
export function gradientGraph(problem: Problem): Graph {
  const graph = new Graph();
  const values = Array.from(parameterShapes(problem), ([name, shape]) => graph.input(name, shape));
  const loss = problem.loss(graph, (name) => values.find((value) => value.name === name)!);
  graph.output('loss', loss);
  graph.gradients(loss, values).forEach((gradient, i) => graph.output(`gradient:${values[i].name}`, gradient));
  return graph;
}

/**
 * Compares the gradient with differences of the loss, in double precision: along one random
 * direction through all parameters, and for single entries of each, or of every so many. Then
 * compares single precision with double.
 */
export async function checkGradients(
  problem: Problem,
  feeds: Feeds,
  parameters: Matrices,
  entries = 2,
  every = 1,
): Promise<void> {
  const model = gradientGraph(problem).model();
  const session = await openSession(model, { double: true });
  const weights = doubles(parameters);
  const rest = doubleFeeds(feeds);
  const exact = await session({ ...rest, ...weights });
  const lossAt = async (changed: Matrices) => (await session({ ...rest, ...weights, ...changed })).loss.data[0];
  const random = new Random(99);
  const step = 1e-6;
  const close = (numeric: number, analytic: number, what: string) =>
    assert.ok(
      Math.abs(numeric - analytic) <= 1e-6 + 1e-4 * Math.abs(analytic),
      `${what}: ${numeric} against ${analytic}`,
    );
  const direction = Object.fromEntries(
    Object.entries(weights).map(([name, { data, shape }]) => [name, { data: data.map(() => random.normal()), shape }]),
  );
  const moved = (by: number): Matrices =>
    Object.fromEntries(
      Object.entries(weights).map(([name, { data, shape }]) => [
        name,
        { data: data.map((x, i) => x + by * direction[name].data[i]), shape },
      ]),
    );
  let along = 0;
  for (const [name, { data }] of Object.entries(direction))
    data.forEach((x, i) => (along += x * exact[`gradient:${name}`].data[i]));
  // So small that no ReLU among thousands changes sides; double precision can take it.
  const tiny = 1e-9;
  const [ahead, behind] = [await lossAt(moved(tiny)), await lossAt(moved(-tiny))];
  close((ahead - behind) / (2 * tiny), along, 'along a random direction');
  for (const [name, { data, shape }] of Object.entries(weights).filter((_, i) => i % every === 0))
    for (let e = 0; e < entries; e++) {
      const at = random.below(data.length);
      const shifted = (by: number) => ({ [name]: { data: data.with(at, data[at] + by), shape } });
      const numeric = ((await lossAt(shifted(step))) - (await lossAt(shifted(-step)))) / (2 * step);
      close(numeric, exact[`gradient:${name}`].data[at], `${name}[${at}]`);
    }
  const single = await (await openSession(model))({ ...feeds, ...parameters });
  for (const name of Object.keys(parameters)) {
    const [ours, right] = [single[`gradient:${name}`].data, exact[`gradient:${name}`].data];
    let largest = 1e-6;
    for (const x of right) largest = Math.max(largest, Math.abs(x));
    ours.forEach((x, i) => assert.ok(Math.abs(x - right[i]) < 2e-3 * largest, `${name} in single precision`));
  }
}
