// The page about pictures by class.

import { compressorColours, compressorName, FULL, saidSplit } from '../data/compressor-looks.ts';
import type { Data, Rendered } from '../lab/experiment.ts';
import { Figures, page, table } from '../lab/markdown.ts';
import { byDashes, panelsOf, render as plotted, SCHEMA } from '../lab/plot.ts';
import { TABLE_5 } from '../lab/published.ts';
import { counted, grouped, percent } from '../lab/quantities.ts';
import type { PicturesParameters } from './pictures.ts';

export async function render(data: Data<PicturesParameters>): Promise<Rendered> {
  const { data: source, split, training, measured } = data.parameters;
  const markdown = page(data, 'Pictures by class', 'Precision against recall at each dimension', [
    "A linear SVM that classifies pictures: average precision (AP) of all its decisions together, and top-1 in %. This is how we read the paper's Table 5:",
    matrix(data, (name, figures) => `${figures.value(`${name}-ap`).toFixed(3)}, ${percent(figures.value(name))} %`),
    'A search by cosine, every picture among all others, without any training on these classes: mean average precision (mAP), and precision at 10 in %:',
    matrix(
      data,
      (name, figures) =>
        `${figures.value(`${name}-map`).toFixed(3)}, ${percent(figures.value(`${name}-precision10`))} %`,
    ),
    ...saidAxes(data.parameters),
    ...saidEarlier(data.parameters),
    '## What was measured',
    `${source}. ${saidSplit(split)} Compressors are fitted on ${counted(training, 'classes')} and measured on ${counted(measured, 'classes')} that they have not seen. Of each measured class, every second picture trains the SVM (one class against the rest), and the others are classified. The curves are micro-averaged and interpolated: at each recall they show the best precision that is reached there or beyond.`,
    "The paper's text calls its figure image retrieval, but lists precision-recall curves beside the SVM's top-1, and names no other ranking that they could be of. Hence the second table.",
    '## What the paper reports',
    table(
      ['dimensions', 'DeepMDS: AP', 'top-1 (%)', 'DeepMDS++: AP', 'top-1 (%)'],
      ([128, 64, 32, 16] as const).map((dimension) => [
        String(dimension),
        ...[TABLE_5.deepmds[dimension], TABLE_5['deepmds++'][dimension]].flatMap(([ap, top1]) => [
          ap.toFixed(2),
          percent(top1),
        ]),
      ]),
    ),
    `Uncompressed (${grouped(TABLE_5.full.dimension)} dimensions of Inception-ResNet v2) it has an AP of ${TABLE_5.full.ap} and a top-1 of ${percent(TABLE_5.full.top1)} %. Its pictures are those of ImageNet at full size, with 1.28 million to train on. Ours are Tiny-ImageNet's, 64 pixels wide, with 50 of each class.`,
  ]);
  return { markdown, svg: await plot(data) };
}

/** A row for each compressor, a column for each dimension. */
function matrix(data: Data<PicturesParameters>, cell: (name: string, figures: Figures) => string): string {
  const { fullDimension, firstAxes, dimensions, compressors } = data.parameters;
  const figures = new Figures(data);
  const columns = [...new Set([fullDimension, firstAxes, ...dimensions])].toSorted((a, b) => b - a);
  return table(
    ['', ...columns.map((dimension) => grouped(dimension))],
    [FULL, ...new Set(['pca', ...compressors])]
      .filter((compressor) => columns.some((dimension) => figures.has(`${compressor}-${dimension}`)))
      .map((compressor) => [
        compressorName(compressor),
        ...columns.map((dimension) => {
          const name = `${compressor}-${dimension}`;
          return figures.has(name) ? cell(name, figures) : '';
        }),
      ]),
  );
}

function saidAxes({ fullDimension, firstAxes, compressors, steps }: PicturesParameters): string[] {
  if (firstAxes === fullDimension) return [];
  const trained = ` Networks are trained for ${grouped(steps)} steps a stage, each stage starting from the one before; their authors' configuration has 200 000. Longer training raises the figures of faces ([networks](networks.md)), so these rows are no verdict on the method.`;
  const networks = compressors.some((name) => name.startsWith('deepmds')) ? trained : '';
  return [
    `Compressors begin with the first ${firstAxes} principal axes instead of all ${grouped(fullDimension)} dimensions, because a network would otherwise take days on two cores.${networks}`,
  ];
}

function saidEarlier({ earlier }: PicturesParameters): string[] {
  if (earlier === undefined) return [];
  const names = earlier.compressors.map(compressorName).join(', ');
  return [`The rows of ${names} were measured on ${earlier.date} by \`npm run lab -- ${earlier.command}\`.`];
}

/** Every second of 101 points: the lines look the same. */
const STEP = 2;

function plot(data: Data<PicturesParameters>): Promise<string> {
  const { fullDimension, dimensions, compressors } = data.parameters;
  const curves = data.curves ?? {};
  const shown = [FULL, ...compressors];
  const values = dimensions.flatMap((dimension) =>
    shown.flatMap((compressor) => {
      const curve = curves[`${compressor}-${compressor === FULL ? fullDimension : dimension}`];
      return curve
        .map((precision, i) => ({
          panel: `${dimension} dimensions`,
          compressor: compressorName(compressor),
          recall: i / (curve.length - 1),
          precision,
        }))
        .filter((_, i) => i % STEP === 0);
    }),
  );
  const axis = (field: string) => ({
    field,
    type: 'quantitative' as const,
    title: field,
    scale: { domain: [0, 1], nice: false },
    axis: { values: [0, 0.25, 0.5, 0.75, 1], format: '.2f' },
  });
  return plotted({
    $schema: SCHEMA,
    title: {
      text: 'Pictures: precision against recall of a linear SVM',
      subtitle: `black: ${grouped(fullDimension)} dimensions, uncompressed; the same in every panel`,
    },
    data: { values },
    facet: panelsOf(dimensions.map((dimension) => `${dimension} dimensions`)),
    columns: 2,
    spec: {
      width: 250,
      height: 200,
      mark: { type: 'line', strokeWidth: 2 },
      encoding: {
        x: axis('recall'),
        y: axis('precision'),
        ...byDashes('compressor', shown.map(compressorName), compressorColours(shown)),
      },
    },
  });
}
