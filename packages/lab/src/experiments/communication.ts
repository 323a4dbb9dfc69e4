// What travels: bytes of a probe, and of the scores that come back, for each engine, beside the paper's.

import { type Compression, Context, ENCODINGS, parameterSet } from '@hers/paper';
import {
  blockMatrix,
  decodeBlock,
  decodeQuery,
  encodeResponse,
  expandedQuery,
  type Profile,
  scanBlock,
} from '@hers/scheme';
import { encryptBlock, encryptQuery, MasterSeed } from '@hers/scheme/secret';
import { openPaper, PAPER_VARIANTS, type PaperVariantName } from '../engine-paper.ts';
import { comparablePlan } from '../engine-shared-mask.ts';
import { compared, machine, progress } from '../report.ts';
import { identities } from '../synthetic.ts';
import { asGiven, type Experiment, type Figure, type Outcome, type Source, wholeNumbers } from './experiment.ts';
import { page, table, versions } from './markdown.ts';
import { COLOURS, DOTS, logAxis, render, SCHEMA, systemAxis } from './plot.ts';
import { COMMUNICATION } from './published.ts';
import { bytes, templates } from './quantities.ts';

interface Row {
  readonly name: string;
  readonly system: string;
  readonly colour: string;
  readonly keys?: number;
  readonly probe: number;
  /** For one block, and its templates. */
  readonly response?: number;
  readonly capacity?: number;
  readonly source: Source;
}

const CASES: readonly {
  variant: PaperVariantName;
  compression: Compression;
  name: string;
  system: string;
  colour: string;
}[] = [
  { variant: 'naive', compression: 'none', name: 'naive-seal', system: 'naive, SEAL', colour: 'naive, SEAL' },
  { variant: 'boddeti', compression: 'none', name: 'boddeti-seal', system: 'Boddeti, SEAL', colour: 'Boddeti, SEAL' },
  { variant: 'hers', compression: 'none', name: 'hers-seal', system: 'HERS, SEAL', colour: 'HERS, SEAL' },
  { variant: 'hers', compression: 'zlib', name: 'hers-seal-zlib', system: 'HERS, SEAL, zlib', colour: 'HERS, SEAL' },
  {
    variant: 'hers-bgv',
    compression: 'none',
    name: 'hers-seal-bgv',
    system: 'HERS, SEAL, improved',
    colour: 'HERS, SEAL, improved',
  },
  {
    variant: 'hers-bgv',
    compression: 'zlib',
    name: 'hers-seal-bgv-zlib',
    system: 'HERS, SEAL, improved, zlib',
    colour: 'HERS, SEAL, improved',
  },
];

export const communication: Experiment = {
  name: 'communication',
  summary: "bytes of a probe and of a response for each engine, beside the paper's",
  options: { dimensions: { type: 'string', help: 'others than 64,128,512' } },
  async run({ small = false, dimensions: asked }): Promise<Outcome> {
    const dimensions = wholeNumbers(asked, small ? [4] : [64, 128, 512]);
    const galleries = [1_000_000, COMMUNICATION.templates];
    const byDimension = new Map<number, Row[]>();
    for (const dimension of dimensions) byDimension.set(dimension, await rowsFor(dimension));
    const total = (row: Row, m: number) => Math.ceil(m / row.capacity!) * row.response!;
    const results: Figure[] = [];
    for (const [dimension, rows] of byDimension) {
      const baseline = rows.find(({ name }) => name === 'hers-seal')!;
      for (const row of rows) {
        const probe = { name: `${row.name}-d${dimension}-probe`, value: row.probe, unit: 'bytes', source: row.source };
        const against = { name: `hers-seal-d${dimension}-probe`, value: baseline.probe, unit: 'bytes' };
        results.push(row.name.startsWith('ours') ? { ...compared(probe, against), source: row.source } : probe);
        if (row.response === undefined) continue;
        results.push({
          name: `${row.name}-d${dimension}-response`,
          value: row.response / row.capacity!,
          unit: 'bytes/score',
          source: row.source,
        });
        if (row.keys !== undefined)
          results.push({ name: `${row.name}-d${dimension}-keys`, value: row.keys, unit: 'bytes', source: row.source });
      }
    }
    const report = {
      bench: 'communication',
      parameters: { dimensions, galleries, ...versions(), small: small === true },
      machine: machine(),
      results,
    };
    const sections = [...byDimension].flatMap(([dimension, rows]) => [
      `### ${dimension} dimensions`,
      table(
        [
          'system',
          'keys, once',
          'probe',
          'bytes per score',
          ...galleries.map((m) => `scores of ${templates(m)}`),
          'source',
        ],
        rows.map((row) => [
          row.system,
          row.keys === undefined ? '' : row.keys === 0 ? 'none' : bytes(row.keys),
          bytes(row.probe),
          row.response === undefined
            ? ''
            : (row.response / row.capacity!).toLocaleString('en-GB', { maximumSignificantDigits: 4 }),
          ...galleries.map((m) =>
            row.response === undefined
              ? row.name === 'published-hers' && m === COMMUNICATION.templates
                ? bytes(COMMUNICATION.response)
                : ''
              : bytes(total(row, m)),
          ),
          row.source,
        ]),
        [0, galleries.length + 4],
      ),
    ]);
    const markdown = page(
      'Communication: bytes of a probe and of its scores',
      'communication',
      [
        '![Bytes of a probe and of each score](communication.svg)',
        ...sections,
        `The sizes of messages are those of real messages; totals are a block's, multiplied. The paper gives ${bytes(COMMUNICATION.hersProbe)} for a HERS probe of 64 dimensions, which is the size of 64 ciphertexts compressed by zlib. It also says ${bytes(COMMUNICATION.boddetiProbe)} for Boddeti's probe, and ${bytes(COMMUNICATION.response)} for the scores of 100 million templates, a byte for each: neither is the size of a ciphertext with these parameters, which takes at least 91 KB.`,
        'With Boddeti\'s encoding, and the naive one, every score comes in a ciphertext of its own. "Improved" is encryption by the secret key, whose random half travels as a seed, and responses of which one prime is dropped before they are sent; the paper has neither.',
      ],
      report,
      asGiven({ dimensions: asked, small }),
    );
    return { report, markdown, svg: await plot(byDimension.get(dimensions[0])!, dimensions[0]) };
  },
};

