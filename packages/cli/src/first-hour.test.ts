// What somebody meets who tries this for the first time, line by line.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { plan } from '@hers/scheme';
import { startServer } from '@hers/server';
import { openStore } from '@hers/store';
import { childEnv, hers, hersJson, launcher, Prepared, temporaryFolder, writeGallery } from '../testing/cli.ts';
import { errorOf } from './commands/collections.ts';
import { figureOf } from './commands/compress.ts';
import { EXIT } from './exit.ts';
import { duration } from './output.ts';

let prepared: Prepared;
before(async () => {
  prepared = await Prepared.make(writeGallery);
});
after(() => prepared.remove());

describe('help is there wherever somebody looks for it', () => {
  for (const group of ['keys', 'collections', 'tokens'])
    test(`hers ${group} alone`, async () => {
      const { exit, out, err } = await hers('/', [group]);
      assert.deepEqual([exit, err], [EXIT.done, '']);
      assert.match(out, new RegExp(`^Usage: hers ${group} `));
      assert.match(out, /Commands:\n {2}create/);
    });

  test('hers help, at any depth', async () => {
    for (const path of [[], ['keys'], ['keys', 'create'], ['search']]) {
      const help = await hers('/', ['help', ...path]);
      assert.deepEqual([help.exit, help.err], [EXIT.done, '']);
      assert.equal(help.out, (await hers('/', [...path, '--help'])).out);
    }
    const unknown = await hers('/', ['help', 'nosuch']);
    assert.deepEqual([unknown.exit, unknown.out], [EXIT.usage, '']);
    assert.match((await hers('/', ['help'])).out, /^ {2}help \[command\.\.\.\]/m);
  });
});

test('a wrong key says so, and not that there is nothing', async () => {
  const folder = await prepared.copy();
  await hers(folder, ['keys', 'create', 'other.key', '--unsealed']);
  const { exit, err } = await hers(folder, ['collections', 'list', '--key', 'other.key']);
  assert.equal(exit, EXIT.key);
  assert.match(err, /^hers: no collection here was made with this key, and 2 were with another; check --key\.\n$/);
});

describe('the planner says what it means by error', () => {
  test('compact: the noise of a score, or of a squared distance', () => {
    assert.match(
      errorOf(plan({ dimension: 128 })),
      /^0\.00045 \(rms\) in every score, \S+ of it from rounding vectors$/,
    );
    assert.match(errorOf(plan({ dimension: 128, profile: 'small' })), /^0\.0035 \(rms\) in every score, \S+ of it/);
    assert.match(
      errorOf(plan({ dimension: 64, metric: 'euclidean', normBound: 10 })),
      /^0\.\d+ \(rms\) in every squared distance, \S+ of it from rounding vectors$/,
    );
  });

  test('exact: the rounding of vectors, as it is measured', () => {
    const exact = plan({ dimension: 128, profile: 'exact' });
    const text = errorOf(exact);
    assert.match(text, /^0\.0003 \(rms\) in every score, from rounding vectors to multiples of 0\.00073; /);
    // The obvious way: round unit vectors, and compare their products with the true ones.
    let squares = 0;
    const pairs = 2000;
    for (let pair = 0; pair < pairs; pair++) {
      const [a, b] = [unit(2 * pair), unit(2 * pair + 1)];
      const round = (x: number) => Math.round(x * exact.steps) / exact.steps;
      squares += a.reduce((sum, x, i) => sum + x * b[i] - round(x) * round(b[i]), 0) ** 2;
    }
    assert.ok(Math.abs(Math.sqrt(squares / pairs) / Number.parseFloat(text) - 1) < 0.1);
  });

  const unit = (seed: number) => {
    const vector = Array.from({ length: 128 }, (_, i) => Math.sin((seed + 1) * (i + 1) * 12.9898 + i * i * 0.7));
    const norm = Math.hypot(...vector);
    return vector.map((x) => x / norm);
  };

  test('the guide does not promise that exact has no error', async () => {
    const guide = await readFile(join(import.meta.dirname, '../../../docs/getting-started.md'), 'utf8');
    assert.doesNotMatch(guide, /there is no error/);
    assert.match(guide, /0\.0003/);
  });
});

test('a vector beyond the norm bound names the option that sets it', async () => {
  const folder = await prepared.copy();
  const made = await hers(folder, ['collections', 'create', 'd', '-d', '2', '--metric', 'dot']);
  assert.match(made.out, /^norm bound\t1: no vector may be longer$/m);
  const long = { input: '{"id": "a", "vector": [3, 4]}\n' };
  const refused = await hers(folder, ['import', '-', '-c', 'd'], long);
  assert.equal(refused.exit, EXIT.input);
  assert.match(refused.err, /make the collection with a larger --norm-bound/);
  assert.match((await hers(folder, ['import', '-', '-c', 'd', '--skip-bad'], long)).err, /--norm-bound/);
  assert.match((await hers(folder, ['search', '[3, 4]', '-c', 'd'])).err, /--norm-bound/);
});

