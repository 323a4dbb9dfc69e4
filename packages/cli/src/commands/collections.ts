// `hers collections`: parts of a gallery, each with a dimension, a metric and a profile.

import { readFile } from 'node:fs/promises';
import {
  type CollectionDescription,
  type CollectionOptions,
  type CollectionSummary,
  type Fields,
  HersError,
  type Plan,
} from '@hers/client';
import { type PlanRequest, plan } from '@hers/scheme';
import type { OpenPlan } from '@hers/scheme/open';
import { given, type HersCommand, numberOption } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError, EXIT } from '../exit.ts';
import { fieldsIn, fieldsText, unfinishedText } from '../fields.ts';
import { pendingText } from '../matches.ts';
import { columns, count, counted, size } from '../output.ts';
import { confirmed } from '../secrets.ts';

type CreateOptions = Omit<CollectionOptions, 'compressor' | 'fields'> & {
  readonly compressor?: string;
  readonly field?: Fields;
};

export function addCollections(program: HersCommand, context: () => Context): void {
  const collections = program
    .command('collections')
    .summary('create, list, describe and delete collections; accept and resume')
    .description('A collection holds vectors of one dimension, compared by one metric.');

  collections
    .command('create')
    .summary('make a collection')
    .description('Makes an empty collection, and shows what the planner promises for it: error, sizes, security.')
    .argument('<name>', 'letters, digits, dots, dashes, underscores')
    .addOption(
      numberOption('-d, --dimension <number>', 'coordinates of a vector, 2 to 4096', 'whole').makeOptionMandatory(),
    )
    .choice('-m, --metric <metric>', 'how vectors are compared', ['cosine', 'dot', 'euclidean'], 'cosine')
    .choice(
      '-p, --profile <profile>',
      'compact: 4 bytes a coordinate, scores with a small error; small: 3 bytes, about eight times that error; exact: 8 bytes, integer scores; open: as compact, with a larger error, queries of a kilobyte, and nothing fetched because of a score',
      ['compact', 'small', 'exact', 'open'],
      'compact',
    )
    .number('--norm-bound <number>', 'the longest vector there will be (dot and euclidean); 1 by default')
    .number('--query-norm-bound <number>', 'the longest probe; as --norm-bound by default')
    .choice(
      '--integrity <level>',
      'standard: canaries show wrong responses; strong: checksum canaries show a change of a single score as well (compact, small)',
      ['standard', 'strong'],
      'standard',
    )
    .option(
      '--field <name:type>',
      'a property of the payload to filter by, such as country:keyword (keyword, number, date, boolean, keyword[]); may be repeated, or several separated by commas',
      fieldsIn,
    )
    .option(
      '--partition-by <field>',
      'a keyword field that says in which partition a record is, a tenant or a site; each takes at least a block of its own once it is optimized',
    )
    .option(
      '--compressor <file>',
      'an .onnx file from hers train: the collection indexes the compressed vectors (cosine only)',
    )
    .example('hers collections create voices --dimension 192', 'Cosine similarity, the default')
    .example(
      'hers collections create prints --dimension 64 --metric euclidean --norm-bound 10 --profile exact',
      'Exact euclidean distances',
    )
    .example(
      'hers collections create guests --dimension 128 --field country:keyword --field age:number',
      'With fields to filter by; `hers fields add` adds more',
    )
    .example('hers collections create small --dimension 128 --compressor faces.onnx', 'Fewer dimensions to scan')
    .action((name: string, options: CreateOptions) => create(context(), name, options));

  collections
    .command('list')
    .summary('the collections of this key')
    .description('Lists the collections that were made with this key.')
    .example('hers collections list', 'A table, or one line each in a pipe')
    .example('hers collections list --json', 'One object')
    .action(() => list(context()));

  collections
    .command('describe')
    .summary('all about one collection')
    .description('Shows what a collection holds, and what the planner promises for it.')
    .argument('[name]', 'the one in the settings, or the only one, by default')
    .example('hers collections describe faces', 'One of several')
    .action((name: string | undefined) =>
      context().gallery({}, async ({ database, collection }) =>
        printDescription(context(), await database.describe(name ?? (await collection()).name)),
      ),
    );

  collections
    .command('delete')
    .summary('delete a collection and everything in it')
    .description('Deletes a collection and everything in it. Only a snapshot can bring it back.')
    .argument('<name>', 'which')
    .option('-y, --yes', 'do not ask')
    .example('hers collections delete faces --yes', 'Without a question, for scripts')
    .action(async (name: string, { yes = false }: { yes?: boolean }) => {
      const { out } = context();
      await context().gallery({}, async ({ database, service }) => {
        const { records } = await service.getCollection(name);
        await confirmed(context(), yes, `Delete ${name} and the ${counted(records, 'record')} in it?`);
        await database.deleteCollection(name);
      });
      out.result({ deleted: name }, `${name} is deleted.`);
    });

  collections
    .command('accept')
    .summary('trust a collection as it is now')
    .description(
      'A collection is refused when it is older than what this key has seen, has another history, was exchanged or is gone: that is what tampering looks like. It is also what a restored backup looks like, or a collection that another client has deleted, recreated or restored. If that is what happened, this command accepts what is there now.',
    )
    .argument('<name>', 'which')
    .option('-y, --yes', 'do not ask')
    .example('hers collections accept faces --yes', 'After another client has restored faces from a snapshot')
    .action((name: string, { yes = false }: { yes?: boolean }) => accept(context(), name, yes));

  collections
    .command('resume')
    .summary('let searches fetch records again')
    .description(
      'Searches with --payload or --rerank fetch records, which shows the store who was found. A store that never returns the records it is asked for, or whose scores do not match them, may be using searches to learn probes or keys. Searches then stop fetching. If you know the cause (a network that kept failing, a damaged disk), this command lets them fetch again.',
    )
    .argument('[name]', 'the one in the settings, or the only one, by default')
    .option('-y, --yes', 'do not ask')
    .example('hers collections resume faces --yes', 'After the server was repaired')
    .action((name: string | undefined, { yes = false }: { yes?: boolean }) => resume(context(), name, yes));
}

