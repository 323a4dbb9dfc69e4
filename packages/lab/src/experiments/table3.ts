// The paper's Table 3: seconds and gigabytes for a gallery of 100 million.

import { PUBLISHED } from '@hers/paper';
import type { PaperVariantName } from '../engine-paper.ts';
import { compared, progress } from '../report.ts';
import { wholeNumbers } from '../runner.ts';
import { loadNow } from './clock.ts';
import type { Data, Experiment, Figure, Source } from './experiment.ts';
import { TABLE_3 } from './published.ts';
import { record } from './record.ts';
import { measureSeal, sealBytes, sealSeconds } from './seal-cost.ts';
import { SharedMaskGallery } from './shared-mask-cost.ts';

export interface Table3Parameters {
  readonly templates: number;
  readonly dimensions: readonly number[];
  readonly seal: string;
  readonly runs: number;
  readonly kernel: string;
  readonly load: number;
}

interface Cell {
  readonly seconds: number;
  readonly cpu?: number;
  readonly bytes: number;
  readonly source: Source;
}

interface Row {
  readonly name: string;
  /** By dimension. */
  readonly cells: Map<number, Cell>;
}

const RUNS = 3;
const DISTINCT = 16;

export const table3: Experiment = {
  name: 'table3',
  summary: 'seconds and gigabytes for 100 million templates of 32, 64, 128 and 512 dimensions',
  options: { dimensions: { type: 'string', help: 'others than 32,64,128,512' } },
  async measure(values): Promise<Data<Table3Parameters>> {
    const small = values.small === true;
    const load = loadNow();
    const templates = small ? 100_000 : TABLE_3.templates;
    const dimensions = wholeNumbers(values.dimensions, small ? [4, 8] : TABLE_3.dimensions);
    const { kernel, rows: own } = await ours(templates, dimensions, small);
    const rows = [...published(dimensions), ...(await seal(templates, dimensions, small)), ...own];
    return record('table3', values, {
      parameters: { templates, dimensions, seal: PUBLISHED.name, runs: RUNS, kernel, ...load },
      results: figures(rows),
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
        {
          name: `${name}-bytes`,
          value: cell.bytes,
          unit: 'bytes',
          source: source === 'published' ? 'published' : 'computed',
        },
      ];
    }),
  );
}

function published(dimensions: readonly number[]): Row[] {
  const known = dimensions.filter((d) => TABLE_3.hers[d]);
  const cell = ({ seconds, gigabytes }: { seconds: number; gigabytes: number }) => ({
    seconds,
    bytes: gigabytes * 1e9,
    source: 'published' as const,
  });
  return [
    {
      name: 'published-boddeti',
      cells: new Map(known.map((d) => [d, cell(TABLE_3.boddeti)])),
    },
    {
      name: 'published-hers',
      cells: new Map(known.map((d) => [d, cell(TABLE_3.hers[d])])),
    },
  ];
}

async function seal(m: number, dimensions: readonly number[], small: boolean): Promise<Row[]> {
  const systems: [PaperVariantName, string][] = [
    ['boddeti', 'boddeti-seal'],
    ['hers', 'hers-seal'],
    ['hers-bgv', 'hers-seal-bgv'],
  ];
  const rows: Row[] = [];
  for (const [variant, name] of systems) {
    const cells: Row['cells'] = new Map();
    for (const dimension of dimensions) {
      const blocks = small ? 1 : variant === 'boddeti' ? 24 : 3;
      const cost = await measureSeal(variant, dimension, { blocks, runs: small ? 1 : RUNS, distinct: 1 });
      cells.set(dimension, { ...sealSeconds(cost, m), bytes: sealBytes(cost, m) });
    }
    rows.push({ name, cells });
  }
  return rows;
}

async function ours(
  m: number,
  dimensions: readonly number[],
  small: boolean,
): Promise<{ rows: Row[]; kernel: string }> {
  const rows: Row[] = [];
  let kernel = '';
  for (const profile of ['exact', 'compact'] as const) {
    const cells: Row['cells'] = new Map();
    for (const dimension of dimensions) {
      progress(`ours, ${profile}, d = ${dimension}`);
      const gallery = await SharedMaskGallery.open({
        profile,
        dimension,
        distinct: small ? 1 : DISTINCT,
        runs: small ? 1 : RUNS,
      });
      try {
        await gallery.check();
        kernel ||= gallery.kernelDetail;
        cells.set(dimension, await gallery.search(m));
      } finally {
        await gallery.close();
      }
    }
    rows.push({ name: `ours-${profile}`, cells });
  }
  return { rows, kernel };
}
