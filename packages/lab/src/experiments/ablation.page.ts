// The page about the ablation.

import type { AblationParameters } from './ablation.ts';
import { FULL, saidSplit } from './compressor-looks.ts';
import type { Data, Rendered } from './experiment.ts';
import { Figures } from './figures.ts';
import { page, table } from './markdown.ts';
import { render as plotted, SCHEMA } from './plot.ts';
import { TABLE_6 } from './published.ts';
import { counted, grouped, percent } from './quantities.ts';

/** By the names of their results. */
const VARIANTS: readonly (readonly [string, string])[] = [
  ['deepmds++', 'DeepMDS++'],
  ['without-mining', 'without hard mining'],
  ['without-covariance', 'without the covariance penalty'],
  ['deepmds', 'without either (DeepMDS)'],
];

const COLOURS = ['#D55E00', '#E69F00', '#56B4E9', '#CC79A7'];

export async function render(data: Data<AblationParameters>): Promise<Rendered> {
  const { data: source, split, dimensions, training, measured, mates } = data.parameters;
  const figures = new Figures(data);
  const published = Object.keys(TABLE_6.rows).toReversed();
  const head = VARIANTS.map(([, title]) => title);
  const line = (dimension: number | string, prefix = '') => [
    String(dimension),
    ...VARIANTS.map(([name]) => figures.cell(`${prefix}${name}-${dimension}`, percent)),
  ];
  const said = mates.least === mates.most ? String(mates.most) : `${mates.least} to ${mates.most}`;
  const markdown = page(
    data,
    'Ablation of DeepMDS++',
    'Precision at 10 with and without the ingredients of DeepMDS++',
    [
      'Precision at 10 in %, by the dimension, measured here:',
      table(
        ['measured', ...head],
        dimensions.map((dimension) => line(dimension)),
      ),
      'In the paper:',
      table(
        ['published', ...head],
        published.map((dimension) => line(dimension, 'published-')),
      ),
      '"Without hard mining" draws genuine and impostor pairs at random, in equal numbers.',
      '## What was measured',
      `${source}. ${saidSplit(split)} Fitted on ${counted(training, 'classes')}, measured on ${counted(measured, 'classes')} that were not seen. Every measured picture is searched among all others by cosine, and the share of its class among the first ten is averaged.${saidAxes(data)}`,
      `Published: the validation set of ImageNet, 1 000 classes, Inception-ResNet v2, uncompressed ${percent(TABLE_6.full.precision)} %. There 10 pictures of each class are probes and the other 40 their mates, beside all pictures of the other classes. Here every picture is a probe once and all others are its gallery, so that it has ${said} mates.`,
    ],
  );
  return { markdown, svg: await plot(data) };
}

function saidAxes(data: Data<AblationParameters>): string {
  const { fullDimension, firstAxes, epochs } = data.parameters;
  if (firstAxes === fullDimension) return '';
  const figures = new Figures(data);
  const at = (name: string) => percent(figures.value(name));
  const long =
    typeof epochs === 'number' ? `${epochs} epochs instead of the paper's 250` : "the paper's number of epochs";
  return ` Networks are trained on the first ${firstAxes} principal axes (${at(`pca-${firstAxes}`)} %), not on all ${grouped(fullDimension)} dimensions (${at(`${FULL}-${fullDimension}`)} %), for ${long}, with one seed.`;
}

function plot(data: Data<AblationParameters>): Promise<string> {
  const { dimensions, fullDimension } = data.parameters;
  const figures = new Figures(data);
  const full = figures.value(`${FULL}-${fullDimension}`);
  const values = dimensions.flatMap((dimension) =>
    VARIANTS.map(([name, variant]) => {
      const value = figures.value(`${name}-${dimension}`);
      return { dimension: `${dimension} dimensions`, variant, value, label: percent(value) };
    }),
  );
  const variants = VARIANTS.map(([, title]) => title);
  const most = Math.max(full, ...values.map(({ value }) => value));
  const y = {
    field: 'value',
    type: 'quantitative' as const,
    title: 'precision at 10',
    scale: { domain: [0, Math.max(0.1, Math.ceil(most * 10) / 10)] },
    axis: { format: '.0%' },
  };
  return plotted({
    $schema: SCHEMA,
    title: {
      text: 'Precision at 10 of DeepMDS++ and without its ingredients',
      subtitle: 'bars in the order of the legend; dashed: uncompressed',
    },
    width: 480,
    height: 280,
    layer: [
      {
        data: { values: [{ value: full }] },
        mark: { type: 'rule', strokeDash: [5, 4], color: '#000000' },
        encoding: { y },
      },
      {
        data: { values },
        encoding: {
          x: {
            field: 'dimension',
            type: 'nominal',
            sort: dimensions.map((dimension) => `${dimension} dimensions`),
            title: null,
            axis: { labelAngle: 0 },
          },
          xOffset: { field: 'variant', type: 'nominal', sort: variants },
          y,
        },
        layer: [
          {
            mark: { type: 'bar' },
            encoding: {
              color: {
                field: 'variant',
                type: 'nominal',
                title: null,
                sort: variants,
                scale: { domain: variants, range: COLOURS },
              },
            },
          },
          {
            mark: { type: 'text', baseline: 'bottom', dy: -3, fontSize: 11 },
            encoding: { text: { field: 'label', type: 'nominal' } },
          },
        ],
      },
    ],
  });
}
