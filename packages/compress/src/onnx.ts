// ONNX models as data: the part of onnx.proto3 (IR version 9) that compressors and their training
// graphs use. One file knows the numbers of the fields, for writing and for reading.

import { CompressError } from './errors.ts';

export type Attribute = number | readonly number[] | { float: number };
export type Dimension = number | string;

export interface OnnxNode {
  op: string;
  inputs: readonly string[];
  outputs: readonly string[];
  /** Whole numbers and lists of them; `{float: x}` is a float, because 1 could be either. */
  attributes?: Readonly<Record<string, Attribute>>;
}

export interface OnnxTensor {
  name: string;
  shape: readonly number[];
  /** Floats, or the 64-bit whole numbers that some operations take as axes and indices. */
  data: Float32Array | BigInt64Array;
}

export interface OnnxValue {
  name: string;
  /** A number, or a name for a size that is free, like that of a batch. */
  shape: readonly Dimension[];
  integer?: boolean;
}

export interface OnnxModel {
  nodes: readonly OnnxNode[];
  tensors: readonly OnnxTensor[];
  inputs: readonly OnnxValue[];
  outputs: readonly OnnxValue[];
  metadata?: Readonly<Record<string, string>>;
  /** For people who open the file in another tool. */
  description?: string;
}

const IR_VERSION = 9;
const OPSET = 17;
const FLOAT = 1;
const INT64 = 7;
const DOUBLE = 11;
/** AttributeProto.AttributeType */
const KIND = { float: 1, integer: 2, integers: 7 } as const;

/**
 * The bytes of an .onnx file. The same model gives the same bytes. With `double`, floats have 64
 * bits: gradients are checked so.
 */
export function encodeModel(
  model: OnnxModel,
  { double = false }: { double?: boolean | undefined } = {},
): Uint8Array<ArrayBuffer> {
  const file = new MessageWriter().integer(1, IR_VERSION).string(2, 'hers');
  if (model.description) file.string(6, model.description);
  file.message(7, (graph) => {
    for (const node of model.nodes) graph.message(1, (message) => writeNode(message, node));
    graph.string(2, 'compressor');
    for (const tensor of model.tensors) graph.message(5, (message) => writeTensor(message, tensor, double));
    for (const value of model.inputs) graph.message(11, (message) => writeValue(message, value, double));
    for (const value of model.outputs) graph.message(12, (message) => writeValue(message, value, double));
  });
  file.message(8, (opset) => opset.string(1, '').integer(2, OPSET));
  for (const [key, value] of Object.entries(model.metadata ?? {}))
    file.message(14, (entry) => entry.string(1, key).string(2, value));
  return file.finish();
}

function writeNode(message: MessageWriter, { op, inputs, outputs, attributes = {} }: OnnxNode): void {
  for (const name of inputs) message.string(1, name);
  for (const name of outputs) message.string(2, name);
  message.string(4, op);
  for (const [name, value] of Object.entries(attributes))
    message.message(5, (attribute) => {
      attribute.string(1, name);
      if (typeof value === 'number') attribute.integer(3, value).integer(20, KIND.integer);
      else if ('float' in value) attribute.float(2, value.float).integer(20, KIND.float);
      else {
        for (const each of value) attribute.integer(8, each);
        attribute.integer(20, KIND.integers);
      }
    });
}

function writeTensor(message: MessageWriter, { name, shape, data }: OnnxTensor, double: boolean): void {
  for (const size of shape) message.integer(1, size);
  const [type, stored] = !(data instanceof Float32Array)
    ? [INT64, data]
    : double
      ? [DOUBLE, Float64Array.from(data)]
      : [FLOAT, data];
  message.integer(2, type).string(8, name);
  message.bytes(9, new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength));
}

function writeValue(message: MessageWriter, { name, shape, integer = false }: OnnxValue, double: boolean): void {
  message.string(1, name).message(2, (type) =>
    type.message(1, (tensor) => {
      tensor.integer(1, integer ? INT64 : double ? DOUBLE : FLOAT).message(2, (sizes) => {
        for (const size of shape)
          sizes.message(1, (dim) => (typeof size === 'number' ? dim.integer(1, size) : dim.string(2, size)));
      });
    }),
  );
}

/**
 * Reads a model. Throws `MALFORMED` for bytes that are none; what it does not know, it skips, as
 * protocol buffers are meant to.
 */
