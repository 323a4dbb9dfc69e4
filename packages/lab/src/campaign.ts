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
  soak         many searches on a small gallery, with writes in between: memory must stay flat
    --searches <count>  how many (default 25000)
  crash        processes killed at random moments: the store alone, then a client that enrols, optimises and rotates keys;
               everything acknowledged must be there afterwards
    --kills <count>     how many of each (default 300)
  soak-service the same as soak over HTTP, with rude clients in between: the server's memory must stay flat
    --searches <count>  how many (default 25000)
  crash-service  a server killed at random moments under load and started again: clients go on by themselves, and everything
               acknowledged must be there
    --kills <count>     how many (default 300)
  connections  idle connections, as many as asked for or as the descriptor limit allows: others are served, idle ones let go
    --count <count>     how many (default 10000)
  cheating     a store that cheats at random in every way it can, under clients that go on: nothing wrong without an error
    --seconds <count>   how long (default 300)
    --seed <number>     of an earlier run, to repeat it (default: a fresh one)
  damage       galleries damaged at random, in every kind of file: right or an error, nothing deleted, and repaired but for the
               damaged bytes
    --cases <count>     how many (default 2000)
    --seed <number>     of an earlier run, to repeat it (default: a fresh one)
    --case <number>     this one alone
  hostile-clients  a server attacked in every way that comes to mind, while one honest client is served: no 5xx, no death, nobody
               let in, memory within its limits, right answers, and p95 below ten times that of quiet times
    --seconds <count>   how long, without the enrolment before (default 300)
    --seed <number>     of an earlier run, to repeat it (default: a fresh one)
  busy         many searchers while records are enrolled into the same collection over HTTP: every answer is right, and p99 below
               ten times p50
    --searchers <count> how many (default 50)
    --records <count>   how many (default 200000)
    --seed <number>     of an earlier run, to repeat it (default: a fresh one)

Examples:
  npm run campaign -- noise
  npm run campaign -- noise --queries 40 --dimension 128
  npm run campaign -- soak --searches 1000
  npm run campaign -- crash --kills 50
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

/** Each campaign says whether all went well. */
const campaigns: Record<
  string,
  (values: {
    queries: number;
    searches: number;
    kills: number;
    count: number;
    seconds: number;
    seed: number;
    cases: number;
    searchers: number;
    records: number;
    dimension?: number;
    only?: number;
  }) => boolean | Promise<boolean>
> = {
  noise: ({ queries, dimension }) => noise(queries, dimension ? [dimension] : [16, 128, 512, 1536]),
  soak: async ({ searches }) => (await import('./soak.ts')).soak(searches),
  crash: ({ kills }) => crash(kills),
  'soak-service': async ({ searches }) => (await import('./soak-service.ts')).soakService(searches),
  'crash-service': ({ kills }) => crashService(kills),
  connections: async ({ count }) => (await import('./connections.ts')).idleConnections(count),
  cheating: async ({ seconds, seed }) => (await import('./cheating/campaign.ts')).cheating({ seconds, seed }),
  damage: async ({ cases, seed, only }) => (await import('./damage/campaign.ts')).damage({ cases, seed, only }),
  'hostile-clients': async ({ seconds, seed }) =>
    (await import('./hostile/campaign.ts')).hostileClients({ seconds, seed }),
  busy: async ({ searchers, records, seed }) => (await import('./hostile/busy.ts')).busy({ searchers, records, seed }),
};

/** Throws with what is missing; so it is good when it returns. */
async function crash(kills: number): Promise<boolean> {
  const { crashCampaign } = await import('@hers/store/crash');
  const { killCampaign } = await import('@hers/client/kill');
  const show = (line: string) => process.stderr.isTTY && process.stderr.write(`\r${line}   `);
  const { steps } = await crashCampaign(kills, (done) => show(`store: ${done} of ${kills} kills`));
  console.log(`store: ${kills} kills in ${steps} acknowledged steps, nothing lost`);
  let written = 0;
  await killCampaign(kills, (done, batches) => {
    written = batches;
    show(`client: ${done} of ${kills} kills, ${batches} batches acknowledged`);
  });
  console.log(`client: ${kills} kills in ${written} acknowledged batches, nothing lost`);
  return true;
}

/** Throws with what is missing, too. */
async function crashService(kills: number): Promise<boolean> {
  const { killService } = await import('./kill-service.ts');
  const { written, searches, retries } = await killService(kills, (done, records) => {
    if (process.stderr.isTTY) process.stderr.write(`\r${done} of ${kills} kills, ${records} records acknowledged   `);
  });
  console.log(
    `server: ${kills} kills, ${written} records acknowledged, ${searches} searches answered, ${retries} attempts repeated, nothing lost`,
  );
  return true;
}

async function main(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      queries: { type: 'string', default: '400' },
      searches: { type: 'string', default: '25000' },
      kills: { type: 'string', default: '300' },
      count: { type: 'string', default: '10000' },
      seconds: { type: 'string', default: '300' },
      seed: { type: 'string', default: String(1 + (new Uint32Array(randomSeed().buffer)[0] >>> 1)) },
      cases: { type: 'string', default: '2000' },
      searchers: { type: 'string', default: '50' },
      records: { type: 'string', default: '200000' },
      case: { type: 'string' },
      dimension: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const [name] = positionals;
  const { queries: asked, searches: runs, kills: killed, count: many, seconds: long, seed: from } = values;
  const { cases: harmed, searchers: seekers, records: enrolled } = values;
  const given = [asked, runs, killed, many, long, from, harmed, seekers, enrolled, values.dimension ?? '1'];
  const numbers = given.map(Number);
  const only = values.case === undefined ? undefined : Number(values.case);
  const known = positionals.length === 1 && Object.hasOwn(campaigns, name);
  const isCount = (number: number) => Number.isInteger(number) && number > 0;
  if (!known || !numbers.every(isCount) || !(only === undefined || only === 0 || isCount(only)))
    throw new TypeError('name a campaign and its options');
  const [queries, searches, kills, count, seconds, seed, cases, searchers, records, dimension] = numbers;
  const settings = {
    ...{ queries, searches, kills, count, seconds, seed, cases, searchers, records },
    ...(values.dimension ? { dimension } : {}),
    ...(only === undefined ? {} : { only }),
  };
  if (!(await campaigns[name](settings))) process.exitCode = 1;
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof TypeError)) throw error;
  process.stderr.write(`${error.message}\n\n${USAGE}`);
  process.exitCode = 2;
}
