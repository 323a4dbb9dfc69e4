// The paper's Table 3: seconds and gigabytes for a gallery of 100 million.

import { availableParallelism } from 'node:os';
import { PUBLISHED } from '@hers/paper';
import { type Compressor, fit } from '@hers/training';
import { identities } from '@hers/vectors/synthetic';
import type { PaperVariantName } from '../engines/engine-paper.ts';
import { openSeal } from '../engines/seal.ts';
import { measureSeal, sealBytes, sealSeconds } from '../engines/seal-cost.ts';
import { SharedMaskGallery } from '../engines/shared-mask-cost.ts';
import { HEADLINE_DIMENSIONS, type HeadlineDimensions } from '../lab/arithmetic.ts';
import { type Data, type Experiment, type Figure, record, type Source } from '../lab/experiment.ts';
import { CLIENT, TABLE_3, TWO_STAGE } from '../lab/published.ts';
import { compared, progress } from '../lab/report.ts';
import { wholeNumbers } from '../lab/runner.ts';
import { type Effort, loadNow, minimumAsync } from '../lab/timing.ts';

export interface Table3Parameters {
  readonly templates: number;
  readonly dimensions: readonly number[];
  /** Those of the headline ratios, which are measured besides; the paper's unless given. */
  readonly headlines?: HeadlineDimensions;
  /** Of the network that compresses one vector. */
  readonly chain?: readonly number[];
  /** Of SEAL's second row, and of our scans; as many as there are cores unless given. */
  readonly threads?: number;
  readonly seal: string;
  readonly runs: number;
  readonly kernel: string;
  readonly load: number;
}

interface Cell {
  readonly seconds: number;
  readonly cpu?: number;
  /** The paper does not say it of every dimension. */
  readonly bytes?: number;
  readonly source: Source;
}

interface Row {
  readonly name: string;
  /** By dimension. */
  readonly cells: Map<number, Cell>;
}

interface Sizes {
  readonly small: boolean;
  readonly templates: number;
  /** Of the table, and those that only the headline ratios need. */
  readonly dimensions: readonly number[];
  readonly threads: number;
}

const RUNS = 3;
const DISTINCT = 16;
const SYSTEMS: readonly [PaperVariantName, string][] = [
  ['boddeti', 'boddeti-seal'],
  ['hers', 'hers-seal'],
  ['hers-bgv', 'hers-seal-bgv'],
];

export const table3: Experiment = {
  name: 'table3',
  summary: "seconds and gigabytes for 100 million templates of 32, 64, 128 and 512 dimensions; the paper's headlines",
  options: { dimensions: { type: 'string', help: 'others than 32,64,128,512' } },
  async measure(values): Promise<Data<Table3Parameters>> {
    const small = values.small === true;
    const load = loadNow();
    const templates = small ? 100_000 : TABLE_3.templates;
    const shown = wholeNumbers(values.dimensions, small ? [2, 4] : TABLE_3.dimensions);
    const headlines = small ? { encoding: 4, compressed: 2, coarse: 2, full: 4 } : HEADLINE_DIMENSIONS;
    const dimensions = [...new Set([...shown, ...Object.values(headlines)])].toSorted((a, b) => a - b);
    const sizes = { small, templates, dimensions, threads: availableParallelism() };
    // Ours needs no coarse stage.
    const once = dimensions.filter((d) => shown.includes(d) || d !== headlines.coarse);
    const { kernel, rows: own, decryption } = await ours({ ...sizes, dimensions: once });
    const rows = [...published(dimensions), ...(await seal(sizes)), ...own];
    const { chain, figures: client } = await clientFigures(small, decryption);
    return record('table3', values, {
      parameters: {
        ...{ templates, dimensions: shown, headlines, chain },
        ...{ threads: sizes.threads, seal: PUBLISHED.name, runs: RUNS, kernel, ...load },
      },
      results: [...figures(rows), ...client],
    });
  },
};

function figures(rows: readonly Row[]): Figure[] {
  const baselines = rows.find((row) => row.name === 'hers-seal')!.cells;
  return rows.flatMap(({ name: system, cells }) =>
    [...cells].flatMap(([dimension, cell]): Figure[] => {
      const { source } = cell;
      const name = `${system}-d${dimension}`;
      const time = { name, value: cell.seconds, unit: 's', source };
      const against = { name: `hers-seal-d${dimension}`, value: baselines.get(dimension)!.seconds, unit: 's' };
      return [
        system.startsWith('ours') ? { ...compared(time, against), source } : time,
        ...(cell.cpu === undefined ? [] : [{ name: `${name}-cpu`, value: cell.cpu, unit: 's', source }]),
        // A size is known without building it.
        ...(cell.bytes === undefined
          ? []
          : [
              {
                name: `${name}-bytes`,
                value: cell.bytes,
                unit: 'bytes',
                source: source === 'published' ? ('published' as const) : ('computed' as const),
              },
            ]),
      ];
    }),
  );
}

