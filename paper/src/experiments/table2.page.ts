// The page of Table 2.

import type { Data, Rendered } from '../lab/experiment.ts';
import { Figures, page, table } from '../lab/markdown.ts';
import { bySystem, logAxis, logAxisOf, NAMED_LINE_END, render as plotted, SCHEMA } from '../lab/plot.ts';
import { bytes, grouped, significant, templates } from '../lab/quantities.ts';
import type { Table2Parameters } from './table2.ts';

const ENCODINGS = ['naive', 'boddeti', 'hers'] as const;
const TITLES = { naive: 'naive', boddeti: 'Boddeti', hers: 'HERS' } as const;
const OPERATIONS = ['multiplications', 'additions', 'rotations', 'relinearisations'] as const;

/** The first column of the formulas, for m templates of d dimensions and n slots. */
const MULTIPLICATIONS = {
  naive: (m: number, d: number) => m * d,
  boddeti: (m: number) => m,
  hers: (m: number, d: number, n: number) => Math.ceil(m / n) * d,
} as const;

const FORMULAS: readonly (readonly string[])[] = [
  ['naive', 'm·d', '1', 'm·(d − 1)', '1', '0', 'm·d'],
  ['Boddeti', 'm', 'd', 'm·log2 d', '(d − 1) / log2 d', 'm·log2 d', 'm'],
  ['HERS', '⌈m/n⌉·d', 'm / ⌈m/n⌉', '⌈m/n⌉·(d − 1)', 'm / ⌈m/n⌉', '0', '⌈m/n⌉·d'],
];

/** The paper's Ratio columns: how many times more the naive encoding takes. */
const RATED: readonly string[] = ['multiplications', 'additions'];

export async function render(data: Data<Table2Parameters>): Promise<Rendered> {
  const { computed, slots } = data.parameters;
  const markdown = page(
    data,
    'Table 2: operations and memory of the three encodings',
    'Multiplications against the size of the gallery',
    [
      `By the formulas, ${templates(computed.templates)} templates of ${computed.dimension} dimensions:`,
      computedTable(data),
      'Searches that were run, and what their counters said:',
      countedTable(data),
      `The formulas, for m templates of d dimensions and n = ${grouped(slots)} slots. Where d is not a power of two, log2 d is rounded up.`,
      table(
        ['encoding', 'multiplications', 'ratio', 'additions', 'ratio', 'rotations', 'ciphertexts of the gallery'],
        FORMULAS,
      ),
      'A ratio is that of the naive encoding to this one, as in the paper. The paper does not count relinearisations: Algorithm 5 makes one a part of every multiplication. Algorithm 7 begins each sum with an encryption of zero, so to the letter it adds d times; Table 2 counts d − 1, and so do we. A ciphertext is two polynomials of 4 096 coefficients modulo two primes, 131 072 bytes.',
    ],
  );
  return { markdown, svg: await plot(computed.dimension, slots) };
}

function computedTable(data: Data<Table2Parameters>): string {
  const { templates: m, dimension: d } = data.parameters.computed;
  const figures = new Figures(data);
  return table(
    [
      'encoding',
      ...OPERATIONS.flatMap((what) => (RATED.includes(what) ? [what, 'ratio'] : [what])),
      'ciphertexts',
      'memory',
    ],
    ENCODINGS.map((encoding) => {
      const value = (what: string, of: string = encoding) => figures.value(`${of}-m${m}-d${d}-${what}-formula`);
      return [
        TITLES[encoding],
        ...[...OPERATIONS, 'ciphertexts'].flatMap((what) => {
          const ratio = () => significant(value(what, 'naive') / value(what), 4);
          return RATED.includes(what) ? [grouped(value(what)), ratio()] : [grouped(value(what))];
        }),
        bytes(value('bytes')),
      ];
    }),
  );
}

function countedTable(data: Data<Table2Parameters>): string {
  const figures = new Figures(data);
  return table(
    ['encoding', 'm', 'd', ...OPERATIONS, 'memory', 'as by the formulas'],
    data.parameters.cases.map(({ encoding, templates: m, dimension: d }) => {
      const name = (what: string) => `${encoding}-m${m}-d${d}-${what}`;
      const agree = [...OPERATIONS, 'bytes'].every(
        (what) => figures.value(name(what)) === figures.value(`${name(what)}-formula`),
      );
      return [
        TITLES[encoding],
        grouped(m),
        grouped(d),
        ...OPERATIONS.map((what) => grouped(figures.value(name(what)))),
        bytes(figures.value(name('bytes'))),
        agree ? 'yes' : 'NO',
      ];
    }),
    [0, 8],
  );
}

const MOST = 10_000_000;

function plot(d: number, n: number): Promise<string> {
  const sizes = [...new Set(Array.from({ length: 141 }, (_, k) => Math.round(10 ** (k / 20))))];
  const values = ENCODINGS.flatMap((encoding) =>
    sizes.map((m) => ({ system: `${TITLES[encoding]}, SEAL`, m, multiplications: MULTIPLICATIONS[encoding](m, d, n) })),
  );
  const encoding = {
    x: logAxis('m', [1, MOST], 'count', 'templates in the gallery'),
    y: logAxisOf(values, 'multiplications', 'count', 'multiplications'),
    color: bySystem(
      ENCODINGS.map((name) => `${TITLES[name]}, SEAL`),
      null,
    ).color,
  };
  return plotted({
    $schema: SCHEMA,
    title: {
      text: `Homomorphic multiplications of one search, ${d} dimensions`,
      subtitle: `by the formulas of Table 2, n = ${grouped(n)}`,
    },
    width: 520,
    height: 300,
    encoding,
    layer: [
      { data: { values }, mark: { type: 'line', strokeWidth: 2.5 } },
      {
        data: {
          values: values
            .filter(({ m }) => m === MOST)
            .map((value) => ({ ...value, label: value.system.split(',')[0] })),
        },
        mark: NAMED_LINE_END,
        encoding: { text: { field: 'label', type: 'nominal' } },
      },
    ],
  });
}
