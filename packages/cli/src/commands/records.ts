// `hers get`, `delete`, `count` and `list`: single records.

import type { StoredRecord } from '@hers/client';
import { isFileThere } from '@hers/service/target';
import { writeNpy } from '@hers/vectors/npy';
import { given, type HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { EXIT, usageError } from '../exit.ts';
import { FILTER, filterIn, PARTITIONS } from '../fields.ts';
import { idsFrom } from '../input/companions.ts';
import { inParts } from '../input/lines.ts';
import { pendingText } from '../matches.ts';
import { count, counted } from '../output.ts';
import { taken, writePrivately } from '../private-file.ts';
import { confirmed } from '../secrets.ts';

/** Records asked for together. */
const TOGETHER = 512;

interface IdFlags {
  readonly ids?: string;
}

interface DeleteFlags extends IdFlags {
  readonly filter?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

interface ListFlags {
  readonly filter?: string;
  readonly partitions?: readonly string[];
  readonly limit?: number;
  readonly after?: string;
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
    .description(
      'Deletes records, by their ids or by a filter. No search finds them from then on; `hers optimize` removes them from the disk. With a filter it says how many they are, and asks.',
    )
    .argument('[ids...]', 'the records')
    .option('--ids <file>', 'ids from a text file, one a line')
    .option(
      '--filter <condition>',
      "the records that pass, such as 'country = NL and age >= 18'; the store sees which are deleted, and not why",
    )
    .option('--dry-run', 'say how many would be deleted, and delete nothing')
    .option('-y, --yes', 'do not ask')
    .example('hers delete ada alan', 'Two records')
    .example('hers delete --ids names.txt', 'As a file says')
    .example('hers delete --filter "since < 1995" --dry-run', 'How many a filter would delete')
    .example('hers delete --filter "since < 1995" --yes', 'Without a question, for scripts')
    .action((ids: string[], flags: DeleteFlags) => remove(context(), ids, flags));

  program
    .command('count')
    .summary('how many records there are')
    .description('Counts the records of a collection, or those of them that pass a filter.')
    .option(...FILTER)
    .option(...PARTITIONS)
    .example('hers count', 'One number')
    .example('hers count --filter "city = Delft"', 'Those that pass')
    .action(async ({ filter, partitions }: { filter?: string; partitions?: readonly string[] }) => {
      const { out } = context();
      const named = partitions === undefined ? {} : { partitions };
      const { records, pending } = await context().collection({ read: true }, async (collection, { database }) => {
        const found = await collection.count({ ...(await filterIn(collection, filter)), ...named });
        // With a filter it is asked for as well: a server must not see that there is one.
        const described = partitions === undefined ? await database.describe(collection.name) : undefined;
        return { records: found, pending: filter === undefined ? described?.pending : undefined };
      });
      out.result({ records, ...(pending === undefined ? {} : { pending }) }, String(records));
      // In --json it is a field, and a script that counts wants the number alone.
      if (pending) out.hint(pendingText(pending, records));
    });

  program
    .command('list')
    .summary('the ids of records')
    .description(
      'Prints the ids of all records, or of those that pass a filter, one a line. --limit and --after cut pages out of the list: the next begins after the last id of the one before. Their order stays the same until the collection changes.',
    )
    .option(...FILTER)
    .option(...PARTITIONS)
    .number('-n, --limit <number>', 'at most so many', 'whole')
    .option('--after <id>', 'only those behind this one')
    .example('hers list | head -n 3', 'The first three')
    .example('hers list --filter "city = Delft and not since < 1995"', 'Those that pass')
    .example('hers list --limit 5 --after ada', 'The next page')
    .action((flags: ListFlags) => list(context(), flags));
}

async function givenIds({ environment }: Context, ids: readonly string[], { ids: file }: IdFlags): Promise<string[]> {
  const all = [...ids];
  if (file !== undefined) for await (const id of idsFrom(environment, file)) if (id !== '') all.push(id);
  if (all.length === 0) throw usageError('no ids were given', 'name some, or a file with --ids');
  return all;
}

async function get(
  context: Context,
  ids: readonly string[],
  { all = false, output, ...flags }: IdFlags & { readonly all?: boolean; readonly output?: string },
): Promise<void> {
  const { out } = context;
  if (all && (ids.length > 0 || flags.ids !== undefined))
    throw usageError('--all and single ids exclude each other', 'give one of them');
  const path = output === undefined ? undefined : context.path(output);
  if (path !== undefined && isFileThere(path)) throw taken(path);
  const named = all ? undefined : await givenIds(context, ids, flags);
  await context.collection({ read: true }, async (collection) => {
    let asked = 0;
    let found = 0;
    using progress = context.progress({ label: 'Reading', unit: 'records', total: await collection.count() });
    const records = async function* (): AsyncGenerator<StoredRecord> {
      for await (const part of inParts(named ?? collection.list(), TOGETHER)) {
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
      out.result({ file: path, records: found }, `${counted(found, 'vector')} written to ${path}.`);
    }
    progress.end();
    if (found < asked) {
      out.note(`${counted(asked - found, 'id')} not found.`);
      context.exit = EXIT.no;
    }
  });
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

async function remove(context: Context, ids: readonly string[], flags: DeleteFlags): Promise<void> {
  const { out } = context;
  const { filter, dryRun = false } = flags;
  if (filter !== undefined && (ids.length > 0 || flags.ids !== undefined))
    throw usageError('--filter and single ids exclude each other', 'give one of them');
  const outcome = filter === undefined ? removeNamed(context, ids, flags) : removePassing(context, filter, flags);
  const { deleted, missing } = await outcome;
  if (out.json)
    out.object({ ...(dryRun ? { wouldDelete: deleted } : { deleted }), ...(missing === undefined ? {} : { missing }) });
  else
    out.line(
      `${counted(deleted, 'record')} ${dryRun ? 'would be deleted' : 'deleted'}${missing ? `, ${missing} not there` : ''}.`,
    );
  if (deleted > 0 && !dryRun) out.hint('hers optimize removes them from the disk.');
}

interface Deleted {
  readonly deleted: number;
  readonly missing?: number;
}

async function removeNamed(
  context: Context,
  ids: readonly string[],
  { dryRun = false, ...flags }: DeleteFlags,
): Promise<Deleted> {
  const all = [...new Set(await givenIds(context, ids, flags))];
  const deleted = await context.collection({ read: dryRun }, async (collection) => {
    if (!dryRun) return collection.delete(all);
    let there = 0;
    for await (const hasId of inParts(all, TOGETHER)) there += await collection.count({ filter: { must: { hasId } } });
    return there;
  });
  return { deleted, missing: all.length - deleted };
}

async function removePassing(
  context: Context,
  text: string,
  { dryRun = false, yes = false }: DeleteFlags,
): Promise<Deleted> {
  return context.collection({ read: dryRun }, async (collection) => {
    const filter = (await filterIn(collection, text)).filter!;
    const passing = await collection.count({ filter });
    if (dryRun || passing === 0) return { deleted: passing };
    const total = count(await collection.count());
    await confirmed(context, yes, `Delete ${count(passing)} of the ${total} records of ${collection.name}?`);
    return { deleted: await collection.delete({ filter }) };
  });
}

async function list(context: Context, { filter, partitions, limit, after }: ListFlags): Promise<void> {
  const { out } = context;
  await context.collection({ read: true }, async (collection) => {
    const options = { ...(await filterIn(collection, filter)), ...given({ partitions, limit, after }) };
    for await (const id of collection.list(options)) {
      context.signal.throwIfAborted();
      out.result({ id }, id);
      await out.taken();
    }
  });
}
