// Exact search in the clear: the baseline for the answers and the speed of an encrypted search.

/** The best template of every probe: its index in the gallery and its score. */
export type Best = { index: Int32Array; score: Float64Array };

/**
 * The template with the largest inner product, for every probe; in a tie, the first. Both matrices
 * hold one vector after the other. Products are added in double precision, in order, so the scores
 * equal those of the obvious loop to the bit.
 */
export function top1(gallery: Float32Array, probes: Float32Array, dimension: number): Best {
  const search = new PlaintextSearch(probes, dimension);
  search.scan(gallery);
  return search.best();
}

// Four probes against two templates: eight sums fill the registers, and six loads serve eight
// multiplications.
const probesAtOnce = 4;

// A block of templates that stays in the nearest cache while all probes pass over it.
const blockBytes = 16 * 1024;

/** The same for a gallery that comes in parts. */
export class PlaintextSearch {
  readonly #dimension: number;
  readonly #count: number;
  /** Groups of four probes, coordinate by coordinate; the last group is filled up with zeros. */
  readonly #groups: Float64Array;
  readonly #index: Int32Array;
  readonly #score: Float64Array;
  #scanned = 0;

  constructor(probes: Float32Array, dimension: number) {
    this.#dimension = dimension;
    this.#count = vectorCount(probes, dimension);
    const padded = Math.ceil(this.#count / probesAtOnce) * probesAtOnce;
    this.#index = new Int32Array(padded).fill(-1);
    this.#score = new Float64Array(padded).fill(Number.NEGATIVE_INFINITY);
    this.#groups = new Float64Array(padded * dimension);
    for (let probe = 0; probe < this.#count; probe++) {
      const lane = probe % probesAtOnce;
      const group = (probe - lane) * dimension;
      for (let i = 0; i < dimension; i++) {
        this.#groups[group + i * probesAtOnce + lane] = probes[probe * dimension + i];
      }
    }
  }

  /** Processes the next templates of the gallery. */
  scan(templates: Float32Array): void {
    const count = vectorCount(templates, this.#dimension);
    const block = Math.max(2, Math.floor(blockBytes / 4 / this.#dimension));
    for (let start = 0; start < count; start += block) {
      const end = Math.min(start + block, count);
      for (let probe = 0; probe < this.#index.length; probe += probesAtOnce) this.#tile(templates, start, end, probe);
    }
    this.#scanned += count;
  }

  best(): Best {
    return { index: this.#index.slice(0, this.#count), score: this.#score.slice(0, this.#count) };
  }

  #tile(templates: Float32Array, start: number, end: number, probe: number): void {
    const groups = this.#groups;
    const dimension = this.#dimension;
    for (let one = start; one < end; one += 2) {
      // The last template of an odd number is paired with itself, which changes nothing.
      const two = Math.min(one + 1, end - 1);
      let a0 = 0;
      let a1 = 0;
      let a2 = 0;
      let a3 = 0;
      let b0 = 0;
      let b1 = 0;
      let b2 = 0;
      let b3 = 0;
      let a = one * dimension;
      let b = two * dimension;
      let p = probe * dimension;
      for (const stop = a + dimension; a < stop; a++, b++, p += probesAtOnce) {
        const x = templates[a];
        const y = templates[b];
        const p0 = groups[p];
        const p1 = groups[p + 1];
        const p2 = groups[p + 2];
        const p3 = groups[p + 3];
        a0 += x * p0;
        a1 += x * p1;
        a2 += x * p2;
        a3 += x * p3;
        b0 += y * p0;
        b1 += y * p1;
        b2 += y * p2;
        b3 += y * p3;
      }
      this.#offer(probe, one, a0, a1, a2, a3);
      this.#offer(probe, two, b0, b1, b2, b3);
    }
  }

  #offer(probe: number, template: number, s0: number, s1: number, s2: number, s3: number): void {
    const score = this.#score;
    const index = this.#index;
    const position = this.#scanned + template;
    if (s0 > score[probe]) {
      score[probe] = s0;
      index[probe] = position;
    }
    if (s1 > score[probe + 1]) {
      score[probe + 1] = s1;
      index[probe + 1] = position;
    }
    if (s2 > score[probe + 2]) {
      score[probe + 2] = s2;
      index[probe + 2] = position;
    }
    if (s3 > score[probe + 3]) {
      score[probe + 3] = s3;
      index[probe + 3] = position;
    }
  }
}

function vectorCount(vectors: Float32Array, dimension: number): number {
  const count = vectors.length / dimension;
  if (!Number.isInteger(count)) {
    throw new RangeError(`${vectors.length} numbers are not whole vectors of dimension ${dimension}.`);
  }
  return count;
}
