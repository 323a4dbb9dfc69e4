// The page about the whole of the paper.

import { saidSplit } from '../data/compressor-looks.ts';
import type { Data, Rendered } from '../lab/experiment.ts';
import { Figures, page, table } from '../lab/markdown.ts';
import { COLOURS, secondsPlot } from '../lab/plot.ts';
import { bytes, counted, grouped, percent, seconds } from '../lab/quantities.ts';
import type { WholeParameters } from './whole.ts';

type WholeData = Data<WholeParameters>;

/** The variants of the product, and how a page calls them. */
const PRODUCT = [
  ['compact', '`compact`'],
  ['exact', '`exact`'],
] as const;

export async function render(data: WholeData): Promise<Rendered> {
  const { data: source, split, training, gallery, probes, k, dimension, coarse, blocks } = data.parameters;
  const markdown = page(data, 'The whole paper at once', 'Seconds of one search, by its stages and by the system', [
    `Real faces, from the estimate of their dimension to a ranked list, with everything encrypted that the paper encrypts: DeepMDS++ from ${dimension} to ${coarse} dimensions, the HERS encoding over ${grouped(blocks)} ${blocks === 1 ? 'block' : 'blocks'}, then the best ${grouped(k)} again at ${dimension} dimensions by Boddeti's encoding. Beside it, the same gallery and the same network through the product.`,
    `${source}. ${saidSplit(split)} The network learned from ${counted(training, 'people')}. The gallery has ${counted(gallery, 'people')}; ${grouped(probes)} other pictures of people in it are searched for.${saidBusy(data)}`,
    '## 1. Dimension',
    ...dimensions(data),
    '## 2. The network',
    network(data),
    '## 3. The published system',
    ...published(data),
    '## 4. The product',
    ...product(data),
  ]);
  return { markdown, svg: await plot(data) };
}

/** Lists, ranks and bytes are what they are on a quiet machine; times are not. */
function saidBusy({ parameters: { load }, machine: { cores } }: WholeData): string {
  return load < cores / 4
    ? ''
    : ` Other programs ran on the machine (a load of ${load.toFixed(1)} on ${cores} cores at the start): the times are too long, and only what is far apart can be compared.`;
}

function dimensions(data: WholeData): string[] {
  const { coarse, chosen, refusals } = data.parameters;
  const figures = new Figures(data);
  const names = [
    ['graph-k4', 'graph, k = 4'],
    ['graph-k9', 'graph, k = 9'],
    ['two-nearest', 'two nearest'],
    ['likelihood', 'likelihood'],
  ] as const;
  return [
    table(
      names.map(([, title]) => title),
      [names.map(([name]) => figures.cell(name, (value) => value.toFixed(1)) || 'none')],
      [],
    ),
    ...Object.entries(refusals).map(([k, why]) => `k = ${k}: ${why}.`),
    `The first stage has ${coarse} dimensions${chosen === 'estimated' ? ": the estimate by the paper's graph, with the k of its authors, rounded to a multiple of 8" : ', as it was asked for'}. ([dimension](dimension.md) has the estimators.)`,
  ];
}

function network(data: WholeData): string {
  const { compressor, dimension, coarse } = data.parameters;
  const { steps } = compressor.settings as { steps?: number };
  const trained = compressor.from === 'file' ? 'from a file that was given' : 'trained on the vectors above';
  return `\`${compressor.method}\` from ${dimension} to ${coarse} dimensions${steps === undefined ? '' : `, ${grouped(steps)} steps for each stage of it`}, ${trained}. [faces](faces.md) has what it loses beside other compressors.`;
}

function published(data: WholeData): string[] {
  const { probes, k, coarse, dimension, gallery, online } = data.parameters;
  const figures = new Figures(data);
  const time = (name: string) => figures.cell(`published-${name}`, seconds);
  const size = (name: string) => figures.cell(`published-${name}-bytes`, bytes);
  const value = (name: string) => figures.value(`published-${name}`);
  const count = (name: string) => `${Math.round(value(name) * probes)} of ${probes}`;
  const both = (name: string) => `${size(`${name}-coarse`)} + ${size(`${name}-fine`)}`;
  return [
    table(
      ['step', 'by', 'time', 'bytes'],
      [
        ['keys', 'client', time('keys'), `${size('keys')} to the server`],
        [
          `${grouped(gallery.vectors - online)} templates in batches`,
          'both',
          time('batch'),
          `uploads, with those online: ${both('uploads')}`,
        ],
        [`${grouped(online)} templates online`, 'both', time('online'), `gallery in memory: ${both('gallery')}`],
        ['query', 'client', time('query'), `${size('query')} to the server`],
        [`stage 1: HERS, ${coarse} dimensions, all templates`, 'server', time('stage1'), `${size('stage1')} back`],
        [
          `decryption, the best ${grouped(k)}, second query`,
          'client',
          time('refine'),
          `${size('request')} to the server`,
        ],
        [
          `stage 2: Boddeti, ${dimension} dimensions, ${grouped(k)} templates`,
          'server',
          time('stage2'),
          `${size('stage2')} back`,
        ],
        ['decryption, ranking', 'client', time('rank'), ''],
      ],
      [0, 1, 3],
    ),
    `Both of + are the coarse and the fine form. Times of a search are means over the probes; one thread, SEAL in WebAssembly, encryption by the public key, as published. Those online come one by one around the edge of the first block where the gallery has more than one.`,
    `- **${count('same')} ranked lists of ${grouped(k)} are those in the clear**, scores included (the slow and obvious search of the same rounded vectors). ${count('first')} have the same first.
- Rank-1: ${value('rank1').toFixed(3)} after two stages, ${value('stage1-rank1').toFixed(3)} after the first, ${figures.value('full-rank1').toFixed(3)} at full dimension in the clear. The label came from the server's label set (Algorithm 6).`,
  ];
}

