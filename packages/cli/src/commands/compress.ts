// `hers train`, `evaluate`, `dimension` and `reindex`: fewer dimensions for a collection. A scan
// costs as much as there are dimensions to compare.

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isFileThere } from '@hers/service/target';
import type { Compressor, MethodName, Progress as Training } from '@hers/training';
import { dot } from '@hers/vectors/linear-algebra';
import { given, type HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { inputError, stoppedAt, usageError } from '../exit.ts';
import { addLabelOptions, rowOptionsOf } from '../input/rows.ts';
import { readVectors, type VectorOptions, type Vectors } from '../input/vectors.ts';
import { columns, count, counted, duration } from '../output.ts';
import { mayReplace, writeOrReplace, writePrivately } from '../private-file.ts';
import { addDimension } from './dimension.ts';
import { addPlan } from './plan.ts';

export const METHODS: string[] = ['auto', 'ranking', 'pca', 'lda', 'deepmds', 'deepmds++', 'deepmds++authors'];

interface TrainOptions extends VectorOptions {
  readonly output: string;
  readonly method: string;
  readonly dimension?: number;
  readonly loss?: number;
  readonly random?: number;
  readonly checkpoint?: string;
  readonly replace?: boolean;
}

interface EvaluateOptions extends VectorOptions {
  readonly combine?: 'best' | 'mean';
  readonly rank?: number;
}

export function addCompress(program: HersCommand, context: () => Context): void {
  addLabelOptions(
    program
      .command('train')
      .summary('train a compressor')
      .description(
        'Trains a compressor, which maps vectors to fewer dimensions: a collection that uses it stores and scans correspondingly less. Labels say which vectors belong to the same person or thing. The accuracy that is lost is measured on labels that were held out of training. Ctrl-C stops it; with --checkpoint the same command resumes.',
      )
      .argument('<file>', 'training vectors: .npy, .csv, .jsonl, or - for standard input'),
  )
    .requiredOption('-o, --output <file>', 'where the compressor goes, an .onnx file that other tools can run')
    .choice(
      '-m, --method <method>',
      'auto: a linear map from PCA to LDA, and a learned one where that is ahead; without labels PCA',
      METHODS,
      'auto',
    )
    .number(
      '-d, --dimension <number>',
      'coordinates of a compressed vector; auto finds the fewest that --loss allows by default',
      'whole',
    )
    .number('--loss <share>', 'how much rank-1 accuracy auto may lose; 0.01 by default')
    .number('--random <number>', 'the same number gives the same compressor; 1 by default')
    .option('--checkpoint <file>', 'saved during training; if it exists, training resumes from it')
    .option('--replace', 'write over a file that exists')
    .example('hers train people.npy --labels people.txt --dimension 8 --output people.onnx', 'To 8 dimensions')
    .example('hers train people.npy --labels people.txt --loss 0.05 --output small.onnx', 'As few as 5 % of loss allow')
    .example('hers train people.npy --method pca --dimension 16 --output pca.onnx', 'Without labels')
    .action((file: string, options: TrainOptions) => train(context(), file, options));

  addLabelOptions(
    program
      .command('evaluate')
      .summary('what compressors cost in accuracy')
      .description(
        'Compares compressors with the full vectors. Every vector whose label occurs twice is searched for among all others, and counts as found when the best match has its label (rank-1). Use labels that the compressors were not trained on.',
      )
      .argument('<file>', 'vectors: .npy, .csv, .jsonl, or - for standard input')
      .argument('[compressors...]', '.onnx files'),
  )
    .choice(
      '--combine <kind>',
      'a person has the score of the best of their templates (the default), or the mean of all, as with `hers verify --group`',
      ['best', 'mean'],
    )
    .example('hers evaluate people.npy --labels people.txt faces.onnx', 'A compressor beside the full vectors')
    .example(
      'hers evaluate people.npy --labels people.txt --combine mean',
      'By the mean of the templates of each person',
    )
    .action((file: string, compressors: string[], options: EvaluateOptions) =>
      evaluate(context(), file, compressors, options),
    );

  addDimension(program, context);
  addPlan(program, context);

  program
    .command('reindex')
    .summary('give a collection another compressor, or none')
    .description(
      'Encrypts the whole collection again through a compressor, from the full vectors in its vault. Nothing has to be imported again; get, payloads and re-ranking work as before. The collection can be searched meanwhile. If it is interrupted, run it again to resume.',
    )
    .argument('[compressor]', 'an .onnx file that `hers train` made')
    .option('--none', 'index the vectors as they are')
    .example('hers reindex faces.onnx', 'A compressor for the collection in the settings')
    .example('hers reindex --none', 'Back to full vectors')
    .action((file: string | undefined, { none = false }: { none?: boolean }) => reindex(context(), file, none));
}

async function train(context: Context, argument: string, options: TrainOptions): Promise<void> {
  const { environment, out, signal } = context;
  const { method, dimension, loss, random: seed = 1 } = options;
  if (method === 'auto' && dimension === undefined && loss !== undefined && !(loss > 0 && loss < 1))
    throw usageError('--loss is a share between 0 and 1');
  if (method !== 'auto' && dimension === undefined)
    throw usageError(`${method} needs the dimension of compressed vectors`, 'add --dimension');
  const path = context.path(options.output);
  if (isFileThere(path) && !options.replace) throw mayReplace(path);
  const checkpoint = options.checkpoint === undefined ? undefined : context.path(options.checkpoint);
  if (checkpoint !== undefined) isFileThere(checkpoint);
  const data = await readVectors(environment, argument, rowOptionsOf(options));
  const { fit } = await import('@hers/training');
  const resume = checkpoint !== undefined && existsSync(checkpoint) ? await readFile(checkpoint) : undefined;
  const started = performance.now();
  using progress = context.progress({ label: 'Training', total: 1000, unit: '‰' });
  const saving: Promise<void>[] = [];
  let last: Training | undefined;
  const compressor = await fit(method as MethodName, data.vectors, data.labels, {
    inputDimension: data.dimension,
    seed,
    signal,
    ...given({ dimension, settings: loss === undefined ? undefined : { loss }, resume }),
    onProgress: (now) => {
      last = now;
      progress.update(Math.floor(1000 * now.done));
      out.detail(describeProgress(now));
    },
    ...(checkpoint
      ? {
          onCheckpoint: (bytes: Uint8Array) =>
            void saving.push(writePrivately(checkpoint, { replace: true }, (file) => file.writeFile(bytes))),
        }
      : {}),
  }).catch(async (error) => {
    await Promise.allSettled(saving);
    const state = last ? `${Math.floor(100 * last.done)} % done` : 'not begun';
    throw stoppedAt(
      error,
      signal,
      checkpoint ? `${state}; run the same command again to resume` : `${state}, and lost`,
    );
  });
  await Promise.all(saving);
  progress.end();
  await writeOrReplace(path, options.replace, (file) => file.writeFile(compressor.save()));
  printCompressor(context, path, data, compressor, performance.now() - started);
}

function describeProgress({ stage, step, steps, loss, validation }: Training): string {
  const parts = [stage];
  if (step !== undefined) parts.push(`step ${count(step)}${steps === undefined ? '' : ` of ${count(steps)}`}`);
  if (loss !== undefined) parts.push(`loss ${loss.toPrecision(4)}`);
  if (validation !== undefined) parts.push(`rank-1 ${validation.toFixed(4)}`);
  return parts.join(', ');
}

function printCompressor(context: Context, path: string, data: Vectors, made: Compressor, ms: number): void {
  const { out } = context;
  const { method, inputDimension, outputDimension, metadata } = made;
  const { figures, notes } = metadata;
  out.result({ file: path, method, inputDimension, outputDimension, figures, notes, seconds: ms / 1000 }, [
    ['compressor', path],
    ['method', method],
    ['dimensions', `${inputDimension} to ${outputDimension}`],
    ['trained on', counted(data.count, 'vector')],
    ...Object.entries(figures).flatMap(([name, value]) => (name === 'vectors' ? [] : [figureOf(name, value)])),
    ['took', duration(ms)],
  ]);
  if (!out.json) for (const note of notes) out.note(note);
  out.hint(`Next: hers reindex ${path}, or hers collections create faces -d ${inputDimension} --compressor ${path}`);
}

/** Names of the figures of a compressor; those that have none here pass as they are. */
const FIGURES: Readonly<Record<string, string>> = {
  validationRank1: 'rank-1 on held-out labels',
  fullRank1: 'rank-1 of full vectors',
  bestStep: 'best step',
  penaltyShare: 'penalty, as a share of the loss',
};

export function figureOf(name: string, value: number): readonly [name: string, value: string] {
  if (name === 'varianceKept') return ['variance kept', `${(100 * value).toFixed(1)} %`];
  const shown = Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)));
  return [FIGURES[name] ?? name, shown];
}