export function decodeModel(bytes: Uint8Array): OnnxModel {
  const metadata: Record<string, string> = Object.create(null);
  let graph: Field | undefined;
  let description: string | undefined;
  for (const field of fieldsOf(bytes)) {
    if (field.number === 6) description = field.string;
    else if (field.number === 7) graph = field;
    else if (field.number === 14) {
      const [key, value] = strings(field, 1, 2);
      metadata[key] = value;
    }
  }
  if (!graph) throw malformed('has no graph: it is damaged or no ONNX model');
  const nodes: OnnxNode[] = [];
  const tensors: OnnxTensor[] = [];
  const inputs: OnnxValue[] = [];
  const outputs: OnnxValue[] = [];
  for (const field of graph.fields) {
    if (field.number === 1) nodes.push(readNode(field));
    else if (field.number === 5) tensors.push(readTensor(field));
    else if (field.number === 11) inputs.push(readValue(field));
    else if (field.number === 12) outputs.push(readValue(field));
  }
  return { nodes, tensors, inputs, outputs, metadata, ...(description === undefined ? {} : { description }) };
}

/** The strings in these fields of a message, empty where it has none. */
function strings(message: Field, ...numbers: number[]): string[] {
  const found = numbers.map(() => '');
  for (const field of message.fields) {
    const index = numbers.indexOf(field.number);
    if (index >= 0) found[index] = field.string;
  }
  return found;
}

function readNode(message: Field): OnnxNode {
  const inputs: string[] = [];
  const outputs: string[] = [];
  const attributes: Record<string, Attribute> = Object.create(null);
  let op = '';
  for (const field of message.fields) {
    if (field.number === 1) inputs.push(field.string);
    else if (field.number === 2) outputs.push(field.string);
    else if (field.number === 4) op = field.string;
    else if (field.number === 5) {
      const [name, value] = readAttribute(field);
      attributes[name] = value;
    }
  }
  return { op, inputs, outputs, attributes };
}

function readAttribute(message: Field): [string, Attribute] {
  let name = '';
  let value: Attribute = [];
  const integers: number[] = [];
  for (const field of message.fields) {
    if (field.number === 1) name = field.string;
    else if (field.number === 2) value = { float: field.float };
    else if (field.number === 3) value = field.integer;
    else if (field.number === 8) value = integers;
    if (field.number === 8) integers.push(...field.integers);
  }
  return [name, value];
}

function readTensor(message: Field): OnnxTensor {
  const shape: number[] = [];
  let [name, type, raw]: [string, number, Uint8Array | undefined] = ['', 0, undefined];
  for (const field of message.fields) {
    if (field.number === 1) shape.push(...field.integers);
    else if (field.number === 2) type = field.integer;
    else if (field.number === 8) name = field.string;
    else if (field.number === 9) raw = field.bytes;
  }
  if (type !== FLOAT && type !== INT64) throw malformed(`holds numbers of a type this program does not read (${type})`);
  if (raw === undefined) throw malformed('does not hold its weights as raw data, which this program needs');
  const count = shape.reduce((product, size) => product * size, 1);
  if (shape.some((size) => size < 0) || count * (type === FLOAT ? 4 : 8) !== raw.length)
    throw malformed(`is damaged: the tensor ${JSON.stringify(name)} has not the length its shape says`);
  const copy = new Uint8Array(raw).buffer; // aligned, and independent of the bytes of the file, a Buffer or not
  return { name, shape, data: type === FLOAT ? new Float32Array(copy) : new BigInt64Array(copy) };
}

function readValue(message: Field): OnnxValue {
  let name = '';
  let integer = false;
  const shape: Dimension[] = [];
  for (const field of message.fields) {
    if (field.number === 1) name = field.string;
    if (field.number !== 2) continue;
    for (const tensor of field.fields) {
      if (tensor.number !== 1) continue;
      for (const part of tensor.fields) {
        if (part.number === 1) integer = part.integer === INT64;
        if (part.number === 2) for (const dim of part.fields) shape.push(readDimension(dim));
      }
    }
  }
  return { name, shape, integer };
}

function readDimension(message: Field): Dimension {
  for (const field of message.fields) {
    if (field.number === 1) return field.integer;
    if (field.number === 2) return field.string;
  }
  return '';
}

// The wire format of protocol buffers, as far as ONNX needs it: varints, 32-bit and 64-bit numbers,
// and fields with a length.

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

const text = new TextEncoder();

