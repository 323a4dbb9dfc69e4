// The page about the networks of the paper.

import { compressorColours, compressorName, saidSplit } from '../data/compressor-looks.ts';
import type { Data, Rendered } from '../lab/experiment.ts';
import { Figures, page, table } from '../lab/markdown.ts';
import { byDashes, panelsOf, render as plotted, SCHEMA } from '../lab/plot.ts';
import { counted, decimals, grouped, percent, plusMinus } from '../lab/quantities.ts';
import { mean } from '../metrics/statistics.ts';
import type { NetworksParameters } from './networks.ts';

/** The authors' configuration. */
const AUTHORS_STEPS = 200_000;
/** A curve is flat from where it stays within so much of its end: its best may be a chance peak. */
const FLAT = 0.005;

export async function render(data: Data<NetworksParameters>): Promise<Rendered> {
  const { split, steps, training, gallery, probes, seeds, hours, trainedOn, curveVectors, unfinished } =
    data.parameters;
  const markdown = page(
    data,
    "Networks: how long the paper's are trained",
    'Rank-1 on held-out identities by the step',
    [
      'How often the first match is the same person, mean over the seeds ± the standard error over people; from the least to the most of a seed in brackets:',
      rankTable(data),
      `Every stage is trained for ${grouped(steps)} steps and starts from the network of the stage before: the one to 16 dimensions from the one to 32, and so on. The authors' configuration has ${grouped(AUTHORS_STEPS)} steps a stage. The learning rate falls as theirs does, over the steps there are. These networks learn from everybody in the training half, as PCA does.`,
      ...saidEnded(data),
      ...(unfinished.length > 0
        ? [`Not over yet: ${unfinished.join(', ')}. A stage that no run has finished is empty in the tables.`]
        : []),
      '## Where the curves are flat',
      `Besides, a network of each kind is trained on ${grouped(curveVectors)} vectors of the training half and measured on the other people of it, ${seeds > 1 ? 'with the first seed' : 'with the same seed'}. The first step from which rank-1 stays within ${FLAT} of its end, and rank-1 at the end and at its best:`,
      flatTable(data),
      'The learning rate falls to the end: a flat curve says that this schedule has no more to give, and a longer one may still find more. A curve that is flat only from its last steps on is not over.',
      '## The covariance penalty',
      'Its share of the loss at the end of each stage, mean over the seeds, in %. It is taken of the outputs at unit length:',
      penaltyTable(data),
      '## What was searched',
      `${data.parameters.data}. ${saidSplit(split)} Fitted on ${counted(training, 'people')}, measured on ${counted(gallery, 'people')}; nobody is in both. Each of ${grouped(probes)} probes is searched among all other pictures.`,
      'Settings are chosen by the curves and by `--split validation`.',
      `The times of all runs, each times its cores, add up to ${decimals(hours, 1)} hours${unfinished.length > 0 ? ' so far' : ''}, beside other work. ${trainedOn.length > 0 ? `They ran on ${trainedOn.join(', ')}.` : 'What they ran on was not recorded.'}`,
    ],
  );
  return { markdown, svg: await plot(data) };
}

/** Of the seeds that are there. */
function ofSeeds({ parameters: { seeds } }: Data<NetworksParameters>, figures: Figures, name: string, ending = '') {
  return Array.from({ length: seeds }, (_, i) => `${name}-seed${i + 1}${ending}`)
    .filter((each) => figures.has(each))
    .map((each) => figures.value(each));
}

function rankTable(data: Data<NetworksParameters>): string {
  const { dimensions, compressors, seeds } = data.parameters;
  const figures = new Figures(data);
  return table(
    ['rank-1', ...dimensions.map(String)],
    [
      [compressorName('pca'), ...dimensions.map((dimension) => figures.value(`pca-${dimension}`).toFixed(3))],
      ...compressors.map((compressor) => [
        compressorName(compressor),
        ...dimensions.map((dimension) => {
          const name = `${compressor}-${dimension}`;
          if (!figures.has(name)) return '';
          const each = ofSeeds(data, figures, name);
          const range = `${Math.min(...each).toFixed(3)} to ${Math.max(...each).toFixed(3)}`;
          const said = each.length === 1 ? 'one seed' : each.length < seeds ? `${each.length} seeds, ${range}` : range;
          return `${plusMinus(figures.value(name), figures.value(`${name}-error`), 3)} (${said})`;
        }),
      ]),
    ],
  );
}

