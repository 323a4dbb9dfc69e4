// The page about the ablation.

import type { TopLevelSpec } from 'vega-lite';
import { FULL, saidSplit } from '../data/compressor-looks.ts';
import type { Data, Rendered } from '../lab/experiment.ts';
import { Figures, page, table } from '../lab/markdown.ts';
import { panelsOf, render as plotted, SCHEMA } from '../lab/plot.ts';
import { TABLE_6 } from '../lab/published.ts';
import { counted, decimals, grouped, percent } from '../lab/quantities.ts';
import { mean } from '../metrics/statistics.ts';
import { type AblationParameters, shorterName } from './ablation.ts';

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
      ...saidUnfinished(unfinished),
      ...saidPenalty(data),
      '"Without hard mining" draws genuine and impostor pairs at random, in equal numbers.',
      ...saidLengths(data),
      '## What was measured',
      `${source}. ${saidSplit(split)} Fitted on ${counted(training, 'classes')}, measured on ${counted(measured, 'classes')} that were not seen.${saidAxes(data)}`,
      `As in the paper, a fifth of each class, drawn at random, are probes: 10 of 50, ${grouped(probes)} in all. The gallery of a probe is the other 40 of its class and all pictures of the other classes; the share of its class among the first ten is averaged. The paper has 1 000 classes of the validation set of ImageNet, 100 of them with probes, by Inception-ResNet v2, uncompressed ${percent(TABLE_6.full.precision)} %.`,
    ],
  );
  return { markdown, svg: await plot(data) };
}

/** What has begun is named, and the others are counted. */
function saidUnfinished(unfinished: readonly string[]): string[] {
  const begun = unfinished.filter((each) => !each.endsWith('(0 %)'));
  const others = unfinished.length - begun.length;
  const said = [...begun, ...(others > 0 ? [`${others} that have not begun`] : [])];
  return said.length === 0 ? [] : [`Networks that are not trained: ${said.join(', ')}.`];
}

/** Of the seeds that are there. */
function seedsOf(data: Data<AblationParameters>, name: string, ending = ''): number[] {
  const figures = new Figures(data);
  return Array.from({ length: data.parameters.seeds }, (_, i) => `${name}-seed${i + 1}${ending}`)
    .filter((seed) => figures.has(seed))
    .map((seed) => figures.value(seed));
}

/** Precision of the first seed by the number of steps that it was trained for, the fewest first. */
function lengthsOf(data: Data<AblationParameters>, name: string): { steps: number; value: number }[] {
  const { shorter, steps } = data.parameters;
  const figures = new Figures(data);
  return [
    ...shorter.map((run) => ({ steps: run.steps, figure: shorterName(run.steps, name) })),
    { steps, figure: `${name}-seed1` },
  ]
    .filter(({ figure }) => figures.has(figure))
    .map(({ steps, figure }) => ({ steps, value: figures.value(figure) }));
}

