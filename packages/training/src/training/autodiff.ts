// Arithmetic on matrices as an ONNX graph that knows its derivatives. Each operation is written
// down with the operations of its derivative beside it (reverse mode: given ∂L/∂output, add to
// ∂L/∂input), so a loss is stated once and its gradient follows; `autodiff.test.ts` compares them
// with differences of the loss.
//
// Shapes are known up to names: two sizes with the same name are the same number when the graph
// runs.

import type { Attribute, Dimension, OnnxModel, OnnxNode, OnnxTensor, OnnxValue } from '@hers/compress/onnx';

export interface Value {
  readonly name: string;
  readonly shape: readonly Dimension[];
}

type Derivative = (gradient: Value) => readonly (readonly [input: Value, gradient: Value])[];

export class Graph {
  readonly #nodes: OnnxNode[] = [];
  readonly #tensors: OnnxTensor[] = [];
  readonly #inputs: OnnxValue[] = [];
  readonly #outputs: OnnxValue[] = [];
  readonly #tape: { output: Value; derivative: Derivative }[] = [];
  readonly #scalars = new Map<number, Value>();
  #names = 0;

  input(name: string, shape: readonly Dimension[]): Value {
    this.#inputs.push({ name, shape });
    return { name, shape };
  }

  /** Whole numbers, to gather by. */
  places(name: string, size: Dimension): Value {
    this.#inputs.push({ name, shape: [size], integer: true });
    return { name, shape: [size] };
  }

  /** The rows of a matrix at these places; nobody differentiates it. */
  gather(a: Value, places: Value): Value {
    return this.#node('Gather', [a, places], [places.shape[0], a.shape[1]], { axis: 0 });
  }