async function evaluate(context: Context, argument: string, files: readonly string[], options: EvaluateOptions) {
  const { environment, out, signal } = context;
  const { vectors, labels, count: total, dimension } = await readVectors(environment, argument, rowOptionsOf(options));
  if (!labels) throw usageError('there are no labels to compare answers with', 'add --labels or --label');
  const { load, rankOne } = await import('@hers/training');
  const numbers = new Map<string | number, number>();
  const classes = Int32Array.from(labels, (label) => {
    if (!numbers.has(label)) numbers.set(label, numbers.size);
    return numbers.get(label)!;
  });
  const results: { compressor: string; dimension: number; rank1: number }[] = [];
  const measure = async (compressor: string, width: number, what: Float32Array) => {
    signal.throwIfAborted();
    const byMean = options.combine === 'mean';
    const rank1 = byMean ? rankOneByMean(what, classes) : await rankOne(what, classes, undefined, signal);
    results.push({ compressor, dimension: width, rank1 });
    return rank1;
  };
  using progress = context.progress({ label: 'Comparing', total: files.length + 1, unit: 'compressors' });
  const uncompressed = await measure('none', dimension, vectors);
  progress.add(1);
  for (const file of files) {
    const compressor = await load(await readFile(context.path(file)));
    await measure(file, compressor.outputDimension, await compressor.transform(vectors));
    progress.add(1);
  }
  progress.end();
  if (Number.isNaN(uncompressed))
    throw inputError('no label occurs twice, so there is nothing to find', 'check the labels');
  if (out.json) {
    out.object({ vectors: total, labels: numbers.size, combine: options.combine ?? 'best', results });
    return;
  }
  out.table(
    columns('compressor', '>dimension', '>rank-1', '>lost'),
    results.map(({ compressor, dimension: width, rank1 }) => [
      compressor,
      String(width),
      rank1.toFixed(4),
      lost(uncompressed - rank1),
    ]),
  );
}

