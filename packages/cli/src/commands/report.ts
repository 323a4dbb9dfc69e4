// `hers report`: what those who buy a biometric system ask for, measured on a file of theirs.

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Profile } from '@hers/client';
import { isFileThere } from '@hers/service/target';
import { given, type HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { inputError, usageError } from '../exit.ts';
import { addLabelOptions, rowOptionsOf } from '../input/rows.ts';
import { readVectors, type VectorOptions } from '../input/vectors.ts';
import { mayReplace, writeOrReplace } from '../private-file.ts';
import type { Measured } from '../report/document.ts';
import { commit, VERSION } from '../version.ts';

interface ReportOptions extends VectorOptions {
  readonly output: string;
  readonly compressor?: string;
  readonly profile: Profile;
  readonly metric: string;
  readonly sample: number;
  readonly draws: number;
  readonly random: number;
  readonly replace?: boolean;
}

/** So many matches one search returns at most. */
const MOST_VECTORS = 10_000;
/** Files of plots, by the ends of their names. */
const PLOTS = ['cmc', 'open-set', 'det'];

export function addReport(program: HersCommand, context: () => Context): void {
  addLabelOptions(
    program
      .command('report')
      .summary('accuracy and protection of a labelled file, as a document')
      .description(
        'Measures a labelled file three ways on the same vectors: in the clear, compressed, and encrypted by a collection in a folder that is deleted afterwards. Writes identification (rank-k, CMC), open set (FNIR against FPIR) and verification (FMR, FNMR, DET, EER), with intervals that are bootstrapped over people, the cost of encryption, and protection after ISO/IEC 24745, as Markdown with its plots beside it and as one HTML page. Labels say which vectors are of the same person; use people that the compressor was not trained on.',
      )
      .argument('<file>', 'vectors: .npy, .csv, .jsonl, or - for standard input'),
  )
    .requiredOption('-o, --output <name>', 'where it goes: <name>.md with its plots <name>-*.svg, and <name>.html')
    .option('--compressor <file>', 'an .onnx file from hers train; without one, vectors are encrypted as they are')
    .choice('-p, --profile <profile>', 'of the encrypted collection', ['compact', 'small', 'exact'], 'compact')
    .option('--metric <metric>', 'how vectors are compared: a report is made for cosine alone', 'cosine')
    .number(
      '--sample <number>',
      'take at most so many vectors, of whole people, up to 10000; an FPIR of 0.1 % takes 3000 of people who are not enrolled',
      'whole',
      2000,
    )
    .number('--draws <number>', 'how often people are drawn again', 'whole', 200)
    .number('--random <number>', 'the same number takes the same people', 'whole', 1)
    .option('--replace', 'write over files that exist')
    .example('hers report people.npy --labels people.txt --output people', 'people.md and people.html')
    .action((file: string, options: ReportOptions) => report(context(), file, options));
}

async function report(context: Context, argument: string, options: ReportOptions): Promise<void> {
  const { out } = context;
  const { sample, metric } = options;
  if (metric !== 'cosine')
    throw usageError(
      `a report is made for cosine, not for ${metric}: error rates and attacks are of vectors at unit length`,
      'leave --metric out',
    );
  if (sample > MOST_VECTORS)
    throw usageError(
      `--sample is ${MOST_VECTORS} at most: a report needs the score of every two vectors`,
      'give less; --random takes other people',
    );
  if (/(^|[\\/])\.{0,2}$/.test(options.output))
    throw usageError(`--output ${options.output} is a folder`, 'add a name: the files are called <name>.md and so on');
  const pathOf = (ending: string) => context.path(`${options.output}${ending}`);
  const paths = ['.md', '.html'].map(pathOf);
  for (const path of [...paths, ...PLOTS.map((plot) => pathOf(`-${plot}.svg`))])
    if (isFileThere(path) && !options.replace) throw mayReplace(path);
  const measured = await measure(context, argument, options);
  const { documentOf } = await import('../report/document.ts');
  const page = await import('../report/page.ts');
  const document = documentOf(measured);
  const files = [
    ...document.flatMap((part) => ('plot' in part ? { path: pathOf(`-${part.file}.svg`), text: part.plot } : [])),
    { path: paths[0]!, text: page.asMarkdown(document, basename(options.output)) },
    { path: paths[1]!, text: page.asHtml('Biometric performance and protection', document) },
  ];
  for (const { path, text } of files) await writeOrReplace(path, options.replace, (file) => file.writeFile(text));
  const { digests, vectors, ways, protection, encrypted } = measured;
  const { plan, ...rest } = encrypted;
  const found = ways.map(({ evaluation }) => `${(100 * evaluation.identification.cmc[0]!.value).toFixed(2)} %`);
  out.result(
    {
      ...{ files: files.map(({ path }) => path), digests, vectors, ways, protection },
      encrypted: { ...rest, profile: plan.profile, planned: plan.error },
    },
    `${paths.join(' and ')}: ${vectors.taken} vectors of ${vectors.people} people; rank-1 encrypted ${found.at(-1)}, in the clear ${found[0]}.`,
  );
}

/** All that a report says. */
async function measure(context: Context, argument: string, options: ReportOptions): Promise<Measured> {
  const { environment, signal } = context;
  const { profile, sample, draws, random: seed } = options;
  const { vectors, labels, count: total, dimension } = await readVectors(environment, argument, rowOptionsOf(options));
  if (!labels) throw usageError('there are no labels to compare answers with', 'add --labels or --label');
  const { evaluation, rowsAt, scoreMatrix } = await import('@hers/vectors/accuracy');
  const { machine } = await import('@hers/vectors/machine');
  const { encryptedScores } = await import('../report/gallery.ts');
  const { protection } = await import('../report/protection.ts');
  const { load } = await import('@hers/compress');
  const { places, classes } = await peopleIn(labels, sample, seed);
  const people = new Set(classes).size;
  if (new Set(labels).size === 1)
    throw inputError('all vectors have the same label, so there is nobody to tell a person from', 'check the labels');
  if (new Set(labels).size === labels.length)
    throw inputError('no label occurs twice, so there is nothing to find', 'check the labels');
  if (people < 2 || people === classes.length)
    throw usageError(
      `a sample of ${sample} holds ${people < 2 ? 'one person only' : 'no person with two vectors'}`,
      'raise --sample',
    );
  for (const place of places) requireDirection(vectors.subarray(place * dimension, (place + 1) * dimension), place);
  const taken = rowsAt(vectors, dimension, places);
  const compressor =
    options.compressor === undefined ? undefined : await load(await readFile(context.path(options.compressor)));
  const short = compressor && {
    vectors: Float32Array.from(await compressor.transform(taken)),
    dimension: compressor.outputDimension,
  };
  const indexed = short ?? { vectors: taken, dimension };
  const begun = performance.now();
  const plain = scoreMatrix(indexed.vectors, indexed.dimension);
  const plainSeconds = (performance.now() - begun) / 1000 / places.length;
  const clear = short ? scoreMatrix(taken, dimension) : plain;
  using progress = context.progress({ label: 'Searching', total: places.length, unit: 'vectors' });
  const found = await encryptedScores(indexed.vectors, indexed.dimension, profile, {
    signal,
    onProgress: (done) => progress.update(done),
  });
  progress.end();
  const ways = [
    { name: 'in the clear', scores: clear },
    ...(short ? [{ name: 'compressed', scores: plain }] : []),
    { name: 'encrypted', scores: found.scores },
  ].map(({ name, scores }) => ({ name, evaluation: evaluation(scores, classes, { seed, draws }) }));
  const { scores, ...encrypted } = found;
  return {
    file: argument === '-' ? 'standard input' : basename(argument),
    command: commandOf(argument, options),
    digests: await digestsOf(context, argument, options),
    date: new Date().toISOString().slice(0, 10),
    ...{ version: VERSION, commit: commit(), machine: machine(), seed, draws, ways },
    vectors: { of: total, taken: places.length, people, dimension },
    compressor: compressor && {
      ...{ file: basename(options.compressor!), method: compressor.method, dimension: compressor.outputDimension },
    },
    encrypted: { ...encrypted, plainSeconds, error: errorOf(scores, plain) },
    protection: protection({
      ...{ vectors: taken, dimension, labels: classes, profile, seed },
      ...given({ short }),
    }),
  };
}

function requireDirection(vector: Float32Array, place: number): void {
  const squares = vector.reduce((sum, x) => sum + x * x, 0);
  if (!Number.isFinite(squares)) throw inputError(`vector ${place} holds NaN or infinity`, 'leave it out');
  if (squares === 0) throw inputError(`vector ${place} is zero, which has no direction to compare`, 'leave it out');
}

/** Whole people as the seed draws them, until there are enough vectors. */
async function peopleIn(labels: readonly (string | number)[], sample: number, seed: number) {
  const { Random } = await import('@hers/vectors/random');
  const lists = [...Map.groupBy(labels.keys(), (i) => labels[i]).values()];
  const places: number[] = [];
  const numbers: number[] = [];
  for (const at of new Random(seed, 0x9e0).order(lists.length)) {
    const list = lists[at]!;
    if (places.length + list.length > sample && places.length > 0) continue;
    places.push(...list);
    numbers.push(...list.map(() => at));
  }
  return { places, classes: Int32Array.from(numbers) };
}

/** Of what was read, so that a reader knows whether they have the same. */
async function digestsOf(context: Context, argument: string, { labels, compressor }: ReportOptions) {
  const digests: { file: string; sha256: string }[] = [];
  for (const name of [argument === '-' ? undefined : argument, labels, compressor]) {
    if (name === undefined) continue;
    const hash = createHash('sha256');
    await pipeline(createReadStream(context.path(name)), hash);
    digests.push({ file: basename(name), sha256: hash.digest('hex') });
  }
  return digests;
}

/** Of scores that were decrypted, against those in the clear. */
function errorOf(scores: Float32Array, plain: Float32Array): { rms: number; bias: number } {
  let [squares, sum, n] = [0, 0, 0];
  for (let i = 0; i < scores.length; i++) {
    if (scores[i]! < -1.5) continue;
    const apart = scores[i]! - plain[i]!;
    squares += apart * apart;
    sum += apart;
    n++;
  }
  return { rms: Math.sqrt(squares / n), bias: sum / n };
}

function commandOf(argument: string, options: ReportOptions): string {
  const { labels, label, compressor, format, id, vector, delimiter, header, output, ...numbers } = options;
  const { profile, sample, draws, random } = numbers;
  const given = Object.entries({
    labels: labels === undefined ? undefined : basename(labels),
    label,
    compressor: compressor === undefined ? undefined : basename(compressor),
    ...{ format, id, vector, delimiter, profile, sample, draws, random },
    output: basename(output),
  }).flatMap(([name, value]) => (value === undefined ? [] : [`--${name} ${quoted(String(value))}`]));
  return ['hers report', quoted(basename(argument)), ...given, ...(header === false ? ['--no-header'] : [])].join(' ');
}

/** As a shell takes it for one word. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
