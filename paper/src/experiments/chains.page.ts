// The page about the chains of the paper's appendix.

import { compressorColours, compressorName, saidSplit } from '../data/compressor-looks.ts';
import { type Data, type Rendered, saidApart } from '../lab/experiment.ts';
import { Figures, page, table } from '../lab/markdown.ts';
import { bySeries, dimensionAxis, render as plotted, SCHEMA } from '../lab/plot.ts';
import { counted, grouped, percent, seconds } from '../lab/quantities.ts';
import type { ChainsParameters, TrainedChain } from './chains.ts';

const METHODS = ['pca', 'deepmds++'] as const;
const LABELS: Readonly<Record<string, string>> = { text: 'intents', pictures: 'classes' };

export async function render(data: Data<ChainsParameters>): Promise<Rendered> {
  const { split, chains } = data.parameters;
  const markdown = page(data, "The paper's chains of dimensions", 'Rank-1 against the dimension, for each chain', [
    `Rank-1 of a search by cosine, each probe among all others, in %; in brackets precision at 10.${saidMissing(chains)}`,
    ...chains.flatMap((chain) => section(data, chain)),
    '## What was trained',
    `The networks of the paper's appendix begin with 1 536, 512 and 192 dimensions. Here they are trained on data that has so many; the one from 512, which the appendix ends at 64, goes on to 16. Each stage starts from those before it, and is a network of its own. ${saidSplit(split)}`,
    'These networks are trained for far fewer steps than the authors train theirs (200 000 for each stage), to fit into minutes of one core. They show that the chains work on data of that dimension, not what long training reaches: [networks](networks.md) has that. `--steps` trains them longer.',
  ]);
  return { markdown, svg: await plot(data) };
}

/** The first dimensions of the paper's chains. */
const PAPER_CHAINS = [1536, 512, 192];

function saidMissing(chains: readonly TrainedChain[]): string {
  const missing = PAPER_CHAINS.filter((first) => !chains.some(({ dimensions }) => dimensions[0] === first));
  return missing.length === 0 ? '' : ` This run has none from ${missing.map((first) => grouped(first)).join(' and ')}.`;
}

function section(data: Data<ChainsParameters>, chain: TrainedChain): string[] {
  const { name, set, dimensions, steps, source, fullDimension, training, measured, probes, done } = chain;
  const figures = new Figures(data);
  const cell = (of: string) =>
    figures.has(`${name}-${of}`)
      ? `${percent(figures.value(`${name}-${of}`))} (${percent(figures.value(`${name}-${of}-precision10`))})`
      : '';
  const labels = LABELS[set] ?? 'labels';
  const axes =
    fullDimension === dimensions[0]
      ? ''
      : ` The first ${grouped(dimensions[0])} principal axes stand for all ${grouped(fullDimension)} dimensions, which have ${cell('full')}.`;
  return [
    `## ${dimensions.map((dimension) => grouped(dimension)).join('-')}`,
    table(
      ['', ...dimensions.map((dimension) => grouped(dimension))],
      METHODS.map((method) => [
        compressorName(method),
        cell('first'),
        ...dimensions.slice(1).map((dimension) => cell(`${method}-${dimension}`)),
      ]),
    ),
    `${source}. Fitted on ${counted(training, labels)}, measured with ${grouped(probes)} probes among ${counted(measured, labels)} that were not seen.${axes} ${grouped(steps)} steps for each of ${dimensions.length - 1} stages, ${seconds(figures.value(`${name}-training`))} of CPU time in all.${done < 1 ? ` The time was over when ${percent(done)} % of this was done; a stage that was not finished is empty.` : ''}${saidApart(chain.apart)}`,
  ];
}

function plot(data: Data<ChainsParameters>): Promise<string> {
  const figures = new Figures(data);
  const { chains } = data.parameters;
  const series = bySeries('compressor', METHODS.map(compressorName), {
    colours: compressorColours(METHODS),
    legend: { orient: 'bottom' },
  });
  return plotted({
    $schema: SCHEMA,
    title: {
      text: "Rank-1 along the paper's chains: principal axes, and DeepMDS++ trained for minutes",
      subtitle: chains.map(({ set, dimensions }) => `${set} from ${grouped(dimensions[0])}`).join('; '),
    },
    hconcat: chains.map(({ name, set, dimensions }) => ({
      title: { text: `${set}, from ${grouped(dimensions[0])}`, fontSize: 13 },
      width: 230,
      height: 240,
      data: {
        values: METHODS.flatMap((method) =>
          dimensions.flatMap((dimension, i) => {
            const result = i === 0 ? `${name}-first` : `${name}-${method}-${dimension}`;
            return figures.has(result)
              ? [{ compressor: compressorName(method), dimension: String(dimension), rank1: figures.value(result) }]
              : [];
          }),
        ),
      },
      encoding: {
        x: dimensionAxis(dimensions),
        y: { field: 'rank1', type: 'quantitative' as const, title: 'rank-1', scale: { domain: [0, 1] } },
        ...series,
      },
      layer: [
        { mark: { type: 'line' as const, strokeWidth: 2 } },
        { mark: { type: 'point' as const, size: 50, opacity: 1, strokeWidth: 2 } },
      ],
    })),
  });
}
