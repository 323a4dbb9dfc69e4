// The page about what encryption costs.

import { compressorName, FULL, saidSplit } from '@hers/paper/data/compressor-looks';
import type { Data, Rendered } from '@hers/paper/lab/experiment';
import { Figures, page, table } from '@hers/paper/lab/markdown';
import { bySeries, COLOURS, COUNT_LABELS, NAMED_LINE_END, render as plotted, SCHEMA } from '@hers/paper/lab/plot';
import { TABLE_4 } from '@hers/paper/lab/published';
import { counted, grouped, signed, templates } from '@hers/paper/lab/quantities';
import { mean } from '@hers/paper/metrics/statistics';
import type { EncryptionCostParameters, Noisy } from './encryption-cost.ts';

const NOISY: readonly Noisy[] = ['compact', 'small'];

interface Case {
  /** In the names of results. */
  readonly name: string;
  readonly shown: string;
}

function casesOf({ compressors, fullDimension, dimensions }: EncryptionCostParameters): Case[] {
  return [
    { name: `${FULL}-${fullDimension}`, shown: `${fullDimension}, ${compressorName(FULL)}` },
    ...compressors.flatMap((compressor) =>
      dimensions.map((dimension) => ({
        name: `${compressor}-${dimension}`,
        shown: `${dimension}, ${compressorName(compressor)}`,
      })),
    ),
  ];
}

export async function render(data: Data<EncryptionCostParameters>): Promise<Rendered> {
  const { data: source, split, gallery, probes, mated, keys, rounding, intrinsic, distractorProbes } = data.parameters;
  const some = probes < mated ? ` (of ${grouped(mated)} that have a mate, evenly)` : '';
  const markdown = page(
    data,
    'What compression, rounding and encryption cost',
    'Rank-1 in the clear and encrypted, against the number of distractors',
    [
      'Rank-1, by the dimension:',
      costTable(data),
      `Under \`compact\` and \`small\`, noise depends on the key: the figure is the mean of ${keys} keys, with the lowest and the highest in brackets. Noise decides between two who score almost the same, either way, and fewer dimensions make more such pairs.${saidNotOffered(data)}`,
      'The same as differences:',
      differenceTable(data),
      `Compression is against ${data.parameters.fullDimension} dimensions, rounding, \`compact\` and \`small\` against floating-point numbers of the same dimension, \`exact\` against rounded ones.`,
      saidExact(data),
      '## Among many',
      `The same gallery with distractors added; ${grouped(distractorProbes)} probes, in the clear and encrypted under \`compact\`:`,
      crowdTable(data),
      `Distractors are synthetic people on a curved manifold of ${intrinsic} dimensions, with noise, mapped so that their mean and covariance are those of the half that compressors are fitted on. ${saidRealism(data)}`,
      ...tailTable(data),
      "The table shows side by side what noise and compression do among many. Where synthetic strangers score lower than real ones, it flatters all rows alike, and is no forecast for as many real people. The paper's figures are against a million pictures of MegaFace, which [cannot be had](../../paper/results/README.md#what-cannot-be-had-here).",
      ...published(),
      '## What was searched',
      `${source}. ${saidSplit(split)} ${counted(gallery, 'people')}, ${grouped(probes)} probes${some}, each searched among all other pictures: in the clear as floating-point numbers, in the clear after rounding to 1/${[...new Set(rounding)].map((steps) => grouped(steps)).join(' or 1/')} as the profile \`exact\` does, and encrypted through the client and a store in a folder.`,
    ],
  );
  return { markdown, svg: await plot(data) };
}

/** Rank-1 under each key; none where the profile is not offered. */
function byKey(data: Data<EncryptionCostParameters>, name: string, profile: string): number[] {
  const figures = new Figures(data);
  if (!figures.has(`${name}-${profile}`)) return [];
  return Array.from({ length: data.parameters.keys }, (_, i) => figures.value(`${name}-${profile}-key${i + 1}`));
}

/** The mean, and the lowest and highest. */
function meanAndRange(values: readonly number[], said: (value: number) => string): string {
  if (values.length === 0) return '–';
  return `${said(mean(values))} (${said(Math.min(...values))} to ${said(Math.max(...values))})`;
}

function saidNotOffered(data: Data<EncryptionCostParameters>): string {
  const figures = new Figures(data);
  const without = casesOf(data.parameters).filter(({ name }) => !figures.has(`${name}-small`));
  const dimensions = [...new Set(without.map(({ shown }) => shown.split(',')[0]))];
  return dimensions.length === 0
    ? ''
    : ` At ${dimensions.join(' and ')} dimensions \`small\` is not offered: it would take no fewer bytes than the vectors themselves.`;
}

function costTable(data: Data<EncryptionCostParameters>): string {
  const figures = new Figures(data);
  return table(
    ['dimensions', 'in the clear', 'rounded', 'encrypted, exact', ...NOISY.map((profile) => `encrypted, ${profile}`)],
    casesOf(data.parameters).map(({ name, shown }) => [
      shown,
      ...['', '-rounded', '-exact'].map((ending) => figures.value(`${name}${ending}`).toFixed(4)),
      ...NOISY.map((profile) => meanAndRange(byKey(data, name, profile), (value) => value.toFixed(4))),
    ]),
  );
}

