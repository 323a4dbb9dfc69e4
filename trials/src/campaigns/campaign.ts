// `npm run campaign -- <name>`: checks that are too long for `npm test`, which runs a short form of
// each.

import {
  type Listed,
  parse,
  type Runner,
  type RunnerOption,
  refuse,
  UsageError,
  type Values,
  wholeNumber,
} from '@hers/paper/lab/runner';
import { randomBytes, randomSeed } from '@hers/ring';
import { type Profile, plan } from '@hers/scheme';
import { GALLERY_KINDS, measureNoise } from '@hers/scheme/testing/measure';
import { Random } from '@hers/vectors/random';

interface Campaign extends Listed {
  run(values: Values): boolean | Promise<boolean>;
}

const number = (help: string): RunnerOption => ({ type: 'string', help });

const SEARCHES = number('how many (25000)');
const KILLS = number('how many (300)');
const SEED = number('of an earlier run, to repeat it (a fresh one)');

const searchesOf = (values: Values) => wholeNumber(values, 'searches', 25_000);
const killsOf = (values: Values) => wholeNumber(values, 'kills', 300);
const seedOf = (values: Values) => wholeNumber(values, 'seed', 1 + (new Uint32Array(randomSeed().buffer)[0] >>> 1));

/** Cases are counted from zero. */
const caseOf = (values: Values) =>
  values.case === undefined ? undefined : values.case === '0' ? 0 : wholeNumber(values, 'case', 0);

const CAMPAIGNS: Readonly<Record<string, Campaign>> = {
  noise: {
    summary:
      'measured noise against its prediction, with fresh randomness: every profile, d = 16 … 1536, every kind of gallery (some 20 minutes)',
    options: {
      queries: number('queries per case (400)'),
      dimension: number('this dimension alone'),
      profile: number('this profile alone: compact, small or exact'),
      gallery: number(`these templates alone: ${GALLERY_KINDS.join(', ')}`),
    },
    run: (values) => noise(wholeNumber(values, 'queries', 400), noiseCases(values)),
  },
  'noise-tail': {
    summary: 'the largest error of a hundred million scores at d = 16, of `compact` and of `small` (some 10 minutes)',
    options: { scores: number('how many of each (100000000)') },
    run: (values) => noiseTail(wholeNumber(values, 'scores', 100_000_000)),
  },
  soak: {
    summary: 'many searches on a small gallery, with writes in between: memory must stay flat',
    options: { searches: SEARCHES },
    run: async (values) => (await import('./soak.ts')).soak(searchesOf(values)),
  },
  crash: {
    summary:
      'processes killed at random moments: the store alone, then a client that enrols, optimizes and rotates keys; everything acknowledged must be there afterwards',
    options: { kills: number('how many of each (300)') },
    run: (values) => crash(killsOf(values)),
  },
  'soak-service': {
    summary: "the same as soak over HTTP, with rude clients in between: the server's memory must stay flat",
    options: { searches: SEARCHES },
    run: async (values) => (await import('./soak-service.ts')).soakService(searchesOf(values)),
  },
  'crash-service': {
    summary:
      'a server killed at random moments under load and started again: clients go on by themselves, and everything acknowledged must be there',
    options: { kills: KILLS },
    run: (values) => crashService(killsOf(values)),
  },
  'crash-devices': {
    summary:
      'the server, the keeper and the owner of an open collection killed at random moments while devices ask and enrol, with and without keys of their own, and are added, renewed and revoked: every question is answered once and rightly, and nothing acknowledged is lost',
    options: { kills: KILLS },
    run: (values) => crashDevices(killsOf(values)),
  },
  connections: {
    summary:
      'idle connections, as many as asked for or as the descriptor limit allows: others are served, idle ones let go',
    options: { count: number('how many (10000)') },
    run: async (values) => (await import('./connections.ts')).idleConnections(wholeNumber(values, 'count', 10_000)),
  },
  cheating: {
    summary:
      'a store that cheats at random in every way it can, under clients that go on: nothing wrong without an error',
    options: { seconds: number('how long (300)'), seed: SEED },
    run: async (values) =>
      (await import('./cheating/campaign.ts')).cheating({
        seconds: wholeNumber(values, 'seconds', 300),
        seed: seedOf(values),
      }),
  },
  damage: {
    summary:
      'galleries damaged at random, in every kind of file: right or an error, nothing deleted, and repaired but for the damaged bytes',
    options: { cases: number('how many (2000)'), seed: SEED, case: number('this one alone') },
    run: async (values) => {
      const only = caseOf(values);
      return (await import('./damage/campaign.ts')).damage({
        cases: wholeNumber(values, 'cases', 2000),
        seed: seedOf(values),
        ...(only === undefined ? {} : { only }),
      });
    },
  },
  'hostile-clients': {
    summary:
      'a server attacked in every way that comes to mind, while one honest client is served: no 5xx, no death, nobody let in, memory within its limits, right answers, and p95 below ten times that of quiet times',
    options: { seconds: number('how long, without the enrolment before (300)'), seed: SEED },
    run: async (values) =>
      (await import('./hostile/campaign.ts')).hostileClients({
        seconds: wholeNumber(values, 'seconds', 300),
        seed: seedOf(values),
      }),
  },
  cluster: {
    summary:
      'everything that can break in a cluster does: nodes and servers of NATS killed and paused, disks wiped, filled and damaged, networks cut, clocks turned, nodes added and emptied; nothing acknowledged is lost, no answer is wrong or old, and all heals by itself',
    options: { minutes: number('how long (10)'), seed: SEED },
    run: async (values) =>
      (await import('./cluster.ts')).clusterCampaign({
        minutes: wholeNumber(values, 'minutes', 10),
        seed: seedOf(values),
      }),
  },
  busy: {
    summary:
      'many searchers while records are enrolled into the same collection over HTTP: every answer is right, and p99 below ten times p50',
    options: { searchers: number('how many (50)'), records: number('how many (200000)'), seed: SEED },
    run: async (values) =>
      (await import('./hostile/busy.ts')).busy({
        searchers: wholeNumber(values, 'searchers', 50),
        records: wholeNumber(values, 'records', 200_000),
        seed: seedOf(values),
      }),
  },
};

