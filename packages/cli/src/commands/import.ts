// `hers import`: vectors from a file or a pipe into a collection.

import { type Collection, HersError, type Written } from '@hers/client';
import { type HersCommand, numberOption } from '../command.ts';
import { hasColumns } from '../companions.ts';
import type { Context } from '../context.ts';
import { CommandError, EXIT, stoppedAt } from '../exit.ts';
import { count, counted, duration } from '../quantities.ts';
import { type RecordOptions, RecordStream } from '../records.ts';
import { addRowOptions } from '../row-options.ts';
import { openRows, type RowFile, type RowOptions } from '../rows.ts';

type ImportOptions = RecordOptions & Omit<RowOptions, 'header'> & { readonly header: boolean };

export function addImport(program: HersCommand, context: () => Context): void {
  const command = program
    .command('import')
    .summary('encrypt vectors into a collection')
    .description(
      'Encrypts vectors from a .npy, .csv or .jsonl file, or from standard input, into a collection. A record whose id is there is replaced, one that is there already exactly so is left alone: importing again is safe, and is how an interrupted import goes on. Without ids in the file or in --ids, the id of a record is the number of its row, counted from 0.',
    )
    .argument(
      '<file>',
      'a .npy (2-D, float32, float64, float16, int8, uint8), .csv, .tsv or .jsonl file, or - for standard input',
    );
  addRowOptions(command)
    .option('--ids <file>', 'ids from a text file, one a line, or from the --id column of a .csv or .jsonl file')
    .option('--id-prefix <text>', 'before the number of the row, where there are no other ids')
    .option(
      '--payload <columns>',
      'columns or fields that form the payload, with commas between; the field `payload` of .jsonl by default',
      (text: string) => text.split(',').map((name) => name.trim()),
    )
    .option('--payloads <file>', 'payloads from a .jsonl file, one a line, or from the columns of a .csv file')
    .option('--skip <rows>', 'leave out so many rows at the start', numberOption('--skip', { whole: true }))
    .option('--limit <rows>', 'import at most so many rows', numberOption('--limit', { whole: true }))
    .option(
      '--skip-bad',
      'leave out rows that cannot be used (NaN, a wrong length, a line that cannot be read), say which, and go on',
    );
  command
    .example('hers import vectors.npy --ids names.txt', 'Vectors and names in files of their own')
    .example('hers import people.csv --id name --payload city,since', 'Everything in one file')
    .example(
      'hers import vectors.npy --ids people.csv --id name --payloads people.csv --payload city',
      'Names and payloads from a .csv',
    )
    .example('cat people.jsonl | hers import -', 'From a pipe')
    .action((file: string, options: ImportOptions) => importFile(context(), file, options));
}

async function importFile(context: Context, argument: string, options: ImportOptions): Promise<void> {
  const { surroundings, out } = context;
  // Opened before the key: a wrong file name should not cost a passphrase.
  const file = await openRows(surroundings, argument, rowOptions(options));
  try {
    await context.collection(async (collection) => {
      const stream = new RecordStream(surroundings, file, collection.plan, options, out);
      await stream.check();
      const started = performance.now();
      const written = await write(context, collection, file, stream);
      await summarise(context, collection, stream, written, performance.now() - started);
    });
  } finally {
    await file.source.close();
  }
}

/** --id and --payload are about the files in --ids and --payloads where these have columns, and about the vectors' own file otherwise. */
function rowOptions({ header, ids, payloads, id, payload, ...rest }: ImportOptions): RowOptions {
  return {
    ...rest,
    ...(header ? {} : { header }),
    ...(id === undefined || (ids !== undefined && hasColumns(ids)) ? {} : { id }),
    ...(payload === undefined || payloads !== undefined ? {} : { payload }),
  };
}

async function write(context: Context, collection: Collection, file: RowFile, stream: RecordStream): Promise<Written> {
  const { signal } = context;
  const { expected } = stream;
  using progress = context.progress({ label: 'Encrypting', unit: 'records' });
  progress.update(0, expected);
  let safe = 0;
  try {
    return await collection.upsert(stream.records(), {
      signal,
      onProgress: ({ acknowledged }) => {
        safe = acknowledged;
        // Without a count, the share of the bytes read tells how much there will be.
        const { size, position } = file.source;
        const guess = size ? Math.round((acknowledged * size) / Math.max(1, position)) : undefined;
        progress.update(acknowledged, expected ?? guess);
      },
    });
  } catch (error) {
    progress.end();
    throw told(error, signal, safe);
  }
}

/** Says how far it came. What was acknowledged stays; nothing is half written. */
function told(error: unknown, signal: AbortSignal, records: number): unknown {
  const safe = `${records === 1 ? '1 record is' : `${count(records)} records are`} safe in the collection`;
  if (signal.aborted) return stoppedAt(error, signal, `${safe}; run the same command again to go on`);
  if (!(error instanceof CommandError || error instanceof HersError)) return error;
  return Object.defineProperty(error, 'message', { value: `${error.message.replace(/[.\s]+$/, '')}; ${safe}` });
}

async function summarise(
  { out }: Context,
  collection: Collection,
  { read, bad, repeated }: RecordStream,
  { written, unchanged }: Written,
  ms: number,
): Promise<void> {
  const records = await collection.count();
  if (out.json) {
    out.object({ collection: collection.name, written, unchanged, bad, repeated, records, seconds: ms / 1000 });
  } else {
    const also = unchanged > 0 ? `, ${count(unchanged)} were there already` : '';
    const total = `${collection.name} holds ${count(records)}`;
    out.line(`${counted(written, 'record')} written${also}; ${total}. That took ${duration(ms)}.`);
  }
  if (read === 0) out.note('There were no rows to import.');
  if (bad > 0 && written + unchanged === 0)
    throw new CommandError(
      EXIT.input,
      `none of the ${counted(bad, 'row')} could be used`,
      'see what is said about them',
    );
  if (bad > 0) out.note(`${counted(bad, 'row')} left out.`);
  if (repeated > 0) out.note(`${counted(repeated, 'row')} had an id that came before; the last one of each was kept.`);
  out.hint('Next: hers search <file> --row 0; or hers optimize, which encrypts what waits for a full block.');
}
