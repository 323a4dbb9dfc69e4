// The page about what two stages find.

import { compressorName, saidSplit } from '../data/compressor-looks.ts';
import { type Data, type Rendered, saidApart } from '../lab/experiment.ts';
import { Figures, page, table } from '../lab/markdown.ts';
import { byDashes, render as plotted, SCHEMA } from '../lab/plot.ts';
import { counted, grouped, percent, seconds, signed } from '../lab/quantities.ts';
import type { TwoStageAccuracyParameters, TwoStageSet } from './two-stage-accuracy.ts';

/** What is lost without being called a loss. */
const LOSS = 0.002;

const SETS: Readonly<Record<string, { title: string; labels: string }>> = {
  faces: { title: 'Faces', labels: 'people' },
  text: { title: 'Sentences', labels: 'intents' },
};

interface Stage {
  readonly compressor: string;
  readonly dimension: number;
  /** In the names of results. */
  readonly name: string;
}

function stagesOf(data: Data<TwoStageAccuracyParameters>, set: TwoStageSet): Stage[] {
  const { dimensions, compressors } = data.parameters;
  const figures = new Figures(data);
  const prefix = set.name === 'faces' ? '' : `${set.name}-`;
  return dimensions
    .flatMap((dimension) =>
      compressors.map((compressor) => ({ compressor, dimension, name: `${prefix}${compressor}-${dimension}` })),
    )
    .filter(({ name }) => figures.has(name));
}

const shown = ({ compressor, dimension }: Stage) => `${compressorName(compressor)}, ${dimension}`;

const fullName = ({ name, fullDimension }: TwoStageSet) =>
  name === 'faces' ? `full-${fullDimension}` : `${name}-full-${fullDimension}`;

export async function render(data: Data<TwoStageAccuracyParameters>): Promise<Rendered> {
  const { split, profile, sets } = data.parameters;
  const markdown = page(
    data,
    'Two stages: few dimensions, then the best K again',
    'Share of probes found against the rank, by one stage and by two',
    [
      `The first stage is an encrypted search (\`${profile}\`) of compressed vectors through the client. The second ranks its best K by their full vectors. The figures are rank-1; each probe is searched among all others. ${saidSplit(split)}`,
      ...sets.flatMap((set) => section(data, set)),
      ...byProfile(data),
      '## Stopping early',
      ...stopping(data),
      ...onPaperEngine(data),
      '## Beside the paper',
      `The paper's Figure 5 has DeepPrint fingerprints against 100 million: 16 dimensions, then the best K = 10 000 (0.01 %) at 192, "nearly identical" to 192 throughout. Its fingerprints have an intrinsic dimension of 5 by its own estimate. Faces have more, and 16 numbers hold less of them ([dimension](dimension.md)).`,
      'Fetching candidates shows the store who they are. In this project the caller has to ask for it (`rerank`); under `compact` and `small` at most 128 are fetched.',
    ],
  );
  return { markdown, svg: await plot(data) };
}

function section(data: Data<TwoStageAccuracyParameters>, set: TwoStageSet): string[] {
  const { source, gallery, probes, mated, fullDimension, ks } = set;
  const figures = new Figures(data);
  const full = figures.value(fullName(set));
  const stages = stagesOf(data, set);
  const least = stages.map((stage) => {
    const k = ks.find((each) => figures.value(`${stage.name}-k${each}`) >= full - LOSS);
    return k === undefined ? 'none of these' : grouped(k);
  });
  const { title, labels } = SETS[set.name];
  const some = probes < mated ? ` (of ${grouped(mated)}, evenly)` : '';
  return [
    `## ${title}`,
    `Uncompressed, at ${fullDimension} dimensions in the clear, rank-1 is **${full.toFixed(4)}**.`,
    table(
      [
        'first stage',
        'alone',
        ...ks.map((k) => `K = ${grouped(k)} (${percent(k / gallery.vectors)} %)`),
        `least K within ${LOSS} of ${fullDimension}`,
      ],
      stages.map((stage, i) => [
        shown(stage),
        figures.value(stage.name).toFixed(4),
        ...ks.map((k) => figures.value(`${stage.name}-k${k}`).toFixed(4)),
        least[i],
      ]),
    ),
    `${source}. A gallery of ${counted(gallery, labels)}, ${grouped(probes)} probes${some}. One probe is ${(1 / probes).toFixed(4)}.${saidSteps(stages, set)}${saidApart(set.apart)}`,
  ];
}