/** What more steps changed, for the first seed. */
function saidLengths(data: Data<AblationParameters>): string[] {
  const { shorter, steps, dimensions } = data.parameters;
  if (shorter.length === 0) return [];
  const all = [...shorter.map((run) => run.steps), steps];
  const compared = dimensions.filter((dimension) =>
    VARIANTS.some(([name]) => lengthsOf(data, `${name}-${dimension}`).length > 1),
  );
  const gains = all.slice(1).map((longer, i) => {
    const each = compared.flatMap((dimension) =>
      VARIANTS.flatMap(([name]) => {
        const found = lengthsOf(data, `${name}-${dimension}`);
        const [before, after] = [all[i], longer].map((length) => found.find((one) => one.steps === length)?.value);
        return before === undefined || after === undefined ? [] : [after - before];
      }),
    );
    return `from ${grouped(all[i])} to ${grouped(longer)} steps by ${percent(mean(each))} points on average (${percent(Math.min(...each))} to ${percent(Math.max(...each))})`;
  });
  const earlier = shorter.map(
    (run) => `${grouped(run.steps)} steps on ${run.date} by \`npm run lab -- ${run.command}\``,
  );
  return [
    '## Is that long enough?',
    `Precision at 10 in % of the first seed, trained for ${all.map((length) => grouped(length)).join(', ')} steps a stage, the learning rate falling over as many. The lower plot has the same:`,
    table(
      [all.map((length) => grouped(length)).join(', '), ...VARIANTS.map(([, title]) => title)],
      compared.map((dimension) => [
        String(dimension),
        ...VARIANTS.map(([name]) =>
          lengthsOf(data, `${name}-${dimension}`)
            .map(({ value }) => percent(value))
            .join(', '),
        ),
      ]),
    ),
    `It rises ${gains.join(', ')}. Where the last figure is larger than the one before, longer training would find more. Earlier runs: ${earlier.join('; ')}.`,
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
  const { fullDimension, beginnings, steps, hours, unfinished } = data.parameters;
  const long = `Every stage is trained for ${grouped(steps)} steps and starts from the one before; the authors' configuration has 200 000. Training took ${decimals(hours, 2)} hours of CPU time in all${unfinished.length > 0 ? ' so far' : ''}.`;
  const figures = new Figures(data);
  const at = (name: string) => percent(figures.value(name));
  const begun = beginnings
    .filter(({ axes }) => axes < fullDimension)
    .map(
      ({ axes, dimensions }) =>
        `those to ${listed(dimensions)} dimensions with the first ${axes} principal axes (${at(`pca-${axes}`)} %)`,
    );
  if (begun.length === 0) return ` ${long}`;
  return ` Networks do not begin with all ${grouped(fullDimension)} dimensions (${at(`${FULL}-${fullDimension}`)} %): ${begun.join(', ')}. ${long}`;
}

const listed = (numbers: readonly number[]) =>
  numbers.length === 1 ? String(numbers[0]) : `${numbers.slice(0, -1).join(', ')} and ${numbers.at(-1)}`;

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
  const bars = {
    width: 600,
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
  };
  const lengths = lengthPlot(data, variants);
  const title = {
    text: 'Precision at 10 of DeepMDS++ and without its ingredients',
    subtitle: `bars in the order of the legend; dashed: uncompressed${lengths.length > 0 ? '; below: the first seed by the length of its training' : ''}`,
  };
  return plotted({ $schema: SCHEMA, title, vconcat: [bars, ...lengths] } as TopLevelSpec);
}

/** What the first seed reaches by the length of its training, where shorter ones are known. */
function lengthPlot(data: Data<AblationParameters>, variants: readonly string[]): object[] {
  const { dimensions } = data.parameters;
  const values = dimensions.flatMap((dimension) =>
    VARIANTS.flatMap(([name, variant]) => {
      const found = lengthsOf(data, `${name}-${dimension}`);
      if (found.length < 2) return [];
      return found.map(({ steps, value }) => ({
        panel: `${dimension} dimensions`,
        variant,
        steps: steps / 1000,
        value,
      }));
    }),
  );
  if (values.length === 0) return [];
  const lengths = [...new Set(values.map(({ steps }) => steps))];
  return [
    {
      data: { values },
      facet: panelsOf(dimensions.map((dimension) => `${dimension} dimensions`)),
      columns: 4,
      resolve: { scale: { y: 'independent' } },
      spec: {
        width: 130,
        height: 160,
        mark: { type: 'line', strokeWidth: 2, point: true },
        encoding: {
          x: {
            field: 'steps',
            type: 'quantitative',
            title: 'steps, in thousands',
            scale: { type: 'log', base: 2, domain: [Math.min(...lengths), Math.max(...lengths)] },
            axis: { values: lengths },
          },
          y: {
            field: 'value',
            type: 'quantitative',
            title: 'precision at 10',
            scale: { zero: false },
            axis: { format: '.0%' },
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
    },
  ];
}