/** Stages that were ended before all of their steps. */
function saidEnded(data: Data<NetworksParameters>): string[] {
  const { dimensions, compressors, steps } = data.parameters;
  const figures = new Figures(data);
  return compressors.flatMap((compressor) => {
    const ended = dimensions.flatMap((dimension) => {
      const at = ofSeeds(data, figures, `${compressor}-${dimension}`, '-steps').filter((step) => step < steps);
      if (at.length === 0) return [];
      const [least, most] = [Math.min(...at), Math.max(...at)].map((step) => grouped(step));
      return [`${dimension} dimensions after ${least === most ? least : `${least} to ${most}`} steps`];
    });
    const unknown = dimensions.filter((dimension) => data.curves?.[`${compressor}-${dimension}-rank1`] === undefined);
    return ended.length === 0
      ? []
      : [
          `${compressorName(compressor)} was ended early, on the schedule of ${grouped(steps)} steps, because a step of it costs three times as much: ${ended.join(', ')}.${unknown.length > 0 ? ` Its curve to ${unknown.join(' and ')} dimensions is not over, so it is not known whether that is long enough.` : ''}`,
        ];
  });
}

/** The step that a point of a curve is at: as recorded, otherwise even ones. */
function stepOf({ curves, parameters: { steps } }: Data<NetworksParameters>, name: string, i: number): number {
  return curves?.[`${name}-step`]?.[i] ?? Math.round((steps * (i + 1)) / curves![`${name}-rank1`].length);
}

/** The first of the points from which on none is further from the last than that. */
function flatFrom(curve: readonly number[]): number {
  const end = curve.at(-1)!;
  return curve.findLastIndex((value) => Math.abs(value - end) > FLAT) + 1;
}

function flatTable(data: Data<NetworksParameters>): string {
  const { dimensions, compressors } = data.parameters;
  return table(
    ['step (rank-1 at the end, best)', ...dimensions.map(String)],
    compressors.map((compressor) => [
      compressorName(compressor),
      ...dimensions.map((dimension) => {
        const curve = data.curves?.[`${compressor}-${dimension}-rank1`];
        if (curve === undefined) return '';
        const step = grouped(stepOf(data, `${compressor}-${dimension}`, flatFrom(curve)));
        return `${step} (${curve.at(-1)!.toFixed(3)}, ${Math.max(...curve).toFixed(3)})`;
      }),
    ]),
  );
}

function penaltyTable(data: Data<NetworksParameters>): string {
  const { dimensions, compressors } = data.parameters;
  const figures = new Figures(data);
  return table(
    ['share of the loss (%)', ...dimensions.map(String)],
    compressors.map((compressor) => [
      compressorName(compressor),
      ...dimensions.map((dimension) => {
        if (!figures.has(`${compressor}-${dimension}`)) return '';
        const shares = ofSeeds(data, figures, `${compressor}-${dimension}`, '-penalty');
        return shares.length === 0 ? 'none' : percent(mean(shares));
      }),
    ]),
  );
}

function plot(data: Data<NetworksParameters>): Promise<string> {
  const { dimensions, compressors, steps } = data.parameters;
  const values = dimensions.flatMap((dimension) =>
    compressors.flatMap((compressor) => {
      const curve = data.curves?.[`${compressor}-${dimension}-rank1`] ?? [];
      return curve.map((rank1, i) => ({
        panel: `${dimension} dimensions`,
        compressor: compressorName(compressor),
        step: stepOf(data, `${compressor}-${dimension}`, i) / 1000,
        rank1,
      }));
    }),
  );
  return plotted({
    $schema: SCHEMA,
    title: {
      text: 'Rank-1 on held-out identities while networks are trained',
      subtitle: 'each stage starts from the one before',
    },
    data: { values },
    facet: panelsOf(dimensions.map((dimension) => `${dimension} dimensions`)),
    columns: 3,
    resolve: { scale: { y: 'independent' } },
    spec: {
      width: 190,
      height: 220,
      mark: { type: 'line', strokeWidth: 2 },
      encoding: {
        x: { field: 'step', type: 'quantitative', title: 'steps, in thousands', scale: { domain: [0, steps / 1000] } },
        y: { field: 'rank1', type: 'quantitative', title: 'rank-1', scale: { zero: false }, axis: { format: '.2f' } },
        ...byDashes('compressor', compressors.map(compressorName), compressorColours(compressors)),
      },
    },
  });
}
