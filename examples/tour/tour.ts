// `npm start`: the main use case, end to end. Enrols a gallery of synthetic identities in a folder
// through the client, searches it, and compares the answers with a search in the clear. Then it
// shows what is in the folder. `npm start -- --console` opens an example in a browser instead.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Collection, Database, MasterSeed, type VectorRecord } from '@hers/client';
import { columns } from '@hers/paper/lab/report';
import { type SealedRecord, type Service, withMethods } from '@hers/service';
import { type Phases, quantile, TimedService } from '@hers/service/testing/phases';
import { openStore } from '@hers/store';
import { identities } from '@hers/vectors/synthetic';
import { top1 } from '@hers/vectors/testing/plaintext';
import { bar } from './bar.ts';

/**
 * With one template for each of 100 000 identities, a search in the clear is good but not perfect
 * at this length: rank-1 is about 0.94 at 128 dimensions.
 */
const NOISE = 1;
/** Plain arithmetic in JavaScript hardly varies: a few searches tell its time. */
const PLAIN_TIMED = 5;
/** The first searches verify checksums and map pages. */
const WARM_UPS = 2;

interface Options {
  readonly people: number;
  readonly dimension: number;
  readonly probeCount: number;
}

interface Outcome {
  readonly rank1: number;
  readonly largestError: number;
  readonly phases: readonly Phases[];
}

const idOf = (label: number) => `person-${label}`;

function* recordsOf(vectors: Float32Array, dimension: number): Generator<VectorRecord> {
  for (let label = 0; label * dimension < vectors.length; label++)
    yield { id: idOf(label), vector: vectors.subarray(label * dimension, (label + 1) * dimension) };
}

/** A store that records the first records it is sent: all that it ever sees of a record. */
function remembering(store: Service, seen: SealedRecord[], most: number): Service {
  const stageRecords: Service['stageRecords'] = (name, records, options) => {
    const watched = async function* () {
      for await (const record of records) {
        if (seen.length < most) seen.push({ handle: record.handle.slice(), sealed: record.sealed.slice() });
        yield record;
      }
    };
    return store.stageRecords(name, watched(), options);
  };
  return withMethods(store, { stageRecords });
}

async function enrol(collection: Collection, vectors: Float32Array, signal: AbortSignal): Promise<number> {
  const start = performance.now();
  const { dimension } = collection.plan;
  const shown = bar('enrolling', vectors.length / dimension, 'templates');
  try {
    await collection.upsert(recordsOf(vectors, dimension), {
      signal,
      onProgress: ({ acknowledged }) => shown.update(acknowledged),
    });
    await collection.optimize({ signal });
  } finally {
    shown.end();
  }
  return performance.now() - start;
}

/** Searches with every probe, and compares each winner's score with the one in the clear. */
async function searchAll(
  collection: Collection,
  timed: TimedService,
  probes: { readonly vectors: Float32Array; readonly labels: Int32Array },
  scoreOf: (probe: number, label: number) => number,
  signal: AbortSignal,
): Promise<Outcome> {
  const { dimension } = collection.plan;
  const phases: Phases[] = [];
  let hits = 0;
  let largestError = 0;
  const shown = bar('searching', probes.labels.length, 'probes');
  try {
    const probe = (i: number) => probes.vectors.subarray(i * dimension, (i + 1) * dimension);
    for (let i = 0; i < WARM_UPS; i++) await collection.search(probe(0), { limit: 1, signal });
    for (const [i, label] of probes.labels.entries()) {
      const { result, phases: each } = await timed.time(() => collection.search(probe(i), { limit: 1, signal }));
      const [{ id, score }] = result.matches;
      const found = Number(id.slice(idOf(0).length - 1));
      if (found === label) hits++;
      largestError = Math.max(largestError, Math.abs(score - scoreOf(i, found)));
      phases.push(each);
      shown.update(i + 1);
    }
  } finally {
    shown.end();
  }
  return { rank1: hits / probes.labels.length, largestError, phases };
}

interface Plain {
  readonly rank1: number;
  readonly ms: number;
}

function searchInTheClear(
  gallery: Float32Array,
  probes: { readonly vectors: Float32Array; readonly labels: Int32Array },
  dimension: number,
): Plain {
  const { index } = top1(gallery, probes.vectors, dimension);
  const hits = index.filter((best, i) => best === probes.labels[i]).length;
  const times: number[] = [];
  for (let i = 0; i < Math.min(PLAIN_TIMED, probes.labels.length); i++) {
    const start = performance.now();
    top1(gallery, probes.vectors.subarray(i * dimension, (i + 1) * dimension), dimension);
    times.push(performance.now() - start);
  }
  return { rank1: hits / probes.labels.length, ms: quantile(times, 0.5) };
}

