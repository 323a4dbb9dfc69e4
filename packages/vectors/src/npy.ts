// NumPy's .npy files (format 1.0 to 3.0, "NEP 1"): a magic number, a Python dictionary as text, and
// the numbers of an array. Read and written a portion at a time.

import type { FileHandle } from 'node:fs/promises';
import { HersError } from '@hers/scheme';

const MAGIC = Buffer.from('\x93NUMPY', 'latin1');
const MAX_HEADER_BYTES = 2 ** 20;
/** Far more than a vector may have, and little enough to be held in memory. */
const MAX_COLUMNS = 2 ** 20;
/** Rows are read together up to this many bytes, and at least one. */
const PORTION_BYTES = 2 ** 18;

interface Dtype {
  readonly name: string;
  readonly bytes: 1 | 2 | 4 | 8;
  read(bytes: ArrayBuffer): ArrayLike<number>;
}

const DTYPES: Readonly<Record<string, Dtype>> = {
  f4: { name: 'float32', bytes: 4, read: (bytes) => new Float32Array(bytes) },
  f8: { name: 'float64', bytes: 8, read: (bytes) => new Float64Array(bytes) },
  f2: { name: 'float16', bytes: 2, read: (bytes) => new Float16Array(bytes) },
  i1: { name: 'int8', bytes: 1, read: (bytes) => new Int8Array(bytes) },
  u1: { name: 'uint8', bytes: 1, read: (bytes) => new Uint8Array(bytes) },
};

/** What labels are stored as; vectors never are. */
const LABEL_DTYPES: Readonly<Record<string, Dtype>> = {
  i4: { name: 'int32', bytes: 4, read: (bytes) => new Int32Array(bytes) },
  i8: { name: 'int64', bytes: 8, read: (bytes) => Float64Array.from(new BigInt64Array(bytes), Number) },
};

export function isNpy(start: Uint8Array): boolean {
  return Buffer.compare(start.subarray(0, MAGIC.length), MAGIC) === 0;
}

export interface NpyFile {
  readonly rows: number;
  readonly columns: number;
  readonly dtype: string;
  /** Row after row, as single-precision floats. */
  vectors(): AsyncGenerator<Float32Array>;
}

function malformed(name: string, what: string): HersError {
  return new HersError('MALFORMED', `${name} ${what}`);
}

const TOO_LONG = 'holds more bytes than its header says: it is damaged';

const truncated = (name: string, rows: number, within: number) =>
  malformed(name, `is truncated: it should hold ${rows} rows and ends within row ${within}`);

/** Reads the header. A single vector (one dimension) counts as one row. */
export async function openNpy(source: ByteSource): Promise<NpyFile> {
  const layout = await readHeader(source, DTYPES);
  const { rows, columns, dtype } = layout;
  return { rows, columns, dtype: dtype.name, vectors: () => readRows(source, layout) };
}

/** A list of whole numbers of 32 or 64 bits, as labels are kept. */
export async function readLabels(source: ByteSource): Promise<Int32Array> {
  const layout = await readHeader(source, LABEL_DTYPES);
  if (layout.rows !== 1 && layout.columns !== 1) throw malformed(source.name, 'holds a table where a list is needed');
  const labels = new Int32Array(layout.rows * layout.columns);
  let at = 0;
  for await (const numbers of readPortions(source, layout)) {
    for (let i = 0; i < numbers.length; i++, at++) {
      labels[at] = numbers[i];
      if (labels[at] !== numbers[i]) throw malformed(source.name, `holds a label beyond 32 bits in place ${at}`);
    }
  }
  return labels;
}

