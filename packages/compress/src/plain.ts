// Runs a compressor in plain TypeScript: chains of fully connected layers with what stands between
// them. Every model this package writes is made of these operations; others need onnxruntime.

import { CompressError } from './errors.ts';
import { multiplyTransposed } from './multiply.ts';
import { malformed, type OnnxModel, type OnnxNode, type OnnxTensor } from './onnx.ts';

/** Rows together: enough for the blocks of the product, few enough for the cache. */
const TILE = 32;

/** Dimensions beyond any embedding: a damaged file should not ask for terabytes. */
const MOST = 2 ** 20;

/** A tensor while the model runs: one row for each vector, or one for all if constant. */
interface Slot {
  columns: number;
  data: Float64Array;
  constant: boolean;
}

type Step = (rows: number) => void;

export interface Program {
  inputDimension: number;
  outputDimension: number;
  /** Multiplications for one vector. */
  cost: number;
  run(vectors: Float32Array): Float32Array<ArrayBuffer>;
}

function unsupported(what: string): CompressError {
  return new CompressError(
    'UNSUPPORTED_MODEL',
    `The model ${what}, which only onnxruntime can run: install onnxruntime-node, or give a runtime.`,
  );
}

/**
 * Prepares a model to be run. Throws `UNSUPPORTED_MODEL` when it is made of other operations,
 * `MALFORMED` when its parts do not fit.
 */
export function compile(model: OnnxModel): Program {
  const [input] = model.inputs;
  const [output] = model.outputs;
  const width = input?.shape[1];
  if (
    model.inputs.length !== 1 ||
    model.outputs.length !== 1 ||
    typeof width !== 'number' ||
    !(width > 0 && width <= MOST)
  )
    throw unsupported('has not one input and one output of vectors');
  const tensors = new Map(model.tensors.map((tensor) => [tensor.name, tensor]));
  const first: Slot = slotOf(width);
  const slots = new Map([[input.name, first]]);
  const steps: Step[] = [];
  let cost = width;
  for (const node of model.nodes) {
    const { slot, step, multiplications } = compileNode(node, slots, tensors);
    if (node.outputs.length !== 1) throw unsupported(`has an operation ${node.op} with several outputs`);
    slots.set(node.outputs[0], slot);
    steps.push(step);
    cost += multiplications;
  }
  const last = slots.get(output.name);
  if (!last || last.constant) throw malformed('does not compute its output');
  return {
    inputDimension: width,
    outputDimension: last.columns,
    cost,
    run: (vectors) => run(vectors, first, last, steps),
  };
}

function run(vectors: Float32Array, first: Slot, last: Slot, steps: Step[]): Float32Array<ArrayBuffer> {
  const count = vectors.length / first.columns;
  const result = new Float32Array(count * last.columns);
  for (let start = 0; start < count; start += TILE) {
    const rows = Math.min(TILE, count - start);
    first.data.set(vectors.subarray(start * first.columns, (start + rows) * first.columns));
    for (const step of steps) step(rows);
    result.set(last.data.subarray(0, rows * last.columns), start * last.columns);
  }
  return result;
}

function slotOf(columns: number): Slot {
  return { columns, data: new Float64Array(TILE * columns), constant: false };
}

type Compiled = { slot: Slot; step: Step; multiplications: number };

function compileNode(node: OnnxNode, slots: Map<string, Slot>, tensors: Map<string, OnnxTensor>): Compiled {
  const { op, inputs } = node;
  const slot = (index: number): Slot => {
    const name = inputs[index];
    const found = slots.get(name) ?? constantSlot(tensors.get(name));
    if (!found) throw malformed(`uses ${JSON.stringify(name ?? '')} before it is computed`);
    return found;
  };
  if (op === 'Gemm') return layer(node, slot(0), tensors);
  if (op === 'Concat') return concatenation(node, Array.from(inputs.keys(), slot));
  if (op === 'LpNormalization') return normalisation(node, slot(0));
  if (op === 'Add' || op === 'Sub' || op === 'Mul') return elementwise(op, slot(0), slot(1));
  if (op === 'Relu' || op === 'Tanh') {
    const from = slot(0);
    const to = slotOf(from.columns);
    const step = (rows: number) => {
      const end = rows * from.columns;
      if (op === 'Relu') for (let i = 0; i < end; i++) to.data[i] = Math.max(0, from.data[i]);
      else for (let i = 0; i < end; i++) to.data[i] = Math.tanh(from.data[i]);
    };
    return { slot: to, step, multiplications: from.columns };
  }
  throw unsupported(`has the operation ${JSON.stringify(op)}`);
}

