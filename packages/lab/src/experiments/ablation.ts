// The form of the paper's Table 6: precision at 10 with and without the ingredients of DeepMDS++.

import { type Part, splitByLabel } from '../datasets.ts';
import { matedPlaces } from '../metrics/identification.ts';
import { type Retrieval, retrieval } from '../metrics/retrieval.ts';
import { progress } from '../report.ts';
import { wholeNumbers } from '../runner.ts';
import { FULL } from './compressor-looks.ts';
import { compressed, EPOCHS_OPTION, epochsOf, fitted, fittingOf, MODELS_OPTION } from './compressors.ts';
import { againWith, countsOf, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, splitOf } from './data.ts';
import type { Counts, Data, Experiment, Figure } from './experiment.ts';
import { firstAxes } from './pictures.ts';
import { TABLE_6 } from './published.ts';
import { record } from './record.ts';

/** The columns of Table 6, and one it does not have. */
const VARIANTS = [
  { name: 'deepmds++', settings: {} },
  { name: 'without-mining', settings: { pairs: 'balanced' } },
  { name: 'without-covariance', settings: { covarianceWeight: 0 } },
  { name: 'deepmds', settings: { pairs: 'balanced', covarianceWeight: 0 } },
] as const;

export interface AblationParameters {
  readonly data: string;
  readonly split: string;
  /**
   * Before compression, and after the principal axes that networks are trained on, where there are
   * fewer.
   */
  readonly fullDimension: number;
  readonly firstAxes: number;
  readonly dimensions: readonly number[];
  readonly epochs: number | string;
  readonly training: Counts;
  readonly measured: Counts;
  /** Pictures of the same class as a probe, the fewest and the most. */
  readonly mates: { readonly least: number; readonly most: number };
}

export const ablation: Experiment = {
  name: 'ablation',
  summary: 'precision at 10 with and without hard mining and the covariance penalty',
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    dimensions: DIMENSIONS_OPTION,
    models: MODELS_OPTION,
    epochs: EPOCHS_OPTION,
  },
  async measure(values): Promise<Data<AblationParameters>> {
    const small = values.small === true;
    const split = splitOf(values);
    const dimensions = wholeNumbers(values.dimensions, small ? [8] : [128, 64, 32, 16]);
    const epochs = epochsOf(values) ?? (small ? 2 : undefined);
    const { models, settings } = fittingOf({ ...values, epochs: epochs?.toString() }, 'deepmds++');
    const data = await datasetOf('pictures', values);
    const { training, held } = splitByLabel(data, split);
    const axes = await firstAxes(training, held, { models });
    const results = figures(`${FULL}-${data.dimension}`, searched(held));
    if (axes.held !== held) results.push(...figures(`pca-${axes.held.dimension}`, searched(axes.held)));
    for (const dimension of dimensions)
      for (const variant of VARIANTS) {
        const fitting = { dimension, models, settings: { ...variant.settings, ...settings } };
        const found = searched(await compressed(axes.held, await fitted('deepmds++', axes.training, fitting)));
        progress(`${variant.name}-${dimension}: ${found.precisionAt10.toFixed(4)}`);
        results.push(...figures(`${variant.name}-${dimension}`, found));
      }
    const parameters = {
      ...{ data: data.source, split, fullDimension: data.dimension, firstAxes: axes.held.dimension },
      ...{ dimensions, epochs: epochs ?? 'as published', training: countsOf(training), measured: countsOf(held) },
      mates: matesOf(held),
    };
    return record('ablation', values, { parameters, results: [...results, ...published()] }, againWith(values));
  },
};

function figures(name: string, { precisionAt10, meanAveragePrecision }: Retrieval): Figure[] {
  return [
    { name, value: precisionAt10, unit: 'precision at 10', source: 'measured' },
    { name: `${name}-map`, value: meanAveragePrecision, unit: 'mAP of retrieval', source: 'measured' },
  ];
}

/** Table 6 has no column without the penalty alone. */
function published(): Figure[] {
  const names = VARIANTS.map(({ name }) => name).filter((name) => name !== 'without-covariance');
  return Object.entries(TABLE_6.rows).flatMap(([dimension, found]) =>
    found.map((value, i): Figure => {
      return { name: `published-${names[i]}-${dimension}`, value, unit: 'precision at 10', source: 'published' };
    }),
  );
}

function matesOf({ labels }: Part): AblationParameters['mates'] {
  const counts = new Map<number, number>();
  for (const place of matedPlaces(labels)) counts.set(labels[place], (counts.get(labels[place]) ?? 0) + 1);
  return { least: Math.min(...counts.values()) - 1, most: Math.max(...counts.values()) - 1 };
}

const searched = (part: Part) => retrieval(part, matedPlaces(part.labels));
