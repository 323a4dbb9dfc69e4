// The wire format of protocol buffers, as far as ONNX needs it: varints, 32-bit and 64-bit numbers,
// and fields with a length.

import { CompressError } from './errors.ts';

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

const text = new TextEncoder();

/** Collects the fields of one message. */
export class MessageWriter {
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
