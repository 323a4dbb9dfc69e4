// `npm run bench -- scheme`: what the client's cryptography costs, beside the nearest work through SEAL in the same run.

import { machine, progress, type Report, type Result } from './report.ts';
import { openSeal, type SealBaseline } from './seal.ts';
import type { Effort } from './timing.ts';

const dimension = 128;

export async function run({ quick = false }: { quick?: boolean }): Promise<Report> {
  const effort = quick ? { atLeastMs: 0, atLeastRuns: 1, warmups: 1 } : { atLeastMs: 1000, atLeastRuns: 5, warmups: 2 };
  const seal = await openSeal();
  try {
    const baseline = sealResults(seal, effort);
    // Ours goes here, before the baseline's rows: compared({ name: 'ntt-4096', … }, baseline.ntt), and so on.
    return {
      bench: 'scheme',
      parameters: {
        seal: `BFV, n = ${seal.parameters.n}, t = ${seal.parameters.plainModulus}, ${seal.parameters.security} bits`,
        sealModulusBits: seal.parameters.coefficientModulusBits,
        sealEncryption: baseline.encryption,
        dimension,
        quick,
      },
      machine: machine(),
      results: Object.values(baseline.results),
    };
  } finally {
    seal.close();
  }
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
    responseDecrypt: { name: 'seal-response-decrypt', value: perSecond(n, response.ms), unit: 'scores/s' },
    // Dropping a prime before sending is what a careful user of SEAL would do, so it stands beside the published way.
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
