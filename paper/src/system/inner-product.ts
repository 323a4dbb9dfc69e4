// The loop of Algorithm 7: products of corresponding ciphertexts, and their sum. Under HERS it
// gives n scores at once, under the naive encoding one.

import type { Ciphertext } from 'node-seal';
import type { ScoreOptions, Scratch } from './encoding.ts';
import type { Primitives } from './primitives.ts';

export function innerProduct(
  primitives: Primitives,
  query: readonly Ciphertext[],
  block: readonly Ciphertext[],
  { sum, product }: Scratch,
  { relinearise, zeroStart }: ScoreOptions,
): void {
  if (zeroStart) primitives.encryptZero(sum);
  query.forEach((coordinate, i) => {
    const into = i === 0 && !zeroStart ? sum : product;
    if (relinearise === 'each') primitives.multiply(coordinate, block[i], into);
    else primitives.tensor(coordinate, block[i], into);
    if (into === product) primitives.add(sum, product);
  });
  if (relinearise === 'once') primitives.relinearise(sum);
}
