import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromBinary } from '@bufbuild/protobuf';
import { Random } from '@hers/vectors/random';
import { ModelProtoSchema } from 'onnx-buf';
import * as ort from 'onnxruntime-node';
import { decodeModel, encodeModel, fieldsOf, type OnnxModel, type OnnxNode } from './onnx.ts';
import { compile } from './plain.ts';

const random = new Random(5);
const numbers = (count: number) => Float32Array.from({ length: count }, () => random.normal());

/** Every operation that plain TypeScript knows, with odd sizes. */
const everything: OnnxModel = {
  nodes: [
    { op: 'LpNormalization', inputs: ['vectors'], outputs: ['unit'], attributes: { axis: 1, p: 2 } },
    { op: 'Gemm', inputs: ['unit', 'w1', 'b1'], outputs: ['a'] },
    { op: 'Relu', inputs: ['a'], outputs: ['b'] },
    { op: 'Gemm', inputs: ['b', 'w2'], outputs: ['c'], attributes: { transB: 1, alpha: { float: 1 } } },
    { op: 'Add', inputs: ['b', 'c'], outputs: ['d'] },
    { op: 'Sub', inputs: ['d', 'row'], outputs: ['e'] },
    { op: 'Mul', inputs: ['scalar', 'e'], outputs: ['f'] },
    { op: 'Tanh', inputs: ['f'], outputs: ['g'] },
    { op: 'Concat', inputs: ['g', 'unit'], outputs: ['h'], attributes: { axis: 1 } },
    { op: 'LpNormalization', inputs: ['h'], outputs: ['compressed'], attributes: { axis: 1, p: 2 } },
  ],
  tensors: [
    { name: 'w1', shape: [11, 7], data: numbers(77) },
    { name: 'b1', shape: [7], data: numbers(7) },
    { name: 'w2', shape: [7, 7], data: numbers(49) },
    { name: 'row', shape: [7], data: numbers(7) },
    { name: 'scalar', shape: [1], data: numbers(1) },
  ],
  inputs: [{ name: 'vectors', shape: ['count', 11] }],
  outputs: [{ name: 'compressed', shape: ['count', 18] }],
  metadata: { hers: '{"ä": "→"}', other: '' },
  description: 'all of them',
};

test('a model comes back from its bytes as it was', () => {
  const decoded = decodeModel(encodeModel(everything));
  const plain = (model: OnnxModel) => JSON.parse(JSON.stringify(model));
  assert.deepEqual(
    plain({ ...decoded, nodes: decoded.nodes.map(({ op, inputs, outputs }) => ({ op, inputs, outputs })) }),
    {
      ...plain({ ...everything, nodes: everything.nodes.map(({ op, inputs, outputs }) => ({ op, inputs, outputs })) }),
      inputs: [{ ...everything.inputs[0], integer: false }],
      outputs: [{ ...everything.outputs[0], integer: false }],
    },
  );
  assert.equal(decoded.nodes[0].attributes?.p, 2);
  assert.deepEqual(decoded.nodes[3].attributes?.alpha, { float: 1 });
  // A part of a Buffer of Node does not own the memory around it.
  const whole = Buffer.from(encodeModel(everything));
  assert.deepEqual(decodeModel(whole), decodeModel(new Uint8Array(whole)));
});

test('whole numbers are read packed into one field, as many programs write them, and one field each', () => {
  // Field 8, as bytes: 1, 300, -1, which takes ten bytes; then 7 in a field of its own.
  const minusOne = [...Array<number>(9).fill(0xff), 0x01];
  const packed = [0x01, 0xac, 0x02, ...minusOne];
  const fields = [...fieldsOf(Uint8Array.from([0x42, packed.length, ...packed, 0x40, 0x07]))];
  assert.deepEqual(
    fields.map(({ number, integers }) => [number, integers]),
    [
      [8, [1, 300, -1]],
      [8, [7]],
    ],
  );
  const cut = Uint8Array.from([0x42, 1, 0x80]);
  assert.throws(() => [...fieldsOf(cut)][0].integers, { code: 'MALFORMED' });
});

test('an independent implementation of the format reads the same', () => {
  const model = fromBinary(ModelProtoSchema, encodeModel(everything));
  assert.equal(model.irVersion, 9n);
  assert.equal(model.opsetImport[0].version, 17n);
  assert.deepEqual(Object.fromEntries(model.metadataProps.map(({ key, value }) => [key, value])), everything.metadata);
  assert.deepEqual(
    model.graph!.node.map(({ opType }) => opType),
    everything.nodes.map(({ op }) => op),
  );
  assert.deepEqual(
    model.graph!.initializer.map(({ dims }) => dims.map(Number)),
    everything.tensors.map(({ shape }) => shape),
  );
  assert.deepEqual(new Float32Array(model.graph!.initializer[1].rawData.slice().buffer), everything.tensors[1].data);
});

test('plain TypeScript computes what onnxruntime computes, for every operation and number of rows', async () => {
  const session = await ort.InferenceSession.create(encodeModel(everything));
  const program = compile(decodeModel(encodeModel(everything)));
  assert.deepEqual([program.inputDimension, program.outputDimension], [11, 18]);
  for (const rows of [1, 2, 3, 4, 5, 31, 32, 33, 67]) {
    const vectors = numbers(rows * 11);
    const { compressed } = await session.run({ vectors: new ort.Tensor('float32', vectors, [rows, 11]) });
    const ours = program.run(vectors);
    (compressed.data as Float32Array).forEach((value, i) =>
      assert.ok(Math.abs(value - ours[i]) < 2e-6, `row ${i / 18}`),
    );
  }
});

test('what plain TypeScript does not know, it names', () => {
  const last = everything.nodes.length - 1;
  const withNode = (node: OnnxNode, at = last) => compile({ ...everything, nodes: everything.nodes.with(at, node) });
  const node = everything.nodes[last];
  assert.throws(() => withNode({ ...node, op: 'Softmax' }), { code: 'UNSUPPORTED_MODEL', message: /"Softmax"/ });
  assert.throws(() => withNode({ ...node, attributes: { axis: 0, p: 2 } }), { code: 'UNSUPPORTED_MODEL' });
  assert.throws(() => withNode({ ...node, inputs: ['nothing'] }), { code: 'MALFORMED', message: /"nothing"/ });
  assert.throws(() => withNode({ ...everything.nodes[1], inputs: ['unit', 'w2'] }, 1), { code: 'MALFORMED' });
});