async function accept(context: Context, name: string, yes: boolean): Promise<void> {
  const { out } = context;
  const { before, isGone } = await context.gallery({ read: true }, async ({ database, service }) => {
    const there = await service.getCollection(name).catch((error) => {
      if (error instanceof HersError && error.code === 'NOT_FOUND') return undefined;
      throw error;
    });
    // Why it is refused, in the words of who refuses it.
    const why = await database.describe(name).then(
      ({ version, records }) =>
        `${name} is as it was seen before, at version ${version} with ${counted(records, 'record')}`,
      (error) => (error as Error).message.split('. Find out why')[0],
    );
    const now = there ? `as it is now, at version ${there.version} with ${counted(there.records, 'record')}` : 'gone';
    await confirmed(context, yes, `${why}. Accept that it is ${now}?`);
    return { before: await database.accept(name), isGone: !there };
  });
  if (out.json) out.object({ accepted: name, gone: isGone, before: before?.version ?? null });
  else if (isGone) out.line(`That ${name} is gone is accepted: the name is free.`);
  else out.line(`${name} is accepted as it is${before ? `; before, version ${before.version} had been seen` : ''}.`);
}

async function resume(context: Context, given: string | undefined, yes: boolean): Promise<void> {
  const { out } = context;
  const name = await context.collection({ read: true, collection: given }, async (collection) => {
    await confirmed(context, yes, `Let searches of ${collection.name} fetch records again?`);
    await collection.resume();
    return collection.name;
  });
  out.result({ resumed: name }, `Searches of ${name} fetch records again.`);
}

async function create(context: Context, name: string, options: CreateOptions): Promise<void> {
  const { compressor: file, field: fields, ...rest } = options;
  const compressor = file === undefined ? undefined : await readFile(context.path(file));
  await context.gallery({ create: true }, async ({ database }) => {
    await database.createCollection(name, { ...rest, ...given({ fields, compressor }) });
    const description = await database.describe(name);
    printDescription(context, description);
    if (options.profile === 'small') context.out.note(costOfSmall(description));
    if (options.profile === 'open') context.out.note(costOfOpen(description));
    if (options.integrity === 'strong') context.out.note(costOfStrong(description));
    if (options.partitionBy !== undefined) context.out.note(costOfPartitions(description));
  });
  context.out.hint(`Next: hers import vectors.npy --ids names.txt --collection ${name}`);
}

async function list(context: Context): Promise<void> {
  const { out } = context;
  const { all, others } = await context.gallery({ read: true }, async ({ database, service }) => {
    const all = await database.listCollections();
    const own = new Set(all.map(({ name }) => name));
    const others = (await service.listCollections()).filter(({ name }) => !own.has(name)).length;
    return { all, others };
  });
  const sorted = all.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  if (others > 0 && all.length === 0)
    throw new CommandError(
      EXIT.key,
      `no collection here was made with this key, and ${others === 1 ? '1 was' : `${others} were`} with another`,
      'check --key',
      'WRONG_KEY',
    );
  if (others > 0)
    out.note(`${counted(others, 'collection')} made with another key ${others === 1 ? 'is' : 'are'} not shown.`);
  if (out.json) {
    out.object({ collections: sorted });
    return;
  }
  const row = ({ name, dimension, metric, profile, records, bytes, fields }: CollectionSummary) => [
    name,
    ...(out.terminal ? [count(records), String(dimension)] : [String(records), String(dimension)]),
    metric,
    profile,
    out.terminal ? size(bytes) : String(bytes),
    Object.keys(fields).join(','),
  ];
  if (sorted.length === 0 && others === 0)
    out.hint('There is no collection yet. Next: hers collections create faces --dimension 128');
  if (sorted.length > 0)
    out.table(columns('name', '>records', '>dimension', 'metric', 'profile', '>on disk', 'fields'), sorted.map(row));
}

