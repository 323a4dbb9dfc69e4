// The paper's Table 5 and Figure 4: pictures by class, average precision and top-1 of a linear SVM against the dimension, with precision-recall curves.

import type { MethodName } from '@hers/compress';
import { described, type Part, splitByLabel } from '../datasets.ts';
import { halves } from '../metrics/halves.ts';
import { matedPlaces } from '../metrics/identification.ts';
import { decide, top1Accuracy, trainSvm } from '../metrics/linear-svm.ts';
import { type PrecisionRecall, precisionRecall, retrieval } from '../metrics/retrieval.ts';
import { rowsAt } from '../metrics/score-rows.ts';
import { machine, progress } from '../report.ts';
import {
  COMPRESSORS_OPTION,
  compressed,
  compressorScale,
  compressorsOf,
  EPOCHS_OPTION,
  epochsOf,
  FULL,
  fitted,
  fittingOf,
  isNetwork,
  MODELS_OPTION,
} from './compressors.ts';
import { againWith, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, saidSplit, splitOf } from './data.ts';
import { type Experiment, type Figure, type Outcome, wholeNumbers } from './experiment.ts';
import { page, table, versions } from './markdown.ts';
import { render, SCHEMA } from './plot.ts';
import { TABLE_5 } from './published.ts';
import { whole } from './quantities.ts';

/** Compressors begin with this many principal axes: a network from 2048 on would take hours on two cores. */
const FIRST_AXES = 256;

interface Row {
  readonly compressor: string;
  readonly dimension: number;
  readonly top1: number;
  /** Micro-averaged over all decisions of the SVM. */
  readonly curve: PrecisionRecall;
  readonly precisionAt10: number;
  readonly meanAveragePrecision: number;
}

export const pictures: Experiment = {
  name: 'pictures',
  summary: 'pictures by class: average precision, top-1 and precision-recall curves against the dimension',
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    dimensions: DIMENSIONS_OPTION,
    compressors: COMPRESSORS_OPTION,
    models: MODELS_OPTION,
    epochs: EPOCHS_OPTION,
  },
  async run(values): Promise<Outcome> {
    const small = values.small === true;
    const split = splitOf(values);
    const dimensions = wholeNumbers(values.dimensions, small ? [8] : [128, 64, 32, 16]);
    const epochs = epochsOf(values);
    const names = compressorsOf(values, small ? ['pca', 'lda'] : undefined);
    const data = await datasetOf('pictures', values);
    const { training, held } = splitByLabel(data, split);
    progress(`fitting on ${described(training, 'classes')}, measuring on ${described(held, 'classes')}`);
    const rows: Row[] = [measured(FULL, held)];
    const reduced = data.dimension > FIRST_AXES;
    let [learned, measuredOn] = [training, held];
    if (reduced) {
      const axes = await fitted('pca', training, { dimension: FIRST_AXES, ...fittingOf(values, 'pca') });
      [learned, measuredOn] = [await compressed(training, axes), await compressed(held, axes)];
      rows.push(measured('pca', measuredOn));
    }
    for (const dimension of dimensions)
      for (const compressor of names) {
        const transform = await fitted(compressor, learned, { dimension, ...fittingOf(values, compressor) });
        rows.push(measured(compressor, await compressed(measuredOn, transform)));
        const { top1, curve } = rows.at(-1)!;
        progress(`${compressor}-${dimension}: AP ${curve.averagePrecision.toFixed(3)}, top-1 ${top1.toFixed(3)}`);
      }
    const results: Figure[] = rows.flatMap((row): Figure[] => {
      const name = `${row.compressor}-${row.dimension}`;
      return [
        { name, value: row.top1, unit: 'top-1', source: 'measured' },
        { name: `${name}-ap`, value: row.curve.averagePrecision, unit: 'AP of the SVM', source: 'measured' },
        { name: `${name}-precision10`, value: row.precisionAt10, unit: 'precision at 10', source: 'measured' },
        { name: `${name}-map`, value: row.meanAveragePrecision, unit: 'mAP of retrieval', source: 'measured' },
      ];
    });
    for (const method of ['deepmds', 'deepmds++'] as const)
      for (const [dimension, [ap, top1]] of Object.entries(TABLE_5[method])) {
        results.push({ name: `published-${method}-${dimension}`, value: top1, unit: 'top-1', source: 'published' });
        results.push({ name: `published-${method}-${dimension}-ap`, value: ap, unit: 'AP', source: 'published' });
      }
    const report = {
      bench: 'pictures',
      parameters: {
        data: data.source,
        split,
        dimensions,
        compressors: names,
        epochs: epochs ?? 'as published',
        training: described(training, 'classes'),
        measured: described(held, 'classes'),
        ...versions(),
        small,
      },
      machine: machine(),
      results,
    };
    const markdown = page(
      'Pictures by class',
      'pictures',
      [
        '![Precision against recall at each dimension](pictures.svg)',
        `${data.source}. Compressors are fitted on ${described(training, 'classes')} and measured on ${described(held, 'classes')} that they have not seen. ${saidSplit(split)} Of each measured class, every second picture trains a linear SVM (one class against the rest), the others are classified: **top-1**; **AP** and the curves are of all its decisions together (micro-averaged), which is how we read the paper's Table 5: its text calls this figure image retrieval, but lists precision-recall curves beside the SVM's top-1 and says of no other ranking what they would be of; hence P@10 and mAP of a search beside it. The curves are interpolated: at each recall they show the best precision that is reached there or beyond; AP is of the ranking itself. **P@10** and **mAP** are of a search by cosine, every measured picture among all others, without any training on these classes: retrieval in the usual sense of the word.`,
        table(
          ['compressor', 'dimensions', 'AP', 'top-1 (%)', 'P@10 (%)', 'mAP'],
          rows.map((row) => [
            row.compressor,
            String(row.dimension),
            row.curve.averagePrecision.toFixed(3),
            (100 * row.top1).toFixed(1),
            (100 * row.precisionAt10).toFixed(1),
            row.meanAveragePrecision.toFixed(3),
          ]),
        ),
        ...(reduced
          ? [
              `Compressors do not begin with ${whole(data.dimension)} dimensions but with the first ${FIRST_AXES} principal axes, whose figures are in the table: a network from there on would take hours on two cores.${names.some(isNetwork) ? ` Networks are trained for ${epochs === undefined ? 'as many epochs as the paper does' : `${epochs} epochs, not the paper's 250`}.` : ''}`,
            ]
          : []),
        '## What the paper reports',
        table(
          ['dimensions', 'DeepMDS: AP', 'top-1 (%)', 'DeepMDS++: AP', 'top-1 (%)'],
          ([128, 64, 32, 16] as const).map((dimension) => [
            String(dimension),
            ...[TABLE_5.deepmds[dimension], TABLE_5['deepmds++'][dimension]].flatMap(([ap, top1]) => [
              ap.toFixed(2),
              (100 * top1).toFixed(1),
            ]),
          ]),
        ),
        `Uncompressed (1,536 dimensions of Inception-ResNet v2) it has an AP of ${TABLE_5.full.ap} and a top-1 of ${(100 * TABLE_5.full.top1).toFixed(1)} %. Its pictures are those of ImageNet at full size, with 1.28 million to train on; ours are Tiny-ImageNet's, 64 pixels wide, with 50 of each class.`,
      ],
      report,
      againWith(values),
    );
    return { report, markdown, svg: await plot(rows, dimensions, names) };
  },
};

