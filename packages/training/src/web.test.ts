import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as web from 'onnxruntime-web';
import { synthetic } from '../testing/identities.ts';
import { fit, type MethodName } from './fit.ts';
import { load, type Runtime } from './index.ts';

web.env.wasm.numThreads = 1;

/** What a page does to run a model in onnxruntime-web. */
const runtime: Runtime = {
  async open(model) {
    const session = await web.InferenceSession.create(model, { executionProviders: ['wasm'] });
    return async (vectors, rows) => {
      const feeds = { [session.inputNames[0]]: new web.Tensor('float32', vectors, [rows, vectors.length / rows]) };
      return (await session.run(feeds))[session.outputNames[0]].data as Float32Array;
    };
  },
};

/** Scores nearer than this are equal: summing in another order moves the last digits. */
const EQUAL = 1e-6;

/** That two sets of vectors put the gallery into the same order for each of some probes. */
function sameOrder(one: Float32Array, other: Float32Array, dimension: number, probes: number): void {
  const score = (vectors: Float32Array, a: number, b: number) => {
    let dot = 0;
    for (let k = 0; k < dimension; k++) dot += vectors[a * dimension + k] * vectors[b * dimension + k];
    return dot;
  };
  for (let probe = 0; probe < probes; probe++) {
    const order = Array.from({ length: one.length / dimension }, (_, i) => i);
    order.sort((a, b) => score(one, probe, b) - score(one, probe, a));
    for (let i = 1; i < order.length; i++)
      assert.ok(
        score(other, probe, order[i]) <= score(other, probe, order[i - 1]) + EQUAL,
        `probe ${probe}, rank ${i}`,
      );
  }
}

const short = { steps: 6, pool: 400 };
const cases: [MethodName, object][] = [
  ['pca', {}],
  ['lda', { shrinkage: 0.3 }],
  ['deepmds++', short],
  ['deepmds++authors', short],
  ['ranking', { steps: 5, hidden: [24, 9] }],
];

for (const [method, settings] of cases)
  test(`a saved model of ${method} ranks identically in onnxruntime-web, in onnxruntime-node and in plain TypeScript`, async () => {
    const dimension = 8;
    const { vectors, labels } = synthetic({ classes: 60, each: 5, dimension: 32, seed: 4 });
    const file = (await fit(method, vectors, labels, { dimension, settings, validation: 0 })).save();
    const inWeb = await (await runtime.open(file))(vectors, labels.length);
    const { runtime: node } = await import('@hers/compress/runtime');
    const inNode = await (await node.open(file))(vectors, labels.length);
    const plain = await load(file);
    // One at a time they stay below what is worth a runtime.
    const alone = new Float32Array(inWeb.length);
    for (let i = 0; i < labels.length; i++)
      alone.set(await plain.transform(vectors.subarray(i * 32, (i + 1) * 32)), i * dimension);
    for (const other of [inNode, alone]) {
      inWeb.forEach((x, i) => assert.ok(Math.abs(x - other[i]) < 1e-5));
      sameOrder(inWeb, other, dimension, 50);
    }
    assert.equal((await load(file, { runtime })).outputDimension, dimension);
  });

test('a network from another tool, with operations that plain TypeScript does not know, runs in the runtime that is given', async () => {
  const { encodeModel } = await import('@hers/compress/onnx');
  const file = encodeModel({
    nodes: [{ op: 'Softmax', inputs: ['x'], outputs: ['y'], attributes: { axis: 1 } }],
    tensors: [],
    inputs: [{ name: 'x', shape: ['n', 3] }],
    outputs: [{ name: 'y', shape: ['n', 3] }],
  });
  const compressor = await load(file, { runtime });
  assert.equal(compressor.method, 'unknown');
  const [a, b, c] = await compressor.transform([1, 2, 3]);
  assert.ok(Math.abs(a + b + c - 1) < 1e-6 && c > b);
});