const whole = (value: number) => value.toLocaleString('en-GB');
const ms = (value: number) => `${value.toFixed(1)} ms`;
const size = (bytes: number) => (bytes >= 1e6 ? `${(bytes / 1e6).toFixed(2)} MB` : `${(bytes / 1e3).toFixed(1)} kB`);
const hex = (bytes: Uint8Array) =>
  Buffer.from(bytes)
    .toString('hex')
    .replace(/(.{8})(?!$)/g, '$1 ');

interface StoredFile {
  readonly path: string;
  readonly bytes: number;
}

async function filesIn(folder: string): Promise<StoredFile[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const found = await Promise.all(
    files.map(async (file) => ({ path: file.slice(folder.length + 1), bytes: (await stat(file)).size })),
  );
  return found.filter(({ bytes }) => bytes > 0).sort((a, b) => b.bytes - a.bytes);
}

/** Some bytes from the middle of a file. */
async function glimpse(path: string, bytes: number): Promise<{ at: number; content: Uint8Array }> {
  const file = await open(path);
  try {
    const at = Math.floor(bytes / 2 / 4096) * 4096;
    const { buffer, bytesRead } = await file.read(new Uint8Array(32), 0, 32, at);
    return { at, content: buffer.subarray(0, bytesRead) };
  } finally {
    await file.close();
  }
}

