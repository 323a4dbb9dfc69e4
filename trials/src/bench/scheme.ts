// `npm run bench -- scheme`: what the client's cryptography costs, compared with the closest
// equivalent in SEAL in the same run.

import { openSeal, type SealBaseline } from '@hers/paper/engines/seal';
import { compared, progress, type Report, type Result } from '@hers/paper/lab/report';
import { type Effort, minimum } from '@hers/paper/lab/timing';
import { Ring, ringCode } from '@hers/ring';
import { allCode, withNative } from '@hers/ring/testing/code';
import { nttPrimes } from '@hers/ring/testing/primes';
import {
  blockMatrix,
  decodeBlock,
  decodeQuery,
  encodeResponse,
  expandedQuery,
  type Profile,
  plan,
  scanBlock,
} from '@hers/scheme';
import { type CollectionKey, encryptBlock, encryptQuery, MasterSeed } from '@hers/scheme/secret';
import { machine } from '@hers/vectors/machine';
import { identities } from '@hers/vectors/synthetic';

const dimension = 128;

/** Queries whose scores are compared with those in the clear. */
const ERROR_QUERIES = 16;

export interface SchemeBenchOptions {
  readonly quick?: boolean;
  readonly profile?: string;
}

export async function run(options: SchemeBenchOptions): Promise<Report> {
  const { quick = false, profile: alone } = options;
  const profiles: readonly Profile[] = alone === undefined ? ['compact', 'small', 'exact'] : [alone as Profile];
  const effort = quick
    ? { atLeastMs: 0, atLeastRuns: 1, warmups: 1 }
    : { atLeastMs: 1000, atLeastRuns: 5, warmups: 20 };
  const seal = await openSeal();
  try {
    const baseline = sealResults(seal, quick ? effort : { ...effort, warmups: 2 });
    progress('ours: NTT');
    const results = [compared({ name: 'ntt-4096', value: nttTime(effort), unit: 'µs' }, baseline.results.ntt)];
    for (const profile of profiles) results.push(...ours(profile, baseline, effort));
    return {
      bench: 'scheme',
      parameters: {
        ours: profiles.map((profile) => `${profile}: ${plan({ dimension, profile }).parameters.name}`).join('; '),
        threads: 1,
        ring: ringCode(),
        seal: `BFV, n = ${seal.parameters.n}, t = ${seal.parameters.plainModulus}, ${seal.parameters.security} bits`,
        sealModulusBits: seal.parameters.coefficientModulusBits,
        sealEncryption: baseline.encryption,
        dimension,
        quick,
      },
      machine: machine(),
      results: [...results, ...Object.values(baseline.results)],
    };
  } finally {
    seal.close();
  }
}

/** What our own code takes under one profile. */
function ours(profile: Profile, baseline: ReturnType<typeof sealResults>, effort: Effort): Result[] {
  const { blockEncrypt, responseDecrypt, responseBytes, queryBytes, queryEncrypt } = baseline.results;
  const end = profile === 'compact' ? '' : `-${profile}`;
  const results: Result[] = [];
  for (const d of [32, 128, 512]) {
    progress(`ours: encryption of a block, ${profile}, d = ${d}`);
    const result = { name: `block-encrypt-d${d}${end}`, value: blockRate(profile, d, effort), unit: 'templates/s' };
    results.push(d === dimension ? compared(result, blockEncrypt) : result);
  }
  progress(`ours: query and response, ${profile}`);
  const search = searchResults(profile, effort);
  results.push(
    compared({ name: `query-encrypt-d${dimension}${end}`, value: search.queryMs, unit: 'ms' }, queryEncrypt),
    compared({ name: `response-decrypt${end}`, value: search.scoresPerSecond, unit: 'scores/s' }, responseDecrypt),
    compared({ name: `response-bytes${end}`, value: search.responseBytes, unit: 'bytes/score' }, responseBytes),
    compared({ name: `query-bytes-d${dimension}${end}`, value: search.queryBytes, unit: 'bytes' }, queryBytes),
    { name: `score-error-${profile}`, value: search.scoreError, unit: 'rms' },
  );
  progress(`native code over WebAssembly, ${profile}`);
  for (const [work, times] of Object.entries(nativeOverWasm(profile, effort)))
    results.push({ name: `native-over-wasm-${work}${end}`, value: times, unit: 'times' });
  return results;
}

/** Microseconds of one transform of 4096 residues modulo one prime. */
function nttTime(effort: Effort): number {
  const ring = Ring.of(4096, nttPrimes(30, 4096, 1));
  const [poly] = ring.polys;
  ring.uniform(poly, { key: new Uint8Array(32), domain: 0, index: 0 });
  const batch = 200;
  const { min } = minimum(() => {
    for (let i = 0; i < batch; i++) ring.ntt(poly);
  }, effort);
  return (min * 1000) / batch;
}

function keyFor(profile: Profile, d: number): CollectionKey {
  return MasterSeed.generate().collectionKey(plan({ dimension: d, profile }), new Uint8Array(16));
}

/** Templates per second, from vectors of floats to the bytes of a full block. */
function blockRate(profile: Profile, d: number, effort: Effort): number {
  const key = keyFor(profile, d);
  const { n } = key.plan.parameters;
  const { vectors } = identities(n, 1, d).gallery();
  const { min } = minimum(() => encryptBlock(key, vectors), { ...effort, warmups: Math.min(effort.warmups ?? 2, 5) });
  key.wipe();
  return perSecond(n, min);
}