async function readHeader(source: ByteSource, dtypes: Readonly<Record<string, Dtype>>): Promise<Layout> {
  const { name } = source;
  const start = await source.take(8);
  if (start.length < 8 || !isNpy(start)) throw malformed(name, 'is not a .npy file; save it with numpy.save');
  const [major] = start.subarray(6);
  if (major < 1 || major > 3) throw malformed(name, `has .npy version ${major}, which this program does not know`);
  const width = major === 1 ? 2 : 4;
  const written = await source.take(width);
  if (written.length < width) throw malformed(name, 'ends within its header: it is truncated');
  const length = Buffer.from(written).readUIntLE(0, width);
  if (length > MAX_HEADER_BYTES) throw malformed(name, 'has a header that is too long to be one');
  const header = await source.take(length);
  if (header.length < length) throw malformed(name, 'ends within its header: it is truncated');
  const layout = parseHeader(name, Buffer.from(header).toString('utf8'), dtypes);
  if (source.size === undefined) return layout;
  // Where the length is known, a truncated file is found before anything is done with it.
  const [rowBytes, bytes] = [layout.columns * layout.dtype.bytes, source.size - source.position];
  if (bytes < layout.rows * rowBytes) throw truncated(name, layout.rows, Math.floor(bytes / rowBytes));
  if (bytes > layout.rows * rowBytes) throw malformed(name, TOO_LONG);
  return layout;
}

interface Layout {
  readonly dtype: Dtype;
  readonly swapped: boolean;
  readonly rows: number;
  readonly columns: number;
}

/** As numpy writes it: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`. */
function parseHeader(name: string, text: string, dtypes: Readonly<Record<string, Dtype>>): Layout {
  const descr = /'descr'\s*:\s*(?:'([^']*)'|(\[))/.exec(text);
  const order = /'fortran_order'\s*:\s*(True|False)/.exec(text)?.[1];
  const shape = /'shape'\s*:\s*\(([\d\s,L]*)\)/.exec(text)?.[1];
  if (!descr || order === undefined || shape === undefined) throw malformed(name, 'has a header that cannot be read');
  const dtype = dtypeOf(name, descr[1], dtypes);
  const sizes = (shape.match(/\d+/g) ?? []).map(Number);
  if (sizes.length === 0 || sizes.length > 2)
    throw malformed(
      name,
      `holds an array of ${sizes.length} dimensions; save one with two, a vector in each row: numpy.save(file, x.reshape(len(x), -1))`,
    );
  const [rows, columns] = sizes.length === 1 ? [1, sizes[0]] : sizes;
  if (columns === 0) throw malformed(name, `holds an array of shape (${sizes.join(', ')}), which has no vectors in it`);
  if (columns > MAX_COLUMNS || !Number.isSafeInteger(rows * columns * 8))
    throw malformed(name, `says that it holds an array of shape (${sizes.join(', ')}), which is too large to be true`);
  // With one row or one column both orders are the same.
  if (order === 'True' && rows > 1 && columns > 1)
    throw malformed(
      name,
      'is in Fortran order, column after column; save it with numpy.save(file, numpy.ascontiguousarray(x))',
    );
  return { dtype: dtype.type, swapped: dtype.swapped, rows, columns };
}

function dtypeOf(name: string, descr: string | undefined, dtypes: Readonly<Record<string, Dtype>>) {
  const [, order, code] = /^([<>=|])?([a-zA-Z]\d+)$/.exec(descr ?? '') ?? [];
  const type = code !== undefined && Object.hasOwn(dtypes, code) ? dtypes[code] : undefined;
  if (!type)
    throw malformed(
      name,
      `holds numbers of type ${descr === undefined ? 'a structure' : JSON.stringify(descr)}; it can be ${dtypes === DTYPES ? "float32, float64, float16, int8 or uint8: numpy.save(file, x.astype('float32'))" : "int32 or int64: numpy.save(file, x.astype('int32'))"}`,
    );
  return { type, swapped: order === '>' && type.bytes > 1 };
}

async function* readRows(source: ByteSource, layout: Layout): AsyncGenerator<Float32Array> {
  const { columns } = layout;
  for await (const numbers of readPortions(source, layout)) {
    const floats = numbers instanceof Float32Array ? numbers : Float32Array.from(numbers);
    for (let at = 0; at < floats.length; at += columns) yield floats.slice(at, at + columns);
  }
}

/** The numbers of some whole rows, again and again. */
async function* readPortions(
  source: ByteSource,
  { dtype, swapped, rows, columns }: Layout,
): AsyncGenerator<ArrayLike<number>> {
  const rowBytes = columns * dtype.bytes;
  const together = Math.max(1, Math.floor(PORTION_BYTES / rowBytes));
  for (let row = 0; row < rows; ) {
    const wanted = Math.min(together, rows - row);
    const bytes = new Uint8Array(await source.take(wanted * rowBytes)); // a copy: aligned, and free to be swapped
    const whole = Math.floor(bytes.length / rowBytes);
    if (swapped) swapBytes(bytes, dtype.bytes);
    yield dtype.read(bytes.buffer.slice(0, whole * rowBytes));
    row += whole;
    if (whole < wanted) throw truncated(source.name, rows, row);
  }
  if ((await source.peek(1)).length > 0) throw malformed(source.name, TOO_LONG);
}