  /** Matrices and rows that lie one after the other in a vector; nobody differentiates it. */
  pieces(whole: Value, shapes: readonly (readonly number[])[]): Value[] {
    const sizes = shapes.map((shape) => shape.reduce((product, size) => product * size, 1));
    const parts = sizes.map((size) => ({ name: this.#fresh(), shape: [size] }));
    this.#nodes.push({
      op: 'Split',
      inputs: [whole.name, this.#wholes(sizes).name],
      outputs: parts.map(({ name }) => name),
      attributes: { axis: 0 },
    });
    return parts.map((part, i) =>
      shapes[i].length === 1 ? part : this.#node('Reshape', [part, this.#wholes(shapes[i])], shapes[i]),
    );
  }

  /** The same backwards. */
  joined(values: readonly Value[]): Value {
    const rows = values.map((value) => {
      const size = (value.shape as readonly number[]).reduce((product, each) => product * each, 1);
      return value.shape.length === 1 ? value : this.#node('Reshape', [value, this.#wholes([-1])], [size]);
    });
    const size = rows.reduce((sum, { shape }) => sum + (shape[0] as number), 0);
    return this.#node('Concat', rows, [size], { axis: 0 });
  }

  #wholes(numbers: readonly number[]): Value {
    const name = this.#fresh();
    this.#tensors.push({ name, shape: [numbers.length], data: BigInt64Array.from(numbers, BigInt) });
    return { name, shape: [numbers.length] };
  }

  /** A constant that is written into the graph. */
  tensor(name: string, data: Float32Array, shape: readonly number[]): Value {
    this.#tensors.push({ name, data, shape });
    return { name, shape };
  }

  scalar(value: number): Value {
    let found = this.#scalars.get(value);
    if (!found) this.#scalars.set(value, (found = this.tensor(this.#fresh(), Float32Array.of(value), [])));
    return found;
  }

  output(name: string, value: Value): void {
    this.#nodes.push({ op: 'Identity', inputs: [value.name], outputs: [name] });
    this.#outputs.push({ name, shape: value.shape });
  }

  /** The nodes so far with `value` under another name, for a graph that becomes part of a model. */
  body(value: Value, name: string): { nodes: OnnxNode[]; tensors: OnnxTensor[] } {
    const renamed = (each: string) => (each === value.name ? name : each);
    const nodes = this.#nodes.map((node) => ({
      ...node,
      inputs: node.inputs.map(renamed),
      outputs: node.outputs.map(renamed),
    }));
    return { nodes, tensors: this.#tensors };
  }

  /** Leaves out what no output depends on, such as gradients of the input. */
  model(): OnnxModel {
    const needed = new Set(this.#outputs.map(({ name }) => name));
    const nodes = this.#nodes.toReversed().filter(({ inputs, outputs }) => {
      if (!outputs.some((name) => needed.has(name))) return false;
      for (const name of inputs) needed.add(name);
      return true;
    });
    const tensors = this.#tensors.filter(({ name }) => needed.has(name));
    return { nodes: nodes.reverse(), tensors, inputs: this.#inputs, outputs: this.#outputs };
  }

  #fresh(): string {
    return `t${this.#names++}`;
  }

  #node(
    op: string,
    inputs: readonly Value[],
    shape: readonly Dimension[],
    attributes: Record<string, Attribute> = {},
  ): Value {
    const output = { name: this.#fresh(), shape };
    this.#nodes.push({ op, inputs: inputs.map(({ name }) => name), outputs: [output.name], attributes });
    return output;
  }

  #record(output: Value, derivative: Derivative): Value {
    this.#tape.push({ output, derivative });
    return output;
  }

  /** `op(a) op(b) (+ bias)`, where `transA` and `transB` transpose. */
  matmul(
    a: Value,
    b: Value,
    { transA = false, transB = false, bias }: { transA?: boolean; transB?: boolean; bias?: Value } = {},
  ): Value {
    const shape = [a.shape[transA ? 1 : 0], b.shape[transB ? 0 : 1]];
    const [inner, same] = [a.shape[transA ? 0 : 1], b.shape[transB ? 1 : 0]];
    if (inner !== same) throw new Error(`A product of ${a.shape} and ${b.shape} does not fit.`);
    const attributes = { ...(transA && { transA: 1 }), ...(transB && { transB: 1 }) };
    const output = this.#node('Gemm', bias ? [a, b, bias] : [a, b], shape, attributes);
    return this.#record(output, (g) => [
      [a, transA ? this.#gemm(b, g, transB, true) : this.#gemm(g, b, false, !transB)],
      [b, transB ? this.#gemm(g, a, true, transA) : this.#gemm(a, g, !transA, false)],
      ...(bias ? [[bias, this.#reduced(g, bias.shape)] as const] : []),
    ]);
  }

  /** A product that nobody differentiates. */
  #gemm(a: Value, b: Value, transA: boolean, transB: boolean): Value {
    const shape = [a.shape[transA ? 1 : 0], b.shape[transB ? 0 : 1]];
    return this.#node('Gemm', [a, b], shape, { ...(transA && { transA: 1 }), ...(transB && { transB: 1 }) });
  }

  /** `a bᵀ − c dᵀ`, in one pass over its many entries; without a derivative. */
  productDifference(a: Value, b: Value, c: Value, d: Value): Value {
    const attributes = { transB: 1, beta: { float: -1 } };
    return this.#node('Gemm', [a, b, this.#gemm(c, d, false, true)], [a.shape[0], b.shape[0]], attributes);
  }

  /** Elementwise; a row, a column or a single number is repeated to fit a matrix. */
  #pair(op: string, a: Value, b: Value): Value {
    return this.#node(op, [a, b], broadcast(a.shape, b.shape));
  }

  add(a: Value, b: Value): Value {
    return this.#record(this.#pair('Add', a, b), (g) => [
      [a, this.#reduced(g, a.shape)],
      [b, this.#reduced(g, b.shape)],
    ]);
  }

  sub(a: Value, b: Value): Value {
    return this.#record(this.#pair('Sub', a, b), (g) => [
      [a, this.#reduced(g, a.shape)],
      [b, this.#reduced(this.#node('Neg', [g], g.shape), b.shape)],
    ]);
  }

  mul(a: Value, b: Value): Value {
    return this.#record(this.#pair('Mul', a, b), (g) => [
      [a, this.#reduced(this.#pair('Mul', g, b), a.shape)],
      [b, this.#reduced(this.#pair('Mul', g, a), b.shape)],
    ]);
  }

  scale(a: Value, factor: number): Value {
    return this.mul(a, this.scalar(factor));
  }

  square(a: Value): Value {
    return this.mul(a, a);
  }

  abs(a: Value): Value {
    const output = this.#node('Abs', [a], a.shape);
    return this.#record(output, (g) => [[a, this.#pair('Mul', g, this.#node('Sign', [a], a.shape))]]);
  }

  relu(a: Value): Value {
    const output = this.#node('Relu', [a], a.shape);
    return this.#record(output, (g) => [[a, this.#pair('Mul', g, this.#node('Sign', [output], a.shape))]]);
  }

  /**
   * Each row divided by its length: y = x / |x|, so that dx = (dy − y (y · dy)) / |x|. A row of
   * zeros, which ReLU can make, stays one, and has no gradient.
   */
  normalise(a: Value): Value {
    const output = this.#node('LpNormalization', [a], a.shape, { axis: 1, p: 2 });
    return this.#record(output, (g) => {
      const length = this.#node('ReduceL2', [a], [a.shape[0], 1], { axes: [1], keepdims: 1 });
      const along = this.#sum(this.#pair('Mul', g, output), [a.shape[0], 1]);
      const across = this.#pair('Sub', g, this.#pair('Mul', output, along));
      const inverse = this.#pair(
        'Div',
        this.#node('Sign', [length], length.shape),
        this.#pair('Max', length, this.scalar(1e-30)),
      );
      return [[a, this.#pair('Mul', across, inverse)]];
    });
  }

  /** The sum of all numbers, or of each row (`[rows, 1]`), or of each column (`[columns]`). */
  sum(a: Value, what: 'all' | 'rows' | 'columns' = 'all'): Value {
    const shape = what === 'all' ? [] : what === 'rows' ? [a.shape[0], 1] : [a.shape[1]];
    const output = this.#sum(a, shape);
    return this.#record(output, (g) => [[a, this.#expanded(g, a)]]);
  }

  /** The first and the second half of the rows. */
  halves(a: Value, half: Dimension): [Value, Value] {
    const shape = [half, a.shape[1]];
    const [left, right] = [0, 1].map(() => ({ name: this.#fresh(), shape }));
    this.#nodes.push({ op: 'Split', inputs: [a.name], outputs: [left.name, right.name], attributes: { axis: 0 } });
    const zero = (part: Value) => this.#pair('Sub', part, part);
    this.#record(left, (g) => [[a, this.#node('Concat', [g, zero(right)], a.shape, { axis: 0 })]]);
    this.#record(right, (g) => [[a, this.#node('Concat', [zero(left), g], a.shape, { axis: 0 })]]);
    return [left, right];
  }

  /** −Σ_c target · log softmax(logits) of each row: `[rows, 1]`. Rows of `target` sum to one. */
  crossEntropy(logits: Value, target: Value): Value {
    const logs = this.#node('LogSoftmax', [logits], logits.shape, { axis: 1 });
    const output = this.#node(
      'Neg',
      [this.#sum(this.#pair('Mul', logs, target), [logits.shape[0], 1])],
      [logits.shape[0], 1],
    );
    return this.#record(output, (g) => {
      const chances = this.#node('Softmax', [logits], logits.shape, { axis: 1 });
      return [[logits, this.#pair('Mul', g, this.#pair('Sub', chances, target))]];
    });
  }

  #sum(a: Value, shape: readonly Dimension[]): Value {
    if (shape.length === 0) return this.#node('ReduceSum', [a], shape, { keepdims: 0 });
    const [axis, keepdims] = shape.length === 2 ? [1, 1] : [0, 0];
    const name = `axis${axis}`;
    if (!this.#tensors.some((tensor) => tensor.name === name))
      this.#tensors.push({ name, shape: [1], data: BigInt64Array.of(BigInt(axis)) });
    return this.#node('ReduceSum', [a, { name, shape: [1] }], shape, { keepdims });
  }

  /** A gradient of a sum, as large as what was summed. */
  #expanded(g: Value, like: Value): Value {
    return this.#pair('Add', this.#pair('Sub', like, like), g);
  }

  /** The gradient of something that was repeated: the sum over its repetitions. */
  #reduced(g: Value, shape: readonly Dimension[]): Value {
    if (same(g.shape, shape)) return g;
    return this.#sum(g, shape);
  }

  /** ∂loss/∂value for each of these values, as new values of the graph. */
  gradients(loss: Value, values: readonly Value[]): Value[] {
    const gradients = new Map<string, Value>([[loss.name, this.scalar(1)]]);
    for (const { output, derivative } of this.#tape.toReversed()) {
      const gradient = gradients.get(output.name);
      if (!gradient) continue;
      for (const [input, part] of derivative(gradient)) {
        const before = gradients.get(input.name);
        gradients.set(input.name, before ? this.#pair('Add', before, part) : part);
      }
    }
    return values.map((value) => {
      const gradient = gradients.get(value.name);
      if (!gradient) throw new Error(`The loss does not depend on ${value.name}.`);
      return gradient;
    });
  }

  /**
   * One step of Adam (Kingma and Ba) for all parameters, as one vector. `rate` is the learning rate
   * over 1 − β₁ᵗ, `correction` is 1 / (1 − β₂ᵗ); `own.l2` is the decay of each parameter, which
   * passes through the moments, and `own.rate` a factor of each one's own.
   */
  adam(
    parameter: Value,
    gradient: Value,
    state: { first: Value; second: Value; rate: Value; correction: Value },
    own: { l2?: Value | undefined; rate?: Value | undefined },
  ): { parameter: Value; first: Value; second: Value } {
    const { first, second, rate, correction } = state;
    const mul = (a: Value, b: Value | number) => this.#pair('Mul', a, typeof b === 'number' ? this.scalar(b) : b);
    const add = (a: Value, b: Value) => this.#pair('Add', a, b);
    const whole = own.l2 ? add(gradient, mul(parameter, own.l2)) : gradient;
    const nextFirst = add(mul(first, 0.9), mul(whole, 0.1));
    const nextSecond = add(mul(second, 0.999), mul(mul(whole, whole), 0.001));
    const root = this.#node('Sqrt', [mul(nextSecond, correction)], parameter.shape);
    const move = this.#pair('Div', mul(nextFirst, own.rate ? mul(own.rate, rate) : rate), add(root, this.scalar(1e-8)));
    const next = this.#pair('Sub', parameter, move);
    return { parameter: next, first: nextFirst, second: nextSecond };
  }
}

function same(a: readonly Dimension[], b: readonly Dimension[]): boolean {
  return a.length === b.length && a.every((size, i) => size === b[i]);
}

function broadcast(a: readonly Dimension[], b: readonly Dimension[]): readonly Dimension[] {
  const [long, short] = a.length >= b.length ? [a, b] : [b, a];
  return long.map((size, i) => {
    const other = short[i - (long.length - short.length)];
    if (other === undefined || other === 1 || other === size) return size;
    if (size === 1) return other;
    throw new Error(`Shapes ${a} and ${b} do not fit together.`);
  });
}