test('a vector without its closing bracket is refused', async () => {
  const folder = await prepared.copy();
  const { exit, err } = await hers(folder, ['search', '[1,0,0,0', '--collection', 'tiny']);
  assert.equal(exit, EXIT.input);
  assert.match(err, /the vector lacks a bracket/);
  assert.equal((await hers(folder, ['search', '[1,0,0,0]', '--collection', 'tiny'])).exit, EXIT.done);
});

test('a token goes into a file for its owner alone, and never over another file', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'admin.token');
  const { exit, out } = await hers(folder.path, ['tokens', 'create', '--scope', 'admin', '--output', 'admin.token']);
  assert.equal(exit, EXIT.done);
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  const secret = (await readFile(path, 'utf8')).trim();
  assert.ok(secret.length >= 40 && !out.includes(secret));
  const again = await hers(folder.path, ['tokens', 'create', '--output', 'admin.token']);
  assert.equal(again.exit, EXIT.absent);
  assert.equal((await hersJson(folder.path, ['tokens', 'list'])).tokens.length, 1);
});

test('a certificate that is not trusted is no trouble of the network, and says how to trust it', async () => {
  const folder = await prepared.copy();
  const store = await openStore(join(folder, 'gallery'), { mode: 'read' });
  const tls = { cert: join(folder, 'server.crt'), key: join(folder, 'server.key') };
  const server = await startServer(store, { port: 0, tls, log: { level: 'silent' } });
  try {
    const { exit, err } = await hers(folder, ['count', '--gallery', server.url]);
    assert.equal(exit, EXIT.key, err);
    assert.match(err, /cannot be reached: self-signed certificate; .* where NODE_EXTRA_CA_CERTS names its file/);
    const doctor = await hers(folder, ['doctor', '--gallery', server.url]);
    assert.match(doctor.out, /^problem\tgallery\t.*self-signed certificate.*\t.*NODE_EXTRA_CA_CERTS/m);
    const guide = await readFile(join(import.meta.dirname, '../../../docs/server.md'), 'utf8');
    assert.match(guide, /NODE_EXTRA_CA_CERTS/);
  } finally {
    await server.close();
  }
});

test('dimension ends with a recommendation', async () => {
  const folder = await prepared.copy();
  const { out } = await hers(folder, ['dimension', 'people.npy', '--neighbours', '5']);
  assert.match(out.trimEnd().split('\n').at(-1)!, /^recommendation\t/);
  // The graph of the authors' default, and the largest that five neighbours allow.
  assert.deepEqual(
    [...out.matchAll(/^graph distance, k = (\d+)\t/gm)].map(([, k]) => k),
    ['4', '5'],
  );
});

test('dimension measures angles unless the metric is another, and says why there is no estimate', async () => {
  const folder = await prepared.copy();
  // On a sphere of 3 dimensions, with lengths from 1 to 10 000.
  const random = (
    (state) => () =>
      (state = (state * 48271) % 2147483647) / 2147483647
  )(7);
  const rows = Array.from({ length: 600 }, () => {
    const point = Array.from({ length: 4 }, () => [0, 0, 0, 0, 0, 0].reduce((sum) => sum + random() - 0.5, 0));
    const length = 10 ** (4 * random()) / Math.hypot(...point);
    return JSON.stringify({ vector: point.map((x) => x * length) });
  });
  await writeFile(join(folder, 'rays.jsonl'), rows.join('\n'));
  const run = async (...args: string[]) =>
    JSON.parse((await hers(folder, ['dimension', 'rays.jsonl', ...args, '--json'])).out);
  const byAngle = await run();
  assert.deepEqual([byAngle.distance, byAngle.graphDistance.map(({ k }: { k: number }) => k)], ['angle', [4, 9]]);
  for (const { estimate, connected, residual, refusal } of byAngle.graphDistance) {
    assert.ok(estimate > 2.5 && estimate < 4, estimate);
    assert.ok(connected > 0.99 && residual < 0.1 && refusal === null);
  }
  const byDistance = await run('--metric', 'euclidean');
  for (const { estimate, refusal } of byDistance.graphDistance) {
    assert.equal(estimate, null);
    assert.match(refusal, /longest edge|standard deviation/);
  }
  const { out } = await hers(folder, ['dimension', 'rays.jsonl', '--metric', 'euclidean']);
  assert.match(out, /^graph distance, k = 9\tno estimate: the most frequent distance/m);
});

