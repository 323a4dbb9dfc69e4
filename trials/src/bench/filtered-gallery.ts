// A gallery to filter: people with an id of twelve characters, a country, an age, the second in
// which they were enrolled, and tags; and filters whose shares are known from how values are drawn.

import type { Fields, Filter, VectorRecord } from '@hers/client';
import { Random } from '@hers/vectors/random';

export const SCALAR_FIELDS: Fields = { country: 'keyword', age: 'number', enrolled: 'date' };
export const FIELDS: Fields = { ...SCALAR_FIELDS, tags: 'keyword[]' };

const COUNTRIES = 200;
const TAGS = 50;
const MAX_TAGS = 4;
const FIRST_DAY = Date.UTC(2015, 0, 1);
const DAYS = 3653;
const DAY_MS = 86_400_000;

/** The country of this rank: the first is the most frequent. */
const countryOf = (rank: number) => `country ${String(rank).padStart(3, '0')}`;
const tagOf = (rank: number) => `tag ${String(rank).padStart(2, '0')}`;
const dayOf = (day: number, ms = 0) => new Date(FIRST_DAY + day * DAY_MS + ms).toISOString();

/** Ranks from 1 to `count`, the r-th in proportion to 1/r. */
class Zipf {
  readonly #sums: Float64Array;

  constructor(count: number) {
    this.#sums = new Float64Array(count);
    let sum = 0;
    for (let rank = 1; rank <= count; rank++) this.#sums[rank - 1] = sum += 1 / rank;
  }

  draw(random: Random): number {
    const sums = this.#sums;
    const at = random.uniform() * sums[sums.length - 1];
    let [low, high] = [0, sums.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] <= at) low = middle + 1;
      else high = middle;
    }
    return low + 1;
  }
}

export function vectorOf(number: number, dimension: number): Float32Array {
  const random = new Random(1, number);
  return Float32Array.from({ length: dimension }, () => random.normal());
}

export const idOf = (number: number): string => `id${String(number).padStart(10, '0')}`;

const countries = new Zipf(COUNTRIES);
const tags = new Zipf(TAGS);

export function personOf(number: number): {
  readonly country: string;
  readonly age: number;
  readonly enrolled: string;
  readonly tags: readonly string[];
} {
  const random = new Random(2, number);
  const own = new Set(Array.from({ length: random.below(MAX_TAGS) }, () => tagOf(tags.draw(random))));
  return {
    country: countryOf(countries.draw(random)),
    age: random.below(101),
    enrolled: dayOf(0, 1000 * random.below((DAYS * DAY_MS) / 1000)),
    tags: [...own],
  };
}

export function* peopleOf(count: number, dimension: number): Generator<VectorRecord> {
  for (let number = 0; number < count; number++)
    yield { id: idOf(number), vector: vectorOf(number, dimension), payload: { ...personOf(number) } };
}

/**
 * The filters, by name. Those of different numbers let the same records through and are not equal:
 * no answer to one is kept for another.
 */
export const FILTERS: Readonly<Record<string, (number: number) => Filter<typeof FIELDS>>> = {
  // One of a hundred has the country of rank 17.
  keyword: (number) => ({ must: { field: 'country', match: { any: [countryOf(17), `nowhere ${number}`] } } }),
  // 30 of the 101 ages.
  range: (number) => ({ must: { field: 'age', range: { gte: 20, lt: 49.5 + number / 1e6 } } }),
  // A year of ten, and the five most frequent countries, which four of ten records have.
  'date-and-any': (number) => ({
    must: [
      { field: 'enrolled', range: { gte: dayOf(1096), lt: dayOf(1461, -1 - (number % 900)) } },
      { field: 'country', match: { any: [1, 2, 3, 4, 5].map(countryOf) } },
    ],
  }),
  nested: (number) => ({
    should: [
      {
        must: [
          { field: 'country', match: { prefix: 'country 00' } },
          { field: 'age', range: { gte: 18 } },
        ],
      },
      { field: 'enrolled', range: { gte: dayOf(3000, number % 900) } },
    ],
    must_not: { field: 'age', match: { any: [30, 31, 32] } },
  }),
  tags: (number) => ({ must: { field: 'tags', match: { any: [tagOf(3), tagOf(20), `nothing ${number}`] } } }),
};
