// The truth: what galleries hold, as acknowledged. Records are derived from numbers, so that a
// truth is small and can be stored.

import type { CollectionOptions, Payload } from '@hers/client';
import { vectorOf } from '@hers/client/testing';

export const DIMENSION = 8;
const REVISIONS = 16;

export interface Plain {
  readonly id: string;
  readonly vector: Float32Array;
  readonly payload?: Payload;
}

export const idOf = (person: number) => `person-${person}`;

export function plainOf(person: number, revision: number): Plain {
  const vector = vectorOf(person * REVISIONS + revision, DIMENSION);
  return { id: idOf(person), vector, ...(person % 3 > 0 ? { payload: { person, revision } } : {}) };
}

export type Step =
  | { readonly do: 'create'; readonly name: string; readonly options: CollectionOptions }
  | { readonly do: 'write'; readonly name: string; readonly people: readonly number[]; readonly revision: number }
  | { readonly do: 'delete'; readonly name: string; readonly people: readonly number[] }
  | { readonly do: 'optimize' | 'rotate' | 'purge' | 'drop'; readonly name: string };

export const people = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);

/**
 * The revisions that a record may have; undefined stands for its absence. There is more than one
 * only if a change was running when the process was killed.
 */
export type Possible = readonly (number | undefined)[];

export class Truth {
  readonly options: CollectionOptions;
  readonly #records: Map<number, Possible>;

  constructor(options: CollectionOptions, records: Iterable<readonly [number, Possible]> = []) {
    this.options = options;
    this.#records = new Map(records);
  }

  /** All that may be there, by id. */
  possible(id: string): Plain[] {
    const person = Number(id.slice('person-'.length));
    const found = id === idOf(person) ? (this.#records.get(person) ?? []) : [];
    return found.filter((revision) => revision !== undefined).map((revision) => plainOf(person, revision));
  }

  certain(): number[] {
    return [...this.#records].filter(([, possible]) => !possible.includes(undefined)).map(([person]) => person);
  }

  get(person: number): Possible {
    return this.#records.get(person) ?? [undefined];
  }

  set(person: number, possible: Possible): void {
    if (possible.every((revision) => revision === undefined)) this.#records.delete(person);
    else this.#records.set(person, [...new Set(possible)]);
  }

  copy(): Truth {
    return new Truth(this.options, this.#records);
  }

  toJSON(): {
    options: CollectionOptions;
    records: (number | (number | null)[])[][];
  } {
    const records = [...this.#records].map(([person, possible]) => [person, possible.map((each) => each ?? null)]);
    return { options: this.options, records };
  }

  static from({ options, records }: { options: CollectionOptions; records: [number, (number | null)[]][] }): Truth {
    return new Truth(
      options,
      records.map(([person, possible]) => [person, possible.map((each) => each ?? undefined)]),
    );
  }
}

export type Truths = Map<string, Truth>;

/** After a step: with `isCertain` it was acknowledged, otherwise it may have been executed. */
export function apply(truths: Truths, step: Step, isCertain: boolean): void {
  if (step.do === 'create') {
    if (isCertain) truths.set(step.name, new Truth(step.options));
  } else if (step.do === 'drop') {
    if (isCertain) truths.delete(step.name);
  } else if (step.do === 'write' || step.do === 'delete') {
    const truth = truths.get(step.name)!;
    const now = step.do === 'write' ? step.revision : undefined;
    for (const person of step.people) truth.set(person, isCertain ? [now] : [...truth.get(person), now]);
  }
}
