// `npm run campaign -- <name>`: checks too long for `npm test`, which runs a short form of each.

import { parseArgs } from 'node:util';
import { randomBytes, randomSeed } from '@hers/ring';
import { type Profile, plan } from '@hers/scheme';
import { GALLERY_KINDS, measureNoise } from '@hers/scheme/secret/measure';
import { Gaussian } from './random.ts';
import { columns } from './report.ts';

const USAGE = `Usage: npm run campaign -- <name> [options]

Campaigns:
  noise        measured noise against its prediction, with fresh randomness: both profiles, d = 16 … 1536, every kind
               of gallery, and thousands of additions (some 20 minutes)
    --queries <count>   queries per case (default 400)
    --dimension <d>     this dimension alone

Examples:
  npm run campaign -- noise
  npm run campaign -- noise --queries 40 --dimension 128
`;

/** A fresh source of normal numbers. */
function normal(): () => number {
  const gaussian = new Gaussian();
  gaussian.seed(...new Uint32Array(randomSeed().buffer));
  const buffer = new Float64Array(1024);
  let at = buffer.length;
  return () => {
    if (at === buffer.length) {
      gaussian.fill(buffer, 1);
      at = 0;
    }
    return buffer[at++];
  };
}

function noise(queries: number, dimensions: readonly number[]): boolean {
  const entropy = { seed: randomSeed, id: () => randomBytes(16) };
  const cases: { profile: Profile; dimension: number; gallery: (typeof GALLERY_KINDS)[number]; additions: number }[] =
    [];
  for (const profile of ['compact', 'exact'] as const) {
    for (const dimension of dimensions) {
      for (const gallery of GALLERY_KINDS) cases.push({ profile, dimension, gallery, additions: 1 });
      if (profile === 'exact') {
        for (const additions of [64, 4096]) cases.push({ profile, dimension, gallery: 'random', additions });
      }
    }
  }
  const rows = [
    ['profile', 'd', 'gallery', 'additions', 'scores', 'measured', 'predicted', 'ratio', 'largest', 'wrong'],
  ];
  let sound = true;
  for (const { profile, dimension, gallery, additions } of cases) {
    const onProgress = (done: number, of: number) => {
      if (process.stderr.isTTY)
        process.stderr.write(`\r${profile} d = ${dimension} ${gallery} ${Math.floor((100 * done) / of)} %   `);
    };
    const settings = plan({ dimension, profile, maxAdditions: additions });
    const { measured, predicted, ratio, largest, scores, wrong } = measureNoise(settings, {
      gallery,
      queries,
      additions,
      entropy,
      normal: normal(),
      onProgress,
    });
    if (Math.abs(ratio - 1) > 0.1 || (profile === 'exact' && wrong > 0)) sound = false;
    const figures = [measured, predicted].map((x) => x.toExponential(3));
    const shown = profile === 'exact' ? String(wrong) : '';
    rows.push([
      profile,
      String(dimension),
      gallery,
      String(additions),
      scores.toLocaleString('en-GB'),
      ...figures,
      ratio.toFixed(3),
      (largest / measured).toFixed(2),
      shown,
    ]);
  }
  if (process.stderr.isTTY) process.stderr.write('\n');
  console.log(columns(rows, new Set([1, 3, 4, 5, 6, 7, 8, 9])));
  console.log(
    sound ? '\nAll within 10 % of the prediction, no wrong score.' : '\nNOT as predicted: see the ratios above.',
  );
  return sound;
}

function main(args: string[]): void {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      queries: { type: 'string', default: '400' },
      dimension: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const queries = Number(values.queries);
  if (positionals.length !== 1 || positionals[0] !== 'noise' || !(queries >= 1))
    throw new TypeError('name a campaign and its options');
  if (!noise(queries, values.dimension ? [Number(values.dimension)] : [16, 128, 512, 1536])) process.exitCode = 1;
}

try {
  main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof TypeError)) throw error;
  process.stderr.write(`${error.message}\n\n${USAGE}`);
  process.exitCode = 2;
}