/** A fresh source of normally distributed numbers. */
function normal(): () => number {
  const gaussian = new Random();
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

interface NoiseCase {
  readonly profile: Profile;
  readonly dimension: number;
  readonly gallery: (typeof GALLERY_KINDS)[number];
}

/** An option that is one of these, or nothing for all of them. */
function chosen<T extends string | number>(values: Values, name: string, all: readonly T[]): readonly T[] {
  const wanted = values[name];
  const found = wanted === undefined ? all : all.filter((each) => String(each) === wanted);
  if (found.length === 0) throw new UsageError(`--${name} is one of ${all.join(', ')}, not ${JSON.stringify(wanted)}`);
  return found;
}

function noiseCases(values: Values): NoiseCase[] {
  const dimensions = values.dimension === undefined ? [16, 128, 512, 1536] : [wholeNumber(values, 'dimension', 1)];
  const profiles = chosen(values, 'profile', ['compact', 'small', 'exact'] as const);
  const galleries = chosen(values, 'gallery', GALLERY_KINDS);
  return profiles.flatMap((profile) =>
    dimensions.flatMap((dimension) => galleries.map((gallery) => ({ profile, dimension, gallery }))),
  );
}

function noise(queries: number, cases: readonly NoiseCase[]): boolean {
  const entropy = { seed: randomSeed, id: () => randomBytes(16) };
  // A line as soon as its case is measured: all of them take long.
  const line = (cells: readonly string[]) =>
    console.log(cells.map((cell, i) => (i === 0 || i === 2 ? cell.padEnd(10) : cell.padStart(9))).join(' '));
  line(['profile', 'd', 'gallery', 'scores', 'measured', 'predicted', 'ratio', 'largest', 'wrong']);
  let sound = true;
  for (const { profile, dimension, gallery } of cases) {
    const onProgress = (done: number, of: number) =>
      show(`${profile} d = ${dimension} ${gallery} ${Math.floor((100 * done) / of)} %`);
    const settings = plan({ dimension, profile });
    const { measured, predicted, ratio, largest, scores, wrong } = measureNoise(settings, {
      gallery,
      queries,
      entropy,
      normal: normal(),
      onProgress,
    });
    if (Math.abs(ratio - 1) > 0.1 || (profile === 'exact' && wrong > 0)) sound = false;
    const figures = [measured, predicted].map((x) => x.toExponential(3));
    const shown = profile === 'exact' ? String(wrong) : '';
    line([
      profile,
      String(dimension),
      gallery,
      scores.toLocaleString('en-GB'),
      ...figures,
      ratio.toFixed(3),
      (largest / measured).toFixed(2),
      shown,
    ]);
  }
  if (process.stderr.isTTY) process.stderr.write('\n');
  console.log(
    sound ? '\nAll within 10 % of the prediction, no wrong score.' : '\nNOT as predicted: see the ratios above.',
  );
  return sound;
}

/**
 * Errors are nearly normal, so the largest of N is near the deviation that one of N exceeds: at
 * most √(2·ln N), and a whole deviation more in one run of a hundred.
 */
function noiseTail(scores: number): boolean {
  const entropy = { seed: randomSeed, id: () => randomBytes(16) };
  let sound = true;
  for (const profile of ['compact', 'small'] as const) {
    const settings = plan({ dimension: 16, profile });
    const queries = Math.ceil(scores / settings.parameters.n);
    const onProgress = (done: number, of: number) => {
      if (done % 100 === 0) show(`${profile} ${Math.floor((100 * done) / of)} %`);
    };
    const found = measureNoise(settings, { gallery: 'random', queries, entropy, normal: normal(), onProgress });
    const largest = found.largest / found.measured;
    const most = Math.sqrt(2 * Math.log(found.scores)) + 1;
    sound &&= Math.abs(found.ratio - 1) < 0.03 && largest < most;
    console.log(
      `${profile}: ${found.scores.toLocaleString('en-GB')} scores, ${found.measured.toExponential(3)} rms, ` +
        `${found.ratio.toFixed(3)} of the prediction; the largest error is ${found.largest.toExponential(3)}, ` +
        `${largest.toFixed(2)} deviations (${most.toFixed(2)} are allowed)`,
    );
  }
  return sound;
}

/** Shows how far it is, where somebody looks. */
function show(line: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r${line}   `);
}

/** Throws with what is missing, so returning means success. */
async function crash(kills: number): Promise<boolean> {
  const { crashCampaign } = await import('@hers/store/testing/crash');
  const { killCampaign } = await import('@hers/client/kill');
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
  const { written, searches, retries } = await killService(kills, (done, records) =>
    show(`${done} of ${kills} kills, ${records} records acknowledged`),
  );
  console.log(
    `server: ${kills} kills, ${written} records acknowledged, ${searches} searches answered, ${retries} attempts repeated, nothing lost`,
  );
  return true;
}

/** Throws with what is wrong, too. */
async function crashDevices(count: number): Promise<boolean> {
  const { killDevices } = await import('./kill-devices.ts');
  const { kills, ...rest } = await killDevices(count, show);
  const { asked, answered, interrupted, refused, enrolled, bundles, rotations } = rest;
  console.log(
    `${kills.server} kills of the server, ${kills.keeper} of the keeper, ${kills.owner} of the owner: of ${asked} posts acknowledged ${answered} answered, ${enrolled} enrolled, ${interrupted} interrupted, ${refused} of devices that were changed meanwhile; ${bundles} bundles, ${rotations} rotations, nothing lost`,
  );
  return true;
}

const RUNNER: Runner<Campaign> = {
  command: 'npm run campaign --',
  noun: 'campaign',
  items: Object.fromEntries(Object.entries(CAMPAIGNS).map(([name, campaign]) => [name, () => campaign])),
  examples: [
    'npm run campaign -- noise',
    'npm run campaign -- noise --queries 40 --dimension 128',
    'npm run campaign -- noise --profile exact --gallery identical',
    'npm run campaign -- soak --searches 1000',
    'npm run campaign -- crash --kills 50',
  ],
  remedy: '`npm run campaign -- --help` lists what there is',
};

try {
  const call = await parse(RUNNER, process.argv.slice(2));
  if (call && !(await call.item.run(call.values))) process.exitCode = 1;
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.exitCode = refuse(RUNNER, error);
}
