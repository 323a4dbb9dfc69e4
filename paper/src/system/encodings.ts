// The three encodings, in the order of the paper's Table 2.

import type { Ciphertext } from 'node-seal';
import type { Encoding, EncodingName, ScoreOptions, Scratch } from './encoding.ts';
import { PaperError } from './errors.ts';
import type { Primitives } from './primitives.ts';

// The loop of Algorithm 7: products of corresponding ciphertexts, and their sum. Under HERS it
// gives n scores at once, under the naive encoding one.

function innerProduct(
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

// The naive encoding (Table 2, first row): a ciphertext for every coordinate of every template. Its
// number stands in all slots, which makes the plaintext a constant polynomial, and batching is not
// used for anything.

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

// Boddeti's encoding for one-to-one matching (Table 2, second row): a ciphertext for every
// template, its coordinates in consecutive slots. One product multiplies them all; adding the
// product to itself, moved by 1, 2, 4 … slots, gathers their sum in slot 0.

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

// The paper's own encoding (equations 2 to 4; Table 2, last row): a ciphertext for every dimension,
// template j in slot j of all of them. A query holds its coordinate in every slot, so one product
// serves n templates, and nothing is rotated. Beyond n templates there are more blocks.

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

export const ENCODINGS: Readonly<Record<EncodingName, Encoding>> = { naive: NAIVE, boddeti: BODDETI, hers: HERS };
