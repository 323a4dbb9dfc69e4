// A gallery in one encrypted block, searched by the scheme itself: what its server sees, and what
// its client decrypts.

import {
  type Block,
  type BlockMatrix,
  blockMatrix,
  decodeBlock,
  decodeQuery,
  encodeResponse,
  expandedQuery,
  type Profile,
  plan,
  polyWords,
  ringOf,
  roundVectors,
  scanBlock,
} from '@hers/scheme';
import { type CollectionKey, encryptBlock, encryptQuery, MasterSeed } from '@hers/scheme/secret';

/** A key that is used for nothing else. */
export function newKey(dimension: number, profile: Profile): CollectionKey {
  const master = MasterSeed.generate();
  const key = master.collectionKey(plan({ dimension, profile }), crypto.getRandomValues(new Uint8Array(16)));
  master.wipe();
  return key;
}

export class EncryptedBlock {
  readonly #key: CollectionKey;
  readonly #matrix: BlockMatrix;
  /**
   * Coefficients of the ciphertext in place of the templates, scaled to the mean length of a
   * template, so that λ means the same for them.
   */
  readonly words: Float64Array;

  constructor(templates: Float32Array, dimension: number, profile: Profile) {
    this.#key = newKey(dimension, profile);
    const block = decodeBlock(encryptBlock(this.#key, templates));
    this.#matrix = blockMatrix(block);
    const slots = Int32Array.from({ length: templates.length / dimension }, (_, j) => j);
    const words = ciphertextAsGallery(block, slots, dimension);
    const length = Math.sqrt(words.reduce((sum, x) => sum + x * x, 0) / slots.length);
    this.words = words.map((x) => x / length);
  }

  /** Decrypted scores, one for each template. */
  search(probe: Float32Array): Float64Array {
    const { query, secret } = encryptQuery(this.#key, probe);
    const { scores } = secret.decrypt(encodeResponse(scanBlock(this.#matrix, expandedQuery(decodeQuery(query)))));
    secret.wipe();
    return Float64Array.from(scores);
  }

  /**
   * Probes as they are compared, which anyone can compute: `exact` rounds them to its steps,
   * `compact` far more finely.
   */
  compared(probes: Float32Array): Float64Array {
    const { plan } = this.#key;
    const steps = plan.profile === 'exact' ? plan.steps : plan.queryScale;
    return Float64Array.from(roundVectors(plan, probes, 'query'), (x) => x / steps);
  }

  wipe(): void {
    this.#key.wipe();
  }
}

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