/** Collects the fields of one message. */
class MessageWriter {
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  #push(part: Uint8Array): void {
    this.#parts.push(part);
    this.#length += part.length;
  }

  #varint(value: number | bigint): void {
    // Negative numbers are written as 64-bit two's complement.
    let rest = BigInt.asUintN(64, BigInt(value));
    const bytes: number[] = [];
    for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
    bytes.push(Number(rest));
    this.#push(Uint8Array.from(bytes));
  }

  integer(field: number, value: number | bigint): this {
    this.#varint((field << 3) | VARINT);
    this.#varint(value);
    return this;
  }

  float(field: number, value: number): this {
    this.#varint((field << 3) | FIXED32);
    const bytes = new Uint8Array(4);
    new DataView(bytes.buffer).setFloat32(0, value, true);
    this.#push(bytes);
    return this;
  }

  bytes(field: number, value: Uint8Array): this {
    this.#varint((field << 3) | BYTES);
    this.#varint(value.length);
    this.#push(value);
    return this;
  }

  string(field: number, value: string): this {
    return this.bytes(field, text.encode(value));
  }

  message(field: number, write: (message: MessageWriter) => void): this {
    const inner = new MessageWriter();
    write(inner);
    return this.bytes(field, inner.finish());
  }

  finish(): Uint8Array<ArrayBuffer> {
    const all = new Uint8Array(this.#length);
    let at = 0;
    for (const part of this.#parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }
}

const strict = new TextDecoder('utf-8', { fatal: true });

/** One field of a message. Which of the getters is right, the schema says; a wrong one throws. */
export class Field {
  readonly number: number;
  readonly #value: bigint | Uint8Array;
  readonly #wire: number;

  constructor(number: number, wire: number, value: bigint | Uint8Array) {
    this.number = number;
    this.#wire = wire;
    this.#value = value;
  }

  /** A whole number that a double holds exactly. */
  get integer(): number {
    if (this.#wire !== VARINT) throw malformed();
    const number = Number(BigInt.asIntN(64, this.#value as bigint));
    if (!Number.isSafeInteger(number)) throw malformed();
    return number;
  }

  get float(): number {
    if (this.#wire !== FIXED32) throw malformed();
    const view = new DataView(new ArrayBuffer(4));
    view.setUint32(0, Number(this.#value as bigint));
    return view.getFloat32(0);
  }

  get bytes(): Uint8Array {
    if (this.#wire !== BYTES) throw malformed();
    return this.#value as Uint8Array;
  }

  get string(): string {
    try {
      return strict.decode(this.bytes);
    } catch (error) {
      if (error instanceof CompressError) throw error;
      throw malformed();
    }
  }

  get fields(): Generator<Field> {
    return fieldsOf(this.bytes);
  }

  /** Repeated whole numbers: packed into one field, or one field each. */
  get integers(): number[] {
    if (this.#wire === VARINT) return [this.integer];
    const { bytes } = this;
    const numbers: number[] = [];
    for (let at = 0; at < bytes.length; ) {
      const { value, next } = varint(bytes, at);
      numbers.push(new Field(this.number, VARINT, value).integer);
      at = next;
    }
    return numbers;
  }
}

export function malformed(what = 'is damaged or no ONNX model'): CompressError {
  return new CompressError('MALFORMED', `The model ${what}.`);
}

function varint(bytes: Uint8Array, start: number): { value: bigint; next: number } {
  let value = 0n;
  for (let at = start, shift = 0n; at < bytes.length && shift < 70n; at++, shift += 7n) {
    value |= BigInt(bytes[at] & 0x7f) << shift;
    if (bytes[at] < 0x80) return { value: BigInt.asUintN(64, value), next: at + 1 };
  }
  throw malformed();
}

export function* fieldsOf(bytes: Uint8Array): Generator<Field> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < bytes.length; ) {
    const key = varint(bytes, at);
    const number = Number(key.value >> 3n);
    const wire = Number(key.value & 7n);
    at = key.next;
    if (number === 0 || number > 2 ** 29) throw malformed();
    if (wire === VARINT) {
      const { value, next } = varint(bytes, at);
      at = next;
      yield new Field(number, wire, value);
    } else if (wire === BYTES) {
      const { value, next } = varint(bytes, at);
      if (value > BigInt(bytes.length - next)) throw malformed();
      at = next + Number(value);
      yield new Field(number, wire, bytes.subarray(next, at));
    } else if (wire === FIXED32 || wire === FIXED64) {
      const size = wire === FIXED32 ? 4 : 8;
      if (at + size > bytes.length) throw malformed();
      const value = wire === FIXED32 ? BigInt(view.getUint32(at, true)) : view.getBigUint64(at, true);
      at += size;
      yield new Field(number, wire, value);
    } else throw malformed();
  }
}
