// From rows to records: an id for each, cells as values of their fields, and a count of what was
// left out.
//
// A number is no id that anybody chose: two imports that number their rows write over each other.
// So rows are numbered only where that was asked for.

import { type Fields, type FieldType, HersError, type Payload, type Plan, type VectorRecord } from '@hers/client';
import { given } from '../command.ts';
import type { Environment } from '../context.ts';
import { CommandError, EXIT, inCommandWords } from '../exit.ts';
import { LIST_SEPARATOR } from '../fields.ts';
import type { Output } from '../output.ts';
import { countOf, hasCells, idsFrom, payloadsFrom } from './companions.ts';
import { BadRow } from './lines.ts';
import type { Row, RowFile } from './rows.ts';

export interface RecordOptions {
  /** A file with the ids, and the column or field of it. */
  readonly ids?: string;
  readonly id?: string;
  /** A file with the payloads, and the columns or fields of it. */
  readonly payloads?: string;
  readonly payload?: readonly string[];
  /** The number of a row is its id where there is no other. */
  readonly rowIds?: boolean;
  /** The same with this before the number. */
  readonly idPrefix?: string;
  readonly skip?: number;
  readonly limit?: number;
  /** Leave out what cannot be used, and go on. */
  readonly skipBad?: boolean;
}

/** Complaints about single rows before they are only counted. */
const MAX_COMPLAINTS = 10;

export class RecordStream {
  readonly #environment: Environment;
  readonly #file: RowFile;
  readonly #options: RecordOptions;
  readonly #out: Output;
  readonly #rows: AsyncGenerator<Row>;
  /** Read ahead, for a look at its id. */
  #first: Row | undefined;
  /** The row that was handed on last. */
  #last: Row | undefined;
  /** Rows read, used or not. */
  read = 0;
  /** Rows left out by --skip-bad. */
  bad = 0;

  constructor(environment: Environment, file: RowFile, options: RecordOptions, out: Output) {
    this.#environment = environment;
    this.#file = file;
    this.#options = options;
    this.#out = out;
    this.#rows = this.#readable();
  }

  /** How many there will be, where that can be known. */
  get expected(): number | undefined {
    const { count } = this.#file;
    if (count === undefined) return undefined;
    const { skip = 0, limit = Number.POSITIVE_INFINITY } = this.#options;
    return Math.min(Math.max(0, count - skip), limit);
  }

  /**
   * Looks at the first row: where it has no id, and none can be made for it, the import ends before
   * it begins.
   */
  async begin(): Promise<void> {
    const { value, done } = await this.#rows.next();
    if (done) return;
    this.#idOf(value);
    this.#first = value;
  }

  /**
   * What can be known to be wrong before anything is written: another dimension, or another number
   * of ids or payloads than rows.
   */
  async check(plan: Plan): Promise<void> {
    const { count, dimension, source } = this.#file;
    if (dimension !== undefined && dimension !== plan.dimension)
      throw new CommandError(
        EXIT.input,
        `${source.name} has vectors of ${dimension} dimensions, and the collection takes ${plan.dimension}`,
        `name another with --collection, or make one: hers collections create <name> --dimension ${dimension}`,
        'INVALID_VECTOR',
      );
    if (count === undefined) return;
    for (const [path, items] of this.#companions()) {
      const found = await countOf(items);
      if (found !== count)
        throw new CommandError(
          EXIT.input,
          `${path} has ${found} lines, and ${source.name} has ${count} rows`,
          'they must be as many',
        );
    }
  }

