// The paper's Table 2: homomorphic operations of one search and memory of the gallery, by its
// formulas and by the counters of real searches.

import { type Complexity, complexity, ENCODINGS, type EncodingName, PUBLISHED } from '@hers/paper';
import { identities } from '@hers/vectors/synthetic';
import { openPaper, type PaperEngine } from '../engines/engine-paper.ts';
import { type Data, type Experiment, type Figure, record } from '../lab/experiment.ts';
import { progress } from '../lab/report.ts';

const NAMES = Object.keys(ENCODINGS) as EncodingName[];
const COUNTED = ['multiplications', 'additions', 'rotations', 'relinearisations', 'bytes'] as const;
const MILLION = { templates: 1_000_000, dimension: 128 } as const;

type Counted = Omit<Complexity, 'ciphertexts'>;

interface Case {
  readonly encoding: EncodingName;
  readonly templates: number;
  readonly dimension: number;
}

export interface Table2Parameters {
  readonly seal: string;
  /** Of a ciphertext. */
  readonly slots: number;
  /** Searches that were run. */
  readonly cases: readonly Case[];
  /** The size for which only the formulas are evaluated. */
  readonly computed: { readonly templates: number; readonly dimension: number };
}

function casesOf(small: boolean): Case[] {
  if (small) return NAMES.map((encoding) => ({ encoding, templates: 2, dimension: 3 }));
  return NAMES.flatMap((encoding) => [
    { encoding, templates: 4, dimension: 16 },
    { encoding, templates: 8, dimension: 64 },
    ...(encoding === 'hers' ? [{ encoding, templates: 10_000, dimension: 16 }] : []),
  ]);
}

export const table2: Experiment = {
  name: 'table2',
  summary: 'operations and memory: the formulas of the paper beside the counters of real searches',
  options: {},
  async measure(values): Promise<Data<Table2Parameters>> {
    const cases = casesOf(values.small === true);
    const results: Figure[] = [];
    for (const { encoding, templates: m, dimension: d } of cases) {
      progress(`${encoding}: m = ${m}, d = ${d}`);
      const counted = await count(encoding, m, d);
      const formulas = formulasOf(encoding, m, d);
      for (const [i, what] of COUNTED.entries()) {
        const { unit } = formulas[i];
        const name = `${encoding}-m${m}-d${d}-${what}`;
        results.push({ name, value: counted[what], unit, source: 'measured' }, formulas[i]);
      }
    }
    for (const encoding of NAMES) {
      const { templates: m, dimension: d } = MILLION;
      const value = complexity(encoding, m, d, PUBLISHED).ciphertexts;
      results.push(...formulasOf(encoding, m, d));
      results.push({
        name: `${encoding}-m${m}-d${d}-ciphertexts-formula`,
        value,
        unit: 'ciphertexts',
        source: 'computed',
      });
    }
    return record('table2', values, {
      parameters: { seal: PUBLISHED.name, slots: PUBLISHED.n, cases, computed: MILLION },
      results,
    });
  },
};

function formulasOf(encoding: EncodingName, m: number, d: number): Figure[] {
  const formula = complexity(encoding, m, d, PUBLISHED);
  return COUNTED.map((what) => ({
    name: `${encoding}-m${m}-d${d}-${what}-formula`,
    value: formula[what],
    unit: what === 'bytes' ? 'bytes' : 'operations',
    source: 'computed',
  }));
}

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
