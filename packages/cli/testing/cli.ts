// Shared by tests: runs of the command inside this process or in one of its own, and a folder with
// everything in it.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { MasterSeed, openKey, sealKey } from '@hers/client';
import { selfSigned } from '@hers/server/testing';
import { npyHeader } from '@hers/vectors/npy';
import { Interrupted } from '../src/exit.ts';
import { run } from '../src/program.ts';

export interface Outcome {
  readonly exit: number;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  readonly env?: Record<string, string>;
  readonly input?: string | Uint8Array;
  readonly signal?: AbortSignal;
  /** Hears what is printed as it is. */
  readonly onOutput?: (text: string) => void;
}

class Collected extends Writable {
  readonly #chunks: Buffer[] = [];
  readonly #onText: ((text: string) => void) | undefined;

  constructor(onText?: (text: string) => void) {
    super();
    this.#onText = onText;
  }

  override _write(chunk: Buffer | string, _: string, done: () => void): void {
    this.#chunks.push(Buffer.from(chunk));
    this.#onText?.(chunk.toString());
    done();
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}

/** Runs the command in this process: no terminal, and no environment but the one given. */
export async function hers(cwd: string, args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
  const { out, ...rest } = await hersBytes(cwd, args, options);
  return { ...rest, out: out.toString('utf8') };
}

export async function hersBytes(cwd: string, args: readonly string[], options: RunOptions = {}) {
  const { env = {}, input, signal, onOutput } = options;
  const stdout = new Collected(onOutput);
  const stderr = new Collected();
  const stdin = Readable.from(input === undefined ? [] : [Buffer.from(input)]);
  const environment = { cwd, env, stdin, stdout, stderr, signal: signal ?? new AbortController().signal };
  const exit = await run(args, environment);
  return { exit, out: stdout.bytes, err: stderr.bytes.toString('utf8') };
}

/** A command that must succeed, and what it printed as JSON. */
export async function hersJson(cwd: string, args: readonly string[], options?: RunOptions) {
  const { exit, out, err } = await hers(cwd, [...args, '--json'], options);
  if (exit !== 0) throw new Error(`hers ${args.join(' ')} ended with ${exit}: ${err}`);
  return JSON.parse(out);
}

/** `hers serve` in this process, until it is disposed of. */
export async function serve(folder: string, ...args: string[]): Promise<{ url: string } & AsyncDisposable> {
  const stop = new AbortController();
  let url: string | undefined;
  const running = Promise.withResolvers<string>();
  const ended = hers(folder, ['serve', '--port', '0', '--json', ...args], {
    signal: stop.signal,
    onOutput: (text) => {
      url ??= JSON.parse(text).url;
      running.resolve(url!);
    },
  });
  void ended.then(({ err }) => running.reject(new Error(err)));
  await running.promise;
  return {
    url: url!,
    async [Symbol.asyncDispose]() {
      stop.abort(new Interrupted('SIGTERM'));
      assert.equal((await ended).exit, 0);
    },
  };
}

export const launcher = resolve(import.meta.dirname, '../bin/hers.mjs');

/**
 * The environment of a child process: what a shell needs, `hers` on the path, and no settings of
 * whoever runs the tests.
 */
export function childEnv(bin: string, env: Record<string, string> = {}): Record<string, string> {
  const { PATH = '', HOME = '', TMPDIR } = process.env;
  return { PATH: `${bin}:${PATH}`, HOME, ...(TMPDIR ? { TMPDIR } : {}), ...env };
}

/** A folder for the path in which `hers` is this launcher, run by this Node. */
export async function binFolder(parent: string): Promise<string> {
  const bin = join(parent, 'bin');
  await mkdir(bin, { recursive: true });
  const script = `#!/bin/sh\nexec "${process.execPath}" "${launcher}" "$@"\n`;
  await writeFile(join(bin, 'hers'), script, { mode: 0o755 });
  return bin;
}

/** Runs a line of the shell, which stops at the first failure. */
export async function shell(cwd: string, line: string, env: Record<string, string>): Promise<Outcome> {
  const child = spawn('bash', ['-euo', 'pipefail', '-c', line], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (err += text));
  const [exit] = await once(child, 'close');
  return { exit: exit ?? -1, out, err };
}

export async function temporaryFolder(): Promise<{ path: string; [Symbol.asyncDispose](): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'hers-cli-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

export const DIMENSION = 128;
export const PEOPLE = 'ada alan barbara claude dorothy edsger emmy evelyn frances grace hedy ivan'.split(' ');

/** A vector that follows from a number; near ones for fractions. */
export function vectorOf(seed: number, dimension = DIMENSION): Float32Array {
  const person = Math.floor(seed);
  const vector = Float32Array.from({ length: dimension }, (_, i) => Math.sin((person + 1) * (i + 1) * 12.9898));
  if (seed !== person) for (let i = 0; i < dimension; i++) vector[i] += (seed - person) * Math.cos((i + 1) * 78.233);
  return vector;
}

export function npy(vectors: readonly Float32Array[], dimension = DIMENSION): Buffer {
  return Buffer.concat([npyHeader(vectors.length, dimension), ...vectors.map((v) => Buffer.from(v.buffer))]);
}

/** The files that the examples of the help speak of. */
export async function writeData(folder: string): Promise<void> {
  const gallery = PEOPLE.map((_, i) => vectorOf(i));
  const cities = PEOPLE.map((_, i) => ['Delft', 'Turin', 'Bergen'][i % 3]);
  const write = (name: string, content: string | Uint8Array) => writeFile(join(folder, name), content);
  await write('vectors.npy', npy(gallery));
  await write('probes.npy', npy([0.2, 1.2, 2.2, 3.2].map((seed) => vectorOf(seed))));
  await writeFile(join(folder, 'new-phrase.txt'), 'correct horse battery staple\n', { mode: 0o600 });
  const pictures = PEOPLE.flatMap((_, i) => [0, 0.1, 0.2, 0.3, 0.4].map((turned) => vectorOf(i + turned)));
  await write('people.npy', npy(pictures));
  await write('people.txt', `${PEOPLE.flatMap((name) => Array(5).fill(name)).join('\n')}\n`);
  await write('names.txt', `${PEOPLE.join('\n')}\n`);
  const head = ['name', 'city', 'since', ...Array.from({ length: DIMENSION }, (_, i) => `x${i}`)];
  const rows = PEOPLE.map((name, i) => [name, cities[i], 1990 + i, ...gallery[i]]);
  await write('people.csv', `${[head, ...rows].map((row) => row.join(',')).join('\n')}\n`);
  const lines = PEOPLE.map((id, i) => JSON.stringify({ id, vector: [...gallery[i]], payload: { city: cities[i] } }));
  await write('people.jsonl', `${lines.join('\n')}\n`);
  const changes = PEOPLE.map((person, i) => ({ id: person, payload: { city: cities[i], since: 1990 + i, person } }));
  await write('changes.jsonl', `${changes.map((change) => JSON.stringify(change)).join('\n')}\n`);
}

async function must(outcome: Promise<Outcome>): Promise<void> {
  const { exit, err } = await outcome;
  if (exit !== 0) throw new Error(`ended with ${exit}: ${err}`);
}

/**
 * A folder with the data, a key without a passphrase, a gallery with the collections `faces` (the
 * one in the settings) and `tiny`, and an old snapshot.
 */
export async function writeGallery(folder: string): Promise<void> {
  await writeData(folder);
  await must(hers(folder, ['init', '--unsealed']));
  await must(hers(folder, ['collections', 'create', 'faces', '--dimension', String(DIMENSION)]));
  await must(hers(folder, ['import', 'people.jsonl']));
  await must(hers(folder, ['snapshot', 'old-faces.snapshot']));
  await must(hers(folder, ['train', 'people.npy', '-m', 'pca', '-d', '8', '-o', 'faces.onnx']));
  await must(hers(folder, ['collections', 'create', 'tiny', '--dimension', '4']));
  await must(hers(folder, ['import', '-', '--row-ids', '--collection', 'tiny'], { input: '1,0,0,0\n0,1,0,0\n' }));
  await must(hers(folder, ['optimize', '--collection', 'faces']));
  const { cert, key } = selfSigned();
  await writeFile(join(folder, 'server.crt'), cert);
  await writeFile(join(folder, 'server.key'), key, { mode: 0o600 });
  const token = { id: '0123456789ab', scope: 'search', created: '2026-01-01T00:00:00.000Z', hash: '0'.repeat(64) };
  await writeFile(join(folder, 'server-tokens.json'), JSON.stringify({ format: 1, tokens: [token] }), { mode: 0o600 });
  await writeFile(
    join(folder, 'hers.config.json'),
    JSON.stringify({ gallery: 'gallery', key: 'hers.key', collection: 'faces' }),
    { mode: 0o600 },
  );
}

/** Copies of a prepared folder: each test may do what it likes with its own. */
export class Prepared {
  readonly #parent: string;
  readonly #template: string;
  #copies = 0;

  private constructor(parent: string, template: string) {
    this.#parent = parent;
    this.#template = template;
  }

  static async make(write: (folder: string) => Promise<void>): Promise<Prepared> {
    const parent = await mkdtemp(join(tmpdir(), 'hers-cli-'));
    const template = join(parent, 'template');
    await mkdir(template);
    await write(template);
    return new Prepared(parent, template);
  }

  get folder(): string {
    return this.#parent;
  }

  async copy(): Promise<string> {
    const path = join(this.#parent, `copy-${++this.#copies}`);
    await cp(this.#template, path, { recursive: true, preserveTimestamps: true });
    return path;
  }

  async remove(): Promise<void> {
    await rm(this.#parent, { recursive: true, force: true });
  }
}

/**
 * A key file whose passphrase takes no time to check; only for tests. It holds the key of `text`,
 * or a new one.
 */
export async function quicklySealed(passphrase: string, text?: string): Promise<string> {
  using seed = text === undefined ? MasterSeed.generate() : await openKey(text);
  return await sealKey(seed, passphrase, 2 ** 10); // awaited: the seed is wiped on the way out
}
