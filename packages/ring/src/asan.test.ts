// The addon under AddressSanitizer, in a process that loads the sanitizer first.

import { join, resolve } from 'node:path';
import { it } from 'node:test';
import { nativeAddon } from '../../../tools/addon.ts';
import { buildSanitized, checkSays, SANITIZER_FLAGS, skip } from '../../../tools/sanitize.ts';
import { ADDON_PATH } from './native-addon.node.ts';

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
  const { nttPrimes } = await import(${url('../testing/primes.ts')});
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
  await buildSanitized(nativeAddon(join(import.meta.dirname, '../native'), output, { flags: SANITIZER_FLAGS }));
  checkSays(['--expose-gc', '--input-type=module', '-e', script], 'clean true\n');
});
