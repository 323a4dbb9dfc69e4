// `hers fields`, `partitions`, `update-payload` and `expire`: what records can be filtered and
// divided by, and what follows from it.

import { type ExpiryReceipt, type Fields, HersError, type Partition, type PayloadUpdate } from '@hers/client';
import { isFileThere } from '@hers/service/target';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { absentError, CommandError, EXIT, endingOf, stoppedAt, usageError } from '../exit.ts';
import { fieldsIn, fieldsText, namesIn, unfinishedText } from '../fields.ts';
import { updatesFrom } from '../input/jsonl.ts';
import { inParts } from '../input/lines.ts';
import { columns, count, counted, duration } from '../output.ts';
import { taken, writePrivately } from '../private-file.ts';
import { confirmed } from '../secrets.ts';

/** Payloads that are changed together. */
const TOGETHER = 16_384;

const COLLECTION = 'the one in the settings, or the only one, by default';

export function addFields(program: HersCommand, context: () => Context): void {
  const fields = program
    .command('fields')
    .summary('what records can be filtered by')
    .description(
      'Fields are properties of payloads that records can be filtered by and that a search can return (--filter, --select, --group-by). Their values lie encrypted in the gallery, and whoever keeps it never sees a filter (docs/filters.md).',
    );

  fields
    .command('list')
    .summary('the fields of a collection')
    .description('Lists the fields of a collection and their types.')
    .argument('[collection]', COLLECTION)
    .example('hers fields list faces', 'A name and a type a line')
    .action((name: string | undefined) => list(context(), name));

  fields
    .command('add')
    .summary('add fields, from the payloads that there are')
    .description(
      'Adds fields to a collection, and fills them from the payloads of its records. Vectors are not encrypted again, and the collection can be searched meanwhile. If it is interrupted, run it again to resume. A record whose payload has a value of another type is named, and has to be corrected first (`hers update-payload`). A date field called expires says when a record ends (`hers expire`).',
    )
    .argument('<collection>', 'which')
    .argument(
      '<fields...>',
      'a name and a type each: country:keyword age:number; the types are keyword, number, date, boolean and keyword[]',
    )
    .example('hers fields add faces country:keyword age:number', 'Two fields')
    .example("hers fields add faces 'tags:keyword[]'", 'A list of keywords; some shells want the quotes')
    .action((name: string, given: string[]) => add(context(), name, given));

  fields
    .command('drop')
    .summary('drop fields; payloads stay as they are')
    .description('Drops fields of a collection. The payloads of the records stay as they are.')
    .argument('<collection>', 'which')
    .argument('<names...>', 'the fields')
    .option('-y, --yes', 'do not ask')
    .example('hers fields drop faces since --yes', 'Without a question, for scripts')
    .action((name: string, names: string[], { yes = false }: { yes?: boolean }) => drop(context(), name, names, yes));

  program
    .command('update-payload')
    .summary('change payloads, and with them fields')
    .description(
      'Replaces the payload of a record, or of every record that a .jsonl file names, without encrypting vectors again. The fields of the collection change with it. Whoever keeps the gallery learns which records they are. All payloads of a file with up to 16 384 lines change at once; a longer one in steps.',
    )
    .argument('[id]', 'the record')
    .argument('[payload]', 'its new payload, as JSON')
    .option('--remove', 'take the payload away')
    .option(
      '--file <file>',
      'a .jsonl file with {"id": …, "payload": …} a line, or - for standard input; a line without a payload takes it away',
    )
    .example(`hers update-payload ada '{"city": "London", "since": 1843}'`, 'One record')
    .example('hers update-payload ada --remove', 'Without a payload from now on')
    .example('hers update-payload --file changes.jsonl', 'Many')
    .action((id: string | undefined, payload: string | undefined, flags: UpdateFlags) =>
      update(context(), id, payload, flags),
    );

  program
    .command('expire')
    .summary('delete the records whose time is over')
    .description(
      'Deletes the records whose date in the field expires has passed. No search finds them from that moment on; this command deletes them for good, and `hers optimize` then removes them from the disk. The receipt says what was deleted and when, with the version and the hash of the collection afterwards. Records are named in it by handles, keyed hashes of their ids: only who has the key can tell whether a person was among them.',
    )
    .argument('[collection]', COLLECTION)
    .option('--dry-run', 'say what would be deleted, and delete nothing')
    .option('--ids', 'name the records by their ids, and not by their handles')
    .option('--receipt <file>', 'write the receipt to a new file as JSON, for its owner alone')
    .example('hers expire --dry-run --ids', 'Who would be deleted')
    .example('hers expire faces --receipt 2026-11-16.json', 'With a receipt to keep')
    .action((name: string | undefined, flags: ExpireFlags) => expire(context(), name, flags));

  program
    .command('partitions')
    .summary('the partitions of a collection')
    .description(
      'Lists the partitions of a collection that was made with --partition-by: their records, how many of these are pending, their blocks, and their handles. A handle is all that a store sees of a partition, and what a token is limited to (`hers tokens create --partitions`): the name stays here.',
    )
    .argument('[collection]', COLLECTION)
    .option(
      '--handles <names>',
      'only the handles of these, separated by commas, whether they have records or not',
      namesIn,
    )
    .example('hers partitions faces', 'One a line')
    .example('hers partitions faces --handles NL,DE', 'What to limit a token to')
    .action((name: string | undefined, { handles }: { handles?: readonly string[] }) =>
      listPartitions(context(), name, handles),
    );
}