function product(data: WholeData): string[] {
  const { probes, k } = data.parameters;
  const figures = new Figures(data);
  const share = (name: string) => figures.cell(name, (value) => `${Math.round(value * probes)} of ${probes}`);
  const rank = (name: string) => figures.cell(name, (value) => value.toFixed(3));
  return [
    table(
      ['', ...PRODUCT.map(([, title]) => title)],
      [
        ['enrolment in batches', ...PRODUCT.map(([name]) => figures.cell(`${name}-batch`, seconds))],
        ['enrolment online', ...PRODUCT.map(([name]) => figures.cell(`${name}-online`, seconds))],
        ['bytes of the folder', ...PRODUCT.map(([name]) => figures.cell(`${name}-gallery-bytes`, bytes))],
        ['bytes of a query', ...PRODUCT.map(([name]) => figures.cell(`${name}-query-bytes`, bytes))],
        ['bytes of its responses', ...PRODUCT.map(([name]) => figures.cell(`${name}-stage1-bytes`, bytes))],
        ['one stage', ...PRODUCT.map(([name]) => figures.cell(`${name}-one`, seconds))],
        ['two stages', ...PRODUCT.map(([name]) => figures.cell(`${name}-two`, seconds))],
        ['one stage: list as in the clear', ...PRODUCT.map(([name]) => share(`${name}-one-same`))],
        [
          'one stage: of the best in the clear',
          ...PRODUCT.map(([name]) => figures.cell(`${name}-one-overlap`, (x) => `${percent(x)} %`)),
        ],
        ['one stage: first as in the clear', ...PRODUCT.map(([name]) => share(`${name}-one-first`))],
        ['two stages: list as in the clear', ...PRODUCT.map(([name]) => share(`${name}-two-same`))],
        ['two stages: first as in the clear', ...PRODUCT.map(([name]) => share(`${name}-two-first`))],
        ['rank-1, one stage', ...PRODUCT.map(([name]) => rank(`${name}-one-rank1`))],
        ['rank-1, two stages', ...PRODUCT.map(([name]) => rank(`${name}-two-rank1`))],
      ],
    ),
    `A folder on this machine, searched through the client: encryption, scan, decryption and ranking are in the times. The second stage fetches the best ${grouped(k)} sealed records, and the client ranks them by their full vectors. In the clear means: of rounded vectors under \`exact\`, of the vectors themselves under \`compact\`, whose noise may exchange those that score almost alike.`,
  ];
}

function plot(data: WholeData): Promise<string> {
  const figures = new Figures(data);
  const { coarse, dimension, k } = data.parameters;
  const steps = [
    ['published-stage1', `published, stage 1: HERS, ${coarse} dimensions`, 'HERS, SEAL'],
    ['published-stage2', `published, stage 2: Boddeti, ${dimension} dimensions, K = ${grouped(k)}`, 'Boddeti, SEAL'],
    ['exact-one', 'product, exact, one stage', 'this project, exact'],
    ['exact-two', 'product, exact, two stages', 'this project, exact'],
    ['compact-one', 'product, compact, one stage', 'this project, compact'],
    ['compact-two', 'product, compact, two stages', 'this project, compact'],
  ] as const;
  const values = steps.map(([name, system, colour]) => {
    const { value, source } = figures.of(name);
    return { system, seconds: value, source, label: seconds(value), colour: COLOURS[colour] };
  });
  const title = {
    text: `One search of ${grouped(data.parameters.gallery.vectors)} faces`,
    subtitle: 'published: of the server alone; product: of client and store together; means over the probes',
  };
  return secondsPlot(title, { width: 420, step: 30 }, values);
}