/** A constant that is added to, or multiplied with, every row. */
function constantSlot(tensor: OnnxTensor | undefined): Slot | undefined {
  if (!tensor || !(tensor.data instanceof Float32Array)) return;
  const columns = tensor.shape.at(-1) ?? 1;
  if (tensor.data.length !== columns) return;
  return { columns, data: Float64Array.from(tensor.data), constant: true };
}

/** A fully connected layer: `x W + b`. */
function layer({ inputs, attributes = {} }: OnnxNode, from: Slot, tensors: Map<string, OnnxTensor>): Compiled {
  const { transA = 0, transB = 0, alpha = { float: 1 }, beta = { float: 1 } } = attributes;
  const isOne = (value: unknown) => value === 1 || (value as { float?: number }).float === 1;
  if (transA !== 0 || !isOne(alpha) || !isOne(beta)) throw unsupported('has a scaled or transposed layer');
  const weights = tensors.get(inputs[1]);
  if (!weights || !(weights.data instanceof Float32Array) || weights.shape.length !== 2)
    throw unsupported('has a layer whose weights are not constant');
  const [inner, columns] = transB === 0 ? weights.shape : weights.shape.toReversed();
  const transposed = transB === 0 ? transpose(weights.data, inner, columns) : Float64Array.from(weights.data);
  const constant = inputs[2] === undefined || inputs[2] === '' ? undefined : tensors.get(inputs[2]);
  if (inputs[2] && (!constant || constant.data.length !== columns))
    throw malformed('has a layer with a bias that does not fit');
  const bias = constant && Float64Array.from(constant.data as Float32Array);
  if (inner !== from.columns || from.constant) throw malformed('has layers that do not fit together');
  const to = slotOf(columns);
  const step = (rows: number) => multiplyTransposed(from.data, transposed, to.data, { rows, inner, columns, bias });
  return { slot: to, step, multiplications: inner * columns };
}

function transpose(data: Float32Array, rows: number, columns: number): Float64Array {
  const result = new Float64Array(data.length);
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) result[c * rows + r] = data[r * columns + c];
  return result;
}

/** Vectors of length one; one without length stays as it is, as in onnxruntime. */
function normalisation({ attributes = {} }: OnnxNode, from: Slot): Compiled {
  const { axis = -1, p = 2 } = attributes;
  if (p !== 2 || (axis !== -1 && axis !== 1) || from.constant) throw unsupported('has an unusual normalisation');
  const { columns } = from;
  const to = slotOf(columns);
  const step = (rows: number) => {
    for (let r = 0; r < rows; r++) {
      const end = (r + 1) * columns;
      let squares = 0;
      for (let i = r * columns; i < end; i++) squares += from.data[i] * from.data[i];
      const scale = squares > 0 ? 1 / Math.sqrt(squares) : 0;
      for (let i = r * columns; i < end; i++) to.data[i] = from.data[i] * scale;
    }
  };
  return { slot: to, step, multiplications: 2 * columns };
}

function elementwise(op: 'Add' | 'Sub' | 'Mul', left: Slot, right: Slot): Compiled {
  if (left.constant && right.constant) throw unsupported('computes with constants alone');
  const columns = Math.max(left.columns, right.columns);
  for (const side of [left, right])
    if (side.columns !== columns && !(side.constant && side.columns === 1)) throw malformed('adds what does not fit');
  const to = slotOf(columns);
  const index = (side: Slot) => (side.columns === 1 && columns > 1 ? () => 0 : (_: number, c: number) => c);
  const [l, r] = [index(left), index(right)];
  const step = (rows: number) => {
    for (let row = 0; row < rows; row++) {
      const [lAt, rAt] = [left.constant ? 0 : row * columns, right.constant ? 0 : row * columns];
      for (let c = 0; c < columns; c++) {
        const [x, y] = [left.data[lAt + l(row, c)], right.data[rAt + r(row, c)]];
        to.data[row * columns + c] = op === 'Add' ? x + y : op === 'Sub' ? x - y : x * y;
      }
    }
  };
  return { slot: to, step, multiplications: columns };
}

function concatenation({ attributes = {} }: OnnxNode, parts: Slot[]): Compiled {
  const { axis } = attributes;
  if ((axis !== 1 && axis !== -1) || parts.some((part) => part.constant)) throw unsupported('joins parts unusually');
  const columns = parts.reduce((sum, part) => sum + part.columns, 0);
  const to = slotOf(columns);
  const step = (rows: number) => {
    let offset = 0;
    for (const part of parts) {
      for (let r = 0; r < rows; r++)
        to.data.set(part.data.subarray(r * part.columns, (r + 1) * part.columns), r * columns + offset);
      offset += part.columns;
    }
  };
  return { slot: to, step, multiplications: columns };
}
