// What a server could take for a gallery: the coefficients of a block's rows, as numbers between −½
// and ½. Coefficient j of row i is where coordinate i of template j would stand if there were no
// encryption.

import { type Block, polyWords, ringOf } from '@hers/scheme';

/** Row j holds the coefficients that belong to template `places[j]`. */
export function ciphertextAsGallery(block: Block, places: ArrayLike<number>, dimension: number): Float64Array {
  const ring = ringOf(block.parameters);
  const words = polyWords(block.parameters);
  const modulus = block.parameters.primes.reduce((product, prime) => product * prime, 1);
  const out = new Float64Array(places.length * dimension);
  const [row] = ring.polys;
  for (let i = 0; i < dimension; i++) {
    row.residues.set(block.rows.subarray(i * words, (i + 1) * words));
    ring.intt(row);
    const centred = ring.centred(row);
    for (let j = 0; j < places.length; j++) out[j * dimension + i] = centred[places[j]] / modulus;
  }
  ring.wipe();
  return out;
}

/** All coefficients of all rows. */
export function ciphertextCoefficients(block: Block): Float64Array {
  const { n } = block.parameters;
  const places = Int32Array.from({ length: n }, (_, j) => j);
  return ciphertextAsGallery(block, places, block.width);
}
