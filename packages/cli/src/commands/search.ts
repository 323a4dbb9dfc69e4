// `hers search` and `hers verify`: one against all, and one against one.

import type { SearchOptions } from '@hers/client';
import { type HersCommand, numberOption } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError, EXIT, stoppedAt } from '../exit.ts';
import { oneProbe, probeBatches } from '../input/probes.ts';
import { addRowOptions } from '../input/row-options.ts';
import type { RowOptions } from '../input/rows.ts';
import { MatchPrinter } from '../matches.ts';
import { counted, score } from '../quantities.ts';

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
}

/** Queries in one search: each takes about as many bytes as a thousand vectors. */
const BATCH = 16;

function rowNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new CommandError(EXIT.usage, `--row takes a whole number from 0 up, not ${JSON.stringify(text)}`);
}

const PROBE = "a vector ('[0.1, 0.2, …]'), a .npy, .csv or .jsonl file, or - for standard input";

export function addSearch(program: HersCommand, context: () => Context): void {
  const search = program
    .command('search')
    .summary('find the records most like a vector')
    .description(
      'Encrypts a vector, has the gallery scanned for it, decrypts the scores and prints the best matches. Whoever keeps the gallery learns that there was a search, and nothing about its outcome. Scores are secrets: those of compact collections carry noise that depends on the key, so do not show them to whoever keeps the gallery (docs/concepts.md).',
    )
    .argument('<probe>', PROBE)
    .option('--row <number>', 'this row of the file, counted from 0', rowNumber)
    .option('-b, --batch', 'search with every row of the file')
    .option('-n, --limit <number>', 'how many matches', numberOption('--limit', { whole: true }), 10)
    .option(
      '-t, --threshold <score>',
      'only similarities from here up, or distances up to here',
      numberOption('--threshold'),
    )
    .option(
      '--rerank [candidates]',
      'fetch candidates and rank them by their full vectors; shows the store which records they are',
      numberOption('--rerank', { whole: true }),
    )
    .option(
      '--enough <score>',
      'with --rerank and the profile exact: fetch in steps, and stop when --limit matches are this good',
      numberOption('--enough'),
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
      'hers search probes.npy --row 0 --limit 1 --rerank 100',
      'The best of 100 candidates by their full vectors',
    )
    .action((probe: string, flags: SearchFlags) => runSearch(context(), probe, flags));

  const verify = program
    .command('verify')
    .summary('compare a vector with one record')
    .description(
      'Compares a vector with the record of an id. With --threshold it says whether they match, and exits with code 1 when they do not. Whoever keeps the gallery learns which block the record is in.',
    )
    .argument('<id>', 'the record')
    .argument('<probe>', PROBE)
    .option('--row <number>', 'this row of the file, counted from 0', rowNumber)
    .option(
      '-t, --threshold <score>',
      'what a match needs at least (a distance: at most)',
      numberOption('--threshold'),
    );
  addRowOptions(verify)
    .example('hers verify ada probes.npy --row 0 --threshold 0.5', 'Is this Ada?')
    .action((id: string, probe: string, flags: ProbeFlags & { threshold?: number }) =>
      runVerify(context(), id, probe, flags),
    );
}

function rowOptions({ header, format, id, vector, delimiter }: ProbeFlags): RowOptions {
  return {
    ...(format === undefined ? {} : { format }),
    ...(id === undefined ? {} : { id }),
    ...(vector === undefined ? {} : { vector }),
    ...(delimiter === undefined ? {} : { delimiter }),
    ...(header ? {} : { header }),
  };
}

async function runSearch(context: Context, argument: string, flags: SearchFlags): Promise<void> {
  const { batch = false, row, limit, threshold, rerank = false, enough, payload = false } = flags;
  if (batch && row !== undefined)
    throw new CommandError(EXIT.usage, '--row and --batch exclude each other', 'give one of them');
  const { signal } = context;
  const options = {
    limit,
    rerank,
    payload,
    signal,
    ...(threshold === undefined ? {} : { threshold }),
    ...(enough === undefined ? {} : { enough }),
  };
  const matches = new MatchPrinter(context, { batch, payload });
  if (batch) await searchAll(context, argument, flags, options, matches);
  else await searchOne(context, argument, flags, options, matches);
}

async function searchOne(
  context: Context,
  argument: string,
  flags: SearchFlags,
  options: SearchOptions,
  matches: MatchPrinter,
): Promise<void> {
  const probe = await oneProbe(context.environment, argument, flags.row, rowOptions(flags));
  let answered = () => {};
  await context.collection(
    async (collection, { service }) => {
      const { blocks } = await service.getCollection(collection.name);
      using progress = context.progress({ label: 'Searching', total: blocks, unit: 'blocks' });
      answered = () => progress.add(1);
      matches.begin();
      const result = await collection.search(probe.vector, options);
      progress.end();
      matches.add(probe, result);
      matches.end();
    },
    { read: true, onResponse: () => answered() },
  );
}

async function searchAll(
  context: Context,
  argument: string,
  flags: SearchFlags,
  options: SearchOptions,
  matches: MatchPrinter,
): Promise<void> {
  const { environment, out, signal } = context;
  await context.collection(
    async (collection) => {
      using progress = context.progress({ label: 'Searching', unit: 'probes' });
      let done = 0;
      matches.begin();
      try {
        const batches = probeBatches(environment, argument, BATCH, rowOptions(flags), (known) =>
          progress.update(0, known),
        );
        for await (const probes of batches) {
          const results = await collection.searchBatch(
            probes.map(({ vector }) => vector),
            options,
          );
          // There is one result for each probe.
          results.forEach((result, i) => matches.add(probes[i]!, result));
          await out.taken();
          progress.update((done += probes.length));
        }
      } catch (error) {
        throw stoppedAt(error, signal, `${counted(done, 'probe')} searched with`);
      }
      progress.end();
      matches.end();
    },
    { read: true },
  );
}

async function runVerify(
  context: Context,
  id: string,
  argument: string,
  flags: ProbeFlags & { readonly threshold?: number },
): Promise<void> {
  const { environment, out, signal } = context;
  const { threshold, row } = flags;
  const probe = await oneProbe(environment, argument, row, rowOptions(flags));
  const result = await context.collection(
    (collection) => collection.verify(id, probe.vector, { signal, ...(threshold === undefined ? {} : { threshold }) }),
    { read: true },
  );
  const shown = score(result.score, { noisy: result.scoreOrigin === 'noisy' });
  if (out.json) out.object({ id, ...result });
  else if (result.match === undefined) out.facts([['score', shown]]);
  else
    out.facts([
      ['match', result.match ? 'yes' : 'no'],
      ['score', shown],
    ]);
  if (result.match === false) context.exit = EXIT.no;
}
