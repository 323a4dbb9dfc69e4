// A column as it is stored, before it is sealed:
//
//   column      format u8 (1), type u8, dictionary u8, least u8, slots u32, size u32, dictionary,
//               lengths (of lists alone), codes, zeros up to Padmé's length (bytes.ts)
//   type        0 keyword, 1 number, 2 date, 3 boolean, 4 keyword[]
//   dictionary  0 texts      packed lengths in bytes, UTF-8
//               1 steps      decimals u8, base f64, step f64
//               2 integers   decimals u8, the first f64, packed gaps, each less 1
//               3 floats     f64 each
//   decimals    0 to 6: integers are divided by ten to this power
//   lengths     packed: how many codes each slot has, two bits at least
//   codes       packed, two bits at least, each less `least`, which is 1 where no code is 0
//   packed      width u8, then numbers of that many bits one after the other, the lowest bit first,
//               zeros up to the next byte
//
// Everything is little-endian. column.ts says what codes and dictionaries are. An integer takes the
// bits of the range it is in (frame of reference), not those of its value.

import { HersError, otherFormat } from '@hers/service';
import { concat, padme } from '../bytes.ts';
import {
  areUnits,
  bitsFor,
  type Codes,
  Column,
  codesFor,
  type Dictionary,
  decimalsOf,
  type Interned,
  inUnits,
  MAX_DECIMALS,
  MAX_SLOTS,
  MAX_STEPS,
  Numbers,
  Steps,
  Texts,
} from './column.ts';
import { type FieldType, isDate, MAX_KEYWORD_BYTES, MAX_KEYWORDS } from './field.ts';

const FORMAT = 1;
const HEAD_BYTES = 12;
const TYPES: readonly FieldType[] = ['keyword', 'number', 'date', 'boolean', 'keyword[]'];
const TEXTS = 0;
const STEPS = 1;
const INTEGERS = 2;
const FLOATS = 3;
/** Bits that a 32-bit integer can take up beside seven that are left over. */
const PIECE_BITS = 24;
const PIECE: number = 2 ** PIECE_BITS;
const MAX_WIDTH = 53;
/**
 * Of codes and of the lengths of lists, in bits. With fewer, a column would tell by its length
 * whether anybody in the block has a value, and whether a boolean is true.
 */
const LEAST_WIDTH = 2;

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Padded, and not yet sealed. */
export function encodeColumn(column: Column): Uint8Array {
  const { type, count, dictionary, codes, ends } = column;
  const least = dictionary.size > 0 && !codes.includes(0) ? 1 : 0;
  const { kind, bytes } = encodeDictionary(dictionary);
  const head = new Uint8Array(HEAD_BYTES);
  head.set([FORMAT, TYPES.indexOf(type), kind, least]);
  const view = new DataView(head.buffer);
  view.setUint32(4, count, true);
  view.setUint32(8, dictionary.size, true);
  const lengths = ends && Array.from(ends, (end, j) => end - (j === 0 ? 0 : ends[j - 1]));
  const lessLeast = codes.map((code) => code - least);
  const packed = [...(lengths ? [lengths] : []), lessLeast].map((numbers) => pack(numbers, LEAST_WIDTH));
  const content = concat(head, bytes, ...packed);
  const padded = new Uint8Array(padme(content.length));
  padded.set(content);
  return padded;
}

function encodeDictionary(dictionary: Dictionary): { readonly kind: number; readonly bytes: Uint8Array } {
  if (dictionary instanceof Steps) {
    const { base, step, decimals } = dictionary;
    return { kind: STEPS, bytes: concat(Uint8Array.of(decimals), littleEndian(Float64Array.of(base, step))) };
  }
  if (dictionary instanceof Texts) {
    const lengths = dictionary.list.map((text) => encoder.encode(text).length);
    // Lists of a block may have more values than a function can have arguments.
    return { kind: TEXTS, bytes: concat(pack(lengths), encoder.encode(dictionary.list.join(''))) };
  }
  const { list } = dictionary as Numbers;
  const decimals = decimalsOf(list);
  if (decimals === undefined) return { kind: FLOATS, bytes: littleEndian(list) };
  const units = list.map((number) => Math.round(number * 10 ** decimals));
  const gaps = Array.from(units.subarray(1), (number, i) => number - units[i] - 1);
  return { kind: INTEGERS, bytes: concat(Uint8Array.of(decimals), littleEndian(units.subarray(0, 1)), pack(gaps)) };
}