function published(dimensions: readonly number[]): Row[] {
  const cell = ({ seconds, gigabytes }: { seconds: number; gigabytes?: number }): Cell => ({
    seconds,
    ...(gigabytes === undefined ? {} : { bytes: gigabytes * 1e9 }),
    source: 'published',
  });
  const { coarseDimension, fineDimension, coarseSeconds, singleSeconds } = TWO_STAGE;
  const hers: Readonly<Record<number, { seconds: number; gigabytes?: number }>> = {
    ...TABLE_3.hers,
    [coarseDimension]: { seconds: coarseSeconds },
    [fineDimension]: { seconds: singleSeconds },
  };
  const known = dimensions.filter((d) => hers[d]);
  return [
    { name: 'published-boddeti', cells: new Map(known.map((d) => [d, cell(TABLE_3.boddeti)])) },
    { name: 'published-hers', cells: new Map(known.map((d) => [d, cell(hers[d])])) },
  ];
}

/** In one thread, and in as many as there are cores. */
async function seal({ templates: m, dimensions, small, threads: cores }: Sizes): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [variant, name] of SYSTEMS)
    for (const threads of new Set([1, cores])) {
      const cells: Row['cells'] = new Map();
      for (const dimension of dimensions) {
        const blocks = small ? 1 : variant === 'boddeti' ? 24 : 3;
        const cost = await measureSeal(variant, dimension, { blocks, runs: small ? 1 : RUNS, distinct: 1, threads });
        cells.set(dimension, { ...sealSeconds(cost, m), bytes: sealBytes(cost, m) });
      }
      rows.push({ name: threads === 1 ? name : `${name}-all`, cells });
    }
  return rows;
}

type Decryption = readonly { readonly name: string; readonly seconds: number }[];

async function ours({
  templates: m,
  dimensions,
  small,
  threads,
}: Sizes): Promise<{ rows: Row[]; kernel: string; decryption: Decryption }> {
  const rows: Row[] = [];
  const decryption = [];
  let kernel = '';
  for (const profile of ['exact', 'compact'] as const) {
    const cells: Row['cells'] = new Map();
    let score = Number.POSITIVE_INFINITY;
    for (const dimension of dimensions) {
      progress(`ours, ${profile}, d = ${dimension}`);
      const gallery = await SharedMaskGallery.open({
        ...{ profile, dimension, threads },
        distinct: small ? 1 : DISTINCT,
        runs: small ? 1 : RUNS,
      });
      try {
        await gallery.check();
        kernel ||= gallery.kernelDetail;
        cells.set(dimension, await gallery.search(m));
        score = Math.min(score, (await gallery.decryption(effortOf(small))) / gallery.plan.capacity);
      } finally {
        await gallery.close();
      }
    }
    rows.push({ name: `ours-${profile}`, cells });
    decryption.push({ name: `ours-${profile}`, seconds: score * CLIENT.templates });
  }
  return { rows, kernel, decryption };
}

const effortOf = (small: boolean): Effort =>
  small ? { atLeastMs: 0, atLeastRuns: 1, warmups: 0 } : { atLeastMs: 500, atLeastRuns: 5, warmups: 3 };

/** What the client does, in one thread: the scores of a block are measured, and multiplied. */
async function clientFigures(
  small: boolean,
  own: Decryption,
): Promise<{ chain: readonly number[]; figures: Figure[] }> {
  progress('the client: decryption of scores, compression of one vector');
  const baseline = await openSeal();
  let sealSeconds: number;
  try {
    const { ms } = baseline.responseDecryption(small ? 2 : 32, effortOf(small));
    sealSeconds = (ms / 1000 / baseline.parameters.n) * CLIENT.templates;
  } finally {
    baseline.close();
  }
  const { chain, seconds } = await inference(small);
  const time = (name: string, value: number, source: Source): Figure => ({ name, value, unit: 's', source });
  return {
    chain,
    figures: [
      time('published-decryption', CLIENT.decryptionSeconds, 'published'),
      ...[{ name: 'seal', seconds: sealSeconds }, ...own].map(({ name, seconds }) =>
        time(`${name}-decryption`, seconds, 'extrapolated'),
      ),
      time('published-inference', CLIENT.inferenceSeconds, 'published'),
      time('network-inference', seconds, 'measured'),
    ],
  };
}

/** One vector through DeepMDS++, whose weights make no difference to its time. */
async function inference(small: boolean): Promise<{ chain: readonly number[]; seconds: number }> {
  const [from, to] = small ? [16, 4] : [512, 64];
  const { vectors, labels } = identities(512, 4, from).gallery();
  const network: Compressor = await fit('deepmds++', vectors, labels, {
    dimension: to,
    validation: 0,
    settings: { steps: 1 },
  });
  const one = vectors.slice(0, from);
  const { min } = await minimumAsync(() => network.transform(one), effortOf(small));
  return { chain: network.metadata.settings.chain as readonly number[], seconds: min / 1000 };
}
