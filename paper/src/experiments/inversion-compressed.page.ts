// The page about what compression protects.

import { compressorColours, compressorName, FULL, saidSplit } from '../data/compressor-looks.ts';
import type { Data, Rendered } from '../lab/experiment.ts';
import { Figures, page, table } from '../lab/markdown.ts';
import { bySeries, panelsOf, render as plotted, SCHEMA } from '../lab/plot.ts';
import { decimals, grouped, plusMinus } from '../lab/quantities.ts';
import type { InversionCompressedParameters } from './inversion-compressed.ts';

type CompressedData = Data<InversionCompressedParameters>;

/** What is undone: nothing, and each compressor at each dimension. */
function cases({ parameters: { compressors, dimensions, dimension } }: CompressedData) {
  return [
    { compressor: FULL, to: dimension },
    ...compressors.flatMap((compressor) => dimensions.map((to) => ({ compressor, to }))),
  ];
}

const knownOf = (to: number) => [Math.round(to / 2), to, Math.round((3 * to) / 2)];

export async function render(data: CompressedData): Promise<Rendered> {
  const { data: source, split, dimension, probes, galleries, compressors, dimensions } = data.parameters;
  const figures = new Figures(data);
  const [least, most] = [Math.min(...dimensions), Math.max(...dimensions)];
  const each = (to: number, show: (name: string) => string) =>
    compressors.map((compressor) => `${show(`${compressor}-${to}`)} (${compressorName(compressor)})`).join(', ');
  const cosine = (name: string) => decimals(figures.value(name), 3);
  const share = (name: string) => figures.value(`${name}-identified`).toFixed(3);
  const full = `${FULL}-${dimension}`;
  const markdown = page(data, 'Does compression protect?', 'What comes back of a face, against the dimension', [
    'The paper thinks it possible that compression protects in addition to encryption: "compact feature vectors may be harder to reconstruct useful information from than the original full length representations". Two attackers try it here.',
    [
      '- One holds **the compressed vector itself**, as somebody with a stolen key would.',
      `- One sees **the scores** of the compressed probe against an encrypted gallery of compressed templates, and knows some probes with their scores (the attack of [inversion](inversion.md)).`,
    ].join('\n'),
    `Both know the compressor and the half of the people that it was fitted on, and have learned to undo it: by ridge regression from the compressed coordinates (and their squares and products, where there are at most 800 of all these) to all ${grouped(dimension)}, with everything chosen on people it had not learned from.`,
    table(
      [
        'compressor',
        'dimensions',
        'the attacker has',
        'cosine, compressed',
        `cosine, at ${grouped(dimension)}`,
        'person found',
      ],
      cases(data).flatMap(({ compressor, to }) =>
        ['stolen', ...knownOf(to)].map((known) => {
          const name = `${compressor}-${to}-${known}`;
          return [
            compressorName(compressor),
            grouped(to),
            known === 'stolen' ? 'the vector' : `${grouped(Number(known))} known probes`,
            cosine(`${name}-compressed`),
            plusMinus(figures.value(name), figures.value(`${name}-interval`), 3),
            share(name),
          ];
        }),
      ),
      [0, 2],
    ),
    `"Cosine, compressed" is of the compressed probe and what the attacker takes it for; "at ${grouped(dimension)}" is of the probe before compression and the attacker's reconstruction. "Person found" is how often the reconstruction, used as a probe at full dimension, finds another picture of the same person first. Who sees nothing, and answers with the mean of all faces, reaches a cosine of ${cosine('guess-mean')}; a picture drawn at random is of the same person for ${figures.value('guess-identified').toFixed(3)} of the probes.`,
    '## What follows',
    [
      `- **What was left out does not come back.** From ${grouped(least)} numbers this attacker reaches a cosine of ${each(least, (name) => cosine(`${name}-stolen`))} with the ${grouped(dimension)} that there were; from ${grouped(most)}, ${each(most, (name) => cosine(`${name}-stolen`))}. Another attacker may do better. So much of the claim holds.`,
      `- **Who it is may come back**, for that is what a compressor keeps. From ${grouped(least)} dimensions the person is found for ${each(least, (name) => share(`${name}-stolen`))} of the probes, from ${grouped(most)} for ${each(most, (name) => share(`${name}-stolen`))}; without compression, for ${share(`${full}-stolen`)}.`,
      `- **Fewer scores do.** Without compression, ${grouped(dimension)} known probes bring the probe back with a cosine of ${cosine(`${full}-${dimension}-compressed`)}. After compression to ${grouped(least)} dimensions, ${grouped(least)} known probes bring the compressed one back with ${each(least, (name) => cosine(`${name}-${least}-compressed`))}. Compression makes this attack cheaper in proportion.`,
      '- A compressed vector is as much a secret as a full one.',
    ].join('\n'),
    `${source}. ${saidSplit(split)} ${grouped(probes)} probes, spread over ${galleries} galleries of four templates for each dimension. ± is 95 %, from how much these differ. Scores are those under \`exact\`, which are the scores of rounded vectors to the last bit ([encryption-cost](../../docs/results/encryption-cost.md)); so only one search of each gallery was encrypted, to see that it is so.`,
  ]);
  return { markdown, svg: await plot(data) };
}

function plot(data: CompressedData): Promise<string> {
  const { dimension, compressors, dimensions } = data.parameters;
  const figures = new Figures(data);
  const panels = [
    ['', 'cosine of the reconstruction and the face'],
    ['-identified', 'share of probes whose person is found'],
  ] as const;
  const values = compressors.flatMap((compressor) =>
    [...dimensions.map((to) => ({ name: compressor, to })), { name: FULL, to: dimension }].flatMap(({ name, to }) =>
      panels.map(([ending, panel]) => ({
        compressor: compressorName(compressor),
        to,
        panel,
        value: figures.value(`${name}-${to}-stolen${ending}`),
      })),
    ),
  );
  return plotted({
    $schema: SCHEMA,
    title: {
      text: 'What comes back of a face that was compressed',
      subtitle: 'by an attacker that holds the compressed vector and has learned to undo the compressor',
    },
    data: { values },
    facet: panelsOf(panels.map(([, panel]) => panel)),
    spec: {
      width: 250,
      height: 220,
      encoding: {
        x: {
          field: 'to',
          type: 'quantitative',
          title: 'dimensions',
          scale: { type: 'log', base: 2, nice: false },
          axis: { values: [...dimensions, dimension] },
        },
        y: { field: 'value', type: 'quantitative', title: null, scale: { domain: [0, 1] } },
        ...bySeries(
          'compressor',
          compressors.map((name) => compressorName(name)),
          { colours: compressorColours(compressors) },
        ),
      },
      mark: { type: 'line', point: { size: 60, filled: true }, strokeWidth: 2 },
    },
  });
}
