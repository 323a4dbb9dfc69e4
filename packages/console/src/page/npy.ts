// Vectors out of a .npy file: two dimensions, rows one behind the other. Only the rows that are
// asked for are read.

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

export class Npy {
  readonly rows: number;
  readonly dimension: number;
  readonly #file: Blob;
  readonly #start: number;
  readonly #bytes: number;
  readonly #read: (view: DataView, at: number) => number;

  private constructor(
    file: Blob,
    layout: {
      readonly rows: number;
      readonly dimension: number;
      readonly start: number;
      readonly bytes: number;
      readonly read: (view: DataView, at: number) => number;
    },
  ) {
    this.#file = file;
    this.rows = layout.rows;
    this.dimension = layout.dimension;
    this.#start = layout.start;
    this.#bytes = layout.bytes;
    this.#read = layout.read;
  }

  /** Throws, in words for people, what is not such a file. */
  static async open(file: Blob): Promise<Npy> {
    const head = new DataView(await file.slice(0, 12).arrayBuffer());
    const magic = Array.from({ length: Math.min(6, head.byteLength) }, (_, i) => String.fromCharCode(head.getUint8(i)));
    if (head.byteLength < 12 || magic.join('') !== MAGIC) throw new Error('this is not a .npy file');
    const isFirst = head.getUint8(6) === 1;
    const length = isFirst ? head.getUint16(8, true) : head.getUint32(8, true);
    const start = (isFirst ? 10 : 12) + length;
    if (length > MAX_HEADER) throw new Error('this .npy file has a header that is too long');
    const text = await file.slice(start - length, start).text();
    const [, order, kind = '', width = '', isFortran, rows, columns] = HEADER.exec(text) ?? [];
    const reader = READERS[kind + width];
    if (!reader) throw new Error('this .npy file holds something else than float32, float64, int8 or uint8 vectors');
    if (isFortran === 'True')
      throw new Error('the rows of this .npy file do not lie one behind the other; save it in C order');
    // One vector alone is a row.
    const [count, dimension] = columns === '' ? [1, Number(rows)] : [Number(rows), Number(columns)];
    const bytes = Number(width) * dimension;
    if (file.size < start + count * bytes) throw new Error('this .npy file is cut off');
    const isLittle = order !== '>';
    return new Npy(file, { rows: count, dimension, start, bytes, read: (view, at) => reader(view, at, isLittle) });
  }

  /** Rows from `from` on. */
  async read(from: number, count: number): Promise<Float32Array[]> {
    const at = this.#start + from * this.#bytes;
    const view = new DataView(await this.#file.slice(at, at + count * this.#bytes).arrayBuffer());
    const step = this.dimension === 0 ? 0 : this.#bytes / this.dimension;
    return Array.from({ length: count }, (_, row) =>
      Float32Array.from({ length: this.dimension }, (__, i) => this.#read(view, row * this.#bytes + i * step)),
    );
  }
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
