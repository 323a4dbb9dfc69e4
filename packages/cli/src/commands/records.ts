// `hers get`, `delete`, `count` and `list`: single records.

import type { StoredRecord } from '@hers/client';
import { isFileThere } from '@hers/service/target';
import { writeNpy } from '@hers/vectors/npy';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError, EXIT } from '../exit.ts';
import { idsFrom } from '../input/companions.ts';
import { taken, writePrivately } from '../private-file.ts';
import { counted } from '../quantities.ts';

/** Records asked for together. */
const TOGETHER = 512;

interface IdFlags {
  readonly ids?: string;
}

export function addRecords(program: HersCommand, context: () => Context): void {
  program
    .command('get')
    .summary('read records back')
    .description(
      'Fetches records by their ids and decrypts them. Exits with code 1 when one does not exist. Whoever keeps the gallery learns which ones were read.',
    )
    .argument('[ids...]', 'the records')
    .option('--ids <file>', 'ids from a text file, one a line')
    .option('--all', 'every record')
    .option('-o, --output <file>', 'write the vectors to a .npy file instead of printing them')
    .example('hers get ada', 'One record')
    .example('hers get ada alan --json', 'Vectors and payloads, for a program')
    .example('hers get --all --output copy.npy', 'All vectors, in the order of `hers list`')
    .action((ids: string[], flags: IdFlags & { all?: boolean; output?: string }) => get(context(), ids, flags));

  program
    .command('delete')
    .summary('delete records')
    .description('Deletes records. No search finds them from then on; `hers optimize` removes them from the disk.')
    .argument('[ids...]', 'the records')
    .option('--ids <file>', 'ids from a text file, one a line')
    .example('hers delete ada alan', 'Two records')
    .example('hers delete --ids names.txt', 'As a file says')
    .action((ids: string[], flags: IdFlags) => remove(context(), ids, flags));

  program
    .command('count')
    .summary('how many records there are')
    .description('Counts the records of a collection.')
    .example('hers count', 'One number')
    .action(async () => {
      const { out } = context();
      const records = await context().collection((collection) => collection.count(), { read: true });
      if (out.json) out.object({ records });
      else out.line(String(records));
    });

  program
    .command('list')
    .summary('the ids of all records')
    .description('Prints the ids of all records, one a line.')
    .example('hers list | head -n 3', 'The first three')
    .action(() => list(context()));
}

async function givenIds({ environment }: Context, ids: readonly string[], { ids: file }: IdFlags): Promise<string[]> {
  const all = [...ids];
  if (file !== undefined) for await (const id of idsFrom(environment, file)) if (id !== '') all.push(id);
  if (all.length === 0) throw new CommandError(EXIT.usage, 'no ids were given', 'name some, or a file with --ids');
  return all;
}

async function get(
  context: Context,
  ids: readonly string[],
  { all = false, output, ...flags }: IdFlags & { readonly all?: boolean; readonly output?: string },
): Promise<void> {
  const { out } = context;
  if (all && (ids.length > 0 || flags.ids !== undefined))
    throw new CommandError(EXIT.usage, '--all and single ids exclude each other', 'give one of them');
  const path = output === undefined ? undefined : context.path(output);
  if (path !== undefined && isFileThere(path)) throw taken(path);
  const named = all ? undefined : await givenIds(context, ids, flags);
  await context.collection(
    async (collection) => {
      let asked = 0;
      let found = 0;
      using progress = context.progress({ label: 'Reading', unit: 'records', total: await collection.count() });
      const records = async function* (): AsyncGenerator<StoredRecord> {
        for await (const part of together(named ?? collection.list())) {
          context.signal.throwIfAborted();
          const got = await collection.get(part);
          asked += part.length;
          found += got.length;
          yield* got;
          progress.update(asked);
        }
      };
      if (path === undefined) {
        for await (const record of records()) {
          print(context, record);
          await out.taken();
        }
      } else {
        await writePrivately(path, { replace: false }, async (file) => {
          const vectors = async function* () {
            for await (const { vector } of records()) yield vector;
          };
          await writeNpy(file, collection.plan.dimension, vectors());
        });
        if (out.json) out.object({ file: path, records: found });
        else out.line(`${counted(found, 'vector')} written to ${path}.`);
      }
      progress.end();
      if (found < asked) {
        out.note(`${counted(asked - found, 'id')} not found.`);
        context.exit = EXIT.no;
      }
    },
    { read: true },
  );
}

async function* together(ids: Iterable<string> | AsyncIterable<string>): AsyncGenerator<string[]> {
  let part: string[] = [];
  for await (const id of ids) {
    part.push(id);
    if (part.length === TOGETHER) {
      yield part;
      part = [];
    }
  }
  if (part.length > 0) yield part;
}

function print({ out }: Context, record: StoredRecord): void {
  const { id, vector, payload } = record;
  if (out.json) out.object({ id, vector: Array.from(vector), ...(payload === undefined ? {} : { payload }) });
  else {
    const numbers = Array.from(vector, (x) => String(Number(x.toPrecision(6))));
    // A terminal gets a glimpse, a pipe all of it.
    const shown = out.terminal && numbers.length > 4 ? `${numbers.slice(0, 4).join(' ')} …` : numbers.join(' ');
    out.fields([id, shown, ...(payload === undefined ? [] : [JSON.stringify(payload)])]);
  }
}

async function remove(context: Context, ids: readonly string[], flags: IdFlags): Promise<void> {
  const { out } = context;
  const all = await givenIds(context, ids, flags);
  const deleted = await context.collection((collection) => collection.delete(all));
  const missing = new Set(all).size - deleted;
  if (out.json) out.object({ deleted, missing });
  else out.line(`${counted(deleted, 'record')} deleted${missing > 0 ? `, ${missing} not there` : ''}.`);
  if (deleted > 0) out.hint('hers optimize removes them from the disk.');
}

async function list(context: Context): Promise<void> {
  const { out } = context;
  await context.collection(
    async (collection) => {
      for await (const id of collection.list()) {
        context.signal.throwIfAborted();
        if (out.json) out.object({ id });
        else out.line(id);
        await out.taken();
      }
    },
    { read: true },
  );
}