function searchResults(profile: Profile, effort: Effort) {
  const key = keyFor(profile, dimension);
  const { n } = key.plan.parameters;
  const { vectors } = identities(n, 1, dimension).gallery();
  const vector = vectors.subarray(0, dimension);
  const block = blockMatrix(decodeBlock(encryptBlock(key, vectors)));
  const { query, secret } = encryptQuery(key, vector);
  const response = encodeResponse(scanBlock(block, expandedQuery(decodeQuery(query))));
  if (secret.decrypt(response).scores[0] < 0.99) throw new Error('the benchmark decrypts to wrong scores');
  // At least a millisecond at a time: one response takes less than the clock resolves.
  const batch = 50;
  const { min } = minimum(() => {
    for (let i = 0; i < batch; i++) secret.decrypt(response);
  }, effort);
  let squares = 0;
  for (let k = 0; k < ERROR_QUERIES; k++) {
    const asked = encryptQuery(key, vectors.subarray(k * dimension, (k + 1) * dimension));
    const { scores } = asked.secret.decrypt(encodeResponse(scanBlock(block, expandedQuery(decodeQuery(asked.query)))));
    asked.secret.wipe();
    for (let j = 0; j < n; j++) squares += (scores[j] - cosine(vectors, j, k)) ** 2;
  }
  const queryTime = minimum(() => encryptQuery(key, vector).secret.wipe(), effort);
  key.wipe();
  return {
    scoresPerSecond: perSecond(n * batch, min),
    /** For each record of a full block: canaries are answered for as well. */
    responseBytes: response.length / key.plan.capacity,
    queryBytes: query.length,
    queryMs: queryTime.min,
    /** Against the scores of the same vectors in the clear, in double precision. */
    scoreError: Math.sqrt(squares / (ERROR_QUERIES * n)),
  };
}

/**
 * How many times faster than with WebAssembly each work is with native code, the best that this
 * machine has; nothing where it has none. Both take turns, so that they meet the same machine.
 */
function nativeOverWasm(profile: Profile, effort: Effort): Record<string, number> {
  const [wasm, native] = allCode();
  if (!native) return {};
  const key = keyFor(profile, dimension);
  const { vectors } = identities(key.plan.parameters.n, 1, dimension).gallery();
  const block = encryptBlock(key, vectors);
  const { query, secret } = encryptQuery(key, vectors.subarray(0, dimension));
  const response = encodeResponse(scanBlock(blockMatrix(decodeBlock(block)), expandedQuery(decodeQuery(query))));
  const works: Record<string, () => void> = {
    'block-encrypt': () => encryptBlock(key, vectors),
    'query-encrypt': () => encryptQuery(key, vectors.subarray(0, dimension)).secret.wipe(),
    'response-decrypt': () => {
      for (let i = 0; i < 50; i++) secret.decrypt(response);
    },
  };
  const ratios: Record<string, number> = {};
  for (const [name, work] of Object.entries(works)) {
    const best = [wasm, native].map(() => Number.POSITIVE_INFINITY);
    const rounds = effort.atLeastMs === 0 ? 2 : 20;
    for (let round = 0; round < rounds; round++)
      [wasm, native].forEach((code, k) => {
        const { min } = withNative(code.native, () => minimum(work, { ...effort, atLeastMs: 0, warmups: 1 }));
        best[k] = Math.min(best[k], min);
      });
    ratios[name] = best[0] / best[1];
  }
  secret.wipe();
  key.wipe();
  return ratios;
}

/** The cosine of vectors j and k. */
function cosine(vectors: Float32Array, j: number, k: number): number {
  let [dot, left, right] = [0, 0, 0];
  for (let i = 0; i < dimension; i++) {
    const [x, y] = [vectors[j * dimension + i], vectors[k * dimension + i]];
    dot += x * y;
    left += x * x;
    right += y * y;
  }
  return dot / Math.sqrt(left * right);
}

function sealResults(seal: SealBaseline, effort: Effort) {
  const { n } = seal.parameters;
  progress('SEAL: NTT');
  const ntt = seal.ntt(effort);
  progress(`SEAL: encryption of a block, d = ${dimension}`);
  const block = seal.blockEncryption(dimension, effort);
  progress('SEAL: decryption of a response');
  const response = seal.responseDecryption(dimension, effort);
  const { seededCiphertext } = seal.sizes();

  const results = {
    ntt: { name: 'seal-ntt-4096', value: ntt * 1000, unit: 'µs' },
    blockEncrypt: { name: `seal-block-encrypt-d${dimension}`, value: perSecond(n, block.ms), unit: 'templates/s' },
    // A query is one ciphertext per dimension, the same work as a block.
    queryEncrypt: { name: `seal-query-encrypt-d${dimension}`, value: block.ms, unit: 'ms' },
    responseDecrypt: { name: 'seal-response-decrypt', value: perSecond(n, response.ms), unit: 'scores/s' },
    // A careful user of SEAL would drop a prime before sending, so that is listed beside the
    // published way.
    responseDecryptSwitched: {
      name: 'seal-response-decrypt-switched',
      value: perSecond(n, response.switchedMs),
      unit: 'scores/s',
    },
    responseBytes: { name: 'seal-response-bytes', value: response.bytes / n, unit: 'bytes/score' },
    responseBytesSwitched: {
      name: 'seal-response-bytes-switched',
      value: response.switchedBytes / n,
      unit: 'bytes/score',
    },
    // One seeded symmetric ciphertext per dimension: half of what the public key would need.
    queryBytes: { name: `seal-query-bytes-d${dimension}`, value: seededCiphertext * dimension, unit: 'bytes' },
  } satisfies Record<string, Result>;
  return { encryption: block.encryption, results };
}

function perSecond(count: number, milliseconds: number): number {
  return (count * 1000) / milliseconds;
}
