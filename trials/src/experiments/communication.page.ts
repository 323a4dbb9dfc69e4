// The page about what travels.

import type { Data, Rendered } from '@hers/paper/lab/experiment';
import { Figures, page, table } from '@hers/paper/lab/markdown';
import { COLOURS, DOTS, logAxisOf, render as plotted, SCHEMA, systemAxis } from '@hers/paper/lab/plot';
import { COMMUNICATION } from '@hers/paper/lab/published';
import { bytes, grouped, templates } from '@hers/paper/lab/quantities';
import type { CommunicationParameters } from './communication.ts';

interface Row {
  readonly name: string;
  readonly system: string;
  readonly colour: string;
}

const ROWS: readonly Row[] = [
  { name: 'published-boddeti', system: 'Boddeti, as published', colour: 'published' },
  { name: 'published-hers', system: 'HERS, as published', colour: 'published' },
  { name: 'naive-seal', system: 'naive, SEAL', colour: 'naive, SEAL' },
  { name: 'boddeti-seal', system: 'Boddeti, SEAL', colour: 'Boddeti, SEAL' },
  { name: 'hers-seal', system: 'HERS, SEAL', colour: 'HERS, SEAL' },
  { name: 'hers-seal-zlib', system: 'HERS, SEAL, zlib', colour: 'HERS, SEAL' },
  { name: 'hers-seal-bgv', system: 'HERS, SEAL, improved', colour: 'HERS, SEAL, improved' },
  { name: 'hers-seal-bgv-zlib', system: 'HERS, SEAL, improved, zlib', colour: 'HERS, SEAL, improved' },
  { name: 'ours-exact', system: 'this project, exact', colour: 'this project, exact' },
  { name: 'ours-compact', system: 'this project, compact', colour: 'this project, compact' },
  { name: 'ours-open-public', system: 'this project, open, public key', colour: 'this project, compact' },
  { name: 'ours-open-device', system: 'this project, open', colour: 'this project, compact' },
];

/** Head and signature of an envelope (docs/formats.md). */
const ENVELOPE_BYTES = 160;

const OTHERS: readonly (readonly [system: string, published: string, where: string])[] = [
  [
    'HERS (the paper)',
    '5.9 MB for a probe of 64 dimensions, 100 MB of scores for 100 million templates',
    'Engelsma, Jain, Boddeti, arXiv:2003.12197',
  ],
  [
    'HyDia (CKKS, faces)',
    'only that communication is lower than that of earlier work; no bytes found. A later paper saves its client about 14 GB of rotation keys',
    'Martin et al., PoPETs 2025(4), 585–604; arXiv:2604.00546',
  ],
  [
    'HEVEC (CKKS and MLWE, n = 4096, 128 dimensions)',
    'a million encrypted vectors in 187 ms; no bytes of queries or responses found',
    'arXiv:2506.17336; github.com/cloneisyou/HEVEC',
  ],
  [
    'Apple, Wally (BFV, clusters, false queries)',
    '6.69 to 31 times less than Tiptoe, for 3.2 million entries',
    'arXiv:2406.06761',
  ],
  [
    'Tiptoe, which Wally compares itself with',
    '56.9 MiB for a search of 360 million pages, 74 % of it before the query is known',
    'Henzinger et al., SOSP 2023',
  ],
  [
    'Apple, private nearest neighbour search (BFV)',
    'vectors are quantized to 8 bits; no bytes of requests or responses found',
    'machinelearning.apple.com/research/homomorphic-encryption; github.com/apple/swift-homomorphic-encryption',
  ],
];

