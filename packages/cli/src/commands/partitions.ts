// `hers partitions`: what a collection is divided into, and the handles that tokens are limited to.

import type { Partition } from '@hers/client';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { namesIn } from '../fields.ts';
import { columns, count } from '../output.ts';

export function addPartitions(program: HersCommand, context: () => Context): void {
  program
    .command('partitions')
    .summary('the partitions of a collection')
    .description(
      'Lists the partitions of a collection that was made with --partition-by: their records, how many of these are pending, their blocks, and their handles. A handle is all that a store sees of a partition, and what a token is limited to (`hers tokens create --partitions`): the name stays here.',
    )
    .argument('[collection]', 'the one in the settings, or the only one, by default')
    .option(
      '--handles <names>',
      'only the handles of these, separated by commas, whether they have records or not',
      namesIn,
    )
    .example('hers partitions faces', 'One a line')
    .example('hers partitions faces --handles NL,DE', 'What to limit a token to')
    .action((name: string | undefined, { handles }: { handles?: readonly string[] }) => list(context(), name, handles));
}

async function list(context: Context, name: string | undefined, names: readonly string[] | undefined): Promise<void> {
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