function swapBytes(bytes: Uint8Array, size: number): void {
  const buffer = Buffer.from(bytes.buffer, 0, bytes.length - (bytes.length % size));
  if (size === 2) buffer.swap16();
  else if (size === 4) buffer.swap32();
  else buffer.swap64();
}

/** With any number of rows: the header is written again when that is known. */
const WRITTEN_HEADER_BYTES = 128;

export function npyHeader(rows: number, columns: number): Uint8Array {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${columns}), }`;
  const header = Buffer.alloc(WRITTEN_HEADER_BYTES, ' ');
  MAGIC.copy(header);
  header.set([1, 0], MAGIC.length);
  header.writeUInt16LE(WRITTEN_HEADER_BYTES - 10, 8);
  header.write(text, 10, 'latin1');
  header[WRITTEN_HEADER_BYTES - 1] = 0x0a;
  return header;
}

/** Writes vectors as they come; the header says how many there were when the last is written. */
export async function writeNpy(
  file: FileHandle,
  columns: number,
  vectors: Iterable<Float32Array> | AsyncIterable<Float32Array>,
): Promise<number> {
  await file.appendFile(npyHeader(0, columns));
  let rows = 0;
  let held: Uint8Array[] = [];
  let bytes = 0;
  const flush = async () => {
    if (held.length > 0) await file.appendFile(Buffer.concat(held));
    held = [];
    bytes = 0;
  };
  for await (const vector of vectors) {
    held.push(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength));
    bytes += vector.byteLength;
    rows++;
    if (bytes >= PORTION_BYTES) await flush();
  }
  await flush();
  await file.write(npyHeader(rows, columns), 0, WRITTEN_HEADER_BYTES, 0);
  return rows;
}

// Bytes taken in the portions that a format needs: memory is bounded by the largest of them.

export class ByteSource {
  /** What errors call it. */
  readonly name: string;
  /** Bytes in all, where that is known beforehand. */
  readonly size: number | undefined;
  readonly #chunks: AsyncIterator<Uint8Array>;
  #held: Uint8Array[] = [];
  #length = 0;
  #ended = false;
  #position = 0;

  constructor(name: string, chunks: AsyncIterable<Uint8Array>, size?: number) {
    this.name = name;
    this.size = size;
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Bytes taken so far. */
  get position(): number {
    return this.#position;
  }

  async #fill(length: number): Promise<void> {
    while (this.#length < length && !this.#ended) {
      const { value, done } = await this.#chunks.next();
      if (done) this.#ended = true;
      else if (value.length > 0) {
        this.#held.push(value);
        this.#length += value.length;
      }
    }
  }

  #joined(): Uint8Array {
    if (this.#held.length > 1) this.#held = [Buffer.concat(this.#held)];
    return this.#held[0] ?? new Uint8Array(0);
  }

  /** The next bytes, which stay where they are; fewer at the end. */
  async peek(length: number): Promise<Uint8Array> {
    await this.#fill(length);
    return this.#joined().subarray(0, length);
  }

  /** The next bytes; fewer at the end. */
  async take(length: number): Promise<Uint8Array> {
    await this.#fill(length);
    const all = this.#joined();
    const taken = all.subarray(0, length);
    this.#held = taken.length < all.length ? [all.subarray(length)] : [];
    this.#length -= taken.length;
    this.#position += taken.length;
    return taken;
  }

  /** Whatever comes next, as it comes; empty at the end. */
  async some(): Promise<Uint8Array> {
    await this.#fill(1);
    return this.take(this.#length);
  }

  /** All that is left, in the portions it comes in. */
  async *rest(): AsyncGenerator<Uint8Array> {
    for (let chunk = await this.some(); chunk.length > 0; chunk = await this.some()) yield chunk;
  }

  async close(): Promise<void> {
    this.#ended = true;
    await this.#chunks.return?.();
  }
}
