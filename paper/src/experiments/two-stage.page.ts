// The page about the time of two stages.

import type { Data, Rendered } from '../lab/experiment.ts';
import { EXTRAPOLATED, Figures, page, table } from '../lab/markdown.ts';
import { COLOURS, secondsPlot } from '../lab/plot.ts';
import { bytes, grouped, marked, seconds, templates } from '../lab/quantities.ts';
import type { TwoStageParameters } from './two-stage.ts';

interface Row {
  readonly name: string;
  readonly system: string;
  readonly run: string;
  readonly colour: string;
}

function rows(data: Data<TwoStageParameters>): Row[] {
  const figures = new Figures(data);
  const { kernel } = data.parameters;
  const paper = { run: "the paper's ten cores", colour: 'published' };
  const seal = { run: 'one thread here', colour: 'HERS, SEAL' };
  return [
    { name: 'published-two-stage', system: 'two stages, as published', ...paper },
    { name: 'published-single', system: 'one stage, as published', ...paper },
    { name: 'two-stage-seal', system: 'two stages, SEAL', ...seal },
    { name: 'single-seal', system: 'one stage, SEAL', ...seal },
    { name: 'ours-exact', system: 'one stage, this project, exact', run: kernel, colour: 'this project, exact' },
    { name: 'ours-compact', system: 'one stage, this project, compact', run: kernel, colour: 'this project, compact' },
  ].filter(({ name }) => figures.has(name));
}

export async function render(data: Data<TwoStageParameters>): Promise<Rendered> {
  const { coarseDimension, fineDimension, templates: m, k } = data.parameters;
  const figures = new Figures(data);
  const markdown = page(
    data,
    `Two-stage search: ${coarseDimension} dimensions, then the best K at ${fineDimension}`,
    'Seconds of two stages and of one',
    [
      `One search of ${templates(m)} templates, K = ${grouped(k)}:`,
      table(
        ['system', 'run on', 'stage 1', 'stage 2', 'total', 'CPU time', 'memory of the gallery'],
        rows(data).map(({ name, system, run }) => [
          system,
          run,
          figures.cell(`${name}-stage1`, seconds),
          figures.cell(`${name}-stage2`, seconds),
          figures.cell(name, seconds),
          figures.cell(`${name}-cpu`, seconds),
          figures.cell(`${name}-bytes`, bytes),
        ]),
        [0, 1],
      ),
      EXTRAPOLATED,
      "Two stages need the gallery twice, once in each encoding, and Boddeti's takes a ciphertext for every template. The second stage tells the server which K templates are the candidates.",
      '## A search that was run whole',
      ...wholeRun(data),
    ],
  );
  return { markdown, svg: await plot(data) };
}

function wholeRun(data: Data<TwoStageParameters>): string[] {
  const { coarseDimension, fineDimension, measuredTemplates: m, measuredK, probes, runs } = data.parameters;
  const figures = new Figures(data);
  const value = (what: string) => figures.value(`run-m${m}-${what}`);
  const found = Math.round(value('found') * probes);
  return [
    table(
      [`${grouped(m)} templates, K = ${grouped(measuredK)}`, 'stage 1', 'stage 2', 'total'],
      [
        [
          'two stages, SEAL',
          ...[value('stage1'), value('stage2'), value('stage1') + value('stage2')].map((time) => seconds(time)),
        ],
        [`one stage at ${fineDimension} dimensions, SEAL`, '', '', seconds(value('single'))],
      ],
    ),
    `Two stages: the fastest of ${probes} probes. One stage: the fastest of ${runs} runs. The two stages found the best template of the full search for ${found} of ${probes} probes.`,
    `The templates are synthetic: random directions, coordinate i weighted by i^−0.75, of which the short form takes the first ${coarseDimension}. The weights were chosen for that: without them, the first 16 of 192 coordinates found none of 5 probes at the same K. [two-stage-accuracy](two-stage-accuracy.md) has what a trained compressor loses.`,
  ];
}

function plot(data: Data<TwoStageParameters>): Promise<string> {
  const figures = new Figures(data);
  const values = rows(data).map(({ name, system, colour }) => {
    const { value, source } = figures.of(name);
    const stage = (number: 1 | 2) => seconds(figures.value(`${name}-stage${number}`));
    const stages = figures.has(`${name}-stage1`) ? `  (${stage(1)} + ${stage(2)})` : '';
    return {
      system,
      seconds: value,
      source,
      label: `${marked(seconds(value), source)}${stages}`,
      colour: COLOURS[colour],
    };
  });
  const title = {
    text: `One search of ${templates(data.parameters.templates)} templates: two stages, and one`,
    subtitle: 'black: as published; hollow: extrapolated from measured blocks; in brackets: stage 1 + stage 2',
  };
  return secondsPlot(title, { width: 420, step: 30 }, values);
}