async function list(context: Context, name: string | undefined): Promise<void> {
  const { out } = context;
  const described = await context.collection({ read: true, collection: name }, (collection, { database }) =>
    database.describe(collection.name),
  );
  const { name: collection, fields, unfinishedFields } = described;
  const unfinished = Object.keys(unfinishedFields);
  if (out.json) out.object({ collection, fields, ...(unfinished.length > 0 ? { unfinishedFields } : {}) });
  else if (Object.keys(fields).length > 0) out.table(columns('field', 'type'), Object.entries(fields));
  else out.hint(`${collection} has no fields. Next: hers fields add ${collection} country:keyword`);
  if (unfinished.length > 0) out.note(unfinishedText(unfinishedFields));
}

async function listPartitions(
  context: Context,
  name: string | undefined,
  names: readonly string[] | undefined,
): Promise<void> {
  const { out } = context;
  const { collection, partitions } = await context.collection({ read: true, collection: name }, async (collection) => {
    const all = await collection.partitions();
    const none = { records: 0, pending: 0, blocks: 0 };
    const partitions: Partition[] = names
      ? names.map((each) => ({ name: each, ...none, handle: collection.partitionHandle(each) }))
      : all;
    return { collection: collection.name, partitions };
  });
  if (out.json)
    out.object({
      collection,
      partitions: names ? partitions.map(({ name: each, handle }) => ({ name: each, handle })) : partitions,
    });
  else if (names) for (const { handle } of partitions) out.line(handle);
  else if (partitions.length === 0)
    out.hint(`${collection} has no partitions, or no records yet; hers collections create --partition-by makes some.`);
  else
    out.table(
      columns('partition', '>records', '>pending', '>blocks', 'handle'),
      partitions.map(({ name: each, records, pending, blocks, handle }) => [
        each ?? '(none)',
        ...[records, pending, blocks].map((number) => (out.terminal ? count(number) : String(number))),
        handle,
      ]),
    );
}

async function add(context: Context, name: string, given: readonly string[]): Promise<void> {
  const { out } = context;
  const fields = given.reduce<Fields>((before, text) => fieldsIn(text, before), {});
  await context.collection({ collection: name }, async (collection) => {
    const before = await collection.fields();
    const words = { label: 'Filling fields', none: 'no block has them yet', some: 'have them' };
    const { ms } = await context.inBlocks(words, (options) => collection.addFields(fields, options));
    const now = await collection.fields();
    const records = await collection.count();
    const added = Object.keys(fields).filter((field) => !Object.hasOwn(before, field));
    const what = added.length > 0 ? `${added.join(', ')} added` : 'there was no other field to add';
    out.result(
      { collection: name, fields: now, added, records, seconds: ms / 1000 },
      `${name}: ${what}; its ${counted(records, 'record')} can be filtered by ${fieldsText(now)}. That took ${duration(ms)}.`,
    );
  });
}

async function drop(context: Context, name: string, given: readonly string[], yes: boolean): Promise<void> {
  const { out } = context;
  const names = given.flatMap(namesIn);
  const left = await context.collection({ collection: name }, async (collection) => {
    const fields = await collection.fields();
    const unknown = names.find((field) => !Object.hasOwn(fields, field));
    if (unknown !== undefined)
      throw absentError(
        `${name} has no field ${JSON.stringify(unknown)}`,
        Object.keys(fields).length > 0 ? `it has ${fieldsText(fields)}` : 'it has none',
        'NOT_FOUND',
      );
    await confirmed(context, yes, `Drop ${names.join(', ')}, so that ${name} cannot be filtered by it any more?`);
    await collection.dropFields(names);
    return collection.fields();
  });
  if (out.json) out.object({ collection: name, dropped: names, fields: left });
  else out.line(`${names.join(', ')} dropped from ${name}; payloads are as they were.`);
}