async function rowsFor(dimension: number): Promise<Row[]> {
  const rows: Row[] = [];
  if (dimension === COMMUNICATION.dimension) {
    rows.push({
      name: 'published-boddeti',
      system: 'Boddeti, as published',
      colour: 'published',
      probe: COMMUNICATION.boddetiProbe,
      source: 'published',
    });
    rows.push({
      name: 'published-hers',
      system: 'HERS, as published',
      colour: 'published',
      probe: COMMUNICATION.hersProbe,
      source: 'published',
    });
  }
  for (const { variant, compression, name, system, colour } of CASES) {
    progress(`${system}, d = ${dimension}`);
    rows.push({ name, system, colour, source: 'measured', ...(await measure(variant, compression, dimension)) });
  }
  for (const profile of ['exact', 'compact'] as const) {
    const system = `this project, ${profile}`;
    rows.push({ name: `ours-${profile}`, system, colour: system, source: 'measured', ...ours(profile, dimension) });
  }
  return rows;
}

function ours(profile: Profile, dimension: number) {
  const plan = comparablePlan(dimension, profile);
  const master = MasterSeed.generate();
  const key = master.collectionKey(plan, crypto.getRandomValues(new Uint8Array(16)));
  try {
    const { vectors } = identities(1, 1, dimension).gallery();
    const block = blockMatrix(decodeBlock(encryptBlock(key, vectors)));
    const { query, secret } = encryptQuery(key, vectors);
    secret.wipe();
    const response = encodeResponse(scanBlock(block, expandedQuery(decodeQuery(query))));
    return { keys: 0, probe: query.length, response: response.length, capacity: plan.parameters.n };
  } finally {
    key.wipe();
    master.wipe();
  }
}

async function measure(variant: PaperVariantName, compression: Compression, dimension: number) {
  const { parameters, encoding } = PAPER_VARIANTS[variant];
  using context = await Context.open(parameterSet(parameters), { compression });
  const engine = await openPaper(variant, { dimension, context });
  try {
    const { client, server } = engine;
    const { vectors } = identities(1, 1, dimension).gallery();
    for (const upload of client.enrol(vectors)) server.enrol(upload);
    const query = client.query(vectors);
    const [response] = [...server.search(query.bytes)];
    return {
      keys: client.keys.length,
      probe: query.bytes.length,
      response: response.length,
      capacity: ENCODINGS[encoding].capacity(context.parameters.n),
    };
  } finally {
    await engine.close();
  }
}

function plot(rows: readonly Row[], dimension: number): Promise<string> {
  const measures = [
    { title: 'bytes of a probe', of: (row: Row) => row.probe },
    { title: 'bytes of each score', of: (row: Row) => row.response! / row.capacity! },
  ];
  const systems = rows.map(({ system }) => system);
  return render({
    $schema: SCHEMA,
    title: {
      text: `What travels for one search, ${dimension} dimensions`,
      subtitle: 'logarithmic; black: as published',
    },
    hconcat: measures.map(({ title, of }) => {
      const values = rows
        .filter((row) => Number.isFinite(of(row)))
        .map((row) => ({
          system: row.system,
          value: of(row),
          label: bytes(of(row)),
          colour: COLOURS[row.colour],
          source: row.source,
        }));
      return {
        title: { text: title, fontSize: 13 },
        width: 260,
        height: { step: 26 },
        data: { values },
        encoding: {
          y: systemAxis(systems.filter((system) => values.some((value) => value.system === system))),
          x: logAxis(
            'value',
            values.map(({ value }) => value),
            'bytes',
            null,
          ),
        },
        layer: DOTS,
      };
    }),
  });
}
