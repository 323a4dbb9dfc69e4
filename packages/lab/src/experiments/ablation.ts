// The form of the paper's Table 6: precision at 10 with and without the ingredients of DeepMDS++.

import { described, type Part, splitByLabel } from '../datasets.ts';
import { matedPlaces } from '../metrics/identification.ts';
import { type Retrieval, retrieval } from '../metrics/retrieval.ts';
import { machine, progress } from '../report.ts';
import { compressed, EPOCHS_OPTION, epochsOf, FULL, fitted, fittingOf, MODELS_OPTION } from './compressors.ts';
import { againWith, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, saidSplit, splitOf } from './data.ts';
import { type Experiment, type Figure, type Outcome, wholeNumbers } from './experiment.ts';
import { page, table, versions } from './markdown.ts';
import { render, SCHEMA } from './plot.ts';
import { TABLE_6 } from './published.ts';

/** As in pictures.ts. */
const FIRST_AXES = 256;

/** The columns of Table 6, and one it does not have. */
const VARIANTS = [
  { name: 'deepmds++', what: 'DeepMDS++', settings: {} },
  { name: 'without-mining', what: 'without hard mining', settings: { pairs: 'balanced' } },
  { name: 'without-covariance', what: 'without the covariance penalty', settings: { covarianceWeight: 0 } },
  { name: 'deepmds', what: 'without either (DeepMDS)', settings: { pairs: 'balanced', covarianceWeight: 0 } },
] as const;

interface Row {
  readonly dimension: number;
  /** For each of the variants. */
  readonly found: readonly Retrieval[];
}

const COLOURS = ['#D55E00', '#E69F00', '#56B4E9', '#CC79A7'];

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
  async run(values): Promise<Outcome> {
    const small = values.small === true;
    const split = splitOf(values);
    const dimensions = wholeNumbers(values.dimensions, small ? [8] : [128, 64, 32, 16]);
    const epochs = epochsOf(values) ?? (small ? 2 : undefined);
    const { models, settings } = fittingOf({ ...values, epochs: epochs?.toString() }, 'deepmds++');
    const data = await datasetOf('pictures', values);
    const { training, held } = splitByLabel(data, split);
    const axes =
      data.dimension > FIRST_AXES
        ? await fitted('pca', training, { dimension: FIRST_AXES, models })
        : async (vectors: Float32Array) => vectors;
    const [before, after] = [await compressed(training, axes), await compressed(held, axes)];
    const full = searched(held);
    const input = searched(after);
    const rows: Row[] = [];
    for (const dimension of dimensions) {
      const found: Retrieval[] = [];
      for (const variant of VARIANTS) {
        const fitting = { dimension, models, settings: { ...variant.settings, ...settings } };
        found.push(searched(await compressed(after, await fitted('deepmds++', before, fitting))));
        progress(`${variant.name}-${dimension}: ${found.at(-1)!.precisionAt10.toFixed(4)}`);
      }
      rows.push({ dimension, found });
    }
    const unit = 'precision at 10';
    const measured = (name: string, { precisionAt10, meanAveragePrecision }: Retrieval): Figure[] => [
      { name, value: precisionAt10, unit, source: 'measured' },
      { name: `${name}-map`, value: meanAveragePrecision, unit: 'mAP of retrieval', source: 'measured' },
    ];
    const results: Figure[] = [
      ...measured(`${FULL}-${data.dimension}`, full),
      ...rows.flatMap(({ dimension, found }) =>
        found.flatMap((each, i) => measured(`${VARIANTS[i].name}-${dimension}`, each)),
      ),
      ...Object.entries(TABLE_6.rows).flatMap(([dimension, found]) =>
        found.map((value, i): Figure => {
          const { name } = VARIANTS[i === 2 ? 3 : i];
          return { name: `published-${name}-${dimension}`, value, unit, source: 'published' };
        }),
      ),
    ];
    const report = {
      bench: 'ablation',
      parameters: {
        data: data.source,
        split,
        dimensions,
        epochs: epochs ?? 'as published',
        training: described(training, 'classes'),
        measured: described(held, 'classes'),
        ...versions(),
        small,
      },
      machine: machine(),
      results,
    };
    const percent = (value: number) => (100 * value).toFixed(1);
    const markdown = page(
      'Ablation of DeepMDS++',
      'ablation',
      [
        '![Precision at 10 with and without the ingredients of DeepMDS++](ablation.svg)',
        `${data.source}. Fitted on ${described(training, 'classes')}, measured on ${described(held, 'classes')} that were not seen: every measured picture is searched among all others by cosine, and the share of its class among the first ten is averaged. ${saidSplit(split)}${data.dimension > FIRST_AXES ? ` Networks are trained on the first ${FIRST_AXES} principal axes (P@10 ${percent(input.precisionAt10)} %), not on all ${data.dimension} dimensions (${percent(full.precisionAt10)} %), for ${epochs === undefined ? 'as many epochs as the paper does' : `${epochs} epochs instead of the paper's 250`}; one seed.` : ''}`,
        table(
          ['P@10 (%), measured', ...VARIANTS.map(({ what }) => what)],
          rows.map(({ dimension, found }) => [
            String(dimension),
            ...found.map(({ precisionAt10 }) => percent(precisionAt10)),
          ]),
        ),
        table(
          ['P@10 (%), published', 'DeepMDS++', 'without hard mining', 'without either (DeepMDS)'],
          Object.entries(TABLE_6.rows)
            .toReversed()
            .map(([dimension, found]) => [dimension, ...found.map(percent)]),
        ),
        `Published: the validation set of ImageNet, 1,000 classes, Inception-ResNet v2, uncompressed ${percent(TABLE_6.full.precision)} %. There 10 pictures of each class are probes and the other 40 their mates, beside all pictures of the other classes; here every picture is a probe once and all others are its gallery, so that it has ${matesOf(held)} mates. "Without hard mining" draws genuine and impostor pairs at random, in equal numbers.`,
      ],
      report,
      againWith(values),
    );
    return { report, markdown, svg: await plot(rows, full.precisionAt10) };
  },
};

