// Every example of every help text runs.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { freePorts, natsServer, TestCluster } from '@hers/cluster/testing';
import {
  binFolder,
  childEnv,
  hers,
  npy,
  PEOPLE,
  Prepared,
  serve,
  shell,
  vectorOf,
  writeData,
  writeGallery,
} from '../testing/cli.ts';
import type { HersCommand } from './command.ts';
import { Interrupted } from './exit.ts';
import { makeProgram } from './program.ts';

const program = makeProgram(() => assert.fail());
const env = { HERS_PASSPHRASE: 'a passphrase for examples' };

let prepared: Prepared;
let data: Prepared;
let bin: string;
before(async () => {
  prepared = await Prepared.make(async (folder) => {
    await writeGallery(folder);
    // Fields to filter by, and something in them.
    for (const line of [
      'hers fields add faces city:keyword since:number person:keyword expires:date',
      'hers update-payload --file changes.jsonl',
    ])
      await runs(folder, line);
  });
  data = await Prepared.make(writeData);
  bin = await binFolder(prepared.folder);
});
after(() => Promise.all([prepared.remove(), data.remove()]));

/** The words of a line that needs no shell; undefined for others. */
function wordsOf(line: string): string[] | undefined {
  if (/[|<>$;&`=]/.test(line)) return undefined;
  return [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c);
}

/** Serves until it says where, on a port that nobody else has. */
async function serves(folder: string, words: readonly string[]): Promise<void> {
  const stop = new AbortController();
  const ending = new Interrupted('SIGTERM');
  const onOutput = (text: string) => {
    if (text.includes('at\thttp')) stop.abort(ending);
  };
  const { exit, err } = await hers(folder, [...words, '--port', '0'], { env, signal: stop.signal, onOutput });
  assert.equal(exit, 0, err);
}

/** Answers devices until it has looked once. */
async function keeps(folder: string, words: readonly string[]): Promise<void> {
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Interrupted('SIGTERM')), 500);
  const { exit, err } = await hers(folder, words, { env: { ...env, ...DOORS }, signal: stop.signal });
  assert.equal(exit, 0, err);
}

/** A collection with a device, for the commands about devices. */
const DOORS = { HERS_COLLECTION: 'doors' };
async function withDevice(folder: string, name: string): Promise<void> {
  for (const line of [
    'collections create doors --dimension 8 --profile open',
    `devices add ${name} --output ${name}.out`,
  ]) {
    const { exit, err } = await hers(folder, line.split(' '), { env: { ...env, ...DOORS } });
    assert.equal(exit, 0, err);
  }
}

async function runs(folder: string, line: string): Promise<void> {
  const words = wordsOf(line);
  if (words?.[1] === 'serve' || words?.[1] === 'console') return serves(folder, words.slice(1));
  if (words?.[1] === 'keeper' && !words.includes('--once')) return keeps(folder, words.slice(1));
  const own = / (?:devices|keeper) /.test(line) ? { ...env, ...DOORS } : env;
  const { exit, err } = words
    ? await hers(folder, words.slice(1), { env: own })
    : await shell(folder, line, childEnv(bin, own));
  assert.equal(exit, 0, `${line}: ${err}`);
}

/** Five of each of `PEOPLE`, as in `writeData`, with fewer coordinates. */
function shortVectors(): Buffer {
  const dimension = 16;
  const vectors = PEOPLE.flatMap((_, i) => [0, 0.1, 0.2, 0.3, 0.4].map((turned) => vectorOf(i + turned, dimension)));
  return npy(vectors, dimension);
}

function commandsOf(command: HersCommand): HersCommand[] {
  return [command, ...command.subcommands.flatMap(commandsOf)];
}

const examplesOf = (path: string) => commandsOf(program).find((command) => command.path === `hers ${path}`)!.examples;
/** These need servers of NATS, and are below. */
const isOfCluster = ({ line }: { readonly line: string }) => /^hers (?:cluster|serve --cluster) /.test(line);

describe('every command', () => {
  for (const command of commandsOf(program)) {
    const leaf = command.subcommands.length === 0;
    test(`${command.path} has a summary, a description${leaf ? ' and an example' : ''}`, async () => {
      assert.ok(command.description().length > 0);
      if (command !== program) assert.ok(command.summary().length > 0);
      if (leaf) assert.ok(command.examples.length > 0);
      const { exit, out } = await hers('/', [...command.path.split(' ').slice(1), '--help']);
      assert.equal(exit, 0);
      for (const { line, description } of command.examples)
        assert.ok(out.includes(`  # ${description}\n  ${line}\n`), line);
    });
  }
});

test('the examples of hers itself, one after the other', async () => {
  const folder = await data.copy();
  for (const { line } of program.examples) await runs(folder, line);
});

describe('a cluster', natsServer(), () => {
  const path = natsServer().path!;
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.start(path, { nodes: 0 });
  });
  after(() => cluster?.close());

  /** A folder as docs/cluster.md has it made, and the servers of NATS that are a, b and c here. */
  const nodeFolder = async () => {
    const folder = await prepared.copy();
    await runs(folder, 'hers tokens create --scope admin --tokens node-tokens.json --output node.token');
    return { folder, servers: cluster.natsUrls.join().replaceAll(',nats://', ',') };
  };

  for (const { line } of examplesOf('serve').filter(isOfCluster))
    test(line, async () => {
      const { folder, servers } = await nodeFolder();
      const words = wordsOf(line)!.map((word) => (word === 'nats://a,b,c' ? servers : word));
      assert.ok(words.includes(servers));
      await serves(folder, [...words.slice(1), '--gallery', 'node', '--node-port', '0']);
    });

  for (const { line } of examplesOf('cluster status'))
    test(line, async () => {
      const { folder, servers } = await nodeFolder();
      const [port] = await freePorts(1);
      const tokens = line.includes('--node-token-file')
        ? ['--node-tokens', 'node-tokens.json', '--node-token-file', 'node.token']
        : [];
      const node = ['--cluster', servers, '--node', 'n1', '--node-port', String(port), ...tokens];
      await using _ = await serve(folder, '--gallery', 'node', ...node);
      const url = `http://127.0.0.1:${port}`;
      const words = wordsOf(line)!.map((word) => (/^https?:.*:7444$/.test(word) ? url : word));
      const { exit, out, err } = await hers(folder, words.slice(1), { env });
      assert.equal(exit, 0, err);
      if (line.includes('--json'))
        assert.deepEqual(JSON.parse(out).nodes, [
          { name: 'n1', url, shards: 0, bytes: 0, lagging: 0, draining: false },
        ]);
      else assert.match(out, new RegExp(`n1\\s+${url}\\s.*\\sup\\b`));
    });
});

for (const command of commandsOf(program).slice(1)) {
  for (const { line } of command.examples) {
    if (isOfCluster({ line })) continue;
    test(line, async () => {
      const folder = command.name() === 'init' ? await data.copy() : await prepared.copy();
      // Learning takes as long as vectors have coordinates.
      if (/ (?:devices|keeper) /.test(line)) await withDevice(folder, / add /.test(line) ? 'another' : 'door-3');
      if (command.name() === 'train') await writeFile(join(folder, 'people.npy'), shortVectors());
      await runs(folder, line);
    });
  }
}
