// What travels: bytes of a probe, and of the scores that come back, for each engine, beside the
// paper's.

import { type Compression, Context, ENCODINGS, parameterSet } from '@hers/paper';
import { openPaper, PAPER_VARIANTS, type PaperVariantName } from '@hers/paper/engines/engine-paper';
import { comparablePlan } from '@hers/paper/engines/engine-shared-mask';
import { type Data, type Experiment, type Figure, record, type Source } from '@hers/paper/lab/experiment';
import { COMMUNICATION } from '@hers/paper/lab/published';
import { compared, progress } from '@hers/paper/lab/report';
import { wholeNumbers } from '@hers/paper/lab/runner';
import {
  blockMatrix,
  decodeBlock,
  decodeQuery,
  encodeResponse,
  expandedQuery,
  type Profile,
  scanBlock,
} from '@hers/scheme';
import {
  decodeEvaluation,
  decodeOpenQuery,
  Evaluator,
  encodePackedResponse,
  evaluationKeys,
  openPlan,
} from '@hers/scheme/open';
import { encryptBlock, encryptQuery, MasterSeed } from '@hers/scheme/secret';
import {
  encryptPublicQuery,
  encryptShortQuery,
  makeDeviceKey,
  makeEvaluationKeys,
  makePublicKey,
} from '@hers/scheme/secret/open';
import { scanOpenBlock } from '@hers/scheme/testing/slow-open';
import { identities } from '@hers/vectors/synthetic';

export interface CommunicationParameters {
  readonly dimensions: readonly number[];
  /** Templates of the galleries whose scores are added up. */
  readonly galleries: readonly number[];
}

interface Row {
  readonly name: string;
  readonly keys?: number;
  readonly probe: number;
  /** For one block, and its templates. */
  readonly response?: number;
  readonly capacity?: number;
  readonly source: Source;
}

const CASES: readonly { variant: PaperVariantName; compression: Compression; name: string }[] = [
  { variant: 'naive', compression: 'none', name: 'naive-seal' },
  { variant: 'boddeti', compression: 'none', name: 'boddeti-seal' },
  { variant: 'hers', compression: 'none', name: 'hers-seal' },
  { variant: 'hers', compression: 'zlib', name: 'hers-seal-zlib' },
  { variant: 'hers-bgv', compression: 'none', name: 'hers-seal-bgv' },
  { variant: 'hers-bgv', compression: 'zlib', name: 'hers-seal-bgv-zlib' },
];

export const communication: Experiment = {
  name: 'communication',
  summary: "bytes of a probe and of a response for each engine, beside the paper's",
  options: { dimensions: { type: 'string', help: 'others than 64,128,512' } },
  async measure(values): Promise<Data<CommunicationParameters>> {
    const dimensions = wholeNumbers(values.dimensions, values.small ? [4] : [64, 128, 512]);
    const galleries = [1_000_000, COMMUNICATION.templates];
    const results: Figure[] = [];
    for (const dimension of dimensions) {
      const rows = await rowsFor(dimension);
      const baseline = rows.find(({ name }) => name === 'hers-seal')!.probe;
      results.push(...rows.flatMap((row) => figures(row, dimension, galleries, baseline)));
    }
    return record('communication', values, { parameters: { dimensions, galleries }, results });
  },
};

function figures(row: Row, dimension: number, galleries: readonly number[], baseline: number): Figure[] {
  const { source } = row;
  const name = `${row.name}-d${dimension}`;
  const probe = { name: `${name}-probe`, value: row.probe, unit: 'bytes', source };
  const against = { name: `hers-seal-d${dimension}-probe`, value: baseline, unit: 'bytes' };
  const { response, capacity, keys } = row;
  const sent: Figure = row.name.startsWith('ours') ? { ...compared(probe, against), source } : probe;
  if (response === undefined || capacity === undefined) return [sent];
  return [
    sent,
    { name: `${name}-response`, value: response / capacity, unit: 'bytes/score', source },
    // A block's, multiplied.
    ...galleries.map((m): Figure => {
      const value = Math.ceil(m / capacity) * response;
      return { name: `${name}-scores-m${m}`, value, unit: 'bytes', source: 'computed' };
    }),
    ...(keys === undefined ? [] : [{ name: `${name}-keys`, value: keys, unit: 'bytes', source }]),
  ];
}

async function rowsFor(dimension: number): Promise<Row[]> {
  const rows: Row[] = [];
  if (dimension === COMMUNICATION.dimension) {
    rows.push({ name: 'published-boddeti', probe: COMMUNICATION.boddetiProbe, source: 'published' });
    rows.push({ name: 'published-hers', probe: COMMUNICATION.hersProbe, source: 'published' });
  }
  for (const { variant, compression, name } of CASES) {
    progress(`${name}, d = ${dimension}`);
    rows.push({ name, source: 'measured', ...(await messages(variant, compression, dimension)) });
  }
  for (const profile of ['exact', 'compact'] as const) {
    rows.push({ name: `ours-${profile}`, source: 'measured', ...ours(profile, dimension) });
  }
  for (const [form, sizes] of Object.entries(open(dimension)))
    rows.push({ name: `ours-open-${form}`, source: 'measured', ...sizes });
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

/** Open queries, with the key of a device and with the public key; their keys are the store's. */
function open(dimension: number) {
  const plan = openPlan({ dimension });
  using master = MasterSeed.generate();
  const key = master.collectionKey(plan, crypto.getRandomValues(new Uint8Array(16)));
  try {
    const { vectors } = identities(1, 1, dimension).gallery();
    const pieces = makeEvaluationKeys(key);
    const evaluator = new Evaluator(evaluationKeys(pieces.map((piece) => decodeEvaluation(piece))));
    const { block, maskRows } = blockMatrix(decodeBlock(encryptBlock(key, vectors)));
    const device = encryptShortQuery(plan, makeDeviceKey(key, 0), vectors);
    const query = decodeOpenQuery(device);
    const rows = evaluator.expand(query);
    const { responses } = plan.parameters.evaluation;
    const results = Array.from({ length: responses }, () => scanOpenBlock(block, maskRows, query, rows));
    const response = encodePackedResponse(evaluator.pack(query, results)).length;
    const sizes = {
      keys: pieces.reduce((sum, { length }) => sum + length, 0),
      response,
      capacity: responses * plan.parameters.n,
    };
    const open = encryptPublicQuery(plan, makePublicKey(key), vectors);
    return { device: { ...sizes, probe: device.length }, public: { ...sizes, probe: open.length } };
  } finally {
    key.wipe();
  }
}

async function messages(variant: PaperVariantName, compression: Compression, dimension: number) {
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