interface UpdateFlags {
  readonly remove?: boolean;
  readonly file?: string;
}

async function update(
  context: Context,
  id: string | undefined,
  payload: string | undefined,
  { remove = false, file }: UpdateFlags,
): Promise<void> {
  const { environment, out, signal } = context;
  const isOne = id !== undefined && (payload !== undefined) !== remove && file === undefined;
  if (!isOne && !(id === undefined && file !== undefined && !remove))
    throw usageError(
      'name a record and its new payload, a record and --remove, or a file with --file',
      '`hers update-payload --help` shows each',
    );
  const one = isOne ? [remove ? { id: id! } : { id: id!, payload: payloadIn(payload!) }] : undefined;
  await context.collection({}, async (collection) => {
    const fields = await collection.fields();
    using progress = context.progress({ label: 'Changing payloads', unit: 'records' });
    let read = 0;
    let changed = 0;
    const write = async (updates: readonly PayloadUpdate[]) => {
      changed += await collection.updatePayload(updates, { signal });
      progress.update((read += updates.length));
    };
    try {
      if (one) await write(one);
      else for await (const part of inParts(updatesFrom(environment, file!, fields), TOGETHER)) await write(part);
    } catch (error) {
      throw one ? error : told(error, signal, changed);
    }
    progress.end();
    const unchanged = read - changed;
    if (out.json) out.object({ collection: collection.name, changed, unchanged });
    else out.line(`${counted(changed, 'payload')} changed${unchanged > 0 ? `, ${count(unchanged)} as before` : ''}.`);
    if (read === 0) out.note('There were no lines in the file.');
  });
}

function payloadIn(text: string): NonNullable<PayloadUpdate['payload']> | null {
  try {
    return JSON.parse(text);
  } catch {
    throw usageError('the payload is not JSON', `write it as '{"city": "London"}'`);
  }
}

/** Says how far a file came. */
function told(error: unknown, signal: AbortSignal, changed: number): unknown {
  // Where the store failed, or was stopped, more may have changed than it has acknowledged.
  const isInput =
    !signal.aborted && [EXIT.input, EXIT.usage, EXIT.absent].some((exit) => exit === endingOf(error).exit);
  const nothing = isInput ? 'nothing was changed' : 'nothing was acknowledged';
  const far = changed === 0 ? nothing : `${counted(changed, 'payload')} changed before`;
  if (signal.aborted) return stoppedAt(error, signal, `${far}; run the same command again to resume`);
  if (!(error instanceof CommandError || error instanceof HersError)) return error;
  return Object.defineProperty(error, 'message', { value: `${error.message.replace(/[.\s]+$/, '')}; ${far}` });
}

interface ExpireFlags {
  readonly dryRun?: boolean;
  readonly ids?: boolean;
  readonly receipt?: string;
}

async function expire(
  context: Context,
  name: string | undefined,
  { dryRun = false, ids = false, receipt: file }: ExpireFlags,
): Promise<void> {
  const { out } = context;
  const path = file === undefined ? undefined : context.path(file);
  if (path !== undefined && isFileThere(path)) throw taken(path);
  const receipt = await context.collection({ read: dryRun, collection: name }, async (collection) => {
    const run = () => collection.expire({ isDryRun: dryRun, withIds: ids });
    return path === undefined ? run() : written(context, path, run);
  });
  out.result(receipt, [
    ['collection', receipt.collection],
    [dryRun ? 'would be deleted' : 'deleted', counted(receipt.count, 'record')],
    ['time', receipt.time],
    ['version', String(receipt.version)],
    ['manifest', receipt.manifestHash],
    ...(receipt.ids ?? []).map((id) => ['id', id] as const),
    ...(path === undefined ? [] : [['receipt', path] as const]),
  ]);
  if (!dryRun && receipt.count > 0) out.hint('hers optimize removes them from the disk.');
}

/**
 * The receipt, in a file that is open before anything is deleted. Where it cannot be written to its
 * end all the same, it is printed: what is deleted cannot be counted again.
 */
async function written({ out }: Context, path: string, run: () => Promise<ExpiryReceipt>): Promise<ExpiryReceipt> {
  let receipt: ExpiryReceipt | undefined;
  try {
    await writePrivately(path, { replace: false }, async (file) => {
      receipt = await run();
      await file.writeFile(`${JSON.stringify(receipt, undefined, 2)}\n`);
    });
  } catch (error) {
    if (receipt) out.object(receipt);
    throw error;
  }
  return receipt!;
}
