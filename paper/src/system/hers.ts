// The paper's own encoding (equations 2 to 4; Table 2, last row): a ciphertext for every dimension,
// template j in slot j of all of them. A query holds its coordinate in every slot, so one product
// serves n templates, and nothing is rotated. Beyond n templates there are more blocks.

import type { Encoding } from './encoding.ts';
import { innerProduct } from './inner-product.ts';

export const HERS: Encoding = {
  name: 'hers',
  id: 3,
  capacity: (n) => n,
  ciphertexts: (dimension) => dimension,
  check() {},
  rotations: () => [],
  writeBlock(slots, templates, dimension, i, slot) {
    for (let j = 0; j * dimension < templates.length; j++) slots[slot + j] = BigInt(templates[j * dimension + i]);
  },
  writeQuery(slots, query, i) {
    slots.fill(BigInt(query[i]));
  },
  score: innerProduct,
};
