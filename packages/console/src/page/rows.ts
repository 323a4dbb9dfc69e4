// Records out of files: .npy, .jsonl and .csv, read as they are written, a piece at a time.

import type { Fields, FieldType, Payload, VectorRecord } from '@hers/client';

export interface Rows {
  /** How many there are, where that is known before all are read. */
  readonly total: number | undefined;
  records(): AsyncGenerator<VectorRecord>;
}

export interface RowsOptions {
  /** Before the number of a row that has no id of its own. */
  readonly prefix: string;
  readonly fields: Fields;
}

/** Rows of a .npy file that are read together. */
const TOGETHER = 1024;

export async function openRows(file: File, options: RowsOptions): Promise<Rows> {
  if (/\.npy$/i.test(file.name)) return npyRows(await openNpy(file), options);
  if (/\.(?:jsonl|ndjson)$/i.test(file.name)) return { total: undefined, records: () => jsonRows(file, options) };
  if (/\.(?:csv|tsv)$/i.test(file.name)) return { total: undefined, records: () => csvRows(file, options) };
  throw new Error(`${file.name} is none of .npy, .jsonl, .csv, .tsv`);
}

function npyRows(npy: Npy, { prefix }: RowsOptions): Rows {
  const records = async function* () {
    for (let from = 0; from < npy.rows; from += TOGETHER) {
      const vectors = await npy.read(from, Math.min(TOGETHER, npy.rows - from));
      for (const [i, vector] of vectors.entries()) yield { id: prefix + (from + i), vector };
    }
  };
  return { total: npy.rows, records };
}

/** By a reader: not every browser iterates over streams. */
async function* linesOf(file: Blob): AsyncGenerator<{ readonly text: string; readonly number: number }> {
  let [rest, number] = ['', 0];
  const reader = file
    .stream()
    .pipeThrough(new TextDecoderStream('utf-8', { fatal: true }))
    .getReader();
  try {
    for (let isLast = false; !isLast; ) {
      const { done, value = '\n' } = await reader.read();
      isLast = done;
      const lines = (rest + value).split('\n');
      rest = lines.pop()!;
      for (const line of lines) {
        number++;
        if (line.trim() !== '') yield { text: line.replace(/\r$/, ''), number };
      }
    }
  } finally {
    await reader.cancel();
  }
}

async function* jsonRows(file: Blob, { prefix }: RowsOptions): AsyncGenerator<VectorRecord> {
  let row = 0;
  for await (const { text, number } of linesOf(file)) {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      throw new Error(`line ${number} is not JSON`);
    }
    const object = Array.isArray(value) ? { vector: value } : value;
    if (typeof object !== 'object' || object === null || !Array.isArray((object as { vector?: unknown }).vector))
      throw new Error(`line ${number} has no vector`);
    const { id = prefix + row, vector, payload } = object as { id?: string; vector: number[]; payload?: Payload };
    row++;
    yield { id: String(id), vector, ...(payload === undefined ? {} : { payload }) };
  }
}

/** A column `id`; those named like fields are the payload; all others are the vector. */
async function* csvRows(file: File, { prefix, fields }: RowsOptions): AsyncGenerator<VectorRecord> {
  const delimiter = /\.tsv$/i.test(file.name) ? '\t' : ',';
  let names: readonly string[] | undefined;
  let row = 0;
  for await (const { text, number } of linesOf(file)) {
    const cells = cellsOf(text, delimiter, number);
    if (!names) {
      const isNamed = !cells.every((cell) => cell !== '' && Number.isFinite(Number(cell)));
      names = isNamed ? cells : cells.map((_, i) => String(i + 1));
      if (isNamed) continue;
    }
    if (cells.length !== names.length)
      throw new Error(`line ${number} has ${cells.length} cells, and the first line has ${names.length}`);
    let id = prefix + row++;
    const vector: number[] = [];
    const payload: Record<string, Payload> = {};
    for (const [i, name] of names.entries()) {
      const [cell, type] = [cells[i]!, Object.hasOwn(fields, name) ? fields[name] : undefined];
      if (name === 'id') id = cell;
      else if (type !== undefined) {
        if (cell !== '') payload[name] = cellValue(cell, type);
      } else vector.push(cell === '' ? Number.NaN : Number(cell));
    }
    yield { id, vector, ...(Object.keys(payload).length > 0 ? { payload } : {}) };
  }
}

