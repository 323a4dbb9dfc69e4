// `npm run bench -- scheme`: what the client's cryptography costs, beside the nearest work through
// SEAL in the same run.

import { nttPrimes, Ring } from '@hers/ring';
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
import { encryptBlock, encryptQuery, MasterSeed } from '@hers/scheme/secret';
import { machine } from '@hers/vectors/machine';
import { identities } from '@hers/vectors/synthetic';
import { compared, progress, type Report, type Result } from './report.ts';
import { openSeal, type SealBaseline } from './seal.ts';
import { type Effort, minimum } from './timing.ts';

const dimension = 128;

export async function run({ quick = false }: { quick?: boolean }): Promise<Report> {
  const effort = quick
    ? { atLeastMs: 0, atLeastRuns: 1, warmups: 1 }
    : { atLeastMs: 1000, atLeastRuns: 5, warmups: 20 };
  const seal = await openSeal();
  try {
    const baseline = sealResults(seal, quick ? effort : { ...effort, warmups: 2 });
    const { ntt, blockEncrypt, responseDecrypt, responseBytes, queryBytes, queryEncrypt } = baseline.results;
    progress('ours: NTT');
    const results = [compared({ name: 'ntt-4096', value: nttTime(effort), unit: 'µs' }, ntt)];
    for (const profile of ['compact', 'exact'] as const) {
      const end = profile === 'exact' ? '-exact' : '';
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
      );
    }
    return {
      bench: 'scheme',
      parameters: {
        ours: 'compact: n = 2048, one prime of 30 bits; exact: n = 4096, two, 4096 additions; one thread',
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

function keyFor(profile: Profile, d: number) {
  const request = { dimension: d, profile, maxAdditions: profile === 'exact' ? 4096 : 1 };
  return MasterSeed.generate().collectionKey(plan(request), new Uint8Array(16));
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
  // A millisecond's worth at a time: one response takes less than the clock can tell.
  const batch = 50;
  const { min } = minimum(() => {
    for (let i = 0; i < batch; i++) secret.decrypt(response);
  }, effort);
  const queryTime = minimum(() => encryptQuery(key, vector).secret.wipe(), effort);
  key.wipe();
  return {
    scoresPerSecond: perSecond(n * batch, min),
    responseBytes: response.length / n,
    queryBytes: query.length,
    queryMs: queryTime.min,
  };
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
    // Dropping a prime before sending is what a careful user of SEAL would do, so it stands beside
    // the published way.
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
