// `npm start`: the main job, end to end. A gallery of synthetic identities is encrypted, searched by encrypted probes, and the answers are put beside
// those of a search in the clear. The two sides hand each other bytes and nothing else.

import { parseArgs } from 'node:util';
import {
  type BlockMatrix,
  blockMatrix,
  decodeBlock,
  decodeQuery,
  encodeResponse,
  expandedQuery,
  plan,
  scanBlock,
} from '@hers/scheme';
import { type CollectionKey, encryptBlock, encryptQuery, MasterSeed } from '@hers/scheme/secret';
import { top1 } from './plaintext.ts';
import { columns } from './report.ts';
import { identities, type Templates } from './synthetic.ts';

const SAMPLES = 3;

/** The server: it holds what it was sent, and computes on it. It never imports a key. */
class Server {
  readonly #blocks: BlockMatrix[] = [];
  galleryBytes = 0;

  enrol(block: Uint8Array): void {
    this.galleryBytes += block.length;
    this.#blocks.push(blockMatrix(decodeBlock(block)));
  }

  *search(query: Uint8Array): Generator<Uint8Array> {
    const expanded = expandedQuery(decodeQuery(query));
    for (const block of this.#blocks) yield encodeResponse(scanBlock(block, expanded));
  }

  get blocks(): number {
    return this.#blocks.length;
  }
}

interface Outcome {
  readonly rank1: number;
  readonly largestError: number;
  readonly encryptMs: number;
  readonly scanMs: number;
  readonly decryptMs: number;
  readonly queryBytes: number;
  readonly responseBytes: number;
}

function progress(what: string, done: number, of: number): void {
  if (process.stderr.isTTY)
    process.stderr.write(`\r${what} ${Math.floor((100 * done) / of)} %${done === of ? '\n' : ''}`);
}

function enrol(server: Server, key: CollectionKey, { vectors }: Templates): number {
  const { n } = key.plan.parameters;
  const step = n * key.plan.dimension;
  const start = performance.now();
  for (let at = 0; at < vectors.length; at += step) {
    server.enrol(encryptBlock(key, vectors.subarray(at, at + step)));
    progress('encrypting the gallery', Math.min(at + step, vectors.length), vectors.length);
  }
  return performance.now() - start;
}

/** Searches every probe, and compares each winner's score with the one in the clear. */
function searchAll(
  server: Server,
  key: CollectionKey,
  gallery: Templates,
  probes: Templates,
  scoreOf: (probe: number, template: number) => number,
): Outcome {
  const { n } = key.plan.parameters;
  const { dimension } = key.plan;
  const sums = { hits: 0, encrypt: 0, scan: 0, decrypt: 0, query: 0, response: 0, largest: 0 };
  probes.labels.forEach((label, i) => {
    const started = performance.now();
    const { query, secret } = encryptQuery(key, probes.vectors.subarray(i * dimension, (i + 1) * dimension));
    const encrypted = performance.now();
    const responses = [...server.search(query)];
    const scanned = performance.now();
    let best = -1;
    let bestScore = Number.NEGATIVE_INFINITY;
    responses.forEach((response, block) => {
      secret.decrypt(response).scores.forEach((score, slot) => {
        if (score > bestScore) {
          bestScore = score;
          best = block * n + slot;
        }
      });
    });
    secret.wipe();
    sums.decrypt += performance.now() - scanned;
    sums.encrypt += encrypted - started;
    sums.scan += scanned - encrypted;
    sums.query = query.length;
    sums.response = responses.reduce((sum, r) => sum + r.length, 0);
    if (gallery.labels[best] === label) sums.hits++;
    sums.largest = Math.max(sums.largest, Math.abs(bestScore - scoreOf(i, best)));
    progress('searching encrypted', i + 1, probes.labels.length);
  });
  const count = probes.labels.length;
  return {
    rank1: sums.hits / count,
    largestError: sums.largest,
    encryptMs: sums.encrypt / count,
    scanMs: sums.scan / count,
    decryptMs: sums.decrypt / count,
    queryBytes: sums.query,
    responseBytes: sums.response,
  };
}

const size = (bytes: number) => (bytes >= 1e6 ? `${(bytes / 1e6).toFixed(2)} MB` : `${(bytes / 1e3).toFixed(1)} kB`);
const hex = (bytes: Uint8Array) =>
  Buffer.from(bytes)
    .toString('hex')
    .replace(/(.{8})/g, '$1 ')
    .trimEnd();

function main(): void {
  const { values } = parseArgs({
    options: {
      identities: { type: 'string', default: '20000' },
      dimension: { type: 'string', default: '128' },
      probes: { type: 'string', default: '200' },
    },
  });
  const [people, dimension, probeCount] = [values.identities, values.dimension, values.probes].map((text) => {
    const number = Number(text);
    if (!(Number.isInteger(number) && number > 0))
      throw new RangeError(`${JSON.stringify(text)} is not a positive whole number`);
    return number;
  });
  const settings = plan({ dimension });
  const world = identities(people, SAMPLES, dimension);
  console.log(
    `HERS: ${people.toLocaleString('en-GB')} synthetic identities, ${SAMPLES} templates each, ${dimension} dimensions\n`,
  );
  const gallery = world.gallery();
  const probes = world.probes(
    Array.from({ length: Math.min(probeCount, people) }, (_, i) =>
      Math.floor((i * people) / Math.min(probeCount, people)),
    ),
  );

  const plainStart = performance.now();
  const plain = top1(gallery.vectors, probes.vectors, dimension);
  const plainMs = (performance.now() - plainStart) / probes.labels.length;
  const plainRank1 =
    plain.index.reduce((sum, best, i) => sum + (gallery.labels[best] === probes.labels[i] ? 1 : 0), 0) /
    probes.labels.length;

  const key = MasterSeed.generate().collectionKey(settings, crypto.getRandomValues(new Uint8Array(16)));
  const server = new Server();
  const enrolMs = enrol(server, key, gallery);
  const cosine = (probe: number, template: number) => {
    let sum = 0;
    for (let i = 0; i < dimension; i++)
      sum += probes.vectors[probe * dimension + i] * gallery.vectors[template * dimension + i];
    return sum;
  };
  const found = searchAll(server, key, gallery, probes, cosine);
  const templates = gallery.labels.length;

  const rows = [
    ['', 'encrypted', 'in the clear'],
    ['rank-1 accuracy', found.rank1.toFixed(4), plainRank1.toFixed(4)],
    [
      'time of a search',
      `${(found.encryptMs + found.scanMs + found.decryptMs).toFixed(1)} ms`,
      `${plainMs.toFixed(1)} ms`,
    ],
    ['  client encrypts the probe', `${found.encryptMs.toFixed(1)} ms`, ''],
    ['  server scans the gallery', `${found.scanMs.toFixed(1)} ms`, ''],
    ['  client decrypts and ranks', `${found.decryptMs.toFixed(1)} ms`, ''],
    ['gallery', size(server.galleryBytes), size(gallery.vectors.byteLength)],
    ['query', size(found.queryBytes), size(4 * dimension)],
    ['response', size(found.responseBytes), size(4 * templates)],
    ['enrolment', `${Math.round((1000 * templates) / enrolMs).toLocaleString('en-GB')} templates/s`, ''],
    ['largest error of a best score', found.largestError.toFixed(4), ''],
    ['planned error (rms)', settings.noise.score.toFixed(4), ''],
  ];
  console.log(`${columns(rows, new Set([1, 2]))}\n`);

  const sample = encryptBlock(key, gallery.vectors.subarray(0, dimension));
  const again = encryptBlock(key, gallery.vectors.subarray(0, dimension));
  console.log('What the server could see');
  console.log(
    `  ${server.blocks} blocks of up to ${settings.parameters.n} templates, ${probes.labels.length} searches, and when they came.`,
  );
  console.log('  Not: vectors, probes, scores, who matched. The same template, encrypted twice, begins with');
  for (const block of [sample, again]) console.log(`    ${hex(block.subarray(112, 144))}`);
  const { coreSvp } = settings.security;
  console.log(
    `\nRing dimension ${settings.parameters.n}, modulus of ${settings.security.logQ.toFixed(1)} bits: ${coreSvp.quantum} bits of quantum security by the core-SVP model.`,
  );
  console.log(
    'The scan here is the plain one of one thread. `npm run bench -- --help` lists the measurements, README.md says what is promised.',
  );
  key.wipe();
}

try {
  main();
} catch (error) {
  // Bad arguments are the caller's: a sentence is enough.
  if (!(error instanceof RangeError) && (error as { code?: string }).code === undefined) throw error;
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 2;
}