test('durations, and the figures of compressors, read as people write them', () => {
  assert.deepEqual([3.2, 9.96, 999.7, 1000, 9960, 59_700, 119_700, 179_600, 3_599_600, 7_199_000].map(duration), [
    '3.2 ms',
    '10 ms',
    '1.0 s',
    '1 s',
    '10 s',
    '1 min 0 s',
    '2 min 0 s',
    '3 min 0 s',
    '1 h 0 min',
    '2 h 0 min',
  ]);
  assert.deepEqual(figureOf('varianceKept', 0.15772), ['variance kept', '15.8 %']);
  assert.deepEqual(figureOf('validationRank1', 0.98765), ['rank-1 on held-out labels', '0.9877']);
});

test('one row is one row', async () => {
  const folder = await prepared.copy();
  const { err } = await hers(folder, ['import', '-', '--row-ids', '--skip-bad', '-c', 'tiny'], { input: '1,2\n' });
  assert.match(err, /the only row could not be used/);
});

test('the path that the documents tell of does not put another Node before the one that is there', async () => {
  const root = join(import.meta.dirname, '../../..');
  for (const file of ['README.md', 'docs/getting-started.md', 'examples/tour/tour.ts']) {
    const text = await readFile(join(root, file), 'utf8');
    assert.doesNotMatch(text, /node_modules\/\.bin[^\n]*:\$PATH|first on (?:the|your) `PATH`/, file);
  }
});

test('npm knows every setting of ours, and runs no script of a package', async () => {
  const settings = (await readFile(join(import.meta.dirname, '../../../.npmrc'), 'utf8')).trim().split('\n');
  assert.deepEqual(
    settings.filter((line) => !/^(?:omit-lockfile-registry-resolved|save-exact|ignore-scripts)=/.test(line)),
    [],
  );
  assert.ok(settings.includes('ignore-scripts=true'));
});

/** Counts what is loaded, and writes that to the file that LOADED names. */
const COUNTING = `
import { writeFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
const sizes = [];
registerHooks({
  load(url, context, next) {
    const result = next(url, context);
    if (!url.startsWith('node:')) sizes.push(result.source?.length ?? 0);
    return result;
  },
});
process.on('exit', () => writeFileSync(process.env.LOADED, JSON.stringify(sizes)));
`;

// Loading modules is most of what a command does before it does anything. Its processor time says
// more about what else a machine does.
test('a command loads no more than it did when it started fast', async () => {
  await using folder = await temporaryFolder();
  await hers(folder.path, ['init', '--unsealed']);
  const hooks = join(folder.path, 'counting.mjs');
  const loaded = join(folder.path, 'loaded.json');
  await writeFile(hooks, COUNTING);
  for (const [args, most, mostBytes] of [
    [['--version'], 280, 2e6],
    [['--help'], 280, 2e6],
    [['collections', 'list'], 360, 2.5e6],
  ] as const) {
    const env = { ...childEnv('/nowhere'), LOADED: loaded };
    const given = ['--import', pathToFileURL(hooks).href, launcher, ...args];
    const { status, stderr } = spawnSync(process.execPath, given, { cwd: folder.path, env, encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    const sizes: number[] = JSON.parse(await readFile(loaded, 'utf8'));
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    assert.ok(sizes.length > 50 && sizes.length <= most, `hers ${args.join(' ')} loads ${sizes.length} modules`);
    assert.ok(bytes > 1e5 && bytes <= mostBytes, `hers ${args.join(' ')} loads ${bytes} bytes of modules`);
  }
});

test('a field that would be lost is refused, until somebody says what to keep', async () => {
  const folder = await prepared.copy();
  const tiny = ['--collection', 'tiny'];
  const input = '{"id": "a", "vector": [1, 2, 3, 4], "paylod": {"city": "Delft"}, "since": 1990}\n';
  const refused = await hers(folder, ['import', '-', ...tiny], { input });
  assert.equal(refused.exit, EXIT.input);
  assert.match(refused.err, /line 1 has a field "paylod", which is neither id, vector nor payload; --payload names/);
  assert.equal((await hers(folder, ['count', ...tiny])).out, '2\n');
  assert.equal((await hers(folder, ['import', '-', '--no-payload', ...tiny], { input })).exit, EXIT.done);
  const payloadOf = async () => (await hersJson(folder, ['get', 'a', ...tiny])).payload;
  assert.equal(await payloadOf(), undefined);
  await hers(folder, ['import', '-', '--payload', 'since', ...tiny], { input });
  assert.deepEqual(await payloadOf(), { since: 1990 });
  const both = await hers(folder, ['import', '-', '--no-payload', '--payloads', 'people.csv', ...tiny], { input });
  assert.equal(both.exit, EXIT.usage);
});