/** What a compressor loses of the accuracy; a gain is negative, and nothing is not. */
const lost = (difference: number) => difference.toFixed(4).replace(/^-(0\.0+)$/, '$1');

async function reindex(context: Context, file: string | undefined, none: boolean): Promise<void> {
  const { out } = context;
  if ((file === undefined) !== none) throw usageError('name a compressor, or say --none', 'hers train makes one');
  const compressor = file === undefined ? null : await readFile(context.path(file));
  await context.collection({}, async (collection, { database }) => {
    const started = performance.now();
    const words = { label: 'Indexing', none: 'nothing is indexed yet', some: 'indexed' };
    await context.inBlocks(words, (blocks) => collection.reindex(compressor, blocks));
    const { records, plan, bytes } = await database.describe(collection.name);
    const ms = performance.now() - started;
    if (out.json)
      out.object({ collection: collection.name, records, dimension: plan.dimension, bytes, seconds: ms / 1000 });
    else
      out.line(
        `${collection.name}: ${counted(records, 'record')} of ${collection.plan.dimension} dimensions, ${plan.dimension} of which are indexed. That took ${duration(ms)}.`,
      );
  });
}

// How often a person is found by the mean of their templates, as `hers verify --combine mean`
// compares: what `rankOne` of @hers/compress is for the best one.

/**
 * Every vector whose label occurs twice is compared with all persons, by the mean cosine to their
 * vectors without itself. The share for which its own person has the highest mean; NaN where no
 * label occurs twice.
 */
export function rankOneByMean(vectors: Float32Array, labels: Int32Array): number {
  const dimension = vectors.length / labels.length;
  const classes = labels.reduce((most, label) => Math.max(most, label + 1), 0);
  const row = (of: Float64Array, i: number) => of.subarray(i * dimension, (i + 1) * dimension);
  const unit = Float64Array.from(vectors);
  const sums = new Float64Array(classes * dimension);
  const counts = new Uint32Array(classes);
  labels.forEach((label, i) => {
    const own = row(unit, i);
    const norm = Math.sqrt(dot(own, own)) || 1;
    own.forEach((x, k) => (row(sums, label)[k]! += own[k] = x / norm));
    counts[label]!++;
  });
  const probes = [...labels.keys()].filter((i) => counts[labels[i]!]! > 1);
  const found = probes.filter((i) => {
    const [probe, own] = [row(unit, i), labels[i]!];
    const score = (dot(probe, row(sums, own)) - dot(probe, probe)) / (counts[own]! - 1);
    return counts.every((count, label) => label === own || count === 0 || dot(probe, row(sums, label)) / count < score);
  });
  return found.length / probes.length;
}
