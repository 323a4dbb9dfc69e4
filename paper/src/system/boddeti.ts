// Boddeti's encoding for one-to-one matching (Table 2, second row): a ciphertext for every
// template, its coordinates in consecutive slots. One product multiplies them all; adding the
// product to itself, moved by 1, 2, 4 … slots, gathers their sum in slot 0.

import type { Encoding } from './encoding.ts';
import { PaperError } from './errors.ts';

/**
 * 1, 2, 4 … below the dimension: ⌈log2 d⌉ of them. Slots beyond the dimension are zero, so d need
 * not be a power of two.
 */
function powersBelow(dimension: number): number[] {
  return Array.from({ length: Math.ceil(Math.log2(dimension)) }, (_, k) => 2 ** k);
}

export const BODDETI: Encoding = {
  name: 'boddeti',
  id: 2,
  capacity: () => 1,
  ciphertexts: () => 1,
  check(dimension, n) {
    if (dimension > n) {
      throw new PaperError('INVALID_ARGUMENT', `a template of ${dimension} coordinates does not fit into ${n} slots`);
    }
  },
  rotations: powersBelow,
  writeBlock(slots, templates, dimension) {
    for (let i = 0; i < dimension; i++) slots[i] = BigInt(templates[i]);
  },
  writeQuery(slots, query) {
    query.forEach((value, i) => {
      slots[i] = BigInt(value);
    });
  },
  score(primitives, [query], [template], { sum, product }, { dimension }) {
    primitives.multiply(query, template, sum);
    for (const steps of powersBelow(dimension)) {
      primitives.rotate(sum, steps, product);
      primitives.add(sum, product);
    }
  },
};