/** How long networks were trained, where there are any. */
const saidSteps = (stages: readonly Stage[], { steps }: TwoStageSet) =>
  stages.some(({ compressor }) => compressor.startsWith('deepmds'))
    ? ` Each stage of the network is trained for ${grouped(steps)} steps.`
    : '';

/** Profiles under which a first stage was measured, the page's own first. */
const PROFILES = ['exact', 'compact', 'small'] as const;
/** Under the others no search fetches more. */
const MOST_FETCHED = 128;

function byProfile(data: Data<TwoStageAccuracyParameters>): string[] {
  const figures = new Figures(data);
  return data.parameters.sets.flatMap((set) => {
    const ks = set.ks.filter((k) => k <= MOST_FETCHED);
    const stages = stagesOf(data, set).filter(({ name }) => figures.has(`${name}-compact`));
    const rows = stages.flatMap((stage) =>
      PROFILES.map((profile) => ({ stage, profile, ending: profile === data.parameters.profile ? '' : `-${profile}` }))
        .filter(({ ending }) => figures.has(`${stage.name}${ending}`))
        .map(({ profile, ending }) => [
          shown(stage),
          profile,
          ...['', ...ks.map((k) => `-k${k}`)].map((k) => figures.value(`${stage.name}${k}${ending}`).toFixed(4)),
        ]),
    );
    if (rows.length === 0) return [];
    const without = [...new Set(stages.filter(({ name }) => !figures.has(`${name}-small`)).map((s) => s.dimension))];
    const refused =
      without.length === 0
        ? ''
        : ` At ${without.join(' and ')} dimensions \`small\` is not offered: it would take no fewer bytes than the vectors themselves.`;
    return [
      `## ${SETS[set.name].title}, by profile`,
      `The same first stages under the profiles with noise, one key each, as far as K = ${MOST_FETCHED}, which is the most that a search fetches under them:`,
      table(['first stage', 'profile', 'alone', ...ks.map((k) => `K = ${grouped(k)}`)], rows, [0, 1]),
      `Noise moves a few across the border at K. What is among the best K is ranked by full vectors, without noise.${refused}`,
    ];
  });
}

function stopping(data: Data<TwoStageAccuracyParameters>): string[] {
  const { falseAlarms, cap, sets } = data.parameters;
  const figures = new Figures(data);
  const prefixed = ({ name }: TwoStageSet, what: string) => (name === 'faces' ? what : `${name}-${what}`);
  const alarms = sets.map((set) =>
    figures.has(prefixed(set, 'enough-false'))
      ? `that is so for ${percent(figures.value(prefixed(set, 'enough-false')))} % of those without a mate among the ${set.name}`
      : `among the ${set.name} everybody has a mate`,
  );
  return [
    `Most probes need few candidates, and a few need many. With \`rerank\` and \`enough\` the client fetches 16 candidates, then 32, 64 and so on, and stops when one scores well enough by the full vectors. Well enough is here what a stranger should reach in one of ${1 / falseAlarms} searches, going by the pairs of strangers in the training half. No search fetches more than ${100 * cap} % of the gallery. End to end through the client:`,
    table(
      ['first stage', 'well enough', 'records fetched, mean', 'of the gallery', 'rank-1', 'against full vectors'],
      sets.flatMap((set) =>
        stagesOf(data, set).map((stage) => {
          const fetched = figures.value(`${stage.name}-enough-fetched`);
          const rank1 = figures.value(`${stage.name}-enough`);
          return [
            `${set.name}, ${shown(stage)}`,
            figures.value(prefixed(set, 'enough')).toFixed(3),
            fetched.toFixed(1),
            `${percent(fetched / set.gallery.vectors, 2)} %`,
            rank1.toFixed(4),
            signed(rank1 - figures.value(fullName(set))),
          ];
        }),
      ),
    ),
    `All of these probes have a mate. A probe without one fetches as many candidates as it may, unless a stranger scores well enough: ${alarms.join('; ')}. Whoever keeps the gallery sees how many were fetched, and in which steps.`,
  ];
}

