// The paper's Table 2: homomorphic operations of one search and memory of the gallery, by its formulas and by the counters of real searches.

import { type Complexity, complexity, ENCODINGS, type EncodingName, PUBLISHED } from '@hers/paper';
import { openPaper, type PaperEngine } from '../engine-paper.ts';
import { machine, progress } from '../report.ts';
import { identities } from '../synthetic.ts';
import { asGiven, type Experiment, type Figure, type Outcome } from './experiment.ts';
import { page, table, versions } from './markdown.ts';
import { colourScale, logAxis, render, SCHEMA } from './plot.ts';
import { bytes, whole } from './quantities.ts';

const NAMES = Object.keys(ENCODINGS) as EncodingName[];
const TITLES = { naive: 'naive', boddeti: 'Boddeti', hers: 'HERS' } as const;
const OPERATIONS = ['multiplications', 'additions', 'rotations', 'relinearisations'] as const;

const FORMULAS: readonly (readonly string[])[] = [
  ['naive', 'm·d', 'm·(d − 1)', '0', 'm·d'],
  ['Boddeti', 'm', 'm·log2 d', 'm·log2 d', 'm'],
  ['HERS', '⌈m/n⌉·d', '⌈m/n⌉·(d − 1)', '0', '⌈m/n⌉·d'],
];

type Counted = Omit<Complexity, 'ciphertexts'>;

export const table2: Experiment = {
  name: 'table2',
  summary: 'operations and memory: the formulas of the paper beside the counters of real searches',
  options: {},
  async run({ small = false }): Promise<Outcome> {
    const cases: [EncodingName, number, number][] = small
      ? [
          ['naive', 2, 3],
          ['boddeti', 2, 3],
          ['hers', 2, 3],
        ]
      : NAMES.flatMap((name): [EncodingName, number, number][] =>
          name === 'hers'
            ? [
                [name, 4, 16],
                [name, 8, 64],
                [name, 10_000, 16],
              ]
            : [
                [name, 4, 16],
                [name, 8, 64],
              ],
        );
    const results: Figure[] = [];
    const lines: string[][] = [];
    for (const [name, m, d] of cases) {
      progress(`${name}: m = ${m}, d = ${d}`);
      const counted = await count(name, m, d);
      const formula = complexity(name, m, d, PUBLISHED);
      for (const what of [...OPERATIONS, 'bytes'] as const) {
        const unit = what === 'bytes' ? 'bytes' : 'operations';
        const label = `${name}-m${m}-d${d}-${what}`;
        results.push({ name: label, value: counted[what], unit, source: 'measured' });
        results.push({ name: `${label}-formula`, value: formula[what], unit, source: 'computed' });
      }
      const pair = (what: keyof Counted, show = whole) => `${show(formula[what])} / ${show(counted[what])}`;
      const agree = ([...OPERATIONS, 'bytes'] as const).every((what) => formula[what] === counted[what]);
      lines.push([
        TITLES[name],
        whole(m),
        whole(d),
        ...OPERATIONS.map((what) => pair(what)),
        pair('bytes', bytes),
        agree ? 'yes' : 'NO',
      ]);
    }
    const [m, d] = [1_000_000, 128];
    const million = NAMES.map((name) => {
      const row = complexity(name, m, d, PUBLISHED);
      for (const what of [...OPERATIONS, 'bytes'] as const) {
        results.push({
          name: `${name}-m${m}-d${d}-${what}-formula`,
          value: row[what],
          unit: what === 'bytes' ? 'bytes' : 'operations',
          source: 'computed',
        });
      }
      return [TITLES[name], ...OPERATIONS.map((what) => whole(row[what])), whole(row.ciphertexts), bytes(row.bytes)];
    });
    const report = {
      bench: 'table2',
      parameters: { parameterSet: PUBLISHED.name, ...versions(), small: small === true },
      machine: machine(),
      results,
    };
    const markdown = page(
      'Table 2: operations and memory of the three encodings',
      'table2',
      [
        '![Multiplications against the size of the gallery](table2.svg)',
        'The formulas, for m templates of d dimensions and n = 4096 slots:',
        table(['encoding', 'multiplications', 'additions', 'rotations', 'ciphertexts of the gallery'], FORMULAS),
        'Formula / counter, of searches that were run:',
        table(
          ['encoding', 'm', 'd', 'multiplications', 'additions', 'rotations', 'relinearisations', 'memory', 'equal'],
          lines,
          [0, 8],
        ),
        'By the formulas, a million templates of 128 dimensions:',
        table(
          ['encoding', 'multiplications', 'additions', 'rotations', 'relinearisations', 'ciphertexts', 'memory'],
          million,
        ),
        'The paper does not count relinearisations: Algorithm 5 makes one a part of every multiplication. Algorithm 7, to the letter, begins each sum with an encryption of zero and so adds d times; Table 2 counts d − 1, as is done here. Where d is not a power of two, log2 d is rounded up. A ciphertext is two polynomials of 4096 coefficients modulo two primes, 131 072 bytes.',
      ],
      report,
      asGiven({ small }),
    );
    return { report, markdown, svg: await plot(d) };
  },
};

async function count(name: EncodingName, m: number, d: number): Promise<Counted> {
  const engine: PaperEngine = await openPaper(name, { dimension: d, templates: m });
  try {
    const { client, server } = engine;
    const { vectors } = identities(m, 1, d).gallery();
    for (const upload of client.enrol(vectors)) server.enrol(upload);
    const query = client.query(vectors.subarray(0, d));
    for (const response of server.search(query.bytes)) query.read(response);
    return { ...server.counts.search, bytes: server.galleryBytes };
  } finally {
    await engine.close();
  }
}

function plot(d: number): Promise<string> {
  const values = NAMES.flatMap((name) =>
    Array.from({ length: 351 }, (_, k) => Math.round(10 ** (k / 50))).map((m) => ({
      system: `${TITLES[name]}, SEAL`,
      m,
      multiplications: complexity(name, m, d, PUBLISHED).multiplications,
    })),
  );
  return render({
    $schema: SCHEMA,
    title: {
      text: `Homomorphic multiplications of one search, ${d} dimensions`,
      subtitle: 'by the formulas of Table 2, n = 4096',
    },
    width: 520,
    height: 300,
    data: { values },
    mark: { type: 'line', strokeWidth: 2.5 },
    encoding: {
      x: logAxis('m', [1, 1e7], 'count', 'templates in the gallery'),
      y: logAxis(
        'multiplications',
        values.map(({ multiplications }) => multiplications),
        'count',
        'multiplications',
      ),
      color: {
        field: 'system',
        type: 'nominal',
        title: null,
        scale: colourScale(NAMES.map((name) => `${TITLES[name]}, SEAL`)),
      },
    },
  });
}
