// ONNX models as data: the part of onnx.proto3 (IR version 9) that compressors and their training
// graphs use. One file knows the numbers of the fields, for writing and for reading.

import { type Field, fieldsOf, MessageWriter, malformed } from './protobuf.ts';

export type Attribute = number | readonly number[] | { float: number };
export type Dimension = number | string;

export interface OnnxNode {
  op: string;
  inputs: readonly string[];
  outputs: readonly string[];
  /**
   * Whole numbers and lists of them; a float is written as `{float: x}`, because 1 could be either.
   */
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
  {
    double = false,
  }: {
    double?: boolean | undefined;
  } = {},
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
