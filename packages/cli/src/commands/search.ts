// `hers search` and `hers verify`: one against all, and one against one.

import type { Group, SearchOptions, VerifyOptions } from '@hers/client';
import { given, type HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { EXIT, stoppedAt, usageError } from '../exit.ts';
import { FILTER, filterIn, namesIn } from '../fields.ts';
import { oneProbe, probeBatches } from '../input/probes.ts';
import { addRowOptions, type RowOptions } from '../input/rows.ts';
import { MatchPrinter } from '../matches.ts';
import { counted, score } from '../output.ts';

interface ProbeFlags extends Omit<RowOptions, 'payload' | 'header'> {
  readonly row?: number;
  readonly header: boolean;
}

interface SearchFlags extends ProbeFlags {
  readonly batch?: boolean;
  readonly limit: number;
  readonly threshold?: number;
  readonly rerank?: true | number;
  readonly enough?: number;
  readonly payload?: boolean;
  readonly filter?: string;
  readonly select?: readonly string[];
  readonly groupBy?: string;
  readonly partitions?: readonly string[];
}

interface VerifyFlags extends ProbeFlags {
  readonly threshold?: number;
  readonly group?: Group;
  readonly combine?: 'best' | 'mean';
  readonly showBlocks?: boolean;
  readonly partitions?: readonly string[];
}

/** Queries in one search: each takes about as many bytes as a thousand vectors. */
const BATCH = 16;

const PROBE = "a vector ('[0.1, 0.2, …]'), a .npy, .csv or .jsonl file, or - for standard input";

export function addSearch(program: HersCommand, context: () => Context): void {
  const search = program
    .command('search')
    .summary('find the records most like a vector')
    .description(
      'Encrypts a vector, has the gallery scanned for it, decrypts the scores and prints the best matches. Whoever keeps the gallery learns that there was a search, and nothing about its outcome. Scores are secrets: those of compact collections carry noise that depends on the key, so do not show them to whoever keeps the gallery (docs/concepts.md).',
    )
    .argument('<probe>', PROBE)
    .number('--row <number>', 'this row of the file, counted from 0', 'row')
    .option('-b, --batch', 'search with every row of the file')
    .number('-n, --limit <number>', 'how many matches', 'whole', 10)
    .number('-t, --threshold <score>', 'only similarities from here up, or distances up to here')
    .option(...FILTER)
    .option(
      '--select <fields>',
      'show these fields of the matches, separated by commas; nothing is fetched for it',
      namesIn,
    )
    .option(
      '--partitions <names>',
      'search only in these partitions, separated by commas; shows the store which blocks that are',
      namesIn,
    )
    .option('--group-by <field>', 'only the best match of all records that have the same keyword in this field')
    .number(
      '--rerank [candidates]',
      'fetch candidates and rank them by their full vectors; shows the store which records they are',
      'whole',
    )
    .number(
      '--enough <score>',
      'with --rerank and the profile exact: fetch in steps, and stop when --limit matches are this good',
    )
    .option('--payload', 'fetch the payloads of the matches; shows the store which records they are');
  addRowOptions(search)
    .example('hers search probes.npy --row 3', 'With one row of a file')
    .example("hers search '[0.4, 0.1, 0.2, 0.8]' --collection tiny --limit 1", 'With a vector written out')
    .example('hers search probes.npy --batch --limit 1 --json', 'With every row, for a program')
    .example(
      'hers search probes.npy --row 0 --threshold 0.5 --payload',
      'Only good matches, and what is known about them',
    )
    .example(
      'hers search probes.npy --row 0 --filter "city in (Delft, Turin) and since >= 1990" --select city,since',
      'The best of the records that pass, and two of their fields',
    )
    .example('hers search probes.npy --batch --limit 3 --group-by person', 'Three persons for each probe')
    .example(
      'hers search probes.npy --row 0 --limit 1 --rerank 100',
      'The best of 100 candidates by their full vectors',
    )
    .action((probe: string, flags: SearchFlags) => runSearch(context(), probe, flags));

  const verify = program
    .command('verify')
    .summary('compare a vector with one record, or with a group')
    .description(
      'Compares a vector with the record of an id. With --threshold it says whether they match, and exits with code 1 when they do not. Whoever keeps the gallery learns which block the record is in. With --group it compares a vector with all records that have a keyword in a field, the templates of one person. Then the whole gallery is scanned, and nobody learns which they are.',
    )
    .usage('[options] (<id> | --group <field=value>) <probe>')
    .argument('[id]', 'the record; left out with --group')
    .argument('[probe]', PROBE)
    .number('--row <number>', 'this row of the file, counted from 0', 'row')
    .number('-t, --threshold <score>', 'what a match needs at least (a distance: at most)')
    .option('--group <field=value>', 'compare with all records that have this keyword in this field', groupIn)
    .choice('--combine <kind>', 'the score of a group: of its best record (the default), or the mean', ['best', 'mean'])
    .option('--show-blocks', 'scan only the blocks that the group is in, which shows the store which these are')
    .option(
      '--partitions <names>',
      'only records of these partitions, separated by commas; a group is looked for in their blocks alone, which shows the store which these are',
      namesIn,
    );
  addRowOptions(verify)
    .example('hers verify ada probes.npy --row 0 --threshold 0.5', 'Is this Ada?')
    .example(
      'hers verify --group person=ada probes.npy --row 0 --combine mean --threshold 0.5',
      'Is this Ada, by all of her templates?',
    )
    .action((id: string | undefined, probe: string | undefined, flags: VerifyFlags) =>
      runVerify(context(), id, probe, flags),
    );
}

function rowOptions({ header, format, id, vector, delimiter }: ProbeFlags): RowOptions {
  return { ...given({ format, id, vector, delimiter }), ...(header ? {} : { header }) };
}

async function runSearch(context: Context, argument: string, flags: SearchFlags): Promise<void> {
  const { batch = false, row, limit, threshold, rerank = false, enough, payload = false } = flags;
  const { select, groupBy, partitions } = flags;
  if (batch && row !== undefined) throw usageError('--row and --batch exclude each other', 'give one of them');
  const { environment, out, signal } = context;
  const options: SearchOptions = {
    limit,
    rerank,
    payload,
    signal,
    ...given({ threshold, enough, select, groupBy, partitions }),
  };
  const matches = new MatchPrinter(context, { batch, payload, select: select ?? [] });
  // Opened before the key: a wrong file name should not cost a passphrase.
  const probe = batch ? undefined : await oneProbe(environment, argument, row, rowOptions(flags));
  let answered = () => {};
  await context.collection({ read: true, onResponse: () => answered() }, async (collection, { service }) => {
    using progress = context.progress({ label: 'Searching', unit: probe ? 'blocks' : 'probes' });
    const filter = await filterIn(collection, flags.filter);
    if (probe) {
      progress.update(0, (await service.getCollection(collection.name)).blocks);
      answered = () => progress.add(1);
      matches.begin();
      matches.add(probe, await collection.search(probe.vector, { ...options, ...filter }));
    } else {
      let done = 0;
      matches.begin();
      try {
        const onCount = (count: number | undefined) => progress.update(0, count);
        for await (const probes of probeBatches(environment, argument, BATCH, rowOptions(flags), onCount)) {
          const vectors = probes.map(({ vector }) => vector);
          const results = await collection.searchBatch(vectors, { ...options, ...filter });
          // There is one result for each probe.
          results.forEach((result, i) => matches.add(probes[i]!, result));
          await out.taken();
          progress.update((done += probes.length));
        }
      } catch (error) {
        throw stoppedAt(error, signal, `${counted(done, 'probe')} searched with`);
      }
    }
    progress.end();
    matches.end();
  });
}

/** `person=ada`. */
function groupIn(text: string): Group {
  const at = text.indexOf('=');
  if (at > 0) return { field: text.slice(0, at), value: text.slice(at + 1) };
  throw usageError(`--group takes a field and a value, such as person=ada, not ${JSON.stringify(text)}`);
}

/** Whom to compare with, and the probe: with a group, the probe is the only argument. */
function whomAndProbe(
  first: string | undefined,
  second: string | undefined,
  { group, combine, showBlocks }: VerifyFlags,
): readonly [string | Group, string] {
  const missing = (name: string) =>
    usageError(`the argument ${name} is missing`, '`hers verify --help` lists what there is');
  if (group === undefined) {
    if (combine !== undefined || showBlocks !== undefined)
      throw usageError('--combine and --show-blocks go with --group');
    if (first === undefined) throw missing('<id>');
    if (second === undefined) throw missing('<probe>');
    return [first, second];
  }
  if (first === undefined) throw missing('<probe>');
  if (second === undefined) return [group, first];
  throw usageError('an id and --group exclude each other', 'give one of them');
}

async function runVerify(context: Context, first: string | undefined, second: string | undefined, flags: VerifyFlags) {
  const { environment, out, signal } = context;
  const { threshold, combine, showBlocks, partitions, row } = flags;
  const [whom, argument] = whomAndProbe(first, second, flags);
  const probe = await oneProbe(environment, argument, row, rowOptions(flags));
  const options: VerifyOptions = { signal, ...given({ threshold, combine, showBlocks, partitions }) };
  const result = await context.collection({ read: true }, (collection) =>
    collection.verify(whom, probe.vector, options),
  );
  const shown = score(result.score, { noisy: result.scoreOrigin === 'noisy' });
  out.result({ ...(typeof whom === 'string' ? { id: whom } : { group: whom }), ...result }, [
    ...(result.match === undefined ? [] : [['match', result.match ? 'yes' : 'no'] as const]),
    ['score', shown],
  ]);
  if (result.match === false) context.exit = EXIT.no;
}
