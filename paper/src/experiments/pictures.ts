// The paper's Table 5 and Figure 4: pictures by class, average precision and top-1 of a linear SVM
// against the dimension, with precision-recall curves.

import { matedPlaces, rowsAt } from '@hers/vectors/accuracy';
import { FULL } from '../data/compressor-looks.ts';
import {
  COMPRESSORS_OPTION,
  compressed,
  compressorsOf,
  fitted,
  fittingOf,
  MODELS_OPTION,
  STEPS_OPTION,
  stepsOf,
} from '../data/compressors.ts';
import { againWith, countsOf, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, splitOf } from '../data/data.ts';
import { described, type Part, splitByLabel } from '../data/datasets.ts';
import { type Counts, type Data, type Experiment, type Figure, record } from '../lab/experiment.ts';
import { TABLE_5 } from '../lab/published.ts';
import { progress } from '../lab/report.ts';
import { type Values, wholeNumbers } from '../lab/runner.ts';
import { decide, top1Accuracy, trainSvm } from '../metrics/linear-svm.ts';
import { type PrecisionRecall, precisionRecall, retrieval } from '../metrics/retrieval.ts';
import { halves } from '../metrics/statistics.ts';

/**
 * Compressors begin with this many principal axes: a network from 2048 on would take days on two
 * cores.
 */
export const FIRST_AXES = 256;

export interface PicturesParameters {
  readonly data: string;
  readonly split: string;
  /**
   * Before compression, and after the principal axes that compressors begin with, where there are
   * fewer.
   */
  readonly fullDimension: number;
  readonly firstAxes: number;
  readonly dimensions: readonly number[];
  readonly compressors: readonly string[];
  readonly steps: number;
  /** Rows that were measured before the others: of which compressors, when and how. */
  readonly earlier?: { readonly compressors: readonly string[]; readonly date: string; readonly command: string };
  readonly training: Counts;
  readonly measured: Counts;
}

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
    steps: STEPS_OPTION,
  },
  async measure(values): Promise<Data<PicturesParameters>> {
    const small = values.small === true;
    const split = splitOf(values);
    const dimensions = wholeNumbers(values.dimensions, small ? [8] : [128, 64, 32, 16]);
    const steps = stepsOf(values);
    const compressors = compressorsOf(values, small ? ['pca', 'lda'] : undefined);
    const data = await datasetOf('pictures', values);
    const { training, held } = splitByLabel(data, split);
    progress(`fitting on ${described(training, 'classes')}, measuring on ${described(held, 'classes')}`);
    const axes = await firstAxes(training, held, values);
    const rows: Row[] = [measured(FULL, held)];
    if (axes.held !== held) rows.push(measured('pca', axes.held));
    for (const dimension of dimensions)
      for (const compressor of compressors) {
        const transform = await fitted(compressor, axes.training, { dimension, ...fittingOf(values, compressor) });
        rows.push(measured(compressor, await compressed(axes.held, transform)));
        const { top1, curve } = rows.at(-1)!;
        progress(`${compressor}-${dimension}: AP ${curve.averagePrecision.toFixed(3)}, top-1 ${top1.toFixed(3)}`);
      }
    const parameters = {
      ...{ data: data.source, split, fullDimension: data.dimension, firstAxes: axes.held.dimension },
      ...{ dimensions, compressors, steps, training: countsOf(training), measured: countsOf(held) },
    };
    const results = [...rows.flatMap(figures), ...published()];
    return record('pictures', values, { parameters, results, curves: curvesOf(rows) }, againWith(values));
  },
};

/**
 * Both parts on the principal axes that compressors begin with; as they are where they are short
 * enough.
 */
export async function firstAxes(
  training: Part,
  held: Part,
  values: Values,
  count: number = FIRST_AXES,
): Promise<{ training: Part; held: Part }> {
  if (held.dimension <= count) return { training, held };
  const axes = await fitted('pca', training, { dimension: count, ...fittingOf(values, 'pca') });
  return { training: await compressed(training, axes), held: await compressed(held, axes) };
}

function figures(row: Row): Figure[] {
  const name = `${row.compressor}-${row.dimension}`;
  return [
    { name, value: row.top1, unit: 'top-1', source: 'measured' },
    { name: `${name}-ap`, value: row.curve.averagePrecision, unit: 'AP of the SVM', source: 'measured' },
    { name: `${name}-precision10`, value: row.precisionAt10, unit: 'precision at 10', source: 'measured' },
    { name: `${name}-map`, value: row.meanAveragePrecision, unit: 'mAP of retrieval', source: 'measured' },
  ];
}

function published(): Figure[] {
  return (['deepmds', 'deepmds++'] as const).flatMap((method) =>
    Object.entries(TABLE_5[method]).flatMap(([dimension, [ap, top1]]): Figure[] => [
      { name: `published-${method}-${dimension}`, value: top1, unit: 'top-1', source: 'published' },
      { name: `published-${method}-${dimension}-ap`, value: ap, unit: 'AP', source: 'published' },
    ]),
  );
}

/** The precisions, at recalls in even steps from 0 to 1. */
function curvesOf(rows: readonly Row[]): Record<string, number[]> {
  return Object.fromEntries(
    rows.map(({ compressor, dimension, curve }) => [
      `${compressor}-${dimension}`,
      Array.from(curve.precision, (value) => Number(value.toFixed(5))),
    ]),
  );
}

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