/** What was encoded. The caller knows which field it is, and how many slots the block has. */
export function decodeColumn(bytes: Uint8Array, type: FieldType, count: number, interned?: Interned): Column {
  const input = new Input(bytes);
  if (input.u8() !== FORMAT) throw otherFormat('this collection');
  if (TYPES[input.u8()] !== type) throw broken();
  const kind = input.u8();
  const least = input.u8();
  if (input.u32() !== count || count > MAX_SLOTS) throw broken();
  const size = input.u32();
  if (least > 1 || least > size) throw broken();
  const dictionary = decodeDictionary(input, kind, type, size, count, interned);
  const ends = type === 'keyword[]' ? decodeEnds(input, count, size) : undefined;
  const length = ends ? (ends[count - 1] ?? 0) : count;
  const codes = codesFor(length, size);
  input.unpack(codes, size - least, least, LEAST_WIDTH);
  if (ends) checkLists(codes, ends);
  input.end();
  return new Column(type, dictionary, codes, ends);
}

function decodeDictionary(
  input: Input,
  kind: number,
  type: FieldType,
  size: number,
  count: number,
  interned: Interned | undefined,
): Dictionary {
  const isText = type === 'keyword' || type === 'keyword[]';
  if (isText !== (kind === TEXTS)) throw broken();
  if (kind === TEXTS) return new Texts(decodeTexts(input, size), count, interned);
  const decimals = kind === FLOATS ? 0 : input.u8();
  if (decimals > (type === 'number' ? MAX_DECIMALS : 0)) throw broken();
  if (kind === STEPS) {
    const [base, step] = [input.f64(), input.f64()];
    const last = base + Math.max(0, size - 1) * step;
    // A step is a difference of units, and may be twice as large as they are.
    if (![base, last].every((units) => areUnits(units, decimals)) || !areUnits(step, 0)) throw broken();
    if (step < 1 || size > MAX_STEPS) throw broken();
    if (type === 'boolean' && (base !== 0 || step !== 1 || size !== 2)) throw broken();
    const steps = new Steps(base, step, size, decimals);
    if (!isOf(type, inUnits(base, decimals)) || !isOf(type, inUnits(last, decimals))) throw broken();
    return steps;
  }
  if ((kind !== INTEGERS && kind !== FLOATS) || type === 'boolean' || size === 0 || size > count) throw broken();
  const list = new Float64Array(size);
  if (kind === INTEGERS) {
    list[0] = input.f64();
    input.unpack(list.subarray(1), Number.MAX_SAFE_INTEGER, 1);
    for (let i = 1; i < size; i++) list[i] += list[i - 1];
    if (!list.every((units) => areUnits(units, decimals))) throw broken();
    if (decimals > 0) for (let i = 0; i < size; i++) list[i] = inUnits(list[i], decimals);
  } else for (let i = 0; i < size; i++) list[i] = input.f64();
  for (let i = 0; i < size; i++) if (!isOf(type, list[i]) || (i > 0 && !(list[i - 1] < list[i]))) throw broken();
  return new Numbers(list);
}

function isOf(type: FieldType, number: number): boolean {
  const isRight = type === 'date' ? isDate(number) : Math.abs(number) <= Number.MAX_SAFE_INTEGER;
  return isRight && !Object.is(number, -0);
}

function decodeTexts(input: Input, size: number): string[] {
  // All but one have a byte at least.
  if (size > input.left + 1) throw broken();
  const lengths = new Uint16Array(size);
  input.unpack(lengths, MAX_KEYWORD_BYTES, 0);
  const bytes = input.take(lengths.reduce((sum, length) => sum + length, 0));
  const text = decoded(bytes);
  const isAscii = text.length === bytes.length;
  const texts: string[] = [];
  let end = 0;
  for (const length of lengths) {
    const start = end;
    end += length;
    texts.push(isAscii ? text.slice(start, end) : decoded(bytes.subarray(start, end)));
    if (texts.length > 1 && !(texts[texts.length - 2] < texts[texts.length - 1])) throw broken();
  }
  return texts;
}

function decoded(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw broken();
  }
}

function decodeEnds(input: Input, count: number, size: number): Codes {
  const lengths = new Uint16Array(count);
  // A list has every value once at most: so codes take bits, or are few.
  input.unpack(lengths, Math.min(MAX_KEYWORDS, Math.max(1, size)), 0, LEAST_WIDTH);
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const ends = codesFor(count, total);
  let end = 0;
  for (let j = 0; j < count; j++) ends[j] = end += lengths[j];
  return ends;
}

