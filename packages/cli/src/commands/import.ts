// `hers import`: vectors from a file or a pipe into a collection.

import { type Collection, type CollectionIndex, HersError, type Partition, type UpsertResult } from '@hers/client';
import { type HersCommand, numberOption } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError, EXIT, endingOf, stoppedAt } from '../exit.ts';
import { hasColumns } from '../input/companions.ts';
import { type RecordOptions, RecordStream } from '../input/records.ts';
import { addRowOptions, openRows, type RowFile, type RowOptions } from '../input/rows.ts';
import { tellPending } from '../matches.ts';
import { count, counted, duration, size } from '../output.ts';

type ImportOptions = RecordOptions &
  Omit<RowOptions, 'header'> & { readonly header: boolean; readonly optimize?: boolean };
/** `payload` is false for --no-payload. */
type ImportFlags = Omit<ImportOptions, 'payload'> & { readonly payload?: readonly string[] | false };

export function addImport(program: HersCommand, context: () => Context): void {
  const command = program
    .command('import')
    .summary('encrypt vectors into a collection')
    .description(
      'Encrypts vectors from a .npy, .csv or .jsonl file, or from standard input, into a collection. Records with an existing id are overwritten; identical records are skipped. Re-running an import is safe, and is how you resume an interrupted one. Payload values in the fields of the collection must be of their types. A .csv has no types, so its cells are converted: a number, true or false, a date as text, a list of keywords separated by |; an empty cell is no value. Rows without an id in the file need --ids, --row-ids or --id-prefix: rows are not numbered by default, because two files with numbered rows would overwrite each other.',
    )
    .argument(
      '<file>',
      'a .npy (2-D, float32, float64, float16, int8, uint8), .csv, .tsv or .jsonl file, or - for standard input',
    );
  addRowOptions(command)
    .option(
      '--ids <file>',
      'ids from a text file, one a line, or from the --id column of a .csv or .jsonl file; they override ids in the file of the vectors',
    )
    .option(
      '--row-ids',
      'the id of a row that has none is its number, counted from 0; rows that are left out by --skip or --skip-bad count, too',
    )
    .option('--id-prefix <text>', 'the same with this text before the number, such as the name of the file')
    .option(
      '--payload <columns>',
      'columns or fields that form the payload, separated by commas; the field `payload` of .jsonl by default',
      (text: string) => text.split(',').map((name) => name.trim()),
    )
    .option(
      '--no-payload',
      'from .jsonl keep nothing but id and vector; by default a field that would be lost is refused',
    )
    .option('--payloads <file>', 'payloads from a .jsonl file, one a line, or from the columns of a .csv file')
    .option('--skip <rows>', 'skip this many rows at the start', numberOption('--skip', { whole: true }))
    .option('--limit <rows>', 'import at most so many rows', numberOption('--limit', { whole: true }))
    .option(
      '--optimize',
      'put all records into blocks at the end, so that every search is encrypted; without it, those that do not fill a block stay pending, and searches compare them here, in the clear',
    )
    .option(
      '--skip-bad',
      'skip rows that cannot be used (NaN, wrong length, unreadable line), say which, and continue',
    );
  command
    .example('hers import vectors.npy --ids names.txt', 'Vectors and names in files of their own')
    .example('hers import people.csv --id name --payload city,since', 'Everything in one file')
    .example(
      'hers import vectors.npy --ids people.csv --id name --payloads people.csv --payload city',
      'Names and payloads from a .csv',
    )
    .example('hers import vectors.npy --id-prefix 2026-', 'Without names: 2026-0, 2026-1, …')
    .example('cat people.jsonl | hers import -', 'From a pipe')
    .action((file: string, options: ImportFlags) => importFile(context(), file, options));
}

async function importFile(context: Context, argument: string, flags: ImportFlags): Promise<void> {
  const { environment, out } = context;
  checkIdOptions(flags);
  if (flags.payload === false && flags.payloads !== undefined)
    throw new CommandError(EXIT.usage, '--no-payload and --payloads exclude each other', 'give one of them');
  const { payload: fields, ...rest } = flags;
  const options = { ...rest, ...(fields === undefined ? {} : { payload: fields || [] }) };
  // Opened before the key: a wrong file name, or rows without ids, should not cost a passphrase.
  const file = await openRows(environment, argument, rowOptions(options));
  const stream = new RecordStream(environment, file, options, out);
  try {
    await stream.begin();
    await context.collection(async (collection, { database }) => {
      await stream.check(collection.plan);
      const started = performance.now();
      const written = await write(context, collection, file, stream);
      if (options.optimize) await optimizeNow(context, collection);
      const { pending } = await database.describe(collection.name);
      await summarise(context, collection, stream, { ...written, pending }, performance.now() - started);
    });
  } finally {
    await stream.close();
  }
}

/**
 * Where every row has an id, because somebody said where it is, none is numbered; and rows are
 * numbered in one way.
 */
function checkIdOptions({ ids, id, rowIds, idPrefix }: ImportFlags): void {
  const numbering = [...(rowIds ? ['--row-ids'] : []), ...(idPrefix === undefined ? [] : ['--id-prefix'])];
  const naming = [...(ids === undefined ? [] : ['--ids']), ...(id === undefined ? [] : ['--id'])];
  const [one, two] = [...naming.slice(0, 1), ...numbering];
  if (numbering.length > 0 && two !== undefined)
    throw new CommandError(EXIT.usage, `${one} and ${two} exclude each other`, 'give one of them');
  if (idPrefix === '')
    throw new CommandError(EXIT.usage, '--id-prefix takes some text', '--row-ids numbers rows without any');
}