async function showStore(folder: string, seen: readonly SealedRecord[]): Promise<void> {
  const files = await filesIn(folder);
  console.log('What lies in the folder, for anyone to read');
  console.log(
    columns(
      files.slice(0, 5).map(({ path, bytes }) => [`  ${path}`, size(bytes)]),
      new Set([1]),
    ),
  );
  const segment = files.find(({ path }) => /^(segments|blocks)\//.test(path));
  if (segment) {
    const { at, content } = await glimpse(join(folder, segment.path), segment.bytes);
    console.log(
      `\n  encrypted templates, from byte ${whole(at)} of ${segment.path.slice(0, 24)}…\n    ${hex(content)}`,
    );
  }
  console.log('\n  records, as the store knows them: a handle, and a seal around id, vector and payload');
  for (const { handle, sealed } of seen)
    console.log(`    ${hex(handle)}  ${hex(sealed.subarray(20, 36))} … ${sealed.length} bytes`);
  console.log('\n  Not there: ids, vectors, probes, scores, who matched.');
}

const introduction = (
  people: number,
  dimension: number,
  probes: number,
) => `HERS searches embeddings without seeing them.

${whole(people)} people are made up, each an embedding of ${dimension} numbers. All are
encrypted into a temporary folder, which is what a server would keep. Then
${whole(probes)} of them are looked for by another, noisy embedding of theirs:
encrypted, and beside it in the clear.
`;

async function demonstrate(folder: string, { people, dimension, probeCount }: Options, signal: AbortSignal) {
  const world = identities(people, 1, dimension, { noise: NOISE });
  const labels = Array.from({ length: probeCount }, (_, i) => Math.floor((i * people) / probeCount));
  const probes = world.probes(labels);
  console.log(introduction(people, dimension, probeCount));

  const seen: SealedRecord[] = [];
  const timed = new TimedService(remembering(await openStore(folder), seen, 3));
  using key = MasterSeed.generate();
  const db = new Database(timed.service, { key });
  try {
    const collection = await db.createCollection('people', { dimension });
    const { vectors } = world.gallery();
    const enrolMs = await enrol(collection, vectors, signal);
    const plain = searchInTheClear(vectors, probes, dimension);
    const cosine = (probe: number, label: number) => {
      let sum = 0;
      for (let i = 0; i < dimension; i++) sum += probes.vectors[probe * dimension + i] * vectors[label * dimension + i];
      return sum;
    };
    const found = await searchAll(collection, timed, probes, cosine, signal);
    await db.close();
    const stored = await filesIn(folder);
    const scanned = stored.filter(({ path }) => /^(segments|blocks)\//.test(path)).reduce((sum, f) => sum + f.bytes, 0);
    const all = stored.reduce((sum, file) => sum + file.bytes, 0);
    const of = (phase: 'encrypt' | 'scan' | 'decrypt' | 'total') =>
      quantile(
        found.phases.map((each) => each[phase]),
        0.5,
      );
    const { plan } = collection;
    const rows = [
      ['', 'encrypted', 'in the clear'],
      ['rank-1 accuracy: the right one is first', found.rank1.toFixed(4), plain.rank1.toFixed(4)],
      ['largest error of a winning score', found.largestError.toFixed(4), ''],
      ['error of a score, as planned (rms)', plan.noise.score.toFixed(4), ''],
      ['time of a search (median)', ms(of('total')), ms(plain.ms)],
      ['  client encrypts the probe', ms(of('encrypt')), ''],
      ['  store scans the gallery', ms(of('scan')), ''],
      ['  client decrypts and ranks', ms(of('decrypt')), ''],
      ['bytes of a query', size(found.phases[0].queryBytes), size(4 * dimension)],
      ['bytes of a response', size(found.phases[0].responseBytes), size(4 * people)],
      ['bytes scanned', size(scanned), size(4 * dimension * people)],
      ['bytes on disk, sealed records included', size(all), ''],
      ['encrypted and stored', `${whole(Math.round((1000 * people) / enrolMs))} templates/s`, ''],
    ];
    console.log(`${columns(rows, new Set([1, 2]))}\n`);
    await showStore(folder, seen);
    const { security, parameters } = plan;
    console.log(
      `\nRing dimension ${parameters.n}, modulus of ${security.logQ.toFixed(1)} bits: ${security.coreSvp.quantum} bits of quantum security by the core-SVP model.`,
    );
    console.log(NEXT);
  } finally {
    await db.close();
  }
}

const NEXT = `The search in the clear is plain JavaScript on one thread; \`npm run bench -- scan\` compares with native code,
\`npm run lab -- table1\` with the published system.

With your own data, in a folder of your own:
  export PATH="$PATH:${join(import.meta.dirname, '../../node_modules/.bin')}"
  hers init                                        # a key and an empty gallery; --example brings some faces, too
  hers collections create faces --dimension 512    # as many as your vectors have
  hers import vectors.npy --ids names.txt          # .npy, .csv, .jsonl, or a pipe; --row-ids without names
  hers search probes.npy --row 0
docs/getting-started.md goes on from here, README.md says what is promised.`;

function readOptions(): Options | 'console' {
  const { values } = parseArgs({
    options: {
      identities: { type: 'string', default: '100000' },
      dimension: { type: 'string', default: '128' },
      probes: { type: 'string', default: '100' },
      console: { type: 'boolean', default: false },
    },
  });
  if (values.console) return 'console';
  const [people, dimension, probes] = [values.identities, values.dimension, values.probes].map((text) => {
    const number = Number(text);
    if (!(Number.isInteger(number) && number > 0))
      throw new RangeError(`${JSON.stringify(text)} is not a positive whole number`);
    return number;
  });
  return { people, dimension, probeCount: Math.min(probes, people) };
}

/** The same in a browser: an example gallery, and beside every answer what the server saw. */
async function openConsole(): Promise<void> {
  const command = join(import.meta.dirname, '../../packages/cli/src/main.ts');
  const child = spawn(process.execPath, [...process.execArgv, command, 'console', '--example'], { stdio: 'inherit' });
  // A Ctrl-C of the terminal reaches both: the child ends by itself, and this after it.
  process.on('SIGINT', () => {}).on('SIGTERM', () => child.kill('SIGTERM'));
  const [code] = await once(child, 'exit');
  process.exitCode = code ?? 1;
}

async function main(): Promise<void> {
  const options = readOptions();
  if (options === 'console') return openConsole();
  const folder = await mkdtemp(join(tmpdir(), 'hers-start-'));
  const stop = new AbortController();
  const interrupt = () => stop.abort(new Error('stopped'));
  // Not once: npm forwards a Ctrl-C that the terminal has already sent, and the second must not end
  // this before the folder is removed.
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
  try {
    await demonstrate(folder, options, stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    process.stderr.write('Stopped; the folder with the gallery is removed.\n');
    process.exitCode = 130;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

try {
  await main();
} catch (error) {
  // Wrong arguments are the caller's fault: a sentence is enough.
  if (!(error instanceof RangeError) && (error as { code?: string }).code === undefined) throw error;
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 2;
}