/** What is no value of the type is refused later, in the words of the client. */
function cellValue(cell: string, type: FieldType): Payload {
  if (type === 'number') return Number(cell);
  if (type === 'boolean') return cell === 'true' ? true : cell === 'false' ? false : cell;
  return type === 'keyword[]' ? cell.split('|') : cell;
}

/** Cells of a line; quoted ones may hold the delimiter, and a quotation mark twice for one. */
function cellsOf(line: string, delimiter: string, number: number): string[] {
  if (!line.includes('"')) return line.split(delimiter).map((cell) => cell.trim());
  const cells: string[] = [];
  const cell = new RegExp(`\\s*(?:"((?:[^"]|"")*)"\\s*|([^"${delimiter}]*))(${delimiter}|$)`, 'y');
  for (;;) {
    const match = cell.exec(line);
    if (!match)
      throw new Error(`the quotation marks of line ${number} do not fit; a cell may not hold a line break here`);
    cells.push(match[1]?.replaceAll('""', '"') ?? match[2]!.trim());
    if (match[3] === '') return cells;
  }
}

// Vectors out of a .npy file of two dimensions. Only the rows that are asked for are read.

const MAGIC = '\x93NUMPY';
const HEADER = /'descr':\s*'([<>|=])([fiu])(\d)'.*'fortran_order':\s*(True|False).*'shape':\s*\((\d+),\s*(\d*),?\s*\)/;
const MAX_HEADER = 2 ** 16;

type Reader = (view: DataView, at: number, isLittle: boolean) => number;

const READERS: Readonly<Record<string, Reader>> = {
  f4: (view, at, isLittle) => view.getFloat32(at, isLittle),
  f8: (view, at, isLittle) => view.getFloat64(at, isLittle),
  i1: (view, at) => view.getInt8(at),
  u1: (view, at) => view.getUint8(at),
};

export interface Npy {
  readonly rows: number;
  readonly dimension: number;
  /** Rows from `from` on. */
  read(from: number, count: number): Promise<Float32Array[]>;
}

/** Throws, in words for people, what is not such a file. */
export async function openNpy(file: Blob): Promise<Npy> {
  const head = new DataView(await file.slice(0, 12).arrayBuffer());
  const magic = Array.from({ length: Math.min(6, head.byteLength) }, (_, i) => String.fromCharCode(head.getUint8(i)));
  if (head.byteLength < 12 || magic.join('') !== MAGIC) throw new Error('this is not a .npy file');
  const isFirst = head.getUint8(6) === 1;
  const length = isFirst ? head.getUint16(8, true) : head.getUint32(8, true);
  const start = (isFirst ? 10 : 12) + length;
  if (length > MAX_HEADER) throw new Error('this .npy file has a header that is too long');
  const text = await file.slice(start - length, start).text();
  const [, order, kind = '', width = '', isFortran, first, second] = HEADER.exec(text) ?? [];
  const reader = READERS[kind + width];
  if (!reader) throw new Error('this .npy file holds something else than float32, float64, int8 or uint8 vectors');
  if (isFortran === 'True')
    throw new Error('the rows of this .npy file do not lie one behind the other; save it in C order');
  // One vector alone is a row.
  const [rows, dimension] = second === '' ? [1, Number(first)] : [Number(first), Number(second)];
  const [step, bytes] = [Number(width), Number(width) * dimension];
  if (file.size < start + rows * bytes) throw new Error('this .npy file is cut off');
  const read = async (from: number, count: number) => {
    const at = start + from * bytes;
    const view = new DataView(await file.slice(at, at + count * bytes).arrayBuffer());
    return Array.from({ length: count }, (_, row) =>
      Float32Array.from({ length: dimension }, (__, i) => reader(view, row * bytes + i * step, order !== '>')),
    );
  };
  return { rows, dimension, read };
}

/** Numbers as people paste them: separated by commas, spaces or lines, with brackets or without. */
export function vectorOf(text: string): Float32Array {
  const words = text
    .replace(/[[\](){}]/g, ' ')
    .split(/[\s,;]+/)
    .filter((word) => word !== '');
  const values = words.map(Number);
  const wrong = values.findIndex((value) => !Number.isFinite(value));
  if (wrong >= 0) throw new Error(`${JSON.stringify(words[wrong])} is not a number`);
  return Float32Array.from(values);
}