function onPaperEngine(data: Data<TwoStageAccuracyParameters>): string[] {
  const figures = new Figures(data);
  const rows = data.parameters.sets.flatMap((set) => {
    if (set.encrypted === undefined) return [];
    const { stage, probes, k } = set.encrypted;
    const name = (ending: string) => `${set.name === 'faces' ? '' : `${set.name}-`}${stage}-encrypted${ending}`;
    const [compressor, dimension] = stage.split(/-(?=\d+$)/);
    return [
      [
        `${set.name}, ${compressorName(compressor)}, ${dimension}`,
        `${dimension}, then ${set.fullDimension}`,
        grouped(k),
        `${figures.value(name('-same'))} of ${probes}`,
        figures.value(name('')).toFixed(2),
        ...['-stage1', '-stage2'].map((ending) => seconds(figures.value(name(ending)))),
      ],
    ];
  });
  if (rows.length === 0) return [];
  return [
    "## Both stages on the paper's engine",
    "The same vectors in the published system on SEAL, both stages encrypted: few dimensions by the HERS encoding over the whole gallery, then the best K again at full dimension by Boddeti's encoding, under one key. Each ranked list, with its scores, is compared with that of the same rounded vectors in the clear.",
    table(
      [
        'first stage',
        'dimensions',
        'K',
        'ranked lists as in the clear',
        'rank-1 of these probes',
        'stage 1',
        'stage 2',
      ],
      rows,
    ),
    'Times are those of the server, one thread, the fastest of these probes, on a shared machine.',
  ];
}

const COLOURS = ['#D55E00', '#E69F00', '#F0C060', '#56B4E9', '#0072B2', '#CC79A7', '#009E73', '#999999'];

function plot(data: Data<TwoStageAccuracyParameters>): Promise<string> {
  const { plotted: stage } = data.parameters;
  const [{ name, fullDimension, ks, gallery }] = data.parameters.sets;
  const [compressor, short] = stage.split(/-(?=\d+$)/);
  const curves = data.curves ?? {};
  const series = [
    { label: `${short} dimensions alone`, curve: curves[stage] },
    ...ks.map((k) => ({ label: `${short}, then the best ${grouped(k)}`, curve: curves[`${stage}-k${k}`] })),
    { label: `${fullDimension} dimensions`, curve: curves[`full-${fullDimension}`] },
  ];
  const values = series.flatMap(({ label, curve }) => curve.map((found, i) => ({ label, rank: i + 1, found })));
  const lowest = Math.min(...values.map(({ found }) => found));
  const ranks = series[0].curve.length;
  return plotted({
    $schema: SCHEMA,
    title: {
      text: `Found within rank r: ${compressorName(compressor)} to ${short} dimensions, encrypted, then ranked again`,
      subtitle: `${name}, a gallery of ${grouped(gallery.vectors)}`,
    },
    width: 460,
    height: 300,
    data: { values },
    mark: { type: 'line', strokeWidth: 2.5 },
    encoding: {
      x: {
        field: 'rank',
        type: 'quantitative',
        title: 'rank r',
        scale: { domain: [1, ranks], nice: false },
        axis: { values: [1, 5, 10, 15, 20], grid: true },
      },
      y: {
        field: 'found',
        type: 'quantitative',
        title: 'share of probes',
        scale: { domain: [Math.floor(lowest * 20) / 20, 1], nice: false },
        axis: { format: '.2f' },
      },
      ...byDashes(
        'label',
        series.map(({ label }) => label),
        [...COLOURS.slice(0, series.length - 1), '#000000'],
      ),
    },
  });
}