/** As a sentence says it. */
function matesOf({ labels }: Part): string {
  const counts = new Map<number, number>();
  for (const place of matedPlaces(labels)) counts.set(labels[place], (counts.get(labels[place]) ?? 0) + 1);
  const [least, most] = [Math.min(...counts.values()) - 1, Math.max(...counts.values()) - 1];
  return least === most ? String(most) : `${least} to ${most}`;
}

const searched = (part: Part) => retrieval(part, matedPlaces(part.labels));

function plot(rows: readonly Row[], full: number): Promise<string> {
  const values = rows.flatMap(({ dimension, found }) =>
    found.map(({ precisionAt10: value }, i) => ({
      dimension: `${dimension} dimensions`,
      variant: VARIANTS[i].what,
      value,
    })),
  );
  const variants = VARIANTS.map(({ what }) => what);
  const most = Math.max(full, ...values.map(({ value }) => value));
  return render({
    $schema: SCHEMA,
    title: { text: 'Precision at 10 of DeepMDS++ and without its ingredients', subtitle: 'dashed: uncompressed' },
    width: 480,
    height: 280,
    layer: [
      {
        data: { values: [{ value: full }] },
        mark: { type: 'rule', strokeDash: [5, 4], color: '#000000' },
        encoding: { y: { field: 'value', type: 'quantitative' } },
      },
      {
        data: { values },
        mark: { type: 'bar' },
        encoding: {
          x: {
            field: 'dimension',
            type: 'nominal',
            sort: rows.map(({ dimension }) => `${dimension} dimensions`),
            title: null,
            axis: { labelAngle: 0 },
          },
          xOffset: { field: 'variant', type: 'nominal', sort: variants },
          y: {
            field: 'value',
            type: 'quantitative',
            title: 'precision at 10',
            scale: { domain: [0, Math.max(0.1, Math.ceil(most * 10) / 10)] },
          },
          color: {
            field: 'variant',
            type: 'nominal',
            title: null,
            sort: variants,
            scale: { domain: variants, range: COLOURS },
          },
        },
      },
    ],
  });
}