/**
 * --id and --payload are about the files in --ids and --payloads where these have columns, and
 * about the vectors' own file otherwise.
 */
function rowOptions({ header, ids, payloads, id, payload, ...rest }: ImportOptions): RowOptions {
  return {
    ...rest,
    ...(header ? {} : { header }),
    ...(id === undefined || (ids !== undefined && hasColumns(ids)) ? {} : { id }),
    ...(payload === undefined || payloads !== undefined ? {} : { payload }),
    closed: payload === undefined && payloads === undefined,
  };
}

async function write(
  context: Context,
  collection: Collection,
  file: RowFile,
  stream: RecordStream,
): Promise<UpsertResult> {
  const { signal } = context;
  const { expected } = stream;
  const { size } = file.source;
  // A pipe may be slower than everything behind it: then what has arrived is counted.
  const isPipe = size === undefined;
  using progress = context.progress({ label: 'Encrypting', unit: 'records' });
  progress.update(0, expected);
  const records = stream.records(await collection.fields());
  let safe = 0;
  try {
    return await collection.upsert(isPipe ? announced(records, () => progress.update(stream.read)) : records, {
      signal,
      onInvalid: ({ error }) => stream.invalid(error),
      onProgress: ({ acknowledged }) => {
        safe = acknowledged;
        if (isPipe) return progress.update(stream.read);
        // Without a count, the share of the bytes read tells how much there will be.
        const guess = Math.round((acknowledged * size) / Math.max(1, file.source.position));
        progress.update(acknowledged, expected ?? guess);
      },
    });
  } catch (error) {
    progress.end();
    throw told(error, signal, safe);
  }
}

async function* announced<T>(items: AsyncIterable<T>, onItem: () => void): AsyncGenerator<T> {
  for await (const item of items) {
    onItem();
    yield item;
  }
}

/** Says how far it came. What was acknowledged stays; nothing is half written. */
function told(error: unknown, signal: AbortSignal, records: number): unknown {
  // Where the store failed, or was stopped, it may have more than it has acknowledged.
  const isInput = !signal.aborted && endingOf(error).exit === EXIT.input;
  const nothing = isInput ? 'nothing was written' : 'nothing was acknowledged';
  const some = `${records === 1 ? '1 record is' : `${count(records)} records are`} safe in the collection`;
  const safe = records === 0 ? nothing : some;
  if (signal.aborted) return stoppedAt(error, signal, `${safe}; run the same command again to resume`);
  if (!(error instanceof CommandError || error instanceof HersError)) return error;
  if (error instanceof CommandError && error.exit === EXIT.usage) return error; // nothing was begun
  return Object.defineProperty(error, 'message', { value: `${error.message.replace(/[.\s]+$/, '')}; ${safe}` });
}

async function optimizeNow(context: Context, collection: Collection): Promise<void> {
  const { signal } = context;
  using progress = context.progress({ label: 'Optimizing', unit: 'blocks' });
  await collection
    .optimize({ signal, onProgress: ({ done, total }) => progress.update(done, total) })
    .catch((error) =>
      Promise.reject(stoppedAt(error, signal, 'all records are safe; hers optimize puts them into blocks')),
    );
}

/** What partitions take, and would take. */
function costOf(partitions: readonly Partition[], { plan: { bytes, capacity } }: CollectionIndex): string {
  const pending = partitions.filter((each) => each.pending > 0);
  const left = pending.reduce((sum, each) => sum + each.pending, 0);
  const each = `A block of a partition takes ${size(bytes.block)}, for up to ${counted(capacity, 'record')}`;
  return pending.length === 0
    ? `${counted(partitions.length, 'partition')}. ${each}.`
    : `${counted(partitions.length, 'partition')}; ${counted(left, 'record')} of ${count(pending.length)} stay pending, because they do not fill a block. ${each}; hers optimize makes those that are not full.`;
}

async function summarise(
  { out }: Context,
  collection: Collection,
  { read, bad }: RecordStream,
  { written, inserted, replaced, unchanged, repeated, pending }: UpsertResult & { readonly pending: number },
  ms: number,
): Promise<void> {
  const records = await collection.count();
  if (out.json) {
    const outcome = { written, inserted, replaced, unchanged, bad, repeated };
    out.object({ collection: collection.name, ...outcome, records, pending, seconds: ms / 1000 });
  } else {
    const parts = [
      `${counted(inserted, 'record')} new`,
      ...(replaced > 0 ? [`${count(replaced)} replaced`] : []),
      ...(unchanged > 0 ? [`${count(unchanged)} unchanged`] : []),
    ];
    const total = `${collection.name} holds ${count(records)}`;
    out.line(`${parts.join(', ')}; ${total}. That took ${duration(ms)}.`);
  }
  if (read === 0) out.note('There were no rows to import.');
  if (bad > 0 && written + unchanged === 0)
    throw new CommandError(
      EXIT.input,
      bad === 1 ? 'the only row could not be used' : `none of the ${count(bad)} rows could be used`,
      'see what is said about them',
    );
  if (bad > 0) out.note(`${counted(bad, 'row')} left out.`);
  const partitions = await collection.partitions();
  if (partitions.length > 0) out.note(costOf(partitions, await collection.index()));
  if (repeated > 0) out.note(`${counted(repeated, 'row')} had an id that came before; the last one of each was kept.`);
  tellPending(out, pending, records);
  out.hint('Next: hers search <file> --row 0');
}
