import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '@hers/vectors/random';
import { checkGradients, doubleFeeds, doubles, gradientGraph } from '../../testing/gradient-check.ts';
import { synthetic } from '../../testing/identities.ts';
import { batchOf, problemOf } from '../methods/deepmds.ts';
import { type Architecture, chainFor, drawn } from '../methods/network.ts';
import { type PairLoss, randomGenuine, randomImpostor, several } from '../methods/pairs.ts';
import type { Graph } from './autodiff.ts';
import { type Feeds, openSession } from './session.ts';
import { named, type Problem, parameterShapes, Trainer } from './trainer.ts';

function pairBatch(dimension: number, pairs: number): Feeds {
  const { vectors, labels } = synthetic({ classes: 12, each: 3, dimension });
  const random = new Random(3);
  const kinds = [randomGenuine(several(labels), pairs, random), randomImpostor(labels, pairs + 1, random)];
  return batchOf({ vectors, dimension, count: labels.length }, kinds);
}

const text: PairLoss & { weightDecay: number } = {
  error: 'squared',
  covariance: 'frobenius',
  covarianceWeight: 1,
  weightDecay: 0,
};
const authors = { ...text, error: 'absolute', covariance: 'mean-absolute', covarianceWeight: 10 } as const;
const plain = { layers: 1, residual: false, normaliseStages: false };
const residual = { layers: 3, residual: true, normaliseStages: true };

async function checkNetwork(
  architecture: Architecture,
  loss: typeof text,
  pairs: number,
  entries?: number,
  every?: number,
): Promise<void> {
  const problem = problemOf(architecture, loss);
  const parameters = drawn(parameterShapes(problem), 7);
  // A bias of zero would leave its derivative untested at a special place.
  const random = new Random(8);
  for (const { data } of Object.values(parameters))
    for (let i = 0; i < data.length; i++) data[i] += 0.02 * random.normal();
  await checkGradients(problem, pairBatch(architecture.chain[0], pairs), parameters, entries, every);
}

test('gradients of the losses of the text and of the authors are what differences of the loss say', async () => {
  for (const loss of [text, { ...text, covarianceWeight: 0 }, authors])
    for (const shape of [plain, residual]) await checkNetwork({ ...shape, chain: [24, 13, 6] }, loss, 20, 6);
});

for (const input of [192, 512, 1536])
  test(`gradients of the network of the paper for ${input} dimensions are right, to the last stage`, async () => {
    const chain = chainFor(input, input === 512 ? 64 : 16);
    assert.equal(chain.length, { 192: 5, 512: 4, 1536: 8 }[input]);
    await checkNetwork({ ...plain, chain }, text, 10, 1, input === 1536 ? 9 : 1);
  });

test('gradients of the other operations are right', async () => {
  const problem: Problem = {
    loss(graph: Graph, parameter) {
      const x = graph.input('x', ['rows', 5]);
      const target = graph.input('target', ['rows', 4]);
      const w = parameter('w', [5, 3]);
      const v = parameter('v', [4, 3]);
      const y = graph.matmul(x, w);
      const logits = graph.matmul(graph.relu(y), v, { transB: true });
      const gram = graph.matmul(w, w, { transA: true });
      return graph.add(graph.sum(graph.crossEntropy(logits, target)), graph.sum(graph.abs(gram)));
    },
  };
  const random = new Random(4);
  const numbers = (...shape: number[]) => ({
    data: Float32Array.from({ length: shape.reduce((a, b) => a * b) }, () => random.normal()),
    shape,
  });
  const target = new Float32Array(28).map((_, i) => (i % 4 === (i >> 2) % 4 ? 0.75 : 0.25 / 3));
  await checkGradients(
    problem,
    { x: numbers(7, 5), target: { data: target, shape: [7, 4] } },
    { w: numbers(5, 3), v: numbers(4, 3) },
    5,
  );
});

test('steps of the trainer are those of Adam written out', async () => {
  const architecture = { ...plain, chain: [10, 6, 3] };
  for (const own of [{ l2: 0.01 }, { rate: (name: string) => (name.includes('relu') ? 0.5 : 1) }]) {
    const problem: Problem = { ...problemOf(architecture, text), l2: 0, ...own };
    const shapes = parameterShapes(problem);
    const parameters = drawn(shapes, 1);
    const trainer = await Trainer.open(problem, parameters, 1);
    const gradients = await openSession(gradientGraph(problem).model(), { double: true });
    const slow = doubles(parameters);
    const moments = Object.fromEntries(
      Object.entries(slow).map(([name, { data }]) => [name, { m: data.map(() => 0), v: data.map(() => 0) }]),
    );
    for (let t = 1; t <= 5; t++) {
      const batch = pairBatch(10, 5 + t);
      const rate = 1e-2 / t;
      const exact = await gradients({ ...doubleFeeds(batch), ...slow });
      const { loss } = await trainer.step(batch, rate);
      assert.ok(Math.abs(loss - exact.loss.data[0]) < 1e-5);
      for (const [name, { data, shape }] of Object.entries(slow)) {
        const { m, v } = moments[name];
        const isMatrix = shape.length === 2;
        for (let i = 0; i < data.length; i++) {
          const g = exact[`gradient:${name}`].data[i] + (isMatrix ? problem.l2! : 0) * data[i];
          m[i] = 0.9 * m[i] + 0.1 * g;
          v[i] = 0.999 * v[i] + 0.001 * g * g;
          const move =
            ((problem.rate?.(name) ?? 1) * rate * (m[i] / (1 - 0.9 ** t))) /
            (Math.sqrt(v[i] / (1 - 0.999 ** t)) + 1e-8);
          data[i] -= move;
        }
      }
    }
    for (const [name, { data }] of Object.entries(named(trainer.parameters, shapes)))
      data.forEach((x, i) =>
        assert.ok(Math.abs(x - slow[name].data[i]) < 2e-4, `${name}[${i}]: ${x} against ${slow[name].data[i]}`),
      );
  }
});