/** How far a score is from that of the vectors as they are, and why. */
export function errorOf({ profile, metric, steps, noise, error, normBound }: Plan): string {
  const short = (value: number) => String(Number(value.toPrecision(2)));
  const score = metric === 'euclidean' ? 'squared distance' : 'score';
  if (profile !== 'exact')
    return `${short(error.total)} (rms) in every ${score}, ${short(error.rounding)} of it from rounding vectors`;
  const failure = `encryption adds none, but for a probability of 2^${Math.ceil(noise.log2Failure)}`;
  return `${short(error.total)} (rms) in every ${score}, from rounding vectors to multiples of ${short(normBound / steps)}; ${failure}`;
}

/** A block of its own for each, however few records it has. */
function costOfPartitions({ plan: { bytes, capacity } }: CollectionDescription): string {
  return `Each partition takes at least a block of its own once it is optimized: ${size(bytes.block)} for up to ${counted(capacity, 'record')}.`;
}

/** What three bytes a coordinate cost. */
function costOfSmall({ plan: small }: CollectionDescription): string {
  const compact = plan({ ...requestOf(small), profile: 'compact' });
  return `Scores under small have an error of ${errorOf(small)}. Under compact it would be ${errorOf(compact)}, at ${size(compact.bytes.perTemplate)} a vector instead of ${size(small.bytes.perTemplate)}.`;
}

/** What queries of a kilobyte cost. */
function costOfOpen({ plan: { bytes } }: CollectionDescription): string {
  return `The store keeps evaluation keys of ${size((bytes as OpenPlan['bytes']).evaluation)} for this collection, and about twice that in memory while it is searched. Searches take no --payload and no --rerank.`;
}

/** What checksum canaries cost. */
function costOfStrong({ plan: strong }: CollectionDescription): string {
  const standard = plan({ ...requestOf(strong), integrity: 'standard' });
  return `Checksum canaries take one slot in ${strong.checksumGroup + 1}: a vector takes ${size(strong.bytes.perTemplate)} instead of ${size(standard.bytes.perTemplate)}, and a block holds ${count(strong.capacity)} records instead of ${count(standard.capacity)}.`;
}

/** What a plan was asked for. */
function requestOf({ dimension, metric, profile, integrity, normBound, queryNormBound }: Plan): PlanRequest {
  const bounds = metric === 'cosine' ? {} : { normBound, queryNormBound };
  return { dimension, metric, profile, integrity, ...bounds };
}

function printDescription({ out }: Context, description: CollectionDescription): void {
  const { name, dimension, metric, profile, integrity, compressor } = description;
  const { records, pending, blocks, bytes, version, plan, fields, unfinishedFields, partitionBy } = description;
  out.result(description, [
    ['name', name],
    ['records', count(records)],
    ['dimension', String(dimension)],
    ...(compressor ? [['compressor', `${compressor.method}, to ${compressor.dimension} dimensions`] as const] : []),
    ['metric', metric],
    ['profile', profile],
    ['integrity', integrity],
    ...(Object.keys(fields).length > 0 ? [['fields', fieldsText(fields)] as const] : []),
    ...(partitionBy === undefined ? [] : [['partitions', `by ${partitionBy}`] as const]),
    ['blocks', `${count(blocks)} of up to ${count(plan.capacity)} records`],
    ['on disk', size(bytes)],
    ['version', String(version)],
    ...(metric === 'cosine' ? [] : [['norm bound', `${plan.normBound}: no vector may be longer`] as const]),
    ['error', errorOf(plan)],
    ['security', `${plan.security.coreSvp.quantum} bits against quantum attacks (core-SVP)`],
    ['a stored vector', size(plan.bytes.perTemplate)],
    ['a query', size(plan.bytes.query)],
    ['a response', `${plan.bytes.responsePerScore.toFixed(2)} bytes a record`],
  ]);
  if (!out.json && Object.keys(unfinishedFields).length > 0) out.note(unfinishedText(unfinishedFields));
  if (pending > 0) out.hint(pendingText(pending, records));
}
