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
  const { data: source, split, dimensions, training, measured, probes, seeds, unfinished } = data.parameters;
  const figures = new Figures(data);
  const published = Object.keys(TABLE_6.rows).toReversed();
  const head = VARIANTS.map(([, title]) => title);
  const line = (dimension: number | string, prefix = '') => [
    String(dimension),
    ...VARIANTS.map(([name]) => {
      const cell = figures.cell(`${prefix}${name}-${dimension}`, percent);
      const range = prefix === '' && seeds > 1 ? rangeOf(data, `${name}-${dimension}`) : undefined;
      const few = seedsOf(data, `${name}-${dimension}`).length;
      const said = few === 1 ? 'one seed' : few < seeds ? `${few} seeds, ${range}` : range;
      return range === undefined ? cell : `${cell} (${said})`;
    }),
  ];
  const markdown = page(
    data,
    'Ablation of DeepMDS++',
    'Precision at 10 with and without the ingredients of DeepMDS++',
    [
      `Precision at 10 in %, by the dimension, measured here${seeds > 1 ? '; the mean over the seeds, from the least to the most of one in brackets' : ' with one seed'}:`,
      table(
        ['measured', ...head],
        dimensions.map((dimension) => line(dimension)),
      ),
      'In the paper:',
      table(
        ['published', ...head],
        published.map((dimension) => line(dimension, 'published-')),
      ),
      ...(unfinished.length > 0 ? [`Not over yet: ${unfinished.join(', ')}.`] : []),
      ...saidPenalty(data),
      '"Without hard mining" draws genuine and impostor pairs at random, in equal numbers.',
      ...saidShorter(data),
      '## What was measured',
      `${source}. ${saidSplit(split)} Fitted on ${counted(training, 'classes')}, measured on ${counted(measured, 'classes')} that were not seen.${saidAxes(data)}`,
      `As in the paper, a fifth of each class, drawn at random, are probes: 10 of 50, ${grouped(probes)} in all. The gallery of a probe is the other 40 of its class and all pictures of the other classes; the share of its class among the first ten is averaged. The paper has 1 000 classes of the validation set of ImageNet, 100 of them with probes, by Inception-ResNet v2, uncompressed ${percent(TABLE_6.full.precision)} %.`,
    ],
  );
  return { markdown, svg: await plot(data) };
}

/** Of the seeds that are there. */
function seedsOf(data: Data<AblationParameters>, name: string, ending = ''): number[] {
  const figures = new Figures(data);
  return Array.from({ length: data.parameters.seeds }, (_, i) => `${name}-seed${i + 1}${ending}`)
    .filter((seed) => figures.has(seed))
    .map((seed) => figures.value(seed));
}

/** What more steps changed, for the first seed. */
function saidShorter(data: Data<AblationParameters>): string[] {
  const { shorter, steps, dimensions } = data.parameters;
  if (shorter === undefined) return [];
  const figures = new Figures(data);
  const cell = (name: string) =>
    `${figures.cell(`shorter-${name}`, percent)}, ${figures.cell(`${name}-seed1`, percent)}`;
  return [
    '## Is that long enough?',
    `Precision at 10 in % of the first seed after ${grouped(shorter.steps)} steps a stage and after ${grouped(steps)}:`,
    table(
      [`${grouped(shorter.steps)}, ${grouped(steps)} steps`, ...VARIANTS.map(([, title]) => title)],
      dimensions.map((dimension) => [String(dimension), ...VARIANTS.map(([name]) => cell(`${name}-${dimension}`))]),
    ),
    `The shorter run is of ${shorter.date}, by \`npx hers lab ${shorter.command}\`. Where the second figure is larger, training is not over.`,
  ];
}

/** From the least to the most of a seed. */
function rangeOf(data: Data<AblationParameters>, name: string, ending = ''): string | undefined {
  const each = seedsOf(data, name, ending);
  if (each.length === 0) return undefined;
  const [least, most] = [percent(Math.min(...each)), percent(Math.max(...each))];
  return least === most ? least : `${least} to ${most}`;
}

function saidPenalty(data: Data<AblationParameters>): string[] {
  const shares = data.parameters.dimensions.flatMap((dimension) => {
    const range = rangeOf(data, `deepmds++-${dimension}`, '-penalty');
    return range === undefined ? [] : [`${range} % at ${dimension} dimensions`];
  });
  return shares.length === 0
    ? []
    : [
        `The covariance penalty is taken of outputs at unit length. Of the loss of DeepMDS++ it is ${shares.join(', ')}.`,
      ];
}

function saidAxes(data: Data<AblationParameters>): string {
  const { fullDimension, firstAxes, steps } = data.parameters;
  const long = `for ${grouped(steps)} steps a stage, each stage starting from the one before (the authors' configuration has 200 000)`;
  if (firstAxes === fullDimension) return ` Networks are trained ${long}.`;
  const figures = new Figures(data);
  const at = (name: string) => percent(figures.value(name));
  return ` Networks are trained on the first ${firstAxes} principal axes (${at(`pca-${firstAxes}`)} %), not on all ${grouped(fullDimension)} dimensions (${at(`${FULL}-${fullDimension}`)} %), ${long}.`;
}

function plot(data: Data<AblationParameters>): Promise<string> {
  const { dimensions, fullDimension } = data.parameters;
  const figures = new Figures(data);
  const full = figures.value(`${FULL}-${fullDimension}`);
  const values = dimensions.flatMap((dimension) =>
    VARIANTS.filter(([name]) => figures.has(`${name}-${dimension}`)).map(([name, variant]) => {
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