function differenceTable(data: Data<EncryptionCostParameters>): string {
  const figures = new Figures(data);
  const cases = casesOf(data.parameters);
  const uncompressed = figures.value(cases[0].name);
  return table(
    ['dimensions', 'compression', 'rounding', ...['exact', ...NOISY].map((profile) => `encryption, ${profile}`)],
    cases.map(({ name, shown }, i) => {
      const [plain, rounded] = [figures.value(name), figures.value(`${name}-rounded`)];
      return [
        shown,
        i === 0 ? '' : signed(plain - uncompressed),
        signed(rounded - plain),
        signed(figures.value(`${name}-exact`) - rounded),
        ...NOISY.map((profile) =>
          meanAndRange(
            byKey(data, name, profile).map((value) => value - plain),
            signed,
          ),
        ),
      ];
    }),
  );
}

function saidExact(data: Data<EncryptionCostParameters>): string {
  const figures = new Figures(data);
  const probes = grouped(data.parameters.probes);
  const counts = casesOf(data.parameters).map(({ name, shown }) => {
    return { shown, different: figures.value(`${name}-exact-different`) };
  });
  const some = counts.map(({ shown, different }) => `${grouped(different)} of ${probes} probes (${shown})`).join(', ');
  const who = counts.every(({ different }) => different === 0) ? `no probe of ${probes}, at any dimension,` : some;
  return `Under \`exact\`, ${who} had another best score, or another person with it, than the search of rounded vectors in the clear. Where several share the best score, a stranger counts as first, on both sides.`;
}

function crowdTable(data: Data<EncryptionCostParameters>): string {
  const figures = new Figures(data);
  const { distractors } = data.parameters;
  return table(
    ['dimensions', ...distractors.flatMap((m) => [`${templates(m)}: clear`, 'encrypted'])],
    casesOf(data.parameters).map(({ name, shown }) => [
      shown,
      ...distractors.flatMap((m) =>
        ['', '-compact'].map((ending) => figures.value(`${name}-among-${m}${ending}`).toFixed(4)),
      ),
    ]),
  );
}

/** The paper's Table 4, which has faces among a million. */
function published(): string[] {
  const [{ what, ranks }] = TABLE_4;
  return [
    `The paper's Table 4, DeepMDS++, ${what}; the first is uncompressed:`,
    table(
      ['dimensions', ...ranks.map(([dimension]) => grouped(dimension))],
      [['rank-1', ...ranks.map(([, rank1]) => rank1.toFixed(3))]],
    ),
  ];
}

function saidRealism(data: Data<EncryptionCostParameters>): string {
  const figures = new Figures(data);
  const reached = figures.has('distractors-equal')
    ? `it takes ${grouped(figures.value('distractors-equal'))} of them to reach the former`
    : 'not even all of them reach the former';
  const [real, synthetic] = ['real', 'synthetic'].map((kind) => figures.value(`distractors-${kind}`).toFixed(3));
  return `Real strangers have more look-alikes among them: the best of ${grouped(data.parameters.strangers)} real strangers (the training half, all dimensions) scores ${real} on average, the best of as many synthetic ones ${synthetic}; ${reached}.`;
}

function tailTable(data: Data<EncryptionCostParameters>): string[] {
  const { tails } = data.parameters;
  if (tails.length === 0) return [];
  const figures = new Figures(data);
  return [
    'Scores that few strangers reach:',
    table(
      ['one stranger in', ...tails.map((one) => grouped(one))],
      ['real', 'synthetic'].map((kind) => [
        kind,
        ...tails.map((one) => figures.value(`distractors-${kind}-one-in-${one}`).toFixed(3)),
      ]),
    ),
  ];
}

const LINES = [COLOURS.published, COLOURS['this project, exact'], COLOURS['HERS, SEAL'], '#009E73', '#E69F00'];

function plot(data: Data<EncryptionCostParameters>): Promise<string> {
  const { distractors } = data.parameters;
  const figures = new Figures(data);
  const cases = casesOf(data.parameters);
  const of = (ending: string) =>
    cases.flatMap(({ name, shown }) =>
      distractors.map((m) => ({ name: shown, distractors: m, rank1: figures.value(`${name}-among-${m}${ending}`) })),
    );
  const [clear, encrypted] = [of(''), of('-compact')];
  const lowest = Math.min(...[...clear, ...encrypted].map(({ rank1 }) => rank1));
  const most = Math.max(...distractors);
  const series = bySeries(
    'name',
    cases.map(({ shown }) => shown),
    { colours: LINES, legend: null },
  );
  return plotted({
    $schema: SCHEMA,
    title: {
      text: 'Faces among synthetic distractors: rank-1 in the clear and encrypted',
      subtitle: 'lines: in the clear; symbols: encrypted (compact), end to end; named by their dimensions',
    },
    width: 480,
    height: 300,
    encoding: {
      x: {
        field: 'distractors',
        type: 'quantitative',
        scale: { type: 'log', domain: [Math.min(...distractors), most], nice: false, padding: 14 },
        title: 'distractors',
        axis: { values: [...distractors], labelExpr: COUNT_LABELS },
      },
      y: {
        field: 'rank1',
        type: 'quantitative',
        title: 'rank-1',
        scale: { domain: [Math.floor(lowest * 10) / 10, 1], nice: false },
        axis: { format: '.2f' },
      },
      color: series.color,
    },
    layer: [
      { data: { values: clear }, mark: { type: 'line', strokeWidth: 2 } },
      {
        data: { values: encrypted },
        mark: { type: 'point', size: 110, strokeWidth: 2.2, opacity: 1 },
        encoding: { shape: series.shape },
      },
      {
        data: { values: clear.filter(({ distractors: m }) => m === most) },
        mark: { ...NAMED_LINE_END, dx: 14 },
        encoding: { text: { field: 'name', type: 'nominal' } },
      },
    ],
  });
}
