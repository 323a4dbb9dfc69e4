// The paper's Table 1: one search of a gallery of a million, 128 dimensions. The published figures,
// the published system run here, and ours.

import { PUBLISHED } from '@hers/paper';
import type { PaperVariantName } from '../engines/engine-paper.ts';
import { measureSeal, sealSeconds } from '../engines/seal-cost.ts';
import { SharedMaskGallery } from '../engines/shared-mask-cost.ts';
import { type Data, type Experiment, type Figure, record, type Source } from '../lab/experiment.ts';
import { TABLE_1, TABLE_1_HERS } from '../lab/published.ts';
import { compared, progress } from '../lab/report.ts';
import { loadNow } from '../lab/timing.ts';

export interface Table1Parameters {
  readonly templates: number;
  readonly dimension: number;
  readonly seal: string;
  readonly runs: number;
  readonly kernel: string;
  /** When our scans used all of them. */
  readonly threads: number;
  readonly load: number;
}

interface Row {
  readonly name: string;
  readonly seconds: number;
  readonly cpu?: number;
  readonly source: Source;
}

const BASELINE = 'hers-seal';
const RUNS = 5;

export const table1: Experiment = {
  name: 'table1',
  summary: 'one search of a million templates: published figures, the published system on SEAL, and ours',
  options: {},
  async measure(values): Promise<Data<Table1Parameters>> {
    const small = values.small === true;
    const load = loadNow();
    const templates = small ? 10_000 : TABLE_1_HERS.templates;
    const dimension = small ? 4 : TABLE_1_HERS.dimension;
    const { rows: own, kernel, threads } = await ours(templates, dimension, small);
    const rows = [...published(), ...(await seal(templates, dimension, small)), ...own];
    return record('table1', values, {
      parameters: { templates, dimension, seal: PUBLISHED.name, runs: RUNS, kernel, threads, ...load },
      results: figures(rows),
    });
  },
};

function published(): Row[] {
  return [
    { name: 'published-boddeti-2018', seconds: TABLE_1.boddeti.seconds, source: 'published' },
    { name: 'published-hers', seconds: TABLE_1_HERS.seconds, source: 'published' },
  ];
}

function figures(rows: readonly Row[]): Figure[] {
  const baseline = { name: BASELINE, value: rows.find(({ name }) => name === BASELINE)!.seconds, unit: 's' };
  return rows.flatMap(({ name, seconds: value, cpu, source }): Figure[] => {
    const figure = { name, value, unit: 's', source };
    return [
      name === BASELINE || source === 'published' ? figure : { ...compared(figure, baseline), source },
      ...(cpu === undefined ? [] : [{ name: `${name}-cpu`, value: cpu, unit: 's', source }]),
    ];
  });
}

async function seal(m: number, d: number, small: boolean): Promise<Row[]> {
  const cases: { variant: PaperVariantName; name: string; blocks: number }[] = [
    { variant: 'naive', name: 'naive-seal', blocks: small ? 1 : 3 },
    { variant: 'boddeti', name: 'boddeti-seal', blocks: small ? 3 : 64 },
    { variant: 'hers', name: BASELINE, blocks: small ? 1 : 3 },
    { variant: 'hers-lazy', name: 'hers-seal-lazy', blocks: small ? 1 : 3 },
    { variant: 'hers-bgv', name: 'hers-seal-bgv', blocks: small ? 2 : 20 },
  ];
  const rows: Row[] = [];
  for (const { variant, name, blocks } of cases) {
    const cost = await measureSeal(variant, d, { blocks, runs: small ? 1 : RUNS, distinct: small ? 1 : 2 });
    rows.push({ name, ...sealSeconds(cost, m) });
  }
  return rows;
}

/** In one thread, and where there are more, in all of them. */
async function ours(m: number, d: number, small: boolean) {
  const rows: Row[] = [];
  let kernel = '';
  let most = 1;
  for (const profile of ['exact', 'compact'] as const) {
    for (const threads of small ? [1] : [1, undefined]) {
      progress(`ours, ${profile}, ${threads === 1 ? 'one thread' : 'all threads'}`);
      const gallery = await SharedMaskGallery.open({
        profile,
        dimension: d,
        runs: small ? 1 : RUNS,
        ...(threads === undefined ? {} : { threads }),
      });
      try {
        await gallery.check();
        const time = await gallery.search(m);
        kernel ||= gallery.kernelDetail;
        const many = Number(/(\d+) threads?$/.exec(gallery.kernelDetail)?.[1] ?? 1);
        most = Math.max(most, many);
        if (threads === undefined && many === 1) continue;
        rows.push({
          name: `ours-${profile}${threads === undefined ? '-threads' : ''}`,
          seconds: time.seconds,
          cpu: time.cpu,
          source: time.source,
        });
      } finally {
        await gallery.close();
      }
    }
  }
  return { rows, kernel, threads: most };
}