  *#companions(): Generator<readonly [string, AsyncIterable<unknown>]> {
    const { ids, id, payloads, payload } = this.#options;
    if (ids !== undefined) yield [ids, idsFrom(this.#environment, ids, id)];
    if (payloads !== undefined) yield [payloads, payloadsFrom(this.#environment, payloads, payload)];
  }

  async *records(fields: Fields): AsyncGenerator<VectorRecord> {
    try {
      if (this.#first) yield* this.#record(this.#first, fields);
      for await (const row of this.#rows) yield* this.#record(row, fields);
    } finally {
      await this.close();
    }
  }

  /** Refuses the record that was handed on last, for what the client says about it. */
  invalid(error: HersError): void {
    this.#refuse(`${this.#file.source.name}, ${this.#last!.where}: ${error.message}`, error);
  }

  async close(): Promise<void> {
    await this.#rows.return(undefined);
    await this.#file.source.close();
  }

  /** The rows to be imported that can be read, with what stands beside them in other files. */
  async *#readable(): AsyncGenerator<Row> {
    const { ids, id, payloads, payload, skip = 0, limit = Number.POSITIVE_INFINITY } = this.#options;
    const names = ids === undefined ? undefined : idsFrom(this.#environment, ids, id);
    const contents = payloads === undefined ? undefined : payloadsFrom(this.#environment, payloads, payload);
    try {
      for await (const row of this.#file.attempts()) {
        if (row.number >= skip + limit) return;
        const name = names && (await this.#next(names, ids!, row));
        const content = contents && (await this.#next(contents, payloads!, row));
        if (row.number < skip) continue;
        this.read++;
        if (row instanceof BadRow) {
          this.#refuse(row.error.message, row.error);
          continue;
        }
        yield {
          ...row,
          ...given({ id: name, payload: content }),
        };
      }
      await this.#mustEnd(names, ids);
      await this.#mustEnd(contents, payloads);
    } finally {
      await names?.return(undefined);
      await contents?.return(undefined);
    }
  }

  /** Names that are left over mean that some stand beside other rows than they belong to. */
  async #mustEnd(items: AsyncGenerator<unknown> | undefined, path: string | undefined): Promise<void> {
    if (!items || (await items.next()).done) return;
    throw new CommandError(
      EXIT.input,
      `${path} has more lines than ${this.#file.source.name} has rows`,
      'check which belongs to which, and import again',
    );
  }

  async #next<T>(items: AsyncGenerator<T>, path: string, row: Row | BadRow): Promise<T> {
    const { value, done } = await items.next();
    if (done)
      throw new CommandError(
        EXIT.input,
        `${path} ends before ${row.where} of ${this.#file.source.name}`,
        'they must be as many',
      );
    return value;
  }

  /** A row that cannot be used ends the import, unless it may be left out. */
  #refuse(message: string, { code }: HersError, remedy = 'correct it, or leave such rows out with --skip-bad'): void {
    if (!this.#options.skipBad) throw new CommandError(EXIT.input, message, remedy, code);
    if (++this.bad <= MAX_COMPLAINTS) this.#out.note(`left out: ${inCommandWords(message)}`);
    else if (this.bad === MAX_COMPLAINTS + 1) this.#out.note('left out: more, which are only counted');
  }

  /**
   * The id that a row has, or that is made for it; undefined for one that was left out. Where not
   * even the first row has one, the file has none.
   */
  #idOf({ id, number, where }: Row): string | undefined {
    const { rowIds = false, idPrefix } = this.#options;
    if (id !== undefined) return id;
    if (rowIds || idPrefix !== undefined) return `${idPrefix ?? ''}${number}`;
    const message = `${this.#file.source.name}, ${where} has no id`;
    if (!this.#first) throw new CommandError(EXIT.usage, message, this.#remedy);
    const remedy = `${this.#remedy}, or leave such rows out with --skip-bad`;
    this.#refuse(message, new HersError('MALFORMED', message), remedy);
    return undefined;
  }

  get #remedy(): string {
    const column = this.#file.format === 'npy' ? '' : 'name its column or field with --id, or ';
    return `${column}add one of --ids <file>, --row-ids and --id-prefix <text>`;
  }

  *#record(row: Row, fields: Fields): Generator<VectorRecord> {
    const id = this.#idOf(row);
    if (id === undefined) return;
    const { vector, payload } = row;
    const { payloads } = this.#options;
    const isCells = payloads === undefined ? ['csv', 'tsv'].includes(this.#file.format) : hasCells(payloads);
    this.#last = row;
    if (payload === undefined) yield { id, vector };
    else yield { id, vector, payload: isCells ? typedCells(payload, fields) : payload };
  }
}

const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;

/**
 * Cells as the values of their fields, and all others as they are. An empty cell of a field is no
 * value. What is not of its type stays a text, and is refused where values are checked.
 */
function typedCells(payload: Payload, fields: Fields): Payload {
  if (Object.keys(fields).length === 0) return payload;
  const typed = Object.entries(payload as Record<string, string>).flatMap(([name, cell]) => {
    if (!Object.hasOwn(fields, name)) return [[name, cell] as const];
    return cell === '' ? [] : [[name, typedCell(fields[name]!, cell)] as const];
  });
  return Object.fromEntries(typed);
}

function typedCell(type: FieldType, cell: string): Payload {
  switch (type) {
    case 'number':
      return NUMBER.test(cell) ? Number(cell) : cell;
    case 'boolean':
      // As programs and spreadsheets write them: true, True, TRUE.
      return /^(?:true|false)$/i.test(cell) ? cell.toLowerCase() === 'true' : cell;
    case 'keyword[]':
      return cell
        .split(LIST_SEPARATOR)
        .map((each) => each.trim())
        .filter((each) => each !== '');
    default:
      return cell;
  }
}