export async function render(data: Data<CommunicationParameters>): Promise<Rendered> {
  const { dimensions } = data.parameters;
  const boddetiKeys = bytes(new Figures(data).value(`boddeti-seal-d${dimensions.at(-1)}-keys`));
  const openKeys = bytes(new Figures(data).value(`ours-open-device-d${dimensions.at(-1)}-keys`));
  const asked = dimensions.includes(128) ? 128 : dimensions[0];
  const posted = (form: 'device' | 'public') =>
    bytes(new Figures(data).value(`ours-open-${form}-d${asked}-probe`) + ENVELOPE_BYTES);
  const { hersProbe, boddetiProbe, response } = COMMUNICATION;
  const markdown = page(
    data,
    'Communication: bytes of a probe and of its scores',
    'Bytes of a probe and of each score',
    [
      'Bytes of a probe, by its dimension:',
      probesTable(data),
      `Bytes of the scores that come back, and of the keys, at ${dimensions[0]} dimensions. More dimensions hardly change either, except for keys: Boddeti's grow to ${boddetiKeys} at ${dimensions.at(-1)}, and the evaluation keys of open queries, which go to the store, to ${openKeys}:`,
      scoresTable(data, dimensions[0]),
      'Messages were made and measured; totals are those of a block, multiplied. With the naive encoding and with Boddeti\'s, every score comes in a ciphertext of its own. "Improved" has two things that the paper does not have: encryption by the secret key, whose random half travels as a seed, and responses that drop one prime before they are sent.',
      `The paper gives ${bytes(hersProbe)} for a HERS probe of 64 dimensions, which is the size of 64 ciphertexts compressed by zlib. It gives ${bytes(boddetiProbe)} for Boddeti's probe, and ${bytes(response)} for the scores of 100 million templates, a byte for each. Neither is the size of a ciphertext with these parameters, which takes at least 91 KB.`,
      '## What a device sends',
      `A device posts its query in a signed envelope, which has ${ENVELOPE_BYTES} bytes more. At ${asked} dimensions that is ${posted('device')} with a key of its own, and ${posted('public')} with the public key. \`npm run bench -- open\` measures this with real devices over HTTP.`,
      '## Other systems, as published',
      "What these publish about bytes, as far as we found it. They solve other problems, so the figures say what others send and not who is better: with Wally, Tiptoe and Apple's search the server may see the vectors that it searches, and here it may not.",
      OTHERS.map(([system, published, where]) => `- **${system}**: ${published} (${where}).`).join('\n'),
      "No figure of the bytes of a query or of a response was found for HyDia, HEVEC, or Apple's search by BFV: their abstracts and READMEs give none, and their full texts were not at hand. Such a figure is missing here rather than guessed.",
    ],
  );
  return { markdown, svg: await plot(data, dimensions[0]) };
}

function probesTable(data: Data<CommunicationParameters>): string {
  const { dimensions } = data.parameters;
  const figures = new Figures(data);
  const shown = ROWS.filter(({ name }) => dimensions.some((d) => figures.has(`${name}-d${d}-probe`)));
  return table(
    ['system', ...dimensions.map((d) => `d = ${d}`)],
    shown.map(({ name, system }) => [system, ...dimensions.map((d) => figures.cell(`${name}-d${d}-probe`, bytes))]),
  );
}

function scoresTable(data: Data<CommunicationParameters>, dimension: number): string {
  const { galleries } = data.parameters;
  const figures = new Figures(data);
  const keys = (value: number) => (value === 0 ? 'none' : bytes(value));
  const perScore = (value: number) => grouped(value, { maximumSignificantDigits: 4 });
  const published = galleries.map((m) => (m === COMMUNICATION.templates ? bytes(COMMUNICATION.response) : ''));
  const shown = ROWS.filter(({ name }) => figures.has(`${name}-d${dimension}-response`));
  return table(
    ['system', 'bytes per score', ...galleries.map((m) => `scores of ${templates(m)}`), 'keys, once'],
    [
      ['HERS, as published', '', ...published, ''],
      ...shown.map(({ name, system }) => [
        system,
        figures.cell(`${name}-d${dimension}-response`, perScore),
        ...galleries.map((m) => figures.cell(`${name}-d${dimension}-scores-m${m}`, bytes)),
        figures.cell(`${name}-d${dimension}-keys`, keys),
      ]),
    ],
  );
}

const PANELS = [
  { title: 'bytes of a probe', ending: 'probe' },
  { title: 'bytes of each score', ending: 'response' },
] as const;

function plot(data: Data<CommunicationParameters>, dimension: number): Promise<string> {
  const figures = new Figures(data);
  return plotted({
    $schema: SCHEMA,
    title: {
      text: `What travels for one search, ${dimension} dimensions`,
      subtitle: 'logarithmic; black: as published',
    },
    hconcat: PANELS.map(({ title, ending }) => {
      const values = ROWS.filter(({ name }) => figures.has(`${name}-d${dimension}-${ending}`)).map(
        ({ name, system, colour }) => {
          const { value, source } = figures.of(`${name}-d${dimension}-${ending}`);
          return { system, value, label: bytes(value), colour: COLOURS[colour], source };
        },
      );
      return {
        title: { text: title, fontSize: 13 },
        width: 260,
        height: { step: 26 },
        data: { values },
        encoding: {
          y: systemAxis(values.map(({ system }) => system)),
          x: logAxisOf(values, 'value', 'bytes'),
        },
        layer: DOTS,
      };
    }),
  });
}
