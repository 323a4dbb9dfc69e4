// The addon under AddressSanitizer, in a process that loads the sanitizer first.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { it } from 'node:test';
import { nativeAddon } from '../../../tools/addon.ts';
import { buildStale } from '../../../tools/build.ts';
import { part } from '../../../tools/parts.ts';
import { ADDON_PATH } from './native-addon.node.ts';

const compiler = part('compiler');
const sanitizer = part('sanitizer');
const library = compiler.path && sanitizerOf(compiler.path);
const skip =
  sanitizer.skip ||
  compiler.skip ||
  (!library && 'the compiler has no AddressSanitizer (on Debian: it comes with g++)');

/** The compiler prints a bare name if it has none. */
function sanitizerOf(path: string): string | undefined {
  const answer = execFileSync(path, ['-print-file-name=libasan.so'], { encoding: 'utf8' }).trim();
  return isAbsolute(answer) && existsSync(answer) ? answer : undefined;
}

const output = resolve(ADDON_PATH, '../hers_ring_asan.node');
const url = (file: string) => JSON.stringify(import.meta.resolve(file));

/**
 * All functions and jobs of rings of every size, and rings that are collected. Arrays are as long
 * as they must be and no longer: whatever is read or written behind them, the sanitizer sees.
 */
const script = `
  const { allCode } = await import(${url('../testing/code.ts')});
  const { checkEqual, functionsOf, jobsOf, phasesOf } = await import(${url('../testing/ring-bytes.ts')});
  const { Ring } = await import(${url('./ring.ts')});
  const { nttPrimes } = await import(${url('./primes.ts')});
  const { packThree, roundVectors, squareSums, unpackThree } = await import(${url('./vectors.ts')});
  const [wasm, ...natives] = allCode([${JSON.stringify(output)}]);
  for (const n of [64, 128, 2048]) for (const count of [1, 2]) {
    const primes = nttPrimes(30, n, count);
    const all = (ring) => [functionsOf(ring), jobsOf(ring), n > 128 ? {} : phasesOf(ring)];
    const expected = all(new Ring(n, primes));
    for (const { name, native } of natives) all(new Ring(n, primes, native)).forEach((bytes, i) => checkEqual(bytes, expected[i], name));
  }
  for (const { native } of natives) for (const count of [1, 3, 16, 17]) for (const dimension of [1, 5, 16, 33]) {
    const data = new Float32Array(count * dimension).fill(0.5);
    const sums = squareSums(data, dimension, native);
    roundVectors(new Int32Array(data.length), new Float64Array(count), data, sums, 1000, dimension, native);
    const words = new Uint32Array(data.length).fill(0xabcdef);
    const bytes = new Uint8Array(3 * words.length);
    packThree(bytes, words, native);
    unpackThree(words, bytes, native);
  }
  globalThis.gc();
  console.log('clean', natives.length > 0);
`;

it('under AddressSanitizer the addon is clean', { skip }, async () => {
  const messages: unknown[] = [];
  const flags = ['-fsanitize=address', '-fno-omit-frame-pointer', '-O1', '-g1'];
  const target = nativeAddon(join(import.meta.dirname, '../native'), output, { flags });
  assert.ok(await buildStale([target], (message) => messages.push(message)), messages.join('\n'));
  const { status, signal, stdout, stderr } = spawnSync(
    process.execPath,
    ['--expose-gc', '--input-type=module', '-e', script],
    {
      encoding: 'utf8',
      // Node itself leaves memory to be freed by the exit of the process.
      env: { ...process.env, LD_PRELOAD: library, ASAN_OPTIONS: 'detect_leaks=0' },
    },
  );
  assert.deepEqual({ stderr, stdout, status, signal }, { stderr: '', stdout: 'clean true\n', status: 0, signal: null });
});