function measured(compressor: string, part: Part): Row {
  const { vectors, dimension, labels } = part;
  progress(`measuring ${compressor}-${dimension}`);
  const { train, test } = halves(labels);
  const of = (places: readonly number[]) => ({
    vectors: rowsAt(vectors, dimension, places),
    labels: Int32Array.from(places, (place) => labels[place]),
  });
  const [known, unknown] = [of(train), of(test)];
  const svm = trainSvm(known.vectors, dimension, known.labels);
  const decisions = decide(svm, unknown.vectors);
  const relevant = Uint8Array.from(decisions, (_, i) => {
    const [row, column] = [Math.floor(i / svm.classes.length), i % svm.classes.length];
    return svm.classes[column] === unknown.labels[row] ? 1 : 0;
  });
  return {
    compressor,
    dimension,
    top1: top1Accuracy(svm, decisions, unknown.labels),
    curve: precisionRecall(decisions, relevant),
    ...retrieval(part, matedPlaces(labels)),
  };
}

function plot(rows: readonly Row[], dimensions: readonly number[], names: readonly MethodName[]): Promise<string> {
  const full = rows.find(({ compressor }) => compressor === FULL)!;
  const shown = [FULL, ...names];
  const values = dimensions.flatMap((dimension) =>
    [full, ...rows.filter((row) => row.dimension === dimension && row.compressor !== FULL)].flatMap((row) =>
      Array.from(row.curve.recall, (recall, i) => ({
        panel: `${dimension} dimensions`,
        compressor: row.compressor,
        recall,
        precision: row.curve.precision[i],
      })),
    ),
  );
  const axis = (field: string) => ({
    field,
    type: 'quantitative' as const,
    title: field,
    scale: { domain: [0, 1], nice: false },
    axis: { values: [0, 0.25, 0.5, 0.75, 1], format: '.2f' },
  });
  return render({
    $schema: SCHEMA,
    title: {
      text: 'Pictures: precision against recall of a linear SVM',
      subtitle: `black: ${full.dimension} dimensions, uncompressed; the same in every panel`,
    },
    data: { values },
    facet: {
      field: 'panel',
      type: 'nominal',
      title: null,
      sort: dimensions.map((dimension) => `${dimension} dimensions`),
    },
    columns: 2,
    spec: {
      width: 250,
      height: 200,
      mark: { type: 'line', strokeWidth: 2 },
      encoding: {
        x: axis('recall'),
        y: axis('precision'),
        color: { field: 'compressor', type: 'nominal', title: null, sort: shown, scale: compressorScale(shown) },
      },
    },
  });
}
