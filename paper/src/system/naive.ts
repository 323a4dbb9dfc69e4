// The naive encoding (Table 2, first row): a ciphertext for every coordinate of every template. Its
// number stands in all slots, which makes the plaintext a constant polynomial, and batching is not
// used for anything.

import type { Encoding } from './encoding.ts';
import { innerProduct } from './inner-product.ts';

export const NAIVE: Encoding = {
  name: 'naive',
  id: 1,
  capacity: () => 1,
  ciphertexts: (dimension) => dimension,
  check() {},
  rotations: () => [],
  writeBlock(slots, templates, _dimension, i) {
    slots.fill(BigInt(templates[i]));
  },
  writeQuery(slots, query, i) {
    slots.fill(BigInt(query[i]));
  },
  score: innerProduct,
};