/** Ascending within a slot, and 0 only alone. */
function checkLists(codes: Codes, ends: Codes): void {
  let start = 0;
  for (const end of ends) {
    for (let i = start + 1; i < end; i++) if (codes[i - 1] >= codes[i] || codes[i - 1] === 0) throw broken();
    start = end;
  }
}

function pack(numbers: ArrayLike<number>, leastWidth = 0): Uint8Array {
  let max = 0;
  for (let i = 0; i < numbers.length; i++) max = Math.max(max, numbers[i]);
  const width = Math.max(leastWidth, bitsFor(max));
  const out = new Uint8Array(1 + Math.ceil((numbers.length * width) / 8));
  out[0] = width;
  let at = 1;
  let held = 0;
  let bits = 0;
  for (let i = 0; i < numbers.length; i++)
    for (let rest = numbers[i], left = width; left > 0; left -= PIECE_BITS, rest = Math.floor(rest / 2 ** PIECE_BITS)) {
      held |= (rest % 2 ** PIECE_BITS) << bits;
      for (bits += Math.min(left, PIECE_BITS); bits >= 8; bits -= 8, held >>>= 8) out[at++] = held;
    }
  if (bits > 0) out[at] = held;
  return out;
}

/** Bytes that are read from front to back; whatever is not as it should be is INTEGRITY. */
class Input {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  take(length: number): Uint8Array {
    if (length > this.left) throw broken();
    return this.#bytes.subarray(this.#at, (this.#at += length));
  }

  u8(): number {
    return this.take(1)[0];
  }

  u32(): number {
    this.take(4);
    return this.#view.getUint32(this.#at - 4, true);
  }

  f64(): number {
    this.take(8);
    return this.#view.getFloat64(this.#at - 8, true);
  }

  /** Fills `out` with packed numbers, none beyond `max`, and adds `least` to each. */
  unpack(out: Codes | Float64Array, max: number, least: number, leastWidth = 0): void {
    const width = this.u8();
    if (width > MAX_WIDTH) throw broken();
    const bytes = this.take(Math.ceil((out.length * width) / 8));
    const { largest, held } = width <= PIECE_BITS ? unpackNarrow(bytes, width, out) : unpackWide(bytes, width, out);
    // One way to say it: no bit is wasted.
    if (largest > max || Math.max(leastWidth, bitsFor(largest)) !== width || held !== 0) throw broken();
    if (least !== 0) for (let i = 0; i < out.length; i++) out[i] += least;
  }

  /** The rest is padding, and as long as the rule says. */
  end(): void {
    const length = this.#at;
    if (this.#bytes.length !== padme(length) || this.take(this.left).some((byte) => byte !== 0)) throw broken();
  }
}

/** What was read: the largest number, and the bits that are left over. */
interface Unpacked {
  readonly largest: number;
  readonly held: number;
}

function unpackNarrow(bytes: Uint8Array, width: number, out: Codes | Float64Array): Unpacked {
  const mask = 2 ** width - 1;
  let [at, held, bits, largest] = [0, 0, 0, 0];
  for (let i = 0; i < out.length; i++) {
    for (; bits < width; bits += 8) held |= bytes[at++] << bits;
    const number = held & mask;
    held >>>= width;
    bits -= width;
    if (number > largest) largest = number;
    out[i] = number;
  }
  return { largest, held };
}

/** In pieces that a 32-bit integer can hold. */
function unpackWide(bytes: Uint8Array, width: number, out: Codes | Float64Array): Unpacked {
  let [at, held, bits, largest] = [0, 0, 0, 0];
  for (let i = 0; i < out.length; i++) {
    let number = 0;
    // A power would take longer than all the rest.
    for (let left = width, scale = 1; left > 0; left -= PIECE_BITS, scale *= PIECE) {
      const piece = left < PIECE_BITS ? left : PIECE_BITS;
      for (; bits < piece; bits += 8) held |= bytes[at++] << bits;
      number += (held & ((1 << piece) - 1)) * scale;
      held >>>= piece;
      bits -= piece;
    }
    if (number > largest) largest = number;
    out[i] = number;
  }
  return { largest, held };
}

function littleEndian(numbers: Float64Array): Uint8Array {
  const out = new Uint8Array(numbers.byteLength);
  const view = new DataView(out.buffer);
  for (let i = 0; i < numbers.length; i++) view.setFloat64(8 * i, numbers[i], true);
  return out;
}

function broken(): HersError {
  return new HersError('INTEGRITY', 'a sealed column is damaged; rebuild the fields from the vault');
}
